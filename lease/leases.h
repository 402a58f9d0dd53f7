/* SPDX-License-Identifier: MIT */

/* The leader's deadlines of sessions. The rules are in lease/timers.h, through
 * which this module is used.
 *
 * There are two lazy heaps, one of deadlines and one of the times at which
 * sessions are to be marked. A session is bound from the proposal of its mark
 * until the mark is removed; meanwhile its heartbeats need a HEARD (rule 9).
 *
 * A heartbeat moves both times later without touching the heaps, so it costs
 * O(1). A key in a heap is therefore never later than the true time; an entry
 * that reaches the top too early is put back under its true time. Moving a
 * deadline earlier (a close with linger, a shorter PX) moves the key at once.
 *
 * A durable session is kept here to distinguish its heartbeats from those of an
 * ended session, but it is in neither heap: it has no deadline, is never marked
 * and needs no HEARD (rule 18).
 *
 * A session's quiet time at 'now' is T - (deadline - now), so lowering a
 * deadline adds quiet time.
 *
 * Threads: one. */

#ifndef HASP_LEASE_LEASES_H
#define HASP_LEASE_LEASES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/heap.h"
#include "lease/timers.h"
#include "lockfsm/entry.h"
#include "lockfsm/store/pool.h"

struct timed_session;

struct leases {
    struct heap deadlines;
    struct heap marks;
    uint32_t bound_count; /* Sessions with a mark in the state. */
    struct timed_session *by_id;
    struct pool pool;              /* Allocates them. */
    struct timed_session **chosen; /* For the command being made. */
    struct session_mark *marks_due;
    uint32_t chosen_capacity;
    struct buffer command;
};

/* Zeroed memory has no sessions. */
void leases_done(struct leases *leases);
void leases_clear(struct leases *leases);

/* Starts the deadline of one session under a new leader. The leader's BEGIN has
 * marked all sessions that had no mark. */
void leases_inherit(struct leases *leases, const struct lockfsm *fsm,
                    const struct session *session, uint64_t now_ns);
/* A session was opened just now. */
void leases_open(struct leases *leases, const struct session *session,
                 uint64_t now_ns);
void leases_end(struct leases *leases, uint64_t session);
/* A mark, or a HEARD, of this session has been applied. */
void leases_marked(struct leases *leases, uint64_t session);
void leases_unmarked(struct leases *leases, uint64_t session);
/* A HEARD of this session is about to be proposed. The session is not marked
 * until that is applied (rule 15). */
void leases_hearing(struct leases *leases, uint64_t session);
/* The session's TTL may have changed, or, with 'is_renewed', an entry counted
 * as its heartbeat. A durable session may have received a lease, or the
 * reverse. */
void leases_changed(struct leases *leases, const struct session *session,
                    bool is_renewed, uint64_t now_ns);

bool leases_heard(struct leases *leases, uint64_t session,
                  uint64_t received_ns);
void leases_detached(struct leases *leases, uint64_t session, uint64_t now_ns);
bool leases_needs_heard(const struct leases *leases, uint64_t session);
bool leases_is_doomed(const struct leases *leases, uint64_t session);
uint64_t leases_left(const struct leases *leases, uint64_t session,
                     uint64_t now_ns);
uint64_t leases_next_end(const struct leases *leases);
uint64_t leases_next_mark(const struct leases *leases);
bool leases_has_due(struct leases *leases, uint64_t now_ns);

enum leases_step {
    LEASES_NOTHING, /* Nothing is due. */
    LEASES_PROPOSED,
    LEASES_REFUSED /* The proposal was refused; nothing has changed. */
};
/* Proposes one EXPIRE of at most 'session_max' sessions. */
enum leases_step leases_expire(struct leases *leases, uint64_t now_ns,
                               uint32_t session_max, timers_propose_fn *propose,
                               void *data);
/* The due marks, at most 'session_max', borrowed until the next call. Report
 * with leases_marks_proposed() whether the TIME with them was proposed. */
uint32_t leases_due_marks(struct leases *leases, uint64_t now_ns,
                          uint32_t session_max,
                          const struct session_mark **ret_marks);
void leases_marks_proposed(struct leases *leases, uint32_t count,
                           bool is_proposed);

#endif /* HASP_LEASE_LEASES_H */
