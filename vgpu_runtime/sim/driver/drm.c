/*
 * The DRM nodes: enough for libdrm to open a card and look up its marketing name, memory (gem.c), what is asked about
 * it, and submissions, which are logged and not executed. Layouts: Linux, include/uapi/drm/drm.h and amdgpu_drm.h.
 */
#include <errno.h>
#include <string.h>

#include "../../include/vgpu_drm.h"
#include "simkfd.h"
#include "user_memory.h"

#define NR_VERSION 0x00
#define NR_GET_CLIENT 0x05
#define NR_AMDGPU_CTX 0x42
#define AMDGPU_MAJOR 3
#define INFO_ACCEL_WORKING 0x00
#define INFO_DEVICE 0x16
#define FAMILY_AI 141 /* from this family on, libdrm reads no registers */
#define MAX_CHUNKS 64
#define MAX_ARGUMENTS 64 /* of all commands here, and more than any needs */

struct drm_text {
	uint64_t length; /* room for; result: of the text */
	uint64_t text_ptr;
};

struct drm_version {
	int32_t major, minor, patch, pad;
	struct drm_text name, date, description;
};

struct drm_client {
	int32_t index;
	int32_t authenticated;
	uint64_t pid, uid, magic, requests;
};

struct amdgpu_context {
	uint32_t op, flags, id, priority;
};

struct info_device { /* how it begins */
	uint32_t device_id, chip_revision, external_revision, pci_revision, family;
};

static int answer(struct drm_text *out, const char *text)
{
	uint64_t length = strlen(text), room = out->length < length ? out->length : length;

	out->length = length;
	return !out->text_ptr || !room || user_write(out->text_ptr, text, room) ? 0 : -EFAULT;
}

static int version(struct drm_version *args)
{
	args->major = AMDGPU_MAJOR;
	args->minor = args->patch = 0;
	return answer(&args->name, "amdgpu") || answer(&args->date, "0") || answer(&args->description, "simulated")
		       ? -EFAULT
		       : 0;
}

static int info(int card, const struct amdgpu_info *args)
{
	uint64_t total = sim_world()->cards[card].vram_bytes, used = total - sim_vram_available(card);
	struct amdgpu_heap heap = {total, total, used, total / 4 * 3};
	struct amdgpu_vram_gtt sizes = {total, total, total};
	struct amdgpu_memory memory = {heap, heap, heap};
	struct info_device device = {.device_id = sim_world()->cards[card].device, .family = FAMILY_AI};
	unsigned char result[4096] = {0};
	const uint32_t yes = 1;
	uint32_t bytes = args->result_bytes < sizeof(result) ? args->result_bytes : (uint32_t)sizeof(result);

	if (args->query == INFO_ACCEL_WORKING)
		memcpy(result, &yes, sizeof(yes));
	else if (args->query == INFO_DEVICE)
		memcpy(result, &device, sizeof(device));
	else if (args->query == AMDGPU_INFO_VRAM_USAGE || args->query == AMDGPU_INFO_VIS_VRAM_USAGE)
		memcpy(result, &used, sizeof(used));
	else if (args->query == AMDGPU_INFO_VRAM_GTT)
		memcpy(result, &sizes, sizeof(sizes));
	else if (args->query == AMDGPU_INFO_MEMORY)
		memcpy(result, &memory, sizeof(memory));
	return user_write(args->result_ptr, result, bytes) ? 0 : -EFAULT;
}

static int submit(int card, const struct amdgpu_cs *args)
{
	struct amdgpu_chunk_ib buffer;
	struct amdgpu_chunk chunk;
	uint64_t at;

	if (args->num_chunks == 0 || args->num_chunks > MAX_CHUNKS)
		return -EINVAL;
	for (uint32_t i = 0; i < args->num_chunks; i++) {
		if (!user_read(&at, args->chunks_ptr + i * sizeof(at), sizeof(at)) || !user_read(&chunk, at, sizeof(chunk)))
			return -EFAULT;
		if (chunk.id != AMDGPU_CHUNK_IB)
			continue;
		if (!user_read(&buffer, chunk.data_ptr, sizeof(buffer)))
			return -EFAULT;
		sim_log("submit card=%d engine=%u", card, buffer.ip_type);
	}
	return 0;
}

/* The size and direction of each command. */
static unsigned definition(unsigned number)
{
	switch (number) {
#define COMMAND(nr, direction, type) \
	case nr: \
		return direction(DRM_IOC_TYPE, nr, type)
		COMMAND(NR_VERSION, _IOWR, struct drm_version);
		COMMAND(NR_GET_CLIENT, _IOWR, struct drm_client);
		COMMAND(DRM_NR_GEM_CLOSE, _IOW, struct drm_handle);
		COMMAND(DRM_NR_PRIME_HANDLE_TO_FD, _IOWR, struct drm_prime);
		COMMAND(DRM_NR_PRIME_FD_TO_HANDLE, _IOWR, struct drm_prime);
		COMMAND(DRM_NR_AMDGPU_GEM_CREATE, _IOWR, union amdgpu_gem_create);
		COMMAND(NR_AMDGPU_CTX, _IOWR, struct amdgpu_context);
		COMMAND(DRM_NR_AMDGPU_CS, _IOWR, struct amdgpu_cs);
		COMMAND(DRM_NR_AMDGPU_INFO, _IOW, struct amdgpu_info);
		COMMAND(DRM_NR_AMDGPU_GEM_OP, _IOWR, struct amdgpu_gem_op);
		COMMAND(DRM_NR_AMDGPU_USERQ, _IOWR, struct amdgpu_userq);
#undef COMMAND
	default:
		return 0;
	}
}

static int carry_out(int fd, int card, unsigned number, void *args)
{
	switch (number) {
	case NR_VERSION:
		return version(args);
	case NR_GET_CLIENT:
		((struct drm_client *)args)->authenticated = 1;
		return 0;
	case DRM_NR_GEM_CLOSE:
		return sim_gem_close(fd, card, args);
	case DRM_NR_PRIME_HANDLE_TO_FD:
		return sim_gem_export(fd, card, args);
	case DRM_NR_PRIME_FD_TO_HANDLE:
		return sim_gem_import(fd, card, args);
	case DRM_NR_AMDGPU_GEM_CREATE:
		return sim_gem_create(fd, card, args);
	case NR_AMDGPU_CTX:
		((struct amdgpu_context *)args)->op = 1; /* the new context's id, where one is made */
		return 0;
	case DRM_NR_AMDGPU_CS:
		return submit(card, args);
	case DRM_NR_AMDGPU_INFO:
		return info(card, args);
	case DRM_NR_AMDGPU_GEM_OP:
		return sim_gem_op(fd, card, args);
	case DRM_NR_AMDGPU_USERQ:
		sim_log("user-queue card=%d op=%u", card, ((struct amdgpu_userq *)args)->op);
		return 0;
	default:
		return -EINVAL;
	}
}

/*
 * drm_ioctl's way: the number alone decides; arguments come in and go out in the request's size and where both its
 * direction and the command's say so, with zeroes behind those that come in.
 */
int sim_drm_ioctl(int fd, int card, unsigned request, uint64_t args)
{
	_Alignas(8) unsigned char data[MAX_ARGUMENTS + (1 << _IOC_SIZEBITS)] = {0};
	unsigned defined = definition(_IOC_NR(request));
	unsigned direction = _IOC_DIR(request) & _IOC_DIR(defined);
	int result;

	if (!defined)
		return -EINVAL;
	if (direction & _IOC_WRITE && !user_read(data, args, _IOC_SIZE(request)))
		return -EFAULT;
	result = carry_out(fd, card, _IOC_NR(request), data);
	if (direction & _IOC_READ && !user_write(args, data, _IOC_SIZE(request)))
		result = -EFAULT;
	return result;
}
