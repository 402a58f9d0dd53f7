/* SPDX-License-Identifier: MIT */

/* One page of a LIST, in the order of a set: at most COUNT records that begin
 * with PREFIX, after the cursor, and no more bytes than rows.h allows. It costs
 * what it returns.
 *
 * The cursor names the last record returned, which may have gone since. A
 * record that exists from the first page to the last is returned exactly
 * once. */

#ifndef HASP_CORE_COMMANDS_LISTING_H
#define HASP_CORE_COMMANDS_LISTING_H

#include "base/list.h"
#include "base/treap.h"
#include "core/commands/commands.h"
#include "core/commands/rows.h"

/* Writes the record that 'node' is part of, as one value. */
typedef void listing_row_fn(struct core *core, const struct request *request,
                            const struct treap_node *node,
                            struct resp_writer *writer);

struct listing {
    struct rows rows;
    const struct treap_node *last; /* The last record shown, or NULL. */
    bool is_numbered; /* Names are not unique: cursors have the number, too. */
    bool is_cut;      /* More records follow. */
};

/* Answers a LIST: the cursor, and the records. */
void listing_answer(struct core *core, struct request *request,
                    struct treap *set, bool is_numbered, listing_row_fn *row);
/* Writes the rows of a page, which the caller puts with rows_put(). False if
 * CURSOR is invalid; the request has then been refused. 'listing' must not be
 * moved. */
bool listing_begin(struct core *core, struct request *request,
                   struct treap *set, bool is_numbered, listing_row_fn *row,
                   struct listing *listing);
void listing_put_cursor(struct resp_writer *writer,
                        const struct listing *listing);
/* Likewise for a list in the order of numbers, none of which is 0: reads
 * CURSOR, 0 if it is the beginning; false: it is refused. */
bool listing_number_cursor(struct core *core, struct request *request,
                           uint64_t *ret_after);
/* 'last' is that of the last item of the page; 0: there are no more. */
void listing_put_number_cursor(struct resp_writer *writer, uint64_t last);

/* Charges that many records to the turn's budget; listing_begin() has charged
 * those of a page. */
void listing_spend(struct core *core, uint64_t count);

#endif /* HASP_CORE_COMMANDS_LISTING_H */
