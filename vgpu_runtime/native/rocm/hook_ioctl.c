#define _GNU_SOURCE
#include <errno.h>
#include <stdarg.h>

#include "memory.h"
#include "queues.h"
#include "real.h"
#include "slice.h"

/* The size of the arguments that a hooked request must at least have; 0 for any other request. */
static unsigned hooked_size(unsigned number)
{
	switch (number) {
	case KFD_NR_CREATE_QUEUE:
		return sizeof(struct kfd_create_queue);
	case KFD_NR_DESTROY_QUEUE:
		return sizeof(struct kfd_destroy_queue);
	case KFD_NR_SET_CU_MASK:
		return sizeof(struct kfd_set_cu_mask);
	case KFD_NR_ALLOC_MEMORY:
		return sizeof(struct kfd_alloc_memory);
	case KFD_NR_FREE_MEMORY:
		return sizeof(struct kfd_free_memory);
	case KFD_NR_AVAILABLE_MEMORY:
		return sizeof(struct kfd_available_memory);
	default:
		return 0;
	}
}

static int enforced(int fd, unsigned long request, void *argument)
{
	switch (_IOC_NR(request)) {
	case KFD_NR_CREATE_QUEUE:
		return queue_create(fd, request, argument);
	case KFD_NR_DESTROY_QUEUE:
		return queue_destroy(fd, request, argument);
	case KFD_NR_SET_CU_MASK:
		return queue_set_mask(fd, argument);
	case KFD_NR_ALLOC_MEMORY:
		return memory_alloc(fd, request, argument);
	case KFD_NR_FREE_MEMORY:
		return memory_free(fd, request, argument);
	default:
		return memory_available(fd, request, argument);
	}
}

/* Without a readable config: what takes a part of the card fails, what gives back works. */
static int closed(int fd, unsigned long request, void *argument)
{
	const struct kfd_alloc_memory *memory = argument;
	unsigned number = _IOC_NR(request);

	if (number == KFD_NR_CREATE_QUEUE || (number == KFD_NR_ALLOC_MEMORY && memory->flags & KFD_MEM_VRAM)) {
		errno = ENOMEM;
		return -1;
	}
	return REAL(ioctl, ioctl_fn)(fd, request, argument);
}

static int hooked(int fd, unsigned long request, void *argument)
{
	enum enforcement enforcement = slice_enforcement();
	int saved = errno;
	int result;

	if (enforcement == NONE)
		return REAL(ioctl, ioctl_fn)(fd, request, argument);
	if (!argument || _IOC_SIZE(request) < hooked_size(_IOC_NR(request))) {
		errno = EINVAL;
		return -1;
	}
	result = enforcement == CLOSED ? closed(fd, request, argument) : enforced(fd, request, argument);
	if (result >= 0)
		errno = saved; /* our own files may have set it */
	return result;
}

/*
 * The one way to the driver. Console requests share KFD's type letter, but have neither direction nor size, and
 * no request of another driver with this letter has these numbers, so the descriptor need not be looked at.
 */
__attribute__((visibility("default"))) int ioctl(int fd, unsigned long request, ...)
{
	unsigned code = (unsigned)request; /* some callers sign-extend */
	va_list rest;
	void *argument;

	va_start(rest, request);
	argument = va_arg(rest, void *);
	va_end(rest);
	if (_IOC_TYPE(code) != KFD_IOC_TYPE || _IOC_DIR(code) == _IOC_NONE || !hooked_size(_IOC_NR(code)))
		return REAL(ioctl, ioctl_fn)(fd, request, argument);
	return hooked(fd, request, argument);
}
