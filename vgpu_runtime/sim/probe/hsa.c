/* Constants and types from ROCr 5.2.3's hsa.h and hsa_ext_amd.h; the numbers are its ABI. */
#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>

#include "hsa.h"

enum { STATUS_SUCCESS = 0, STATUS_BREAK = 1, STATUS_INVALID_ALLOCATION = 0x1003, STATUS_OUT_OF_RESOURCES = 0x1008 };
enum { AGENT_INFO_DEVICE = 17, DEVICE_TYPE_GPU = 1 };
enum { POOL_INFO_SEGMENT = 0, POOL_INFO_GLOBAL_FLAGS = 1, SEGMENT_GLOBAL = 0, COARSE_GRAINED = 4 };

typedef struct {
	uint64_t handle;
} object; /* an agent or a pool */

static struct {
	int (*init)(void);
	int (*iterate_agents)(int (*)(object, void *), void *);
	int (*agent_info)(object, int, void *);
	int (*iterate_pools)(object, int (*)(object, void *), void *);
	int (*pool_info)(object, int, void *);
	int (*allocate)(object, size_t, uint32_t, void **);
} hsa;

struct search {
	int remaining; /* GPUs to pass over */
	object found;
};

static int visit_agent(object agent, void *data)
{
	struct search *search = data;
	uint32_t type = 0;

	hsa.agent_info(agent, AGENT_INFO_DEVICE, &type);
	if (type != DEVICE_TYPE_GPU || search->remaining-- > 0)
		return STATUS_SUCCESS;
	search->found = agent;
	return STATUS_BREAK;
}

static int visit_pool(object pool, void *data)
{
	uint32_t segment = 0;
	uint32_t flags = 0;

	hsa.pool_info(pool, POOL_INFO_SEGMENT, &segment);
	hsa.pool_info(pool, POOL_INFO_GLOBAL_FLAGS, &flags);
	if (segment != SEGMENT_GLOBAL || !(flags & COARSE_GRAINED))
		return STATUS_SUCCESS;
	*(object *)data = pool;
	return STATUS_BREAK;
}

static int load(void)
{
	void *library = dlopen("libhsa-runtime64.so.1", RTLD_NOW | RTLD_LOCAL);

	if (!library)
		return 0;
	*(void **)&hsa.init = dlsym(library, "hsa_init");
	*(void **)&hsa.iterate_agents = dlsym(library, "hsa_iterate_agents");
	*(void **)&hsa.agent_info = dlsym(library, "hsa_agent_get_info");
	*(void **)&hsa.iterate_pools = dlsym(library, "hsa_amd_agent_iterate_memory_pools");
	*(void **)&hsa.pool_info = dlsym(library, "hsa_amd_memory_pool_get_info");
	*(void **)&hsa.allocate = dlsym(library, "hsa_amd_memory_pool_allocate");
	return hsa.init && hsa.iterate_agents && hsa.agent_info && hsa.iterate_pools && hsa.pool_info && hsa.allocate;
}

const char *hsa_pool_alloc(int device, uint64_t bytes)
{
	struct search gpu = {.remaining = device};
	object pool = {0};
	void *pointer;
	int status;

	if (!load() || hsa.init() != STATUS_SUCCESS)
		return "hipErrorNotInitialized";
	if (hsa.iterate_agents(visit_agent, &gpu) != STATUS_BREAK)
		return "hipErrorInvalidDevice";
	if (hsa.iterate_pools(gpu.found, visit_pool, &pool) != STATUS_BREAK)
		return "hipErrorNotSupported";
	status = hsa.allocate(pool, bytes, 0, &pointer);
	if (status == STATUS_SUCCESS)
		return "hipSuccess";
	if (status == STATUS_OUT_OF_RESOURCES || status == STATUS_INVALID_ALLOCATION)
		return "hipErrorOutOfMemory";
	return "hipErrorUnknown";
}
