/* SPDX-License-Identifier: MIT */

#include "base/sorted.h"

#include <stdlib.h>

#include "base/memory.h"
#include "base/minmax.h"

static int sorted_compare(const void *a, const void *b)
{
    const struct sorted_item *left = a, *right = b;
    return u64_order(left->number, right->number);
}

void sorted_add(struct sorted *sorted, uint64_t number, void *item)
{
    ROOM(sorted->at, sorted->capacity, sorted->count + 1);
    sorted->at[sorted->count++] = (struct sorted_item){number, item};
}

void sorted_sort(struct sorted *sorted)
{
    if (sorted->count > 0) {
        qsort(sorted->at, sorted->count, sizeof *sorted->at, sorted_compare);
    }
}

void *sorted_find(const struct sorted *sorted, uint64_t number)
{
    const struct sorted_item sought = {.number = number};
    const struct sorted_item *found = NULL;
    if (sorted->count > 0) {
        found = bsearch(&sought, sorted->at, sorted->count, sizeof *sorted->at,
                        sorted_compare);
    }
    return found != NULL ? found->item : NULL;
}

void sorted_done(struct sorted *sorted)
{
    free(sorted->at);
    *sorted = (struct sorted){0};
}
