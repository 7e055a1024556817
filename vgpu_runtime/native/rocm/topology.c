#include <stdio.h>
#include <string.h>

#include "kfd.h"
#include "slice.h"
#include "sysfs.h"
#include "topology.h"

#define NODES "/sys/devices/virtual/kfd/kfd/topology/nodes/"
#define CLASS_NODES "/sys/class/kfd/kfd/topology/nodes/"

#define HEAP_VRAM_PUBLIC 1
#define HEAP_VRAM_PRIVATE 2

/* The value of a `name value` line, or 0. */
static uint64_t property(const char *text, const char *name)
{
	size_t length = strlen(name);
	uint64_t value = 0;

	for (const char *line = text; line; line = strchr(line, '\n'), line += line != NULL)
		if (!strncmp(line, name, length) && line[length] == ' ' && sysfs_number(line + length + 1, &value))
			return value;
	return 0;
}

/* Replaces the value of a `name value` line; the text stays as it is where there is no such line or no room. */
static void replace(char *text, size_t size, const char *name, uint64_t value)
{
	char line[128], *start = text, *end;
	size_t length = (size_t)snprintf(line, sizeof line, "%s ", name);

	while (start && strncmp(start, line, length))
		if ((start = strchr(start, '\n')))
			start++;
	if (!start)
		return;
	end = start + strcspn(start, "\n");
	length = (size_t)snprintf(line, sizeof line, "%s %llu", name, (unsigned long long)value);
	if (strlen(text) - (size_t)(end - start) + length >= size)
		return;
	memmove(start + length, end, strlen(end) + 1);
	memcpy(start, line, length);
}

static bool is_vram(const char *bank)
{
	uint64_t heap = property(bank, "heap_type");

	return heap == HEAP_VRAM_PUBLIC || heap == HEAP_VRAM_PRIVATE;
}

/* A card may have two VRAM banks (visible to the CPU or not): in order, they share the limit. */
static void rewrite_bank(char *text, size_t size, const char *node, unsigned bank, const struct card *card)
{
	uint64_t left = card->mem_bytes;
	char path[256], sibling[SYSFS_MAX];

	if (!is_vram(text))
		return;
	for (unsigned i = 0; i < bank; i++) {
		snprintf(path, sizeof path, "%smem_banks/%u/properties", node, i);
		if (sysfs_read(path, sibling, sizeof sibling) && is_vram(sibling))
			left -= at_most(property(sibling, "size_in_bytes"), left);
	}
	replace(text, size, "size_in_bytes", at_most(property(text, "size_in_bytes"), left));
}

/*
 * `simd_count`, of which runtimes make the number of units, stays the whole card's: libhsakmt also sizes a queue's
 * save area by it, and Linux from 6.12 on refuses a queue whose save area is not the whole card's
 * (kfd_queue_acquire_buffers). What tells HIP how many units there are is in units.c.
 */
static void rewrite_node(char *text, size_t size, const struct card *card)
{
	replace(text, size, "local_mem_size", at_most(property(text, "local_mem_size"), card->mem_bytes));
}

/* The card of the node folder `node` (with a trailing slash), or NULL. */
static const struct card *card_of(const char *node)
{
	char path[256], text[64];
	uint64_t gpu_id;
	int card;

	snprintf(path, sizeof path, "%sgpu_id", node);
	if (!sysfs_read(path, text, sizeof text) || !sysfs_number(text, &gpu_id) || gpu_id > UINT32_MAX)
		return NULL;
	card = kfd_card((uint32_t)gpu_id);
	return card < 0 ? NULL : &slice.config.cards[card];
}

/* The length of the folder of all nodes that `path` begins with, or 0. */
static size_t nodes_prefix(const char *path)
{
	static const char *const folders[] = {NODES, CLASS_NODES};

	for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
		if (!strncmp(path, folders[i], strlen(folders[i])))
			return strlen(folders[i]);
	return 0;
}

/* Splits <nodes>/<n>/properties and <nodes>/<n>/mem_banks/<k>/properties; `bank` is -1 for the first. */
static bool split(const char *path, char *node, size_t size, int *bank)
{
	static const char banks[] = "/mem_banks/";
	size_t prefix = nodes_prefix(path);
	const char *end = prefix ? sysfs_number(path + prefix, &(uint64_t){0}) : NULL;
	uint64_t index;

	if (!end || *end != '/' || (size_t)(end - path) + 2 > size)
		return false;
	memcpy(node, path, (size_t)(end - path) + 1);
	node[end - path + 1] = '\0';
	*bank = -1;
	if (!strncmp(end, banks, sizeof banks - 1)) {
		end = sysfs_number(end + sizeof banks - 1, &index);
		*bank = (int)(index & 0xff);
	}
	return end && !strcmp(end, "/properties");
}

bool topology_text(const char *path, char *text, size_t size)
{
	const struct card *card;
	char node[128];
	int bank;

	if (!split(path, node, sizeof node, &bank) || slice_enforcement() != ENFORCED)
		return false;
	card = card_of(node);
	if (!card || !sysfs_read(path, text, size))
		return false;
	if (bank < 0)
		rewrite_node(text, size, card);
	else
		rewrite_bank(text, size, node, (unsigned)bank, card);
	return true;
}
