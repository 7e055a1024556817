/* Buffers of this process. VRAM is charged to the card; everything gets a range of the device file to be mapped. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "simkfd.h"

#define FIRST_OFFSET (UINT64_C(1) << 20) /* below it lie the doorbells */
#define OFFSET_ALIGN (UINT64_C(2) << 20)
#define MAX_BUFFERS (1u << 20)

static struct buffer {
	bool live;
	int card;
	uint32_t flags;
	uint32_t mapped; /* bit i: card i sees it */
	uint64_t bytes;
	uint64_t offset; /* in the card's device file; not of USERPTR */
	uint64_t va; /* where the card sees it */
	uint64_t cpu; /* where the process has it: elsewhere only for USERPTR */
} *buffers;
static uint32_t buffer_count;
static uint32_t first_free; /* no free place below it */
static uint64_t next_offset = FIRST_OFFSET;
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

int sim_memory_alloc(struct kfd_alloc_memory *args)
{
	int card = sim_card_index(args->gpu_id);
	int64_t place;
	int error = 0;

	if (card < 0 || args->size == 0)
		return -EINVAL;
	if (!vm_acquired[card])
		return -ENODEV;
	if (args->flags & KFD_MEM_VRAM)
		error = sim_vram_charge(card, args->size);
	sim_log("alloc gpu_id=%u bytes=%lu flags=%#x error=%d", args->gpu_id, args->size, args->flags, -error);
	if (error)
		return error;
	pthread_mutex_lock(&lock);
	place = free_place();
	if (place >= 0) {
		buffers[place] = (struct buffer){
			.live = true, .card = card, .flags = args->flags, .bytes = args->size, .va = args->va_addr,
			.cpu = args->flags & KFD_MEM_USERPTR ? args->mmap_offset : args->va_addr,
		};
		args->handle = (uint64_t)args->gpu_id << 32 | (uint64_t)place;
		if (!(args->flags & KFD_MEM_USERPTR)) {
			buffers[place].offset = args->mmap_offset = next_offset;
			next_offset += (args->size + OFFSET_ALIGN - 1) & ~(OFFSET_ALIGN - 1);
		}
	}
	pthread_mutex_unlock(&lock);
	if (place < 0 && args->flags & KFD_MEM_VRAM)
		sim_vram_release(card, args->size);
	return place < 0 ? (int)place : 0;
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
	if (freed.offset)
		sim_device_discard(freed.card, freed.offset, freed.bytes);
	if (freed.flags & KFD_MEM_VRAM)
		sim_vram_release(freed.card, freed.bytes);
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
	args->available = sim_vram_available(card);
	return 0;
}

void sim_memory_forget(void)
{
	free(buffers);
	buffers = NULL;
	buffer_count = first_free = 0;
	next_offset = FIRST_OFFSET;
	for (int card = 0; card < SIM_MAX_CARDS; card++)
		vm_acquired[card] = false;
	pthread_mutex_init(&lock, NULL);
}
