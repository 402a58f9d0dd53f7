/* SPDX-License-Identifier: MIT */

#include "raft/election_timing.h"

#include <string.h>

#include "base/check.h"
#include "base/minmax.h"
#include "raft/replica_state.h"

/* The number of elections that are shortened after a leader is lost; later ones
 * have Raft's normal timing. */
#define HURRY_ELECTIONS 16

/* Do not wait for a member that reports a longer flush than this. */
#define FLUSH_TOLD_MAX_MS 4000u

/* After a leader is lost the voters become candidates one after the other. The
 * pause is long enough for the others to hear of an attempt; flushes are not
 * included, since they are reported separately. */
#define STAND_FIRST_MS 1
#define STAND_STEP_MS 20

/* Shortens the wait for the core's deadline to 'wait_ms', if it is longer. */
static void shorten_wait(struct replica *replica, uint64_t wait_ms)
{
    uint64_t until_ms = replica->now_ms + replica->ahead_ms + wait_ms;
    uint64_t deadline = raft_timeout(&replica->core);
    replica->ahead_ms += deadline - u64_min(deadline, until_ms);
}

static void election_timing_hurry(struct replica *replica)
{
    replica->timing.hurry_ms = replica->now_ms +
                               (uint64_t)HURRY_ELECTIONS * replica->election_ms;
    replica->timing.hurried = raft_timeout(&replica->core);
}

/* How long this node waits, after losing 'leader', for the members whose turn
 * is before its own. */
static uint64_t turn_ms(const struct replica *replica, uint64_t leader)
{
    const struct replica_members *members = newest_members(replica);
    uint64_t before = 0;
    CHECK(leader != 0 && leader != replica->id);
    MEMBER_EACH (member, members) {
        before += member->role == MEMBER_VOTER && member->id != leader &&
                  member->id < replica->id;
    }
    return STAND_FIRST_MS + before * STAND_STEP_MS;
}

static void forget_leader(struct replica *replica, uint64_t wait_ms)
{
    /* Only a follower has a leader to forget. */
    CHECK(replica->core.state == RAFT_FOLLOWER);
    replica->timing.is_leader_gone = true;
    replica->timing.may_pledge = true;
    shorten_wait(replica, wait_ms);
    election_timing_hurry(replica);
}

void replica_hurry(struct replica *replica, uint64_t id, uint64_t now_ms)
{
    const struct raft *core = &replica->core;
    struct election_timing *timing = &replica->timing;
    CHECK(id != replica->id);
    replica->now_ms = u64_max(replica->now_ms, now_ms);
    if (id != 0 && timing->pledged_to == id) {
        timing->pledged_to = 0;
        timing->hold_ms = 0;
    }
    if (core->state != RAFT_FOLLOWER) {
        return;
    }
    uint64_t leader = core->follower_state.current_leader.id;
    if (id == 0 && !replica->has_heard_leader) {
        /* No node knows yet which others are running. */
        forget_leader(replica,
                      prng_below(&replica->prng, replica->heartbeat_ms));
    } else if (id != 0 && id == leader) {
        forget_leader(replica, turn_ms(replica, leader));
    }
}

/* When a follower gives up its leader, by the caller's clock: after the minimum
 * election timeout plus the delay of its turn. */
static uint64_t silence_ms(const struct replica *replica)
{
    const struct raft *core = &replica->core;
    if (core->state != RAFT_FOLLOWER ||
        core->follower_state.current_leader.id == 0 ||
        replica->timing.is_leader_gone) {
        return UINT64_MAX;
    }
    uint64_t until_ms = replica->heard_ms + replica->election_ms +
                        turn_ms(replica,
                                core->follower_state.current_leader.id);
    return until_ms - u64_min(until_ms, replica->ahead_ms);
}

void election_timing_silence(struct replica *replica)
{
    if (replica->now_ms >= silence_ms(replica)) {
        forget_leader(replica, 0);
        replica->clock_ms = replica->now_ms + replica->ahead_ms;
    }
}

uint64_t election_timing_flush(const struct replica *replica)
{
    return u64_max(replica->timing.flush_ms, replica->timing.others_ms);
}

void election_timing_note_flush(struct replica *replica, uint64_t flush_ms)
{
    uint64_t known_ms = replica->timing.flush_ms;
    uint64_t fall_ms = known_ms - u64_min(known_ms, flush_ms);
    replica->timing.flush_ms = u64_max(flush_ms, known_ms - (fall_ms + 7) / 8);
}

/* True while a write is under way that must end before an attempt begins. */
static bool election_timing_must_wait(const struct replica *replica)
{
    return !vote_is_saved(replica) ||
           replica->core.last_stored < log_last(&replica->log);
}

uint64_t election_timing_deadline(const struct replica *replica,
                                  uint64_t deadline_ms)
{
    if (replica_is_leader(replica)) {
        return deadline_ms;
    }
    if (election_timing_must_wait(replica)) {
        /* The end of the write sets a new deadline. */
        return replica->now_ms + replica->heartbeat_ms;
    }
    return u64_max(u64_min(deadline_ms, silence_ms(replica)),
                   replica->timing.hold_ms);
}

/* True if this node has pledged its vote to another node than 'from'. */
static bool is_pledged(const struct replica *replica, uint64_t from)
{
    const struct election_timing *timing = &replica->timing;
    return timing->pledged_to != 0 && timing->pledged_to != from &&
           replica->now_ms < timing->hold_ms;
}

bool election_timing_refuses(const struct replica *replica, uint64_t from)
{
    /* A vote would have to wait for the save in progress. */
    return !vote_is_saved(replica) || is_pledged(replica, from);
}

/* Holds still for the time that such a flush can take, including the messages
 * around it. */
static void election_timing_hold(struct replica *replica, uint64_t flush_ms)
{
    uint64_t until_ms = replica->now_ms + 2 * flush_ms +
                        2 * (uint64_t)replica->heartbeat_ms;
    replica->timing.hold_ms = u64_max(replica->timing.hold_ms, until_ms);
}

void election_timing_granted(struct replica *replica, uint64_t to,
                             bool is_pre_vote)
{
    struct election_timing *timing = &replica->timing;
    CHECK(to != 0);
    if (is_pre_vote && !timing->may_pledge) {
        return;
    }
    timing->pledged_to = to;
    if (is_pre_vote) {
        timing->may_pledge = false;
        timing->hold_ms = u64_max(timing->hold_ms,
                                  replica->now_ms + replica->heartbeat_ms);
    } else {
        election_timing_hold(replica,
                             u64_max(timing->asking_flush, timing->flush_ms));
    }
}

void election_timing_stands(struct replica *replica, uint64_t from,
                            uint64_t flush_ms)
{
    struct election_timing *timing = &replica->timing;
    CHECK(from != 0 && from != replica->id);
    if (!hears_leader(replica) && !is_pledged(replica, from) &&
        flush_ms <= FLUSH_TOLD_MAX_MS) {
        timing->pledged_to = from;
        election_timing_hold(replica, flush_ms);
    }
}

void election_timing_answered(struct replica *replica, bool is_granted,
                              uint64_t flush_ms)
{
    struct election_timing *timing = &replica->timing;
    if (!is_granted) {
        /* The member is not going to vote for this node: allow other
         * candidates. */
        timing->pledged_to = 0;
    } else if (flush_ms <= FLUSH_TOLD_MAX_MS) {
        timing->others_ms = u64_max(timing->others_ms, flush_ms);
    }
}

/* True for a candidate that has begun its term. */
static bool is_standing(const struct replica *replica)
{
    return replica->core.state == RAFT_CANDIDATE &&
           !replica->core.candidate_state.in_pre_vote;
}

void election_timing_vote_saved(struct replica *replica)
{
    struct election_timing *timing = &replica->timing;
    if (is_standing(replica)) {
        /* The voters now begin to save their votes. */
        election_timing_hold(replica, timing->others_ms);
        timing->hold_ms += prng_below(&replica->prng,
                                      2 * replica->heartbeat_ms);
    } else if (timing->pledged_to != 0) {
        election_timing_hold(replica, 0);
    }
}

void election_timing_attempt(struct replica *replica)
{
    struct election_timing *timing = &replica->timing;
    const struct replica_member *self = own_member(replica);
    CHECK(!replica_is_leader(replica));
    if (self == NULL || self->role != MEMBER_VOTER) {
        return;
    }
    if (replica->core.state == RAFT_CANDIDATE) {
        /* T16: without this the core would begin the next term without a
         * pre-vote. */
        replica->core.candidate_state.in_pre_vote = replica->core.pre_vote;
        replica->core.candidate_state.disrupt_leader = false;
    } else {
        election_timing_hurry(replica);
    }
    timing->others_ms = 0;
    timing->may_pledge = true;
    timing->pledged_to = replica->id;
    timing->hold_ms = replica->now_ms + replica->heartbeat_ms / 2;
}

void election_timing_leader(struct replica *replica)
{
    struct election_timing *timing = &replica->timing;
    timing->is_leader_gone = false;
    timing->may_pledge = true;
    timing->pledged_to = 0;
    timing->hold_ms = 0;
    timing->hurry_ms = 0;
}

/* Announces the candidacy at once, while this node's vote for itself is being
 * saved. */
static void election_timing_stand(struct replica *replica)
{
    const struct replica_members *members = newest_members(replica);
    struct message message = {.kind = MESSAGE_VOTE,
                              .term = replica->core.current_term};
    CHECK(replica->core.voted_for == replica->id);
    message.vote.candidate = replica->id;
    message.vote.is_standing = true;
    message.vote.flush_ms = (uint32_t)election_timing_flush(replica);
    MEMBER_EACH (member, members) {
        if (member->role == MEMBER_VOTER && member->id != replica->id) {
            step_send(replica, member->id, &message);
        }
    }
    memset(replica->followers, 0, sizeof replica->followers);
    replica->timing.pledged_to = replica->id;
    election_timing_hold(replica, election_timing_flush(replica));
}

void election_timing_follow(struct replica *replica)
{
    const struct raft *core = &replica->core;
    struct election_timing *timing = &replica->timing;
    uint64_t beat_ms = replica->heartbeat_ms;
    if (core->state == RAFT_LEADER) {
        election_timing_leader(replica);
        return;
    }
    if (is_standing(replica) && replica->out.save_vote) {
        election_timing_stand(replica);
    }
    if (replica->now_ms >= timing->hurry_ms ||
        raft_timeout(core) == timing->hurried) {
        return;
    }
    /* A candidate retries earlier than a node that has just voted. */
    uint64_t least_ms = core->state == RAFT_CANDIDATE ? beat_ms / 2
                                                      : 2 * beat_ms;
    shorten_wait(replica, least_ms + prng_below(&replica->prng, 2 * beat_ms));
    timing->hurried = raft_timeout(core);
}
