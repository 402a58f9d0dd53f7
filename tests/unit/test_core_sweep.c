/* SPDX-License-Identifier: MIT */

/* Work that one entry does not finish: the leader proposes the rest, whichever
 * node leads. */

#include "tests/unit/core_fixture.h"
#include "tests/unit/core_world.h"

#define SLICE 3
#define LOCKS 40

static int set_up(void **state)
{
    (void)state;
    world = world_new(3);
    world->limits.slice = SLICE;
    world_found(world);
    leader = world_elect(world);
    client_open(world, leader, 1);
    client_open(world, leader, 2);
    client_session(world, leader, 1, "TTL 60000");
    client_session(world, leader, 2, "TTL 60000");
    return 0;
}

static void check_equal_states(void)
{
    for (uint64_t id = 2; id <= world->node_count; id++) {
        assert_true(lockfsm_hash(core_state(world->node[1].core)) ==
                    lockfsm_hash(core_state(world->node[id].core)));
    }
}

static uint64_t held(void)
{
    return lockfsm_hold_count(core_state(world->node[leader].core));
}

static void hold_all(uint64_t conn)
{
    for (int i = 0; i < LOCKS; i++) {
        client_ask(world, leader, conn, "LOCK.ACQUIRE many%d", i);
    }
    assert_int_equal(held(), LOCKS);
}

static void a_large_session_goes_in_slices(void **state)
{
    (void)state;
    hold_all(1);
    assert_answer(world, leader, 1, ":40\r\n", "SESSION.CLOSE");
    uint64_t before = held();
    assert_true(before > 0 && before <= LOCKS);
    /* Others are served meanwhile. */
    assert_memory_equal(client_ask(world, leader, 2, "LOCK.ACQUIRE other"), ":",
                        1);
    assert_true(held() > 1);
    for (int i = 0; i < 200 && held() > 1; i++) {
        uint64_t was = held();
        world_run(world, 1);
        assert_true(was - held() <= SLICE);
    }
    assert_int_equal(held(), 1);
    assert_null(core_check(world->node[leader].core));
    world_run(world, 300);
    check_equal_states();
}

static void the_next_leader_goes_on(void **state)
{
    (void)state;
    hold_all(1);
    client_ask(world, leader, 1, "SESSION.CLOSE");
    assert_true(held() > SLICE);
    node_kill(world, leader);
    leader = world_elect(world);
    world_run(world, 500);
    assert_int_equal(held(), 0);
    assert_null(lockfsm_locks(core_state(world->node[leader].core)));
}

static void many_readers_are_let_in_in_slices(void **state)
{
    (void)state;
    client_ask(world, leader, 1, "LOCK.ACQUIRE a");
    client_ask(world, leader, 2, "HELLO 3");
    for (int i = 0; i < LOCKS; i++) {
        client_send(world, leader, 2,
                    "LOCK.ACQUIRE a OWNER o%d SHARED WAIT 60000 PUSH REQ %d", i,
                    i + 1);
    }
    world_run(world, 100);
    assert_int_equal(lockfsm_wait_count(core_state(world->node[leader].core)),
                     LOCKS);
    client_ask(world, leader, 1, "LOCK.RELEASE a");
    assert_true(held() < LOCKS);
    world_run(world, 500);
    assert_int_equal(held(), LOCKS);
    check_equal_states();
}

/* A leader whose BEGIN is applied here, and which does not serve yet. */
static uint64_t new_leader(void)
{
    for (uint64_t id = 1; id <= world->node_count; id++) {
        const struct core *core = world->node[id].core;
        if (core != NULL && !core_is_serving(core) &&
            replica_role(core_replica(core)) == REPLICA_LEADER &&
            lockfsm_applied_term(core_state(core)) ==
                replica_term(core_replica(core))) {
            return id;
        }
    }
    return 0;
}

static unsigned session_count(void)
{
    return HASH_CNT(by_id,
                    lockfsm_sessions(core_state(world->node[leader].core)));
}

static void a_new_leader_starts_its_deadlines_in_slices(void **state)
{
    int slices_ms = 0;
    (void)state;
    for (int i = 0; i < 300; i++) {
        client_session(world, leader, 1, "TTL 8000");
    }
    uint64_t killed = leader;
    node_kill(world, killed);
    for (int i = 0; i < 5000 && world_leader(world) == 0; i++) {
        world_run(world, 1);
        if (new_leader() != 0) {
            assert_null(core_check(world->node[new_leader()].core));
            slices_ms++;
        }
    }
    leader = world_leader(world);
    assert_true(slices_ms > 1);
    assert_int_equal(session_count(), 302);
    world_run(world, 3000);
    assert_int_equal(session_count(), 302);
    world_run(world, 8000);
    assert_int_equal(session_count(), 2); /* Those with a TTL of a minute. */
    node_start(world, killed);
    links_update(world);
    world_run(world, 1000);
    check_equal_states();
}

static void who_steps_down_before_it_serves_leaves_nothing(void **state)
{
    (void)state;
    for (int i = 0; i < 300; i++) {
        client_session(world, leader, 1, "TTL 60000");
    }
    node_kill(world, leader);
    for (int i = 0; i < 5000 && new_leader() == 0; i++) {
        world_run(world, 1);
    }
    uint64_t former = new_leader();
    assert_int_not_equal(former, 0);
    world_cut(world, former, true);
    node_start(world, leader);
    links_update(world);
    leader = world_elect(world);
    world_cut(world, former, false);
    world_run(world, 1000);
    assert_int_equal(world_leader(world), leader);
    assert_int_equal(session_count(), 302);
    assert_null(core_check(world->node[former].core));
    check_equal_states();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_large_session_goes_in_slices, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(the_next_leader_goes_on, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(many_readers_are_let_in_in_slices,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            a_new_leader_starts_its_deadlines_in_slices, set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            who_steps_down_before_it_serves_leaves_nothing, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
