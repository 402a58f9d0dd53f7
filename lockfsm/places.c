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

static uint64_t mix(uint64_t value)
{
    value ^= value >> 32;
    value *= UINT64_C(0xd6e8feb86659fd93);
    return value ^ value >> 32;
}

static uint64_t hash_of(const struct place_key *key)
{
    uint64_t hash = mix(key->number * 4 + (uint64_t)key->kind);
    hash = mix(hash ^ key->session);
    if (key->owner.size > 0) {
        hash ^= hash_bytes(key->owner.data, key->owner.size);
    }
    return mix(hash);
}

static void grow(struct places *places)
{
    uint64_t old_count = places->buckets == NULL ? 0 : places->mask + 1;
    uint64_t count = old_count == 0 ? BUCKET_COUNT_MIN : 2 * old_count;
    struct place **buckets = memory_new(count * sizeof(struct place *));
    for (uint64_t i = 0; i < old_count; i++) {
        struct place *place = places->buckets[i];
        while (place != NULL) {
            struct place *next = place->next;
            struct place **bucket = &buckets[place->hash & (count - 1)];
            place->next = *bucket;
            *bucket = place;
            place = next;
        }
    }
    free(places->buckets);
    places->buckets = buckets;
    places->mask = count - 1;
}

void places_add(struct places *places, struct place *place,
                const struct place_key *key)
{
    if (places->buckets == NULL || places->count > places->mask) {
        grow(places);
    }
    place->hash = hash_of(key);
    place->kind = (uint8_t)key->kind;
    place->number = key->number;
    place->session = key->session;
    place->owner = key->owner;
    struct place **bucket = &places->buckets[place->hash & places->mask];
    place->next = *bucket;
    *bucket = place;
    places->count++;
}

void places_remove(struct places *places, struct place *place)
{
    struct place **link = &places->buckets[place->hash & places->mask];
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
    struct place *place = places->buckets[hash & places->mask];
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
