/* SPDX-License-Identifier: MIT */

/* uthash, with a seeded XXH3 as its hash function.
 *
 * Names come from strangers, so the seed is random per process (hash_seed_set
 * once at start; the simulator and tests set a fixed one). Nothing that is
 * replicated may depend on the order of iteration. Include this, never
 * <uthash.h> itself. */

#ifndef HASP_BASE_HASH_H
#define HASP_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

#include "base/check.h"

extern uint64_t hash_seed; /* 0: not set yet. */
void hash_seed_set(uint64_t seed);
uint64_t hash_bytes(const void *data, size_t size);

#define HASH_FUNCTION(key, size, hash) \
    ((hash) = (unsigned)hash_bytes((key), (size)))
/* Of itself it would exit with 255 and without a word. */
#define uthash_fatal(what) check_failed(__FILE__, __LINE__, what)
#include <uthash.h>

#endif /* HASP_BASE_HASH_H */
