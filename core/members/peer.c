/* SPDX-License-Identifier: MIT */

/* The table of other nodes. */

#include "core/members/peer.h"
#include "base/check.h"
#include "core/members/standing.h"
#include "core/state.h"

const struct peer *peer_look(const struct core *core, uint64_t id)
{
    for (int i = 0; i < PEER_COUNT_MAX; i++) {
        if (core->peers[i].id == id) {
            return id != 0 ? &core->peers[i] : NULL;
        }
    }
    return NULL;
}

struct peer *peer_find(struct core *core, uint64_t id)
{
    return (struct peer *)(uintptr_t)peer_look(core, id);
}

struct peer *peer_get(struct core *core, uint64_t id)
{
    struct peer *free_place = NULL;
    CHECK(id != 0);
    for (int i = 0; i < PEER_COUNT_MAX; i++) {
        struct peer *peer = &core->peers[i];
        if (peer->id == id) {
            return peer;
        }
        if (!peer->is_up && (free_place == NULL || peer->id == 0)) {
            free_place = peer;
        }
    }
    if (free_place != NULL) {
        /* core_peer_down() has removed them. */
        CHECK(list_is_empty(&free_place->attachments));
        *free_place = (struct peer){.id = id};
        list_init(&free_place->attachments);
    }
    return free_place;
}

bool peer_is_up(const struct core *core, uint64_t id)
{
    return id != 0 && core->port.peer_is_up(core->port.data, id) &&
           standing_of(core, id) == STANDING_MEMBER;
}

struct buffer *peer_output(struct core *core, uint64_t id, enum frame_type type)
{
    return id != 0 && standing_of(core, id) != STANDING_NONE
               ? core->port.peer_output(core->port.data, id, type)
               : NULL;
}
