/* SPDX-License-Identifier: MIT */

/* Owner tags and request numbers of a session.
 *
 * The cluster identifies a request by its session and a number that is unique
 * in the session (rule 20). A number is acknowledged, and its result dropped,
 * once it has been answered or given up: each request lists the finished
 * numbers, as ranges between the open ones. Pure. */

#ifndef HASP_CLIENT_REQUEST_NUMBERS_H
#define HASP_CLIENT_REQUEST_NUMBERS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/list.h"
#include "client/query.h"

#define OWNER_TAG_SIZE 129
/* First character of the tags that the library chooses. */
#define OWNER_PRIVATE_MARK '#'
/* Ranges that a node accepts in ACKED. */
#define ACKED_RANGE_MAX 16

/* A private owner belongs to one hold at a time, and is reused afterwards. */
struct owner {
    struct list in_numbers;
    char tag[OWNER_TAG_SIZE];
    bool is_private;
    uint32_t use_count; /* Holds and requests in progress. */
};

struct request_numbers {
    struct list owners;
    uint64_t private_count;
    uint64_t newest; /* Newest number. */
    uint64_t *open;  /* Unfinished numbers, ascending. */
    uint32_t open_count;
    uint32_t open_room;
    uint32_t kept_count; /* Reserved places in 'open'. */
    uint32_t acked_turn; /* Start of the next ranges of ACKED. */
};

void request_numbers_init(struct request_numbers *numbers);
void request_numbers_done(struct request_numbers *numbers);

/* True if a caller can use this tag. */
bool owner_tag_is_good(const char *tag);
/* 'tag' NULL: a private owner. Returns NULL if memory runs out. Each take needs
 * one put. */
struct owner *owner_take(struct request_numbers *numbers, const char *tag);
void owner_put(struct owner *owner);

/* A number for a new request; HASP_ENOMEM. */
MUST_CHECK int request_numbers_begin(struct request_numbers *numbers,
                                     uint64_t *ret_number);
/* Reserves a place, so that request_numbers_begin() cannot fail after it is
 * given back. */
MUST_CHECK int request_numbers_keep(struct request_numbers *numbers);
void request_numbers_give_back(struct request_numbers *numbers);
/* The request has been answered or given up, or was never sent. */
void request_numbers_end(struct request_numbers *numbers, uint64_t number);
/* Appends "OWNER tag REQ n ACKED m,a-b...". */
void request_numbers_write(struct request_numbers *numbers,
                           const struct owner *owner, uint64_t number,
                           struct query *query);

#endif /* HASP_CLIENT_REQUEST_NUMBERS_H */
