#include "output.h"

#include <string.h>

#include "bare.h"

#define STDOUT 1

static char buffer[4096];
static size_t filled;
static unsigned column;
static bool failed;

bool output_flush(void)
{
	for (size_t at = 0; at < filled && !failed;) {
		long written = bare_call(SYS_write, STDOUT, (long)(buffer + at), (long)(filled - at), 0);

		failed = written <= 0;
		at += failed ? 0 : (size_t)written;
	}
	filled = 0;
	return !failed;
}

static void output_byte(char byte)
{
	if (filled == sizeof buffer)
		output_flush();
	buffer[filled++] = byte;
	column = byte == '\n' ? 0 : column + 1;
}

void output_text(const char *text)
{
	while (*text)
		output_byte(*text++);
}

void output_number(uint64_t number)
{
	char digits[21];
	size_t at = sizeof digits - 1;

	digits[at] = '\0';
	do
		digits[--at] = (char)('0' + number % 10);
	while (number /= 10);
	output_text(digits + at);
}

static char printable(char byte)
{
	return byte >= ' ' && byte <= '~' ? byte : '?';
}

void output_printable(const char *text, size_t length)
{
	for (size_t i = 0; i < length; i++)
		output_byte(printable(text[i]));
}

void output_json(const char *text, size_t length)
{
	output_byte('"');
	for (size_t i = 0; i < length; i++) {
		if (text[i] == '"' || text[i] == '\\')
			output_byte('\\');
		output_byte(printable(text[i]));
	}
	output_byte('"');
}

void output_column(unsigned to)
{
	output_text("  ");
	while (column < to)
		output_byte(' ');
}
