/* SPDX-License-Identifier: MIT */

/* Questions: what may be answered only by a leader that still is one.
 *
 * A read, a heartbeat or a refusal waits for a question asked after its receipt
 * (by number, never by clock) to be confirmed by a majority, and for what was
 * committed at its receipt to be applied. One question of a turn serves all
 * that came in it; at most two are under way. Thesis 6.4. */

#ifndef HASP_CORE_READ_INDEX_H
#define HASP_CORE_READ_INDEX_H

#include <stdbool.h>
#include <stdint.h>

struct core;
struct request;

struct question {
    uint64_t number; /* The replica's; 0: none. */
    uint64_t ns;     /* When it was asked. */
};

/* Of a leader. */
struct read_index {
    struct question newest;
    struct question before; /* The one before it. */
    /* One that was open when those two were asked: on a slow network both of
     * them are, all the time. */
    struct question first;
    uint32_t unasked_reads; /* That wait, other than heartbeats. */
    uint64_t confirmed_ns;  /* When the newest confirmed one was asked. */
    bool is_wanted;         /* Though no request waits for it. */
};

/* The request waits for a question that is asked from now on, and for what is
 * committed by now. */
void read_index_enqueue(struct core *core, struct request *request);
/* One is to be asked, though no request waits for it. */
void read_index_request(struct core *core);
/* What has been confirmed since, before more is asked. */
void read_index_update(struct core *core);
/* Asks, if something waits and not too much is being asked. */
void read_index_ask(struct core *core);
/* Answers what has been confirmed. */
void read_index_answer(struct core *core);
/* Takes from what scans and scripts may look at among these answers: whoever
 * comes when nothing is left of it waits for the next turn. */
void read_index_spend(struct core *core, uint64_t steps);
/* When to ask at the latest; UINT64_MAX: nothing waits for the clock. */
uint64_t read_index_next(const struct core *core);

#endif /* HASP_CORE_READ_INDEX_H */
