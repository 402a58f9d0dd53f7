/* SPDX-License-Identifier: MIT */

/* Lost acknowledgements: an old copy of a data directory that was put back, or
 * a disk that forgot what it had called durable.
 *
 * A leader knows how far each member's log was durable in its term (the match
 * index), and a node remembers that of the members that it led for as long as
 * its process lives. A member's log can become shorter only by a leader of a
 * later term, and its term is on disk before that. So whoever greets with the
 * same incarnation, no later term and a shorter log has lost entries that
 * others may have committed on its word. It is told (FRAME_LOST), checks that
 * against what it has, writes it down and stops; it may not count again.
 *
 * What cannot be noticed here: a loss while no process lives that has led this
 * member in that term or since, and one of a member that has come to know a
 * later term before it greets. */

#ifndef HASP_NODE_CORE_LOSS_H
#define HASP_NODE_CORE_LOSS_H

#include "node/core/state.h"

/* A message of 'id' has been dealt with: what it has acknowledged. */
void loss_note(struct core *core, uint64_t id);
/* True, and it is told, if what it greets with is less than that. Its frames
 * are refused from now on. */
bool loss_seen(struct core *core, struct peer *peer,
               const struct frame_hello *hello);
/* The frame that tells this node. */
MUST_CHECK int loss_received(struct core *core, uint64_t from,
                             struct bytes body);

#endif /* HASP_NODE_CORE_LOSS_H */
