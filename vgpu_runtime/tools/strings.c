/* The functions of <string.h> that these programs and the compiler itself call. */
#include <string.h>

void *memset(void *to, int value, size_t size)
{
	for (unsigned char *at = to; size; size--)
		*at++ = (unsigned char)value;
	return to;
}

void *memcpy(void *restrict to, const void *restrict from, size_t size)
{
	const unsigned char *source = from;

	for (unsigned char *at = to; size; size--)
		*at++ = *source++;
	return to;
}

int memcmp(const void *one, const void *other, size_t size)
{
	const unsigned char *left = one, *right = other;

	for (; size; size--, left++, right++)
		if (*left != *right)
			return *left < *right ? -1 : 1;
	return 0;
}

void *memchr(const void *text, int value, size_t size)
{
	for (const unsigned char *at = text; size; size--, at++)
		if (*at == (unsigned char)value)
			return (void *)(unsigned long)at;
	return NULL;
}

size_t strlen(const char *text)
{
	size_t length = 0;

	while (text[length])
		length++;
	return length;
}

int strcmp(const char *one, const char *other)
{
	while (*one && *one == *other)
		one++, other++;
	return (unsigned char)*one - (unsigned char)*other;
}
