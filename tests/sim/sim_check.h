/* SPDX-License-Identifier: MIT */

/* The oracles that look at the nodes: one committed history.
 *
 * The first node to apply an entry writes it into the history, with what it did
 * (effects), and the state's hash after it; each other node that applies it
 * must do the same. From the effects a model of its own is kept (who holds what
 * since when, who waits, which session has ended, which numbered request had
 * which result), against which states, answers and reads are held.
 *
 * The list of the oracles stands in sim_main.c. */

#ifndef HASP_TESTS_SIM_SIM_CHECK_H
#define HASP_TESTS_SIM_SIM_CHECK_H

#include "lockfsm/lockfsm.h"
#include "tests/sim/sim.h"

struct sim_node;
struct sim_history;
struct sim_silence;

struct sim_check *sim_check_new(struct sim *sim);
void sim_check_free(struct sim_check *check);

/* A node's life. sim_check_applied is the core's hook: 'data' is the node. */
void sim_check_node_starts(struct sim *sim, struct sim_node *node);
void sim_check_node_stops(struct sim *sim, struct sim_node *node);
void sim_check_applied(void *data, uint64_t log_index,
                       const struct effects *effects);
/* After each turn. */
void sim_check_stepped(struct sim *sim, struct sim_node *node);
void sim_check_cluster(struct sim *sim, struct sim_node *node,
                       const uint8_t cluster_id[CLUSTER_ID_SIZE]);

/* By the newest configuration that any node has applied. */
bool sim_check_is_member(const struct sim *sim, uint64_t id);

/* The newest entry that any node has applied: all that is asked from now on
 * must see it. */
/* The feature level to which the cluster was raised. */
uint32_t sim_check_level(const struct sim *sim);
/* The node stops since it cannot understand what it is told. */
void sim_check_too_old(struct sim *sim, struct sim_node *node);
uint64_t sim_check_newest(const struct sim *sim);

struct sim_history *sim_check_history(const struct sim *sim);
struct sim_lives *sim_check_lives(const struct sim *sim);
struct sim_events *sim_check_events(const struct sim *sim);
struct sim_silence *sim_check_silence(const struct sim *sim);

/* All nodes run and have applied the same. */
/* After a calm: does one lead whose clock most voters would not lead by? */
void sim_check_clocks(struct sim *sim);
bool sim_check_has_converged(struct sim *sim, char why[HASP_WHY_SIZE]);

#endif /* HASP_TESTS_SIM_SIM_CHECK_H */
