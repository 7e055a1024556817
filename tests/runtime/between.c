/* A library between the fence and the simulated driver: it does at a certain moment what a test asks for by a call. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static int to_close = -1, twin = -1, calls, forks, in_child;
static struct stat twins;

/* As a signal handler of the thread would: with the fence's lock held. */
void close_while_locked(int fd)
{
	to_close = fd;
}

void vgpu_test_before_write(void)
{
	int fd = to_close;

	to_close = -1;
	if (fd >= 0)
		close(fd);
}

static void forget_others_of(int fd)
{
	struct stat wanted, status;

	if (syscall(SYS_fstat, fd, &wanted))
		_exit(1);
	for (int other = 3; other < 4096; other++)
		if (other != fd && !syscall(SYS_fstat, other, &status) && status.st_ino == wanted.st_ino)
			syscall(SYS_close, other);
}

/*
 * A child that has this memory, and descriptors of its own, closes its last one of a file. The simulated driver, which
 * keeps one too, does not hear of it.
 */
void close_in_child(int fd)
{
	if (!vfork()) {
		in_child = 1;
		forget_others_of(fd);
		close(fd);
		_exit(0);
	}
	in_child = 0;
}

int close(int fd)
{
	int (*next)(int) = (int (*)(int))dlsym(RTLD_NEXT, "close");

	return in_child ? (int)syscall(SYS_close, fd) : next(fd);
}

/* `fd` gets the inode number of another file, on another device. */
void make_twin(int fd, int of)
{
	fstat(of, &twins);
	twins.st_dev++;
	twin = fd;
}

/* Another thread's fork, while the slot's mapping is made. The child lives until its standard input ends. */
void fork_while_mapping(void)
{
	forks = 1;
}

void vgpu_test_after_mapping(void)
{
	char byte;

	if (forks && !fork()) {
		while (read(0, &byte, 1) > 0)
			;
		_exit(0);
	}
	forks = 0;
}

int stat_calls(void)
{
	return calls;
}

int fstat(int fd, struct stat *status)
{
	int (*next)(int, struct stat *) = (int (*)(int, struct stat *))dlsym(RTLD_NEXT, "fstat");

	calls++;
	if (fd != twin)
		return next(fd, status);
	*status = twins;
	return 0;
}
