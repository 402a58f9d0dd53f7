/* SPDX-License-Identifier: MIT */

/* Owner tags and request numbers of a session.
 *
 * The cluster knows a request by the session and a number that no other request
 * of the session has. A number is acknowledged, and its result forgotten, once
 * it has been answered or given up: each request tells which ones are over, as
 * ranges between those that are open. Pure. */

#ifndef HASP_CLIENT_REQUEST_NUMBERS_H
#define HASP_CLIENT_REQUEST_NUMBERS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/list.h"
#include "client/query.h"

#define OWNER_TAG_SIZE 129
/* What begins the tags that the library chooses. */
#define OWNER_PRIVATE_MARK '#'
/* What a node takes of ranges in ACKED. */
#define ACKED_RANGE_MAX 16

/* A private one is given to one hold at a time and used again after it. */
struct owner {
    struct list in_numbers;
    char tag[OWNER_TAG_SIZE];
    bool is_private;
    uint32_t use_count; /* Of holds and of requests under way. */
};

struct request_numbers {
    struct list owners;
    uint64_t private_count;
    uint64_t newest; /* Number of the newest request. */
    uint64_t *open;  /* Those that are not over; ascending. */
    uint32_t open_count;
    uint32_t open_room;
    uint32_t kept_count; /* Places in it that are promised. */
    uint32_t acked_turn; /* Where the next ranges of ACKED begin. */
};

void request_numbers_init(struct request_numbers *numbers);
void request_numbers_done(struct request_numbers *numbers);

/* True if a caller may use this tag. */
bool owner_tag_is_good(const char *tag);
/* 'tag' NULL: a private one. NULL: no memory. Each use is put once. */
struct owner *owner_take(struct request_numbers *numbers, const char *tag);
void owner_put(struct owner *owner);

/* A number for a new request; HASP_ENOMEM. */
MUST_CHECK int request_numbers_begin(struct request_numbers *numbers,
                                     uint64_t *ret_number);
/* Promises a place for a number that request_numbers_begin() then has for sure,
 * once it is given back. */
MUST_CHECK int request_numbers_keep(struct request_numbers *numbers);
void request_numbers_give_back(struct request_numbers *numbers);
/* The request has been answered or given up, or was never sent. */
void request_numbers_end(struct request_numbers *numbers, uint64_t number);
/* Appends "OWNER tag REQ n ACKED m,a-b...". */
void request_numbers_write(struct request_numbers *numbers,
                           const struct owner *owner, uint64_t number,
                           struct query *query);

#endif /* HASP_CLIENT_REQUEST_NUMBERS_H */
