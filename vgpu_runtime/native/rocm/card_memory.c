#include <stdio.h>
#include <string.h>

#include "card_memory.h"
#include "slice.h"
#include "sysfs.h"

#define PATH_MAX_BYTES 512

/* The last part of `path`, or NULL where it has only one. */
static const char *last_part(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : NULL;
}

/* All VRAM, and the part that the processor sees. */
static bool is_figure(const char *name, const char *kind)
{
	static const char *const banks[] = {"mem_info_vram_", "mem_info_vis_vram_"};

	for (size_t i = 0; i < sizeof banks / sizeof *banks; i++)
		if (!strncmp(name, banks[i], strlen(banks[i])) && !strcmp(name + strlen(banks[i]), kind))
			return true;
	return false;
}

/* Index in the config of the card whose file has this path, or -1: its folder's uevent says its PCI address. */
static int card_of(const char *path, const char *name)
{
	static const char key[] = "PCI_SLOT_NAME=";
	char uevent[PATH_MAX_BYTES], text[SYSFS_MAX];
	const char *pci;

	if ((size_t)snprintf(uevent, sizeof uevent, "%.*suevent", (int)(name - path), path) >= sizeof uevent ||
	    !sysfs_read(uevent, text, sizeof text) || !(pci = strstr(text, key)))
		return -1;
	pci += sizeof key - 1;
	for (unsigned i = 0; i < slice.config.card_count; i++) {
		struct span own = slice.config.cards[i].pci;

		if (strcspn(pci, "\n") == own.length && !memcmp(pci, own.start, own.length))
			return (int)i;
	}
	return -1;
}

static bool read_figure(const char *path, uint64_t *figure)
{
	char text[64];

	return sysfs_read(path, text, sizeof text) && sysfs_number(text, figure);
}

bool card_memory_text(const char *path, char *text, size_t size)
{
	const char *name = last_part(path);
	bool used = is_figure(name, "used");
	char total[PATH_MAX_BYTES];
	uint64_t figure;
	int card;

	if ((!used && !is_figure(name, "total")) || slice_enforcement() != ENFORCED)
		return false;
	card = card_of(path, name);
	/* A card's use and its total are in files of one name but for the last word. */
	if (card < 0 || (size_t)snprintf(total, sizeof total, "%.*s%s", (int)(strrchr(path, '_') - path), path, "_total") >=
				sizeof total ||
	    !read_figure(total, &figure))
		return false;
	figure = at_most(figure, slice.config.cards[card].mem_bytes);
	if (used)
		figure = at_most(region_observed((unsigned)card), figure);
	snprintf(text, size, "%llu\n", (unsigned long long)figure);
	return true;
}
