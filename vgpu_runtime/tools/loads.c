/*
 * vgpu-loads FILE PROGRAM...   writes to FILE whether the loader of each program loads the library: a JSON object a line
 *
 * `vgpu check --image` runs it in a container of the image, whose /etc/ld.so.preload names the library as in a container
 * with a slice. It runs no program, only the program's loader with --list, which glibc and musl have. For any image it
 * uses neither libc nor a loader (bare.h). 0: written. 1: FILE cannot be written. 2: wrong arguments.
 */
#define _GNU_SOURCE
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>

#include "bare.h"
#include "output.h"

#define LIBRARY "/libvgpu.so"
/* How both loaders write that they have loaded it. */
#define LOADED LIBRARY " (0x"
#define DEFAULT_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

enum {
	PATH_BYTES = 256,
	HEAD_BYTES = 512,    /* of a program: the line of a script's interpreter is shorter */
	MOST_HEADERS = 64,
	MOST_SCRIPTS = 4,    /* a script's interpreter may be a script, as in the kernel */
	SAID_BYTES = 200,
	LISTED_BYTES = 1 << 16,
	STDOUT = 1,
	STDERR = 2,
	NOT_FOUND = 127,
};

enum state { LOADED_STATE, NOT_LOADED, STATIC, NO_PROGRAM, NO_LOADER, UNREADABLE, NOT_ELF64 };

static const char *const state_names[] = {
	"loaded", "not loaded", "static", "no program", "no loader", "unreadable", "no 64-bit program",
};

struct program {
	char path[PATH_BYTES];
	char loader[PATH_BYTES]; /* empty: the program is static */
	char said[SAID_BYTES];   /* by the loader, of the library; empty: nothing */
};

static char **environment;
static char listed[LISTED_BYTES + 1];

static bool begins(const char *text, const char *with)
{
	while (*with)
		if (*text++ != *with++)
			return false;
	return true;
}

static const char *found(const char *text, const char *part)
{
	for (; *text; text++)
		if (begins(text, part))
			return text;
	return NULL;
}

static const char *base_name(const char *path)
{
	const char *base = path;

	for (; *path; path++)
		if (*path == '/')
			base = path + 1;
	return base;
}

static const char *variable(const char *name, const char *otherwise)
{
	for (char **at = environment; *at; at++)
		if (begins(*at, name) && (*at)[strlen(name)] == '=')
			return *at + strlen(name) + 1;
	return otherwise;
}

/* Copies `length` bytes and a zero; false where they do not fit. */
static bool copy(char *to, size_t size, const char *from, size_t length)
{
	if (length >= size)
		return false;
	memcpy(to, from, length);
	to[length] = '\0';
	return true;
}

/* Opens `word` as a shell finds it, and writes its path. Returns a descriptor, or a negative error number. */
static long open_program(const char *word, char path[PATH_BYTES])
{
	size_t length = strlen(word);
	const char *folder = variable("PATH", DEFAULT_PATH);
	long fd = -1;

	if (memchr(word, '/', length))
		return copy(path, PATH_BYTES, word, length)
			       ? bare_call(SYS_openat, AT_FDCWD, (long)path, O_RDONLY | O_CLOEXEC, 0)
			       : -1;
	for (; fd < 0 && *folder; folder += *folder == ':') {
		size_t end = 0;

		while (folder[end] && folder[end] != ':')
			end++;
		if (end + 1 + length < PATH_BYTES) {
			memcpy(path, folder, end);
			path[end] = '/';
			copy(path + end + 1, PATH_BYTES - end - 1, word, length);
			fd = bare_call(SYS_openat, AT_FDCWD, (long)path, O_RDONLY | O_CLOEXEC, 0);
		}
		folder += end;
	}
	return fd;
}

/* The next word of a script's first line; false at its end. */
static bool next_word(const char **at, char word[PATH_BYTES])
{
	size_t length = 0;

	while (**at == ' ' || **at == '\t')
		(*at)++;
	while ((*at)[length] > ' ')
		length++;
	if (!length || !copy(word, PATH_BYTES, *at, length))
		return false;
	*at += length;
	return true;
}

/* Writes the interpreter of a script, behind env the program that env starts; false where it has none. */
static bool read_script(const char *head, char word[PATH_BYTES])
{
	bool known = begins(head, "#!");

	head += 2;
	known = known && next_word(&head, word);
	if (known && strcmp(base_name(word), "env") == 0)
		do
			known = next_word(&head, word);
		while (known && (word[0] == '-' || found(word, "=")));
	return known;
}

/* Writes the loader of an ELF file, empty for a static one; false where it is none of 64 bits. */
static bool read_loader(long fd, const char *head, long length, char loader[PATH_BYTES])
{
	Elf64_Phdr headers[MOST_HEADERS];
	Elf64_Ehdr elf;
	unsigned count;

	if (length < (long)sizeof elf || memcmp(head, ELFMAG, SELFMAG) != 0 || head[EI_CLASS] != ELFCLASS64)
		return false;
	memcpy(&elf, head, sizeof elf);
	count = elf.e_phnum < MOST_HEADERS ? elf.e_phnum : MOST_HEADERS;
	length = bare_call(SYS_pread64, fd, (long)headers, (long)(count * sizeof *headers), (long)elf.e_phoff);
	if (elf.e_phentsize != sizeof *headers || length != (long)(count * sizeof *headers))
		return false;
	loader[0] = '\0';
	for (unsigned i = 0; i < count; i++)
		if (headers[i].p_type == PT_INTERP && headers[i].p_filesz < PATH_BYTES) {
			length = bare_call(SYS_pread64, fd, (long)loader, (long)headers[i].p_filesz,
					   (long)headers[i].p_offset);
			loader[length > 0 ? length : 0] = '\0';
		}
	return true;
}

/* Starts `loader --list path` with both outputs into `output`, in a new process. */
static long start_loader(const struct program *program, long output)
{
	const char *words[] = {program->loader, "--list", program->path, NULL};
	long child = bare_call(SYS_clone, SIGCHLD, 0, 0, 0);

	if (child)
		return child;
	bare_call(SYS_dup3, output, STDOUT, 0, 0);
	bare_call(SYS_dup3, output, STDERR, 0, 0);
	bare_call(SYS_execve, (long)words[0], (long)words, (long)environment, 0);
	bare_call(SYS_exit_group, NOT_FOUND, 0, 0, 0);
	__builtin_unreachable();
}

/* Writes what the loader lists to `listed`. Returns its exit status, or -1. */
static int list(const struct program *program)
{
	static char rest[4096];
	long length = 0, got = 1, child;
	int ends[2], status = 0;

	listed[0] = '\0';
	if (bare_call(SYS_pipe2, (long)ends, O_CLOEXEC, 0, 0) < 0)
		return -1;
	child = start_loader(program, ends[1]);
	bare_call(SYS_close, ends[1], 0, 0, 0);
	while (child > 0 && got > 0) {
		bool room = length < LISTED_BYTES;

		got = bare_call(SYS_read, ends[0], (long)(room ? listed + length : rest),
				room ? LISTED_BYTES - length : (long)sizeof rest, 0);
		length += room && got > 0 ? got : 0;
	}
	listed[length] = '\0';
	bare_call(SYS_close, ends[0], 0, 0, 0);
	if (child < 0 || bare_call(SYS_wait4, child, (long)&status, 0, 0) < 0)
		return -1;
	return status & 0x7f ? -1 : (status >> 8) & 0xff;
}

/* Copies the line of `listed` that names the library, or the first line where the loader failed. */
static void quote(bool failed, char said[SAID_BYTES])
{
	const char *line = listed, *named = found(listed, LIBRARY);
	size_t length = 0;

	for (const char *at = listed; named && at < named; at++)
		if (*at == '\n')
			line = at + 1;
	while (line[length] && line[length] != '\n' && length < SAID_BYTES - 1)
		length++;
	copy(said, SAID_BYTES, line, named || failed ? length : 0);
}

static enum state examine(const char *word, struct program *program)
{
	char head[HEAD_BYTES + 1], interpreter[PATH_BYTES];
	bool elf = false, script = true;

	for (int depth = 0; script && depth <= MOST_SCRIPTS; depth++) {
		long fd = open_program(word, program->path);
		long length = fd < 0 ? 0 : bare_call(SYS_pread64, fd, (long)head, HEAD_BYTES, 0);

		if (fd < 0 || length < 0)
			return fd == -EACCES || length < 0 ? UNREADABLE : NO_PROGRAM; /* or a folder */
		head[length] = '\0';
		script = read_script(head, interpreter);
		elf = !script && read_loader(fd, head, length, program->loader);
		bare_call(SYS_close, fd, 0, 0, 0);
		word = interpreter;
	}
	if (!elf || !program->loader[0])
		return elf ? STATIC : NOT_ELF64;
	int status = list(program);
	bool loaded = found(listed, LOADED) && status == 0;

	if (!loaded)
		quote(status != 0, program->said);
	return loaded ? LOADED_STATE : status == NOT_FOUND && !listed[0] ? NO_LOADER : NOT_LOADED;
}

static void show(const char *name, const char *value, const char *before)
{
	output_text(before);
	output_json(name, strlen(name));
	output_text(":");
	output_json(value, strlen(value));
}

static int loads(int count, char **words)
{
	static const char usage[] = "usage: vgpu-loads FILE PROGRAM...\n";
	long fd;

	environment = words + count + 1;
	if (count < 3) {
		bare_call(SYS_write, STDERR, (long)usage, sizeof usage - 1, 0);
		return 2;
	}
	fd = bare_call(SYS_openat, AT_FDCWD, (long)words[1], O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	if (fd < 0 || bare_call(SYS_dup3, fd, STDOUT, 0, 0) < 0)
		return 1;
	for (int i = 2; i < count; i++) {
		struct program program = {.path = "", .loader = "", .said = ""};
		enum state state = examine(words[i], &program);

		show("program", words[i], "{");
		show("path", state == NO_PROGRAM ? "" : program.path, ",");
		show("loader", program.loader, ",");
		show("state", state_names[state], ",");
		show("said", program.said, ",");
		output_text("}\n");
	}
	return output_flush() ? 0 : 1;
}

BARE_PROGRAM(loads);
