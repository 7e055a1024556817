#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>

#include "files.h"
#include "raw.h"

#define FILES 64    /* no program needs as many to make memory in each: further ones are refused */
#define NODES 16
#define PATH_BYTES 128
#define FIRST_FD 512 /* as in region.c */

/* The offset of the marks: no program locks bytes so far into a device. */
#define MARK_BASE (UINT64_C(1) << 61)
#define MARK_BITS ((UINT64_C(1) << 60) - 1)

static struct node {
	bool made;
	int fd; /* this library's own */
	dev_t dev;
	ino_t ino;
	char path[PATH_BYTES]; /* to open it again when the program has closed `fd`; empty: too long */
} nodes[NODES];

static struct file {
	struct node *node; /* NULL: the place is free */
	uint64_t mark;
} files[FILES];
static unsigned count; /* of files; read without the lock */

static bool refers_to(int fd, const struct node *node)
{
	struct stat status;

	return raw_fstat(fd, &status) == 0 && status.st_dev == node->dev && status.st_ino == node->ino;
}

/* A new open file, by a high descriptor, or a negative number. */
static int open_high(const char *path)
{
	int low = raw_open(path, O_RDONLY | O_CLOEXEC);
	int high = low < 0 ? low : raw_fcntl(low, F_DUPFD_CLOEXEC, FIRST_FD);

	if (high < 0) /* a small descriptor limit: the low number will do */
		return low;
	raw_close(low);
	return high;
}

static void learn_path(struct node *node, const char *link)
{
	ssize_t length = raw_readlink(link, node->path, sizeof node->path);

	node->path[length < 0 || (size_t)length == sizeof node->path ? 0 : length] = '\0';
}

/* Has an open file of the node, a new one where the program has closed the last. False: it cannot be opened by its path. */
static bool renew(struct node *node)
{
	int fd;

	if (refers_to(node->fd, node))
		return true;
	fd = node->path[0] ? open_high(node->path) : -1;
	if (fd < 0)
		return false;
	if (!refers_to(fd, node)) {
		raw_close(fd);
		return false;
	}
	node->fd = fd;
	return true;
}

/* A second open file of the node that `fd` refers to, or NULL. */
static struct node *node_of(int fd)
{
	struct node *free_place = NULL, seen;
	struct stat status;
	char link[32];

	if (raw_fstat(fd, &status) < 0)
		return NULL;
	seen.made = true;
	seen.dev = status.st_dev;
	seen.ino = status.st_ino;
	for (int i = 0; i < NODES; i++) {
		if (nodes[i].made && refers_to(nodes[i].fd, &nodes[i])) {
			if (nodes[i].dev == seen.dev && nodes[i].ino == seen.ino)
				return &nodes[i];
		} else if (!free_place && !(nodes[i].made && nodes[i].ino != seen.ino)) {
			free_place = &nodes[i];
		}
	}
	if (!free_place)
		return NULL;
	snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
	seen.fd = open_high(link);
	if (seen.fd < 0)
		return NULL;
	learn_path(&seen, link);
	*free_place = seen;
	return free_place;
}

/* Whether another open file than that of `fd` has the mark. */
static bool is_elsewhere(int fd, uint64_t mark)
{
	struct flock range = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = (off_t)mark, .l_len = 1};

	return raw_fcntl(fd, F_OFD_GETLK, (long)&range) == 0 && range.l_type != F_UNLCK;
}

static uint64_t new_mark(void)
{
	uint64_t bits = 0;

	raw_call(SYS_getrandom, (long)&bits, sizeof bits, 0, 0, 0, 0);
	return MARK_BASE + (bits & MARK_BITS);
}

static int add(int fd, struct node *node)
{
	struct flock range = {.l_type = F_RDLCK, .l_whence = SEEK_SET, .l_start = (off_t)new_mark(), .l_len = 1};
	int place = 0;

	while (place < FILES && files[place].node)
		place++;
	if (place == FILES || is_elsewhere(fd, (uint64_t)range.l_start) || raw_fcntl(fd, F_OFD_SETLK, (long)&range) < 0)
		return -1;
	files[place] = (struct file){node, (uint64_t)range.l_start};
	__atomic_store_n(&count, count + 1, __ATOMIC_RELAXED);
	return place;
}

int files_find(int fd, bool mark)
{
	struct node *node;

	if (!mark && !count)
		return -1;
	node = node_of(fd);
	if (!node)
		return -1;
	for (int i = 0; i < FILES; i++)
		if (files[i].node == node && is_elsewhere(node->fd, files[i].mark) && !is_elsewhere(fd, files[i].mark))
			return i;
	return mark ? add(fd, node) : -1;
}

/* A node that cannot be opened again cannot be asked: its files count as open. */
static bool is_closed(const struct file *file)
{
	return renew(file->node) && !is_elsewhere(file->node->fd, file->mark);
}

bool files_look(void)
{
	bool closed = false;

	for (int i = 0; count && i < FILES; i++)
		if (files[i].node && is_closed(&files[i])) {
			files[i].node = NULL;
			__atomic_store_n(&count, count - 1, __ATOMIC_RELAXED);
			closed = true;
		}
	return closed;
}

bool files_known(unsigned file)
{
	return file < FILES && files[file].node;
}

bool files_any(void)
{
	return __atomic_load_n(&count, __ATOMIC_RELAXED) != 0;
}
