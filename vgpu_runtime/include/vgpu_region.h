/*
 * The usage region: one file per container, shared by the container's processes and read by the agent.
 * ../region.py has the same constants; a test keeps the two equal.
 *
 *   0              struct vgpu_region_header
 *   PIDS_OFFSET    uint64_t pids[SLOTS]            the owner of each slot, in its own PID namespace
 *   USED_OFFSET    uint64_t used[CARDS][SLOTS]     bytes charged now
 *   DENIED_OFFSET  uint64_t denied[CARDS][SLOTS]   allocations refused since the file was made
 *
 * A process owns one slot and is the only writer of its cells. A total is the sum over live slots
 * and is never stored, so a process that dies at any instruction cannot leave it wrong. Liveness is an OFD write
 * lock on byte LOCK_SLOT + slot, which the kernel drops with the process's memory. The lock's bytes lie behind the end of the
 * file: OFD locks do not need the byte to exist. Used cells of a dead slot count for nothing; its denied
 * cells keep counting, and the slot's next owner goes on from them.
 *
 * A process publishes a charge in its cell before it adds up the others, and takes it back where the sum is too much: so
 * two processes cannot both take the last free bytes. It decides with the file's flock held, unless it knows of no other
 * process that holds memory and sees none.
 *
 * A region of another version is refused, by the agent and by vgpu-smi: the container keeps it while its agent gets
 * another version. The library and its region come from one agent.
 *
 * Cells are little-endian and 8-byte aligned. The library uses pread and pwrite: the file is in the tenant's
 * hands, and a mapping of a truncated file raises SIGBUS.
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
