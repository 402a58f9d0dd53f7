/* SPDX-License-Identifier: MIT */

/* Executes the replica's output: whenever the replica has processed an event,
 * its entries and messages go to the port. leadership.h checks later whether
 * the role has changed. */

#ifndef HASP_CORE_RAFT_OUTPUT_H
#define HASP_CORE_RAFT_OUTPUT_H

#include <stdbool.h>
#include <stdint.h>

#include "core/members/replacement.h"
#include "core/members/standing.h"
#include "raft/replica.h"

struct core;

/* The configuration, as needed for connections. Lives as long as the core. */
struct member_view {
    struct replica_members applied;
    struct replica_members wanted; /* As reported to the port. */
    struct replaced replaced[REPLACED_MAX];
    struct newcomer newcomer[NEWCOMER_MAX];
    uint64_t snapshot_to;   /* The member that needs a snapshot; 0: none. */
    uint64_t probe_number;  /* Of the newest probe, see port.probe_address. */
    uint64_t resume_log_ns; /* When it may next be logged why one waits. */
    bool is_cluster_known;  /* The port knows the cluster's id. */
    bool is_elsewhere;      /* It has been logged, see core_is_elsewhere(). */
};

void raft_output_carry_out(struct core *core,
                           const struct replica_update *update);
/* The member to which the replica has wanted to send a snapshot since the last
 * call; 0: none. */
uint64_t raft_output_snapshot_to(struct core *core);
/* Reports to the port which nodes to connect to: the members of the newest
 * configuration, and those that it has removed, until it is applied. */
void raft_output_peers(struct core *core);
/* Called when the state is that of 'log_index' and the configuration has
 * changed. */
void raft_output_members(struct core *core, uint64_t log_index);
/* Reports the cluster's id to the port, once, when the state knows it (after a
 * start, a BEGIN or a snapshot). */
void raft_output_cluster_id(struct core *core);
/* Stops the node. */
void core_fatal(struct core *core, int exit_code, const char *why);
/* Stops a node that has lost or damaged data, for good: once. */
void core_condemn(struct core *core, const char *why);
/* The exit code of a node that cannot read or apply its state. */
int core_exit_code(int error);

#endif /* HASP_CORE_RAFT_OUTPUT_H */
