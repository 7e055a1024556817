/* `mask CONFIG BITS HEX`: the physical mask, in hexadecimal, for a program's mask on the config's first card. */
#include <stdio.h>
#include <stdlib.h>

#include "mask.h"

int main(int count, char **arguments)
{
	static char text[CONFIG_MAX_BYTES + 1];
	static struct config config;
	struct mask physical;
	uint32_t words[CONFIG_MAX_UNITS / 32] = {0};
	FILE *file = fopen(arguments[1], "r");
	size_t length = fread(text, 1, sizeof text, file);

	fclose(file);
	if (config_parse(text, length, &config))
		return 1;
	for (int i = 2; i + 1 < count; i += 2) {
		unsigned bits = (unsigned)atoi(arguments[i]);
		char digits[9] = {0};

		for (unsigned word = 0; word < bits / 32; word++) {
			snprintf(digits, sizeof digits, "%.8s", arguments[i + 1] + (bits / 32 - 1 - word) * 8);
			words[word] = (uint32_t)strtoul(digits, NULL, 16);
		}
		mask_of_program(&config.cards[0], words, bits, &physical);
		for (int word = CONFIG_MAX_UNITS / 32; word-- > 0;)
			printf("%08x", physical.words[word]);
		putchar('\n');
	}
	return 0;
}
