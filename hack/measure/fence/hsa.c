/* The real HSA runtime 5.2.3 (ROCr), linked. Declarations are facts of its hsa.h and hsa_ext_amd.h. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "way.h"

enum { SUCCESS = 0, BREAK = 1, AGENT_INFO_DEVICE = 17, DEVICE_TYPE_GPU = 1, QUEUE_MULTI = 0, QUEUE_PACKETS = 1024 };
enum { POOL_INFO_SEGMENT = 0, POOL_INFO_GLOBAL_FLAGS = 1, SEGMENT_GLOBAL = 0, COARSE_GRAINED = 4, MASK_BITS = 320 };

typedef struct {
	uint64_t handle;
} object; /* an agent or a pool */

int hsa_init(void);
int hsa_iterate_agents(int (*visit)(object, void *), void *data);
int hsa_agent_get_info(object agent, int attribute, void *value);
int hsa_amd_agent_iterate_memory_pools(object agent, int (*visit)(object, void *), void *data);
int hsa_amd_memory_pool_get_info(object pool, int attribute, void *value);
int hsa_amd_memory_pool_allocate(object pool, size_t bytes, uint32_t flags, void **pointer);
int hsa_queue_create(object agent, uint32_t packets, int type, void *called, void *data, uint32_t private_bytes,
		uint32_t group_bytes, void **queue);
int hsa_amd_queue_cu_set_mask(void *queue, uint32_t bits, const uint32_t *mask);

static int visit_agent(object agent, void *data)
{
	uint32_t type = 0;

	hsa_agent_get_info(agent, AGENT_INFO_DEVICE, &type);
	if (type != DEVICE_TYPE_GPU)
		return SUCCESS;
	*(object *)data = agent;
	return BREAK;
}

static int visit_pool(object pool, void *data)
{
	uint32_t segment = 0, flags = 0;

	hsa_amd_memory_pool_get_info(pool, POOL_INFO_SEGMENT, &segment);
	hsa_amd_memory_pool_get_info(pool, POOL_INFO_GLOBAL_FLAGS, &flags);
	if (segment != SEGMENT_GLOBAL || !(flags & COARSE_GRAINED))
		return SUCCESS;
	*(object *)data = pool;
	return BREAK;
}

static int called(const char *call, object card, size_t bytes)
{
	uint32_t all[MASK_BITS / 32];
	object pool = {0};
	void *made = NULL;
	int error;

	memset(all, 0xff, sizeof(all));
	if (!strcmp(call, "hsa_amd_memory_pool_allocate")) {
		hsa_amd_agent_iterate_memory_pools(card, visit_pool, &pool);
		return hsa_amd_memory_pool_allocate(pool, bytes, 0, &made);
	}
	error = hsa_queue_create(card, QUEUE_PACKETS, QUEUE_MULTI, NULL, NULL, UINT32_MAX, UINT32_MAX, &made);
	if (!error && !strcmp(call, "hsa_amd_queue_cu_set_mask"))
		error = hsa_amd_queue_cu_set_mask(made, MASK_BITS, all);
	return error;
}

const char *take(const char *call, unsigned long bytes)
{
	static char text[32];
	object card = {0};
	int error = hsa_init();

	if (!error && hsa_iterate_agents(visit_agent, &card) != BREAK)
		return "no card";
	if (!error)
		error = called(call, card, bytes);
	snprintf(text, sizeof(text), "HSA status %#x", (unsigned)error);
	return error ? text : "taken";
}
