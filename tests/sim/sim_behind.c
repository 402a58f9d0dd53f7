/* SPDX-License-Identifier: MIT */

#include "tests/sim/sim_behind.h"

#include <inttypes.h>

#include "raft/replica.h"
#include "tests/sim/sim_disk.h"
#include "tests/sim/sim_node.h"

/* It is away for so long at most. */
#define AWAY_NS (10 * SIM_S)
#define CATCH_UP_NS (10 * SIM_S)
#define DEATHS_MAX 4
/* Calls on files of a start and an installation. */
#define CALLS_MAX 300

struct sim_node *sim_behind_choose(struct sim *sim)
{
    struct replica_members members;
    if (!sim_members(sim, &members)) {
        return NULL;
    }
    uint64_t from = prng_below(&sim->prng, members.count);
    for (uint32_t i = 0; i < members.count; i++) {
        const struct replica_member
            *member = &members.member[(from + i) % members.count];
        struct sim_node *node = sim->node[member->id - 1];
        if (member->role == MEMBER_VOTER && node != sim_leader(sim) &&
            sim_node_core(node) != NULL) {
            return node;
        }
    }
    return NULL;
}

static uint64_t applied(struct sim_node *node)
{
    struct core *core = sim_node_core(node);
    return core != NULL ? lockfsm_applied_index(core_state(core)) : 0;
}

/* Starts it again and again; each time it dies within some calls. */
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

static void check_catches_up(struct sim *sim, struct sim_node *node)
{
    struct sim_node *leader = sim_leader(sim);
    uint64_t goal = leader != NULL ? applied(leader) : 0;
    uint64_t until_ns = sim->now_ns + CATCH_UP_NS;
    while (applied(node) < goal && sim->now_ns < until_ns && !sim->has_failed) {
        sim_run_until(sim, sim->now_ns + 50 * SIM_MS, NULL);
    }
    if (applied(node) < goal) {
        sim_fail(sim, ORACLE_CATCHING_UP,
                 "who was away catches up: %s has applied %" PRIu64
                 " and not %" PRIu64,
                 sim_node_host(node)->name, applied(node), goal);
    }
}

void sim_behind(struct sim *sim)
{
    struct sim_node *node = sim_behind_choose(sim);
    if (node == NULL || !sim_chance(sim, 0.5)) {
        return;
    }
    sim->is_left_alone = true;
    sim_note(sim, sim_node_host(node), "is away", 0, 0, 0);
    sim_node_kill(node, sim_chance(sim, 0.5));
    sim_run_until(sim, sim->now_ns + AWAY_NS, NULL);
    die_some_times(sim, node);
    if (!sim->has_failed) {
        sim_node_start(node);
        check_catches_up(sim, node);
    }
    if (!sim->has_failed) {
        sim_node_kill(node, true);
        sim_run_until(sim, sim->now_ns + 100 * SIM_MS, NULL);
        sim_node_start(node);
        check_catches_up(sim, node);
    }
    sim->is_left_alone = false;
}
