/* SPDX-License-Identifier: MIT */

/* What another node's data directory is to this node. */

#include "core/members/standing.h"

#include <inttypes.h>

#include "base/log.h"
#include "core/members/admission.h"
#include "core/state.h"

/* True if its log has entries that this one lacks, among them possibly the
 * configuration that names it. Once a leader is heard, that leader's log
 * decides. */
static bool may_know_more(const struct core *core,
                          const struct frame_hello *hello)
{
    uint64_t own_term = replica_last_term(core->replica);
    uint64_t own_index = replica_last_index(core->replica);
    return (hello->last_term > own_term ||
            (hello->last_term == own_term && hello->last_index > own_index)) &&
           !replica_has_leader(core->replica, core->now_ns / NS_PER_MS);
}

enum standing standing_of_hello(const struct core *core,
                                const struct frame_hello *hello)
{
    const struct replica_members *newest = replica_configuration(core->replica);
    struct replica_members before;
    uint64_t id = hello->from, incarnation = hello->incarnation;
    if (newest->count == 0 || replica_members_name(newest, id, incarnation)) {
        return STANDING_MEMBER;
    }
    /* If the entry of the newest configuration is truncated, the previous one
     * is in force again (thesis, 4.1). */
    replica_members_before(core->replica, &before);
    if (replica_members_name(&before, id, incarnation)) {
        return STANDING_LEAVING;
    }
    bool is_listed = replica_members_find(newest, id) != NULL;
    return admission_admits(core, id, incarnation, hello->members_index) ||
                   (is_listed && may_know_more(core, hello)) ||
                   !replica_members_name(newest, core->options.id,
                                         core->options.incarnation)
               ? STANDING_GUEST
               : STANDING_NONE;
}

enum standing standing_of(const struct core *core, uint64_t id)
{
    const struct peer *peer = peer_look(core, id);
    if (peer == NULL || !peer->is_up) {
        return STANDING_NONE;
    }
    /* A guest remains one as long as no other node leads: the entries of its
     * log are arriving. */
    struct frame_hello hello = {.from = id,
                                .incarnation = peer->incarnation,
                                .members_index = peer->members_index,
                                .last_term = peer->last_term,
                                .last_index = peer->last_index};
    enum standing standing = standing_of_hello(core, &hello);
    bool leads = replica_leader(core->replica) == id;
    return standing == STANDING_NONE && leads ? STANDING_GUEST : standing;
}

void standing_follow(struct core *core)
{
    for (int i = 0; i < PEER_COUNT_MAX; i++) {
        struct peer *peer = &core->peers[i];
        if (!peer->is_up || standing_of(core, peer->id) != STANDING_NONE) {
            continue;
        }
        LOG_INFO("link closed: the configuration does not name this data "
                 "directory",
                 "peer=%" PRIu64 " incarnation=%016" PRIx64, peer->id,
                 peer->incarnation);
        peer->is_removed = true;
        core->port.peer_drop(core->port.data, peer->id);
    }
}

void standing_note_replaced(struct core *core, const struct frame_hello *hello)
{
    struct replaced *place = &core->members.replaced[0];
    for (int i = 0; i < REPLACED_MAX; i++) {
        struct replaced *one = &core->members.replaced[i];
        if (one->id == hello->from && one->incarnation == hello->incarnation) {
            one->seen_ns = core->now_ns;
            return;
        }
        place = one->seen_ns < place->seen_ns ? one : place;
    }
    *place = (struct replaced){.id = hello->from,
                               .incarnation = hello->incarnation,
                               .seen_ns = core->now_ns};
}

uint32_t core_replaced_count(const struct core *core, uint64_t now_ns)
{
    uint32_t count = 0;
    for (int i = 0; i < REPLACED_MAX; i++) {
        const struct replaced *one = &core->members.replaced[i];
        count += one->id != 0 && now_ns < one->seen_ns + 60 * NS_PER_S;
    }
    return count;
}
