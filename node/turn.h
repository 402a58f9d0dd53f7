/* SPDX-License-Identifier: MIT */

/* What every part of a node needs from the loop that drives it: the time, "a
 * turn is due", and "the node has failed".
 *
 * The host (node/node.h) knows its parts; the parts know this, and each other
 * only downward.
 *
 * Failure: turn_fail() records the first fatal error. From then on the node
 * sends nothing, since a message might depend on a vote or an entry that is not
 * on disk, and the loop ends. A callback checks turn_is_over() before it calls
 * the core.
 *
 * Threads: the loop's. */

#ifndef HASP_NODE_TURN_H
#define HASP_NODE_TURN_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>
#include <uv.h>

#include "base/account.h"
#include "base/minmax.h"
#include "base/units.h"
#include "include/hasp/node.h"
#include "node/loop_profile.h"
#include "node/stall.h"

struct turn {
    uv_loop_t *uv;
    bool is_due;   /* Something has happened since the last turn. */
    bool saw_more; /* More input may follow in this pass. */
    struct stall stall;
    struct account account; /* Work for clients in this pass. */
    uint64_t read_ns;       /* Last result of turn_read(). */
    struct loop_profile loop_profile;
    bool is_stopping; /* Stop requested: leadership is handed over first. */
    bool is_over;     /* The core must not be called. */
    bool has_failed;
    int exit_status;
    char why[HASP_NODE_WHY_SIZE];
};

/* CLOCK_MONOTONIC, read now: R of the lease rules must never be a cached
 * time. */
static inline uint64_t turn_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

/* Returns the time and starts the timing of the pass. Callbacks of the poll
 * call it first. */
static inline uint64_t turn_at_work(struct turn *turn)
{
    uint64_t now_ns = turn_now();
    loop_profile_begin(&turn->loop_profile, now_ns);
    return now_ns;
}

/* Something has happened: a turn is due in this iteration of the loop. */
static inline void turn_wake(struct turn *turn)
{
    turn->is_due = true;
}

/* A connection was accepted: what it has sent is read in the next pass. */
static inline void turn_saw_more(struct turn *turn)
{
    turn->saw_more = true;
}

/* Returns the time up to which all input has been read (rule 6). For clients
 * that wait for the account, at least one request that had arrived by then has
 * been served; to wait for all of them would let a client that sends without
 * end keep every dead session alive. */
static inline uint64_t turn_read(struct turn *turn, uint64_t now_ns)
{
    turn->read_ns = u64_min(stall_read(&turn->stall, now_ns),
                            account_waiting_ns(&turn->account));
    return turn->read_ns;
}

/* True once the core must not be called. */
static inline bool turn_is_over(const struct turn *turn)
{
    return turn->has_failed || turn->is_over;
}

/* Records and logs the first fatal error, and ends the loop. 'status' is the
 * exit code of the process. */
void turn_fail(struct turn *turn, int status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif /* HASP_NODE_TURN_H */
