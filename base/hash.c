/* SPDX-License-Identifier: MIT */

#include "base/hash.h"

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
