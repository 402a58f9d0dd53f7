/* SPDX-License-Identifier: MIT */

/* A node: the daemon's core (core with raft/ and lockfsm/ under it) on a
 * virtual disk and network.
 *
 * The node does what the loop around the core does: it reads what has arrived,
 * feeds it, calls core_turn(), sends and writes the output. Its process lives
 * shortly: it is killed between two calls of the port or anywhere else,
 * stopped, stalled, and started again from what is left on the disk. */

#ifndef HASP_TESTS_SIM_SIM_NODE_H
#define HASP_TESTS_SIM_SIM_NODE_H

#include "core/core.h"
#include "tests/sim/sim.h"

struct sim_node;

struct sim_node *sim_node_new(struct sim *sim, uint32_t number);
void sim_node_free(struct sim_node *node);
struct sim *sim_node_sim(struct sim_node *node);
struct sim_host *sim_node_host(struct sim_node *node);
/* Other machines can have the same number; 0: its machine has none yet. */
uint64_t sim_node_id(const struct sim_node *node);
/* Number of its machine. */
uint32_t sim_node_number(const struct sim_node *node);
/* The life of the cluster to which its directory belongs, from when it was last
 * wiped. */
uint32_t sim_node_life(const struct sim_node *node);
/* That life is over: the cluster has been restored since. */
bool sim_node_is_former(const struct sim_node *node);
struct sim_disk *sim_node_disk(struct sim_node *node);
/* NULL while the process does not run. */
struct core *sim_node_core(struct sim_node *node);

/* True if the process still acts. Called once for each call of its port, which
 * may be its last. */
bool sim_node_acts(struct sim_node *node);
/* An error of the disk ends the process; 0: none. The disk must have had that
 * error. */
void sim_node_disk_fails(struct sim_node *node, int error);

/* Starts the process from what is on its disk. */
void sim_node_start(struct sim_node *node);
/* Ends it at once; with 'is_os_down' the machine as well. */
void sim_node_kill(struct sim_node *node, bool is_os_down);
/* It has died in a call on files: it ends, if necessary at the end of its
 * turn. */
void sim_node_dies(struct sim_node *node);
/* Ends it after this many more calls of its port, in the middle of
 * something. */
void sim_node_kill_within(struct sim_node *node, uint32_t calls);
/* Ends it and gives it an empty data directory, with these members in its
 * configuration. */
void sim_node_wipe(struct sim_node *node,
                   const struct replica_members *members);
/* Gives its machine, which was never used, the number 'id' as well. */
void sim_node_settle(struct sim_node *node, uint64_t id,
                     const struct replica_members *members);
/* Wipes it, and removes the number that its machine was given. */
void sim_node_unsettle(struct sim_node *node);
/* The operator has since put its number on another machine. */
bool sim_node_is_old(const struct sim_node *node);
/* Its machine was given its number earlier than the other. */
bool sim_node_is_before(const struct sim_node *node,
                        const struct sim_node *other);
/* The directory with which it is connected as 'id'; 0: none. */
uint64_t sim_node_linked(const struct sim_node *node, uint64_t id);
/* It has yet to apply entries that its log had when its process began. */
bool sim_node_is_behind(const struct sim_node *node);
/* It has stopped because it was removed, and was not started since. */
bool sim_node_was_removed(const struct sim_node *node);
/* Starts it although it had stopped as removed. */
void sim_node_start_again(struct sim_node *node);
/* When its directory was last emptied; 0: never. */
uint64_t sim_node_wiped_ns(const struct sim_node *node);
/* Until it is wiped again its volume has no marker (cluster.replace_empty). */
void sim_node_unmark(struct sim_node *node);
bool sim_node_is_marked(const struct sim_node *node);
/* It is not a founder, and was never prepared to become a member. */
bool sim_node_is_fresh(const struct sim_node *node);
/* Asks it to stop cleanly. */
void sim_node_stop(struct sim_node *node);
/* Likewise, and flips a bit of its files before it starts again. It has to
 * refuse them (then the bit is flipped back), or not to need that bit. */
void sim_node_rot(struct sim_node *node);
void sim_node_pause(struct sim_node *node, bool is_paused);
/* Every turn takes long until 'until_ns'. */
void sim_node_slow(struct sim_node *node, uint64_t until_ns);
/* The disk is nearly full, or has room again. */
void sim_node_scarce(struct sim_node *node, bool is_scarce);
/* "peer-host:port,client-host:port", of its machine. */
void sim_node_address(const struct sim_node *node,
                      char address[MEMBER_ADDRESS_SIZE]);
/* Likewise with another of its ports. */
void sim_node_address_at(const struct sim_node *node, uint32_t port,
                         char address[MEMBER_ADDRESS_SIZE]);
/* The port at which it listens for nodes: 0 at first, see sim_move.h. */
uint32_t sim_node_port(const struct sim_node *node);
/* The port in such an address. */
uint32_t sim_node_port_at(const char *address);
uint32_t sim_node_port_of(const struct replica_member *member);
/* Restarts it, if it runs, and it listens there. */
void sim_node_move(struct sim_node *node, uint32_t port);
/* The node on the machine with this address, whatever its number; NULL. */
struct sim_node *sim_node_at(const struct sim *sim, const char *address);
/* The node at the member's address, which a node that dials the member
 * reaches. */
struct sim_node *sim_node_of(const struct sim *sim,
                             const struct replica_member *member);
/* True if these name its data directory. */
bool sim_node_is_named(const struct sim_node *node,
                       const struct replica_members *members);
uint32_t sim_node_election_ms(const struct sim_node *node);
/* Time since it last heard of 'id'; UINT64_MAX: it is not connected. */
uint64_t sim_node_silence_ms(const struct sim_node *node, uint64_t id);
/* The feature level that its version understands. */
uint32_t sim_node_level(const struct sim_node *node);
/* A member has reported that its level is too low for the cluster. */
void sim_node_too_old(struct sim_node *node);
uint64_t sim_node_incarnation(const struct sim_node *node);
/* For a new directory. */
uint64_t sim_node_new_incarnation(const struct sim_node *node);
/* The cluster id in its data directory; all zero if none. */
const uint8_t *sim_node_cluster(const struct sim_node *node);
bool sim_node_leads(struct sim_node *node);
/* See lockfsm_set_slice(): in most runs sessions end, and locks are handed
 * over, in slices. */
static inline uint32_t sim_node_slice(const struct sim *sim)
{
    return sim->options.seed % 4 == 0 ? SLICE_DEFAULT
                                      : 1 + (uint32_t)(sim->options.seed % 3);
}
/* Raft's; 0 while the process does not run. */
uint64_t sim_node_term(const struct sim_node *node);
/* The node that leads and serves; NULL if none does. */
struct sim_node *sim_leader(struct sim *sim);
/* The members by its configuration. */
bool sim_members(struct sim *sim, struct replica_members *ret_members);

#endif /* HASP_TESTS_SIM_SIM_NODE_H */
