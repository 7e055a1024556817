/* Marks an open file of a node, closes all descriptors of the node by number, and looks: `files PATH`. 0: seen as closed. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <unistd.h>

#include "files.h"

int main(int count, char **words)
{
	int fd = count == 2 ? open(words[1], O_RDWR) : -1;
	int file = fd < 0 ? -1 : files_find(fd, true);

	if (file < 0 || files_look() || !files_known((unsigned)file))
		return 2;
	for (int i = 3; i < 1024; i++)
		if (i != fd)
			close(i);
	if (files_look() || !files_known((unsigned)file)) /* the program's own descriptor is still open */
		return 3;
	for (int i = 3; i < 1024; i++)
		close(i);
	return files_look() && !files_known((unsigned)file) ? 0 : 1;
}
