/*
 * HIP takes ROC_GLOBAL_CU_MASK for the units that it may use, and so for how many there are; HSA does not look at it.
 * The container's CDI spec sets it (device_plugin/node/stages/inject.py). A program that is started with a cleared environment
 * gets it here. It is a hint: what holds a queue to its units is its mask. Where the maker's driver holds queues to their
 * units, its device has no others, HIP counts them without the variable, and the CDI spec sets it to nothing.
 */
#include <string.h>

#include "environment.h"
#include "real.h"
#include "slice.h"

#define NAME "ROC_GLOBAL_CU_MASK"

/* The lowest `units` bits in hexadecimal; config.py has the same. */
static void write_bits(char *text, unsigned units)
{
	size_t digits = (units + 3) / 4;

	memcpy(text, "0x", 2);
	memset(text + 2, 'f', digits);
	text[2] = "f137"[units % 4];
	text[2 + digits] = '\0';
}

/* The units of each card's slice. HIP has one value for all cards: 0 if they differ, or a card needs none. */
static unsigned units_of_each(void)
{
	unsigned units = slice.config.cards[0].granted_units;

	for (unsigned i = 0; i < slice.config.card_count; i++)
		if (slice.config.cards[i].granted_units != units || slice.config.cards[i].compute_units == units ||
		    slice.config.cards[i].vendor_masks)
			return 0;
	return units;
}

__attribute__((constructor)) static void tell_units(void)
{
	char value[2 + CONFIG_MAX_UNITS / 4 + 1];
	unsigned units;

	if (environment_value(NAME) || slice_look() != ENFORCED)
		return;
	units = units_of_each();
	if (!units)
		return;
	write_bits(value, units);
	REAL(setenv, setenv_fn)(NAME, value, 0); /* libc's: a shell has one of its own, for its variables */
}
