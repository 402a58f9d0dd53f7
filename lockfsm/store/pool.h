/* SPDX-License-Identifier: MIT */

/* Small pieces of memory with free lists by size, for what comes and goes with
 * every entry: locks, holds, waits, their names and tags.
 *
 * Pieces are cut from big chunks and return to the list of their size; chunks
 * are given back only by pool_done(), so the memory in use is that of the
 * busiest moment. Under AddressSanitizer each piece is an allocation of its
 * own, so that overflows and uses after the end are seen. Threads: one. */

#ifndef HASP_LOCKFSM_STORE_POOL_H
#define HASP_LOCKFSM_STORE_POOL_H

#include <stddef.h>

#include "base/bytes.h"

/* Pieces of up to 512 bytes in steps of 16, then 1, 2, 4, 8 KiB. */
#define POOL_PIECE_SIZE_MAX ((size_t)8192)
#define POOL_CLASS_COUNT 36

struct pool_chunk;
struct pool_piece;

/* Zeroed memory is an empty one. */
struct pool {
    struct pool_piece *free[POOL_CLASS_COUNT];
    struct pool_chunk *chunks;
    uint8_t *at;
    size_t left_size;
    uint64_t copied_size; /* All copies that have not been given back. */
    uint64_t taken_size;  /* All pieces, copies among them, likewise. */
};

/* Takes 'size' zeroed bytes, at most POOL_PIECE_SIZE_MAX. */
void *pool_take(struct pool *pool, size_t size);
/* Gives back a piece that was taken with this 'size'. NULL is fine. */
void pool_give(struct pool *pool, void *piece, size_t size);
/* A copy of 'bytes'; nothing is taken for none. */
struct bytes pool_copy(struct pool *pool, struct bytes bytes);
/* Gives back such a copy and empties it. */
void pool_drop(struct pool *pool, struct bytes *bytes);
/* Frees everything, also what was not given back. */
void pool_done(struct pool *pool);

#endif /* HASP_LOCKFSM_STORE_POOL_H */
