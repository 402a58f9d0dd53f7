/* SPDX-License-Identifier: MIT */

#include "core/commands/listing.h"

#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "core/read_index.h"
#include "core/request.h"
#include "core/state.h"

/* The cost of one listed record, from a turn's budget for scans. */
#define LISTED_STEPS 16
/* The bytes of a page: it has room for a lock with all its rows and its note,
 * the largest record. */
#define LISTING_SIZE_MAX ((size_t)240 << 10)

/* A cursor is '=', then the number and '/' if the order has numbers, then the
 * key. */
struct cursor {
    struct bytes key;
    uint64_t number;
};

static bool cursor_parse(struct bytes text, bool is_numbered,
                         struct cursor *ret_cursor)
{
    struct cursor cursor = {0};
    if (text.size == 0 || text.data[0] != '=') {
        return false;
    }
    cursor.key = bytes_of(text.data + 1, text.size - 1);
    if (is_numbered) {
        const uint8_t *end = cursor.key.size > 0
                                 ? memchr(cursor.key.data, '/', cursor.key.size)
                                 : NULL;
        size_t size = end != NULL ? (size_t)(end - cursor.key.data) : 0;
        if (!bytes_to_u64(bytes_of(cursor.key.data, size), &cursor.number) ||
            cursor.number == UINT64_MAX) {
            return false;
        }
        cursor.key = bytes_of(end + 1, cursor.key.size - size - 1);
    }
    *ret_cursor = cursor;
    return true;
}

static bool refuse_cursor(struct core *core, struct request *request)
{
    return request_refuse(core, request, WORD_BADARG,
                          "CURSOR must be one that LIST returned");
}

/* Finds the first record that may be on the page. */
static bool find_first(struct core *core, struct request *request,
                       const struct call *call, struct treap *set,
                       bool is_numbered, struct treap_node **ret_first)
{
    struct bytes text = call_text(call, OPTION_CURSOR);
    struct bytes prefix = call_text(call, OPTION_PREFIX);
    struct cursor cursor;
    if (text.size == 0 || bytes_is_word(text, "0")) {
        *ret_first = treap_from(set, prefix, 0);
        return true;
    }
    if (!cursor_parse(text, is_numbered, &cursor)) {
        return refuse_cursor(core, request);
    }
    *ret_first = bytes_compare(cursor.key, prefix) < 0
                     ? treap_from(set, prefix, 0)
                     : treap_from(set, cursor.key, cursor.number + 1);
    return true;
}

void listing_spend(struct core *core, uint64_t count)
{
    read_index_spend(core, LISTED_STEPS * (1 + count));
}

bool listing_begin(struct core *core, struct request *request,
                   struct treap *set, bool is_numbered, listing_row_fn *row,
                   struct listing *listing)
{
    const struct call *call = request->call;
    struct bytes prefix = call_text(call, OPTION_PREFIX);
    struct treap_node *node = NULL;
    *listing = (struct listing){.is_numbered = is_numbered};
    CHECK(call_page(call) > 0);
    if (!find_first(core, request, call, set, is_numbered, &node)) {
        return false;
    }
    rows_begin(&listing->rows, request, call_page(call), LISTING_SIZE_MAX);
    while (node != NULL && bytes_has_prefix(node->key, prefix) &&
           rows_have_room(&listing->rows)) {
        /* Records are in ascending order; otherwise a page could repeat one, or
         * the list might never end. */
        CHECK(listing->last == NULL ||
              bytes_compare(listing->last->key, node->key) <= 0);
        row(core, request, node, &listing->rows.writer);
        if (!rows_keep(&listing->rows)) {
            break;
        }
        listing->last = node;
        node = treap_from(set, node->key, node->number + 1);
    }
    listing->is_cut = node != NULL && bytes_has_prefix(node->key, prefix);
    listing_spend(core, listing->rows.count);
    return true;
}

void listing_answer(struct core *core, struct request *request,
                    struct treap *set, bool is_numbered, listing_row_fn *row)
{
    struct listing listing;
    if (!listing_begin(core, request, set, is_numbered, row, &listing)) {
        return;
    }
    struct resp_writer *writer = request_reply(core, request);
    resp_array(writer, 2);
    listing_put_cursor(writer, &listing);
    rows_put(core, &listing.rows, writer);
    request_done(core, request);
}

void listing_put_cursor(struct resp_writer *writer,
                        const struct listing *listing)
{
    uint8_t text[CURSOR_SIZE_MAX] = {'='};
    const struct treap_node *last = listing->last;
    size_t size = 1;
    /* A cursor begins with '=', so no key can be mistaken for "0", the end. */
    if (!listing->is_cut) {
        resp_text(writer, "0");
        return;
    }
    CHECK(last != NULL); /* rows_keep() keeps the first record. */
    if (listing->is_numbered) {
        size += (size_t)snprintf((char *)text + 1, 22, "%llu/",
                                 (unsigned long long)last->number);
    }
    CHECK(last->key.size <= sizeof text - size);
    if (last->key.size > 0) {
        memcpy(text + size, last->key.data, last->key.size);
    }
    resp_bulk(writer, bytes_of(text, size + last->key.size));
}

bool listing_number_cursor(struct core *core, struct request *request,
                           uint64_t *ret_after)
{
    struct bytes text = call_text(request->call, OPTION_CURSOR);
    uint64_t after = 0;
    if (text.size > 0 && !bytes_is_word(text, "0") &&
        (text.data[0] != '=' ||
         !bytes_to_u64(bytes_of(text.data + 1, text.size - 1), &after))) {
        return refuse_cursor(core, request);
    }
    *ret_after = after;
    return true;
}

void listing_put_number_cursor(struct resp_writer *writer, uint64_t last)
{
    char text[24] = "0";
    if (last != 0) {
        snprintf(text, sizeof text, "=%llu", (unsigned long long)last);
    }
    resp_text(writer, text);
}
