#define _GNU_SOURCE
#include <fcntl.h>
#include <unistd.h>

#include "raw.h"
#include "real.h"
#include "sysfs.h"

bool sysfs_read(const char *path, char *text, size_t size)
{
	int fd = REAL(open, open_fn)(path, O_RDONLY | O_CLOEXEC);
	ssize_t length = fd < 0 ? -1 : read(fd, text, size - 1);

	if (fd >= 0)
		raw_close(fd);
	text[length < 0 ? 0 : length] = '\0';
	return length > 0;
}

const char *sysfs_number(const char *text, uint64_t *number)
{
	const char *at = text;

	for (*number = 0; *at >= '0' && *at <= '9'; at++)
		*number = *number * 10 + (uint64_t)(*at - '0');
	return at > text ? at : NULL;
}
