/* SPDX-License-Identifier: MIT */

#include "base/digest.h"

#define XXH_STATIC_LINKING_ONLY
#include <xxhash.h>

#include "base/check.h"
#include "base/memory.h"

#include <stdlib.h>

struct digest {
    /* XXH3 needs 64 bytes' alignment, so it allocates this. */
    XXH3_state_t *state;
};

static void digest_store(XXH128_hash_t hash, uint8_t ret_value[DIGEST_SIZE])
{
    XXH128_canonical_t canonical;
    _Static_assert(sizeof canonical == DIGEST_SIZE, "size of a digest");
    XXH128_canonicalFromHash(&canonical, hash);
    memcpy(ret_value, &canonical, DIGEST_SIZE);
}

struct digest *digest_new(void)
{
    struct digest *digest = memory_new(sizeof *digest);
    digest->state = XXH3_createState();
    CHECK(digest->state != NULL);
    XXH3_128bits_reset(digest->state);
    return digest;
}

void digest_free(struct digest *digest)
{
    if (digest != NULL) {
        XXH3_freeState(digest->state);
        free(digest);
    }
}

void digest_add(struct digest *digest, struct bytes bytes)
{
    XXH3_128bits_update(digest->state, bytes.data, bytes.size);
}

void digest_value(const struct digest *digest, uint8_t ret_value[DIGEST_SIZE])
{
    digest_store(XXH3_128bits_digest(digest->state), ret_value);
}

void digest_of(struct bytes bytes, uint8_t ret_value[DIGEST_SIZE])
{
    digest_store(XXH3_128bits(bytes.data, bytes.size), ret_value);
}

uint64_t digest_short(uint64_t seed, struct bytes bytes)
{
    return XXH3_64bits_withSeed(bytes.data, bytes.size, seed);
}
