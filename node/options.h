/* SPDX-License-Identifier: MIT */

/* Options of a node: defaults, checks, a deep copy. */

#ifndef HASP_NODE_OPTIONS_H
#define HASP_NODE_OPTIONS_H

#include "core/core.h"
#include "include/hasp/node.h"
#include "raft/replica.h"

/* Copies 'from' with all its texts into zeroed memory. */
void options_copy(struct hasp_node_options *to,
                  const struct hasp_node_options *from);
void options_done(struct hasp_node_options *options);

/* The founders by id, all as voters; only this node if the options name
 * none. */
void options_members(const struct hasp_node_options *options,
                     struct replica_members *ret_members);

/* True if the members are on other machines, this node is not one of them, and
 * it listens where no other machine can reach it. */
bool options_are_hidden(const struct hasp_node_options *options);

/* True if a cluster founded with these options requires access at first. */
bool options_require_access(const struct hasp_node_options *options);
/* Derives the core's options; its seeds, incarnation and token base stay 0. */
void options_for_core(const struct hasp_node_options *options,
                      struct core_options *ret_options);

/* The value of a limit of the state; 0: not set. */
uint64_t options_state_limit(const struct hasp_node_options *options,
                             enum limit_key key);
/* Logs a line for each limit of the state that differs from the cluster's. */
void options_tell_limits(const struct hasp_node_options *options,
                         const struct lockfsm *fsm);

#endif /* HASP_NODE_OPTIONS_H */
