/* SPDX-License-Identifier: MIT */

#include "tests/sim/sim_behind.h"

#include <inttypes.h>

#include "base/check.h"
#include "raft/replica.h"
#include "tests/sim/sim_disk.h"
#include "tests/sim/sim_net.h"
#include "tests/sim/sim_node.h"
#include "tests/sim/sim_worker.h"

#define BEFORE_NS (2 * SIM_S)
/* The longest time that it is away; it may be away twice. */
#define AWAY_NS (10 * SIM_S)
#define CATCH_UP_NS (10 * SIM_S)
/* If it dies when nothing is on its way to it, it needs no longer than this. */
#define CATCH_UP_AGAIN_NS (5 * SIM_S)
#define DEATHS_MAX 4
/* Calls on files of a start and an installation. */
#define CALLS_MAX 300

static struct sim_node *follower(struct sim *sim,
                                 const struct replica_member *member)
{
    struct sim_node *node = sim_node_of(sim, member);
    bool is_one = member->role == MEMBER_VOTER && node != sim_leader(sim) &&
                  sim_node_core(node) != NULL;
    return is_one ? node : NULL;
}

struct sim_node *sim_behind_choose(struct sim *sim)
{
    struct replica_members members;
    struct sim_node *node = NULL;
    if (!sim_members(sim, &members)) {
        return NULL;
    }
    uint64_t from = prng_below(&sim->prng, members.count);
    for (uint32_t i = 0; node == NULL && i < members.count; i++) {
        node = follower(sim, &members.member[(from + i) % members.count]);
    }
    return node;
}

static bool is_watched(struct sim *sim, const struct sim_node *node)
{
    for (uint32_t i = 0; i < sim->client_count; i++) {
        const struct sim_watcher *watcher = &sim->client[i]->watcher;
        if (watcher->is_watching && watcher->channel.wire != NULL &&
            sim->node[watcher->channel.wire->host[1]] == node) {
            return true;
        }
    }
    return false;
}

/* A following voter with a watcher, if there is one; else 'other'. */
static struct sim_node *choose_watched(struct sim *sim, struct sim_node *other)
{
    struct replica_members members;
    CHECK(sim_members(sim, &members));
    for (uint32_t i = 0; i < members.count; i++) {
        struct sim_node *node = follower(sim, &members.member[i]);
        if (node != NULL && is_watched(sim, node)) {
            return node;
        }
    }
    return other;
}

static uint64_t applied(struct sim_node *node)
{
    struct core *core = sim_node_core(node);
    return core != NULL ? lockfsm_applied_index(core_state(core)) : 0;
}

/* Starts it again and again; each time it dies within a few calls. */
static void die_some_times(struct sim *sim, struct sim_node *node)
{
    struct files_machine *files = sim_node_disk(node)->files;
    for (uint64_t i = prng_below(&sim->prng, DEATHS_MAX + 1); i > 0; i--) {
        sim_node_start(node);
        files_die_within(files, (uint32_t)sim_between(sim, 1, CALLS_MAX));
        sim_run_until(sim, sim->now_ns + sim_between(sim, 10, 1000) * SIM_MS,
                      NULL);
        sim_node_kill(node, sim_chance(sim, 0.5));
    }
    files_die_within(files, 0);
}

static void check_catches_up(struct sim *sim, struct sim_node *node,
                             uint64_t within_ns)
{
    struct sim_node *leader = sim_leader(sim);
    uint64_t goal = leader != NULL ? applied(leader) : 0;
    uint64_t until_ns = sim->now_ns + within_ns;
    while (applied(node) < goal && sim->now_ns < until_ns && !sim->has_failed) {
        sim_run_until(sim, sim->now_ns + 50 * SIM_MS, NULL);
    }
    if (applied(node) < goal) {
        sim_fail(sim, ORACLE_CATCHING_UP,
                 "a node that was away catches up: %s has applied %" PRIu64
                 " and not %" PRIu64,
                 sim_node_host(node)->name, applied(node), goal);
    }
}

/* Cuts it off from the other nodes: its clients and watchers still reach it. */
static void cut_off(struct sim *sim, struct sim_node *node, bool is_cut)
{
    uint32_t here = sim_node_host(node)->number;
    for (uint32_t i = 0; i < sim->node_count; i++) {
        if (i != here) {
            sim_net_block(sim, here, i, is_cut);
            sim_net_block(sim, i, here, is_cut);
        }
    }
}

/* Waits until the leader's log begins after what the node has. */
static void wait_for_trim(struct sim *sim, uint64_t has)
{
    uint64_t until_ns = sim->now_ns + AWAY_NS;
    struct sim_node *leader = sim_leader(sim);
    while (sim->now_ns < until_ns && !sim->has_failed &&
           (leader == NULL || sim_node_disk(leader)->trimmed <= has)) {
        sim_run_until(sim, sim->now_ns + 50 * SIM_MS, NULL);
        leader = sim_leader(sim);
    }
}

static void be_killed(struct sim *sim, struct sim_node *node)
{
    sim_note(sim, sim_node_host(node), "is away", 0, 0, 0);
    sim_node_kill(node, sim_chance(sim, 0.5));
    sim_run_until(sim, sim->now_ns + AWAY_NS, NULL);
    die_some_times(sim, node);
    if (!sim->has_failed) {
        sim_node_start(node);
        check_catches_up(sim, node, CATCH_UP_NS);
    }
    if (!sim->has_failed) {
        uint64_t has = applied(node);
        sim_node_kill(node, true);
        wait_for_trim(sim, has);
        sim_node_start(node);
        check_catches_up(sim, node, CATCH_UP_AGAIN_NS);
    }
}

static void be_cut_off(struct sim *sim, struct sim_node *node)
{
    sim_note(sim, sim_node_host(node), "is cut off", 0, 0, 0);
    cut_off(sim, node, true);
    wait_for_trim(sim, applied(node));
    cut_off(sim, node, false);
    if (!sim->has_failed) {
        check_catches_up(sim, node, CATCH_UP_NS);
    }
}

void sim_behind(struct sim *sim)
{
    /* Nodes that died before are back by then. */
    sim_run_until(sim, sim->now_ns + BEFORE_NS, NULL);
    struct sim_node *node = sim_behind_choose(sim);
    if (node == NULL || sim->has_failed || !sim_chance(sim, 0.8)) {
        return;
    }
    sim->is_left_alone = true;
    if (sim_chance(sim, 0.5)) {
        be_cut_off(sim, choose_watched(sim, node));
    } else {
        be_killed(sim, node);
    }
    sim->is_left_alone = false;
}
