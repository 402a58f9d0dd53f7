/* SPDX-License-Identifier: MIT */

/* The leader's deadlines of sessions. Used through lease/timers.h, whose
 * comment has the rules.
 *
 * There are two lazy heaps, one of deadlines and one of the times at which
 * sessions are to be marked. A session is bound while its mark stands in the
 * state or is on its way there: then its heartbeats need a HEARD.
 *
 * A heartbeat moves both times later without touching the heaps, so it costs
 * O(1). A key in a heap is therefore never later than the true time; an entry
 * that comes up too early is put back under its true time. What moves a
 * deadline earlier (a close with linger, a shorter PX) moves the key at once.
 *
 * A durable session is known here, so that its heartbeats are told from those
 * of a session that has gone, and stands in no heap: it has no deadline, is
 * never marked and needs no HEARD.
 *
 * A session's quiet time at 'now' is T - (deadline - now), so a lowered
 * deadline counts as quiet time as well.
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
    struct pool pool;              /* Of them. */
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
/* A HEARD of this session is about to be proposed: until it is applied the
 * session is not marked. */
void leases_hearing(struct leases *leases, uint64_t session);
/* The session's TTL may have changed, or, with 'is_renewed', an entry was a
 * heartbeat of it. A durable one may have got a lease, or the reverse. */
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
    LEASES_REFUSED /* The proposal was not taken; nothing has changed. */
};
/* Proposes one EXPIRE of at most 'session_max' sessions. */
enum leases_step leases_expire(struct leases *leases, uint64_t now_ns,
                               uint32_t session_max, timers_propose_fn *propose,
                               void *data);
/* The marks that are due, at most 'session_max' of them, borrowed until the
 * next call; and whether the TIME with them was proposed. */
uint32_t leases_due_marks(struct leases *leases, uint64_t now_ns,
                          uint32_t session_max,
                          const struct session_mark **ret_marks);
void leases_marks_proposed(struct leases *leases, uint32_t count,
                           bool is_proposed);

#endif /* HASP_LEASE_LEASES_H */
