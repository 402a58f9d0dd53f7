/* SPDX-License-Identifier: MIT */

#include "base/hash.h"

#include <stdbool.h>

#include "base/memory.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

uint64_t hash_seed = 0;

void hash_seed_set(uint64_t seed)
{
    hash_seed = seed;
}

uint64_t hash_bytes(const void *data, size_t size)
{
    return XXH3_64bits_withSeed(data, size, hash_seed);
}

/* Makes room for twice as many buckets. */
static void hash_make_room(struct UT_hash_table *table)
{
    table->log2_num_buckets++;
    table->buckets = memory_resize(
        table->buckets, sizeof *table->buckets << table->log2_num_buckets);
}

void hash_grow(struct UT_hash_table *table)
{
    unsigned count = table->num_buckets;
    if (table->num_items / HASH_LOAD < count || count == UINT32_MAX / 2 + 1) {
        return;
    }
    if (count == 1u << table->log2_num_buckets) {
        hash_make_room(table);
    }
    /* The elements of the new bucket were in this one. */
    struct UT_hash_bucket *from = &table->buckets[hash_bucket(count, count)];
    struct UT_hash_bucket *to = &table->buckets[count];
    struct UT_hash_handle *item = from->hh_head;
    *from = *to = (struct UT_hash_bucket){0};
    table->num_buckets = count + 1;
    while (item != NULL) {
        struct UT_hash_handle *next = item->hh_next;
        bool is_moved = hash_bucket(item->hashv, count + 1) == count;
        HASH_ENTER(is_moved ? to : from, item);
        item = next;
    }
}
