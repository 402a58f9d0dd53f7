/* SPDX-License-Identifier: MIT */

/* uthash, with a seeded XXH3 as its hash function, and without its pauses.
 *
 * By default uthash doubles its buckets and rehashes all items when one bucket
 * is full: 50 ms and more for a million. Here a table has one bucket more for
 * every second item that is added, and only the items of one bucket are
 * examined again for it (linear hashing: W. Litwin, 1980). With n buckets an
 * item is in the one that the least power of two from n on gives its hash;
 * where there is none yet, in the one that half of that power gives.
 *
 * Names come from strangers, so the seed is random per process (hash_seed_set
 * once at start; the simulator and tests set a fixed one). Nothing that is
 * replicated may depend on the order of iteration. Include this, never
 * <uthash.h> itself. */

#ifndef HASP_BASE_HASH_H
#define HASP_BASE_HASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/check.h"

extern uint64_t hash_seed; /* 0: not set yet. */
void hash_seed_set(uint64_t seed);
uint64_t hash_bytes(const void *data, size_t size);

/* Most keys are numbers: this is what XXH3 does with eight bytes, without a
 * call. */
static inline uint64_t hash_number(uint64_t number)
{
    const uint64_t factor = UINT64_C(0x9fb21c651e98df25);
    number ^= hash_seed;
    number ^= (number << 49 | number >> 15) ^ (number << 24 | number >> 40);
    number *= factor;
    number = (number ^ ((number >> 35) + sizeof number)) * factor;
    return number ^ number >> 28;
}

/* The size alone decides, since all that deal with a table must agree. */
static inline unsigned hash_of_key(const void *key, size_t size)
{
    uint64_t number;
    if (size != sizeof number) {
        return (unsigned)hash_bytes(key, size);
    }
    memcpy(&number, key, sizeof number);
    return (unsigned)hash_number(number);
}

#define HASH_FUNCTION(key, size, hash) ((hash) = hash_of_key((key), (size)))
/* By default it would exit with 255 and without a message. */
#define uthash_fatal(what) check_failed(__FILE__, __LINE__, what)
#include <uthash.h>

/* Items in a bucket, on average and at most. */
#define HASH_LOAD 2

static inline unsigned hash_bucket(unsigned hash, unsigned bucket_count)
{
    unsigned mask = UINT32_MAX >> __builtin_clz(bucket_count - 1);
    unsigned bucket = hash & mask;
    return bucket < bucket_count ? bucket : bucket & (mask >> 1);
}

/* Adds a bucket if there are too many items for the present ones. */
void hash_grow(struct UT_hash_table *table);

#undef HASH_TO_BKT
#define HASH_TO_BKT(hashv, num_bkts, bkt) \
    ((bkt) = hash_bucket((hashv), (num_bkts)))

/* Enters the item first in its bucket. */
#define HASH_ENTER(bucket, item)                 \
    do {                                         \
        (item)->hh_next = (bucket)->hh_head;     \
        (item)->hh_prev = NULL;                  \
        if ((bucket)->hh_head != NULL) {         \
            (bucket)->hh_head->hh_prev = (item); \
        }                                        \
        (bucket)->hh_head = (item);              \
        (bucket)->count++;                       \
    } while (0)

#undef HASH_ADD_TO_BKT
#define HASH_ADD_TO_BKT(head, hh, addhh, oomed) \
    do {                                        \
        HASH_ENTER(&(head), addhh);             \
        hash_grow((addhh)->tbl);                \
    } while (0)

/* Iterates over the items of the table 'head' with the handle 'handle', in no
 * order. In HASH_FOR_SAFE the body may remove the item. */
#define HASH_FOR(type, at, head, handle) \
    for (type *at = (head); at != NULL; at = at->handle.next)
#define HASH_FOR_SAFE(type, at, head, handle) \
    for (type *at = (head), *at##_next = at;  \
         at != NULL && (at##_next = at->handle.next, true); at = at##_next)

#endif /* HASP_BASE_HASH_H */
