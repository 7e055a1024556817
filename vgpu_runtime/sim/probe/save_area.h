/* Computes the size of a compute queue's save area as a ROCm runtime does, from a card's properties in the topology. */
#ifndef SAVE_AREA_H
#define SAVE_AREA_H

#include <stdint.h>

struct shape { /* properties of the whole card, with their names in the node's file `properties` */
	uint32_t gfx_target_version;
	uint32_t simd_count;
	uint32_t simd_per_cu;
	uint32_t array_count;
	uint32_t simd_arrays_per_engine;
	uint32_t num_xcc;
	uint32_t lds_size_in_kb;
	uint32_t cwsr_size; /* 0 if the kernel does not show it */
	uint32_t ctl_stack_size;
};

struct save_area {
	uint32_t stack;
	uint32_t bytes; /* for one XCC, stack included */
	uint64_t mapping; /* bytes to map for all XCCs, the debugger's part included */
};

struct save_area save_area_of(const struct shape *shape);

#endif
