/* SPDX-License-Identifier: MIT */

/* Whose frames are heeded, by what the sender is to this node
 * (core/members/standing.h).
 *
 * Who has lost what it had acknowledged (core/members/log_loss.h) may only ask
 * about that.
 *
 * What is not heeded has no effect and costs its sender nothing but a line in
 * the log. */

#ifndef HASP_CORE_MEMBERS_PEER_FILTER_H
#define HASP_CORE_MEMBERS_PEER_FILTER_H

#include "net/frame.h"

struct core;

/* A peer that has shown no certificate may say that it asks for any user, and
 * what was answered: while access is required nothing of that is believed,
 * unless the operator has said so (core_options.believes_plain_peers). */
bool peer_filter_speaks_for_users(const struct core *core, uint64_t id);

bool peer_filter_frame(struct core *core, uint64_t id, enum frame_type type);

#endif /* HASP_CORE_MEMBERS_PEER_FILTER_H */
