/* SPDX-License-Identifier: MIT */

/* Changes of the membership, one at a time (Ongaro's thesis, 4.1), and transfer
 * of leadership. Everything that the core takes for granted is checked here. */

#include "raft/replica_state.h"

#include <stdio.h>
#include <string.h>

#include "base/check.h"

/* A member is promoted when it lacks at most this part of the window. */
#define CATCH_UP_SHARE 4

/* A member refuses to vote until it has the entry that promotes it. If the next
 * change is made before that, a majority can lack votes for ever. A change that
 * demotes the member again need not wait. */
static bool newest_voters_have_it(const struct replica *replica, uint64_t id)
{
    const struct members_record *newest = members_history_at(&replica->history,
                                                             UINT64_MAX);
    CHECK(newest != NULL);
    const struct members_record *before = members_history_at(
        &replica->history, newest->log_index - 1);
    if (before == NULL) {
        return true;
    }
    MEMBER_EACH (member, &newest->members) {
        const struct replica_member *was = replica_members_find(
            &before->members, member->id);
        bool is_promoted = member->role == MEMBER_VOTER &&
                           (was == NULL || was->role != MEMBER_VOTER);
        if (is_promoted && member->id != id &&
            replica_match(replica, member->id) < newest->log_index) {
            return false;
        }
    }
    return true;
}

/* 0 if a change that concerns member 'id' may be proposed now. */
static int check_change(const struct replica *replica, uint64_t id)
{
    const struct raft *core = &replica->core;
    if (!replica_is_leader(replica)) {
        return HASP_ENOTLEADER;
    }
    /* RAFT_CATCH_UP is never used. */
    CHECK(core->leader_state.promotee_id == 0);
    if (core->leader_state.transferee != 0 ||
        core->configuration_uncommitted_index != 0) {
        return HASP_EBUSY;
    }
    /* T11: without a committed entry of its own term a leader may not change
     * anything: majorities of its configuration and of a predecessor's
     * uncommitted one need not overlap. */
    if (known_term(replica, core->commit_index) != core->current_term) {
        return HASP_EBUSY;
    }
    return newest_voters_have_it(replica, id) ? 0 : HASP_EBUSY;
}

static uint64_t change_propose(struct replica *replica,
                               const struct replica_members *next)
{
    struct buffer encoded = {0};
    replica_members_encode(next, &encoded);
    struct bytes body = buffer_bytes(&encoded);
    step_submit(replica, ENTRY_CHANGE, &body, 1);
    buffer_done(&encoded);
    return log_last(&replica->log);
}

/* HASP_EEXIST: a member, perhaps this one, has the address. */
static int change_check_address(const struct replica_members *members,
                                const char *address)
{
    if (address[0] == '\0' || strlen(address) >= MEMBER_ADDRESS_SIZE) {
        return HASP_EINVALID;
    }
    MEMBER_EACH (member, members) {
        if (strcmp(member->address, address) == 0) {
            return HASP_EEXIST;
        }
    }
    return 0;
}

static int check_added(const struct replica_members *members, uint64_t id,
                       uint64_t incarnation, const char *address)
{
    if (id == 0 || id > REPLICA_ID_MAX) {
        return HASP_EINVALID;
    }
    int error = change_check_address(members, address);
    if (error != 0) {
        return error;
    }
    MEMBER_EACH (member, members) {
        if (member->id == id || member->incarnation == incarnation) {
            return HASP_EEXIST;
        }
    }
    if (incarnation == 0) {
        return HASP_EINVALID;
    }
    return members->count == MEMBER_COUNT_MAX ? HASP_EFULL : 0;
}

int replica_add(struct replica *replica, uint64_t id, uint64_t incarnation,
                const char *address, uint64_t now_ms, uint64_t *ret_index,
                struct replica_update *update)
{
    struct replica_members next = *newest_members(replica);
    step_begin(replica, now_ms);
    int error = check_change(replica, id);
    error = error ?: check_added(&next, id, incarnation, address);
    if (error == 0) {
        struct replica_member *member = &next.member[next.count++];
        *member = (struct replica_member){
            .id = id, .incarnation = incarnation, .role = MEMBER_STANDBY};
        snprintf(member->address, sizeof member->address, "%s", address);
        *ret_index = change_propose(replica, &next);
    }
    return step_end_call(replica, error, update);
}

/* True if the member is close to the end of the log and has the entry that made
 * it a member, so that it can vote (T14). */
static bool has_caught_up(const struct replica *replica, uint64_t id)
{
    const struct members_record *newest = members_history_at(&replica->history,
                                                             UINT64_MAX);
    uint64_t match = replica_match(replica, id);
    return newest != NULL && match >= newest->log_index &&
           log_last(&replica->log) - match <=
               replica->in_flight_max / CATCH_UP_SHARE;
}

int replica_set_role(struct replica *replica, uint64_t id,
                     enum member_role role, uint64_t now_ms,
                     uint64_t *ret_index, struct replica_update *update)
{
    struct replica_members next = *newest_members(replica);
    step_begin(replica, now_ms);
    struct replica_member *member = (struct replica_member *)(uintptr_t)
        replica_members_find(&next, id);
    /* A new voter must have caught up: until it has the log and the entry that
     * makes it a member, it counts for majorities but cannot vote (T14). */
    int error = check_change(replica, id);
    if (error == 0 && member == NULL) {
        error = HASP_ENOENT;
    } else if (error == 0 && member->role == role) {
        error = HASP_EEXIST;
    } else if (error == 0 && member->role == MEMBER_VOTER &&
               members_voter_count(&next) <= 2) {
        error = HASP_EREFUSED;
    } else if (error == 0 && role == MEMBER_VOTER &&
               !has_caught_up(replica, id)) {
        error = HASP_EBUSY;
    }
    if (error == 0) {
        member->role = role;
        *ret_index = change_propose(replica, &next);
    }
    return step_end_call(replica, error, update);
}

int replica_set_address(struct replica *replica, uint64_t id,
                        const char *address, uint64_t now_ms,
                        uint64_t *ret_index, struct replica_update *update)
{
    struct replica_members next = *newest_members(replica);
    step_begin(replica, now_ms);
    struct replica_member *member = (struct replica_member *)(uintptr_t)
        replica_members_find(&next, id);
    int error = check_change(replica, id);
    if (error == 0 && member == NULL) {
        error = HASP_ENOENT;
    }
    error = error ?: change_check_address(&next, address);
    if (error == 0) {
        /* Id, incarnation, role and place stay: for the core, which knows
         * members by their ids, this configuration is the one before. */
        snprintf(member->address, sizeof member->address, "%s", address);
        *ret_index = change_propose(replica, &next);
    }
    return step_end_call(replica, error, update);
}

int replica_remove(struct replica *replica, uint64_t id, uint64_t now_ms,
                   uint64_t *ret_index, struct replica_update *update)
{
    struct replica_members next = *newest_members(replica);
    step_begin(replica, now_ms);
    const struct replica_member *member = replica_members_find(&next, id);
    int error = check_change(replica, id);
    if (error == 0 && member == NULL) {
        error = HASP_ENOENT;
    } else if (error == 0 && member->role == MEMBER_VOTER &&
               members_voter_count(&next) <= 2) {
        error = HASP_EREFUSED;
    }
    if (error == 0) {
        /* The others keep their order, since the core keeps its progress of
         * each follower by position. */
        size_t at = (size_t)(member - next.member);
        memmove(&next.member[at], &next.member[at + 1],
                (next.count - at - 1) * sizeof next.member[0]);
        next.count--;
        *ret_index = change_propose(replica, &next);
    }
    return step_end_call(replica, error, update);
}

/* The other voter with the longest log; 0 if there is none. */
static uint64_t best_voter(const struct replica *replica)
{
    const struct replica_members *members = newest_members(replica);
    uint64_t best = 0;
    uint64_t best_match = 0;
    MEMBER_EACH (member, members) {
        uint64_t match = replica_match(replica, member->id);
        if (member->role == MEMBER_VOTER && member->id != replica->id &&
            (best == 0 || match > best_match)) {
            best = member->id;
            best_match = match;
        }
    }
    return best;
}

/* Checks whether leadership can be transferred to '*id'; chooses a voter if
 * that is 0. */
static int check_transfer(const struct replica *replica, uint64_t *id)
{
    if (!replica_is_leader(replica)) {
        return HASP_ENOTLEADER;
    }
    if (replica->core.leader_state.transferee != 0) {
        return HASP_EBUSY;
    }
    if (*id == 0) {
        *id = best_voter(replica);
    }
    const struct replica_member *member = replica_members_find(
        newest_members(replica), *id);
    if (member == NULL) {
        return HASP_ENOENT;
    }
    if (member->role != MEMBER_VOTER || member->id == replica->id) {
        return HASP_EINVALID;
    }
    return 0;
}

int replica_transfer(struct replica *replica, uint64_t id, uint64_t now_ms,
                     struct replica_update *update)
{
    step_begin(replica, now_ms);
    int error = check_transfer(replica, &id);
    if (error == 0) {
        struct raft_event event = {.type = RAFT_TRANSFER};
        event.transfer.server_id = id;
        step_core(replica, &event);
    }
    return step_end_call(replica, error, update);
}
