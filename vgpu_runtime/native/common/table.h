/*
 * A map from a driver's handle to the memory or queue with this handle. Callers reserve room for an entry before they
 * ask the driver, so that recording the driver's answer cannot fail. The table's memory comes from mmap, not from the
 * program's allocator. Callers hold the slice's lock.
 */
#ifndef VGPU_TABLE_H
#define VGPU_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct entry {
	uint64_t key;
	uint64_t bytes;
	uint64_t share; /* of a name: the key of its memory in slice.shared, or 0; in slice.shared: see rocm/held.c */
	uint32_t card;
	uint32_t used;
	int fd; /* of shared memory: the descriptor that last referred to it; it is checked first */
};

struct table {
	struct entry *entries;
	size_t capacity; /* a power of two; 0 for an empty table */
	size_t count;    /* the number of entries and reservations */
};

/* Reserves room for one more entry; returns true, or false if there is no memory. */
bool table_reserve(struct table *table);
void table_unreserve(struct table *table);

/* Stores an entry in reserved room. */
void table_put(struct table *table, struct entry entry);

/*
 * Returns the entry with this key, NULL if there is none. The pointer is valid until the next change of the table; the
 * caller must not change the key.
 */
struct entry *table_get(const struct table *table, uint64_t key);

/*
 * Removes the entry with this key, and copies it to `taken`; returns false if there is none. The entry's room stays
 * reserved, so that table_put can restore it.
 */
bool table_take(struct table *table, uint64_t key, struct entry *taken);

/* Removes all entries and reservations. */
void table_clear(struct table *table);

#endif
