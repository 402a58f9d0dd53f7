/* SPDX-License-Identifier: MIT */

/* The leader's deadlines: sessions, waits, delays, max holds, blacklist ends.
 *
 * This is volatile state of a leader (ARCHITECTURE.md: the rules of time, above
 * all 2, 4, 5, 8 to 10 and 13 to 16). It exists from the time when the leader's
 * own BEGIN is applied until it steps down. It is pure: 'now_ns' comes in,
 * commands to propose come out.
 *
 *   1. timers_begin(), timers_inherit(): every session's deadline is now + T,
 *      less the quiet time recorded in the log.
 *   2. timers_heard(R): deadline = max(deadline, R + T), for a heartbeat that
 *      is not refused. A doomed session's heartbeat moves nothing.
 *   3. timers_detached(D): with linger, deadline = min(deadline, D + linger),
 *      D being the leader's own clock, never before the last heartbeat.
 *   4. TIME marks the sessions that have been quiet for T/4 and have no mark,
 *      or only a BEGIN's, and at once those that linger. From the PROPOSAL of a
 *      mark until a HEARD after it in the log has been applied, the session's
 *      heartbeats wait for that HEARD: timers_needs_heard(). A TIME is also due
 *      without new marks while any mark or span exists, because it moves the
 *      log's clock. At most one is under way.
 *   5. A session is doomed from the moment at which its EXPIRE was submitted,
 *      that is, when 'propose' returned true.
 *   6. WAIT, DELAY, HOLD, AFTER, FOR and the quarantine are inherited, less the
 *      part that the log's clock has counted (lease/spans.h).
 *
 * Deadlines do not move when the loop stalls. The time that timers_due() is
 * given is a moment by which all input had been read, and after which
 * leadership was confirmed (rules 5 and 6).
 *
 * A heartbeat costs O(1), whatever the number of sessions; lease/leases.h
 * says how. Threads: one. Memory: O(sessions + waits with a limit + ...). */

#ifndef HASP_LEASE_TIMERS_H
#define HASP_LEASE_TIMERS_H

#include <stdbool.h>
#include <stdint.h>

#include "lockfsm/lockfsm.h"

struct timers;

struct timers *timers_new(void);
void timers_free(struct timers *timers);

/* On every node: the state was loaded, at a start or from a snapshot. The time
 * since the newest TIME or BEGIN is measured from now on. */
void timers_loaded(struct timers *timers, const struct lockfsm *fsm,
                   uint64_t now_ns);
/* For a BEGIN: the newest TIME or BEGIN applied here, and the time since then,
 * which is read on this node's clock and never compared with another's. */
uint64_t timers_base(const struct timers *timers);
uint32_t timers_elapsed_ms(const struct timers *timers, uint64_t now_ns);

/* A new leader: all deadlines start from the present state, in slices, because
 * there can be very many. Until timers_inherit() returns true, do not apply an
 * entry, and call nothing else but timers_end(). */
void timers_begin(struct timers *timers, const struct lockfsm *fsm,
                  uint64_t now_ns);
/* Starts the deadlines of at most 'max' more sessions and locks, counted from
 * timers_begin(). True: all have been started. */
bool timers_inherit(struct timers *timers, const struct lockfsm *fsm,
                    uint32_t max);
/* Stepped down: drops everything. */
void timers_end(struct timers *timers);
bool timers_are_on(const struct timers *timers);

/* Handles an effect of an applied entry. It is called once for each effect, in
 * order, on every node, before the next entry is applied, and for our own
 * proposals as well. It reads: SESSION_CHANGED reason ("renewed": heard from
 * now, its mark has gone); QUEUED session, owner, wait_index, time_ms (0: for
 * ever); WAIT_ENDED wait_index; GRANTED session, owner, lock, token, wait_index
 * (0: not from the queue), hold_ms; RELEASED and HOLD_EXPIRED (the hold has
 * gone) and OBJECTED lock, session, owner; BREAKING these and time_ms,
 * log_index; DELAYED lock, time_ms, log_index; DELAY_OVER lock; BLACKLISTED
 * time_ms, log_index. */
void timers_follow(struct timers *timers, const struct lockfsm *fsm,
                   const struct effect *effect, uint64_t now_ns);

/* A heartbeat was received at 'received_ns' and will be answered OK once
 * leadership is confirmed. False: the session is unknown or doomed, and nothing
 * has moved. */
bool timers_heard(struct timers *timers, uint64_t session,
                  uint64_t received_ns);
/* True if a heartbeat of this session may be answered only after a HEARD that
 * was proposed after its receipt has been applied. */
bool timers_needs_heard(const struct timers *timers, uint64_t session);
/* A HEARD of the session will be proposed: it is not marked before that is
 * applied. */
void timers_hearing(struct timers *timers, uint64_t session);
bool timers_is_doomed(const struct timers *timers, uint64_t session);
/* The last connection attached to the session was closed; this was noticed at
 * 'now_ns'. */
void timers_detached(struct timers *timers, uint64_t session, uint64_t now_ns);

/* The next time at which something is due. It can be a little early: then
 * timers_due() finds nothing, and the next result is later. UINT64_MAX: nothing
 * will be due. */
uint64_t timers_next(const struct timers *timers);

/* Nanoseconds left of a lease, a delay or a max hold; 0: over, or unknown. For
 * a hold this is the time to report to its client: less than a new leader would
 * leave it (rule 16). */
uint64_t timers_lease_left(const struct timers *timers, uint64_t session,
                           uint64_t now_ns);
uint64_t timers_delay_left(struct timers *timers, struct bytes lock,
                           uint64_t now_ns);
uint64_t timers_hold_left(struct timers *timers, const struct lockfsm *fsm,
                          struct bytes lock, uint64_t session,
                          struct bytes owner, uint64_t now_ns);

/* Nanoseconds until a hold that is to be broken is taken. */
uint64_t timers_break_left(struct timers *timers, const struct hold *hold,
                           uint64_t now_ns);

/* Nanoseconds left of the quarantine after a restore. */
uint64_t timers_quarantine_left(struct timers *timers,
                                const struct lockfsm *fsm, uint64_t now_ns);

/* Receives an entry to propose; true if it was submitted. */
struct entry;
typedef bool timers_propose_fn(void *data, const struct entry *entry);
/* Makes the entries that are due at 'now_ns' and gives each to 'propose'.
 * When one is refused, the rest is left for the next call. An EXPIRE has at
 * most 'session_max' sessions, and there are at most 'command_max' commands.
 * What was proposed is not proposed again until it has been applied or
 * timers_begin() is called. 'now_ns' can be in the past: the time of a question
 * that has been confirmed since (rule 5); deadlines after it wait. 'clock_ns'
 * is always the present, which ends the time that a TIME counts. */
void timers_due(struct timers *timers, uint64_t now_ns, uint64_t clock_ns,
                uint32_t session_max, uint32_t command_max,
                timers_propose_fn *propose, void *data);
/* True if timers_due() would propose an EXPIRE now (which needs a confirmation
 * of leadership asked for after the deadline). */
bool timers_has_due_sessions(struct timers *timers, uint64_t now_ns);

#endif /* HASP_LEASE_TIMERS_H */
