/*
 * A program that looks at its cards as any user's program does, and says in JSON what it found.
 *
 * The commands are in command.c. They run on HIP (hip.c: vgpu-probe) or, where that is not installed, on the kernel's
 * interface alone (kfd.c: vgpu-kfd-probe). Functions return the name of a hipError_t; "hipSuccess" is good.
 */
#ifndef PROBE_H
#define PROBE_H

#include <stdbool.h>
#include <stdint.h>

#define PROBE_MASK_WORDS 32

struct probe_card {
	int devices; /* how many the program sees; the rest is about one of them */
	uint64_t total_bytes;
	uint64_t free_bytes;
	int units;
	char name[256];
};

/* May run another program in this one's place. */
const char *probe_open(char **argv);
const char *probe_info(int device, struct probe_card *card);
const char *probe_alloc(int device, const char *how, uint64_t bytes); /* kept until the process ends */
const char *probe_queue(int device, const uint32_t *mask, unsigned words); /* `words` 0: no mask of its own */
const char *probe_run(unsigned kernels); /* on that queue, until they are done */

/* To the card and back; `intact`: what came back is what went. */
const char *probe_copy(int device, uint64_t bytes, bool *intact);

bool probe_failed(const char *error);

#endif
