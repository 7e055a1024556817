/*
 * A request's arguments as the kernel takes them: copied in, as many bytes as the request says, zeroes behind them, and
 * its results copied out in the same length. What is decided on is the copy, and the driver is given the copy, so that
 * results are known here that the program asked too few bytes for.
 */
#ifndef VGPU_REQUEST_H
#define VGPU_REQUEST_H

#include <stdbool.h>

/* No structure of the driver's interfaces comes near it; bytes beyond it would mean nothing to the kernel either. */
#define REQUEST_MAX 512

struct request {
	int fd;
	unsigned code; /* for the driver: in both directions, and large enough for the command's own structure */
	unsigned char bytes[REQUEST_MAX] __attribute__((aligned(8)));
};

/* The arguments as the structure that they are. */
#define ARGUMENTS(request, type) ((type *)(void *)(request)->bytes)

/* Copies arguments in, where the command takes any, for a command whose own structure has `size` bytes. False: EFAULT. */
bool request_take(struct request *request, int fd, unsigned code, const void *arguments, unsigned size, bool takes);

/* Asks the driver. Result as of ioctl(2). */
int request_send(struct request *request);

/* Copies the results of `code` out. 0, or -1 and EFAULT. */
int request_answer(const struct request *request, unsigned code, void *arguments);

/* -1 and errno. */
int request_refuse(int error);

#endif
