/* SPDX-License-Identifier: MIT */

/* One page of a LIST, in the order of a set: at most COUNT records that begin
 * with PREFIX, after the cursor. It costs what it returns.
 *
 * The cursor names the last record returned, which may have gone since. A
 * record that exists from the first page to the last is returned exactly
 * once. */

#ifndef HASP_CORE_COMMANDS_LISTING_H
#define HASP_CORE_COMMANDS_LISTING_H

#include "base/list.h"
#include "base/treap.h"
#include "core/commands/commands.h"

struct listing {
    struct treap_node **item;
    uint32_t count;
    bool is_numbered; /* Names are not unique: cursors have the number, too. */
    bool is_cut;      /* More records follow. */
};

/* The structure that an item is part of. */
#define LISTED(listing, i, type, member) \
    LIST_ENTRY((listing)->item[i], type, member)

/* False if CURSOR is invalid; the request has then been refused. */
bool listing_begin(struct core *core, struct request *request,
                   const struct call *call, struct treap *set, bool is_numbered,
                   struct listing *ret_listing);
/* Starts the answer: the cursor, and an array for the first 'count' items,
 * which the caller writes. */
void listing_put_head(struct resp_writer *writer, const struct listing *listing,
                      uint32_t count);
/* Writes the cursor only. */
void listing_put_cursor(struct resp_writer *writer,
                        const struct listing *listing, uint32_t count);
/* Likewise for a list in the order of numbers, none of which is 0: reads
 * CURSOR, 0 if it is the beginning; false: it is refused. */
bool listing_number_cursor(struct core *core, struct request *request,
                           uint64_t *ret_after);
/* 'last' is that of the last item of the page; 0: there are no more. */
void listing_put_number_cursor(struct resp_writer *writer, uint64_t last);
void listing_done(struct listing *listing);

/* Charges that many records to the turn's budget; listing_begin() has charged
 * those of a page. */
void listing_spend(struct core *core, uint64_t count);

#endif /* HASP_CORE_COMMANDS_LISTING_H */
