/* SPDX-License-Identifier: MIT */

/* Rows of an answer: a list in an answer ends at N rows or at B bytes,
 * whichever is first, so that no answer is larger than ANSWER_SIZE_MAX. That
 * bounds what one request costs its turn, at the node and at the gateway.
 *
 * The bytes are those of the list in JSON, at most: a control character takes
 * six of them, and bytes that are not UTF-8 are sent in base64. So a page is
 * the same over RESP and over HTTP. */

#ifndef HASP_CORE_COMMANDS_ROWS_H
#define HASP_CORE_COMMANDS_ROWS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "net/resp.h"

struct core;
struct request;

#define ANSWER_SIZE_MAX ((size_t)256 << 10)
/* For all lists of one answer; the rest is for its other members, of which the
 * largest is a lock's note. */
#define ROWS_SIZE_MAX ((size_t)200 << 10)

struct rows {
    struct resp_writer writer; /* Writes the next row; see rows_begin(). */
    struct buffer out;
    uint32_t count;
    uint32_t count_max;
    size_t kept;     /* The bytes in 'out' of the rows that were kept. */
    size_t size;     /* Their size in JSON, at most. */
    size_t size_max; /* Bound for 'size'. */
    bool is_full;    /* A row has been dropped. */
};

/* 'rows' must not be moved until rows_put() or rows_done(). */
void rows_begin(struct rows *rows, const struct request *request,
                uint32_t count_max, size_t size_max);
/* False: another row would be dropped, or one has been. */
bool rows_have_room(const struct rows *rows);
/* Ends the row that was written. False: it does not fit and is dropped; the
 * list ends before it. */
bool rows_keep(struct rows *rows);
/* Writes the rows as an array, charges them to the turn's budget for scans, and
 * frees them. */
void rows_put(struct core *core, struct rows *rows, struct resp_writer *writer);
/* Charges and frees them. */
void rows_done(struct core *core, struct rows *rows);

#endif /* HASP_CORE_COMMANDS_ROWS_H */
