/* The content of vgpu.conf in the form that the library uses; vgpu_runtime/config.py describes the file. */
#ifndef VGPU_CONFIG_H
#define VGPU_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vgpu_region.h"

#define CONFIG_VERSION "6"
#define CONFIG_MAX_BYTES 65536
#define CONFIG_MAX_CARDS VGPU_REGION_CARDS
#define CONFIG_MAX_UNITS 1024
#define CONFIG_MAX_XCC 16

struct mask {
	uint32_t words[CONFIG_MAX_UNITS / 32]; /* bit i stands for compute unit i */
};

static inline bool mask_has(const struct mask *mask, unsigned unit)
{
	return mask->words[unit / 32] >> (unit % 32) & 1;
}

static inline void mask_add(struct mask *mask, unsigned unit)
{
	mask->words[unit / 32] |= UINT32_C(1) << (unit % 32);
}

/* A part of the parsed text: its first character and its length. */
struct span {
	const char *start;
	size_t length;
};

struct card {
	struct span uuid;
	struct span pci;
	struct span model;   /* shown to people */
	struct span request; /* the text of the limit in the pod's spec; empty if unknown */
	uint32_t gpu_id;
	uint32_t render_minor;
	uint64_t mem_bytes;
	unsigned compute_units;
	unsigned xcc;
	bool paired;
	bool vendor_masks; /* the maker's driver limits queues to the units; the program's masks pass unchanged */
	struct mask granted;
	unsigned granted_units;
};

struct config {
	struct span pod;
	struct span container;
	struct span enforcement;
	unsigned card_count;
	struct card cards[CONFIG_MAX_CARDS]; /* the i-th card has index i in the file of counters too */
};

/*
 * Parses `length` bytes of vgpu.conf; the spans of `config` point into `text`. Returns NULL on success, else the fault
 * as text.
 */
const char *config_parse(const char *text, size_t length, struct config *config);

/* The two words of the limit that a container asked for, as people write it: `hygon.com/dcu-mem:` and `4`. */
struct request_words {
	struct span resource;
	struct span amount;
};

struct request_words config_request(const struct card *card);

#endif
