#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>

#include "files.h"
#include "raw.h"

#define FILES 64    /* nobody opens as many to make memory in each: further ones are refused */
#define NODES 16
#define FIRST_FD 512 /* as in region.c */

/* The offset of the marks: no program locks bytes so far into a device. */
#define MARK_BASE (UINT64_C(1) << 61)
#define MARK_BITS ((UINT64_C(1) << 60) - 1)

static struct node {
	bool made;
	int fd; /* this library's own */
	dev_t dev;
	ino_t ino;
} nodes[NODES];

static struct file {
	const struct node *node; /* NULL: the place is free */
	uint64_t mark;
} files[FILES];
static unsigned count; /* of files; read without the lock */

static bool refers_to(int fd, const struct node *node)
{
	struct stat status;

	return raw_fstat(fd, &status) == 0 && status.st_dev == node->dev && status.st_ino == node->ino;
}

/* A second open file of the node that `fd` refers to, or NULL. */
static const struct node *node_of(int fd)
{
	struct node *free_place = NULL, seen;
	struct stat status;
	char path[32];
	int opened;

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
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	opened = raw_open(path, O_RDONLY | O_CLOEXEC);
	if (opened < 0)
		return NULL;
	seen.fd = raw_fcntl(opened, F_DUPFD_CLOEXEC, FIRST_FD);
	if (seen.fd < 0)
		seen.fd = opened;
	else
		raw_close(opened);
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

static int add(int fd, const struct node *node)
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
	const struct node *node;

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

/* A node whose own descriptor the program has closed cannot be asked: its files count as open until it is renewed. */
static bool is_closed(const struct file *file)
{
	return refers_to(file->node->fd, file->node) && !is_elsewhere(file->node->fd, file->mark);
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
