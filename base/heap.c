/* SPDX-License-Identifier: MIT */

#include "base/heap.h"

#include <stdlib.h>

#include "base/check.h"
#include "base/memory.h"

static void heap_place(struct heap *heap, size_t slot, struct heap_node *node)
{
    heap->nodes[slot - 1] = node;
    node->slot = slot;
}

static void sift_up(struct heap *heap, size_t slot, struct heap_node *node)
{
    while (slot > 1 && heap->nodes[slot / 2 - 1]->key > node->key) {
        heap_place(heap, slot, heap->nodes[slot / 2 - 1]);
        slot /= 2;
    }
    heap_place(heap, slot, node);
}

static void sift_down(struct heap *heap, size_t slot, struct heap_node *node)
{
    for (;;) {
        size_t child = 2 * slot;
        if (child > heap->count) {
            break;
        }
        if (child < heap->count &&
            heap->nodes[child]->key < heap->nodes[child - 1]->key) {
            child++;
        }
        if (heap->nodes[child - 1]->key >= node->key) {
            break;
        }
        heap_place(heap, slot, heap->nodes[child - 1]);
        slot = child;
    }
    heap_place(heap, slot, node);
}

void heap_done(struct heap *heap)
{
    free(heap->nodes);
    *heap = (struct heap){0};
}

void heap_set(struct heap *heap, struct heap_node *node, uint64_t key)
{
    if (node->slot == 0) {
        ROOM(heap->nodes, heap->capacity, heap->count + 1);
        heap->count++;
        node->key = key;
        sift_up(heap, heap->count, node);
        return;
    }
    CHECK(heap->nodes[node->slot - 1] == node);
    bool is_smaller = key < node->key;
    node->key = key;
    if (is_smaller) {
        sift_up(heap, node->slot, node);
    } else {
        sift_down(heap, node->slot, node);
    }
}

void heap_remove(struct heap *heap, struct heap_node *node)
{
    if (node->slot == 0) {
        return;
    }
    CHECK(heap->nodes[node->slot - 1] == node);
    size_t slot = node->slot;
    struct heap_node *last = heap->nodes[heap->count - 1];
    heap->count--;
    node->slot = 0;
    if (last == node) {
        return;
    }
    if (slot > 1 && heap->nodes[slot / 2 - 1]->key > last->key) {
        sift_up(heap, slot, last);
    } else {
        sift_down(heap, slot, last);
    }
}

struct heap_node *heap_first(const struct heap *heap)
{
    return heap->count > 0 ? heap->nodes[0] : NULL;
}
