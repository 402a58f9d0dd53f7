/* SPDX-License-Identifier: MIT */

/* The leader's deadlines of spans: times that begin with an entry of the log.
 * These are a wait with a limit, a lock delay, a max hold, the time in which a
 * holder may object to a break, a blacklisting FOR a time, and the quarantine
 * after a restore. Used through lease/timers.h.
 *
 * When a span is over, the command that ends it is proposed once. It names the
 * index or the token of what it ends, so that it cannot end a later wait or
 * hold of the same lock. A span is removed when the state machine reports the
 * end of the thing it measures, for whatever reason.
 *
 * The leader that applied the beginning of a span counts its whole length. A
 * leader that inherits the span subtracts what the log's clock has counted
 * since the beginning, less one step of that clock (lockfsm.h:
 * CLOCK_STEP_MS_MAX); for a max hold less two steps.
 *
 * Threads: one. */

#ifndef HASP_LEASE_SPANS_H
#define HASP_LEASE_SPANS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/heap.h"
#include "lease/timers.h"
#include "lockfsm/store/pool.h"

struct span;

struct spans {
    struct heap due;
    struct span *by_key;
    struct pool pool; /* Allocates them. */
    struct buffer key;
};

/* Zeroed memory has no spans. */
void spans_done(struct spans *spans);
void spans_clear(struct spans *spans);
/* Under a new leader: start the spans of one lock, and those that belong to no
 * lock. */
void spans_inherit_lock(struct spans *spans, const struct lockfsm *fsm,
                        const struct lock *lock, uint64_t now_ns);
void spans_inherit(struct spans *spans, const struct lockfsm *fsm,
                   uint64_t now_ns);
void spans_follow(struct spans *spans, const struct lockfsm *fsm,
                  const struct effect *effect, uint64_t now_ns);
bool spans_are_none(const struct spans *spans);
uint64_t spans_next(const struct spans *spans);
uint64_t spans_delay_left(struct spans *spans, struct bytes lock,
                          uint64_t now_ns);
/* Nanoseconds until a hold is taken away, unless its holder objects. */
uint64_t spans_break_left(struct spans *spans, struct bytes lock,
                          uint64_t session, struct bytes owner,
                          uint64_t now_ns);
/* The time left of a hold that a client may rely on. 'clock_ms' is the log's
 * clock plus the most that a TIME under way can add to it. */
uint64_t spans_hold_left(struct spans *spans, struct bytes lock,
                         uint64_t session, struct bytes owner,
                         uint64_t clock_ms, uint64_t now_ns);
uint64_t spans_quarantine_left(struct spans *spans, uint64_t since_index,
                               uint64_t now_ns);
/* Proposes at most 'command_max' commands and returns their number. 'ret_taken'
 * is false if a proposal was refused. */
uint32_t spans_due(struct spans *spans, uint64_t now_ns, uint32_t command_max,
                   timers_propose_fn *propose, void *data, bool *ret_taken);

#endif /* HASP_LEASE_SPANS_H */
