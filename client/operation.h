/* SPDX-License-Identifier: MIT */

/* A change of locks, for operation.c and operation_words.c alone. */

#ifndef HASP_CLIENT_OPERATION_H
#define HASP_CLIENT_OPERATION_H

#include "client/session_fsm.h"

/* How often, at least, a wait is asked for again, keeping its place: its push
 * may be lost if its node skips to a snapshot. */
#define LOOK_MS 15000

enum operation_kind {
    OPERATION_ACQUIRE,
    OPERATION_CONVERT,
    OPERATION_RELEASE,
    OPERATION_RESUME,
    OPERATION_QUERY
};

enum operation_step { STEP_ASK, STEP_PARKED, STEP_WITHDRAW, STEP_SETTLE };

struct operation {
    struct list in_machine;
    struct session_fsm *fsm;
    struct client_call *call; /* NULL if nobody waits for it. */
    enum operation_kind kind;
    enum operation_step step;
    struct client_request ask;
    struct owner *owner; /* NULL if it has no number, or the hold has it. */
    uint64_t number;
    char **names;
    size_t count;
    struct hasp_acquire_options options;
    uint64_t token; /* Of the hold that is converted. */
    char *value;
    struct hasp_hold *hold; /* ACQUIRE fills it; CONVERT has the caller's. */
    /* What was granted; of a release which holds are meant, one per name, or
     * whatever the owner has (0). */
    struct granted *grants;
    bool was_lost;      /* The release leaves out what is over already. */
    bool is_asked_anew; /* For what is left of the limit. */
    uint64_t end_ns;    /* When the wait is over; UINT64_MAX for never. */
    uint64_t look_ns;   /* How long it stays PARKED. */
    uint64_t place;     /* Where it was queued: the entry in the log. */
    uint64_t hint; /* The place whose end was pushed before the answer came. */
    bool is_interrupted;
};

/* Writes what the change asks for, as of now: asking.again. */
void operation_write(struct client_request *ask, struct lease_clock now);
/* Writes whose request it is, and its number. */
void operation_write_number(const struct operation *operation,
                            struct query *query);

#endif /* HASP_CLIENT_OPERATION_H */
