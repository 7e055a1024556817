/*
 * What a program sees and gets through the real HIP and HSA runtimes, a line per call: `name result …`.
 * `hipcalls MIB` allocates that much in every way there is, one after another, and frees it again; then it makes
 * streams and a queue with masks of its own. $VGPU_PROBE_HIP names HIP's library. Declarations are facts of
 * hip_runtime_api.h, hsa.h and hsa_ext_amd.h (5.2.3), so that no header of theirs is needed.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define DEVICE_ATTRIBUTE_MULTIPROCESSORS 63 /* hipDeviceAttributeMultiprocessorCount */
#define HSA_AGENT_INFO_DEVICE 17
#define HSA_DEVICE_TYPE_GPU 1
#define HSA_AMD_AGENT_INFO_COMPUTE_UNIT_COUNT 0xa002
#define HSA_AMD_MEMORY_POOL_INFO_SEGMENT 0
#define HSA_AMD_MEMORY_POOL_INFO_GLOBAL_FLAGS 1
#define HSA_AMD_MEMORY_POOL_INFO_SIZE 2
#define HSA_AMD_SEGMENT_GLOBAL 0
#define HSA_COARSE_GRAINED 4
#define HSA_QUEUE_TYPE_MULTI 0

typedef struct {
	uint64_t handle;
} handle_t;

struct extent {
	size_t width, height, depth;
};

struct pitched {
	void *pointer;
	size_t pitch, width, height;
};

static void *hip, *hsa;
static handle_t gpu, pool;

#define HIP(name, ...) (((int (*)())dlsym(hip, #name))(__VA_ARGS__))
#define HSA(name, ...) (((int (*)())dlsym(hsa, #name))(__VA_ARGS__))

static int find_gpu(handle_t agent, void *unused)
{
	int type = 0;

	(void)unused;
	HSA(hsa_agent_get_info, agent, HSA_AGENT_INFO_DEVICE, &type);
	if (type == HSA_DEVICE_TYPE_GPU)
		gpu = agent;
	return 0;
}

static int find_pool(handle_t found, void *unused)
{
	int segment = -1, flags = 0;

	(void)unused;
	HSA(hsa_amd_memory_pool_get_info, found, HSA_AMD_MEMORY_POOL_INFO_SEGMENT, &segment);
	HSA(hsa_amd_memory_pool_get_info, found, HSA_AMD_MEMORY_POOL_INFO_GLOBAL_FLAGS, &flags);
	if (segment == HSA_AMD_SEGMENT_GLOBAL && flags & HSA_COARSE_GRAINED)
		pool = found;
	return 0;
}

static void show_hip(void)
{
	size_t free_bytes = 0, total = 0;
	int units = 0;

	HIP(hipMemGetInfo, &free_bytes, &total);
	printf("total %zu\n", total >> 20);
	HIP(hipDeviceGetAttribute, &units, DEVICE_ATTRIBUTE_MULTIPROCESSORS, 0);
	printf("units %d\n", units);
}

static void allocate(size_t bytes)
{
	struct extent extent = {1 << 20, 1, bytes >> 20};
	struct pitched pitched = {0};
	void *memory = NULL;
	size_t pitch;
	int result;

	result = HIP(hipMalloc, &memory, bytes);
	printf("hipMalloc %d\n", result);
	if (!result)
		HIP(hipFree, memory);
	result = HIP(hipMallocPitch, &memory, &pitch, (size_t)1 << 20, bytes >> 20);
	printf("hipMallocPitch %d\n", result);
	if (!result)
		HIP(hipFree, memory);
	result = ((int (*)(struct pitched *, struct extent))dlsym(hip, "hipMalloc3D"))(&pitched, extent);
	printf("hipMalloc3D %d\n", result);
	if (!result)
		HIP(hipFree, pitched.pointer);
	result = HIP(hipExtMallocWithFlags, &memory, bytes, 0);
	printf("hipExtMallocWithFlags %d\n", result);
	if (!result)
		HIP(hipFree, memory);
	result = HSA(hsa_amd_memory_pool_allocate, pool, bytes, 0, &memory);
	printf("hsa_amd_memory_pool_allocate %d\n", result);
	if (!result)
		HSA(hsa_amd_memory_pool_free, memory);
}

static void show_hsa(void)
{
	unsigned units = 0;
	size_t size = 0;

	HSA(hsa_init);
	HSA(hsa_iterate_agents, find_gpu, NULL);
	HSA(hsa_amd_agent_iterate_memory_pools, gpu, find_pool, NULL);
	HSA(hsa_agent_get_info, gpu, HSA_AMD_AGENT_INFO_COMPUTE_UNIT_COUNT, &units);
	HSA(hsa_amd_memory_pool_get_info, pool, HSA_AMD_MEMORY_POOL_INFO_SIZE, &size);
	printf("hsa-units %u\nhsa-pool %zu\n", units, size >> 20);
}

/* Masks of the program's own: units 0 and 3 for a stream, all there are for a queue. */
static void use_masks(void)
{
	uint32_t stream_mask[4] = {9, 0, 0, 0}, all[16];
	void *stream = NULL, *queue = NULL;
	void *memory = NULL;

	for (int i = 0; i < 16; i++)
		all[i] = UINT32_MAX;
	printf("stream %d\n", HIP(hipExtStreamCreateWithCUMask, &stream, 4, stream_mask));
	HIP(hipMalloc, &memory, (size_t)4096);
	printf("memset %d\n", HIP(hipMemsetAsync, memory, 0, (size_t)4096, stream));
	printf("queue %d\n", HSA(hsa_queue_create, gpu, 4096, HSA_QUEUE_TYPE_MULTI, NULL, NULL, -1, -1, &queue));
	printf("queue-mask %d\n", queue ? HSA(hsa_amd_queue_cu_set_mask, queue, 512, all) : -1);
}

int main(int count, char **arguments)
{
	setbuf(stdout, NULL);
	hip = dlopen(getenv("VGPU_PROBE_HIP"), RTLD_NOW);
	hsa = dlopen("libhsa-runtime64.so.1", RTLD_NOW);
	if (!hip || !hsa || count != 2) {
		fprintf(stderr, "%s\n", hip && hsa ? "usage: hipcalls MIB" : dlerror());
		return 1;
	}
	show_hip();
	show_hsa();
	allocate(strtoull(arguments[1], NULL, 10) << 20);
	use_masks();
	_Exit(0); /* the simulated driver does not run the runtimes' own clean-up */
}
