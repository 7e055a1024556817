/*
 * Copies a request's arguments and results as the kernel does: as many bytes as the request's size says, and zeroes
 * after them. The library decides on its own copy and passes this copy to the driver. So a program cannot change the
 * arguments after the decision, and the library sees all results, also those for which the program's size is too small.
 */
#ifndef VGPU_REQUEST_H
#define VGPU_REQUEST_H

#include <stdbool.h>

/*
 * The most bytes that are copied: every structure of the driver's interfaces is much smaller, and the kernel ignores
 * further bytes too.
 */
#define REQUEST_MAX 512

struct request {
	int fd;
	unsigned code; /* as the driver gets it: both directions, and at least the size of the command's structure */
	unsigned char bytes[REQUEST_MAX] __attribute__((aligned(8)));
};

/* The copied arguments as a pointer to a structure of this type. */
#define ARGUMENTS(request, type) ((type *)(void *)(request)->bytes)

/*
 * Fills `request` with the program's arguments, if the command `takes` any; the command's structure has `size` bytes.
 * Returns true, or false with errno EFAULT if the arguments cannot be read.
 */
bool request_take(struct request *request, int fd, unsigned code, const void *arguments, unsigned size, bool takes);

/* Sends the request to the driver; returns as ioctl(2): 0, or -1 with errno set. */
int request_send(struct request *request);

/* Copies the results to the program; returns 0, or -1 with EFAULT. */
int request_answer(const struct request *request, unsigned code, void *arguments);

/* Sets errno to `error`, and returns -1. */
int request_refuse(int error);

#endif
