/* How large a compute queue's save area is, as a runtime works it out from what the topology says of a card. */
#ifndef SAVE_AREA_H
#define SAVE_AREA_H

#include <stdint.h>

struct shape { /* of the whole card; names as in a node's `properties` */
	uint32_t gfx_target_version;
	uint32_t simd_count;
	uint32_t simd_per_cu;
	uint32_t array_count;
	uint32_t simd_arrays_per_engine;
	uint32_t num_xcc;
	uint32_t lds_size_in_kb;
	uint32_t cwsr_size; /* 0: this kernel does not show it */
	uint32_t ctl_stack_size;
};

struct save_area {
	uint32_t stack;
	uint32_t bytes; /* with the stack, for one XCC */
	uint64_t mapping; /* for all XCCs, with the debugger's part */
};

struct save_area save_area_of(const struct shape *shape);

#endif
