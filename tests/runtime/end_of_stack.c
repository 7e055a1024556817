/*
 * Asks for card memory with arguments on a stack that ends at memory which is not there. It prints the errno of a request
 * whose arguments end with the stack, and of one whose arguments would reach beyond.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "vgpu_kfd.h"

#define STACK_BYTES 65536 /* of any page size */

static ucontext_t whole, part;
static char *end;

static int alloc(void *arguments)
{
	errno = 0;
	ioctl(-1, _IOWR(KFD_IOC_TYPE, KFD_NR_ALLOC_MEMORY, struct kfd_alloc_memory), arguments);
	return errno;
}

/* Its frame, and those of what it calls, are on the last page of the stack. */
static void ask(void)
{
	struct kfd_alloc_memory memory = {.size = 4096, .gpu_id = 13261, .flags = KFD_MEM_VRAM};

	printf("%d ", alloc(&memory));
	printf("%d\n", alloc(end - 8));
}

int main(void)
{
	char *memory = mmap(NULL, 2 * STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED || munmap(memory + STACK_BYTES, STACK_BYTES) || getcontext(&part))
		return 1;
	end = memory + STACK_BYTES;
	setvbuf(stdout, NULL, _IONBF, 0);
	part.uc_stack.ss_sp = memory;
	part.uc_stack.ss_size = STACK_BYTES;
	part.uc_link = &whole;
	makecontext(&part, ask, 0);
	return swapcontext(&whole, &part);
}
