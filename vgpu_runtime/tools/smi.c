/*
 * vgpu-smi [--json] [--watch [SECONDS]]   shows the container's slices, what they use, and which process uses it
 *
 * It reads what the library reads, the container's config and its usage region, so it shows what the library enforces.
 * For containers of any image it uses neither libc nor a loader (bare.h). 0: shown. 1: there is no slice, or a file of
 * it cannot be read or is damaged. 2: wrong arguments.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>

#include "bare.h"
#include "config.h"
#include "output.h"
#include "region_usage.h"
#include "vgpu_paths.h"

#define MIB (UINT64_C(1) << 20)
#define NAME_MAX_BYTES 16 /* of /proc/<pid>/comm, with its newline */
#define DEFAULT_SECONDS 2
#define MOST_SECONDS 3600

static const char help[] =
	"usage: vgpu-smi [--json] [--watch [SECONDS]]\n"
	"\n"
	"Shows the slices of this container: their limits, what its processes use, and what was refused.\n"
	"\n"
	"  --json             one JSON object in a line\n"
	"  --watch [SECONDS]  again every so many seconds, 1 to 3600 (default: 2)\n"
	"  --help             this text\n"
	"\n"
	"0: shown. 1: no slice, or its files cannot be read. 2: wrong arguments.\n";

struct options {
	bool json;
	bool help;
	unsigned seconds; /* 0: once */
};

static struct config config;
static struct region_usage usage;

static void complain(const char *text, const char *detail)
{
	const char *const parts[] = {"vgpu-smi: ", text, detail, "\n"};

	for (unsigned i = 0; i < sizeof parts / sizeof *parts; i++)
		bare_call(SYS_write, 2, (long)parts[i], (long)strlen(parts[i]), 0);
}

/* Returns the number of bytes, or a negative error number. */
static long read_file(const char *path, char *text, long size)
{
	long fd = bare_call(SYS_openat, AT_FDCWD, (long)path, O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0);
	long length = 0, got = 1;

	if (fd < 0)
		return fd;
	while (length < size && got > 0) {
		got = bare_call(SYS_read, fd, (long)(text + length), size - length, 0);
		length += got > 0 ? got : 0;
	}
	bare_call(SYS_close, fd, 0, 0, 0);
	return got < 0 ? got : length;
}

static bool read_config(void)
{
	static char text[CONFIG_MAX_BYTES + 1];
	long length = read_file(VGPU_CONFIG_PATH, text, sizeof text);
	const char *wrong = length < 0 ? NULL : config_parse(text, (size_t)length, &config);

	if (length < 0)
		complain("this container has no slice: it cannot read ", VGPU_CONFIG_PATH);
	else if (wrong)
		complain(VGPU_CONFIG_PATH ": ", wrong);
	return length >= 0 && !wrong;
}

/* Writes the name of a process to `name` and returns its length, 0 where there is no such process. */
static size_t read_name(uint64_t pid, char name[NAME_MAX_BYTES])
{
	char path[32] = "/proc/", *at = path + 6, digits[21];
	size_t count = 0;
	long length;

	do
		digits[count++] = (char)('0' + pid % 10);
	while (pid /= 10);
	while (count)
		*at++ = digits[--count];
	memcpy(at, "/comm", 6);
	length = read_file(path, name, NAME_MAX_BYTES);
	return length > 0 && name[length - 1] == '\n' ? (size_t)length - 1 : length > 0 ? (size_t)length : 0;
}

/* Bytes in use are rounded up, limits down, as in the library's own line on stderr. */
static uint64_t mib_up(uint64_t bytes)
{
	return bytes / MIB + (bytes % MIB != 0);
}

/* Core group i is as many consecutive units as the card grants together: device_plugin/core/contract/masks.py. */
static bool has_group(const struct card *card, unsigned group)
{
	unsigned units = card->xcc * (card->paired ? 2 : 1);

	return group * units < card->compute_units && mask_has(&card->granted, group * units);
}

/* The granted core groups as ranges: 0-3,7. */
static void show_groups(const struct card *card)
{
	const char *separator = "";

	for (unsigned first = 0; first < card->compute_units; first++) {
		unsigned last = first;

		if (!has_group(card, first))
			continue;
		while (has_group(card, last + 1))
			last++;
		output_text(separator);
		output_number(first);
		if (last > first) {
			output_text("-");
			output_number(last);
		}
		separator = ",";
		first = last;
	}
}

static void show_mib(uint64_t mib)
{
	output_number(mib);
	output_text(" MiB");
}

static unsigned uuid_width(void)
{
	size_t width = strlen("CARD");

	for (unsigned i = 0; i < config.card_count; i++)
		if (config.cards[i].uuid.length > width)
			width = config.cards[i].uuid.length;
	return (unsigned)width;
}

static unsigned model_width(void)
{
	size_t width = strlen("MODEL");

	for (unsigned i = 0; i < config.card_count; i++)
		if (config.cards[i].model.length > width)
			width = config.cards[i].model.length;
	return (unsigned)width;
}

static void show_card(unsigned index, unsigned model, unsigned from, bool known)
{
	const struct card *card = &config.cards[index];

	output_printable(card->uuid.start, card->uuid.length);
	output_column(model);
	output_printable(card->model.start, card->model.length);
	output_column(from);
	show_mib(card->mem_bytes / MIB);
	output_column(from + 14);
	if (known) {
		show_mib(mib_up(usage.used[index]));
		output_text(" (");
		output_number(usage.used[index] * 100 / card->mem_bytes);
		output_text(" %)");
	} else {
		output_text("not known");
	}
	output_column(from + 34);
	if (known)
		output_number(usage.denied[index]);
	else
		output_text("not known");
	output_column(from + 45);
	output_number(card->granted_units);
	output_text(" of ");
	output_number(card->compute_units);
	output_column(from + 57);
	show_groups(card);
	output_text("\n");
}

static void show_process(const struct process *process, unsigned card, unsigned from)
{
	char name[NAME_MAX_BYTES];

	if (process->pid)
		output_number(process->pid);
	else
		output_text("-");
	output_column(9);
	output_printable(name, process->pid ? read_name(process->pid, name) : 0);
	output_column(26);
	output_printable(config.cards[card].uuid.start, config.cards[card].uuid.length);
	output_column(26 + from);
	show_mib(mib_up(process->used[card]));
	output_text("\n");
}

/* A process that uses a card without memory of it, such as by a queue, is shown at the first one. */
static void show_processes(unsigned from)
{
	output_text("\nPROCESS  NAME             CARD");
	output_column(26 + from);
	output_text("IN USE\n");
	for (unsigned i = 0; i < usage.process_count; i++) {
		const struct process *process = &usage.processes[i];
		bool shown = false;

		for (unsigned card = 0; card < config.card_count; card++)
			if (process->used[card]) {
				show_process(process, card, from);
				shown = true;
			}
		if (!shown)
			show_process(process, 0, from);
	}
}

/* The container's limit, which is the same for all of its cards: ` (hygon.com/dcu-mem: 4)`. */
static void show_request(const struct card *card)
{
	struct request_words words = config_request(card);

	if (!card->request.length)
		return;
	output_text(" (");
	output_printable(words.resource.start, words.resource.length);
	output_text(" ");
	output_printable(words.amount.start, words.amount.length);
	output_text(")");
}

static void show_table(bool known)
{
	unsigned model = uuid_width() + 2, from = model + model_width() + 2;

	output_text("pod ");
	output_printable(config.pod.start, config.pod.length);
	output_text(", container ");
	output_printable(config.container.start, config.container.length);
	show_request(&config.cards[0]);
	output_text("\n\nCARD");
	output_column(model);
	output_text("MODEL");
	output_column(from);
	output_text("LIMIT         IN USE              REFUSED    UNITS       CORE GROUPS\n");
	for (unsigned i = 0; i < config.card_count; i++)
		show_card(i, model, from, known);
	if (known && usage.process_count)
		show_processes(model);
}

static void json_number(const char *name, uint64_t number, bool known)
{
	output_text(name);
	if (known)
		output_number(number);
	else
		output_text("null");
}

static void json_card(unsigned index, bool known)
{
	const struct card *card = &config.cards[index];
	const char *separator = "";

	output_text("{\"uuid\":");
	output_json(card->uuid.start, card->uuid.length);
	output_text(",\"pci\":");
	output_json(card->pci.start, card->pci.length);
	output_text(",\"model\":");
	output_json(card->model.start, card->model.length);
	output_text(",\"request\":");
	if (card->request.length)
		output_json(card->request.start, card->request.length);
	else
		output_text("null");
	json_number(",\"memoryLimitBytes\":", card->mem_bytes, true);
	json_number(",\"memoryUsedBytes\":", usage.used[index], known);
	json_number(",\"refusedAllocations\":", usage.denied[index], known);
	json_number(",\"units\":", card->granted_units, true);
	json_number(",\"cardUnits\":", card->compute_units, true);
	output_text(",\"coreGroups\":[");
	for (unsigned group = 0; group < card->compute_units; group++)
		if (has_group(card, group)) {
			output_text(separator);
			output_number(group);
			separator = ",";
		}
	output_text("]}");
}

static void json_process(const struct process *process)
{
	char name[NAME_MAX_BYTES];

	json_number("{\"pid\":", process->pid, process->pid != 0);
	output_text(",\"name\":");
	output_json(name, process->pid ? read_name(process->pid, name) : 0);
	output_text(",\"memoryUsedBytes\":[");
	for (unsigned card = 0; card < config.card_count; card++)
		json_number(card ? "," : "", process->used[card], true);
	output_text("]}");
}

static void show_json(bool known)
{
	output_text("{\"pod\":");
	output_json(config.pod.start, config.pod.length);
	output_text(",\"container\":");
	output_json(config.container.start, config.container.length);
	output_text(",\"enforcement\":");
	output_json(config.enforcement.start, config.enforcement.length);
	output_text(",\"cards\":[");
	for (unsigned i = 0; i < config.card_count; i++) {
		output_text(i ? "," : "");
		json_card(i, known);
	}
	output_text("],\"processes\":");
	output_text(known ? "[" : "null");
	for (unsigned i = 0; known && i < usage.process_count; i++) {
		output_text(i ? "," : "");
		json_process(&usage.processes[i]);
	}
	output_text(known ? "]}\n" : "}\n");
}

/* Returns the exit status. */
static int show(const struct options *options)
{
	bool known;

	if (!read_config())
		return 1;
	known = region_usage_read(&usage);
	if (options->json)
		show_json(known);
	else
		show_table(known);
	if (!known)
		complain("what is used is not known: missing or damaged is ", VGPU_REGION_PATH);
	return output_flush() && known ? 0 : 1;
}

static bool on_terminal(void)
{
	char settings[64]; /* the kernel's struct termios is shorter */

	return bare_call(SYS_ioctl, 1, TCGETS, (long)settings, 0) == 0;
}

static int watch(const struct options *options)
{
	const struct timespec pause = {.tv_sec = options->seconds};
	bool clear = !options->json && on_terminal();

	for (;;) {
		if (clear)
			output_text("\033[H\033[J");
		show(options);
		if (!output_flush())
			return 1;
		bare_call(SYS_nanosleep, (long)&pause, 0, 0, 0);
	}
}

/* 1 to MOST_SECONDS in digits; 0 for any other word. */
static unsigned read_seconds(const char *word)
{
	unsigned seconds = 0;

	for (; *word >= '0' && *word <= '9' && seconds <= MOST_SECONDS; word++)
		seconds = seconds * 10 + (unsigned)(*word - '0');
	return *word || seconds > MOST_SECONDS ? 0 : seconds;
}

static bool read_options(int count, char **words, struct options *options)
{
	for (int i = 1; i < count; i++) {
		if (!strcmp(words[i], "--help")) {
			options->help = true;
		} else if (!strcmp(words[i], "--json")) {
			options->json = true;
		} else if (!strcmp(words[i], "--watch")) {
			bool given = i + 1 < count && words[i + 1][0] != '-';

			options->seconds = given ? read_seconds(words[++i]) : DEFAULT_SECONDS;
			if (!options->seconds)
				return false;
		} else {
			return false;
		}
	}
	return true;
}

static int smi(int count, char **words)
{
	struct options options = {0};

	if (!read_options(count, words, &options)) {
		bare_call(SYS_write, 2, (long)help, sizeof help - 1, 0);
		return 2;
	}
	if (options.help) {
		output_text(help);
		return output_flush() ? 0 : 1;
	}
	return options.seconds ? watch(&options) : show(&options);
}

BARE_PROGRAM(smi);
