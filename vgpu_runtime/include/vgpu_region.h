/*
 * The usage region: one file per container, shared by the container's processes and read by the agent.
 * ../region.py has the same constants; a test keeps the two equal.
 *
 *   0              struct vgpu_region_header
 *   PIDS_OFFSET    uint64_t pids[SLOTS]            the process id of each slot's owner, as the owner sees it
 *   USED_OFFSET    uint64_t used[CARDS][SLOTS]     bytes charged to each slot now
 *   DENIED_OFFSET  uint64_t denied[CARDS][SLOTS]   allocations refused to each slot since the file was made
 *
 * A process owns one slot, and only this process writes the slot's cells. A total is the sum over live slots. It is
 * never stored, so a process that dies at any instruction cannot leave a wrong total. A slot is live while its process
 * holds an OFD write lock on byte LOCK_SLOT + slot; the kernel drops this lock together with the process's memory. The
 * locked bytes are beyond the end of the file, because OFD locks do not need bytes that exist. Used cells of a dead
 * slot do not count. Its denied cells still count, and the next owner of the slot adds to them.
 *
 * A process writes a charge into its cell first, then adds up the cells of all live slots, and takes the charge back if
 * the sum is too large. So two processes cannot both take the last free bytes. It decides while it holds the file's
 * flock, unless no other process held memory at the last reading and none holds any now.
 *
 * The agent and vgpu-smi refuse a region of another version. A container keeps its region when the agent on its node is
 * replaced by another version. A container's library and region always come from the same agent.
 *
 * Cells are little-endian and aligned to 8 bytes. The library uses pread and pwrite and no mapping: a tenant can
 * truncate the file, and access to a mapping of a truncated file raises SIGBUS.
 */
#ifndef VGPU_REGION_H
#define VGPU_REGION_H

#include <stdint.h>

#define VGPU_REGION_MAGIC UINT64_C(0x3147455255504756) /* "VGPUREG1" in memory order */
#define VGPU_REGION_VERSION 2
#define VGPU_REGION_SLOTS 128
#define VGPU_REGION_CARDS 16
#define VGPU_REGION_PIDS_OFFSET 1024
#define VGPU_REGION_USED_OFFSET 4096
#define VGPU_REGION_DENIED_OFFSET (VGPU_REGION_USED_OFFSET + VGPU_REGION_CARDS * VGPU_REGION_SLOTS * 8)
#define VGPU_REGION_SIZE (VGPU_REGION_DENIED_OFFSET + VGPU_REGION_CARDS * VGPU_REGION_SLOTS * 8)
#define VGPU_REGION_LOCK_SLOT ((1 << 20) + 1)

struct vgpu_region_header {
	uint64_t magic;
	uint32_t version;
	uint32_t slots;
	uint32_t cards;
	uint32_t size;
};

#endif
