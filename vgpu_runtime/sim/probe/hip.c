/* The probe on the real HIP runtime, loaded when the program runs so that it builds without. */
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "hsa.h"
#include "probe.h"

/* From hip_runtime_api.h of HIP 5.2.3, and the same up to 7.2.4; the numbers are its ABI. */
enum { MULTIPROCESSOR_COUNT = 63, FINE_GRAINED = 0x1, ATTACH_GLOBAL = 0x1, TO_CARD = 1, FROM_CARD = 2 };
enum { SUCCESS = 0, OUT_OF_MEMORY = 2 };
#define ROW_BYTES ((size_t)1 << 20)

struct pitched {
	void *pointer;
	size_t pitch, x, y;
};

struct extent {
	size_t width, height, depth;
};

static void *library;
static void *stream;

static void *symbol(const char *name)
{
	void *address = dlsym(library, name);

	if (!address) {
		fprintf(stderr, "the HIP runtime has no %s\n", name);
		exit(1);
	}
	return address;
}

#define HIP(name, ...) ((int (*)(__VA_ARGS__))symbol(#name))

static const char *named(int error)
{
	return ((const char *(*)(int))symbol("hipGetErrorName"))(error);
}

/* Where there is no HIP, the program of the same commands that needs none. */
static const char *without_hip(char **argv)
{
	char path[PATH_MAX + 16];
	ssize_t length = readlink("/proc/self/exe", path, PATH_MAX);
	char *slash;

	fprintf(stderr, "%s; asking the driver itself\n", dlerror());
	if (length > 0) {
		path[length] = 0;
		slash = strrchr(path, '/');
		strcpy(slash + 1, "vgpu-kfd-probe");
		execv(path, argv);
		perror(path);
	}
	return "hipErrorSharedObjectInitFailed";
}

/* Of several releases on a machine, the one that the variable names; otherwise the newest. */
static void open_library(void)
{
	const char *chosen = getenv("VGPU_PROBE_HIP");
	const char *const names[] = {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5"};
	char path[PATH_MAX];

	if (chosen)
		library = dlopen(chosen, RTLD_NOW | RTLD_LOCAL);
	for (size_t i = 0; !chosen && !library && i < sizeof(names) / sizeof(*names); i++) {
		snprintf(path, sizeof(path), "/opt/rocm/lib/%s", names[i]);
		library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
		if (!library)
			library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	}
}

const char *probe_open(char **argv)
{
	int devices = 0;

	setenv("HSA_FORCE_FINE_GRAIN_PCIE", "1", 0); /* fine-grained VRAM, which `ext` asks for, is off by default */
	open_library();
	if (!library)
		return without_hip(argv);
	return named(HIP(hipGetDeviceCount, int *)(&devices));
}

const char *probe_info(int device, struct probe_card *card)
{
	size_t free_bytes = 0;
	size_t total_bytes = 0;
	int error = HIP(hipGetDeviceCount, int *)(&card->devices);

	if (error == SUCCESS)
		error = HIP(hipSetDevice, int)(device);
	if (error == SUCCESS)
		error = HIP(hipMemGetInfo, size_t *, size_t *)(&free_bytes, &total_bytes);
	if (error == SUCCESS)
		error = HIP(hipDeviceGetAttribute, int *, int, int)(&card->units, MULTIPROCESSOR_COUNT, device);
	if (error == SUCCESS)
		error = HIP(hipDeviceGetName, char *, int, int)(card->name, sizeof(card->name), device);
	card->free_bytes = free_bytes;
	card->total_bytes = total_bytes;
	return named(error);
}

/* HIP 5.2.3 crashes on the default stream here, and says success where there is no memory. */
static int pool_alloc(void **pointer, size_t bytes)
{
	int error = HIP(hipStreamCreate, void **)(&stream);

	if (error == SUCCESS)
		error = HIP(hipMallocAsync, void **, size_t, void *)(pointer, bytes, stream);
	return error == SUCCESS && !*pointer ? OUT_OF_MEMORY : error;
}

const char *probe_alloc(int device, const char *how, uint64_t bytes)
{
	struct pitched pitched = {.pointer = NULL};
	void *pointer = NULL;
	size_t pitch;
	int error = HIP(hipSetDevice, int)(device);

	if (error != SUCCESS)
		return named(error);
	if (strcmp(how, "malloc") == 0)
		error = HIP(hipMalloc, void **, size_t)(&pointer, bytes);
	else if (strcmp(how, "pitch") == 0)
		error = HIP(hipMallocPitch, void **, size_t *, size_t, size_t)(&pointer, &pitch, ROW_BYTES, bytes / ROW_BYTES);
	else if (strcmp(how, "3d") == 0)
		error = HIP(hipMalloc3D, struct pitched *, struct extent)(
				&pitched, (struct extent){ROW_BYTES, bytes / ROW_BYTES, 1});
	else if (strcmp(how, "ext") == 0)
		error = HIP(hipExtMallocWithFlags, void **, size_t, unsigned)(&pointer, bytes, FINE_GRAINED);
	else if (strcmp(how, "managed") == 0)
		error = HIP(hipMallocManaged, void **, size_t, unsigned)(&pointer, bytes, ATTACH_GLOBAL);
	else if (strcmp(how, "pool") == 0)
		error = pool_alloc(&pointer, bytes);
	else if (strcmp(how, "hsa") == 0)
		return hsa_pool_alloc(device, bytes);
	else
		return "hipErrorInvalidValue";
	return named(error);
}

const char *probe_copy(int device, uint64_t bytes, bool *intact)
{
	unsigned char *sent = malloc(bytes);
	unsigned char *received = calloc(bytes, 1);
	void *memory = NULL;
	int error = HIP(hipSetDevice, int)(device);

	if (!sent || !received)
		return named(OUT_OF_MEMORY);
	for (uint64_t i = 0; i < bytes; i++)
		sent[i] = (unsigned char)(i * 2654435761u >> 13);
	if (error == SUCCESS)
		error = HIP(hipMalloc, void **, size_t)(&memory, bytes);
	if (error == SUCCESS)
		error = HIP(hipMemcpy, void *, const void *, size_t, int)(memory, sent, bytes, TO_CARD);
	if (error == SUCCESS)
		error = HIP(hipMemcpy, void *, const void *, size_t, int)(received, memory, bytes, FROM_CARD);
	*intact = error == SUCCESS && memcmp(sent, received, bytes) == 0;
	return named(error);
}

const char *probe_queue(int device, const uint32_t *mask, unsigned words)
{
	int error = HIP(hipSetDevice, int)(device);

	if (error != SUCCESS)
		return named(error);
	if (words)
		return named(HIP(hipExtStreamCreateWithCUMask, void **, uint32_t, const uint32_t *)(&stream, words, mask));
	return named(HIP(hipStreamCreate, void **)(&stream));
}

/* Filling memory is a kernel of the runtime's own: no compiler is needed. */
const char *probe_run(unsigned kernels)
{
	void *memory = NULL;
	int error = HIP(hipMalloc, void **, size_t)(&memory, ROW_BYTES);

	for (unsigned i = 0; i < kernels && error == SUCCESS; i++)
		error = HIP(hipMemsetAsync, void *, int, size_t, void *)(memory, 0, ROW_BYTES, stream);
	if (error == SUCCESS)
		error = HIP(hipStreamSynchronize, void *)(stream);
	if (error == SUCCESS)
		error = HIP(hipStreamDestroy, void *)(stream); /* which waits for an interrupt, not for a value */
	return named(error);
}
