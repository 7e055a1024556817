#include <errno.h>
#include <stdint.h>

#include "kfd.h"
#include "memory.h"
#include "queues.h"
#include "real.h"
#include "slice.h"
#include "user_memory.h"

/*
 * As in the kernel (kfd_ioctl), the program's arguments are copied in, as many bytes as the request says, zeroes behind
 * them, and the results are copied out in the same length. What is decided on is the copy, and the driver is given the
 * copy, so that results are known here that the program asked too few bytes for. No structure of the interface comes
 * near ARGUMENTS_MAX; bytes beyond it would mean nothing to the kernel either.
 */
#define ARGUMENTS_MAX 512

union arguments {
	struct kfd_create_queue create_queue;
	struct kfd_destroy_queue destroy_queue;
	struct kfd_set_cu_mask set_cu_mask;
	struct kfd_alloc_memory alloc_memory;
	struct kfd_free_memory free_memory;
	struct kfd_available_memory available_memory;
	unsigned char bytes[ARGUMENTS_MAX];
};

/* The size of a hooked request's arguments; 0 for any other request. */
static unsigned own_size(unsigned number)
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

static bool has_results(unsigned number)
{
	return number == KFD_NR_CREATE_QUEUE || number == KFD_NR_ALLOC_MEMORY || number == KFD_NR_AVAILABLE_MEMORY;
}

static int enforced(int fd, unsigned request, union arguments *arguments)
{
	switch (_IOC_NR(request)) {
	case KFD_NR_CREATE_QUEUE:
		return queue_create(fd, request, &arguments->create_queue);
	case KFD_NR_DESTROY_QUEUE:
		return queue_destroy(fd, request, &arguments->destroy_queue);
	case KFD_NR_SET_CU_MASK:
		return queue_set_mask(fd, &arguments->set_cu_mask);
	case KFD_NR_ALLOC_MEMORY:
		return memory_alloc(fd, request, &arguments->alloc_memory);
	case KFD_NR_FREE_MEMORY:
		return memory_free(fd, request, &arguments->free_memory);
	default:
		return memory_available(fd, request, &arguments->available_memory);
	}
}

/* Without a readable config: what takes a part of the card fails, what gives back works. */
static int closed(int fd, unsigned request, union arguments *arguments)
{
	unsigned number = _IOC_NR(request);

	if (number == KFD_NR_CREATE_QUEUE ||
	    (number == KFD_NR_ALLOC_MEMORY && arguments->alloc_memory.flags & KFD_MEM_VRAM)) {
		errno = ENOMEM;
		return -1;
	}
	return REAL(ioctl, ioctl_fn)(fd, request, arguments);
}

static int bad_address(void)
{
	errno = EFAULT;
	return -1;
}

bool kfd_hooks(unsigned number)
{
	return own_size(number) != 0;
}

int kfd_request(int fd, unsigned request, void *arguments)
{
	enum enforcement enforcement = slice_enforcement();
	unsigned number = _IOC_NR(request), own = own_size(number);
	unsigned given = _IOC_SIZE(request) < ARGUMENTS_MAX ? _IOC_SIZE(request) : ARGUMENTS_MAX;
	union arguments copy = {.bytes = {0}};
	int saved = errno;
	int result;

	if (enforcement == NONE)
		return REAL(ioctl, ioctl_fn)(fd, request, arguments);
	if (!user_read(&copy, (uintptr_t)arguments, given))
		return bad_address();
	request = _IOC(_IOC_READ | _IOC_WRITE, KFD_IOC_TYPE, number, given > own ? given : own);
	result = enforcement == CLOSED ? closed(fd, request, &copy) : enforced(fd, request, &copy);
	if (result < 0)
		return result;
	if (has_results(number) && !user_write((uintptr_t)arguments, &copy, given))
		return bad_address();
	errno = saved; /* our own files may have set it */
	return result;
}
