/*
 * DRM's figures of a card's memory, mem_info_vram_total and the like, as this container should see them. rocm-smi and
 * amd-smi read them below /sys/class/drm/card<N>/device (rocm_smi_device.cc, by C++'s streams).
 */
#ifndef VGPU_CARD_MEMORY_H
#define VGPU_CARD_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

/* Writes the slice's figure to `text`. False: `path` is no such file of one of our cards. */
bool card_memory_text(const char *path, char *text, size_t size);

#endif
