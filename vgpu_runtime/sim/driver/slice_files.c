/* The topology files of a card of which this container has a slice: with the slice's units and memory. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "real.h"
#include "simkfd.h"

#define PROPERTIES "properties"
#define MEMORY "mem_banks/0/properties"

/* The line with another value where the slice has one; `per_unit` is the card's SIMDs of a unit. */
static void write_line(int fd, const char *line, const struct sim_slice *slice, unsigned per_unit)
{
	char name[64];
	unsigned long long value;

	if (sscanf(line, "%63s %llu", name, &value) != 2)
		return;
	if (strcmp(name, "simd_count") == 0)
		value = slice->units * per_unit;
	else if (strcmp(name, "size_in_bytes") == 0)
		value = slice->vram_bytes;
	dprintf(fd, "%s %llu\n", name, value);
}

static unsigned read_per_unit(FILE *file)
{
	unsigned found = 0;
	char line[128];

	while (fgets(line, sizeof(line), file))
		sscanf(line, "simd_per_cu %u", &found);
	rewind(file);
	return found;
}

int sim_slice_file(const char *path, const char *real_path)
{
	const char *name;
	int card = sim_node_card(path, &name);
	const struct sim_slice *slice = card < 0 ? NULL : sim_slice(card);
	char line[128];
	unsigned per_unit;
	FILE *file;
	int fd;

	if (!slice || (strcmp(name, PROPERTIES) != 0 && strcmp(name, MEMORY) != 0))
		return -1;
	file = real_fopen(real_path, "re");
	if (!file)
		return -1;
	fd = memfd_create("simkfd-topology", MFD_CLOEXEC);
	per_unit = read_per_unit(file);
	while (fd >= 0 && fgets(line, sizeof(line), file))
		write_line(fd, line, slice, per_unit);
	fclose(file);
	if (fd >= 0)
		lseek(fd, 0, SEEK_SET);
	return fd;
}
