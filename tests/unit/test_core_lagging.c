/* SPDX-License-Identifier: MIT */

/* core with three nodes, one of which lags so far that it needs a snapshot. */

#include "tests/unit/core_fixture.h"
#include "tests/unit/core_world.h"

static int set_up(void **state)
{
    return begin_three(state);
}

/* An acknowledgement of an earlier transfer of the same snapshot, which had
 * progressed further when it was given up. */
static int acknowledge_late(uint64_t from)
{
    struct world_node *node = &world->node[leader];
    struct buffer out = {0};
    struct frame_snapshot_ack ack = {
        .leader_term = replica_term(core_replica(node->core)),
        .last_index = node->snapshot_index,
        .offset = node->snapshot.size - 1,
    };
    frame_put_snapshot_ack(&out, &ack);
    struct bytes body = bytes_of(out.data + FRAME_HEADER_SIZE,
                                 out.size - FRAME_HEADER_SIZE);
    int error = core_peer_frame(node->core, from, FRAME_SNAPSHOT_ACK, body,
                                world->now_ms * MS, world_why);
    buffer_done(&out);
    return error;
}

/* A client that watches at the node that receives it is told that events are
 * missing. */
static void watch_the_third(void)
{
    client_open(world, third, 2);
    client_ask(world, third, 2, "HELLO 3");
    client_ask(world, third, 2, "LOCK.WATCH n1");
    client_open(world, third, 3);
    client_ask(world, third, 3, "PSUBSCRIBE lock:n2*");
}

/* The log no longer reaches back to it. */
static void let_the_third_lag(void)
{
    tear_down(NULL);
    world = world_new(3);
    world->limits.requests_in_flight = 64;
    world->limits.snapshot_chunk_size = 1000;
    world_found(world);
    find_roles();
    client_open(world, leader, 1);
    client_session(world, leader, 1, "TTL 60000");
    node_kill(world, third);
    /* More than the log keeps after a snapshot, several in a batch. */
    for (int i = 0; i < 11000; i++) {
        client_send(world, leader, 1, "LOCK.ACQUIRE n%d", i % 500);
        if (i % 50 == 0) {
            world_run(world, 5);
            client_clear(world, leader, 1);
        }
    }
    world_run(world, 20);
    assert_answer(world, leader, 1, "+OK\r\n", "RAFT.SNAPSHOT");
    assert_true(world->node[leader].log.first > 100);
}

static void hand_over_to(uint64_t other)
{
    assert_answer(world, leader, 1, "+OK\r\n", "RAFT.TRANSFER %d", (int)other);
    leader = world_elect(world);
    assert_int_equal(leader, other);
}

/* Its disk is so slow that another node leads when it is durable. */
static void a_snapshot_that_outlasts_its_leader_is_installed(void **state)
{
    (void)state;
    let_the_third_lag();
    uint64_t first = leader;
    client_open(world, follower, 1);
    hand_over_to(follower);
    assert_answer(world, leader, 1, "+OK\r\n", "RAFT.SNAPSHOT");
    assert_true(world->node[leader].log.first > 100);
    struct world_node *node = &world->node[third];
    node->adopts_late = true;
    node_start(world, third);
    links_update(world);
    for (int i = 0; i < 1500 && !node->snapshot_adopt_due; i++) {
        world_run(world, 1);
    }
    assert_true(node->snapshot_adopt_due);
    hand_over_to(first);
    world_run(world, 50); /* It has heard who leads. */
    assert_in_range(lockfsm_applied_index(core_state(node->core)), 0, 100);
    node->adopts_late = false;
    world_run(world, 10); /* Too short to be sent another one. */
    assert_true(lockfsm_applied_index(core_state(node->core)) > 10000);
}

static void a_node_that_lags_gets_a_snapshot_in_chunks(void **state)
{
    bool was_late = false;
    (void)state;
    let_the_third_lag();
    node_start(world, third);
    watch_the_third();
    links_update(world);
    for (int i = 0; i < 1500; i++) {
        uint32_t chunks = 0;
        world_run(world, 1);
        for (uint32_t m = 0; m < world->message_count; m++) {
            chunks += world->message[m].type == FRAME_SNAPSHOT;
        }
        assert_in_range(chunks, 0, 2);
        if (chunks > 0 && !was_late) {
            was_late = true;
            assert_int_equal(acknowledge_late(third), 0);
        }
    }
    assert_true(was_late);
    assert_true(world->node[third].snapshot_index > 10000);
    assert_non_null(strstr(client_text(world, third, 2), "gap\r\n"));
    assert_non_null(strstr(client_text(world, third, 3),
                           "{\"kind\":\"gap\",\"lock\":\"n2*\""));
    assert_int_equal(lockfsm_hash(core_state(world->node[third].core)),
                     lockfsm_hash(core_state(world->node[leader].core)));
    node_kill(world, third);
    node_start(world, third); /* The installed state is also on its disk. */
    links_update(world);
    world_run(world, 500);
    assert_int_equal(lockfsm_hash(core_state(world->node[third].core)),
                     lockfsm_hash(core_state(world->node[leader].core)));
}

#define lagging(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        lagging(a_node_that_lags_gets_a_snapshot_in_chunks),
        lagging(a_snapshot_that_outlasts_its_leader_is_installed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
