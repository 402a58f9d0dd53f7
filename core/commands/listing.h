/* SPDX-License-Identifier: MIT */

/* One page of a LIST: the smallest 'max' of what is offered, in order.
 *
 * Hash tables have no order, so a page looks at every record; a heap keeps the
 * best. What LIST may look at in one turn is bounded (core->turn.scan_budget).
 */

#ifndef HASP_CORE_COMMANDS_LISTING_H
#define HASP_CORE_COMMANDS_LISTING_H

#include "core/commands/commands.h"

typedef int listing_compare_fn(const void *a, const void *b);

struct listing {
    const void **item;
    uint32_t count;
    uint32_t max;
    listing_compare_fn *compare; /* As for qsort: of pointers to items. */
    bool is_cut;                 /* There are more. */
};

void listing_begin(struct listing *listing, uint32_t max,
                   listing_compare_fn *compare);
void listing_add(struct listing *listing, const void *item);
/* Sorts; 'looked_at' is taken from the budget. */
void listing_end(struct core *core, struct listing *listing,
                 uint64_t looked_at);
const void *listing_last(const struct listing *listing);
void listing_done(struct listing *listing);

/* Lists in the order of names: the cursor is '=' and the last name that was
 * told; "0" begins and ends. False if CURSOR is none: then it is refused. */
bool listing_after(struct core *core, struct request *request,
                   const struct call *call, struct bytes *ret_after);
/* 'last' is the last name told if there are more, else NULL. */
void listing_put_cursor(struct resp_writer *writer, const struct bytes *last);

#endif /* HASP_CORE_COMMANDS_LISTING_H */
