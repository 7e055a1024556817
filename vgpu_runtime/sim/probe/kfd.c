/*
 * The probe on the kernel's interface alone, for machines without a HIP runtime. It does in a few calls what the
 * runtime does in many: find the card in the topology, open its render node, take memory, create a queue.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../driver/kfd_abi.h"
#include "probe.h"
#include "save_area.h"

#define NODES "/sys/devices/virtual/kfd/kfd/topology/nodes"
#define MAX_NODES 64
#define RING_BYTES 4096
#define WRITABLE (UINT32_C(1) << 31)
#define MEMORY_FLAGS (KFD_MEM_VRAM | WRITABLE)

#define REQUEST(number, type) _IOWR(KFD_IOC_TYPE, number, type)

static int kfd = -1;
static int node_used; /* of the card in use */
static uint32_t gpu_id;
static struct ring {
	uint64_t packets[RING_BYTES / 8];
	uint64_t read_index;
	uint64_t write_index;
	int64_t signal[8];
} *ring;

static const char *named(int error)
{
	switch (error) {
	case 0:
		return "hipSuccess";
	case ENOMEM:
		return "hipErrorOutOfMemory";
	case EINVAL:
		return "hipErrorInvalidValue";
	case ENODEV:
	case ENOENT:
		return "hipErrorNoDevice";
	default:
		return "hipErrorUnknown";
	}
}

static int call(unsigned long request, void *args)
{
	return ioctl(kfd, request, args) < 0 ? errno : 0;
}

/* A value of a node's file; 0 where there is none. `key` NULL: the file is the value. */
static uint64_t topology(int node, const char *file, const char *key)
{
	char path[256];
	char name[128];
	unsigned long value = 0;
	bool found = false;
	FILE *stream;

	snprintf(path, sizeof(path), NODES "/%d/%s", node, file);
	stream = fopen(path, "r");
	if (!stream)
		return 0;
	if (!key)
		found = fscanf(stream, "%lu", &value) == 1;
	while (key && !found && fscanf(stream, "%127s %lu", name, &value) == 2)
		found = strcmp(name, key) == 0;
	fclose(stream);
	return found ? value : 0;
}

/* The node of the `device`-th card that may be used, or -1; counts them all. */
static int find(int device, int *devices)
{
	int node_found = -1;

	*devices = 0;
	for (int node = 0; node < MAX_NODES; node++)
		if (topology(node, "gpu_id", NULL) && (*devices)++ == device)
			node_found = node;
	return node_found;
}

const char *probe_open(char **argv)
{
	(void)argv;
	kfd = open("/dev/kfd", O_RDWR | O_CLOEXEC);
	return kfd < 0 ? named(errno) : "hipSuccess";
}

/* Takes the card into use: its address space comes with its render node. */
static int use(int device)
{
	struct kfd_acquire_vm args;
	char path[64];
	int devices;
	int node = find(device, &devices);
	int render;

	if (node < 0)
		return devices ? EINVAL : ENODEV;
	snprintf(path, sizeof(path), "/dev/dri/renderD%lu", topology(node, "properties", "drm_render_minor"));
	render = open(path, O_RDWR | O_CLOEXEC);
	if (render < 0)
		return errno;
	node_used = node;
	gpu_id = (uint32_t)topology(node, "gpu_id", NULL);
	args = (struct kfd_acquire_vm){.drm_fd = (uint32_t)render, .gpu_id = gpu_id};
	return call(_IOW(KFD_IOC_TYPE, KFD_NR_ACQUIRE_VM, struct kfd_acquire_vm), &args);
}

/* HIP counts no unit that the variable leaves out, and all of them where it leaves out all. */
static int masked(const char *mask, int units)
{
	size_t digits = strlen(mask);
	int count = 0;

	for (int unit = 0; unit < units && (size_t)unit / 4 < digits; unit++) {
		const char digit[2] = {mask[digits - 1 - (size_t)unit / 4], 0};

		count += (int)strtol(digit, NULL, 16) >> unit % 4 & 1;
	}
	return count ? count : units;
}

const char *probe_info(int device, struct probe_card *card)
{
	struct kfd_available_memory available = {.gpu_id = 0};
	int node = find(device, &card->devices);
	uint64_t simds_per_unit;
	FILE *name;
	char path[256];

	if (node < 0)
		return named(card->devices ? EINVAL : ENODEV);
	available.gpu_id = (uint32_t)topology(node, "gpu_id", NULL);
	simds_per_unit = topology(node, "properties", "simd_per_cu");
	card->total_bytes = topology(node, "mem_banks/0/properties", "size_in_bytes");
	card->units = simds_per_unit ? (int)(topology(node, "properties", "simd_count") / simds_per_unit) : 0;
	if (getenv("ROC_GLOBAL_CU_MASK"))
		card->units = masked(getenv("ROC_GLOBAL_CU_MASK"), card->units);
	snprintf(path, sizeof(path), NODES "/%d/name", node);
	name = fopen(path, "r");
	if (name) {
		if (fscanf(name, "%255s", card->name) != 1)
			card->name[0] = 0;
		fclose(name);
	}
	int error = call(REQUEST(KFD_NR_AVAILABLE_MEMORY, struct kfd_available_memory), &available);

	card->free_bytes = available.available;
	return named(error);
}

/* However it is asked for, at this level it is one call. */
const char *probe_alloc(int device, const char *how, uint64_t bytes)
{
	struct kfd_alloc_memory args = {.size = bytes, .flags = MEMORY_FLAGS};
	int error = use(device);

	(void)how;
	args.gpu_id = gpu_id;
	return named(error ? error : call(REQUEST(KFD_NR_ALLOC_MEMORY, struct kfd_alloc_memory), &args));
}

/* Copying is the runtime's work: an engine's ring and packets are more than a few calls. */
const char *probe_copy(int device, uint64_t bytes, bool *intact)
{
	(void)device, (void)bytes, (void)intact;
	return "hipErrorNotSupported";
}

static uint32_t shape(const char *key)
{
	return (uint32_t)topology(node_used, "properties", key);
}

/* Memory for the queue's waves when it is preempted: as much as the kernel demands. */
static int add_save_area(struct kfd_create_queue *args)
{
	const struct shape card = {
		.gfx_target_version = shape("gfx_target_version"), .simd_count = shape("simd_count"),
		.simd_per_cu = shape("simd_per_cu"), .array_count = shape("array_count"),
		.simd_arrays_per_engine = shape("simd_arrays_per_engine"), .num_xcc = shape("num_xcc"),
		.lds_size_in_kb = shape("lds_size_in_kb"),
		.cwsr_size = shape("cwsr_size"), .ctl_stack_size = shape("ctl_stack_size"),
	};
	struct save_area area = save_area_of(&card);
	struct kfd_alloc_memory memory = {.size = area.mapping, .gpu_id = gpu_id, .flags = KFD_MEM_GTT | WRITABLE};
	struct kfd_map_memory map = {.device_ids_ptr = (uintptr_t)&gpu_id, .n_devices = 1};
	void *place = mmap(NULL, area.mapping, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	int error;

	if (place == MAP_FAILED)
		return errno;
	memory.va_addr = args->ctx_save_restore_address = (uintptr_t)place;
	args->ctx_save_restore_size = area.bytes;
	args->ctl_stack_size = area.stack;
	error = call(REQUEST(KFD_NR_ALLOC_MEMORY, struct kfd_alloc_memory), &memory);
	map.handle = memory.handle;
	return error ? error : call(REQUEST(KFD_NR_MAP_MEMORY, struct kfd_map_memory), &map);
}

const char *probe_queue(int device, const uint32_t *mask, unsigned words)
{
	struct kfd_create_queue args = {.ring_size = RING_BYTES, .queue_type = KFD_QUEUE_COMPUTE_AQL, .queue_percentage = 100};
	struct kfd_set_cu_mask mask_args = {.num_cu_mask = words * 32, .cu_mask_ptr = (uintptr_t)mask};
	int error = use(device);

	if (error)
		return named(error);
	ring = mmap(NULL, sizeof(*ring), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (ring == MAP_FAILED)
		return named(errno);
	args.gpu_id = gpu_id;
	args.ring_base_address = (uintptr_t)ring->packets;
	args.read_pointer_address = (uintptr_t)&ring->read_index;
	args.write_pointer_address = (uintptr_t)&ring->write_index;
	error = add_save_area(&args);
	if (!error)
		error = call(REQUEST(KFD_NR_CREATE_QUEUE, struct kfd_create_queue), &args);
	mask_args.queue_id = args.queue_id;
	if (!error && words)
		error = call(KFD_SET_CU_MASK, &mask_args);
	return named(error);
}

/* Dispatches, of which only the simulated driver takes no notice of what there is to execute. */
const char *probe_run(unsigned kernels)
{
	const uint16_t dispatch = 2;

	for (unsigned i = 0; i < kernels; i++) {
		uint64_t *packet = &ring->packets[i * 8 % (RING_BYTES / 8)];

		while (i >= __atomic_load_n(&ring->read_index, __ATOMIC_ACQUIRE) + RING_BYTES / 64)
			usleep(100);
		ring->signal[1] = 1;
		memset(packet, 0, 64);
		packet[7] = i + 1 == kernels ? (uintptr_t)ring->signal : 0;
		__atomic_store_n((uint16_t *)packet, dispatch, __ATOMIC_RELEASE);
		__atomic_store_n(&ring->write_index, i + 1, __ATOMIC_RELEASE);
	}
	while (__atomic_load_n(&ring->signal[1], __ATOMIC_ACQUIRE) > 0)
		usleep(100);
	return "hipSuccess";
}
