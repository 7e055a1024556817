/*
 * Memory that is made on a render node (libdrm, Vulkan, VA-API) is charged to the node's card as KFD's is. Work that is
 * submitted there for compute units is refused: only a queue of KFD can be held to the slice's units. Copying and video
 * engines are no compute units and stay free.
 */
#include <errno.h>

#include "files.h"
#include "gem.h"
#include "held.h"
#include "real.h"
#include "slice.h"
#include "user_memory.h"
#include "vgpu_drm.h"

#define PAGE_BYTES UINT64_C(4096)
#define MAX_CHUNKS 256 /* of a submission; libdrm and Mesa send fewer than 20 */

const unsigned char gem_sizes[1 << _IOC_NRBITS] = {
	[DRM_NR_GEM_CLOSE] = sizeof(struct drm_handle),
	[DRM_NR_GEM_FLINK] = sizeof(struct drm_handle),
	[DRM_NR_PRIME_HANDLE_TO_FD] = sizeof(struct drm_prime),
	[DRM_NR_PRIME_FD_TO_HANDLE] = sizeof(struct drm_prime),
	[DRM_NR_AMDGPU_GEM_CREATE] = sizeof(union amdgpu_gem_create),
	[DRM_NR_MODE_CREATE_DUMB] = sizeof(union amdgpu_gem_create),
	[DRM_NR_AMDGPU_CS] = sizeof(struct amdgpu_cs),
	[DRM_NR_AMDGPU_INFO] = sizeof(struct amdgpu_info),
	[DRM_NR_AMDGPU_GEM_OP] = sizeof(struct amdgpu_gem_op),
	[DRM_NR_AMDGPU_USERQ] = sizeof(struct amdgpu_userq),
};

static int create(struct request *request, int card)
{
	const union amdgpu_gem_create *arguments = ARGUMENTS(request, union amdgpu_gem_create);
	uint64_t asked = arguments->in.bytes, bytes = (asked + PAGE_BYTES - 1) & ~(PAGE_BYTES - 1);
	int file, result, failure;

	if (!(arguments->in.domains & AMDGPU_DOMAIN_VRAM))
		return request_send(request);
	file = held_file(request->fd);
	if (file < 0 || bytes < asked || !held_charge(&slice.gem, card, bytes))
		return request_refuse(ENOMEM);
	result = request_send(request);
	failure = errno;
	slice_lock();
	if (result == 0)
		held_made(&slice.gem, GEM_KEY(file, arguments->handle), card, bytes);
	else
		held_not_made(&slice.gem, card, bytes);
	slice_unlock();
	errno = failure;
	return result;
}

/* The number of the descriptor's file, or -1 where no memory was made in that file. */
static int known_file(int fd)
{
	int file;

	slice_lock();
	file = files_find(fd, false);
	slice_unlock();
	return file;
}

static int let_go(struct request *request)
{
	int file = known_file(request->fd);

	if (file < 0)
		return request_send(request);
	return held_let_go(request, &slice.gem, GEM_KEY(file, ARGUMENTS(request, struct drm_handle)->handle));
}

static int export(struct request *request)
{
	const struct drm_prime *arguments = ARGUMENTS(request, struct drm_prime);
	int file = known_file(request->fd);
	int result = request_send(request);
	int failure = errno;

	slice_lock();
	if (result == 0 && file >= 0)
		held_exported(&slice.gem, GEM_KEY(file, arguments->handle), arguments->fd);
	slice_unlock();
	errno = failure;
	return result;
}

static int import(struct request *request)
{
	const struct drm_prime *arguments = ARGUMENTS(request, struct drm_prime);
	uint64_t share = held_import(&slice.gem, arguments->fd);
	int file, result, failure;

	if (!share)
		return request_send(request);
	if (share == HELD_NO_ROOM)
		return request_refuse(ENOMEM);
	file = held_file(request->fd);
	result = file < 0 ? request_refuse(ENOMEM) : request_send(request);
	failure = errno;
	held_imported(&slice.gem, share, result == 0 ? GEM_KEY(file, arguments->handle) : HELD_NO_NAME);
	errno = failure;
	return result;
}

/* Memory that was made elsewhere and is not charged must not be moved to the card later. */
static int place(struct request *request)
{
	const struct amdgpu_gem_op *arguments = ARGUMENTS(request, struct amdgpu_gem_op);
	int file = known_file(request->fd);
	bool charged;

	slice_lock();
	charged = file >= 0 && table_get(&slice.gem, GEM_KEY(file, arguments->handle));
	slice_unlock();
	if (arguments->op == AMDGPU_GEM_OP_SET_PLACEMENT && arguments->value & AMDGPU_DOMAIN_VRAM && !charged)
		return request_refuse(EACCES);
	return request_send(request);
}

static int refuse_work(void)
{
	slice_complain("work for the card is refused",
		       "only queues of /dev/kfd, not the render node's, can be held to the slice's compute units");
	return request_refuse(EACCES);
}

/* 1: a part of the submission runs on compute units; 0: none does; -1: it cannot be read (EFAULT). */
static int needs_units(const struct amdgpu_cs *arguments)
{
	struct amdgpu_chunk_ib buffer;
	struct amdgpu_chunk chunk;
	uint64_t at;

	for (uint32_t i = 0; i < arguments->num_chunks; i++) {
		if (!user_read(&at, arguments->chunks_ptr + i * sizeof at, sizeof at) || !user_read(&chunk, at, sizeof chunk))
			return -1;
		if (chunk.id != AMDGPU_CHUNK_IB)
			continue;
		if (!user_read(&buffer, chunk.data_ptr, sizeof buffer))
			return -1;
		if (buffer.ip_type == AMDGPU_IP_GFX || buffer.ip_type == AMDGPU_IP_COMPUTE)
			return 1;
	}
	return 0;
}

static int submit(struct request *request, const struct card *card)
{
	const struct amdgpu_cs *arguments = ARGUMENTS(request, struct amdgpu_cs);
	int needs;

	if (card->granted_units == card->compute_units)
		return request_send(request);
	if (arguments->num_chunks > MAX_CHUNKS)
		return request_refuse(EINVAL);
	needs = needs_units(arguments);
	if (needs < 0)
		return request_refuse(EFAULT);
	return needs ? refuse_work() : request_send(request);
}

static int user_queue(struct request *request, const struct card *card)
{
	if (ARGUMENTS(request, struct amdgpu_userq)->op == AMDGPU_USERQ_OP_CREATE &&
	    card->granted_units != card->compute_units)
		return refuse_work();
	return request_send(request);
}

static void lower_heap(struct amdgpu_heap *heap, uint64_t limit, uint64_t used)
{
	heap->total_bytes = at_most(heap->total_bytes, limit);
	heap->usable_bytes = at_most(heap->usable_bytes, limit);
	heap->used_bytes = at_most(used, heap->total_bytes);
	heap->max_allocation = at_most(heap->max_allocation, heap->usable_bytes);
}

/* Answers queries about card memory with the slice's figures. The driver fills `answer`; the program gets a copy. */
static int ask(struct request *request, int card)
{
	struct amdgpu_info *arguments = ARGUMENTS(request, struct amdgpu_info);
	union {
		uint64_t used;
		struct amdgpu_vram_gtt sizes;
		struct amdgpu_memory memory;
	} answer = {.memory = {.vram = {0}}};
	uint64_t limit = slice.config.cards[card].mem_bytes, used = held_used(card), to = arguments->result_ptr;
	uint32_t size = arguments->result_bytes < sizeof answer ? arguments->result_bytes : (uint32_t)sizeof answer;

	if (arguments->query != AMDGPU_INFO_VRAM_USAGE && arguments->query != AMDGPU_INFO_VIS_VRAM_USAGE &&
	    arguments->query != AMDGPU_INFO_VRAM_GTT && arguments->query != AMDGPU_INFO_MEMORY)
		return request_send(request);
	arguments->result_ptr = (uintptr_t)&answer;
	arguments->result_bytes = size;
	if (request_send(request))
		return -1;
	if (arguments->query == AMDGPU_INFO_MEMORY) {
		lower_heap(&answer.memory.vram, limit, used);
		lower_heap(&answer.memory.visible, limit, used);
	} else if (arguments->query == AMDGPU_INFO_VRAM_GTT) {
		answer.sizes.vram_bytes = at_most(answer.sizes.vram_bytes, limit);
		answer.sizes.visible_bytes = at_most(answer.sizes.visible_bytes, limit);
	} else {
		answer.used = used;
	}
	return user_write(to, &answer, size) ? 0 : request_refuse(EFAULT);
}

static int enforced(struct request *request, int card)
{
	switch (_IOC_NR(request->code)) {
	case DRM_NR_AMDGPU_GEM_CREATE:
		return create(request, card);
	case DRM_NR_GEM_CLOSE:
		return let_go(request);
	case DRM_NR_PRIME_HANDLE_TO_FD:
		return export(request);
	case DRM_NR_PRIME_FD_TO_HANDLE:
		return import(request);
	case DRM_NR_AMDGPU_GEM_OP:
		return place(request);
	case DRM_NR_AMDGPU_CS:
		return submit(request, &slice.config.cards[card]);
	case DRM_NR_AMDGPU_USERQ:
		return user_queue(request, &slice.config.cards[card]);
	case DRM_NR_AMDGPU_INFO:
		return ask(request, card);
	default: /* a display's memory, and names for all: nothing that computes needs either */
		return request_refuse(EACCES);
	}
}

/* Without a readable config: what takes a part of the card fails, what gives back works. */
static int closed(struct request *request)
{
	switch (_IOC_NR(request->code)) {
	case DRM_NR_AMDGPU_GEM_CREATE:
	case DRM_NR_AMDGPU_GEM_OP:
	case DRM_NR_AMDGPU_CS:
	case DRM_NR_AMDGPU_USERQ:
	case DRM_NR_MODE_CREATE_DUMB:
		return request_refuse(ENOMEM);
	default:
		return request_send(request);
	}
}

/* The node of another card may be another driver's, whose numbers mean other requests. */
int gem_request(int fd, unsigned code, void *arguments, const struct device *device)
{
	enum enforcement enforcement = slice_enforcement();
	int card = enforcement == ENFORCED ? device_card(device) : -1;
	int saved = errno;
	struct request request;
	int result;

	if (enforcement == NONE || (enforcement == ENFORCED && card < 0))
		return REAL(ioctl, ioctl_fn)(fd, code, arguments);
	if (!request_take(&request, fd, code, arguments, gem_sizes[_IOC_NR(code)], _IOC_DIR(code) & _IOC_WRITE))
		return -1;
	result = enforcement == CLOSED ? closed(&request) : enforced(&request, card);
	if (result < 0)
		return result;
	if (_IOC_DIR(code) & _IOC_READ && request_answer(&request, code, arguments))
		return -1;
	errno = saved;
	return result;
}
