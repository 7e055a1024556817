#define _GNU_SOURCE
#include <sys/mman.h>

#include "table.h"

#define FIRST_CAPACITY 1024

/* Linear probing from a mixed key; handles of one card differ in their low bits only. */
static size_t home(const struct table *table, uint64_t key)
{
	key ^= key >> 32;
	return (size_t)(key * UINT64_C(0x9e3779b97f4a7c15) >> 20) & (table->capacity - 1);
}

static size_t find(const struct table *table, uint64_t key)
{
	size_t at = home(table, key);

	while (table->entries[at].used && table->entries[at].key != key)
		at = (at + 1) & (table->capacity - 1);
	return at;
}

/* A child may be forked at any instruction: its table never leads to memory that is gone, nor beyond its end. */
static void replace(struct table *table, const struct table *by)
{
	struct table old = *table;

	if (by->capacity < old.capacity)
		__atomic_store_n(&table->capacity, by->capacity, __ATOMIC_RELEASE);
	__atomic_store_n(&table->entries, by->entries, __ATOMIC_RELEASE);
	__atomic_store_n(&table->capacity, by->capacity, __ATOMIC_RELEASE);
	table->count = by->count;
	if (old.entries)
		munmap(old.entries, old.capacity * sizeof *old.entries);
}

static bool grow(struct table *table)
{
	struct table larger = {.capacity = table->capacity ? 2 * table->capacity : FIRST_CAPACITY};

	larger.entries = mmap(NULL, larger.capacity * sizeof *larger.entries, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (larger.entries == MAP_FAILED)
		return false;
	for (size_t i = 0; i < table->capacity; i++)
		if (table->entries[i].used)
			larger.entries[find(&larger, table->entries[i].key)] = table->entries[i];
	larger.count = table->count;
	replace(table, &larger);
	return true;
}

bool table_reserve(struct table *table)
{
	if (4 * (table->count + 1) > 3 * table->capacity && !grow(table))
		return false;
	table->count++;
	return true;
}

void table_unreserve(struct table *table)
{
	table->count--;
}

void table_put(struct table *table, struct entry entry)
{
	struct entry *place = &table->entries[find(table, entry.key)];

	if (place->used) /* a driver that hands out a live handle again: one entry, not two */
		table->count--;
	*place = entry;
	place->used = 1;
}

struct entry *table_get(const struct table *table, uint64_t key)
{
	struct entry *entry = table->capacity ? &table->entries[find(table, key)] : NULL;

	return entry && entry->used ? entry : NULL;
}

bool table_take(struct table *table, uint64_t key, struct entry *taken)
{
	const struct entry *entry = table_get(table, key);
	size_t hole, at;

	if (!entry)
		return false;
	*taken = *entry;
	/* Move later entries of the same run into the hole, so that no search ends at it too early. */
	hole = at = (size_t)(entry - table->entries);
	for (;;) {
		size_t wanted;

		table->entries[hole].used = 0;
		do {
			at = (at + 1) & (table->capacity - 1);
			if (!table->entries[at].used)
				return true;
			wanted = home(table, table->entries[at].key);
		} while (((at - wanted) & (table->capacity - 1)) < ((at - hole) & (table->capacity - 1)));
		table->entries[hole] = table->entries[at];
		hole = at;
	}
}

void table_clear(struct table *table)
{
	replace(table, &(struct table){0});
}
