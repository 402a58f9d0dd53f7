/* SPDX-License-Identifier: MIT */

/* Pointers that are gathered, then sorted by a number each. The number stands
 * beside the pointer, so that sorting very many does not look at what they
 * point to over and over. Zeroed memory is an empty one. */

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
/* In ascending order; those of one number in any. */
void sorted_sort(struct sorted *sorted);
/* Once it is sorted: one of this number, or NULL. */
void *sorted_find(const struct sorted *sorted, uint64_t number);
void sorted_done(struct sorted *sorted);

#endif /* HASP_BASE_SORTED_H */
