/* SPDX-License-Identifier: MIT */

/* Which frames of a peer are accepted, by what the sender is to this node
 * (core/members/standing.h).
 *
 * A node that has lost what it had acknowledged (core/members/log_loss.h) may
 * only ask about that.
 *
 * An ignored frame has no effect; it only logs a line. */

#ifndef HASP_CORE_MEMBERS_PEER_FILTER_H
#define HASP_CORE_MEMBERS_PEER_FILTER_H

#include "net/frame.h"

struct core;

/* A peer without a certificate may claim to ask for any user, and claim any
 * answer. While access is required it is not believed, unless the operator
 * allows it (core_options.believes_plain_peers). */
bool peer_filter_speaks_for_users(const struct core *core, uint64_t id);

bool peer_filter_frame(struct core *core, uint64_t id, enum frame_type type);

#endif /* HASP_CORE_MEMBERS_PEER_FILTER_H */
