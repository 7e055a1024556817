/* What a program may do with compute units: it counts its granted ones from 0 and sees no others. */
#ifndef VGPU_MASK_H
#define VGPU_MASK_H

#include "config.h"

/*
 * The physical mask for `bits` bits that a program set: its v-th bit is the card's v-th granted unit. The result
 * is widened within the grant to whole pairs and to one unit on each XCC, as the hardware needs; asking for no
 * granted unit at all gives the whole grant, because hardware runs an empty mask unmasked.
 */
void mask_of_program(const struct card *card, const uint32_t *words, unsigned bits, struct mask *physical);

#endif
