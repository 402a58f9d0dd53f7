/* SPDX-License-Identifier: MIT */

#include "core/members/replacement.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/duration.h"
#include "core/members/liveness.h"
#include "core/members/peer.h"
#include "core/state.h"

/* A node that is refused greets again at least once a second. */
#define SEEN_NS (5 * NS_PER_S)
/* A voter is level if it lacks at most this number of entries: a busy cluster
 * has some in flight. */
#define LEVEL_ENTRIES 4096
/* By itself the leader replaces the directory of an id once in this time. */
#define REPLACE_PAUSE_MS (UINT64_C(3600) * 1000)

/* --- Directories ---------------------------------------------------------- */

/* What a directory has been used for. */
enum directory_use {
    DIRECTORY_EMPTY,
    DIRECTORY_TERM, /* It has a term, and nothing else. */
    DIRECTORY_OURS, /* It belongs to this cluster. */
    DIRECTORY_FOREIGN,
    DIRECTORY_UNKNOWN /* It has a log, and knows no cluster. */
};

static enum directory_use
replacement_use(const struct core *core, const struct core_directory *directory)
{
    uint8_t own[CLUSTER_ID_SIZE];
    lockfsm_cluster_id(core->fsm, own);
    if (cluster_id_is_known(directory->cluster_id)) {
        return cluster_id_equal(directory->cluster_id, own) ? DIRECTORY_OURS
                                                            : DIRECTORY_FOREIGN;
    }
    return directory->last_index != 0 ? DIRECTORY_UNKNOWN
           : directory->term != 0     ? DIRECTORY_TERM
                                      : DIRECTORY_EMPTY;
}

bool replacement_may_join(const struct core *core, uint64_t id,
                          const struct core_directory *directory,
                          char why[HASP_WHY_SIZE])
{
    char cluster[CLUSTER_ID_TEXT_SIZE];
    switch (replacement_use(core, directory)) {
    case DIRECTORY_FOREIGN:
        cluster_id_format(directory->cluster_id, cluster);
        snprintf(why, HASP_WHY_SIZE,
                 "the data directory of node %" PRIu64
                 " (incarnation %016" PRIx64
                 ") belongs to another cluster (%s): give the node an "
                 "empty one and this cluster's members in its configuration, "
                 "start it, and add it again",
                 id, directory->incarnation, cluster);
        return false;
    case DIRECTORY_UNKNOWN:
        snprintf(why, HASP_WHY_SIZE,
                 "the data directory of node %" PRIu64
                 " (incarnation %016" PRIx64
                 ") is not empty: its log has entries up to %" PRIu64
                 " and it does not know of which cluster. Give the node an "
                 "empty one, start it, and add it again",
                 id, directory->incarnation, directory->last_index);
        return false;
    default:
        return true;
    }
}

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
    struct core_directory directory = {.incarnation = hello->incarnation,
                                       .term = hello->term,
                                       .last_index = hello->last_index};
    memcpy(directory.cluster_id, hello->cluster_id, CLUSTER_ID_SIZE);
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
    *place = (struct newcomer){.id = hello->from,
                               .incarnation = hello->incarnation,
                               .seen_ns = core->now_ns,
                               .is_empty = replacement_use(core, &directory) ==
                                           DIRECTORY_EMPTY,
                               .is_marked = hello->is_marked};
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

bool replacement_is_needless(const struct core *core,
                             const struct replica_member *member,
                             char why[HASP_WHY_SIZE])
{
    if (!liveness_is_heard(core, member->id) ||
        peer_look(core, member->id)->incarnation != member->incarnation) {
        return false;
    }
    snprintf(why, HASP_WHY_SIZE,
             "member %" PRIu64 " is connected with its own data directory "
             "(%016" PRIx64 "), and another node greets as member %" PRIu64
             ": stop one of them",
             member->id, member->incarnation, member->id);
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
    } else if (replacement_is_needless(core, member, why)) {
        return true;
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

/* --- By the leader itself --------------------------------------------------
 */

/* True if it has the place of a voter in view. */
static bool newcomer_waits(const struct core *core, const struct newcomer *one)
{
    struct replica_members members;
    replica_members(core->replica, &members);
    const struct replica_member *member = replica_members_find(&members,
                                                               one->id);
    return one->id != 0 && core->now_ns - one->seen_ns <= SEEN_NS &&
           member != NULL && member->role == MEMBER_VOTER &&
           member->incarnation != one->incarnation;
}

/* The empty directory of another voter; 0: none. With two of them, what one
 * lacks might be in the other's lost directory alone. */
static uint64_t other_empty(const struct core *core, uint64_t id)
{
    for (int i = 0; i < NEWCOMER_MAX; i++) {
        const struct newcomer *one = &core->members.newcomer[i];
        if (one->id != id && one->is_empty && newcomer_waits(core, one)) {
            return one->id;
        }
    }
    return 0;
}

/* True if the id's former directory was removed less than an hour ago, by the
 * wall clock: a volume that is new at each start must not change the members
 * all the time. A clock that was set back makes the replacement later. */
static bool was_replaced_lately(const struct core *core, uint64_t id)
{
    struct removal removal;
    if (!lockfsm_removal(core->fsm, id, &removal)) {
        return false;
    }
    uint64_t wall_ms = core->port.wall_ms(core->port.data);
    return wall_ms < removal.wall_ms + REPLACE_PAUSE_MS;
}

/* How long the leader has missed it, in this leadership. */
static uint64_t missed_ns(const struct core *core, uint64_t id)
{
    uint64_t led_ns = core->now_ns - core->leadership.serving_ns;
    uint64_t silence_ms = core->port.peer_silence_ms(core->port.data, id);
    return silence_ms < led_ns / NS_PER_MS ? silence_ms * NS_PER_MS : led_ns;
}

static bool is_marked(const struct newcomer *one, char why[HASP_WHY_SIZE])
{
    if (!one->is_marked) {
        snprintf(why, HASP_WHY_SIZE,
                 "the volume of node %" PRIu64 " has no file '" REPLACE_MARKER
                 "' beside the data directory, as if its mount were missing: "
                 "mount it, or if it is new: hasp member replace %" PRIu64,
                 one->id, one->id);
    }
    return one->is_marked;
}

/* True if the leader may begin to replace the voter by itself. */
static bool newcomer_is_due(const struct core *core, const struct newcomer *one,
                            char why[HASP_WHY_SIZE])
{
    struct replica_members members;
    char missed[DURATION_TEXT_SIZE], least[DURATION_TEXT_SIZE];
    uint64_t id = one->id, wanted_ns = core->options.replace_empty_ns;
    uint64_t other = other_empty(core, id);
    replica_members(core->replica, &members);
    const struct replica_member *member = replica_members_find(&members, id);
    if (!replacement_is_empty(core, id, one->incarnation, why)) {
        return false;
    }
    if (wanted_ns == 0) {
        snprintf(why, HASP_WHY_SIZE,
                 "member %" PRIu64 " has an empty data directory: hasp member "
                 "replace %" PRIu64,
                 id, id);
    } else if (other != 0) {
        snprintf(why, HASP_WHY_SIZE,
                 "members %" PRIu64 " and %" PRIu64 " both have empty data "
                 "directories, so neither is replaced: bring one directory "
                 "back, or remove one member and add it again later",
                 id < other ? id : other, id < other ? other : id);
    } else if (!is_marked(one, why) ||
               replacement_is_refused(core, member, member->address, false,
                                      why)) {
        return false;
    } else if (was_replaced_lately(core, id)) {
        snprintf(why, HASP_WHY_SIZE,
                 "member %" PRIu64 " was replaced less than an hour ago: find "
                 "out why it loses its directory, or: hasp member replace "
                 "%" PRIu64,
                 id, id);
    } else if (missed_ns(core, id) < wanted_ns) {
        duration_format(missed_ns(core, id) / NS_PER_MS, missed);
        duration_format(wanted_ns / NS_PER_MS, least);
        snprintf(why, HASP_WHY_SIZE,
                 "member %" PRIu64 " has an empty data directory and is missed "
                 "for %s of %s (cluster.replace_empty)",
                 id, missed, least);
    } else {
        return true;
    }
    return false;
}

uint64_t replacement_due(const struct core *core)
{
    char why[HASP_WHY_SIZE];
    for (int i = 0; i < NEWCOMER_MAX; i++) {
        const struct newcomer *one = &core->members.newcomer[i];
        if (newcomer_waits(core, one) && newcomer_is_due(core, one, why)) {
            return one->id;
        }
    }
    return 0;
}

bool core_replacement_waits(const struct core *core, char why[HASP_WHY_SIZE])
{
    uint64_t left = is_serving(core) ? replacement_left(core, 0) : 0;
    if (left != 0) {
        snprintf(why, HASP_WHY_SIZE,
                 "member %" PRIu64 " is being replaced and does not vote yet",
                 left);
        return true;
    }
    for (int i = 0; i < NEWCOMER_MAX && is_serving(core); i++) {
        const struct newcomer *one = &core->members.newcomer[i];
        if (newcomer_waits(core, one)) {
            if (newcomer_is_due(core, one, why)) {
                snprintf(why, HASP_WHY_SIZE,
                         "member %" PRIu64 " is about to be replaced", one->id);
            }
            return true;
        }
    }
    return false;
}
