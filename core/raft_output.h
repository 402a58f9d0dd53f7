/* SPDX-License-Identifier: MIT */

/* Carrying out what the replica asks for: whenever it has taken an event, its
 * entries and messages are handed to the port. What became of the role is
 * leadership.h's matter, and looked at later. */

#ifndef HASP_CORE_RAFT_OUTPUT_H
#define HASP_CORE_RAFT_OUTPUT_H

#include <stdbool.h>
#include <stdint.h>

#include "core/members/standing.h"
#include "raft/replica.h"

struct core;

/* The configuration, as far as connections go. Lives as long as the core. */
struct member_view {
    struct replica_members applied;
    struct replica_members wanted; /* As the port was told. */
    struct replaced replaced[REPLACED_MAX];
    uint64_t snapshot_to;  /* The replica wants this one to have one; 0. */
    uint64_t probe_number; /* The newest one's, see port.probe_address. */
    bool is_cluster_known; /* The port has been told which it is. */
    bool is_elsewhere;     /* It was logged, see core_is_elsewhere(). */
};

void raft_output_carry_out(struct core *core,
                           const struct replica_update *update);
/* To whom the replica wants a snapshot sent since this was asked last; 0. */
uint64_t raft_output_snapshot_to(struct core *core);
/* Tells the port with whom there are to be connections: the members by the
 * newest configuration, and those that it has removed until that is applied. */
void raft_output_peers(struct core *core);
/* The state is now that of 'log_index', and the configuration has changed. */
void raft_output_members(struct core *core, uint64_t log_index);
/* The state may have come to say of which cluster it is (by a start, a BEGIN, a
 * snapshot): the port is told, once. */
void raft_output_cluster_id(struct core *core);
/* The node must stop. */
void core_fatal(struct core *core, int exit_code, const char *why);
/* How a node ends whose state cannot be read or applied. */
int core_exit_code(int error);

#endif /* HASP_CORE_RAFT_OUTPUT_H */
