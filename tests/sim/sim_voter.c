/* SPDX-License-Identifier: MIT */

#include "tests/sim/sim_voter.h"

#include <inttypes.h>
#include <string.h>

#include "tests/sim/sim_channel.h"
#include "tests/sim/sim_check.h"
#include "tests/sim/sim_cover.h"
#include "tests/sim/sim_majority.h"
#include "tests/sim/sim_node.h"
#include "tests/sim/sim_restore.h"

bool sim_voter_is_there(const struct sim *sim)
{
    return (sim->options.seed * UINT64_C(0x9e3779b97f4a7c15) >> 48) % 10 < 4;
}

static bool all_run(struct sim *sim, const struct replica_members *members)
{
    bool all = true;
    for (uint32_t i = 0; i < members->count; i++) {
        const struct sim_host *host = sim_node_host(
            sim_node_of(sim, &members->member[i]));
        all = all && host->is_running && !host->is_paused;
    }
    return all;
}

/* A standby gets its vote back, at once when everything is healed. */
static bool choose_standby(struct sim *sim,
                           const struct replica_members *members,
                           struct sim_vote *ret_vote)
{
    for (uint32_t i = 0; i < members->count; i++) {
        const struct replica_member *member = &members->member[i];
        if (member->role != MEMBER_VOTER &&
            (sim->phase != SIM_CHAOS || sim_chance(sim, 0.7))) {
            *ret_vote = (struct sim_vote){.id = member->id};
            return true;
        }
    }
    return false;
}

bool sim_voter_choose(struct sim *sim, struct sim_vote *vote)
{
    struct replica_members members;
    if (!sim_voter_is_there(sim) || !sim_members(sim, &members)) {
        return false;
    }
    if (vote->is_open && sim->phase == SIM_CHAOS && sim_chance(sim, 0.8)) {
        return true;
    }
    if (choose_standby(sim, &members, vote)) {
        return true;
    }
    const struct sim_node *leader = sim_leader(sim);
    uint64_t from = prng_below(&sim->prng, members.count);
    bool is_leader = sim_chance(sim, 0.3);
    for (uint32_t i = 0; is_leader && i < members.count; i++) {
        from = members.member[i].id == sim_node_id(leader) ? i : from;
    }
    for (uint32_t i = 0; sim->phase == SIM_CHAOS && i < members.count; i++) {
        const struct replica_member
            *member = &members.member[(from + i) % members.count];
        if (member->role == MEMBER_VOTER && members.count > 2 &&
            !sim_majority_forces(sim, member->id) &&
            !sim_restore_has_forgotten(sim, sim_node_of(sim, member)) &&
            (!all_run(sim, &members) || sim_chance(sim, 0.3))) {
            *vote = (struct sim_vote){.id = member->id, .is_taken = true};
            return true;
        }
    }
    return false;
}

void sim_voter_put(struct sim_channel *channel, struct sim_vote *vote)
{
    const struct sim_node *leader = sim_leader(channel->sim);
    vote->led |= leader != NULL && sim_node_id(leader) == vote->id;
    vote->is_open = vote->is_taken;
    sim_channel_begin(channel, 2);
    sim_channel_word(channel, vote->is_taken ? "RAFT.DEMOTE" : "RAFT.PROMOTE");
    sim_channel_number(channel, vote->id);
    channel->sim->stats.changes++;
}

static void look_at_done(struct sim_channel *channel,
                         const struct sim_vote *vote)
{
    struct sim *sim = channel->sim;
    if (!sim_check_was_voter(sim, vote->id, !vote->is_taken,
                             channel->sent_newest)) {
        sim_fail(sim, ORACLE_VOTES,
                 "answers about members are committed: the vote of n%" PRIu64
                 " was %s, it is said, and at no moment since entry %" PRIu64
                 " it was",
                 vote->id, vote->is_taken ? "taken" : "given back",
                 channel->sent_newest);
    }
    if (vote->is_taken && vote->led) {
        sim_cover_leader_goes(sim);
    }
}

void sim_voter_take(struct sim_channel *channel, struct sim_vote *vote,
                    const char *word)
{
    static const struct bytes none = {(const uint8_t *)"no majority", 11};
    struct bytes text = channel->reply.value[0].bytes;
    vote->is_open &= word[0] != '\0' && strcmp(word, "BADARG") != 0;
    if (word[0] == '\0') {
        look_at_done(channel, vote);
    } else if (strcmp(word, "BADARG") == 0 && vote->is_taken &&
               memmem(text.data, text.size, none.data, none.size) != NULL) {
        sim_cover_vote(channel->sim, false);
    }
}
