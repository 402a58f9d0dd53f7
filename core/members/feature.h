/* SPDX-License-Identifier: MIT */

/* The cluster's feature level (lockfsm/feature.h): what the members announce in
 * their HELLOs, when the level is raised, and what is refused until then.
 *
 * The leader proposes SET_FEATURE once it is connected to all members of the
 * newest configuration, all of them announce more than the cluster's level, and
 * an operator requests it (RAFT.FINALIZE), or the options do. */

#ifndef HASP_CORE_MEMBERS_FEATURE_H
#define HASP_CORE_MEMBERS_FEATURE_H

#include "base/bytes.h"
#include "base/err.h"
#include "core/command.h"

struct core;
struct request;

/* The level to which the cluster can be raised: the lowest one among its
 * members, all of which must be connected to this node. 0 if that is not above
 * the present level, with the reason unless all members have the present
 * level. */
uint32_t feature_possible(const struct core *core, char why[HASP_WHY_SIZE]);
/* The level in a member's last HELLO; 0: none yet. */
uint32_t feature_of_member(const struct core *core, uint64_t id);
/* The level with which a new cluster starts: the lowest of all founders that
 * this node has heard, or FEATURE_LEVEL_FIRST if one is missing. */
uint32_t feature_of_founders(const struct core *core);

/* True if the cluster may log an entry that needs this level. */
bool feature_allows(const struct core *core, uint32_t level);
/* Refuses a request that needs a higher level. */
void feature_refuse(struct core *core, struct request *request,
                    const char *what);

/* A member is new, or has a new connection: its level may have changed. */
void feature_member_changed(struct core *core);
/* Proposes the level, or logs that an operator could. */
void feature_turn(struct core *core);

#endif /* HASP_CORE_MEMBERS_FEATURE_H */
