#include <string.h>

#include "mask.h"

static void add_pairs(const struct card *card, struct mask *mask)
{
	for (unsigned unit = 0; unit < card->compute_units; unit++)
		if (mask_has(mask, unit))
			mask_add(mask, unit ^ 1);
}

/* The lowest granted unit of each XCC that has none yet. */
static void add_xccs(const struct card *card, struct mask *mask)
{
	for (unsigned xcc = 0; xcc < card->xcc; xcc++) {
		unsigned lowest = card->compute_units;
		bool covered = false;

		for (unsigned unit = xcc; unit < card->compute_units && !covered; unit += card->xcc) {
			covered = mask_has(mask, unit);
			if (lowest == card->compute_units && mask_has(&card->granted, unit))
				lowest = unit;
		}
		if (!covered)
			mask_add(mask, lowest);
	}
}

void mask_of_program(const struct card *card, const uint32_t *words, unsigned bits, struct mask *physical)
{
	unsigned virtual = 0;
	bool any = false;

	memset(physical, 0, sizeof *physical);
	for (unsigned unit = 0; unit < card->compute_units && virtual < bits; unit++) {
		if (!mask_has(&card->granted, unit))
			continue;
		if (words[virtual / 32] >> (virtual % 32) & 1) {
			mask_add(physical, unit);
			any = true;
		}
		virtual++;
	}
	if (!any) {
		*physical = card->granted;
		return;
	}
	add_xccs(card, physical);
	if (card->paired)
		add_pairs(card, physical);
}
