/* SPDX-License-Identifier: MIT */

/* Read index: answers that only a confirmed leader may give.
 *
 * A read, a heartbeat or a refusal waits until a question asked after its
 * receipt (ordered by number, never by clock) is confirmed by a majority, and
 * until everything committed at its receipt is applied. One question per turn
 * serves all requests that arrived in it; at most two are in flight. Thesis
 * 6.4. */

#ifndef HASP_CORE_READ_INDEX_H
#define HASP_CORE_READ_INDEX_H

#include <stdbool.h>
#include <stdint.h>

struct core;
struct request;

struct question {
    uint64_t number; /* The replica's number; 0: none. */
    uint64_t ns;     /* When it was asked. */
};

/* Part of a leadership. */
struct read_index {
    struct question newest;
    struct question before; /* The previous question. */
    /* A question that was open when those two were asked. On a slow network
     * both are open all the time. */
    struct question first;
    uint32_t unasked_reads; /* Waiting requests other than heartbeats. */
    uint64_t confirmed_ns;  /* When the newest confirmed question was asked. */
    bool is_wanted;         /* A question is needed without a request. */
};

/* The request waits for a question asked from now on, and until everything
 * committed now is applied. */
void read_index_enqueue(struct core *core, struct request *request);
/* Requests a question, though no request waits for it. */
void read_index_request(struct core *core);
/* Records which questions have been confirmed, before another is asked. */
void read_index_update(struct core *core);
/* Asks a question if a request waits and not too many are in flight. */
void read_index_ask(struct core *core);
/* Answers the requests whose questions are confirmed. */
void read_index_answer(struct core *core);
/* Charges 'steps' to the budget of scans and scripts in this turn; when it is
 * used up, further ones wait for the next turn. */
void read_index_spend(struct core *core, uint64_t steps);
/* When to ask at the latest; UINT64_MAX: no request waits for the clock. */
uint64_t read_index_next(const struct core *core);

#endif /* HASP_CORE_READ_INDEX_H */
