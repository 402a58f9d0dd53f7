/* SPDX-License-Identifier: MIT */

#include "tests/sim/sim_old.h"

#include "raft/replica.h"
#include "tests/sim/sim_faults.h"
#include "tests/sim/sim_net.h"
#include "tests/sim/sim_node.h"
#include "tests/sim/sim_replace.h"

/* Blocked links open within this time. */
#define BLOCKED_MS 8000

static void block(struct sim *sim, uint32_t a, uint32_t b, bool is_blocked)
{
    if (a != b) {
        sim_net_block(sim, a, b, is_blocked);
        sim_net_block(sim, b, a, is_blocked);
    }
}

/* True for about this many of 'out of' nodes. */
static bool one_of(struct sim *sim, uint64_t out_of)
{
    return prng_below(&sim->prng, out_of) == 0;
}

static void cut_from_some(struct sim *sim, uint32_t host, uint64_t out_of)
{
    for (uint32_t i = 0; i < sim->node_count; i++) {
        if (one_of(sim, out_of)) {
            block(sim, host, i, true);
        }
    }
    sim_faults_open_later(sim, host, BLOCKED_MS);
}

void sim_old_part(struct sim *sim, struct sim_node *node)
{
    struct sim_node *leader = sim_leader(sim);
    uint32_t host = sim_node_number(node);
    uint64_t way = prng_below(&sim->prng, 8);
    sim_note(sim, sim_node_host(node), "is parted", way, 0, 0);
    switch (way) {
    case 0:
    case 1:
    case 2:
        /* Only the leader does not hear it: then people replace a node. */
        if (leader != NULL) {
            block(sim, host, sim_node_number(leader), true);
        }
        sim_faults_open_later(sim, host, BLOCKED_MS);
        break;
    case 3:
        cut_from_some(sim, host, 1);
        break;
    case 4:
        cut_from_some(sim, host, 2);
        break;
    case 5:
        sim_node_kill(node, sim_chance(sim, 0.5));
        break;
    case 6:
        sim_node_pause(node, true);
        sim_faults_resume_later(sim, host, BLOCKED_MS);
        break;
    default:
        break;
    }
}

static struct sim_node *any_old(struct sim *sim)
{
    struct sim_node *any = NULL;
    uint64_t count = 0;
    for (uint32_t i = 0; i < sim->node_count; i++) {
        if (sim_node_is_old(sim->node[i]) &&
            prng_below(&sim->prng, ++count) == 0) {
            any = sim->node[i];
        }
    }
    return any;
}

/* The old directory and its replacement are on two sides; each other node is on
 * one of them. */
static void divide(struct sim *sim, const struct sim_node *old)
{
    const struct sim_node *newest = sim_replace_newest(sim, sim_node_id(old));
    uint64_t sides = prng_next(&sim->prng);
    sides &= ~(UINT64_C(1) << sim_node_number(old));
    sides |= UINT64_C(1) << sim_node_number(newest);
    sim->stats.partitions++;
    sim_note(sim, sim_node_host((struct sim_node *)(uintptr_t)old),
             "is divided from its successor",
             sides & ((UINT64_C(1) << sim->host_count) - 1), 0, 0);
    for (uint32_t i = 0; i < sim->host_count; i++) {
        for (uint32_t j = 0; j < i; j++) {
            block(sim, i, j, (sides >> i & 1) != (sides >> j & 1));
        }
    }
    for (uint32_t i = 0; i < sim->host_count; i++) {
        sim_faults_open_later(sim, i, BLOCKED_MS);
    }
}

/* A member loses power, and what its table has not flushed. When it starts
 * again it reaches only the old directory. */
static void mislead(struct sim *sim, const struct sim_node *old)
{
    struct replica_members members;
    if (!sim_members(sim, &members)) {
        return;
    }
    const struct replica_member
        *member = &members.member[prng_below(&sim->prng, members.count)];
    struct sim_node *node = sim_node_of(sim, member);
    uint32_t host = sim_node_number(node);
    if (node == sim_leader(sim) || node == old) {
        return;
    }
    sim_note(sim, sim_node_host(node), "reaches an old directory alone",
             sim_node_number(old) + 1, 0, 0);
    sim_node_kill(node, true);
    for (uint32_t i = 0; i < sim->node_count; i++) {
        block(sim, host, i, i != sim_node_number(old));
    }
    sim_faults_open_later(sim, host, BLOCKED_MS);
    if (sim_chance(sim, 0.7)) {
        sim_node_start(node);
    }
}

void sim_old_strike(struct sim *sim)
{
    struct sim_node *old = any_old(sim);
    if (old == NULL) {
        return;
    }
    uint32_t host = sim_node_number(old);
    uint64_t way = prng_below(&sim->prng, 8);
    sim_note(sim, sim_node_host(old), "is struck as old", way, 0, 0);
    if (way >= 3) {
        sim_node_start_again(old);
    }
    switch (way) {
    case 0:
        sim_node_kill(old, true);
        break;
    case 1:
        sim_node_kill(old, false);
        break;
    case 2:
        sim_node_stop(old);
        break;
    case 3:
        for (uint32_t i = 0; i < sim->node_count; i++) {
            block(sim, host, i, false);
        }
        break;
    case 4:
        cut_from_some(sim, host, 2);
        break;
    case 5:
        mislead(sim, old);
        break;
    default:
        divide(sim, old);
        break;
    }
}
