/* The library's lines on stderr: a few in a process's life, written without stdio and without memory of the heap. */
#define _GNU_SOURCE
#include <string.h>
#include <unistd.h>

#include "environment.h"
#include "raw.h"
#include "slice.h"

#define KIB (UINT64_C(1) << 10)
#define MIB (UINT64_C(1) << 20)
#define LINE_MAX_BYTES 512

struct line {
	char text[LINE_MAX_BYTES];
	size_t length;
};

static void add_part(struct line *line, struct span part)
{
	size_t room = sizeof line->text - 1 - line->length; /* 1 for the newline */

	if (part.length > room)
		part.length = room;
	memcpy(line->text + line->length, part.start, part.length);
	line->length += part.length;
}

static void add(struct line *line, const char *text)
{
	add_part(line, (struct span){text, strlen(text)});
}

static void add_number(struct line *line, uint64_t number)
{
	char digits[21];
	size_t at = sizeof digits - 1;

	digits[at] = '\0';
	do
		digits[--at] = (char)('0' + number % 10);
	while (number /= 10);
	add(line, digits + at);
}

/* As the container's author wrote it: `hygon.com/dcu-mem: 4`. */
static void add_request(struct line *line, const struct card *card)
{
	struct request_words words = config_request(card);

	add_part(line, words.resource);
	add(line, " ");
	add_part(line, words.amount);
}

/* A pipe that nobody reads would block the program, and one without a reader end it with SIGPIPE. */
static bool stderr_takes_it(void)
{
	struct pollfd stream = {.fd = STDERR_FILENO, .events = POLLOUT};

	return raw_poll(&stream) == 1 && stream.revents == POLLOUT;
}

static void put(struct line *line)
{
	line->text[line->length++] = '\n';
	if (stderr_takes_it())
		raw_write(STDERR_FILENO, line->text, line->length);
}

/* True on the first call of each process with this `by`; a forked child has its parent's. */
static bool first(pid_t *by)
{
	pid_t self = raw_getpid();

	return __atomic_exchange_n(by, self, __ATOMIC_RELAXED) != self;
}

void slice_complain(const char *text, const char *detail)
{
	static pid_t complained;
	struct line line = {.length = 0};

	if (!first(&complained))
		return;
	add(&line, "vgpu: ");
	add(&line, text);
	add(&line, ": ");
	add(&line, detail);
	put(&line);
}

static bool is_quiet(void)
{
	const char *value = environment_value("VGPU_QUIET");

	return value && *value;
}

/* Bytes asked for and in use are rounded up, the limit down: a refused request never seems to fit. */
static uint64_t mib_up(uint64_t bytes)
{
	return bytes / MIB + (bytes % MIB != 0);
}

void slice_complain_refused(const struct card *card, uint64_t bytes, uint64_t used)
{
	static pid_t refused;
	struct line line = {.length = 0};

	if (!first(&refused) || is_quiet())
		return;
	add(&line, "vgpu: ");
	add_number(&line, bytes < MIB ? bytes / KIB : mib_up(bytes));
	add(&line, bytes < MIB ? " KiB refused: the slice has " : " MiB refused: the slice has ");
	add_number(&line, card->mem_bytes / MIB);
	add(&line, " MiB, ");
	add_number(&line, mib_up(used));
	add(&line, " in use");
	if (card->request.length) {
		add(&line, " (");
		add_request(&line, card);
		add(&line, ")");
	}
	put(&line);
}
