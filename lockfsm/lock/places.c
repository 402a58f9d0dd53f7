/* SPDX-License-Identifier: MIT */

/* The index of places: what (session, owner) has at a lock, in O(1) however
 * many hold it or wait for it.
 *
 * A table of chains through the structures themselves, so that adding allocates
 * nothing. The hash is seeded where strangers choose the key (the owner); ids
 * are chosen by us. Nothing depends on the order of a chain. */

#include "lockfsm/state.h"

#include <stdlib.h>

#include "base/memory.h"

#define BUCKET_COUNT_MIN 64
#define BUCKET_COUNT_MAX (UINT32_C(1) << 31)

static uint64_t mix(uint64_t value)
{
    value ^= value >> 32;
    value *= UINT64_C(0xd6e8feb86659fd93);
    return value ^ value >> 32;
}

static uint64_t hash_of(const struct place_key *key)
{
    uint64_t hash = mix(key->number * 8 + (uint64_t)key->kind);
    hash = mix(hash ^ key->session);
    if (key->owner.size > 0) {
        hash ^= hash_bytes(key->owner.data, key->owner.size);
    }
    return mix(hash);
}

static struct place **bucket_at(const struct places *places, uint64_t hash)
{
    return &places->buckets[hash_bucket((unsigned)hash, places->bucket_count)];
}

static void begin(struct places *places)
{
    places->buckets = memory_new(BUCKET_COUNT_MIN * sizeof(struct place *));
    places->bucket_count = places->room = BUCKET_COUNT_MIN;
}

/* Adds a bucket, which takes its share out of an older one. */
static void grow(struct places *places)
{
    if (places->bucket_count == places->room) {
        places->room *= 2;
        places->buckets = memory_resize(
            places->buckets, (size_t)places->room * sizeof *places->buckets);
    }
    uint32_t added = places->bucket_count;
    struct place **from = bucket_at(places, added);
    struct place *place = *from;
    *from = places->buckets[added] = NULL;
    places->bucket_count++;
    while (place != NULL) {
        struct place *next = place->next;
        struct place **bucket = bucket_at(places, place->hash);
        CHECK(bucket == from || bucket == &places->buckets[added]);
        place->next = *bucket;
        *bucket = place;
        place = next;
    }
}

void places_add(struct places *places, struct place *place,
                const struct place_key *key)
{
    if (places->buckets == NULL) {
        begin(places);
    } else if (places->count >= places->bucket_count &&
               places->bucket_count < BUCKET_COUNT_MAX) {
        grow(places);
    }
    place->hash = hash_of(key);
    place->kind = (uint8_t)key->kind;
    place->number = key->number;
    place->session = key->session;
    place->owner = key->owner;
    struct place **bucket = bucket_at(places, place->hash);
    place->next = *bucket;
    *bucket = place;
    places->count++;
}

void places_remove(struct places *places, struct place *place)
{
    struct place **link = bucket_at(places, place->hash);
    while (*link != place) {
        CHECK(*link != NULL);
        link = &(*link)->next;
    }
    *link = place->next;
    places->count--;
}

struct place *places_find(const struct places *places,
                          const struct place_key *key)
{
    if (places->count == 0) {
        return NULL;
    }
    uint64_t hash = hash_of(key);
    struct place *place = *bucket_at(places, hash);
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

void places_done(struct places *places)
{
    free(places->buckets);
    *places = (struct places){0};
}
