/* libFuzzer's target for vgpu.conf: whatever the text, an answer, and what is accepted keeps the rules of a card. */
#include <stdlib.h>

#include "config.h"

static unsigned units_of(const struct card *card)
{
	unsigned units = 0;

	for (unsigned unit = 0; unit < CONFIG_MAX_UNITS; unit++) {
		if (mask_has(&card->granted, unit) && unit >= card->compute_units)
			abort();
		units += mask_has(&card->granted, unit);
	}
	return units;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct config config;

	if (config_parse((const char *)data, size, &config))
		return 0;
	if (!config.card_count || config.card_count > CONFIG_MAX_CARDS)
		abort();
	for (unsigned i = 0; i < config.card_count; i++) {
		const struct card *card = &config.cards[i];

		if (!card->mem_bytes || !card->granted_units || units_of(card) != card->granted_units)
			abort();
	}
	return 0;
}
