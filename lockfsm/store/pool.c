/* SPDX-License-Identifier: MIT */

/* Chunks that are cut into pieces of 36 sizes. A freed piece becomes the head
 * of its size's list. */

#include "lockfsm/store/pool.h"

#include <stdlib.h>

#include "base/check.h"
#include "base/memory.h"

#define POOL_CHUNK_SIZE ((size_t)64 * 1024)
#define POOL_STEP_SIZE ((size_t)16)
#define POOL_STEP_SIZE_MAX ((size_t)512)

#if defined(__SANITIZE_ADDRESS__)
#define POOL_IS_MALLOC 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define POOL_IS_MALLOC 1
#endif
#endif
#ifndef POOL_IS_MALLOC
#define POOL_IS_MALLOC 0
#endif

struct pool_chunk {
    struct pool_chunk *next;
    struct pool_chunk *prev; /* Used only if each piece is a chunk. */
    _Alignas(16) uint8_t data[];
};

struct pool_piece {
    struct pool_piece *next;
};

static struct pool_chunk *add_chunk(struct pool *pool, size_t size)
{
    struct pool_chunk *chunk = memory_resize(NULL, sizeof *chunk + size);
    chunk->next = pool->chunks;
    chunk->prev = NULL;
    if (chunk->next != NULL) {
        chunk->next->prev = chunk;
    }
    pool->chunks = chunk;
    return chunk;
}

static void drop_chunk(struct pool *pool, struct pool_chunk *chunk)
{
    if (chunk->prev != NULL) {
        chunk->prev->next = chunk->next;
    } else {
        pool->chunks = chunk->next;
    }
    if (chunk->next != NULL) {
        chunk->next->prev = chunk->prev;
    }
    free(chunk);
}

static unsigned class_of(size_t size, size_t *ret_size)
{
    CHECK(size <= POOL_PIECE_SIZE_MAX);
    if (size <= POOL_STEP_SIZE_MAX) {
        size_t steps = size == 0 ? 1
                                 : (size + POOL_STEP_SIZE - 1) / POOL_STEP_SIZE;
        *ret_size = steps * POOL_STEP_SIZE;
        return (unsigned)steps - 1;
    }
    unsigned piece_class = POOL_STEP_SIZE_MAX / POOL_STEP_SIZE;
    size_t piece_size = 2 * POOL_STEP_SIZE_MAX;
    while (piece_size < size) {
        piece_size *= 2;
        piece_class++;
    }
    *ret_size = piece_size;
    return piece_class;
}

static void *pool_cut(struct pool *pool, size_t size)
{
    if (size > pool->left_size) {
        pool->at = add_chunk(pool, POOL_CHUNK_SIZE)->data;
        pool->left_size = POOL_CHUNK_SIZE;
    }
    void *piece = pool->at;
    pool->at += size;
    pool->left_size -= size;
    return piece;
}

static void *take_undefined(struct pool *pool, size_t size)
{
    pool->taken_size += size;
    if (POOL_IS_MALLOC) {
        return add_chunk(pool, size)->data;
    }
    size_t piece_size;
    unsigned piece_class = class_of(size, &piece_size);
    struct pool_piece *piece = pool->free[piece_class];
    if (piece == NULL) {
        return pool_cut(pool, piece_size);
    }
    pool->free[piece_class] = piece->next;
    return piece;
}

void *pool_take(struct pool *pool, size_t size)
{
    return memset(take_undefined(pool, size), 0, size);
}

void pool_give(struct pool *pool, void *piece, size_t size)
{
    if (piece == NULL) {
        return;
    }
    CHECK(pool->taken_size >= size);
    pool->taken_size -= size;
    if (POOL_IS_MALLOC) {
        drop_chunk(pool,
                   (struct pool_chunk *)((uint8_t *)piece -
                                         offsetof(struct pool_chunk, data)));
        return;
    }
    size_t piece_size;
    unsigned piece_class = class_of(size, &piece_size);
    struct pool_piece *free_piece = piece;
    free_piece->next = pool->free[piece_class];
    pool->free[piece_class] = free_piece;
}

struct bytes pool_copy(struct pool *pool, struct bytes bytes)
{
    if (bytes.size == 0) {
        return (struct bytes){NULL, 0};
    }
    void *copy = take_undefined(pool, bytes.size);
    memcpy(copy, bytes.data, bytes.size);
    pool->copied_size += bytes.size;
    return bytes_of(copy, bytes.size);
}

void pool_drop(struct pool *pool, struct bytes *bytes)
{
    pool->copied_size -= bytes->size;
    pool_give(pool, (void *)bytes->data, bytes->size);
    *bytes = (struct bytes){NULL, 0};
}

void pool_done(struct pool *pool)
{
    while (pool->chunks != NULL) {
        drop_chunk(pool, pool->chunks);
    }
    *pool = (struct pool){0};
}
