/* SPDX-License-Identifier: MIT */

#include "tests/sim/sim_voter.h"

#include <string.h>

#include "tests/sim/sim_channel.h"
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
        const struct sim_host *host = sim->host[members->member[i].id - 1];
        all = all && host->is_running && !host->is_paused;
    }
    return all;
}

/* A standby gets its vote back, at once when all is healed. */
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

bool sim_voter_choose(struct sim *sim, struct sim_vote *ret_vote)
{
    struct replica_members members;
    if (!sim_voter_is_there(sim) || !sim_members(sim, &members)) {
        return false;
    }
    if (choose_standby(sim, &members, ret_vote)) {
        return true;
    }
    uint64_t from = prng_below(&sim->prng, members.count);
    for (uint32_t i = 0; sim->phase == SIM_CHAOS && i < members.count; i++) {
        const struct replica_member
            *member = &members.member[(from + i) % members.count];
        if (member->role == MEMBER_VOTER && members.count > 2 &&
            !sim_majority_forces(sim, member->id) &&
            !sim_restore_has_forgotten(sim, member->id) &&
            (!all_run(sim, &members) || sim_chance(sim, 0.3))) {
            *ret_vote = (struct sim_vote){.id = member->id, .is_taken = true};
            return true;
        }
    }
    return false;
}

void sim_voter_put(struct sim_channel *channel, const struct sim_vote *vote)
{
    sim_channel_begin(channel, 2);
    sim_channel_word(channel, vote->is_taken ? "RAFT.DEMOTE" : "RAFT.PROMOTE");
    sim_channel_number(channel, vote->id);
    channel->sim->stats.changes++;
}

void sim_voter_take(struct sim_channel *channel, const struct sim_vote *vote,
                    const char *word)
{
    static const struct bytes none = {(const uint8_t *)"no majority", 11};
    struct bytes text = channel->reply.value[0].bytes;
    if (strcmp(word, "BADARG") == 0 && vote->is_taken &&
        memmem(text.data, text.size, none.data, none.size) != NULL) {
        sim_cover_vote(channel->sim, false);
    }
}
