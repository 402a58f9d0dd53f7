/* SPDX-License-Identifier: MIT */

#include "tests/sim/sim_move.h"

#include <stdio.h>

#include "tests/sim/sim_check.h"
#include "tests/sim/sim_node.h"
#include "tests/sim/sim_worker.h"

/* By tenths of all runs. */
#define MOVED 3
/* Separate from all other random choices of the run. */
#define DICE UINT64_C(0x6d6f766564696365)

bool sim_moves_are_there(const struct sim *sim)
{
    struct prng dice = {sim->options.seed + DICE};
    return prng_below(&dice, 10) < MOVED;
}

/* A member that the list does not find, if there is one; else any. */
static const struct replica_member *
move_choose_member(struct sim *sim, const struct replica_members *members)
{
    uint64_t from = prng_below(&sim->prng, members->count);
    const struct replica_member *chosen = NULL;
    for (uint32_t i = 0; i < members->count; i++) {
        const struct replica_member
            *member = &members->member[(from + i) % members->count];
        const struct sim_node *node = sim_node_of(sim, member);
        if (!sim_node_is_named(node, members)) {
            continue; /* Its machine has another directory, or number, now. */
        }
        if (sim_node_port_of(member) != sim_node_port(node)) {
            return member;
        }
        chosen = chosen != NULL ? chosen : member;
    }
    return chosen;
}

bool sim_move_choose(struct sim *sim, const struct replica_members *members,
                     struct op *op)
{
    const struct replica_member *member = move_choose_member(sim, members);
    if (member == NULL) {
        return false;
    }
    struct sim_node *node = sim_node_of(sim, member);
    op->admin = ADMIN_UPDATE;
    op->id = member->id;
    op->host = sim_node_number(node);
    op->token = sim_node_port(node);
    if (sim_node_port_of(member) == sim_node_port(node)) {
        op->token++;
        if (sim_chance(sim, 0.5)) {
            sim_node_move(node, (uint32_t)op->token);
        }
    }
    return true;
}

void sim_move_address(const struct sim *sim, const struct op *op,
                      char address[MEMBER_ADDRESS_SIZE])
{
    sim_node_address_at(sim->node[op->host], (uint32_t)op->token, address);
}

void sim_move_done(struct sim *sim, const struct op *op)
{
    struct sim_node *node = sim->node[op->host];
    sim->stats.moved++;
    if (sim->phase == SIM_CHAOS && sim_node_port(node) < op->token &&
        sim_node_id(node) == op->id) {
        sim_node_move(node, (uint32_t)op->token);
    }
}

bool sim_move_listens(struct sim *sim, const struct sim_node *node,
                      uint32_t port)
{
    struct replica_members members;
    if (port == sim_node_port(node)) {
        return true;
    }
    if (sim->phase == SIM_CHAOS) {
        return false;
    }
    const struct replica_member *member = NULL;
    if (sim_members(sim, &members)) {
        member = replica_members_find(&members, sim_node_id(node));
    }
    return member == NULL || sim_node_of(sim, member) != node ||
           sim_node_port_of(member) == port;
}
