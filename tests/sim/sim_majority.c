/* SPDX-License-Identifier: MIT */

#include "tests/sim/sim_majority.h"

#include <inttypes.h>

#include "tests/sim/sim_check.h"
#include "tests/sim/sim_cover.h"
#include "tests/sim/sim_node.h"
#include "tests/sim/sim_places.h"

static bool is_voter(const struct replica_members *members, uint64_t id)
{
    const struct replica_member *member = replica_members_find(members, id);
    return member != NULL && member->role == MEMBER_VOTER;
}

/* The vote that was removed, 0: none. */
static uint64_t lost_vote(const struct replica_members *before,
                          const struct replica_members *after)
{
    for (uint32_t i = 0; i < before->count; i++) {
        uint64_t id = before->member[i].id;
        if (is_voter(before, id) && !is_voter(after, id)) {
            return id;
        }
    }
    return 0;
}

static bool has_majority(struct sim_node *node,
                         const struct replica_members *members)
{
    uint32_t voters = 0, heard = 0;
    for (uint32_t i = 0; i < members->count; i++) {
        uint64_t id = members->member[i].id;
        if (members->member[i].role == MEMBER_VOTER) {
            voters++;
            heard += id == sim_node_id(node) || sim_node_silence_ms(node, id) <=
                                                    sim_node_election_ms(node);
        }
    }
    return 2 * heard > voters;
}

bool sim_majority_forces(const struct sim *sim, uint64_t id)
{
    return ((sim->options.seed * UINT64_C(0x9e3779b97f4a7c15)) >> (32 + id) &
            1) != 0;
}

void sim_majority_look(struct sim *sim, struct sim_node *node,
                       struct replica_members *known)
{
    struct replica_members members;
    const struct core *core = sim_node_core(node);
    if (core == NULL) {
        return; /* It is about to begin. */
    }
    const struct replica *replica = core_replica(core);
    replica_members(replica, &members);
    uint64_t id = lost_vote(known, &members);
    sim_places_look(sim->places, node, known, &members);
    *known = members;
    if (id == 0 || replica_role(replica) != REPLICA_LEADER ||
        sim_majority_forces(sim, id)) {
        return;
    }
    sim->stats.votes_taken++;
    sim_cover_vote(sim, true);
    if (!has_majority(node, &members)) {
        sim_fail(sim, ORACLE_VOTES,
                 "an unforced change leaves a majority that is heard: n%" PRIu64
                 " takes the vote of n%" PRIu64,
                 sim_node_id(node), id);
    }
}
