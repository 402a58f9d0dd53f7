/* SPDX-License-Identifier: MIT */

/* Which members this node names to others, and which they have named. */

#include "core/members/admission.h"

#include "base/check.h"
#include "core/state.h"

_Static_assert(FRAME_MEMBER_MAX == MEMBER_COUNT_MAX, "one number of members");

uint64_t admission_own_index(const struct core *core,
                             struct replica_members *ret_members)
{
    struct buffer encoded = {0};
    uint64_t index = 0;
    replica_members(core->replica, ret_members);
    if (ret_members->count > 0) {
        replica_members_at(core->replica, replica_last_index(core->replica),
                           &encoded, &index);
    }
    buffer_done(&encoded);
    return index;
}

static bool admission_names(const struct frame_members *members, uint64_t id,
                            uint64_t incarnation)
{
    CHECK(members->count <= FRAME_MEMBER_MAX);
    for (uint32_t i = 0; i < members->count; i++) {
        if (members->id[i] == id && members->incarnation[i] == incarnation) {
            return true;
        }
    }
    return false;
}

bool admission_admits(const struct core *core, uint64_t id,
                      uint64_t incarnation, uint64_t its_members_index)
{
    struct replica_members members;
    CHECK(id != 0);
    uint64_t own_index = admission_own_index(core, &members);
    if (id == core->options.trusted && its_members_index > own_index) {
        return true;
    }
    for (int i = 0; i < PEER_COUNT_MAX; i++) {
        const struct peer *peer = &core->peers[i];
        /* Only a member that this node's log names (any, while it names none)
         * or the trusted node is believed about others, and only with a newer
         * list: an older one can name a directory that was removed since. */
        bool is_believed = members.count == 0 ||
                           replica_members_name(&members, peer->id,
                                                peer->incarnation) ||
                           peer->id == core->options.trusted;
        if (peer->id != 0 && is_believed && peer->named.log_index > own_index &&
            admission_names(&peer->named, id, incarnation)) {
            return true;
        }
    }
    return false;
}

static void send_members(struct core *core, uint64_t id,
                         const struct frame_members *own)
{
    /* Only a member names others. */
    CHECK(own->log_index > 0 && own->count > 0);
    struct buffer *out = peer_output(core, id, FRAME_MEMBERS);
    if (out != NULL) {
        frame_put_members(out, own);
    }
}

/* False if this node is not a member by its own log: its word counts for
 * nothing. */
static bool own_members(const struct core *core, struct frame_members *ret_own)
{
    struct replica_members members;
    *ret_own = (struct frame_members){
        .log_index = admission_own_index(core, &members)};
    MEMBER_EACH (one, &members) {
        ret_own->id[ret_own->count] = one->id;
        ret_own->incarnation[ret_own->count++] = one->incarnation;
    }
    return admission_names(ret_own, core->options.id,
                           core->options.incarnation);
}

void admission_greeted(struct core *core, uint64_t id,
                       uint64_t its_members_index)
{
    struct frame_members own;
    if (own_members(core, &own) && its_members_index < own.log_index) {
        send_members(core, id, &own);
    }
}

void admission_changed(struct core *core)
{
    struct frame_members own;
    if (!own_members(core, &own)) {
        return;
    }
    for (int i = 0; i < PEER_COUNT_MAX; i++) {
        if (core->peers[i].is_up) {
            send_members(core, core->peers[i].id, &own);
        }
    }
}

int admission_received(struct core *core, uint64_t from, struct bytes body)
{
    struct frame_members named;
    struct peer *peer = peer_find(core, from);
    int error = frame_get_members(body, &named);
    if (error == 0 && peer != NULL) {
        peer->named = named;
    }
    return error;
}
