/* SPDX-License-Identifier: MIT */

#include "tests/sim/sim_slow.h"

#include <stdlib.h>

#include "base/memory.h"
#include "tests/sim/sim_behind.h"
#include "tests/sim/sim_disk.h"
#include "tests/sim/sim_net.h"
#include "tests/sim/sim_node.h"

#define PERIOD_NS (20 * SIM_S)
#define PERIODS 5
/* 60 s at the slowest clock, and until 20 flushes have been measured. */
#define ALONE_NS (90 * SIM_S)
#define RESTART_NS (4 * SIM_S)
/* A disk that was in use. */
#define USED_COUNT 200
/* 30 s at the fastest clock. */
#define LEADERSHIP_NS (27 * SIM_S)
#define FORGOTTEN_NS (600 * SIM_S)
#define DOUBLINGS_MAX 4

struct seen {
    uint64_t moved_count;
    uint64_t serving_ns; /* Since when; 0: it does not serve. */
    uint64_t served_ns;  /* When it last served; 0: never. */
    uint32_t doublings;
};

struct sim_slow {
    struct sim *sim;
    struct seen seen[SIM_NODE_MAX];
};

struct sim_slow *sim_slow_new(struct sim *sim)
{
    struct sim_slow *slow = memory_new(sizeof *slow);
    slow->sim = sim;
    return slow;
}

void sim_slow_free(struct sim_slow *slow)
{
    free(slow);
}

void sim_slow_started(struct sim_slow *slow, struct sim_node *node)
{
    slow->seen[sim_node_number(node)] = (struct seen){.serving_ns = 0};
}

/* --- The oracle ----------------------------------------------------------- */

static struct sim_node *node_of_id(struct sim *sim, struct sim_node *leader,
                                   uint64_t id)
{
    struct replica_members members;
    replica_members(core_replica(sim_node_core(leader)), &members);
    const struct replica_member *member = replica_members_find(&members, id);
    return member != NULL ? sim_node_of(sim, member) : NULL;
}

static void check_successor(struct sim *sim, struct sim_node *leader,
                            uint64_t id)
{
    struct sim_node *successor = node_of_id(sim, leader, id);
    const struct core *core = successor != NULL ? sim_node_core(successor)
                                                : NULL;
    if (core == NULL) {
        return; /* It has just died. */
    }
    uint64_t commit = replica_commit_index(core_replica(sim_node_core(leader)));
    uint64_t last = replica_last_index(core_replica(core));
    uint64_t own_us, successor_us;
    uint32_t count;
    if (last < commit) {
        sim_fail(sim, ORACLE_DISKS,
                 "the successor of a slow disk has everything committed: %s "
                 "has entries up to %llu of %llu",
                 sim_node_host(successor)->name, (unsigned long long)last,
                 (unsigned long long)commit);
    }
    (void)core_disk_is_slow(sim_node_core(leader), &own_us);
    if (!core_disk_flush(sim_node_core(leader), id, &successor_us, &count) ||
        own_us < 50000 || own_us < 4 * successor_us) {
        sim_fail(sim, ORACLE_DISKS,
                 "a leader hands over to a disk that is four times faster: "
                 "%s's flushes take %llu us, those of %s %llu",
                 sim_node_host(leader)->name, (unsigned long long)own_us,
                 sim_node_host(successor)->name,
                 (unsigned long long)successor_us);
    }
}

static void check_moved(struct sim *sim, struct sim_node *node,
                        const struct seen *seen, uint64_t to)
{
    uint64_t required_ns = LEADERSHIP_NS << seen->doublings;
    uint64_t led_ns = seen->serving_ns != 0 ? sim->now_ns - seen->serving_ns
                                            : 0;
    sim_note(sim, sim_node_host(node), "leaves its slow disk", to,
             led_ns / SIM_MS, seen->doublings);
    if (seen->serving_ns != 0 && led_ns < required_ns) {
        sim_fail(sim, ORACLE_DISKS,
                 "leadership does not follow the disks: %s hands over after "
                 "%llu ms, having led before %u times",
                 sim_node_host(node)->name,
                 (unsigned long long)(led_ns / SIM_MS), seen->doublings);
    }
    check_successor(sim, node, to);
}

void sim_slow_stepped(struct sim_slow *slow, struct sim_node *node)
{
    struct sim *sim = slow->sim;
    struct seen *seen = &slow->seen[sim_node_number(node)];
    const struct core *core = sim_node_core(node);
    uint64_t to, count = core_disk_moved(core, &to);
    bool serves = core_is_serving(core);
    if (count != seen->moved_count) {
        check_moved(sim, node, seen, to);
        seen->moved_count = count;
    }
    if (serves && seen->serving_ns == 0) {
        bool has_led = seen->served_ns != 0 &&
                       sim->now_ns - seen->served_ns < FORGOTTEN_NS / 2;
        seen->serving_ns = sim->now_ns;
        seen->doublings = !has_led ? 0
                          : seen->doublings < DOUBLINGS_MAX
                              ? seen->doublings + 1
                              : DOUBLINGS_MAX;
    } else if (!serves && seen->serving_ns != 0) {
        seen->serving_ns = 0;
        seen->served_ns = sim->now_ns;
    }
}

/* --- Disks that differ ---------------------------------------------------- */

static void set_flush(struct sim_node *node, uint64_t flush_ms)
{
    sim_node_disk(node)->flush_ns = flush_ms * SIM_MS;
}

static void set_all(struct sim *sim, uint64_t low_ms, uint64_t high_ms)
{
    for (uint32_t i = 0; i < sim->node_count; i++) {
        set_flush(sim->node[i], sim_between(sim, low_ms, high_ms));
    }
}

static struct sim_node *leader_or_any(struct sim *sim)
{
    struct sim_node *leader = sim_leader(sim);
    return leader != NULL ? leader
                          : sim->node[prng_below(&sim->prng, sim->node_count)];
}

static void alternate(struct sim *sim)
{
    for (uint32_t i = 0; i < PERIODS && !sim->has_failed; i++) {
        set_all(sim, 0, 10);
        uint64_t flush_ms = sim_between(sim, 60, 300);
        set_flush(leader_or_any(sim), flush_ms);
        sim_run_until(sim, sim->now_ns + PERIOD_NS, NULL);
    }
}

static void all_are_slow(struct sim *sim)
{
    set_all(sim, 60, 150);
    sim_run_until(sim, sim->now_ns + 2 * PERIOD_NS, NULL);
}

static void set_delay(struct sim *sim, const struct sim_node *node,
                      uint64_t delay_ns)
{
    uint32_t host = sim_node_number(node);
    for (uint32_t i = 0; i < sim->node_count; i++) {
        sim_net_set_delay(sim, host, i, delay_ns);
        sim_net_set_delay(sim, i, host, delay_ns);
    }
}

/* The fastest voter never catches up completely. */
static void fastest_is_far(struct sim *sim)
{
    struct sim_node *far = sim_behind_choose(sim);
    if (far == NULL) {
        return;
    }
    set_all(sim, 5, 10);
    set_flush(far, 0);
    set_delay(sim, far, 400 * SIM_MS);
    /* The network settles: the delay may cause an election. */
    sim_run_until(sim, sim->now_ns + PERIOD_NS, NULL);
    if (sim->has_failed) {
        return;
    }
    uint64_t flush_ms = sim_between(sim, 60, 120);
    set_flush(leader_or_any(sim), flush_ms);
    sim_run_until(sim, sim->now_ns + 3 * PERIOD_NS, NULL);
    set_delay(sim, far, SIM_MS);
}

static uint64_t flushes(struct sim_node *node)
{
    return histogram_total(&sim_node_disk(node)->durable.writes.times);
}

/* Processes that have just begun have not led before, except one. */
static void start_all_again(struct sim *sim)
{
    for (uint32_t i = 0; i < sim->node_count && !sim->has_failed; i++) {
        if (sim_node_core(sim->node[i]) != NULL) {
            sim_node_kill(sim->node[i], false);
            sim_run_until(sim, sim->now_ns + RESTART_NS, NULL);
            sim_node_start(sim->node[i]);
            sim_run_until(sim, sim->now_ns + RESTART_NS, NULL);
        }
    }
}

static bool are_all_up(struct sim *sim)
{
    struct replica_members members;
    uint32_t voters = 0;
    if (sim_leader(sim) == NULL || !sim_members(sim, &members)) {
        return false;
    }
    for (uint32_t i = 0; i < members.count; i++) {
        struct sim_node *node = sim_node_of(sim, &members.member[i]);
        voters += members.member[i].role == MEMBER_VOTER;
        if (sim_node_core(node) == NULL || !sim_node_is_named(node, &members)) {
            return false;
        }
    }
    return voters >= 3;
}

static void leader_alone_is_slow(struct sim *sim)
{
    set_all(sim, 0, 0);
    start_all_again(sim);
    if (sim->has_failed || !are_all_up(sim)) {
        return;
    }
    struct sim_node *leader = sim_leader(sim);
    uint64_t count = flushes(leader), term = sim_node_term(leader);
    set_flush(leader, sim_between(sim, 60, 200));
    sim_run_until(sim, sim->now_ns + ALONE_NS, NULL);
    if (!sim->has_failed && are_all_up(sim) && sim_leader(sim) == leader &&
        sim_node_term(leader) == term &&
        flushes(leader) - count >= USED_COUNT) {
        sim_fail(sim, ORACLE_DISKS,
                 "a leader whose disk alone is slow hands over: %s leads "
                 "after %llu s with %llu flushes",
                 sim_node_host(leader)->name,
                 (unsigned long long)(ALONE_NS / SIM_S),
                 (unsigned long long)(flushes(leader) - count));
    }
}

void sim_slow(struct sim *sim)
{
    static void (*const differ[])(struct sim * sim) = {
        alternate, all_are_slow, fastest_is_far, leader_alone_is_slow};
    /* Not drawn, so that all other runs are unchanged. */
    if (sim->options.seed % 4 != 1) {
        return;
    }
    sim_note(sim, NULL, "disks differ", sim->options.seed / 4 % 4, 0, 0);
    differ[sim->options.seed / 4 % 4](sim);
    set_all(sim, 0, 0);
}
