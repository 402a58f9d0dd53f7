/* SPDX-License-Identifier: MIT */

/* The oracles of what counts: whose votes make a leader, and whose
 * acknowledgements and confirmations a leader goes by.
 *
 * What a directory has said to a node is written down where it arrives, under
 * the directory and not under the number: several may carry one (sim_old.h).
 * When the node leads, commits or believes to lead, more than half of the
 * voters of the newest configuration in its own log must have said so, by the
 * very directories that it names. So no index is committed by two directories
 * of one number either: only one of them is named.
 *
 * Nor is a member that hears a leader connected with a directory in whose place
 * its newest configuration names a later one. */

#ifndef HASP_TESTS_SIM_SIM_COUNTED_H
#define HASP_TESTS_SIM_SIM_COUNTED_H

#include "base/bytes.h"
#include "tests/sim/sim.h"

struct sim_node;
struct sim_counted;

struct sim_counted *sim_counted_new(void);
void sim_counted_free(struct sim_counted *counted);

/* A process of the node begins: nobody has said anything to it. */
void sim_counted_started(struct sim_counted *counted, struct sim_node *node);
/* A message of raft/ has come to 'node' from the machine of 'from', which has
 * greeted with 'incarnation'. */
void sim_counted_heard(struct sim_counted *counted, const struct sim_node *node,
                       const struct sim_node *from, uint64_t incarnation,
                       struct bytes message);
/* A turn of the node is over. */
void sim_counted_stepped(struct sim_counted *counted, struct sim_node *node);

#endif /* HASP_TESTS_SIM_SIM_COUNTED_H */
