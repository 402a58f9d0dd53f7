/* SPDX-License-Identifier: MIT */

/* Finds what a (session, owner) has at a lock, in O(1) for any number of
 * holders and waiters.
 *
 * A hash table with chains through the structures themselves, so that adding
 * allocates nothing. The hash of the owner is seeded, because clients choose
 * it; the cluster chooses the ids. Nothing depends on the order of a chain. */

#include <stdlib.h>

#include "base/memory.h"
#include "lockfsm/lock/lock.h"

#define BUCKET_COUNT_MIN 64
#define BUCKET_COUNT_MAX (UINT32_C(1) << 31)

static uint64_t holder_index_mix(uint64_t value)
{
    value ^= value >> 32;
    value *= UINT64_C(0xd6e8feb86659fd93);
    return value ^ value >> 32;
}

static uint64_t holder_index_hash_of(const struct place_key *key)
{
    uint64_t hash = holder_index_mix(key->number * 8 + (uint64_t)key->kind);
    hash = holder_index_mix(hash ^ key->session);
    if (key->owner.size > 0) {
        hash ^= hash_bytes(key->owner.data, key->owner.size);
    }
    return holder_index_mix(hash);
}

static struct holder_place **bucket_at(const struct holder_index *places,
                                       uint64_t hash)
{
    return &places->buckets[hash_bucket((unsigned)hash, places->bucket_count)];
}

static void holder_index_begin(struct holder_index *places)
{
    places->buckets = memory_new(BUCKET_COUNT_MIN *
                                 sizeof(struct holder_place *));
    places->bucket_count = places->room = BUCKET_COUNT_MIN;
}

/* Adds a bucket and moves its share of items out of an older one. */
static void holder_index_grow(struct holder_index *places)
{
    if (places->bucket_count == places->room) {
        places->room *= 2;
        places->buckets = memory_resize(
            places->buckets, (size_t)places->room * sizeof *places->buckets);
    }
    uint32_t added = places->bucket_count;
    /* Linear hashing: one bucket moves with each growth, so no single entry
     * pays for all. */
    struct holder_place **from = bucket_at(places, added);
    struct holder_place *place = *from;
    *from = places->buckets[added] = NULL;
    places->bucket_count++;
    while (place != NULL) {
        struct holder_place *next = place->next;
        struct holder_place **bucket = bucket_at(places, place->hash);
        CHECK(bucket == from || bucket == &places->buckets[added]);
        place->next = *bucket;
        *bucket = place;
        place = next;
    }
}

void holder_index_add(struct holder_index *places, struct holder_place *place,
                      const struct place_key *key)
{
    if (places->buckets == NULL) {
        holder_index_begin(places);
    } else if (places->count >= places->bucket_count &&
               places->bucket_count < BUCKET_COUNT_MAX) {
        holder_index_grow(places);
    }
    place->hash = holder_index_hash_of(key);
    place->kind = (uint8_t)key->kind;
    place->number = key->number;
    place->session = key->session;
    place->owner = key->owner;
    struct holder_place **bucket = bucket_at(places, place->hash);
    place->next = *bucket;
    *bucket = place;
    places->count++;
}

void holder_index_remove(struct holder_index *places,
                         struct holder_place *place)
{
    struct holder_place **link = bucket_at(places, place->hash);
    while (*link != place) {
        CHECK(*link != NULL);
        link = &(*link)->next;
    }
    *link = place->next;
    places->count--;
}

struct holder_place *holder_index_find(const struct holder_index *places,
                                       const struct place_key *key)
{
    if (places->count == 0) {
        return NULL;
    }
    uint64_t hash = holder_index_hash_of(key);
    struct holder_place *place = *bucket_at(places, hash);
    while (place != NULL) {
        if (place->hash == hash && place->kind == key->kind &&
            place->number == key->number && place->session == key->session &&
            bytes_equal(place->owner, key->owner)) {
            return place;
        }
        place = place->next;
    }
    return NULL;
}

void holder_index_done(struct holder_index *places)
{
    free(places->buckets);
    *places = (struct holder_index){0};
}
