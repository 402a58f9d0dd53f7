/* SPDX-License-Identifier: MIT */

/* The best so many of what is offered, in a heap; and the cursor of a page. */

#include "core/commands/listing.h"

#include <stdlib.h>

#include "base/check.h"
#include "base/memory.h"
#include "core/request.h"
#include "core/state.h"

void listing_begin(struct listing *listing, uint32_t max,
                   listing_compare_fn *compare)
{
    CHECK(max > 0);
    *listing = (struct listing){.max = max, .compare = compare};
    listing->item = memory_new(max * sizeof *listing->item);
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

/* The heap's root is the greatest of those kept. */
void listing_add(struct listing *listing, const void *item)
{
    CHECK(listing->max > 0 && listing->count <= listing->max);
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
    core->turn.scan_budget -= looked_at < core->turn.scan_budget
                                  ? looked_at
                                  : core->turn.scan_budget;
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

bool listing_after(struct core *core, struct request *request,
                   const struct call *call, struct bytes *ret_after)
{
    struct bytes cursor = call_text(call, OPTION_CURSOR);
    *ret_after = (struct bytes){NULL, 0};
    if (cursor.size == 0 || bytes_is_word(cursor, "0")) {
        return true;
    }
    if (cursor.data[0] != '=') {
        struct resp_writer *writer = request_reply(core, request);
        call_fail(call, writer, "CURSOR must be one that LIST returned");
        request_done(core, request);
        return false;
    }
    *ret_after = bytes_of(cursor.data + 1, cursor.size - 1);
    return true;
}

void listing_put_cursor(struct resp_writer *writer, const struct bytes *last)
{
    uint8_t text[LOCK_NAME_SIZE_MAX + 1] = {'='};
    if (last == NULL) {
        resp_text(writer, "0");
        return;
    }
    CHECK(last->size < sizeof text);
    memcpy(text + 1, last->data, last->size);
    resp_bulk(writer, bytes_of(text, last->size + 1));
}
