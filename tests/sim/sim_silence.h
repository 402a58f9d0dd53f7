/* SPDX-License-Identifier: MIT */

/* The oracle of the rules of time 9 and 10 (ARCHITECTURE.md), at all times and
 * above all while leaders change constantly:
 *
 * - the time that a TIME or BEGIN counts did pass on its proposer's clock since
 *   the proposer applied the entry from which it counts, and no moment of true
 *   time is counted twice;
 * - while a mark or a span exists, a leader that serves moves the log's clock;
 * - a silent session is marked within T/4, and ends within T + T/4 + a step
 *   (under a later leader: what its mark has left of T, and a step); a span
 *   ends within its length and two steps (a limited hold: three). This is by
 *   the slowest clock, plus the time in which no leader served and the time not
 *   measured. A delay, a limited hold and the time to object to a break end no
 *   sooner than their length by the fastest clock;
 * - a quarantine ends as a span does, and no sooner than its length, by the
 *   fastest clock;
 * - a session without end does not expire, and a hold of it is broken only if
 *   that was announced and nobody has objected since.
 *
 * A leader serves while its loop turns and the others answer what it proposes
 * and requests. Time between two pieces that entries have counted is not
 * measured. Both are derived from what happened, not from the state machine. */

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
/* Time of the last one, in true time; 0: there is no such session. */
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
