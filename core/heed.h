/* SPDX-License-Identifier: MIT */

/* Whose frames are heeded. By what a peer is to this node:
 *
 *     member   the newest configuration in the log names it (as yet empty, it
 *              names all): everything
 *     leaving  removed by an entry that is not applied here yet: everything but
 *              requests and closes of its clients, and whom it names a member
 *     guest    neither: Raft's messages and snapshots, since it may lead by a
 *              configuration that this node has yet to learn; and those only
 *              while no leader is heard here. Of others it wants nothing,
 *              neither their votes nor that they adopt its term or stop; if it
 *              does lead, those who lead them now soon will not
 *
 * Who has lost what it had acknowledged (core/loss.h) may only ask about
 * that.
 *
 * What is not heeded has no effect and costs its sender nothing but a line in
 * the log. */

#ifndef HASP_CORE_HEED_H
#define HASP_CORE_HEED_H

#include "net/frame.h"

struct core;

/* A peer that has shown no certificate may say that it asks for any user, and
 * what was answered: while access is required nothing of that is believed,
 * unless the operator has said so (core_options.believes_plain_peers). */
bool heed_speaks_for_users(const struct core *core, uint64_t id);

/* Nothing is asked of it either. */
bool heed_is_guest(const struct core *core, uint64_t id);
bool heed_frame(struct core *core, uint64_t id, enum frame_type type);

#endif /* HASP_CORE_HEED_H */
