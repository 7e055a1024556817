/*
 * The same numbers as ../save_area.py has, written apart from it: tests hold them against each other. Like a newer
 * runtime, it takes what the topology shows and works out the rest; the debugger's part is never shown.
 */
#include "save_area.h"

#define GFX10 10
#define NAVI 100100
#define LDS_KIB 64
#define GFX950 90500 /* the first whose local data share has another size */

static uint32_t round_up(uint64_t bytes, uint32_t to)
{
	return (uint32_t)((bytes + to - 1) / to * to);
}

static uint32_t vector_registers(uint32_t gfx)
{
	switch (gfx) {
	case 90008:
	case 90010:
	case 90400:
	case 90401:
	case 90402:
	case 90500:
		return 512 << 10;
	case 110000:
	case 110001:
	case 120000:
	case 120001:
		return 384 << 10;
	default:
		return 256 << 10;
	}
}

static uint32_t waves_of(const struct shape *shape, uint32_t units)
{
	uint32_t most = shape->array_count / shape->simd_arrays_per_engine * 512;

	if (shape->gfx_target_version >= NAVI)
		return units * 32;
	return units * 40 < most ? units * 40 : most;
}

struct save_area save_area_of(const struct shape *shape)
{
	uint32_t gfx = shape->gfx_target_version;
	uint32_t xccs = gfx / 100 == 904 || gfx / 100 == 905 ? shape->num_xcc : 1;
	uint32_t units = shape->simd_count / shape->simd_per_cu / xccs;
	uint32_t waves = waves_of(shape, units);
	uint32_t stack = round_up(48 + waves * (gfx >= NAVI ? 12 : 8), 4096);
	uint32_t lds = (gfx == GFX950 ? shape->lds_size_in_kb : LDS_KIB) << 10;
	uint32_t unit_bytes = vector_registers(gfx) + lds + ((16 + 4) << 10); /* scalar and hardware registers */
	struct save_area area = {.stack = gfx / 10000 == GFX10 && stack > 0x7000 ? 0x7000 : stack};

	area.bytes = area.stack + round_up((uint64_t)units * unit_bytes, 4096);
	if (shape->cwsr_size && shape->ctl_stack_size) {
		area.bytes = shape->cwsr_size;
		area.stack = shape->ctl_stack_size;
	}
	area.mapping = ((uint64_t)area.bytes + round_up(waves * 32, 64)) * xccs;
	return area;
}
