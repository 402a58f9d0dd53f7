/* SPDX-License-Identifier: MIT */

/* A list of chunks, filled from the first on; all but the first are freed when
 * the arena is reset. */

#include "lockfsm/store/arena.h"

#include <stdlib.h>

#include "base/check.h"
#include "base/memory.h"

#define ARENA_CHUNK_SIZE ((size_t)32 * 1024)
#define ARENA_ALIGNMENT ((size_t)16)

struct arena_chunk {
    struct arena_chunk *next;
    size_t size;
    _Alignas(16) uint8_t data[];
};

static void arena_enter(struct arena *arena, struct arena_chunk *chunk)
{
    arena->current = chunk;
    arena->at = chunk->data;
    arena->left_size = chunk->size;
}

static void arena_grow(struct arena *arena, size_t size)
{
    CHECK(size <= SIZE_MAX / 2);
    if (size < ARENA_CHUNK_SIZE) {
        size = ARENA_CHUNK_SIZE;
    }
    struct arena_chunk *chunk = memory_resize(NULL, sizeof *chunk + size);
    chunk->next = NULL;
    chunk->size = size;
    if (arena->current == NULL) {
        arena->first = chunk;
    } else {
        arena->current->next = chunk;
    }
    arena_enter(arena, chunk);
}

void *arena_take(struct arena *arena, size_t size)
{
    CHECK(size <= SIZE_MAX / 4);
    size = (size + ARENA_ALIGNMENT - 1) & ~(ARENA_ALIGNMENT - 1);
    if (size > arena->left_size) {
        arena_grow(arena, size);
    }
    void *piece = arena->at;
    arena->at += size;
    arena->left_size -= size;
    return piece;
}

struct bytes arena_copy(struct arena *arena, struct bytes bytes)
{
    if (bytes.size == 0) {
        return (struct bytes){NULL, 0};
    }
    void *copy = arena_take(arena, bytes.size);
    memcpy(copy, bytes.data, bytes.size);
    return bytes_of(copy, bytes.size);
}

static void free_chunks(struct arena_chunk *chunk)
{
    while (chunk != NULL) {
        struct arena_chunk *next = chunk->next;
        free(chunk);
        chunk = next;
    }
}

void arena_reset(struct arena *arena)
{
    if (arena->first != NULL) {
        free_chunks(arena->first->next);
        arena->first->next = NULL;
        arena_enter(arena, arena->first);
    }
}

void arena_done(struct arena *arena)
{
    free_chunks(arena->first);
    *arena = (struct arena){0};
}
