/* The commands of a probe, and what they print: one line of JSON. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "probe.h"

#define USAGE \
	"usage: %s [--device N] COMMAND\n" \
	"  info                what the program sees of its card\n" \
	"  alloc MIB [HOW]     allocate and end; HOW: malloc pitch 3d ext managed pool hsa\n" \
	"  hold MIB [HOW]      allocate and stay until killed, or until the pipe on standard input is closed\n" \
	"  copy MIB            copy that much to the card and back\n" \
	"  queue [--mask HEX]  create a queue, with a mask of its own\n" \
	"  run N [--mask HEX]  create a queue, run N kernels on it, tell the time\n"

struct options {
	int device;
	const char *mask;
	const char *words[3]; /* command and its arguments */
	int count;
};

bool probe_failed(const char *error)
{
	return strcmp(error, "hipSuccess") != 0;
}

static int usage(const char *program)
{
	fprintf(stderr, USAGE, program);
	return 2;
}

static bool parse(char **argv, struct options *options)
{
	for (char **word = argv + 1; *word; word++) {
		if (strcmp(*word, "--device") == 0 && word[1])
			options->device = atoi(*++word);
		else if (strcmp(*word, "--mask") == 0 && word[1])
			options->mask = *++word;
		else if (options->count < 3)
			options->words[options->count++] = *word;
		else
			return false;
	}
	return options->count > 0;
}

/* Hexadecimal, lowest compute unit in the last digit. Returns the number of words; 0: not a mask. */
static unsigned parse_mask(const char *hex, uint32_t *words)
{
	size_t digits;

	if (strncmp(hex, "0x", 2) == 0)
		hex += 2;
	digits = strlen(hex);
	if (digits == 0 || digits > PROBE_MASK_WORDS * 8 || strspn(hex, "0123456789abcdefABCDEF") != digits)
		return 0;
	for (size_t i = 0; i < digits; i++) {
		char digit[2] = {hex[digits - 1 - i], 0};

		words[i / 8] |= (uint32_t)strtoul(digit, NULL, 16) << i % 8 * 4;
	}
	return (unsigned)(digits + 7) / 8;
}

static int info(const struct options *options)
{
	struct probe_card card = {.devices = 0};
	const char *error = probe_info(options->device, &card);

	if (probe_failed(error))
		printf("{\"devices\":%d,\"error\":\"%s\"}\n", card.devices, error);
	else
		printf("{\"devices\":%d,\"total_mib\":%lu,\"free_mib\":%lu,\"units\":%d,\"name\":\"%s\"}\n", card.devices,
				card.total_bytes >> 20, card.free_bytes >> 20, card.units, card.name);
	return 0;
}

static const char *allocate(const struct options *options)
{
	const char *how = options->count > 2 ? options->words[2] : "malloc";
	unsigned long mib = strtoul(options->words[1], NULL, 10);
	const char *error = probe_alloc(options->device, how, (uint64_t)mib << 20);

	printf("{\"how\":\"%s\",\"mib\":%lu,\"error\":\"%s\"}\n", how, mib, error);
	fflush(stdout);
	return error;
}

static void end(int signal_number)
{
	(void)signal_number;
	_exit(0);
}

/* Standard input that is not a pipe (a pod's is /dev/null) says nothing about when to end. */
static void stay(void)
{
	struct stat st;
	char byte;

	if (fstat(STDIN_FILENO, &st) == 0 && (S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode)))
		while (read(STDIN_FILENO, &byte, 1) > 0)
			;
	else
		for (;;)
			pause();
}

static int hold(const struct options *options)
{
	signal(SIGTERM, end); /* the first process of a container has no default for it */
	signal(SIGINT, end);
	if (!probe_failed(allocate(options)))
		stay();
	return 0;
}

static int copy(const struct options *options)
{
	unsigned long mib = strtoul(options->words[1], NULL, 10);
	bool intact = false;
	const char *error = probe_copy(options->device, (uint64_t)mib << 20, &intact);

	printf("{\"mib\":%lu,\"intact\":%s,\"error\":\"%s\"}\n", mib, intact ? "true" : "false", error);
	return 0;
}

static double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static int queue(const struct options *options, unsigned kernels)
{
	uint32_t mask[PROBE_MASK_WORDS] = {0};
	unsigned words = options->mask ? parse_mask(options->mask, mask) : 0;
	const char *error;
	double start;

	if (options->mask && !words) {
		fprintf(stderr, "--mask %s is not a hexadecimal number of at most %d digits\n", options->mask,
				PROBE_MASK_WORDS * 8);
		return 2;
	}
	error = probe_queue(options->device, mask, words);
	start = seconds();
	if (!probe_failed(error) && kernels)
		error = probe_run(kernels);
	printf("{\"queue\":\"%s\",\"kernels\":%u,\"seconds\":%.6f,\"error\":\"%s\"}\n", words ? "masked" : "plain", kernels,
			seconds() - start, error);
	return 0;
}

static int run(const struct options *options)
{
	const char *command = options->words[0];
	bool sized = options->count > 1 && strtoul(options->words[1], NULL, 10) > 0;

	if (strcmp(command, "info") == 0)
		return info(options);
	if (strcmp(command, "alloc") == 0 && sized)
		return allocate(options), 0;
	if (strcmp(command, "hold") == 0 && sized)
		return hold(options);
	if (strcmp(command, "copy") == 0 && sized)
		return copy(options);
	if (strcmp(command, "queue") == 0)
		return queue(options, 0);
	if (strcmp(command, "run") == 0 && sized)
		return queue(options, (unsigned)strtoul(options->words[1], NULL, 10));
	return 2;
}

int main(int argc, char **argv)
{
	struct options options = {.device = 0};
	const char *error;
	int status;

	(void)argc;
	if (!parse(argv, &options))
		return usage(argv[0]);
	error = probe_open(argv);
	if (probe_failed(error)) {
		printf("{\"devices\":0,\"error\":\"%s\"}\n", error);
		return 1;
	}
	status = run(&options);
	if (status == 2)
		return usage(argv[0]);
	fflush(stdout);
	_exit(status); /* the runtime's own clean-up is not what is looked at */
}
