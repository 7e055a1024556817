/*
 * The functions of the probes, two programs that use cards as any user's program does, and print their findings as
 * JSON.
 *
 * command.c has the commands. vgpu-probe calls HIP (hip.c); vgpu-kfd-probe, for machines without HIP, calls only the
 * kernel's interface (kfd.c). Each function that returns text returns the name of a hipError_t: "hipSuccess" on
 * success, never NULL.
 */
#ifndef PROBE_H
#define PROBE_H

#include <stdbool.h>
#include <stdint.h>

#define PROBE_MASK_WORDS 32

struct probe_card {
	int devices; /* the number of cards that the program sees; the other fields are about one card */
	uint64_t total_bytes;
	uint64_t free_bytes;
	int units;
	char name[256];
};

/*
 * Opens the runtime; returns "hipSuccess" or an error's name. Without HIP, vgpu-probe becomes vgpu-kfd-probe (execv).
 */
const char *probe_open(char **argv);
const char *probe_info(int device, struct probe_card *card);
const char *probe_alloc(int device, const char *how, uint64_t bytes); /* the memory is held until the process ends */
const char *probe_queue(int device, const uint32_t *mask, unsigned words); /* 0 `words`: the queue gets no mask */
const char *probe_run(unsigned kernels); /* runs kernels on that queue, and waits for their end */

/*
 * Copies bytes to the card and back; returns "hipSuccess" or an error's name. `intact` is true if the bytes came back
 * unchanged.
 */
const char *probe_copy(int device, uint64_t bytes, bool *intact);

bool probe_failed(const char *error);

#endif
