/*
 * File descriptors that stand for the device nodes.
 *
 * Each is an anonymous file, large and empty, so that the runtime's mmap of doorbells and of memory just works. Copies
 * of a descriptor are recognised by the file they refer to, whatever closed and reused its number meanwhile.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "../../include/vgpu_drm.h"
#include "real.h"
#include "simkfd.h"

#define DEVICES (SIM_MAX_CARDS + 1)
#define KFD_MAJOR 511 /* the last of the numbers that Linux assigns dynamically; ../tree.py writes it into sysfs */
#define FIRST_OWN_FD 768
#define DEVICE_BYTES (INT64_C(1) << 50)

static struct device {
	bool made;
	int fd;
	dev_t dev;
	ino_t ino;
} devices[DEVICES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* The kernel's answer: libc's function is answered here, too. */
int sim_stat(int fd, struct stat *st)
{
	return (int)syscall(SYS_fstat, fd, st);
}

int sim_open_again(int fd)
{
	char path[32];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return real_open(path, O_RDWR | O_CLOEXEC, 0);
}

int sim_raise(int fd)
{
	int raised = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, FIRST_OWN_FD);

	if (fd >= 0)
		real_close(fd);
	return raised;
}

/* A lock belongs to the open file, and goes with its last descriptor and mapping. */
int sim_lock(int fd, int command, short type, int64_t byte)
{
	struct flock range = {.l_type = type, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1};
	int result;

	do
		result = fcntl(fd, command, &range);
	while (result < 0 && errno == EINTR);
	return result;
}

bool sim_mark(int fd, int64_t byte)
{
	return sim_lock(fd, F_OFD_SETLK, F_RDLCK, byte) == 0;
}

bool sim_is_marked(int fd, int64_t byte)
{
	struct flock range = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1};

	return fcntl(fd, F_OFD_GETLK, &range) == 0 && range.l_type != F_UNLCK;
}

static bool refers_to(int fd, const struct device *device)
{
	struct stat st;

	return device->made && sim_stat(fd, &st) == 0 && st.st_ino == device->ino && st.st_dev == device->dev;
}

static int make(struct device *device)
{
	struct stat st;
	int fd = sim_raise(memfd_create("simkfd", MFD_CLOEXEC));

	if (fd < 0)
		return -1;
	if (ftruncate(fd, DEVICE_BYTES) < 0 || sim_stat(fd, &st) < 0) {
		real_close(fd);
		return -1;
	}
	*device = (struct device){.made = true, .fd = fd, .dev = st.st_dev, .ino = st.st_ino};
	return 0;
}

/* The device that a path names, or -1. */
static int device_of(const char *path)
{
	const struct sim_world *world = sim_world();
	unsigned minor;

	if (strcmp(path, "/dev/kfd") == 0)
		return SIM_DEVICE_KFD;
	if (sscanf(path, "/dev/dri/renderD%u", &minor) == 1)
		for (int card = 0; card < world->card_count; card++)
			if (world->cards[card].render_minor == minor)
				return card;
	return -1;
}

int sim_device_open(const char *path, int flags)
{
	int index = device_of(path);
	char node[512];
	int fd = -1;

	snprintf(node, sizeof(node), "%s%s", sim_world()->dev, path + strlen("/dev"));
	if (index < 0 || access(node, F_OK) != 0) {
		errno = ENOENT;
		return -1;
	}
	if (index == SIM_DEVICE_KFD)
		sim_slice_begin();
	pthread_mutex_lock(&lock);
	if (refers_to(devices[index].fd, &devices[index]) || make(&devices[index]) == 0)
		fd = sim_open_again(devices[index].fd);
	pthread_mutex_unlock(&lock);
	if (fd >= 0 && index != SIM_DEVICE_KFD && sim_gem_open(fd, index) < 0) {
		real_close(fd);
		errno = ENFILE;
		return -1;
	}
	if (fd >= 0 && !(flags & O_CLOEXEC))
		fcntl(fd, F_SETFD, 0);
	return fd;
}

int sim_device_watcher(int card)
{
	return devices[card].fd;
}

bool sim_device_is(int fd, int device)
{
	return refers_to(fd, &devices[device]);
}

int sim_device_stat(int fd, struct stat *st)
{
	int card = sim_device_render_card(fd);

	if (sim_stat(fd, st) < 0)
		return -1;
	if (card < 0 && !sim_device_is(fd, SIM_DEVICE_KFD))
		return 0;
	st->st_mode = S_IFCHR | 0666;
	st->st_rdev = card < 0 ? makedev(KFD_MAJOR, 0) : makedev(DRM_MAJOR, sim_world()->cards[card].render_minor);
	return 0;
}

int sim_device_render_card(int fd)
{
	for (int card = 0; card < sim_world()->card_count; card++)
		if (refers_to(fd, &devices[card]))
			return card;
	return -1;
}

void sim_device_discard(int card, uint64_t offset, uint64_t bytes)
{
	pthread_mutex_lock(&lock);
	if (refers_to(devices[card].fd, &devices[card]))
		fallocate(devices[card].fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset, (off_t)bytes);
	pthread_mutex_unlock(&lock);
}

/* In a forked child: the kernel gives it a KFD process of its own when it opens the device itself. */
void sim_device_forget(void)
{
	for (int index = 0; index < DEVICES; index++) {
		if (devices[index].made && refers_to(devices[index].fd, &devices[index]))
			real_close(devices[index].fd);
		devices[index].made = false;
	}
}
