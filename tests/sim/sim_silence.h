/* SPDX-License-Identifier: MIT */

/* The oracle of the rules of time 9 and 10 (ARCHITECTURE.md), at all times and
 * above all under leaders that change all the while:
 *
 *   - what a TIME or BEGIN says has passed is what did pass on its proposer's
 *     clock since that applied the entry it counts from, and no moment of true
 *     time is counted twice;
 *   - while a mark or a span stands, a leader that serves moves the log's
 *     clock;
 *   - a silent session is marked within T/4, and ends within T + T/4 + a step
 *     (under a later leader: what its mark has left of T, and a step),
 *     a span within its length and two steps (a limited hold: three), by the
 *     slowest clock, plus the time in which no leader served and that which
 *     was not measured; a delay, a limited hold and the time to object to a
 *     break not sooner than their length by the fastest clock;
 *   - a quarantine ends as a span does, and no sooner than it is long, by the
 *     fastest clock;
 *   - a session without end does not expire, and a hold of it is broken only if
 *     that was announced and nobody has objected since.
 *
 * A leader serves while its loop turns and what it proposes and asks is
 * answered by the others. Not measured is what lies between two pieces of time
 * that entries have counted. Both are taken from what happened, not from the
 * state machine. */

#ifndef HASP_TESTS_SIM_SIM_SILENCE_H
#define HASP_TESTS_SIM_SIM_SILENCE_H

#include "lockfsm/entry.h"
#include "lockfsm/lockfsm.h"
#include "raft/replica.h"
#include "tests/sim/sim.h"

struct sim_node;
struct sim_silence;

struct sim_silence *sim_silence_new(struct sim *sim);
void sim_silence_free(struct sim_silence *silence);

/* A new life begins with this state. */
void sim_silence_begin_life(struct sim_silence *silence,
                            const struct lockfsm *fsm);
/* A node has loaded its state. */
void sim_silence_loaded(struct sim_silence *silence, struct sim_node *node);
/* A node, its leader first, has written these entries. */
void sim_silence_appended(struct sim_silence *silence, struct sim_node *node,
                          const struct replica_entry *entries, uint32_t count);
/* A leader has heard a heartbeat. */
void sim_silence_heard(struct sim_silence *silence, uint64_t session);
/* When it was last, in true time; 0: there is no such session. */
uint64_t sim_silence_heard_ns(const struct sim_silence *silence,
                              uint64_t session);
/* Any node has applied the entry. */
void sim_silence_applied(struct sim_silence *silence, struct sim_node *node,
                         uint64_t log_index, const struct effects *effects);
/* The first node has. */
void sim_silence_entry(struct sim_silence *silence,
                       const struct replica_entry *entry,
                       const struct entry *command,
                       const struct effects *effects,
                       const struct lockfsm *fsm);
/* A node's turn has ended. */
void sim_silence_stepped(struct sim_silence *silence, struct sim_node *node);

#endif /* HASP_TESTS_SIM_SIM_SILENCE_H */
