/* SPDX-License-Identifier: MIT */

/* The oracles that check the nodes: one committed history.
 *
 * The first node that applies an entry records it in the history, with its
 * effects and the hash of the state after it. Each other node that applies it
 * must do the same. The effects maintain a separate model (who holds what since
 * when, who waits, which session has ended, which numbered request had which
 * result), against which states, answers and reads are checked.
 *
 * sim_oracles.h lists the oracles. */

#ifndef HASP_TESTS_SIM_SIM_CHECK_H
#define HASP_TESTS_SIM_SIM_CHECK_H

#include "lockfsm/lockfsm.h"
#include "raft/replica.h"
#include "tests/sim/sim.h"

struct sim_node;
struct sim_counted;
struct sim_history;
struct sim_silence;

struct sim_check *sim_check_new(struct sim *sim);
void sim_check_free(struct sim_check *check);

/* The life of a node. sim_check_applied is a call of the port: 'data' is the
 * node. */
void sim_check_node_starts(struct sim *sim, struct sim_node *node);
void sim_check_node_stops(struct sim *sim, struct sim_node *node);
void sim_check_applied(void *data, uint64_t log_index,
                       const struct effects *effects);
/* After each turn. */
void sim_check_stepped(struct sim *sim, struct sim_node *node);
void sim_check_cluster(struct sim *sim, struct sim_node *node,
                       const uint8_t cluster_id[CLUSTER_ID_SIZE]);

/* By the newest configuration that any node has applied. */
bool sim_check_is_member(const struct sim *sim, const struct sim_node *node);

/* The feature level to which the cluster was raised. */
uint32_t sim_check_level(const struct sim *sim);
/* The node stops because it cannot understand what it received. */
void sim_check_too_old(struct sim *sim, struct sim_node *node);

/* Lives. The entries of all lives form one order: the place of an entry is its
 * index plus an offset of its life. A restored state has its own place, after
 * everything that the former life has done; the first entry of the new life is
 * the next. Requests and their times are identified by places. */

/* The newest place: every later request must see it. */
uint64_t sim_check_newest(const struct sim *sim);
/* Place of an entry of the node's life; of life 'life'. */
uint64_t sim_check_place(const struct sim *sim, const struct sim_node *node,
                         uint64_t log_index);
uint64_t sim_check_place_in(const struct sim *sim, uint32_t life,
                            uint64_t log_index);
/* True if the two are of different lives. */
bool sim_check_lives_between(const struct sim *sim, uint64_t from, uint64_t to);
/* The life that has the place. */
uint32_t sim_check_life_at(const struct sim *sim, uint64_t place);
/* Where the tokens of the present life begin; 0: it has not begun. */
uint64_t sim_check_token_base(const struct sim *sim);
/* From now on the oracles check a new life, whose first state has this index
 * and feature level. sim->life is its number. */
void sim_check_begin_life(struct sim *sim, uint64_t log_index, uint32_t level);
/* Its first state has been loaded; 'members' is its configuration. */
void sim_check_first_state(struct sim *sim, const struct lockfsm *fsm,
                           const struct replica_members *members);
/* True if these were the members after that entry, or no node has applied it.
 */
bool sim_check_members_at(const struct sim *sim, uint32_t life,
                          uint64_t log_index,
                          const struct replica_members *members);
/* True if at some moment since entry 'from' a member had a vote, or had none.
 */
bool sim_check_was_voter(const struct sim *sim, uint64_t id, bool is_voter,
                         uint64_t from);
/* The hash of the state after entry 'log_index' of life 'life', and its 'term';
 * false: no node has applied it. */
bool sim_check_state_at(const struct sim *sim, uint32_t life,
                        uint64_t log_index, uint64_t term, uint64_t *ret_hash);

struct sim_counted *sim_check_counted(const struct sim *sim);
struct sim_history *sim_check_history(const struct sim *sim);
struct sim_lives *sim_check_lives(const struct sim *sim);
struct sim_faces *sim_check_faces(const struct sim *sim);
struct sim_events *sim_check_events(const struct sim *sim);
struct sim_silence *sim_check_silence(const struct sim *sim);

/* All nodes run and have applied the same. */
/* After a calm: fails if a leader has a clock with which most voters would not
 * lead. */
void sim_check_clocks(struct sim *sim);
bool sim_check_has_converged(struct sim *sim, char why[HASP_WHY_SIZE]);

#endif /* HASP_TESTS_SIM_SIM_CHECK_H */
