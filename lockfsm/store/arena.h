/* SPDX-License-Identifier: MIT */

/* Memory that is allocated piece by piece and freed all at once: for a decoded
 * command, and for the bytes of effects. Pieces never move. Threads: one. */

#ifndef HASP_LOCKFSM_STORE_ARENA_H
#define HASP_LOCKFSM_STORE_ARENA_H

#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"

struct arena_chunk;

/* Zeroed memory is an empty arena. */
struct arena {
    struct arena_chunk *first;
    struct arena_chunk *current;
    uint8_t *at;
    size_t left_size;
};

/* Allocates 'size' bytes, aligned for any type, contents undefined. */
void *arena_take(struct arena *arena, size_t size);
struct bytes arena_copy(struct arena *arena, struct bytes bytes);
/* Frees all pieces; keeps the first chunk for the next ones. */
void arena_reset(struct arena *arena);
void arena_done(struct arena *arena);

#endif /* HASP_LOCKFSM_STORE_ARENA_H */
