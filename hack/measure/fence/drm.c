/* The real libdrm, linked: the render node's way to card memory, past KFD. Declarations are facts of its amdgpu.h. */
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "way.h"

enum { DOMAIN_VRAM = 4, EXPORT_DMA_BUF = 2, PAGE = 4096, CHUNK_COMMANDS = 1, ENGINE_COMPUTE = 1, ONE_PACKET = 64 };

struct wish {
	uint64_t bytes, alignment;
	uint32_t heap;
	uint64_t flags;
};

struct chunk { /* struct drm_amdgpu_cs_chunk */
	uint32_t id, words;
	uint64_t data;
};

struct commands { /* struct drm_amdgpu_cs_chunk_ib */
	uint32_t pad, flags;
	uint64_t address;
	uint32_t bytes, engine, instance, ring;
};

int amdgpu_device_initialize(int fd, uint32_t *major, uint32_t *minor, void **device);
int amdgpu_bo_alloc(void *device, struct wish *wish, void **buffer);
int amdgpu_bo_export(void *buffer, int type, uint32_t *handle);
int amdgpu_bo_free(void *buffer);
int amdgpu_cs_ctx_create(void *device, void **context);
int amdgpu_cs_submit_raw2(void *device, void *context, uint32_t buffers, int count, struct chunk *chunks, uint64_t *done);

static int card(void **device)
{
	uint32_t major, minor;
	char path[] = "/dev/dri/renderD128";
	int fd = open(path, O_RDWR | O_CLOEXEC);

	return fd < 0 ? -1 : amdgpu_device_initialize(fd, &major, &minor, device);
}

/* The buffer lives on in the DMA-buf alone. */
static int exported(void *buffer)
{
	uint32_t handle;

	return amdgpu_bo_export(buffer, EXPORT_DMA_BUF, &handle) || amdgpu_bo_free(buffer);
}

/* Work for the card's compute engine, past all queues of KFD. */
static int submitted(void *device)
{
	struct commands commands = {.bytes = ONE_PACKET, .engine = ENGINE_COMPUTE};
	struct chunk chunk = {CHUNK_COMMANDS, sizeof(commands) / 4, (uintptr_t)&commands};
	void *context = NULL;
	uint64_t done;

	return amdgpu_cs_ctx_create(device, &context) || amdgpu_cs_submit_raw2(device, context, 0, 1, &chunk, &done);
}

const char *take(const char *call, unsigned long bytes)
{
	static void *device;
	void *made = NULL;
	struct wish wish = {.bytes = bytes, .alignment = PAGE, .heap = DOMAIN_VRAM};

	if (!device && card(&device))
		return "no render node";
	if (!strcmp(call, "amdgpu_cs_submit_raw2"))
		return submitted(device) ? "refused" : "taken";
	if (amdgpu_bo_alloc(device, &wish, &made))
		return "out of memory";
	if (!strcmp(call, "amdgpu_bo_export") && exported(made))
		return "not exported";
	return "taken";
}
