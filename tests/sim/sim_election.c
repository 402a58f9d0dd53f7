/* SPDX-License-Identifier: MIT */

#include "tests/sim/sim_election.h"

#include "tests/sim/sim_disk.h"
#include "tests/sim/sim_node.h"

/* Time for the disks to become slow and queues to fill. */
#define BEFORE_NS (3 * SIM_S)
/* A leader serves within this time and this many flushes, ... */
#define WITHIN_NS (1500 * SIM_MS)
#define FLUSHES 6
/* ... and the longest time of an election at the slowest clock for each
 * election without a winner, plus one if no node noticed the death of the old
 * leader. */
#define UNHEARD_NS (2 * UINT64_C(1000) * SIM_MS * 10 / 9)
#define TERMS_MAX 3
/* A voter that needs a snapshot acknowledges nothing until it has installed it,
 * which takes some flushes, and one for each segment of its log. */
#define INSTALL_FLUSHES 60

static void set_flushes(struct sim *sim, uint64_t flush_ms, bool is_mixed)
{
    for (uint32_t i = 0; i < sim->node_count; i++) {
        bool is_fast = is_mixed && sim_chance(sim, 0.5);
        sim_node_disk(sim->node[i])->flush_ns = is_fast ? 0 : flush_ms * SIM_MS;
    }
}

/* Enough that the others are a majority, whichever dies. A node that has lost
 * its disk runs, but is not a voter. */
static bool may_lose_one(struct sim *sim)
{
    struct replica_members members;
    uint32_t voters = 0;
    uint32_t running = 0;
    if (!sim_members(sim, &members)) {
        return false;
    }
    for (uint32_t i = 0; i < members.count; i++) {
        if (members.member[i].role == MEMBER_VOTER) {
            voters++;
            struct sim_node *node = sim_node_of(sim, &members.member[i]);
            running += sim_node_core(node) != NULL &&
                       sim_node_is_named(node, &members);
        }
    }
    return voters >= 3 && running == voters;
}

/* True if a voter lacks entries that a snapshot has replaced in another node's
 * log. */
static bool is_one_behind(struct sim *sim)
{
    struct replica_members members;
    uint64_t least = UINT64_MAX, most = 0;
    if (!sim_members(sim, &members)) {
        return false;
    }
    for (uint32_t i = 0; i < members.count; i++) {
        struct sim_node *node = sim_node_of(sim, &members.member[i]);
        struct core *core = sim_node_core(node);
        if (members.member[i].role == MEMBER_VOTER && core != NULL) {
            uint64_t last = replica_last_index(core_replica(core));
            uint64_t snapshot = sim_node_disk(node)->newest.log_index;
            least = last < least ? last : least;
            most = snapshot > most ? snapshot : most;
        }
    }
    return least < most;
}

static uint64_t newest_term(struct sim *sim)
{
    uint64_t term = 0;
    for (uint32_t i = 0; i < sim->node_count; i++) {
        uint64_t here = sim_node_term(sim->node[i]);
        term = here > term ? here : term;
    }
    return term;
}

static bool is_led(struct sim *sim)
{
    return sim_leader(sim) != NULL;
}

/* The longest time that elections in this many new terms can take. */
static uint64_t within(uint64_t terms, uint64_t flush_ms, bool is_unheard)
{
    uint64_t lost = terms > 1 ? terms - 1 : 0;
    return WITHIN_NS + FLUSHES * flush_ms * SIM_MS +
           (lost + is_unheard) * UNHEARD_NS;
}

void sim_election(struct sim *sim)
{
    static const uint64_t flushes_ms[] = {0, 50, 100, 300, 500};
    uint64_t flush_ms = flushes_ms[prng_below(&sim->prng, 5)];
    bool is_unheard = sim_chance(sim, 0.5);
    set_flushes(sim, flush_ms, sim_chance(sim, 0.25));
    sim_run_until(sim, sim->now_ns + BEFORE_NS, NULL);
    if (!sim->has_failed && may_lose_one(sim)) {
        struct sim_node *old = sim_leader(sim);
        uint64_t term = newest_term(sim);
        uint64_t from_ns = sim->now_ns;
        uint64_t more_ns = is_one_behind(sim)
                               ? INSTALL_FLUSHES * flush_ms * SIM_MS
                               : 0;
        sim->is_left_alone = true;
        sim_node_kill(old, is_unheard);
        sim_run_until(
            sim, from_ns + within(TERMS_MAX, flush_ms, is_unheard) + more_ns,
            is_led);
        uint64_t terms = newest_term(sim) - term;
        uint64_t took_ns = sim->now_ns - from_ns;
        sim_note(sim, NULL, "led again", took_ns / SIM_MS, terms, flush_ms);
        if (!sim->has_failed &&
            (!is_led(sim) || terms > TERMS_MAX ||
             took_ns > within(terms, flush_ms, is_unheard) + more_ns)) {
            sim_fail(sim, ORACLE_ELECTIONS,
                     "an election waits for slow disks, and ends: with flushes "
                     "of %llu ms, %s after %llu ms, in %llu terms",
                     (unsigned long long)flush_ms,
                     is_led(sim) ? "a leader" : "none",
                     (unsigned long long)(took_ns / SIM_MS),
                     (unsigned long long)terms);
        }
    }
    sim->is_left_alone = false;
    set_flushes(sim, 0, false);
}
