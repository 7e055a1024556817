/*
 * The sum over the names of a JSON list, as __init__.py describes it. numpy passes over the whole list once for each step
 * of the hash; here a name stays in registers, and names of several lengths cost little more than names of one.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define WORD sizeof(uint64_t)

static inline uint64_t mixed(uint64_t hash, uint64_t factor)
{
	hash *= factor;
	/* A product alone would only change higher bits. */
	return hash ^ hash >> 32;
}

/* The last word of a name of 8 bytes or more overlaps the word before it. */
static inline uint64_t hash_of(const char *name, size_t length, uint64_t factor)
{
	uint64_t hash = length + 1, word = 0;
	for (size_t at = 0; at + WORD < length; at += WORD) {
		memcpy(&word, name + at, WORD);
		hash = mixed(hash ^ word, factor);
	}
	if (length >= WORD) {
		memcpy(&word, name + length - WORD, WORD);
	} else {
		for (size_t at = 0; at < length; at++)
			word = word << 8 | (unsigned char)name[at];
	}
	return mixed(mixed(hash ^ word, factor), factor);
}

/* True if `quote` is followed by the next name, or by the end of the list. */
static inline bool ends_name(const char *quote, const char *end)
{
	if (quote + 2 == end)
		return quote[1] == ']';
	return end - quote > 3 && quote[1] == ',' && quote[2] == '"';
}

/* 0 if the text has an unusual form. `factor` is odd. */
uint64_t vgpu_name_sum(const char *text, int64_t length, uint64_t factor)
{
	const char *name = text + 2, *end = text + length;
	uint64_t sum = 0;
	if (length < 4 || memcmp(text, "[\"", 2) != 0 || memchr(text, '\\', length))
		return 0;
	while (name < end) {
		const char *quote = memchr(name, '"', end - name);
		if (!quote || !ends_name(quote, end))
			return 0;
		sum += hash_of(name, quote - name, factor);
		name = quote + 3;
	}
	return sum;
}
