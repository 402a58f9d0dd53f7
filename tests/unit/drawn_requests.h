/* SPDX-License-Identifier: MIT */

/* Requests drawn from the tables of commands: every command, every option, any
 * of the forms that COMMAND DOCS shows, with values from small pools that all
 * clients share, so that requests collide. Commands are not listed here, so a
 * new one is drawn as soon as its row exists; test_drawn_requests fails for an
 * argument or an option of a kind that has no pool. */

#ifndef HASP_TESTS_UNIT_DRAWN_REQUESTS_H
#define HASP_TESTS_UNIT_DRAWN_REQUESTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"

struct command;

#define DRAWN_WORD_COUNT_MAX 96
#define DRAWN_WORD_SIZE_MAX 640
#define DRAWN_HEARD_COUNT 8

/* Where choices come from: a seed, or the input of a fuzzer. */
struct choice {
    uint32_t (*below)(void *data, uint32_t bound); /* Below 'bound', not 0. */
    void *data;
    uint64_t ms_max; /* The longest time to live drawn; 0: any. */
};

struct drawn_request {
    const struct command *command;
    const char *missing; /* A kind that has no pool; NULL: none. */
    struct bytes word[DRAWN_WORD_COUNT_MAX];
    uint32_t count;
    char room[DRAWN_WORD_COUNT_MAX][DRAWN_WORD_SIZE_MAX];
};

/* Numbers in earlier answers: ids of sessions, tokens. */
struct drawn_heard {
    uint64_t number[DRAWN_HEARD_COUNT];
    uint32_t next;
};

/* Any command. */
void drawn_request(const struct choice *choice, const struct drawn_heard *heard,
                   struct drawn_request *ret);
/* This command, usually with good arguments. */
void drawn_request_of(const struct choice *choice,
                      const struct drawn_heard *heard,
                      const struct command *command, struct drawn_request *ret);
/* True if it is not an administrative command, opens no session, and leaves the
 * connection as it is. */
bool drawn_is_tame(const struct drawn_request *request);
/* Keeps the large numbers of a reply. */
void drawn_hear(struct drawn_heard *heard, struct bytes reply);

#endif /* HASP_TESTS_UNIT_DRAWN_REQUESTS_H */
