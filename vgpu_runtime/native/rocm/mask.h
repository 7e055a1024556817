/* Translates a program's masks of compute units: the program numbers its granted units from 0 and sees no others. */
#ifndef VGPU_MASK_H
#define VGPU_MASK_H

#include "config.h"

/*
 * Writes to `physical` the mask of the card's units for a program's mask of `bits` bits, whose bit v stands for the
 * v-th granted unit. As the hardware requires, granted units are added until the mask has whole pairs and a unit on
 * each XCC. A mask without any granted unit becomes the whole grant, because the hardware runs an empty mask on all
 * units.
 */
void mask_of_program(const struct card *card, const uint32_t *words, unsigned bits, struct mask *physical);

#endif
