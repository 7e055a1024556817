#define _GNU_SOURCE
#include <string.h>
#include <unistd.h>

#include "environment.h"

const char *environment_value(const char *name)
{
	size_t length = strlen(name);

	for (char **entry = environ; entry && *entry; entry++)
		if (!strncmp(*entry, name, length) && (*entry)[length] == '=')
			return *entry + length + 1;
	return NULL;
}
