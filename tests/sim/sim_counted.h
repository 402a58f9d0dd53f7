/* SPDX-License-Identifier: MIT */

/* The oracles of counting: whose votes elect a leader, and on whose
 * acknowledgements and confirmations a leader relies.
 *
 * What a directory has said to a node is recorded where it arrives, under the
 * directory and not under the number, since several directories can have the
 * same number (sim_old.h). When the node leads, commits or believes that it
 * leads, more than half of the voters of the newest configuration in its own
 * log must have said so, and exactly the directories that it names. So two
 * directories of one number do not commit the same index either: only one of
 * them is named.
 *
 * Nor is a member that hears a leader connected with a directory that a later
 * one has replaced in its newest configuration. */

#ifndef HASP_TESTS_SIM_SIM_COUNTED_H
#define HASP_TESTS_SIM_SIM_COUNTED_H

#include "base/bytes.h"
#include "tests/sim/sim.h"

struct sim_node;
struct sim_counted;

struct sim_counted *sim_counted_new(void);
void sim_counted_free(struct sim_counted *counted);

/* A process of the node begins: it has heard nothing yet. */
void sim_counted_started(struct sim_counted *counted, struct sim_node *node);
/* A raft/ message has reached 'node' from the machine of 'from', whose HELLO
 * had 'incarnation'. */
void sim_counted_heard(struct sim_counted *counted, const struct sim_node *node,
                       const struct sim_node *from, uint64_t incarnation,
                       struct bytes message);
/* A turn of the node has ended. */
void sim_counted_stepped(struct sim_counted *counted, struct sim_node *node);

#endif /* HASP_TESTS_SIM_SIM_COUNTED_H */
