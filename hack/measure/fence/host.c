/*
 * A program that takes a part of a card: `host REACH WAY CALL`.
 *
 * WAY is a library that exports `take`, CALL the call that it makes there, REACH how the program comes to the library:
 * loaded in one of the ways that there are, in a child, after exec or chroot. The program takes MIB_A_CALL three times,
 * which is more than the slice has, prints what came of each on one line, and keeps it until standard input is closed:
 * what it holds is then read from the driver's books. Before a child is made, the parent takes as much by the kernel's
 * interface, so that the library is in use and the child has something to inherit.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "way.h"

#define BYTES_A_CALL (768UL << 20)
#define CALLS 3

extern __attribute__((weak)) const char *take(const char *call, unsigned long bytes); /* where a way is linked */

static void fail(const char *what, const char *why)
{
	fprintf(stderr, "%s: %s\n", what, why);
	_exit(3);
}

static take_fn *found(void *library)
{
	take_fn *function = library ? (take_fn *)(uintptr_t)dlsym(library, "take") : NULL;

	if (!function)
		fail("the way cannot be loaded", dlerror());
	return function;
}

/* The library `name` beside the one at `path`. */
static const char *beside(const char *path, const char *name)
{
	static char text[PATH_MAX];
	const char *slash = strrchr(path, '/');

	snprintf(text, sizeof(text), "%.*s/%s", slash ? (int)(slash - path) : 1, slash ? path : ".", name);
	return text;
}

static void hold(take_fn *function, const char *call)
{
	char byte;

	for (int i = 0; i < CALLS; i++)
		printf("%s%s", function(call, BYTES_A_CALL), i + 1 < CALLS ? ", " : "\n");
	fflush(stdout);
	while (read(STDIN_FILENO, &byte, 1) > 0)
		;
	_exit(0); /* the runtime's own clean-up is not what is looked at */
}

/* Makes the library's memory, descriptors and locks in this process before another comes of it. */
static void touch(const char *way)
{
	const char *got = found(dlopen(beside(way, "way-kfd.so"), RTLD_NOW))("ALLOC_MEMORY", BYTES_A_CALL);

	if (strcmp(got, "taken"))
		fail("the parent took nothing", got);
}

static void in_child(pid_t child, take_fn *function, const char *call)
{
	if (child < 0)
		fail("no child", strerror(errno));
	if (!child)
		hold(function, call);
	close(STDIN_FILENO);
	waitpid(child, NULL, 0);
	_exit(0);
}

static void write_file(const char *path, const char *text)
{
	FILE *file = fopen(path, "w");

	if (!file || fputs(text, file) < 0 || fclose(file))
		fail(path, strerror(errno));
}

/* Into a root that has all of the machine's files but the slice's: the folder that holds them is empty there. */
static void change_root(void)
{
	const char *jail = getenv("FENCE_ROOT");
	char below[PATH_MAX], map[64];
	unsigned user = getuid(), group = getgid();

	if (!jail)
		fail("no folder for a root", "FENCE_ROOT is not set");
	if (unshare(CLONE_NEWUSER | CLONE_NEWNS))
		fail("no user namespace", strerror(errno));
	write_file("/proc/self/setgroups", "deny");
	snprintf(map, sizeof(map), "0 %u 1", user);
	write_file("/proc/self/uid_map", map);
	snprintf(map, sizeof(map), "0 %u 1", group);
	write_file("/proc/self/gid_map", map);
	snprintf(below, sizeof(below), "%s%s", jail, getenv("VGPU_TEST_FOLDER"));
	if (mount("/", jail, NULL, MS_BIND | MS_REC, NULL) || mount("none", below, "tmpfs", 0, NULL))
		fail("no root of its own", strerror(errno));
	if (chroot(jail) || chdir("/"))
		fail("chroot", strerror(errno));
}

/* Only what a container gives to a program without an environment: the preloaded libraries, and where this machine is. */
static char **cleared(void)
{
	static const char *const kept[] = {"LD_PRELOAD=", "LD_LIBRARY_PATH=", "SIMKFD_", "VGPU_TEST_FOLDER="};
	static char *result[16];
	size_t count = 0;

	for (char **entry = environ; *entry; entry++)
		for (size_t i = 0; i < sizeof(kept) / sizeof(*kept); i++)
			if (!strncmp(*entry, kept[i], strlen(kept[i])) && count + 1 < sizeof(result) / sizeof(*result))
				result[count++] = *entry;
	return result;
}

int main(int count, char **words)
{
	const char *reach, *way, *call;

	if (count != 4)
		fail("usage", "host REACH WAY CALL");
	reach = words[1], way = words[2], call = words[3];
	if (!strcmp(reach, "linked"))
		hold(take, call);
	if (!strcmp(reach, "dlopen") || !strcmp(reach, "other letter") || !strcmp(reach, "raw call"))
		hold(found(dlopen(way, RTLD_NOW)), call);
	if (!strcmp(reach, "RTLD_DEEPBIND"))
		hold(found(dlopen(way, RTLD_NOW | RTLD_DEEPBIND)), call);
	if (!strcmp(reach, "dlmopen"))
		hold(found(dlmopen(LM_ID_NEWLM, way, RTLD_NOW)), call);
	if (!strcmp(reach, "plug-in")) {
		setenv("FENCE_WAY", way, 1);
		hold(found(dlopen(beside(way, "relay.so"), RTLD_NOW | RTLD_LOCAL)), call);
	}
	if (!strcmp(reach, "chroot")) {
		take_fn *function = found(dlopen(way, RTLD_NOW));

		change_root();
		hold(function, call);
	}
	touch(way);
	words[1] = (char *)(uintptr_t)"dlopen";
	if (!strcmp(reach, "exec"))
		execv("/proc/self/exe", words);
	if (!strcmp(reach, "cleared environment"))
		execve("/proc/self/exe", words, cleared());
	if (!strcmp(reach, "fork"))
		in_child(fork(), found(dlopen(way, RTLD_NOW)), call);
	if (!strcmp(reach, "_Fork"))
		in_child(_Fork(), found(dlopen(way, RTLD_NOW)), call);
	if (!strcmp(reach, "clone"))
		in_child((pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0), found(dlopen(way, RTLD_NOW)), call);
	fail("usage: not a way to reach a library", reach);
}
