/* SPDX-License-Identifier: MIT */

/* Replicas under chaos: every seed is another history of crashes, lost and
 * reordered messages, partitions, snapshots and changes of the membership. The
 * oracles are in replica_world.h. HASP_SEED and HASP_SEEDS choose others. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "tests/unit/replica_world.h"

struct chaos {
    uint32_t founders;
    uint32_t duration_ms;
    uint32_t crash_every_ms; /* On average; 0: never. */
    uint32_t cut_every_ms;
    uint32_t change_every_ms;
    uint32_t transfer_every_ms;
    double drop;
    double twice;
    uint32_t delay_ms;
    uint32_t disk_ms;
    uint32_t in_flight_max;
    uint64_t snapshot_entries;
};

/* Counts of events, over all seeds of a test. */
static uint64_t changes;
static uint64_t transfers;
static uint64_t installed;
static uint64_t confirmed;
static uint64_t committed;

static bool is_due(struct world *world, uint32_t every_ms)
{
    return every_ms > 0 && world_below(world, every_ms) == 0;
}

static struct world_node *any_node(struct world *world)
{
    return &world->nodes[1 + world_below(world, WORLD_NODES_MAX - 1)];
}

static void cut_some(struct world *world)
{
    memset(world->cut, 0, sizeof world->cut);
    if (world_below(world, 2) == 0) {
        return;
    }
    uint64_t side = world_below(world, 256);
    bool is_one_way = world_below(world, 4) == 0;
    for (uint64_t a = 1; a < WORLD_NODES_MAX; a++) {
        for (uint64_t b = 1; b < WORLD_NODES_MAX; b++) {
            bool is_apart = ((side >> a) & 1) != ((side >> b) & 1);
            world->cut[a][b] = is_apart && (!is_one_way || a < b);
        }
    }
}

static void change_something(struct world *world, struct world_node *leader)
{
    struct replica_update update;
    uint64_t log_index = 0;
    struct world_node *node = any_node(world);
    uint64_t now_ms = world->now_ms;
    char address[16];
    int error;
    snprintf(address, sizeof address, "n%" PRIu64, node->id);
    switch (world_below(world, 6)) {
    case 0:
    case 1:
        /* A removed member comes back unchanged: it still has its log and its
         * vote. */
        error = replica_add(leader->replica, node->id, DIRECTORY(node->id),
                            address, now_ms, &log_index, &update);
        break;
    case 2:
    case 3:
        error = replica_set_role(leader->replica, node->id, MEMBER_VOTER,
                                 now_ms, &log_index, &update);
        break;
    case 4:
        error = replica_set_role(leader->replica, node->id,
                                 world_below(world, 2) == 0 ? MEMBER_STANDBY
                                                            : MEMBER_SPARE,
                                 now_ms, &log_index, &update);
        break;
    default:
        error = replica_remove(leader->replica, node->id, now_ms, &log_index,
                               &update);
    }
    WORLD_CHECK(world, (error == 0) == (log_index > 0));
    world_carry_out(world, leader, &update);
    if (error == 0) {
        changes++;
    }
    if (error == 0 && node->replica == NULL) {
        world_start_node(world, node);
    }
}

static void act(struct world *world, const struct chaos *chaos)
{
    struct world_node *node = any_node(world);
    uint64_t first;
    if (node->replica != NULL && world_below(world, 4) == 0) {
        (void)world_submit(world, node, 1 + (uint32_t)world_below(world, 8),
                           &first);
    }
    if (node->replica != NULL && world_below(world, 4) == 0) {
        world_ask(world, node);
    }
    if (is_due(world, chaos->crash_every_ms)) {
        struct world_node *victim = any_node(world);
        if (world_below(world, 2) == 0) {
            world_kill(world, victim);
        } else {
            world_crash(world, victim);
        }
    }
    node = any_node(world);
    if (node->replica == NULL && node->has_joined &&
        world_below(world, 80) == 0) {
        world->loses_tables = world_below(world, 2) == 0;
        world_start_node(world, node);
    }
    if (is_due(world, chaos->cut_every_ms)) {
        cut_some(world);
    }
    struct world_node *leader = world_leader(world);
    if (leader != NULL && is_due(world, chaos->change_every_ms)) {
        change_something(world, leader);
    }
    if (leader != NULL && is_due(world, chaos->transfer_every_ms)) {
        struct replica_update update;
        int error = replica_transfer(leader->replica,
                                     world_below(world, WORLD_NODES_MAX),
                                     world->now_ms, &update);
        transfers += error == 0 ? 1 : 0;
        world_carry_out(world, leader, &update);
    }
}

static uint64_t run_seed(uint64_t seed, const struct chaos *chaos)
{
    struct world world;
    world_init(&world, seed, chaos->founders);
    world.delay_ms = chaos->delay_ms;
    world.disk_ms = chaos->disk_ms;
    world.stops_half_way = true;
    world.drop = chaos->drop;
    world.twice = chaos->twice;
    world.snapshot_entries = chaos->snapshot_entries;
    for (uint64_t id = 1; id <= chaos->founders; id++) {
        world_crash(&world, &world.nodes[id]);
        world.in_flight_max = chaos->in_flight_max;
        world_start_node(&world, &world.nodes[id]);
    }
    for (uint32_t i = 0; i < chaos->duration_ms; i++) {
        act(&world, chaos);
        world_step(&world);
    }
    world_heal(&world);
    world_settle(&world);
    for (uint64_t id = 1; id < WORLD_NODES_MAX; id++) {
        confirmed += world.nodes[id].confirmed_count;
        installed += world.nodes[id].installed_count;
    }
    uint64_t trace = world.trace;
    committed += world.committed_last;
    world_done(&world);
    return trace;
}

static void run(const struct chaos *chaos, uint64_t seeds)
{
    const char *first = getenv("HASP_SEED");
    const char *count = getenv("HASP_SEEDS");
    uint64_t seed = first != NULL ? strtoull(first, NULL, 10) : 1;
    changes = transfers = installed = confirmed = committed = 0;
    if (count != NULL) {
        seeds = strtoull(count, NULL, 10);
    }
    for (uint64_t i = 0; i < seeds; i++) {
        (void)run_seed(seed + i, chaos);
    }
    assert_true(confirmed > seeds * 10);
    assert_true(committed > seeds * 100);
}

static const struct chaos plain = {
    .founders = 3,
    .duration_ms = 10000,
    .crash_every_ms = 700,
    .cut_every_ms = 800,
    .drop = 0.02,
    .twice = 0.02,
    .delay_ms = 20,
    .disk_ms = 10,
    .in_flight_max = 64,
};

static void three_nodes_survive_crashes_and_partitions(void **state)
{
    (void)state;
    run(&plain, 60);
}

static void five_nodes_survive_a_bad_network(void **state)
{
    struct chaos chaos = plain;
    (void)state;
    chaos.founders = 5;
    chaos.drop = 0.1;
    chaos.twice = 0.1;
    chaos.delay_ms = 60;
    run(&chaos, 60);
}

static void a_single_node_survives_crashes(void **state)
{
    struct chaos chaos = plain;
    (void)state;
    chaos.founders = 1;
    chaos.crash_every_ms = 300;
    run(&chaos, 60);
}

static void snapshots_are_taken_and_installed(void **state)
{
    struct chaos chaos = plain;
    (void)state;
    chaos.snapshot_entries = 40;
    chaos.in_flight_max = 24;
    run(&chaos, 60);
    assert_true(installed > 0);
}

static void membership_changes_under_chaos(void **state)
{
    struct chaos chaos = plain;
    (void)state;
    chaos.change_every_ms = 60;
    chaos.crash_every_ms = 4000;
    chaos.cut_every_ms = 2000;
    chaos.snapshot_entries = 60;
    run(&chaos, 60);
    assert_true(changes > 100);
}

static void a_single_node_grows_under_chaos(void **state)
{
    struct chaos chaos = plain;
    (void)state;
    chaos.founders = 1;
    chaos.change_every_ms = 60;
    chaos.crash_every_ms = 3000;
    chaos.cut_every_ms = 0;
    run(&chaos, 60);
}

static void leadership_moves_under_chaos(void **state)
{
    struct chaos chaos = plain;
    (void)state;
    chaos.founders = 5;
    chaos.transfer_every_ms = 200;
    run(&chaos, 60);
    assert_true(transfers > 100);
}

static void the_same_seed_gives_the_same_bytes(void **state)
{
    struct chaos chaos = plain;
    (void)state;
    chaos.snapshot_entries = 40;
    chaos.change_every_ms = 100;
    for (uint64_t seed = 1; seed <= 5; seed++) {
        uint64_t once = run_seed(seed, &chaos);
        uint64_t again = run_seed(seed, &chaos);
        assert_true(once == again);
    }
    assert_true(installed > 0 && changes > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(three_nodes_survive_crashes_and_partitions),
        cmocka_unit_test(five_nodes_survive_a_bad_network),
        cmocka_unit_test(a_single_node_survives_crashes),
        cmocka_unit_test(snapshots_are_taken_and_installed),
        cmocka_unit_test(membership_changes_under_chaos),
        cmocka_unit_test(a_single_node_grows_under_chaos),
        cmocka_unit_test(leadership_moves_under_chaos),
        cmocka_unit_test(the_same_seed_gives_the_same_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
