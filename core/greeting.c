/* SPDX-License-Identifier: MIT */

/* Who may connect: what a node says of itself in its HELLO, and what it makes
 * of another's. The daemon and the simulator both ask here. */

#include <inttypes.h>
#include <stdio.h>
#include <time.h>

#include "base/check.h"
#include "core/state.h"
#include "core/vouch.h"

void core_fill_hello(const struct core *core, struct frame_hello *hello)
{
    struct replica_members members;
    uint64_t index = vouch_own_index(core, &members);
    hello->feature_level = core->options.feature_level;
    hello->cluster_level = lockfsm_feature_level(core->fsm);
    hello->applied_index = lockfsm_applied_index(core->fsm);
    bool is_member = replica_members_find(&members, core->options.id) != NULL;
    hello->members_index = is_member ? index : 0;
    hello->term = replica_term(core->replica);
    hello->last_index = replica_last_index(core->replica);
}

static void refuse_stranger(const struct core *core,
                            const struct frame_hello *hello,
                            char why[HASP_WHY_SIZE])
{
    struct replica_members members;
    int size = snprintf(why, HASP_WHY_SIZE, "node %" PRIu64 " is not a member",
                        hello->from);
    if (hello->members_index > vouch_own_index(core, &members)) {
        snprintf(why + size, HASP_WHY_SIZE - (size_t)size,
                 "; by its own word it was added since, and no member that "
                 "this node knows has said so yet: if none of them is left, "
                 "write 'trust = %" PRIu64 "' into [cluster] and start this "
                 "node again",
                 hello->from);
    }
}

/* Its data directory has to be the registered one. Where no leader is heard,
 * one that has applied more than this node may know of its own removal and
 * addition what this node has yet to learn, if only from it, the leader; where
 * one is heard, that one's log decides. */
static int check_directory(const struct core *core,
                           const struct frame_hello *hello,
                           char why[HASP_WHY_SIZE])
{
    uint64_t known = lockfsm_incarnation(core->fsm, hello->from);
    bool may_know_more = hello->applied_index >
                             lockfsm_applied_index(core->fsm) &&
                         !replica_has_leader(core->replica,
                                             core->now_ns / NS_PER_MS);
    if (known == 0 || known == hello->incarnation || may_know_more) {
        return 0;
    }
    snprintf(why, HASP_WHY_SIZE,
             "member %" PRIu64 " comes with another data directory "
             "(incarnation %016" PRIx64 ") than the registered one: remove the "
             "member and add it again",
             hello->from, hello->incarnation);
    return HASP_EREFUSED;
}

/* A node without a cluster id must be a member that was added, and must not
 * have been registered with another directory. */
static int check_cluster(const struct core *core,
                         const struct frame_hello *hello,
                         char why[HASP_WHY_SIZE])
{
    struct replica_members members;
    uint8_t own[CLUSTER_ID_SIZE];
    lockfsm_cluster_id(core->fsm, own);
    if (!cluster_id_is_known(own)) {
        memcpy(own, core->options.cluster_id, sizeof own);
    }
    if (!cluster_id_is_known(own) || cluster_id_equal(own, hello->cluster_id)) {
        return 0;
    }
    if (cluster_id_is_known(hello->cluster_id)) {
        snprintf(why, HASP_WHY_SIZE, "it belongs to another cluster");
        return HASP_EREFUSED;
    }
    uint64_t known = lockfsm_incarnation(core->fsm, hello->from);
    replica_members(core->replica, &members);
    if (replica_members_find(&members, hello->from) != NULL &&
        (known == 0 || known == hello->incarnation)) {
        return 0;
    }
    snprintf(why, HASP_WHY_SIZE,
             "node %" PRIu64 " shows no cluster, and is no member that was "
             "added and has yet to begin",
             hello->from);
    return HASP_EREFUSED;
}

int core_check_peer(const struct core *core, const struct frame_hello *hello,
                    bool is_wanted, char why[HASP_WHY_SIZE])
{
    if (!is_wanted && !vouch_admits(core, hello->from, hello->members_index)) {
        refuse_stranger(core, hello, why);
        return HASP_ENOENT;
    }
    int error = check_directory(core, hello, why);
    return error != 0 ? error : check_cluster(core, hello, why);
}

/* "2026-11-22T02:10:12Z" */
static void put_time(uint64_t wall_ms, char out[32])
{
    time_t seconds = (time_t)(wall_ms / 1000);
    struct tm parts;
    if (wall_ms == 0 || gmtime_r(&seconds, &parts) == NULL ||
        strftime(out, 32, "%Y-%m-%dT%H:%M:%SZ", &parts) == 0) {
        snprintf(out, 32, "a time that is not known");
    }
}

bool core_was_removed(const struct core *core, const struct frame_hello *hello,
                      char why[HASP_WHY_SIZE])
{
    struct removal removal;
    char at[32];
    if (!lockfsm_removal(core->fsm, hello->from, &removal) ||
        removal.incarnation != hello->incarnation) {
        return false;
    }
    put_time(removal.wall_ms, at);
    snprintf(why, HASP_WHY_SIZE,
             "member %" PRIu64 " was removed by '%.*s' at %s (entry %" PRIu64
             ")",
             hello->from, (int)removal.by.size, (const char *)removal.by.data,
             at, removal.log_index);
    return true;
}

/* True if more than half of the voters say so, by the newest configuration that
 * this node has. One alone could be anybody at that address, and a log that is
 * being caught up with may tell of a removal that was long taken back: then a
 * leader is heard. */
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
                 "again, give it an empty data directory, and add it",
                 why);
        core_fatal(core, CORE_EXIT_REMOVED, text);
    }
}

bool core_keeps_guest(const struct core *core, uint64_t id,
                      uint64_t its_members_index)
{
    return vouch_admits(core, id, its_members_index);
}
