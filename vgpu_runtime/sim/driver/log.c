/* What tests look at: which calls reached the driver. */
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "real.h"
#include "simkfd.h"

/* Opened for each line and written at once, so that lines of several processes never mix. */
void sim_log(const char *format, ...)
{
	const char *path = getenv("SIMKFD_LOG");
	char line[512];
	va_list rest;
	int head;
	int fd;

	if (!path)
		return;
	head = snprintf(line, sizeof(line), "pid=%d ", (int)getpid());
	va_start(rest, format);
	head += vsnprintf(line + head, sizeof(line) - (size_t)head - 1, format, rest);
	va_end(rest);
	if ((size_t)head >= sizeof(line) - 1)
		head = sizeof(line) - 2;
	line[head++] = '\n';
	fd = real_open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
	if (fd < 0)
		return;
	if (write(fd, line, (size_t)head) < 0)
		perror("simkfd: SIMKFD_LOG");
	real_close(fd);
}
