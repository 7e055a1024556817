/* Opens and closes a file on a stack of one page, as a coroutine or a signal handler has it. A larger need is a SIGSEGV. */
#include <fcntl.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#define PAGE 4096

static int opened = -1, closed = -1;

static void use_file(void)
{
	opened = open("/dev/null", O_RDONLY);
	closed = close(opened);
}

int main(void)
{
	ucontext_t first, small;
	char *pages = mmap(NULL, 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (pages == MAP_FAILED || mprotect(pages + PAGE, PAGE, PROT_READ | PROT_WRITE) || getcontext(&small))
		return 1;
	small.uc_stack.ss_sp = pages + PAGE;
	small.uc_stack.ss_size = PAGE;
	small.uc_link = &first;
	makecontext(&small, use_file, 0);
	return swapcontext(&first, &small) || opened < 0 || closed;
}
