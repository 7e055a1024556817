/*
 * vgpu-progress DONE TOTAL      says in $VGPU_PROGRESS how far the program is
 * vgpu-checkpoint done          says that one checkpoint more is saved
 *
 * One program of two names, for scripts in any container: an image may have no Python, no libc or another one, so it uses
 * neither libc nor a loader, only system calls, whose numbers never change. The format is that of
 * device_plugin/core/jobs/progress.py: two lines of 64 bytes, of which each name writes one, with one write.
 *
 * A node may have no such file, and a job must not fail for that: then it says so and ends with 0. 2: wrong arguments.
 */
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bare.h"

enum { LINE = 64, DIGITS = 16 };

static size_t length(const char *text)
{
	size_t size = 0;

	while (text[size])
		size++;
	return size;
}

static bool begins(const char *text, const char *with)
{
	while (*with)
		if (*text++ != *with++)
			return false;
	return true;
}

static bool same(const char *one, const char *other)
{
	return begins(one, other) && !one[length(other)];
}

static void say(const char *text)
{
	bare_call(SYS_write, 2, (long)text, (long)length(text), 0);
}

/* 1 to 16 digits, nothing else. */
static bool is_number(const char *text)
{
	size_t size = length(text);

	for (size_t i = 0; i < size; i++)
		if (text[i] < '0' || text[i] > '9')
			return false;
	return size >= 1 && size <= DIGITS;
}

/* The number at the beginning of a line, or 0. */
static uint64_t number_in(const char *line)
{
	uint64_t value = 0;

	for (size_t i = 0; i < DIGITS && line[i] >= '0' && line[i] <= '9'; i++)
		value = value * 10 + (uint64_t)(line[i] - '0');
	return value;
}

static char *put(char *at, const char *text)
{
	while (*text)
		*at++ = *text++;
	return at;
}

static void blank(char *line)
{
	volatile char *at = line; /* or the compiler calls memset, which is not here */

	for (size_t i = 0; i < LINE - 1; i++)
		at[i] = ' ';
	at[LINE - 1] = '\n';
}

static const char *variable(char **environment, const char *name)
{
	for (; *environment; environment++)
		if (begins(*environment, name) && (*environment)[length(name)] == '=')
			return *environment + length(name) + 1;
	return "";
}

static int open_file(char **environment)
{
	const char *path = variable(environment, "VGPU_PROGRESS");
	long fd = *path ? bare_call(SYS_openat, AT_FDCWD, (long)path, O_RDWR | O_CLOEXEC | O_NONBLOCK, 0) : -1;

	if (fd < 0)
		say("vgpu: nobody is told: there is no file at $VGPU_PROGRESS that this user can write\n");
	return (int)fd;
}

static void write_line(int fd, const char *line, long at)
{
	if (bare_call(SYS_pwrite64, fd, (long)line, LINE, at) != LINE)
		say("vgpu: nobody is told: the file at $VGPU_PROGRESS cannot be written\n");
}

static int progress(int count, char **words, char **environment)
{
	char line[LINE];
	int fd;

	if (count != 3 || !is_number(words[1]) || !is_number(words[2])) {
		say("usage: vgpu-progress DONE TOTAL, two whole numbers such as 120000 1281167\n");
		return 2;
	}
	blank(line);
	put(put(put(line, words[1]), " "), words[2]);
	fd = open_file(environment);
	if (fd >= 0)
		write_line(fd, line, 0);
	return 0;
}

static int checkpoint(int count, char **words, char **environment)
{
	char line[LINE], digits[DIGITS + 5];
	size_t at = sizeof digits - 1;
	uint64_t saved = 0;
	int fd;

	if (count != 2 || !same(words[1], "done")) {
		say("usage: vgpu-checkpoint done, after a checkpoint is saved\n");
		return 2;
	}
	fd = open_file(environment);
	if (fd < 0)
		return 0;
	if (bare_call(SYS_pread64, fd, (long)line, LINE, LINE) == LINE)
		saved = number_in(line);
	digits[at] = '\0';
	for (saved++; saved; saved /= 10)
		digits[--at] = (char)('0' + saved % 10);
	blank(line);
	put(line, digits + at);
	write_line(fd, line, LINE);
	return 0;
}

static int tell(int count, char **words)
{
	char **environment = words + count + 1;
	const char *name = count ? words[0] : "";

	for (const char *at = name; *at; at++)
		if (*at == '/')
			name = at + 1;
	if (same(name, "vgpu-checkpoint"))
		return checkpoint(count, words, environment);
	if (same(name, "vgpu-progress"))
		return progress(count, words, environment);
	say("call it as vgpu-progress or vgpu-checkpoint\n");
	return 2;
}

BARE_PROGRAM(tell);
