/* SPDX-License-Identifier: MIT */

/* An operation on locks; only for operation.c and operation_words.c. */

#ifndef HASP_CLIENT_OPERATION_H
#define HASP_CLIENT_OPERATION_H

#include "client/session_fsm.h"

/* Interval at which a wait is requested again, keeping its place: its push is
 * lost if its node installs a snapshot. */
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
    struct client_call *call; /* NULL: no caller waits for it. */
    enum operation_kind kind;
    enum operation_step step;
    struct client_request ask;
    struct owner *owner; /* NULL: it has no number, or the hold has it. */
    uint64_t number;
    char **names;
    size_t count;
    struct hasp_acquire_options options;
    uint64_t token; /* Token of the hold to convert. */
    char *value;
    char *trace;
    struct hasp_hold *hold; /* ACQUIRE fills it; CONVERT: the caller's. */
    /* The grants. RELEASE: the holds to release, one per name; token 0: any
     * hold of the owner. */
    struct granted *grants;
    bool was_lost;    /* RELEASE: skip locks that have ended. */
    bool is_repeated; /* Repeated to get the rest of the limit. */
    uint64_t end_ns;  /* End of the wait; UINT64_MAX: never. */
    uint64_t look_ns; /* End of PARKED. */
    uint64_t place;   /* Place in the queue: an index of the log. */
    uint64_t hint;    /* Place whose end was pushed before the answer. */
    bool is_interrupted;
    struct hooked *reported; /* ACQUIRE: to hooks. */
};

/* Writes the query as of now; used as client_request.again. */
void operation_write(struct client_request *ask, struct lease_clock now);
/* Appends the owner and the number. */
void operation_write_number(const struct operation *operation,
                            struct query *query);

#endif /* HASP_CLIENT_OPERATION_H */
