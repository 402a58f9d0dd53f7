/* SPDX-License-Identifier: MIT */

/* The options of a node: defaults, checks, a copy of one's own. */

#ifndef HASP_NODE_OPTIONS_H
#define HASP_NODE_OPTIONS_H

#include "core/core.h"
#include "include/hasp/node.h"
#include "raft/replica.h"

/* Copies 'from' with all its texts into zeroed memory. */
void options_copy(struct hasp_node_options *to,
                  const struct hasp_node_options *from);
void options_done(struct hasp_node_options *options);

/* The members that found the cluster, by id, all as voters; the node alone if
 * the options name none. */
void options_members(const struct hasp_node_options *options,
                     struct replica_members *ret_members);

/* Whether the members named are on other machines, this node is none of them,
 * and it listens where nobody else can reach it. */
bool options_are_hidden(const struct hasp_node_options *options);

/* Whether a cluster that they found begins with access required. */
bool options_require_access(const struct hasp_node_options *options);
/* What the core takes of them; its seeds and numbers of life are left 0. */
void options_for_core(const struct hasp_node_options *options,
                      struct core_options *ret_options);

/* What they say of a limit of the state; 0: nothing. */
uint64_t options_state_limit(const struct hasp_node_options *options,
                             enum limit_key key);
/* Logs a line for each limit of the state of which they say something else than
 * the cluster has. */
void options_tell_limits(const struct hasp_node_options *options,
                         const struct lockfsm *fsm);

#endif /* HASP_NODE_OPTIONS_H */
