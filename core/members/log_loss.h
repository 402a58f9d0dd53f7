/* SPDX-License-Identifier: MIT */

/* Lost acknowledgements: an old copy of a data directory that was put back, or
 * a disk that forgot what it had called durable.
 *
 * A leader knows how far each member's log was durable in its term (the match
 * index), and a node remembers that of the members that it led for as long as
 * its process lives. A member's log can become shorter only by a leader of a
 * later term, and its term is on disk before that. So whoever greets with the
 * same incarnation, no later term and a shorter log has lost entries that
 * others may have committed on its word.
 *
 * It is told (FRAME_LOST). Anybody could say that, so what it does at once
 * harms nobody: it compares that with what it has, and if it may be so it is
 * barred. That is written down and flushed; from then on it sends no message of
 * Raft, so that neither a vote nor an acknowledgement of it counts, and is not
 * ready. It still hears its leader, and asks that one (FRAME_ACCUSED), which
 * answers after it has made sure that it
 * leads, where a later term than its own is spoken of:
 *
 *     LOST      what the node has acknowledged to it in its own term, or to an
 *               earlier leader that it was, is more than the node has: now the
 *               directory is condemned, and the node stops
 *     CLEARED   the node has all that it has acknowledged to it in its own
 *               term: the bar goes. An accusation by a later leader is no
 *               truer, since there is none
 *     nothing   it does not know. The node stays barred until a leader does, or
 *               the operator ends it (haspd --uncondemn), or replaces it
 *
 * What cannot be noticed here: a loss while no process lives that has led this
 * member in that term or since, and one of a member that has come to know a
 * later term before it greets. */

#ifndef HASP_CORE_MEMBERS_LOG_LOSS_H
#define HASP_CORE_MEMBERS_LOG_LOSS_H

#include "base/bytes.h"
#include "core/core.h"

struct peer;

/* Lives as long as the core. */
struct log_loss {
    struct core_accusation accused; /* Then it is barred. */
    uint64_t asked_leader;          /* About that; 0: none, or again. */
    uint64_t asked_term;
};

/* As it was written down. */
void log_loss_begin(struct core *core, const struct core_accusation *accused);
/* A message of 'id' has been dealt with: what it has acknowledged. */
void log_loss_update(struct core *core, uint64_t id);
/* True, and it is told, if what it greets with is less than that. From now on
 * it may only ask about that. */
bool log_loss_seen(struct core *core, struct peer *peer,
                   const struct frame_hello *hello);
/* Barred: asks the leader. Leading: answers those who have asked. */
void log_loss_turn(struct core *core);
void log_loss_peer_lost(struct core *core, uint64_t id);
MUST_CHECK int log_loss_received(struct core *core, uint64_t from,
                                 struct bytes body);
MUST_CHECK int log_loss_asked(struct core *core, uint64_t from,
                              struct bytes body);
MUST_CHECK int log_loss_cleared(struct core *core, uint64_t from,
                                struct bytes body);

#endif /* HASP_CORE_MEMBERS_LOG_LOSS_H */
