/*
 * Handles of memory in open render nodes. An open file ends with its last descriptor or mapping in any process, copies
 * that a forked child has included; what this process made in it counts as this process's until then. A child cannot
 * use the files of its parent here.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "../../include/vgpu_drm.h"
#include "simkfd.h"

#define MAX_FILES 256
#define MAX_HANDLES 65536
#define FIRST_MARK (INT64_C(1) << 50)

static struct file {
	bool open;
	int card;
	uint32_t count;
	int64_t *objects; /* by handle - 1; -1: a free place */
} files[MAX_FILES];
static int open_files;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

int sim_gem_open(int fd, int card)
{
	int error = -ENFILE;

	pthread_mutex_lock(&lock);
	for (int i = 0; i < MAX_FILES && error; i++)
		if (!files[i].open && sim_mark(fd, FIRST_MARK + i)) {
			files[i] = (struct file){.open = true, .card = card};
			open_files++;
			error = 0;
		}
	pthread_mutex_unlock(&lock);
	return error;
}

/* Call with the lock held. The file of a descriptor, or NULL. */
static struct file *find(int fd, int card)
{
	for (int i = 0; i < MAX_FILES; i++)
		if (files[i].open && files[i].card == card && !sim_is_marked(fd, FIRST_MARK + i) &&
		    sim_is_marked(sim_device_watcher(card), FIRST_MARK + i))
			return &files[i];
	return NULL;
}

/* Call with the lock held. The place of a handle's object, or NULL. */
static int64_t *place_of(struct file *file, uint32_t handle)
{
	if (!file || handle == 0 || handle > file->count || file->objects[handle - 1] < 0)
		return NULL;
	return &file->objects[handle - 1];
}

/* Call with the lock held. The new handle, which takes over the caller's reference, or a negative errno. */
static int add(struct file *file, int64_t object)
{
	uint32_t place = 0, room;
	int64_t *more;

	while (place < file->count && file->objects[place] >= 0)
		place++;
	if (place == file->count) {
		room = file->count ? 2 * file->count : 64;
		more = room > MAX_HANDLES ? NULL : realloc(file->objects, room * sizeof(*more));
		if (!more)
			return -ENOMEM;
		for (uint32_t i = file->count; i < room; i++)
			more[i] = -1;
		file->objects = more;
		file->count = room;
	}
	file->objects[place] = object;
	return (int)place + 1;
}

/* A handle for the object, whose reference the handle takes over. */
static int name(int fd, int card, int64_t object, uint32_t *handle)
{
	struct file *file = find(fd, card);
	int result = file ? add(file, object) : -EBADF;

	if (result < 0)
		sim_object_drop((uint32_t)object);
	else
		*handle = (uint32_t)result;
	return result < 0 ? result : 0;
}

int sim_gem_create(int fd, int card, union amdgpu_gem_create *args)
{
	uint64_t bytes = (args->in.bytes + 4095) & ~UINT64_C(4095);
	bool vram = args->in.domains & AMDGPU_DOMAIN_VRAM;
	int64_t object = bytes < args->in.bytes || !bytes ? -EINVAL : sim_object_create(card, vram, true, bytes);
	int error = object < 0 ? (int)object : 0;

	if (!error) {
		pthread_mutex_lock(&lock);
		error = name(fd, card, object, &args->handle);
		pthread_mutex_unlock(&lock);
	}
	sim_log("gem-create card=%d bytes=%lu vram=%d error=%d", card, bytes, vram, -error);
	return error;
}

int sim_gem_close(int fd, int card, const struct drm_handle *args)
{
	int64_t *place;
	int64_t object = -1;

	pthread_mutex_lock(&lock);
	place = place_of(find(fd, card), args->handle);
	if (place) {
		object = *place;
		*place = -1;
	}
	pthread_mutex_unlock(&lock);
	if (object < 0)
		return -EINVAL;
	sim_object_drop((uint32_t)object);
	return 0;
}

/* The object of a handle, or -1. */
static int64_t object_of(int fd, int card, uint32_t handle)
{
	int64_t *place, object;

	pthread_mutex_lock(&lock);
	place = place_of(find(fd, card), handle);
	object = place ? *place : -1;
	pthread_mutex_unlock(&lock);
	return object;
}

int sim_gem_op(int fd, int card, struct amdgpu_gem_op *args)
{
	int64_t object = object_of(fd, card, args->handle);

	if (object < 0)
		return -ENOENT;
	if (args->op != AMDGPU_GEM_OP_SET_PLACEMENT)
		return -EINVAL;
	return args->value & AMDGPU_DOMAIN_VRAM ? sim_object_move((uint32_t)object) : 0;
}

int sim_gem_export(int fd, int card, struct drm_prime *args)
{
	int64_t object = object_of(fd, card, args->handle);
	int dmabuf = object < 0 ? -ENOENT : sim_object_export((uint32_t)object);

	if (dmabuf < 0)
		return dmabuf;
	args->fd = dmabuf;
	return 0;
}

/* A file has one handle for an object that comes by DMA-buf. */
int sim_gem_import(int fd, int card, struct drm_prime *args)
{
	int64_t object = sim_object_import(args->fd);
	struct file *file;
	int error = 0;
	bool known = false;

	if (object < 0)
		return (int)object;
	pthread_mutex_lock(&lock);
	file = find(fd, card);
	for (uint32_t i = 0; file && i < file->count && !known; i++)
		if (file->objects[i] == object) {
			args->handle = i + 1;
			known = true;
		}
	if (!known)
		error = name(fd, card, object, &args->handle);
	pthread_mutex_unlock(&lock);
	if (known)
		sim_object_drop((uint32_t)object);
	return error;
}

void sim_gem_look(void)
{
	pthread_mutex_lock(&lock);
	for (int i = 0; open_files && i < MAX_FILES; i++) {
		if (!files[i].open || sim_is_marked(sim_device_watcher(files[i].card), FIRST_MARK + i))
			continue;
		for (uint32_t place = 0; place < files[i].count; place++)
			if (files[i].objects[place] >= 0)
				sim_object_drop((uint32_t)files[i].objects[place]);
		free(files[i].objects);
		files[i] = (struct file){.open = false};
		open_files--;
	}
	pthread_mutex_unlock(&lock);
}

void sim_gem_forget(void)
{
	for (int i = 0; i < MAX_FILES; i++)
		free(files[i].objects);
	for (int i = 0; i < MAX_FILES; i++)
		files[i] = (struct file){.open = false};
	open_files = 0;
	pthread_mutex_init(&lock, NULL);
}
