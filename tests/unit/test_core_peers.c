/* SPDX-License-Identifier: MIT */

/* What a node takes from the others: whose directory it registers, whose frames
 * it heeds. */

#include "tests/unit/core_world.h"

static struct world *world;
static uint64_t leader, follower, third;

static int set_up(void **state)
{
    (void)state;
    world = world_new(3);
    world_found(world);
    leader = world_elect(world);
    follower = leader % 3 + 1;
    third = follower % 3 + 1;
    world_run(world, 100);
    client_open(world, leader, 1);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    world_free(world);
    return 0;
}

static uint64_t registered(uint64_t id)
{
    return lockfsm_incarnation(core_state(world->node[leader].core), id);
}

/* Its process has gone and its directory is empty now, but the connection has
 * not been closed yet; and meanwhile the member was removed and added again. */
static void a_dead_connections_directory_is_not_registered(void **state)
{
    static const char
        addition[] = "RAFT.ADD 4 127.0.0.1:7104,127.0.0.1:7204 STANDBY";
    struct frame_hello hello = {.from = 4, .incarnation = 77004};
    (void)state;
    node_start(world, 4);
    links_update(world);
    assert_answer(world, leader, 1, "+OK\r\n", "%s", addition);
    world_run(world, 200);
    assert_int_equal(registered(4), 77004);
    assert_answer(world, leader, 1, "+OK\r\n", "RAFT.REMOVE 4");
    assert_int_equal(registered(4), 0);
    node_kill(world, 4);
    assert_answer(world, leader, 1, "+OK\r\n", "%s", addition);
    core_peer_up(world->node[leader].core, &hello, world->now_ms * MS);
    world_run(world, 200);
    assert_int_equal(registered(4), 0);
}

#define PEER_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        PEER_TEST(a_dead_connections_directory_is_not_registered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
