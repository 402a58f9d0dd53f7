/* SPDX-License-Identifier: MIT */

/* The other part of the leader's deadlines: spans of time that begin with an
 * entry. A wait with a limit, a lock delay, a max hold, a blacklisting FOR a
 * time, the quarantine after a restore. (lease/timers.h is the way in.)
 *
 * When a span is over, the command that says so is proposed once; it names the
 * index or token of what it ends, so that a later instance is never hit. A span
 * leaves when the state machine tells that what it measures has ended, whatever
 * ended it.
 *
 * The leader that applied the beginning counts the whole length. One that
 * inherits the span goes by the log's clock since the beginning, less a step of
 * it (lockfsm.h: CLOCK_STEP_MS_MAX), less two for a max hold.
 *
 * Threads: one. */

#ifndef HASP_LEASE_SPANS_H
#define HASP_LEASE_SPANS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/heap.h"
#include "lease/timers.h"

struct span;

struct spans {
    struct heap due;
    struct span *by_key;
    struct buffer key;
    struct buffer command;
};

/* Zeroed memory has no spans. */
void spans_done(struct spans *spans);
void spans_clear(struct spans *spans);
/* Starts what stands in the state, under a new leader. */
void spans_inherit(struct spans *spans, const struct lockfsm *fsm,
                   uint64_t now_ns);
void spans_follow(struct spans *spans, const struct lockfsm *fsm,
                  const struct effect *effect, uint64_t now_ns);
bool spans_are_none(const struct spans *spans);
uint64_t spans_next(const struct spans *spans);
uint64_t spans_delay_left(struct spans *spans, struct bytes lock,
                          uint64_t now_ns);
/* What a client may be told. 'clock_ms': the log's clock, with what a TIME
 * under way may add. */
uint64_t spans_hold_left(struct spans *spans, struct bytes lock,
                         uint64_t session, struct bytes owner,
                         uint64_t clock_ms, uint64_t now_ns);
uint64_t spans_quarantine_left(struct spans *spans, uint64_t since_index,
                               uint64_t now_ns);
/* Proposes at most 'command_max' commands and returns how many; false in
 * 'ret_taken' if a proposal was refused. */
uint32_t spans_due(struct spans *spans, uint64_t now_ns, uint32_t command_max,
                   timers_propose_fn *propose, void *data, bool *ret_taken);

#endif /* HASP_LEASE_SPANS_H */
