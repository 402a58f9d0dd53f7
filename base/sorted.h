/* SPDX-License-Identifier: MIT */

/* Pointers that are collected, then sorted by a number. The number is stored
 * beside the pointer, so that sorting many of them does not read the items
 * again and again. Zeroed memory is an empty array. */

#ifndef HASP_BASE_SORTED_H
#define HASP_BASE_SORTED_H

#include <stddef.h>
#include <stdint.h>

struct sorted {
    struct sorted_item {
        uint64_t number;
        void *item; /* Borrowed. */
    } * at;
    size_t count;
    uint32_t capacity;
};

void sorted_add(struct sorted *sorted, uint64_t number, void *item);
/* Sorts in ascending order; items with equal numbers in any order. */
void sorted_sort(struct sorted *sorted);
/* After sorting: an item with this number, or NULL. */
void *sorted_find(const struct sorted *sorted, uint64_t number);
void sorted_done(struct sorted *sorted);

#endif /* HASP_BASE_SORTED_H */
