/* Reads vgpu.conf texts, each preceded by its length in a line; prints "ok" or what is wrong, a line each. */
#include <stdio.h>
#include <stdlib.h>

#include "config.h"

int main(void)
{
	static struct config config;
	size_t length;

	while (scanf("%zu", &length) == 1) {
		char *text = malloc(length + 1);
		const char *wrong;

		getchar();
		if (fread(text, 1, length, stdin) != length)
			return 1;
		wrong = config_parse(text, length, &config);
		puts(wrong ? wrong : "ok");
		free(text);
	}
	return 0;
}
