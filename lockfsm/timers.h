/* SPDX-License-Identifier: MIT */

/* The leader's deadlines: sessions, waits, delays, max holds, blacklist ends.
 *
 * Volatile state of a leader (design: rules 2, 4, 5, 8, 9 and 4a). It exists
 * from the moment the leader's own BEGIN is applied until it steps down, and is
 * pure: 'now_ns' comes in, commands to propose come out. Rules:
 *
 *   1. timers_begin(): every session's deadline is now + T - age.
 *   2. timers_heard(R): deadline = max(deadline, R + T), for a heartbeat that is
 *      not refused. A doomed session's heartbeat moves nothing.
 *   3. timers_detached(D): with linger, deadline = min(deadline, D + linger), D
 *      being the leader's own clock, never before the last heartbeat.
 *   4. AGE: when a session has been quiet for T/4 and at each further T/4, and
 *      at T/4 for one this leader has not heard yet. From the PROPOSAL until
 *      AGE 0 has been applied, heartbeats wait for an AGE(session, 0):
 *      timers_heartbeat_needs_age0().
 *   5. A session is doomed only when its EXPIRE was submitted with success: the
 *      caller proposes what timers_due() lists and then calls timers_doomed().
 *   6. WAIT, DELAY and FOR start in full at a new leader; HOLD less HOLD_AGE.
 *
 * Deadlines do not move when the loop stalls; the caller reads all input and
 * confirms its leadership before it acts on timers_due() (rule 6).
 * Threads: one. Memory: O(sessions + waits with a limit + ...). */

#ifndef HASP_LOCKFSM_TIMERS_H
#define HASP_LOCKFSM_TIMERS_H

#include <stdbool.h>
#include <stdint.h>

#include "lockfsm/lockfsm.h"

struct timers;

struct timers *timers_new(void);
void timers_free(struct timers *timers);

/* Starts all deadlines from the state, as a new leader. */
void timers_begin(struct timers *timers, const struct lockfsm *fsm,
                  uint64_t now_ns);
/* Stepped down: drops everything. */
void timers_end(struct timers *timers);
bool timers_are_on(const struct timers *timers);

/* Follows the effects of an applied entry (also of our own proposals). */
void timers_follow(struct timers *timers, const struct lockfsm *fsm,
                   const struct effect *effect, uint64_t now_ns);

/* A heartbeat received at 'received_ns' will be answered OK once confirmed.
 * False: the session is unknown or doomed, nothing moved. */
bool timers_heard(struct timers *timers, uint64_t session,
                  uint64_t received_ns);
/* True if a heartbeat of this session may be answered only after an AGE 0 that
 * was proposed after its receipt has been applied. */
bool timers_needs_age0(const struct timers *timers, uint64_t session);
bool timers_is_doomed(const struct timers *timers, uint64_t session);
/* The last connection attached to the session was closed, seen at 'now_ns'. */
void timers_detached(struct timers *timers, uint64_t session, uint64_t now_ns);
/* A repeated ACQUIRE keeps its place with a new WAIT (0: for ever). */

/* When something becomes due next; UINT64_MAX if nothing will. */
uint64_t timers_next(const struct timers *timers);

/* Nanoseconds left of a lease, wait, delay or max hold; 0 if over or unknown. */
uint64_t timers_lease_left(const struct timers *timers, uint64_t session,
                           uint64_t now_ns);
uint64_t timers_delay_left(const struct timers *timers, struct bytes lock,
                           uint64_t now_ns);
uint64_t timers_hold_left(const struct timers *timers, struct bytes lock,
                          uint64_t session, struct bytes owner,
                          uint64_t now_ns);

/* Encodes the commands that are due at 'now_ns' and hands each to 'propose',
 * which returns true if it was submitted; after a false one the rest is left for
 * the next call. At most 'session_max' sessions per EXPIRE or AGE, and at most
 * 'command_max' commands in all. What was proposed is not proposed again until
 * it has been applied or timers_begin() is called. */
typedef bool timers_propose_fn(void *data, struct bytes command);
void timers_due(struct timers *timers, const struct lockfsm *fsm,
                uint64_t now_ns, uint32_t session_max, uint32_t command_max,
                timers_propose_fn *propose, void *data);
/* True if timers_due() would propose an EXPIRE now (which needs a confirmation
 * of leadership asked for after the deadline). */
bool timers_has_due_sessions(const struct timers *timers, uint64_t now_ns);

/* Logs the ages above T/4 of all sessions before a planned transfer. */
void timers_before_transfer(struct timers *timers, const struct lockfsm *fsm,
                            uint64_t now_ns, timers_propose_fn *propose,
                            void *data);

#endif /* HASP_LOCKFSM_TIMERS_H */
