/* SPDX-License-Identifier: MIT */

/* The sessions' part of the leader's deadlines (lockfsm/timers.h is the way in;
 * its comment has the rules).
 *
 * Two lazy heaps, one of deadlines and one of the next AGE. A heartbeat moves
 * both later, and does not touch the heaps: O(1). A key in a heap is therefore
 * never later than the truth, and an entry that comes up too early is put back
 * under its true key. Whatever moves a deadline earlier (a close with linger)
 * moves the key at once.
 *
 * Quiet time at 'now' is T - (deadline - now), so that a deadline which was
 * lowered counts as quiet time, too.
 *
 * Threads: one. */

#ifndef HASP_LOCKFSM_LEASES_H
#define HASP_LOCKFSM_LEASES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/heap.h"
#include "lockfsm/timers.h"

struct timed_session;

struct leases {
    struct heap deadlines;
    struct heap ages;
    struct timed_session *by_id;
    struct timed_session **chosen; /* Of the command being made. */
    uint32_t chosen_capacity;
    struct buffer command;
};

/* Zeroed memory has no sessions. */
void leases_done(struct leases *leases);
void leases_clear(struct leases *leases);

/* Starts one session of the state, under a new leader. */
void leases_inherit(struct leases *leases, const struct session *session,
                    uint64_t now_ns);
/* A session was opened just now. */
void leases_open(struct leases *leases, const struct session *session,
                 uint64_t now_ns);
void leases_end(struct leases *leases, uint64_t session);
/* An AGE of this session has been applied. */
void leases_aged(struct leases *leases, uint64_t session, uint64_t age_ms);
/* The session's stored TTL may have changed, or an entry was a heartbeat of it
 * ('is_renewed'). */
void leases_changed(struct leases *leases, const struct session *session,
                    bool is_renewed, uint64_t now_ns);

bool leases_heard(struct leases *leases, uint64_t session,
                  uint64_t received_ns);
void leases_detached(struct leases *leases, uint64_t session, uint64_t now_ns);
bool leases_needs_age0(const struct leases *leases, uint64_t session);
bool leases_is_doomed(const struct leases *leases, uint64_t session);
uint64_t leases_left(const struct leases *leases, uint64_t session,
                     uint64_t now_ns);
uint64_t leases_next(const struct leases *leases);
bool leases_has_due(struct leases *leases, uint64_t now_ns);

enum leases_step {
    LEASES_NOTHING, /* Nothing is due. */
    LEASES_PROPOSED,
    LEASES_REFUSED /* The proposal was not taken; nothing has changed. */
};
/* Propose one EXPIRE, one AGE of at most 'session_max' sessions. */
enum leases_step leases_expire(struct leases *leases, uint64_t now_ns,
                               uint32_t session_max, timers_propose_fn *propose,
                               void *data);
enum leases_step leases_age(struct leases *leases, uint64_t now_ns,
                            uint32_t session_max, timers_propose_fn *propose,
                            void *data);
/* Makes the ages of all that have been quiet for T/4 due now. */
void leases_age_all(struct leases *leases, uint64_t now_ns);

#endif /* HASP_LOCKFSM_LEASES_H */
