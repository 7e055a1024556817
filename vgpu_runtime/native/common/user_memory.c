#include <errno.h>
#include <string.h>

#include "user_memory.h"
#include "vgpu_raw_call.h"

#define PAGE_BYTES 4096 /* or a part of a page, where pages are larger */
#define WORD 8          /* the kernel's sigset_t */
#define NO_SUCH_HOW 9999

/*
 * rt_sigprocmask needs no descriptor and no permission, and any seccomp profile allows it. With a `how` that does not
 * exist it reads the word and changes nothing; without a new mask it does no more than write the thread's mask there.
 */
static bool readable(uint64_t word)
{
	return word >= PAGE_BYTES && raw_call(SYS_rt_sigprocmask, NO_SUCH_HOW, (long)word, 0, WORD, 0, 0) != -EFAULT;
}

static bool writable(uint64_t word)
{
	return word >= PAGE_BYTES && raw_call(SYS_rt_sigprocmask, 0, 0, (long)word, WORD, 0, 0) == 0;
}

/* A page with a frame of this thread can be read and written. Drivers' libraries keep arguments on the stack as well. */
static bool is_own_stack(uint64_t at)
{
	return (at ^ (uintptr_t)__builtin_frame_address(0)) < PAGE_BYTES;
}

static uint64_t next_page(uint64_t at)
{
	return (at | (PAGE_BYTES - 1)) + 1;
}

bool user_read(void *to, uint64_t from, size_t size)
{
	bool good = from + size >= from;

	/* The word that holds a byte never crosses a page. */
	for (uint64_t at = from; good && at < from + size; at = next_page(at))
		good = is_own_stack(at) || readable(at & ~(uint64_t)(WORD - 1));
	if (good && size) /* memcpy forbids NULL also for no bytes */
		memcpy(to, (const void *)(uintptr_t)from, size);
	return good;
}

/* The trial write lies within the bytes to be written. Where they are less than a word, only reading is tried. */
bool user_write(uint64_t to, const void *from, size_t size)
{
	uint64_t end = to + size;
	bool good = end >= to;

	for (uint64_t at = to; good && at < end; at = next_page(at))
		if (size < WORD)
			good = is_own_stack(at) || readable(at & ~(uint64_t)(WORD - 1));
		else
			good = is_own_stack(at) || writable(end - at < WORD ? end - WORD : at);
	if (good && size)
		memcpy((void *)(uintptr_t)to, from, size);
	return good;
}
