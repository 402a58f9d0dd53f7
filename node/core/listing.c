/* SPDX-License-Identifier: MIT */

#include "node/core/listing.h"

#include <stdlib.h>

#include "base/memory.h"

static void sift_down(struct listing *listing, uint32_t at);

void listing_begin(struct listing *listing, uint32_t max,
                   listing_compare_fn *compare)
{
    *listing = (struct listing){.max = max, .compare = compare};
    listing->item = memory_new(max * sizeof *listing->item);
}

/* The heap's root is the greatest of those kept. */
void listing_add(struct listing *listing, const void *item)
{
    if (listing->count < listing->max) {
        uint32_t at = listing->count++;
        while (at > 0 &&
               listing->compare(&item, &listing->item[(at - 1) / 2]) > 0) {
            listing->item[at] = listing->item[(at - 1) / 2];
            at = (at - 1) / 2;
        }
        listing->item[at] = item;
        return;
    }
    listing->is_cut = true;
    if (listing->compare(&item, &listing->item[0]) < 0) {
        listing->item[0] = item;
        sift_down(listing, 0);
    }
}

void listing_end(struct core *core, struct listing *listing, uint64_t looked_at)
{
    qsort(listing->item, listing->count, sizeof *listing->item,
          listing->compare);
    core->scan_budget -= looked_at < core->scan_budget ? looked_at
                                                       : core->scan_budget;
}

const void *listing_last(const struct listing *listing)
{
    return listing->count > 0 ? listing->item[listing->count - 1] : NULL;
}

void listing_done(struct listing *listing)
{
    free(listing->item);
    *listing = (struct listing){0};
}

static void sift_down(struct listing *listing, uint32_t at)
{
    const void **item = listing->item;
    for (;;) {
        uint32_t child = 2 * at + 1;
        if (child >= listing->count) {
            return;
        }
        if (child + 1 < listing->count &&
            listing->compare(&item[child + 1], &item[child]) > 0) {
            child++;
        }
        if (listing->compare(&item[child], &item[at]) <= 0) {
            return;
        }
        const void *other = item[at];
        item[at] = item[child];
        item[child] = other;
        at = child;
    }
}
