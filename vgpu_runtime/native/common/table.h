/*
 * A map from a driver's handle to what it stands for. Room is reserved before the driver is asked, so that
 * recording its answer cannot fail. The memory comes from mmap: the program's allocator is not involved.
 * Callers hold the slice's lock.
 */
#ifndef VGPU_TABLE_H
#define VGPU_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct entry {
	uint64_t key;
	uint64_t bytes;
	uint64_t share; /* the key of what it is a part of in another table; 0: of nothing */
	uint32_t card;
	uint32_t used;
	int fd; /* of shared memory: where it was seen last; it is asked first */
};

struct table {
	struct entry *entries;
	size_t capacity; /* a power of two, or 0 */
	size_t count;    /* entries and reservations */
};

/* Promises room for one more entry. False, and no promise, where there is no memory. */
bool table_reserve(struct table *table);
void table_unreserve(struct table *table);

/* Turns a reservation into an entry. */
void table_put(struct table *table, struct entry entry);

/* Finds an entry; NULL where there is none. Valid until the next change; the key must not be changed. */
struct entry *table_get(const struct table *table, uint64_t key);

/* Takes an entry out and keeps its room reserved, so that table_put can bring it back. */
bool table_take(struct table *table, uint64_t key, struct entry *taken);

/* Forgets everything. */
void table_clear(struct table *table);

#endif
