/*
 * A program that takes card memory three times: `ways WAY LIBRARY GPU_ID RENDER_MINOR MIB` prints the three errors, and
 * then stays. The first time it takes in the process itself, with take() of LIBRARY. Then it does what WAY says. The
 * second time it takes in the process again (`_Fork`: in a child made by _Fork), the third time in a program that it
 * starts.
 *
 *   plain      nothing
 *   deepbind   LIBRARY is loaded with RTLD_DEEPBIND
 *   namespace  LIBRARY is loaded by dlmopen, into a namespace of its own
 *   render     the process itself takes with take_by_render_node()
 *   _Fork      a child without the handlers of pthread_atfork
 *   closed     all descriptors are closed but those of the simulated driver, whose accounts of VRAM hang on them
 *   zeroed     zeroes are written over the figures in the usage region
 *   locks      20,000 locks, each on one byte of the usage region
 *   once       the first time only, and it ends
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "vgpu_region.h"

#define REGION "/var/run/vgpu/usage"
#define LOCKS 20000
#define BROKEN 255 /* the way itself failed */

typedef int take_fn(uint32_t gpu_id, unsigned render_minor, uint64_t bytes);

static char **words;

static void demand(bool worked, const char *what)
{
	if (!worked) {
		perror(what);
		_exit(BROKEN);
	}
}

static take_fn *loaded(const char *way, const char *path)
{
	const char *name = strcmp(way, "render") ? "take" : "take_by_render_node";
	void *library;
	void *found;

	if (!strcmp(way, "namespace"))
		library = dlmopen(LM_ID_NEWLM, path, RTLD_NOW);
	else
		library = dlopen(path, RTLD_NOW | (strcmp(way, "deepbind") ? 0 : RTLD_DEEPBIND));
	found = library ? dlsym(library, name) : NULL;
	if (!found) {
		fprintf(stderr, "%s\n", dlerror());
		_exit(BROKEN);
	}
	return (take_fn *)(uintptr_t)found;
}

static int once(take_fn *take)
{
	return take((uint32_t)strtoul(words[3], NULL, 10), (unsigned)strtoul(words[4], NULL, 10),
		    strtoull(words[5], NULL, 10) << 20);
}

static int exit_status(pid_t child)
{
	int status;

	demand(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status), "a child");
	return WEXITSTATUS(status);
}

static int once_in_program(void)
{
	char *command[] = {words[0], "once", words[2], words[3], words[4], words[5], NULL};
	pid_t child = fork();

	if (child == 0) {
		execv("/proc/self/exe", command);
		_exit(BROKEN);
	}
	return exit_status(child);
}

static int once_in_child(take_fn *take)
{
	pid_t child = _Fork();

	if (child == 0)
		_exit(once(take));
	return exit_status(child);
}

static void close_all(void)
{
	char link[64];
	char target[256];

	for (int fd = 3; fd < 4096; fd++) {
		snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
		ssize_t length = readlink(link, target, sizeof(target) - 1);

		target[length < 0 ? 0 : length] = 0;
		if (!strstr(target, "/vgpu-sim/") && !strstr(target, "simkfd"))
			close(fd);
	}
}

static void zero(void)
{
	static const char zeroes[VGPU_REGION_SIZE - VGPU_REGION_USED_OFFSET];
	int fd = open(REGION, O_RDWR | O_CLOEXEC);

	demand(pwrite(fd, zeroes, sizeof(zeroes), VGPU_REGION_USED_OFFSET) == sizeof(zeroes), "zeroes");
	close(fd);
}

/* From the last to the first, as each is put into the kernel's list from its head. */
static void lock_bytes(void)
{
	int fd = open(REGION, O_RDWR | O_CLOEXEC);

	for (int i = LOCKS; i > 0; i--) {
		struct flock one = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 2 * i, .l_len = 1};

		demand(fcntl(fd, F_OFD_SETLK, &one) == 0, "locks");
	}
}

int main(int count, char **given)
{
	int first, second, third;
	take_fn *take;

	if (count != 6)
		return 2;
	words = given;
	take = loaded(words[1], words[2]);
	first = once(take);
	if (!strcmp(words[1], "once"))
		return first;
	if (!strcmp(words[1], "closed"))
		close_all();
	if (!strcmp(words[1], "zeroed"))
		zero();
	if (!strcmp(words[1], "locks"))
		lock_bytes();
	second = strcmp(words[1], "_Fork") ? once(take) : once_in_child(take);
	third = once_in_program();
	printf("%d %d %d\n", first, second, third);
	fflush(stdout);
	for (;;)
		pause();
}
