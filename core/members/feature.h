/* SPDX-License-Identifier: MIT */

/* The cluster's feature level (lockfsm/feature.h): what the members announce in
 * their HELLOs, when the level is raised, and what is refused until then.
 *
 * The leader proposes SET_FEATURE once it is connected to all members of the
 * newest configuration, all of them announce more than the cluster's level, and
 * an operator says so (RAFT.FINALIZE), or the options do. */

#ifndef HASP_CORE_MEMBERS_FEATURE_H
#define HASP_CORE_MEMBERS_FEATURE_H

#include "base/bytes.h"
#include "base/err.h"
#include "core/command.h"

struct core;
struct request;

/* The level to which the cluster may be raised: the lowest one of its members
 * as this node is connected to them. 0 if that is not above the present one,
 * with the reason unless all are at that. */
uint32_t feature_possible(const struct core *core, char why[HASP_WHY_SIZE]);
/* As a member has announced it at its last HELLO; 0: never. */
uint32_t feature_of_member(const struct core *core, uint64_t id);
/* With which level a new cluster begins: that of all founders that this node
 * has heard, FEATURE_LEVEL_FIRST if one is missing. */
uint32_t feature_of_founders(const struct core *core);

/* True if the cluster's level allows the encoded command; else '*ret_what'
 * names what it does not allow (static text). */
bool feature_allows(struct core *core, struct bytes command,
                    const char **ret_what);
/* Refuses a request that needs a higher level. */
void feature_refuse(struct core *core, struct request *request,
                    const char *what);

/* Proposes, or tells the log that an operator could. */
void feature_turn(struct core *core);

/* Handlers of commands (core/command.h). */
command_run_fn raft_finalize_run;
#ifdef HASP_FEATURE_LEVEL_EXTRA
command_encode_fn raft_trial_encode;
#endif

#endif /* HASP_CORE_MEMBERS_FEATURE_H */
