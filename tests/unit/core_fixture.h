/* SPDX-License-Identifier: MIT */

/* The setup of core tests: one world (core_world.h) for each test, in
 * variables, and three ways to start it. */

#ifndef HASP_TESTS_UNIT_CORE_FIXTURE_H
#define HASP_TESTS_UNIT_CORE_FIXTURE_H

#include "tests/unit/core_world.h"

extern struct world *world;
/* Of three nodes, set by begin_three(). */
extern uint64_t leader, follower, third;

/* One node that serves, and its client on connection 1. */
int begin_one(void **state);
/* Three nodes that serve; all know the leader. No client is connected. */
int begin_three(void **state);
/* Elects one of the three nodes; 'follower' and 'third' are the next ids,
 * cyclically. */
void find_roles(void);
/* Frees the world. */
int tear_down(void **state);

#endif /* HASP_TESTS_UNIT_CORE_FIXTURE_H */
