/* SPDX-License-Identifier: MIT */

/* Memory that is taken piece by piece and given back all at once: what one
 * command is decoded into, and the bytes that effects refer to. Pieces never
 * move. Threads: one. */

#ifndef HASP_LOCKFSM_STORE_ARENA_H
#define HASP_LOCKFSM_STORE_ARENA_H

#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"

struct arena_chunk;

/* Zeroed memory is an empty one. */
struct arena {
    struct arena_chunk *first;
    struct arena_chunk *current;
    uint8_t *at;
    size_t left_size;
};

/* Takes 'size' bytes, aligned for anything, contents undefined. */
void *arena_take(struct arena *arena, size_t size);
struct bytes arena_copy(struct arena *arena, struct bytes bytes);
/* Gives all pieces back; keeps the first chunk for the next ones. */
void arena_reset(struct arena *arena);
void arena_done(struct arena *arena);

#endif /* HASP_LOCKFSM_STORE_ARENA_H */
