/* SPDX-License-Identifier: MIT */

/* Nodes whose states differ, and damage in one (core/members/digests.h). */

#include "base/log.h"
#include "tests/unit/core_fixture.h"
#include "tests/unit/core_world.h"

static int set_up(void **state)
{
    begin_three(state);
    client_open(world, leader, 1);
    client_session(world, leader, 1, "TTL 60000");
    client_ask(world, leader, 1, "LOCK.ACQUIRE a");
    for (uint64_t id = 1; id <= 3; id++) {
        world->node[id].may_fail = true;
    }
    return 0;
}

static struct hold *hold_at(uint64_t id)
{
    const struct lock *lock = NULL;
    for (int i = 0; i < 100 && lock == NULL; i++) {
        world_run(world, 1); /* Until it has applied the entry. */
        lock = lockfsm_lock(core_state(world->node[id].core),
                            BYTES_LITERAL("a"));
    }
    assert_non_null(lock);
    return LIST_FIRST(&lock->holds, struct hold, in_lock);
}

/* A hold that neither a digest nor the table knows: as if this node had applied
 * the entry with another result. */
static void diverge(uint64_t id)
{
    struct hold *hold = hold_at(id);
    assert_int_equal(hold->stored.share, 0);
    hold->delay_ms ^= 4;
}

static void run_with_divergence(uint64_t id)
{
    diverge(id);
    world_run(world, 1000);
}

static void nodes_that_are_alike_go_on(void **state)
{
    (void)state;
    world_run(world, 3000);
    for (uint64_t id = 1; id <= 3; id++) {
        assert_int_equal(world->node[id].fatal_code, 0);
    }
    assert_int_equal(
        core_agreed_index(world->node[leader].core),
        lockfsm_applied_index(core_state(world->node[leader].core)));
}

static void a_follower_that_differs_stops_within_a_second(void **state)
{
    (void)state;
    run_with_divergence(third);
    assert_int_equal(world->node[third].fatal_code, 70);
    assert_int_equal(world->node[leader].fatal_code, 0);
    assert_int_equal(world->node[follower].fatal_code, 0);
}

static void a_leader_that_differs_stops_and_not_its_followers(void **state)
{
    (void)state;
    run_with_divergence(leader);
    assert_int_equal(world->node[leader].fatal_code, 70);
    assert_int_equal(world->node[third].fatal_code, 0);
    assert_int_equal(world->node[follower].fatal_code, 0);
}

static void take_line(void *data, enum log_level level, const char *event,
                      const char *fields)
{
    (void)fields;
    if (level == LOG_ERROR_LEVEL &&
        strcmp(event, "the states of members differ") == 0) {
        ++*(uint32_t *)data;
    }
}

/* One against one: before the third has answered nobody knows which one is
 * right, but the operator learns that one of them is wrong. */
static void without_a_majority_nobody_is_condemned(void **state)
{
    uint32_t told_count = 0;
    (void)state;
    node_kill(world, follower);
    client_ask(world, leader, 1, "LOCK.ACQUIRE b");
    log_set_sink(take_line, &told_count);
    run_with_divergence(third);
    log_set_sink(NULL, NULL);
    assert_true(told_count > 0);
    assert_int_equal(world->node[third].fatal_code, 0);
    assert_int_equal(world->node[leader].fatal_code, 0);
    node_start(world, follower);
    links_update(world);
    world_run(world, 2000);
    assert_int_equal(world->node[third].fatal_code, 70);
    assert_int_equal(world->node[leader].fatal_code, 0);
}

/* Only its leader may say so, and only if it is true. */
static void a_lie_about_the_state_is_not_believed(void **state)
{
    (void)state;
    struct buffer out = {0};
    world_run(world, 1000);
    struct core *core = world->node[third].core;
    uint64_t index = lockfsm_applied_index(core_state(core));
    struct frame_digest lie = {.log_index = index, .digest = 7};
    frame_put_digest(&out, FRAME_DIVERGED, &lie);
    struct bytes body = bytes_of(out.data + FRAME_HEADER_SIZE,
                                 out.size - FRAME_HEADER_SIZE);
    assert_int_equal(core_peer_frame(core, follower, FRAME_DIVERGED, body,
                                     world->now_ms * MS, world_why),
                     0);
    assert_int_equal(world->node[third].fatal_code, 0);
    buffer_clear(&out);
    lie.log_index = index + 1000;
    frame_put_digest(&out, FRAME_DIVERGED, &lie);
    assert_int_equal(core_peer_frame(core, leader, FRAME_DIVERGED, body,
                                     world->now_ms * MS, world_why),
                     0);
    assert_int_equal(world->node[third].fatal_code, 0);
    buffer_done(&out);
}

static void a_bit_that_flips_in_memory_is_found_within_a_second(void **state)
{
    (void)state;
    for (uint64_t id = 1; id <= 3; id++) {
        world_run(world, 1000);
        hold_at(id)->delay_ms ^= 4;
        world_run(world, 1000);
        assert_int_equal(world->node[id].fatal_code, 70);
        node_kill(world, id);
        world->node[id].fatal_code = 0;
        node_start(world, id);
        links_update(world);
    }
    /* Their tables were sound: all are back. */
    world_run(world, 3000);
    for (uint64_t id = 1; id <= 3; id++) {
        assert_int_equal(world->node[id].fatal_code, 0);
        assert_int_equal(hold_at(id)->delay_ms, 0);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(nodes_that_are_alike_go_on),
        TEST(a_follower_that_differs_stops_within_a_second),
        TEST(a_leader_that_differs_stops_and_not_its_followers),
        TEST(without_a_majority_nobody_is_condemned),
        TEST(a_lie_about_the_state_is_not_believed),
        TEST(a_bit_that_flips_in_memory_is_found_within_a_second),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
