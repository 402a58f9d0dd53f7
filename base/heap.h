/* SPDX-License-Identifier: MIT */

/* An intrusive binary min-heap of 64-bit keys, for deadlines.
 *
 * An element embeds a heap_node; the heap holds pointers. Equal keys leave in
 * an order that depends only on the history of calls, so a simulation repeats.
 * All operations are O(log n). */

#ifndef HASP_BASE_HEAP_H
#define HASP_BASE_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct heap_node {
    uint64_t key;
    size_t slot; /* Position from 1; 0 while in no heap. */
};

struct heap {
    struct heap_node **nodes; /* nodes[0] is slot 1. */
    size_t count;
    uint32_t capacity;
};

void heap_done(struct heap *heap);
/* Inserts 'node' or, if it is in the heap, moves it to 'key'. */
void heap_set(struct heap *heap, struct heap_node *node, uint64_t key);
/* Removes 'node'; does nothing if it is in no heap. */
void heap_remove(struct heap *heap, struct heap_node *node);
/* The node with the smallest key, or NULL. */
struct heap_node *heap_first(const struct heap *heap);

#endif /* HASP_BASE_HEAP_H */
