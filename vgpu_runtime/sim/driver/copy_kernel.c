/*
 * HIP's own kernel that copies memory, __amd_rocclr_copyBuffer: HIP 7 copies with it between host and card on gfx90a,
 * where HIP 5 and 6 use the copy engines. It is recognised by its arguments, which depend on each other and on the
 * dispatch. Layouts: HSA Platform System Architecture Specification 1.2, section 2.9; clr, rocclr/device/blitcl.cpp.
 */
#include <string.h>

#include "simkfd.h"
#include "user_memory.h"

struct dispatch {
	uint16_t header;
	uint16_t setup;
	uint16_t workgroup[3];
	uint16_t reserved;
	uint32_t grid[3];
	uint32_t private_bytes;
	uint32_t group_bytes;
	uint64_t kernel;
	uint64_t arguments;
	uint64_t reserved2;
	uint64_t completion;
};

struct copy {
	uint64_t from;
	uint64_t to;
	uint64_t bytes;
	uint32_t rest; /* bytes behind the last whole element */
	uint32_t element; /* bytes that a work item copies at once */
	uint64_t end; /* of the whole elements */
	uint32_t step; /* elements that all work items copy at once */
	uint32_t workgroup;
};

static bool is_copy(const struct copy *copy, const struct dispatch *dispatch)
{
	return (copy->element == 4 || copy->element == 16) && copy->rest < copy->element && copy->rest <= copy->bytes &&
		copy->end == copy->to + copy->bytes - copy->rest && copy->step == dispatch->grid[0] &&
		copy->workgroup == dispatch->workgroup[0];
}

void sim_copy_kernel(const void *packet)
{
	const struct dispatch *dispatch = packet;
	struct copy copy;

	if (dispatch->arguments && user_read(&copy, dispatch->arguments, sizeof(copy)) && is_copy(&copy, dispatch))
		memmove(sim_memory_cpu(copy.to), sim_memory_cpu(copy.from), copy.bytes);
}
