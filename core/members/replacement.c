/* SPDX-License-Identifier: MIT */

#include "core/members/replacement.h"

#include <inttypes.h>
#include <stdio.h>

#include "core/members/liveness.h"
#include "core/members/peer.h"
#include "core/state.h"

/* A node that is refused greets again at least once a second. */
#define SEEN_NS (5 * NS_PER_S)
/* A voter is level if it lacks at most this number of entries: a busy cluster
 * has some in flight. */
#define LEVEL_ENTRIES 4096

/* --- Newcomers ------------------------------------------------------------ */

static const struct newcomer *
replacement_newcomer(const struct core *core, uint64_t id, uint64_t incarnation)
{
    for (int i = 0; i < NEWCOMER_MAX; i++) {
        const struct newcomer *one = &core->members.newcomer[i];
        if (one->id == id && one->incarnation == incarnation) {
            return one;
        }
    }
    return NULL;
}

void replacement_note(struct core *core, const struct frame_hello *hello)
{
    struct newcomer *place = &core->members.newcomer[0];
    if (replica_members_find(replica_configuration(core->replica),
                             hello->from) == NULL &&
        lockfsm_replaced_at(core->fsm, hello->from).size == 0) {
        return; /* It has no place to take. */
    }
    for (int i = 0; i < NEWCOMER_MAX; i++) {
        struct newcomer *one = &core->members.newcomer[i];
        if (one->id == hello->from && one->incarnation == hello->incarnation) {
            place = one;
            break;
        }
        place = one->seen_ns < place->seen_ns ? one : place;
    }
    *place = (struct newcomer){
        .id = hello->from,
        .incarnation = hello->incarnation,
        .seen_ns = core->now_ns,
        .is_empty = !cluster_id_is_known(hello->cluster_id) &&
                    hello->term == 0 && hello->last_index == 0};
}

bool replacement_has_greeted(const struct core *core, uint64_t id,
                             uint64_t incarnation)
{
    const struct newcomer *one = replacement_newcomer(core, id, incarnation);
    return one != NULL && core->now_ns - one->seen_ns <= SEEN_NS;
}

bool replacement_is_empty(const struct core *core, uint64_t id,
                          uint64_t incarnation, char why[HASP_WHY_SIZE])
{
    const struct newcomer *one = replacement_newcomer(core, id, incarnation);
    if (lockfsm_replaced_by(core->fsm, id) == incarnation) {
        return true;
    }
    if (!replacement_has_greeted(core, id, incarnation)) {
        snprintf(why, HASP_WHY_SIZE,
                 "the new data directory of member %" PRIu64
                 " (incarnation %016" PRIx64 ") has not greeted member %" PRIu64
                 ": check that its node is configured with the members of this "
                 "cluster and reaches their addresses",
                 id, incarnation, core->options.id);
        return false;
    }
    if (!one->is_empty) {
        snprintf(why, HASP_WHY_SIZE,
                 "the data directory that node %" PRIu64
                 " has now (incarnation %016" PRIx64
                 ") is not empty: it has belonged to a cluster. Give the node "
                 "an empty one and repeat this",
                 id, incarnation);
    }
    return one->is_empty;
}

/* --- Conditions ----------------------------------------------------------- */

bool replacement_must_wait(const struct core *core, uint64_t id,
                           char why[HASP_WHY_SIZE])
{
    uint64_t last = replica_last_index(core->replica);
    struct replica_members members;
    char text[HASP_WHY_SIZE / 2];
    replica_members(core->replica, &members);
    MEMBER_EACH (member, &members) {
        if (member->role != MEMBER_VOTER || member->id == id ||
            member->id == core->options.id) {
            continue;
        }
        if (!liveness_is_heard(core, member->id)) {
            liveness_text(core, member->id, text, sizeof text);
            snprintf(why, HASP_WHY_SIZE,
                     "%s: member %" PRIu64 " is replaced only while all other "
                     "voters are heard; bring that one back, or remove it, and "
                     "repeat this",
                     text, id);
            return true;
        }
        uint64_t match = replica_match(core->replica, member->id);
        if (match + LEVEL_ENTRIES < last) {
            snprintf(why, HASP_WHY_SIZE,
                     "voter %" PRIu64 " has entry %" PRIu64 " of %" PRIu64
                     ": repeat this when it has caught up",
                     member->id, match, last);
            return true;
        }
    }
    return false;
}

/* Without TLS whatever answers at the member's address would take its place. */
static bool are_links_proven(const struct core *core, uint64_t besides)
{
    struct replica_members members;
    replica_members(core->replica, &members);
    MEMBER_EACH (member, &members) {
        if (member->id != core->options.id && member->id != besides &&
            !core->port.peer_is_proven(core->port.data, member->id)) {
            return false;
        }
    }
    return true;
}

static uint32_t replacement_voters(const struct core *core)
{
    struct replica_members members;
    uint32_t voters = 0;
    replica_members(core->replica, &members);
    MEMBER_EACH (member, &members) {
        voters += member->role == MEMBER_VOTER;
    }
    return voters;
}

bool replacement_is_refused(const struct core *core,
                            const struct replica_member *member,
                            const char *address, bool is_forced,
                            char why[HASP_WHY_SIZE])
{
    uint64_t id = member->id, other = replacement_left(core, id);
    if (other != 0 && other != id) {
        snprintf(why, HASP_WHY_SIZE,
                 "member %" PRIu64 " is being replaced: start its node with an "
                 "empty data directory, or give that up with RAFT.REMOVE "
                 "%" PRIu64 ", and repeat this",
                 other, other);
    } else if (member->role == MEMBER_VOTER && replacement_voters(core) < 3) {
        snprintf(
            why, HASP_WHY_SIZE,
            "neither of two voters can be replaced: add a third one first");
    } else if (liveness_is_heard(core, id) &&
               peer_look(core, id)->incarnation == member->incarnation) {
        snprintf(why, HASP_WHY_SIZE,
                 "member %" PRIu64 " is connected with its own data directory "
                 "(%016" PRIx64 "), and another node answers at %.100s: stop "
                 "one of them",
                 id, member->incarnation, address);
    } else if (!is_forced && !are_links_proven(core, id)) {
        snprintf(why, HASP_WHY_SIZE,
                 "the nodes do not authenticate each other (tls.peer), so any "
                 "process at %.100s could take the place of member %" PRIu64
                 ": use FORCE if you trust that network",
                 address, id);
    } else {
        return replacement_must_wait(core, id, why);
    }
    return true;
}

uint64_t replacement_left(const struct core *core, uint64_t after)
{
    struct replica_members members;
    uint64_t first = 0, id = 0;
    replica_members(core->replica, &members);
    while ((id = lockfsm_next_replaced(core->fsm, id)) != 0) {
        const struct replica_member *member = replica_members_find(&members,
                                                                   id);
        if (member != NULL && member->role == MEMBER_VOTER) {
            continue; /* It has not lost its vote, or has it again. */
        }
        if (id > after) {
            return id;
        }
        first = first == 0 ? id : first;
    }
    return first;
}
