/* SPDX-License-Identifier: MIT */

/* Which members this node hears, and what may be requested of those that it
 * does not hear.
 *
 * A member is heard if its connection is up and something was received from it
 * within an election timeout. That is only this node's view: a member that it
 * does not hear may be running. */

#ifndef HASP_CORE_MEMBERS_LIVENESS_H
#define HASP_CORE_MEMBERS_LIVENESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct core;

/* True if member 'id' is heard; a node hears itself. */
bool liveness_is_heard(const struct core *core, uint64_t id);
/* True if nothing has been received from it for longer. One that is neither
 * heard nor silent has just lost its connection, or is about to get it back. */
bool liveness_is_silent(const struct core *core, uint64_t id);
/* "member 3 has been silent for 41.0s" */
void liveness_text(const struct core *core, uint64_t id, char *out,
                   size_t size);
/* The voter to hand leadership over to: among those that are heard, or else
 * connected, the one with the longest log. 0: none is connected. */
uint64_t liveness_successor(const struct core *core);
/* True if without the vote of 'id' the heard voters would not be a majority:
 * nothing could be committed, including the change that removes it. 'why' names
 * the silent ones. */
bool liveness_needs(const struct core *core, uint64_t id,
                    char why[HASP_WHY_SIZE]);

#endif /* HASP_CORE_MEMBERS_LIVENESS_H */
