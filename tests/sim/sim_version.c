/* SPDX-License-Identifier: MIT */

#include "tests/sim/sim_version.h"

#include "lockfsm/feature.h"
#include "tests/sim/sim_check.h"
#include "tests/sim/sim_node.h"

#define OLD FEATURE_LEVEL_FIRST
#define NEW (FEATURE_LEVEL_FIRST + 1)
/* Half of the runs that upgrade go back in between, if they still can. */
#define BACK_FROM_NS (8 * SIM_S)
#define BACK_TO_NS (14 * SIM_S)

static bool has_two(const struct sim *sim)
{
    return sim->options.seed % 2 == 1;
}

/* The version that the operator wants now. */
static uint32_t wanted(const struct sim *sim)
{
    bool is_back = sim->options.seed % 4 == 1 && sim->now_ns > BACK_FROM_NS &&
                   sim->now_ns < BACK_TO_NS;
    return is_back && sim_check_level(sim) < NEW ? OLD : NEW;
}

uint32_t sim_version_choose(struct sim *sim, uint32_t before)
{
    if (!has_two(sim)) {
        return NEW;
    }
    if (before == 0) {
        /* A cluster of the old version, or of both. */
        return sim_chance(sim, 0.8) ? OLD : NEW;
    }
    if (sim->phase == SIM_CHAOS && sim_chance(sim, 0.2)) {
        return OLD; /* By mistake, too. */
    }
    return sim_chance(sim, 0.7) ? wanted(sim) : before;
}

bool sim_version_is_ripe(struct sim *sim)
{
    struct replica_members members;
    if (sim_check_level(sim) == NEW || !sim_members(sim, &members)) {
        return false;
    }
    for (uint32_t i = 0; i < members.count; i++) {
        struct sim_node *node = sim_node_of(sim, &members.member[i]);
        if (sim_node_core(node) == NULL || sim_node_level(node) != NEW) {
            return false;
        }
    }
    return true;
}

/* One after the other is stopped; the next start is with another version. */
static void exchange(struct sim *sim, struct sim_event *event)
{
    struct sim_node *node = sim->node[prng_below(&sim->prng, sim->node_count)];
    if (sim->phase != SIM_CHAOS) {
        return;
    }
    if (sim_node_core(node) != NULL && sim_node_level(node) != wanted(sim)) {
        sim_node_stop(node);
    }
    sim_at(sim, event, sim->now_ns + sim_between(sim, 100, 1500) * SIM_MS);
}

void sim_version_begin(struct sim *sim)
{
    sim->exchange.run = exchange;
    if (has_two(sim)) {
        sim_at(sim, &sim->exchange, sim_between(sim, 1000, 3000) * SIM_MS);
    }
}
