/* SPDX-License-Identifier: MIT */

#include "node/core/loss.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/log.h"
#include "node/core/peer.h"

void loss_note(struct core *core, uint64_t id)
{
    struct peer *peer = peer_find(core, id);
    if (peer == NULL || replica_role(core->replica) != REPLICA_LEADER) {
        return;
    }
    uint64_t match = replica_match(core->replica, id);
    if (match > 0) {
        peer->acked_term = replica_term(core->replica);
        peer->acked_index = match;
    }
}

bool loss_seen(struct core *core, struct peer *peer,
               const struct frame_hello *hello)
{
    peer->has_lost = peer->acked_index > 0 && hello->term <= peer->acked_term &&
                     hello->last_index < peer->acked_index;
    if (!peer->has_lost) {
        return false;
    }
    LOG_ERROR("member has lost its data",
              "member=%" PRIu64 " acknowledged=%" PRIu64 " term=%" PRIu64
              " last=%" PRIu64
              " hint=\"an old copy of its directory, or its disk lost writes: "
              "remove the member and add it again with an empty directory\"",
              peer->id, peer->acked_index, peer->acked_term, hello->last_index);
    struct buffer *out = peer_output(core, peer->id);
    if (out != NULL) {
        struct frame_lost lost = {.incarnation = hello->incarnation,
                                  .term = peer->acked_term,
                                  .last_index = peer->acked_index};
        frame_put_lost(out, &lost);
    }
    return true;
}

int loss_received(struct core *core, uint64_t from, struct bytes body)
{
    struct frame_lost lost;
    char why[HASP_WHY_SIZE];
    int error = frame_get_lost(body, &lost);
    if (error != 0) {
        return error;
    }
    uint64_t last = replica_last_index(core->replica);
    if (lost.incarnation != core->options.incarnation ||
        lost.term < replica_term(core->replica) || lost.last_index <= last ||
        core->has_fatal) {
        return 0;
    }
    snprintf(why, sizeof why,
             "this node has acknowledged entry %" PRIu64 " to member %" PRIu64
             ", and its log ends at %" PRIu64
             ": its data directory is an old copy, or the disk lost writes. "
             "Remove this member from the cluster and add it again with an "
             "empty directory",
             lost.last_index, from, last);
    core->has_fatal = true;
    core->port.data_lost(core->port.data, why);
    return 0;
}
