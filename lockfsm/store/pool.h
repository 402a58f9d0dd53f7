/* SPDX-License-Identifier: MIT */

/* Small pieces of memory with free lists by size, for structures that are
 * created and freed with every entry: locks, holds, waits, their names and
 * tags.
 *
 * Pieces are cut from big chunks and return to the list of their size. Only
 * pool_done() frees chunks, so the memory stays at its peak. Under
 * AddressSanitizer each piece is an allocation of its own, so that overflows
 * and uses after free are detected. Threads: one. */

#ifndef HASP_LOCKFSM_STORE_POOL_H
#define HASP_LOCKFSM_STORE_POOL_H

#include <stddef.h>

#include "base/bytes.h"

/* Pieces of up to 512 bytes in steps of 16, then 1, 2, 4, 8 KiB. */
#define POOL_PIECE_SIZE_MAX ((size_t)8192)
#define POOL_CLASS_COUNT 36

struct pool_chunk;
struct pool_piece;

/* Zeroed memory is an empty pool. */
struct pool {
    struct pool_piece *free[POOL_CLASS_COUNT];
    struct pool_chunk *chunks;
    uint8_t *at;
    size_t left_size;
    uint64_t copied_size; /* Bytes of all copies in use. */
    uint64_t taken_size;  /* Bytes of all pieces in use, including copies. */
};

/* Allocates 'size' zeroed bytes, at most POOL_PIECE_SIZE_MAX. */
void *pool_take(struct pool *pool, size_t size);
/* Frees a piece that was allocated with this 'size'. NULL is allowed. */
void pool_give(struct pool *pool, void *piece, size_t size);
/* Copies 'bytes'; empty bytes need no memory. */
struct bytes pool_copy(struct pool *pool, struct bytes bytes);
/* Frees such a copy and empties it. */
void pool_drop(struct pool *pool, struct bytes *bytes);
/* Frees everything, including pieces in use. */
void pool_done(struct pool *pool);

#endif /* HASP_LOCKFSM_STORE_POOL_H */
