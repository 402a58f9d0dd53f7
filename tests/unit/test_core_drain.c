/* SPDX-License-Identifier: MIT */

/* NODE.DRAIN: a node without clients and without leadership. */

#include <string.h>

#include "tests/unit/core_world.h"

static struct world *world;

static int set_up(void **state)
{
    (void)state;
    world = world_new(3);
    world_found(world);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    world_free(world);
    return 0;
}

static void drain(uint64_t id, const char *words, const char *expected)
{
    static uint64_t conn = 100;
    client_open(world, id, ++conn);
    const char *said = client_ask(world, id, conn, "NODE.DRAIN%s", words);
    if (strstr(said, expected) == NULL) {
        fail_msg("'%s' has no '%s'", said, expected);
    }
}

static void expect(uint64_t id, uint64_t conn, const char *words,
                   const char *begin)
{
    const char *said = client_ask(world, id, conn, "%s", words);
    if (strncmp(said, begin, strlen(begin)) != 0) {
        fail_msg("'%s' does not begin with '%s'", said, begin);
    }
}

static void a_leader_hands_over_and_again(void **state)
{
    (void)state;
    uint64_t leader = world_elect(world);
    drain(leader, "", "drained\r\n:1\r\n");
    world_run(world, 500);
    uint64_t now = world_leader(world);
    assert_true(now != 0 && now != leader);
    client_open(world, now, 1);
    (void)client_ask(world, now, 1, "RAFT.TRANSFER %d", (int)leader);
    world_run(world, 10000);
    assert_true(world_leader(world) != 0 && world_leader(world) != leader);
}

static void clients_are_refused_and_closed(void **state)
{
    (void)state;
    uint64_t leader = world_elect(world), node = leader % 3 + 1;
    client_open(world, node, 1);
    client_open(world, node, 2);
    client_open(world, node, 3);
    expect(node, 1, "SESSION.OPEN TTL 60000", "*");
    expect(node, 2, "RAFT.STATUS", "*");
    drain(node, "", "clients\r\n:1\r\n");
    world_run(world, 200);
    assert_true(world->node[node].client[1].was_closed);
    /* One that asked the node about itself stays until it asks for more. */
    assert_false(world->node[node].client[2].was_closed);
    expect(node, 3, "LOCK.LIST", "-NOLEADER this node is drained");
    world_run(world, 200);
    assert_true(world->node[node].client[3].was_closed);
    drain(node, "", "clients\r\n:0\r\n");
    drain(node, " CANCEL", "drained\r\n:0\r\n");
    client_open(world, node, 4);
    expect(node, 4, "LOCK.LIST", "*");
}

static void a_client_that_waits_is_closed_later(void **state)
{
    (void)state;
    uint64_t leader = world_elect(world), node = leader % 3 + 1;
    client_open(world, leader, 1);
    client_open(world, node, 1);
    expect(leader, 1, "SESSION.OPEN TTL 60000", "*");
    expect(leader, 1, "LOCK.ACQUIRE a", ":");
    expect(node, 1, "SESSION.OPEN TTL 60000", "*");
    client_send(world, node, 1, "LOCK.ACQUIRE a WAIT 50000");
    world_run(world, 100);
    drain(node, "", "clients\r\n:1\r\n");
    world_run(world, 1500);
    assert_false(world->node[node].client[1].was_closed);
    world_run(world, 1000);
    assert_true(world->node[node].client[1].was_closed);
}

/* The client moves to another node and has not died. */
static void no_linger_starts(void **state)
{
    (void)state;
    uint64_t leader = world_elect(world), node = leader % 3 + 1;
    client_open(world, leader, 1);
    client_open(world, node, 1);
    expect(node, 1, "SESSION.OPEN TTL 60000 LINGER 100", "*");
    expect(node, 1, "LOCK.ACQUIRE a", ":");
    drain(node, "", "clients\r\n:1\r\n");
    world_run(world, 200);
    assert_true(world->node[node].client[1].was_closed);
    client_close(world, node, 1);
    world_run(world, 5000);
    expect(leader, 1, "LOCK.ACQUIRE a", "-");
    expect(leader, 1, "SESSION.OPEN TTL 60000", "*");
    expect(leader, 1, "LOCK.ACQUIRE a", "$-1\r\n");
}

/* Whichever client asks: two of three are a majority, one is not. */
static void it_is_refused_if_the_others_are_no_majority(void **state)
{
    (void)state;
    uint64_t leader = world_elect(world), node = leader % 3 + 1;
    uint64_t other = node % 3 + 1;
    world_cut(world, other, true);
    world_run(world, 500);
    drain(node, "", "-BADARG node.drain: not without node");
    assert_false(core_is_draining(world->node[node].core));
    drain(node, " FORCE", "drained\r\n:1\r\n");
    world_run(world, 3000);
    drain(node, "", "safe\r\n:0\r\n");
    world_cut(world, other, false);
    world_run(world, 500);
    drain(node, "", "safe\r\n:1\r\n");
    /* One that is gone while this node is drained counts, too. */
    world_cut(world, other, true);
    world_run(world, 500);
    drain(node, "", "safe\r\n:0\r\n");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_leader_hands_over_and_again),
        TEST(clients_are_refused_and_closed),
        TEST(a_client_that_waits_is_closed_later),
        TEST(no_linger_starts),
        TEST(it_is_refused_if_the_others_are_no_majority),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
