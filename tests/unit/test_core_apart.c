/* SPDX-License-Identifier: MIT */

/* A node whose peers belong to another cluster: alone it serves no client; with
 * others it continues. */

#include "base/log.h"
#include "tests/unit/core_world.h"

static const uint8_t another[CLUSTER_ID_SIZE] = {0xab, 0xcd, 0xef, 0x01, 5};
static struct world *world;

static int tear_down(void **state)
{
    (void)state;
    world_free(world);
    return 0;
}

static uint64_t begin(uint64_t count)
{
    world = world_new(count);
    world_found(world);
    uint64_t leader = world_elect(world);
    client_open(world, leader, 1);
    assert_answer(world, leader, 1, "+OK\r\n", "SET k v PX 60000");
    return leader;
}

static void meet_another(uint64_t id)
{
    core_another_cluster(world->node[id].core, 7, "10.0.0.7:7421", another,
                         world->now_ms * MS);
    world_run(world, 10);
}

static void alone_it_serves_nobody(void **state)
{
    char why[HASP_WHY_SIZE];
    (void)state;
    uint64_t id = begin(1);
    struct core *core = world->node[id].core;
    client_open(world, id, 2);
    assert_false(core_is_apart(core, why));
    meet_another(id);
    assert_true(core_is_apart(core, why));
    assert_non_null(strstr(why, "node 7 (10.0.0.7:7421) belongs to another "
                                "cluster, abcdef01"));
    /* Connections were closed; new ones are refused, except for requests about
     * the node itself. */
    client_open(world, id, 3);
    const char *said = client_ask(world, id, 3, "SET k v PX 60000");
    assert_memory_equal(said, "-NOLEADER this node is alone", 28);
    said = client_ask(world, id, 3, "GET k");
    assert_memory_equal(said, "-NOLEADER this node is alone", 28);
    assert_answer(world, id, 3, "+PONG\r\n", "PING");
    said = client_ask(world, id, 3, "RAFT.STATUS");
    assert_non_null(strstr(said, "belongs to another cluster"));
    /* Each greeting prolongs it; a minute without one ends it. */
    world_run(world, 40000);
    meet_another(id);
    world_run(world, 40000);
    assert_true(core_is_apart(core, why));
    world_run(world, 21000);
    assert_false(core_is_apart(core, why));
    assert_answer(world, id, 3, "+OK\r\n", "SET l v PX 60000");
}

static void with_others_it_goes_on(void **state)
{
    char why[HASP_WHY_SIZE];
    (void)state;
    uint64_t id = begin(3);
    meet_another(id);
    assert_false(core_is_apart(world->node[id].core, why));
    assert_answer(world, id, 1, "+OK\r\n", "SET l v PX 60000");
    /* Nor does one that is cut off from them. */
    uint64_t other = id % 3 + 1;
    world_cut(world, other, true);
    meet_another(other);
    assert_false(core_is_apart(world->node[other].core, why));
}

#define TEST(name) cmocka_unit_test_teardown(name, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(alone_it_serves_nobody),
        TEST(with_others_it_goes_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
