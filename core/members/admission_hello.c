/* SPDX-License-Identifier: MIT */

/* Which nodes may connect: the HELLO that a node sends, and its verdict on
 * another's. The daemon and the simulator both use this. */

#include <inttypes.h>
#include <stdio.h>
#include <time.h>

#include "base/check.h"
#include "core/members/admission.h"
#include "core/members/replacement.h"
#include "core/members/standing.h"
#include "core/state.h"

void core_fill_hello(const struct core *core, struct frame_hello *hello)
{
    struct replica_members members;
    uint64_t index = admission_own_index(core, &members);
    hello->feature_level = core->options.feature_level;
    hello->cluster_level = lockfsm_feature_level(core->fsm);
    hello->applied_index = lockfsm_applied_index(core->fsm);
    bool is_member = replica_members_name(&members, core->options.id,
                                          core->options.incarnation);
    hello->members_index = is_member ? index : 0;
    hello->term = replica_term(core->replica);
    hello->last_index = replica_last_index(core->replica);
    hello->last_term = replica_last_term(core->replica);
    hello->is_marked = core->options.is_marked;
}

/* True if it claims a newer configuration than this node's that names it: this
 * node lacks that configuration. */
static bool is_added_since(const struct core *core,
                           const struct frame_hello *hello)
{
    struct replica_members members;
    return hello->members_index > admission_own_index(core, &members);
}

static int refuse_unlisted(const struct core *core,
                           const struct frame_hello *hello,
                           char why[HASP_WHY_SIZE])
{
    int size = snprintf(why, HASP_WHY_SIZE, "node %" PRIu64 " is not a member",
                        hello->from);
    if (is_added_since(core, hello)) {
        snprintf(why + size, HASP_WHY_SIZE - (size_t)size,
                 "; its configuration says that it was added later, and no "
                 "member known to this node has confirmed that: if none of "
                 "them is left, write 'trust = %" PRIu64
                 "' into [cluster] and restart this node",
                 hello->from);
    }
    return HASP_ENOENT;
}

/* The same, and its log is not an older one that diverged. */
static bool is_ahead(const struct core *core, const struct frame_hello *hello)
{
    return is_added_since(core, hello) &&
           hello->last_term >= replica_last_term(core->replica);
}

static void refuse_directory(const struct core *core,
                             const struct replica_member *member,
                             const struct frame_hello *hello,
                             char why[HASP_WHY_SIZE])
{
    if (is_ahead(core, hello)) {
        snprintf(why, HASP_WHY_SIZE,
                 "node %" PRIu64 " shows another data directory (%016" PRIx64
                 ") than member %" PRIu64 " had (%016" PRIx64
                 "), and its configuration says that it was added later: this "
                 "node has not learned of that yet",
                 hello->from, hello->incarnation, member->id,
                 member->incarnation);
        return;
    }
    snprintf(why, HASP_WHY_SIZE,
             "node %" PRIu64
             " shows another data directory (incarnation %016" PRIx64
             ") than member %" PRIu64 " has (%016" PRIx64
             "): if the member was replaced, stop this node for good; if its "
             "directory is new, remove the member and add it again",
             hello->from, hello->incarnation, member->id, member->incarnation);
}

static int check_directory(struct core *core, const struct frame_hello *hello,
                           char why[HASP_WHY_SIZE])
{
    char removed_why[HASP_WHY_SIZE];
    if (standing_of_hello(core, hello) != STANDING_NONE) {
        return 0;
    }
    const struct replica_member *member = replica_members_find(
        replica_configuration(core->replica), hello->from);
    bool was_removed = core_was_removed(core, hello, removed_why);
    replacement_note(core, hello);
    if (was_removed || (member != NULL && !is_ahead(core, hello))) {
        standing_note_replaced(core, hello);
    }
    if (member == NULL) {
        return refuse_unlisted(core, hello, why);
    }
    refuse_directory(core, member, hello, why);
    /* A removed node learns that it was removed. */
    return was_removed ? HASP_ENOENT : HASP_EREFUSED;
}

/* All zero while it is unknown. */
static void own_cluster(const struct core *core,
                        uint8_t ret_id[CLUSTER_ID_SIZE])
{
    lockfsm_cluster_id(core->fsm, ret_id);
    if (!cluster_id_is_known(ret_id)) {
        memcpy(ret_id, core->options.cluster_id, CLUSTER_ID_SIZE);
    }
}

static bool is_of_another_cluster(const struct core *core,
                                  const struct frame_hello *hello)
{
    uint8_t own[CLUSTER_ID_SIZE];
    own_cluster(core, own);
    return cluster_id_is_known(own) && cluster_id_is_known(hello->cluster_id) &&
           !cluster_id_equal(own, hello->cluster_id);
}

/* A node without a cluster id must be a member that was added with exactly this
 * directory. */
static int check_nameless(const struct core *core,
                          const struct frame_hello *hello,
                          char why[HASP_WHY_SIZE])
{
    uint8_t own[CLUSTER_ID_SIZE];
    own_cluster(core, own);
    if (!cluster_id_is_known(own) || cluster_id_is_known(hello->cluster_id) ||
        core_names(core, hello->from, hello->incarnation)) {
        return 0;
    }
    snprintf(why, HASP_WHY_SIZE,
             "node %" PRIu64
             " belongs to no cluster yet, and is not a member that was added "
             "and has yet to start",
             hello->from);
    return HASP_EREFUSED;
}

int core_check_peer(struct core *core, const struct frame_hello *hello,
                    char why[HASP_WHY_SIZE])
{
    if (is_of_another_cluster(core, hello)) {
        snprintf(why, HASP_WHY_SIZE, "it belongs to another cluster");
        return HASP_EREFUSED;
    }
    int error = check_directory(core, hello, why);
    return error != 0 ? error : check_nameless(core, hello, why);
}

bool core_names(const struct core *core, uint64_t id, uint64_t incarnation)
{
    return replica_members_name(replica_configuration(core->replica), id,
                                incarnation);
}

enum rank { RANK_NONE, RANK_VOUCHED, RANK_NAMED };

static enum rank rank_of(const struct core *core, uint64_t id,
                         uint64_t incarnation, uint64_t members_index)
{
    if (core_names(core, id, incarnation)) {
        return RANK_NAMED;
    }
    return admission_admits(core, id, incarnation, members_index) ? RANK_VOUCHED
                                                                  : RANK_NONE;
}

bool core_goes_before(const struct core *core, const struct frame_hello *hello)
{
    const struct peer *peer = peer_look(core, hello->from);
    enum rank rank = rank_of(core, hello->from, hello->incarnation,
                             hello->members_index);
    if (peer == NULL || !peer->is_up || rank == RANK_NAMED) {
        return rank == RANK_NAMED;
    }
    enum rank other = rank_of(core, peer->id, peer->incarnation,
                              peer->members_index);
    bool is_newer = hello->last_term > peer->last_term ||
                    (hello->last_term == peer->last_term &&
                     hello->last_index > peer->last_index);
    return rank > other || (rank == other && is_newer);
}

/* "2026-11-22T02:10:12Z" */
static void admission_hello_put_time(uint64_t wall_ms, char out[32])
{
    time_t seconds = (time_t)(wall_ms / 1000);
    struct tm parts;
    if (wall_ms == 0 || gmtime_r(&seconds, &parts) == NULL ||
        strftime(out, 32, "%Y-%m-%dT%H:%M:%SZ", &parts) == 0) {
        snprintf(out, 32, "an unknown time");
    }
}

bool core_was_removed(const struct core *core, const struct frame_hello *hello,
                      char why[HASP_WHY_SIZE])
{
    struct removal removal;
    char at[32];
    if (!lockfsm_was_removed(core->fsm, hello->from, hello->incarnation)) {
        return false;
    }
    bool is_known = lockfsm_removal(core->fsm, hello->from, &removal);
    if (!is_known || removal.incarnation != hello->incarnation) {
        snprintf(why, HASP_WHY_SIZE,
                 "member %" PRIu64 " was removed with this data directory, and "
                 "another one of its directories after it",
                 hello->from);
        return true;
    }
    admission_hello_put_time(removal.wall_ms, at);
    snprintf(why, HASP_WHY_SIZE,
             "member %" PRIu64 " was removed by '%.*s' at %s (entry %" PRIu64
             ")",
             hello->from, (int)removal.by.size, (const char *)removal.by.data,
             at, removal.log_index);
    return true;
}

/* True if more than half of the voters of this node's newest configuration say
 * so. One alone could be anybody at that address. A log that is catching up may
 * contain a removal that was reversed long ago, but then a leader is heard. */
static bool is_removed(struct core *core)
{
    struct replica_members members;
    uint32_t voters = 0, said = 0;
    replica_members(core->replica, &members);
    for (uint32_t i = 0; i < members.count; i++) {
        const struct peer *peer = peer_find(core, members.member[i].id);
        if (members.member[i].role == MEMBER_VOTER) {
            voters++;
            said += peer != NULL && peer->says_removed;
        }
    }
    return 2 * said > voters &&
           !replica_has_leader(core->replica, core->now_ns / NS_PER_MS);
}

void core_removed_by(struct core *core, uint64_t id, const char *why,
                     uint64_t now_ns)
{
    char text[HASP_WHY_SIZE];
    set_now(core, now_ns);
    struct peer *peer = peer_get(core, id);
    if (peer == NULL) {
        return;
    }
    peer->says_removed = true;
    if (is_removed(core)) {
        snprintf(text, sizeof text,
                 "%.300s: this node stops. To use its machine for a member "
                 "again, give it an empty data directory and add it",
                 why);
        core_fatal(core, CORE_EXIT_REMOVED, text);
    }
}
