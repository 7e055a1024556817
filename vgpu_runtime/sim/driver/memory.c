/* Buffers of this process: KFD's handles of objects. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "simkfd.h"

#define MAX_BUFFERS (1u << 20)

static struct buffer {
	bool live;
	int card;
	uint32_t object;
	uint32_t mapped; /* bit i: card i sees it */
	uint64_t bytes;
	uint64_t va; /* where the card sees it */
	uint64_t cpu; /* where the process has it: elsewhere only for USERPTR */
} *buffers;
static uint32_t buffer_count;
static uint32_t first_free; /* no free place below it */
static bool vm_acquired[SIM_MAX_CARDS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

int sim_memory_acquire_vm(const struct kfd_acquire_vm *args)
{
	int card = sim_card_index(args->gpu_id);

	if (card < 0 || !sim_device_is((int)args->drm_fd, card))
		return -EINVAL;
	vm_acquired[card] = true;
	return 0;
}

bool sim_memory_vm_acquired(int card)
{
	return vm_acquired[card];
}

/* The index of a place for one more buffer, or a negative errno. */
static int64_t free_place(void)
{
	uint32_t room;
	struct buffer *more;

	while (first_free < buffer_count && buffers[first_free].live)
		first_free++;
	if (first_free < buffer_count)
		return first_free;
	room = buffer_count ? 2 * buffer_count : 256;
	more = room > MAX_BUFFERS ? NULL : realloc(buffers, room * sizeof(*buffers));
	if (!more)
		return -ENOMEM;
	for (uint32_t i = buffer_count; i < room; i++)
		more[i].live = false;
	buffers = more;
	buffer_count = room;
	return first_free;
}

/* Makes a buffer of an object, whose reference it takes over. */
static int add(struct buffer buffer, uint64_t *handle)
{
	int64_t place;

	pthread_mutex_lock(&lock);
	place = free_place();
	if (place >= 0) {
		buffers[place] = buffer;
		*handle = (uint64_t)sim_world()->cards[buffer.card].gpu_id << 32 | (uint64_t)place;
	}
	pthread_mutex_unlock(&lock);
	if (place < 0)
		sim_object_drop(buffer.object);
	return place < 0 ? (int)place : 0;
}

int sim_memory_alloc(struct kfd_alloc_memory *args)
{
	int card = sim_card_index(args->gpu_id);
	bool own = !(args->flags & KFD_MEM_USERPTR);
	int64_t object;
	struct buffer buffer;

	if (card < 0 || args->size == 0)
		return -EINVAL;
	if (!vm_acquired[card])
		return -ENODEV;
	object = sim_object_create(card, args->flags & KFD_MEM_VRAM, own, args->size);
	sim_log("alloc gpu_id=%u bytes=%lu flags=%#x error=%d", args->gpu_id, args->size, args->flags,
		object < 0 ? (int)-object : 0);
	if (object < 0)
		return (int)object;
	buffer = (struct buffer){
		.live = true, .card = card, .object = (uint32_t)object, .bytes = args->size, .va = args->va_addr,
		.cpu = own ? args->va_addr : args->mmap_offset,
	};
	if (own)
		args->mmap_offset = sim_object_get((uint32_t)object).offset;
	return add(buffer, &args->handle);
}

int sim_memory_import(struct kfd_import_dmabuf *args)
{
	int card = sim_card_index(args->gpu_id);
	int64_t object = card < 0 ? -EINVAL : sim_object_import((int)args->fd);
	struct buffer buffer;

	if (object < 0)
		return (int)object;
	buffer = (struct buffer){
		.live = true, .card = card, .object = (uint32_t)object, .va = args->va_addr, .cpu = args->va_addr,
		.bytes = sim_object_get((uint32_t)object).bytes,
	};
	return add(buffer, &args->handle);
}

/* The live buffer of a handle, or NULL. Call with the lock held. */
static struct buffer *find(uint64_t handle)
{
	uint32_t place = (uint32_t)handle;
	int card = sim_card_index((uint32_t)(handle >> 32));

	if (card < 0 || place >= buffer_count || !buffers[place].live || buffers[place].card != card)
		return NULL;
	return &buffers[place];
}

int sim_memory_export(struct kfd_export_dmabuf *args)
{
	struct buffer *buffer;
	int fd = -EINVAL;

	pthread_mutex_lock(&lock);
	buffer = find(args->handle);
	if (buffer)
		fd = sim_object_export(buffer->object);
	pthread_mutex_unlock(&lock);
	args->fd = (uint32_t)fd;
	return fd < 0 ? fd : 0;
}

int sim_memory_free(const struct kfd_free_memory *args)
{
	struct buffer freed = {.live = false};
	struct buffer *buffer;

	pthread_mutex_lock(&lock);
	buffer = find(args->handle);
	if (buffer) {
		freed = *buffer;
		buffer->live = false;
		if (buffer - buffers < first_free)
			first_free = (uint32_t)(buffer - buffers);
	}
	pthread_mutex_unlock(&lock);
	if (!freed.live)
		return -EINVAL;
	sim_object_drop(freed.object);
	sim_log("free gpu_id=%u bytes=%lu", (uint32_t)(args->handle >> 32), freed.bytes);
	return 0;
}

int sim_memory_map(struct kfd_map_memory *args, bool mapped)
{
	const uint32_t *ids = (const uint32_t *)(uintptr_t)args->device_ids_ptr;
	struct buffer *buffer;
	int error = -EINVAL;

	pthread_mutex_lock(&lock);
	buffer = find(args->handle);
	if (buffer && args->n_devices > 0 && args->n_success <= args->n_devices)
		error = 0;
	for (; error == 0 && args->n_success < args->n_devices; args->n_success++) {
		int card = sim_card_index(ids[args->n_success]);

		if (card < 0) {
			error = -EINVAL;
			break;
		}
		buffer->mapped &= ~(UINT32_C(1) << card);
		buffer->mapped |= (uint32_t)mapped << card;
	}
	pthread_mutex_unlock(&lock);
	return error;
}

uint64_t sim_memory_mapped(int card, uint64_t va)
{
	uint64_t bytes = 0;

	pthread_mutex_lock(&lock);
	for (uint32_t i = 0; i < buffer_count; i++)
		if (buffers[i].live && buffers[i].va == va && buffers[i].mapped >> card & 1)
			bytes = buffers[i].bytes;
	pthread_mutex_unlock(&lock);
	return bytes;
}

void *sim_memory_cpu(uint64_t va)
{
	uint64_t cpu = va;

	pthread_mutex_lock(&lock);
	for (uint32_t i = 0; i < buffer_count; i++)
		if (buffers[i].live && buffers[i].cpu != buffers[i].va && va - buffers[i].va < buffers[i].bytes)
			cpu = va - buffers[i].va + buffers[i].cpu;
	pthread_mutex_unlock(&lock);
	return (void *)(uintptr_t)cpu;
}

int sim_memory_available(struct kfd_available_memory *args)
{
	int card = sim_card_index(args->gpu_id);

	if (card < 0)
		return -EINVAL;
	args->available = sim_vram_room(card);
	return 0;
}

void sim_memory_forget(void)
{
	free(buffers);
	buffers = NULL;
	buffer_count = first_free = 0;
	for (int card = 0; card < SIM_MAX_CARDS; card++)
		vm_acquired[card] = false;
	pthread_mutex_init(&lock, NULL);
}
