/* SPDX-License-Identifier: MIT */

/* Whose frames are heeded, by what the sender is to this node
 * (core/members/standing.h).
 *
 * Who has lost what it had acknowledged (core/members/loss.h) may only ask
 * about that.
 *
 * What is not heeded has no effect and costs its sender nothing but a line in
 * the log. */

#ifndef HASP_CORE_MEMBERS_HEED_H
#define HASP_CORE_MEMBERS_HEED_H

#include "net/frame.h"

struct core;

/* A peer that has shown no certificate may say that it asks for any user, and
 * what was answered: while access is required nothing of that is believed,
 * unless the operator has said so (core_options.believes_plain_peers). */
bool heed_speaks_for_users(const struct core *core, uint64_t id);

bool heed_frame(struct core *core, uint64_t id, enum frame_type type);

#endif /* HASP_CORE_MEMBERS_HEED_H */
