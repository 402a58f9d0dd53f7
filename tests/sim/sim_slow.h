/* SPDX-License-Identifier: MIT */

/* Disks that differ by node, and the oracle of handovers because of that.
 *
 * In one run of four, after the calm, the disks of the nodes differ: every 20 s
 * another node's disk is slow, the leader's first; or all are equally slow; or
 * the fastest voter has a slow link; or only the leader's is slow, for longer
 * than it has to lead before it hands over. Meanwhile the other oracles check,
 * above all that of silence: a dead holder's locks are free in time (rule 10).
 *
 * Always, a leader that hands over because of its slow disk has led for 30 s,
 * twice that if the same process has led before within 10 min (and so on). Its
 * disk is slower than that of its successor, and the successor has everything
 * that is committed. */

#ifndef HASP_TESTS_SIM_SIM_SLOW_H
#define HASP_TESTS_SIM_SIM_SLOW_H

#include "tests/sim/sim.h"

struct sim_node;
struct sim_slow;

struct sim_slow *sim_slow_new(struct sim *sim);
void sim_slow_free(struct sim_slow *slow);
/* A node's process has begun; a turn of it has ended. */
void sim_slow_started(struct sim_slow *slow, struct sim_node *node);
void sim_slow_stepped(struct sim_slow *slow, struct sim_node *node);
/* The part of a run in which disks differ. */
void sim_slow(struct sim *sim);

#endif /* HASP_TESTS_SIM_SIM_SLOW_H */
