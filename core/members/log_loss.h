/* SPDX-License-Identifier: MIT */

/* Lost acknowledgements: an old copy of a data directory that was put back, or
 * a disk that has lost what it had reported as durable.
 *
 * A leader knows how much of each member's log was durable in its term (the
 * match index), and a node remembers that of the members that it led for as
 * long as its process lives. Only a leader of a later term can shorten a
 * member's log, and the member has that term on disk before. So a node whose
 * HELLO has the same incarnation, no later term and a shorter log has lost
 * entries that others may have committed because of its acknowledgement.
 *
 * It is notified (FRAME_LOST). Anybody could send that, so its immediate effect
 * is harmless: the node compares the claim with its log, and if it may be true
 * the node is barred. That is recorded and flushed; from then on the node sends
 * no message of Raft, so neither its vote nor its acknowledgement counts, and
 * it is not ready. It still receives from its leader and asks it
 * (FRAME_ACCUSED). The leader answers, after it has confirmed its leadership if
 * a later term than its own is claimed:
 *
 *     LOST      what the node has acknowledged to this leader in its own term,
 *               or when it led earlier, is more than the node has: the
 *               directory is condemned, and the node stops
 *     CLEARED   the node has everything that it has acknowledged to this leader
 *               in its own term: the bar is lifted. A claim by a later leader
 *               is false, since there is none
 *     nothing   the leader does not know. The node stays barred until a leader
 *               does, or the operator ends it (haspd --uncondemn) or replaces
 *               the node
 *
 * Undetected: a loss while no process lives that has led this member in that
 * term or since, and the loss of a member that learns of a later term before it
 * sends its HELLO. */

#ifndef HASP_CORE_MEMBERS_LOG_LOSS_H
#define HASP_CORE_MEMBERS_LOG_LOSS_H

#include "base/bytes.h"
#include "core/core.h"

struct peer;

/* Lives as long as the core. */
struct log_loss {
    struct core_accusation accused; /* Term not 0: it is barred. */
    /* The leader asked about that; 0: none, or to be asked again. */
    uint64_t asked_leader;
    uint64_t asked_term;
};

/* The bar as it was recorded. */
void log_loss_begin(struct core *core, const struct core_accusation *accused);
/* A message of 'id' has been processed: records what it has acknowledged. */
void log_loss_update(struct core *core, uint64_t id);
/* True if the HELLO has less than that; the peer is notified, and from now on
 * may only ask about that. */
bool log_loss_seen(struct core *core, struct peer *peer,
                   const struct frame_hello *hello);
/* Barred: asks the leader. Leading: answers the nodes that have asked. */
void log_loss_turn(struct core *core);
void log_loss_peer_lost(struct core *core, uint64_t id);
MUST_CHECK int log_loss_received(struct core *core, uint64_t from,
                                 struct bytes body);
MUST_CHECK int log_loss_asked(struct core *core, uint64_t from,
                              struct bytes body);
MUST_CHECK int log_loss_cleared(struct core *core, uint64_t from,
                                struct bytes body);

#endif /* HASP_CORE_MEMBERS_LOG_LOSS_H */
