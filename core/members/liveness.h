/* SPDX-License-Identifier: MIT */

/* Which members this node hears, and what may be asked of those that it does
 * not hear.
 *
 * A member is heard if its connection is up and something has come from it
 * within an election time. That is this node's view alone: a member that it
 * does not hear may run. */

#ifndef HASP_CORE_MEMBERS_LIVENESS_H
#define HASP_CORE_MEMBERS_LIVENESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct core;

/* This node hears itself. */
bool liveness_is_heard(const struct core *core, uint64_t id);
/* Nothing has come from it for longer; one that is neither heard nor silent has
 * just lost its connection, or is about to get it back. */
bool liveness_is_silent(const struct core *core, uint64_t id);
/* "member 3 has been silent for 41.0s" */
void liveness_text(const struct core *core, uint64_t id, char *out,
                   size_t size);
/* The voter that is to lead next: of those that are heard, or else connected,
 * the one that has most of the log. 0: none is connected. */
uint64_t liveness_heir(const struct core *core);
/* True if, without the vote of 'id', the voters that are heard would be no
 * majority: nothing would be committed any more, the change that takes it away
 * included. 'why' names the silent ones. */
bool liveness_needs(const struct core *core, uint64_t id,
                    char why[HASP_WHY_SIZE]);

#endif /* HASP_CORE_MEMBERS_LIVENESS_H */
