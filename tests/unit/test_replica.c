/* SPDX-License-Identifier: MIT */

/* Groups of replicas in a world without faults, except for the one that each
 * test is about. Every oracle of replica_world.h is active. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "tests/unit/replica_world.h"

static uint32_t count_leaders(struct world *world)
{
    uint32_t count = 0;
    for (uint64_t id = 1; id < WORLD_NODES_MAX; id++) {
        struct world_node *node = &world->nodes[id];
        if (node->replica != NULL &&
            replica_role(node->replica) == REPLICA_LEADER) {
            count++;
        }
    }
    return count;
}

static void submit_and_wait(struct world *world, uint32_t count)
{
    uint64_t first;
    struct world_node *leader = world_wait_leader(world);
    assert_int_equal(world_submit(world, leader, count, &first), 0);
    for (int i = 0; i < 5000 && leader->applied < first + count - 1; i++) {
        world_step(world);
    }
    assert_true(leader->applied >= first + count - 1);
}

/* Repeats a change while it is refused for a passing reason, then waits for it
 * to be committed. */
enum change { ADD, ROLE, REMOVE };
static int change(struct world *world, enum change what, uint64_t id,
                  enum member_role role)
{
    struct replica_update update;
    uint64_t log_index = 0;
    char address[16];
    int error = HASP_EBUSY;
    snprintf(address, sizeof address, "n%" PRIu64, id);
    for (int i = 0; i < 20000 && error == HASP_EBUSY; i++) {
        struct world_node *leader = world_wait_leader(world);
        struct replica *r = leader->replica;
        switch (what) {
        case ADD:
            error = replica_add(r, id, DIRECTORY(id), address, world->now_ms,
                                &log_index, &update);
            break;
        case ROLE:
            error = replica_set_role(r, id, role, world->now_ms, &log_index,
                                     &update);
            break;
        case REMOVE:
            error = replica_remove(r, id, world->now_ms, &log_index, &update);
        }
        world_carry_out(world, leader, &update);
        world_step(world);
    }
    for (int i = 0; i < 5000 && world->committed_last < log_index; i++) {
        world_step(world);
    }
    assert_true(world->committed_last >= log_index);
    return error;
}

static void groups_of_one_three_and_five_elect_and_commit(void **state)
{
    (void)state;
    for (uint32_t count = 1; count <= 5; count += 2) {
        struct world world;
        world_init(&world, 10 + count, count);
        submit_and_wait(&world, 20);
        assert_int_equal(count_leaders(&world), 1);
        struct world_node *leader = world_leader(&world);
        world_run(&world, 500);
        for (uint64_t id = 1; id <= count; id++) {
            assert_int_equal(replica_leader(world.nodes[id].replica),
                             leader->id);
            assert_true(world.nodes[id].applied == leader->applied);
        }
        world_done(&world);
    }
}

static void a_silent_group_keeps_its_leader(void **state)
{
    struct world world;
    (void)state;
    world_init(&world, 3, 5);
    struct world_node *leader = world_wait_leader(&world);
    uint64_t term = replica_term(leader->replica);
    world_run(&world, 60000);
    assert_ptr_equal(world_leader(&world), leader);
    assert_int_equal(replica_term(leader->replica), term);
    world_done(&world);
}

static void a_minority_steps_down_and_confirms_nothing(void **state)
{
    struct world world;
    uint64_t first;
    (void)state;
    world_init(&world, 4, 3);
    struct world_node *old = world_wait_leader(&world);
    world_ask(&world, old);
    world_run(&world, 50);
    assert_int_equal(old->confirmed_count, 1);
    for (uint64_t id = 1; id <= 3; id++) {
        world.cut[old->id][id] = world.cut[id][old->id] = true;
    }
    (void)world_submit(&world, old, 3, &first);
    for (uint32_t i = 0; i < 2000; i++) {
        if (i % 10 == 0) {
            world_ask(&world, old);
        }
        world_step(&world);
    }
    assert_int_equal(old->confirmed_count, 1);
    assert_int_not_equal(replica_role(old->replica), REPLICA_LEADER);
    assert_ptr_not_equal(world_wait_leader(&world), old);
    submit_and_wait(&world, 5);
    world_heal(&world);
    world_settle(&world);
    world_done(&world);
}

/* The time until a new leader serves after the old one was killed or fell
 * silent; and whether it is the first of the remaining ones. */
static uint64_t failover_ms(uint64_t seed, bool is_silent, bool *ret_is_first)
{
    struct world world;
    world_init(&world, seed, 3);
    struct world_node *old = world_wait_leader(&world);
    world_run(&world, 500);
    /* A connection closes after its last message: none is under way then. */
    for (uint64_t id = 1; id <= 3; id++) {
        world.cut[old->id][id] = true;
    }
    world_run(&world, 20);
    uint64_t from_ms = world.now_ms;
    if (is_silent) {
        world_crash(&world, old);
    } else {
        world_kill(&world, old);
    }
    while (world_leader(&world) == NULL) {
        world_step(&world);
    }
    uint64_t duration_ms = world.now_ms - from_ms;
    *ret_is_first = world_leader(&world)->id == (old->id == 1 ? 2 : 1);
    world_done(&world);
    return duration_ms;
}

/* Messages of this world take up to 3 ms, an election time-out is 300 ms. 20 ms
 * have passed before the leader is gone, and its last heartbeat may be 50 ms
 * old. One replica heard a silent leader a little later than the other: then
 * the other's first attempt is refused. */
static void who_is_left_stands_in_order(void **state)
{
    bool is_first;
    (void)state;
    for (uint64_t seed = 1; seed <= 500; seed++) {
        assert_in_range(failover_ms(seed, false, &is_first), 1, 40);
        assert_true(is_first);
        assert_in_range(failover_ms(seed, true, &is_first), 300 - 20 - 50, 450);
    }
}

struct slow_failover {
    uint64_t duration_ms;
    uint64_t terms;
};

/* The leader is killed while it is busy; each disk has its own flush. */
static struct slow_failover
slow_failover(uint64_t seed, uint32_t count,
              const uint32_t flush_ms[WORLD_NODES_MAX])
{
    struct world world;
    uint64_t first;
    world_init(&world, seed, count);
    memcpy(world.flush_ms, flush_ms, sizeof world.flush_ms);
    struct world_node *old = world_wait_leader(&world);
    assert_true(replica_term(old->replica) < 5); /* The first is 1. */
    assert_true(world.now_ms < 1000 + 1000 + 8 * flush_ms[1]);
    for (int i = 0; i < 300; i++) {
        (void)world_submit(&world, old, 1, &first);
        world_run(&world, 10);
    }
    old = world_wait_leader(&world);
    uint64_t term = replica_term(old->replica);
    uint64_t from_ms = world.now_ms;
    world_kill(&world, old);
    for (uint32_t i = 0; i < world.message_count; i++) {
        if (world.messages[i].from == old->id) {
            world.messages[i].at_ms = world.now_ms; /* Before it closes. */
        }
    }
    while (world_leader(&world) == NULL && world.now_ms < from_ms + 60000) {
        world_step(&world);
    }
    assert_non_null(world_leader(&world));
    struct slow_failover result = {
        .duration_ms = world.now_ms - from_ms,
        .terms = replica_term(world_leader(&world)->replica) - term,
    };
    world_done(&world);
    return result;
}

/* An election costs two flushes, one after the other; the write before it and
 * the first entry after it cost two more each. */
static void an_election_waits_as_long_as_flushes_take(void **state)
{
    static const uint32_t flushes_ms[] = {0, 50, 100, 300, 500};
    (void)state;
    for (size_t i = 0; i < sizeof flushes_ms / sizeof *flushes_ms; i++) {
        for (uint64_t seed = 1; seed <= 40; seed++) {
            uint32_t count = seed % 3 == 0 ? 5 : 3;
            uint32_t flush_ms[WORLD_NODES_MAX];
            for (uint32_t id = 0; id < WORLD_NODES_MAX; id++) {
                bool is_other = seed % 2 == 0 && id % 2 == 0;
                flush_ms[id] = is_other ? 1 : flushes_ms[i];
            }
            struct slow_failover found = slow_failover(seed, count, flush_ms);
            assert_true(found.terms < 4);
            assert_true(found.duration_ms < 1000 + 8 * flushes_ms[i]);
        }
    }
}

/* The longest commit time of many single entries, one at a time with pauses,
 * when 'dead' of 'count' members are down. */
static uint64_t slowest_commit_ms(uint64_t seed, uint32_t count, uint32_t dead)
{
    struct world world;
    uint64_t slowest_ms = 0;
    world_init(&world, seed, count);
    struct world_node *leader = world_wait_leader(&world);
    for (uint64_t id = 1; dead > 0; id++) {
        if (id != leader->id) {
            world_crash(&world, &world.nodes[id]);
            dead--;
        }
    }
    world_run(&world, 500);
    for (uint64_t i = 0; i < 60; i++) {
        uint64_t first = 0;
        assert_int_equal(world_submit(&world, leader, 1, &first), 0);
        uint64_t from_ms = world.now_ms;
        while (replica_commit_index(leader->replica) < first) {
            world_step(&world);
        }
        uint64_t took_ms = world.now_ms - from_ms;
        slowest_ms = took_ms > slowest_ms ? took_ms : slowest_ms;
        world_run(&world, 60 + world_below(&world, 80));
    }
    world_done(&world);
    return slowest_ms;
}

/* A live voter that the core only probes gets one message per heartbeat (50
 * ms). A message takes up to 4 ms here, a write 3 ms. */
static void the_dead_do_not_delay_the_living(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        assert_true(slowest_commit_ms(seed, 3, 0) < 15);
        assert_true(slowest_commit_ms(seed, 3, 1) < 15);
        assert_true(slowest_commit_ms(seed, 5, 2) < 15);
    }
}

/* From the election of a leader's successor until its first entry is applied.
 * The successor does not know whether the leader's last entry is committed, so
 * the core begins with a barrier. */
static uint64_t first_entry_ms(uint64_t seed, uint32_t flush_ms)
{
    struct world world;
    struct world_node *next = NULL;
    uint64_t first;
    world_init(&world, seed, 3);
    for (uint32_t id = 0; id < WORLD_NODES_MAX; id++) {
        world.flush_ms[id] = flush_ms;
    }
    struct world_node *old = world_wait_leader(&world);
    world_run(&world, 1000);
    assert_int_equal(world_submit(&world, old, 1, &first), 0);
    while (replica_commit_index(old->replica) < first) {
        world_step(&world);
    }
    world_kill(&world, old);
    while (next == NULL) {
        world_step(&world);
        for (uint64_t id = 1; id <= 3; id++) {
            struct world_node *node = &world.nodes[id];
            if (node->replica != NULL &&
                replica_role(node->replica) == REPLICA_LEADER) {
                next = node;
            }
        }
    }
    uint64_t from_ms = world.now_ms;
    while (world_leader(&world) == NULL) {
        world_step(&world);
    }
    uint64_t duration_ms = world.now_ms - from_ms;
    world_done(&world);
    return duration_ms;
}

/* A node that voted receives it at once, not only after the barrier is
 * written. */
static void a_new_leaders_first_entry_costs_one_flush(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        assert_in_range(first_entry_ms(seed, 100), 100, 150);
    }
}

static void leadership_is_handed_over(void **state)
{
    (void)state;
    for (uint64_t to = 0; to <= 3; to++) {
        struct world world;
        struct replica_update update;
        uint64_t first;
        world_init(&world, 20 + to, 3);
        submit_and_wait(&world, 10);
        struct world_node *old = world_leader(&world);
        int error = replica_transfer(old->replica, to, world.now_ms, &update);
        world_carry_out(&world, old, &update);
        if (to == old->id) {
            assert_int_equal(error, HASP_EINVALID);
        } else {
            assert_int_equal(error, 0);
            assert_true(replica_is_transferring(old->replica));
            assert_int_equal(world_submit(&world, old, 1, &first),
                             HASP_ENOTLEADER);
            uint64_t before_ms = world.now_ms;
            while (world_leader(&world) == NULL ||
                   world_leader(&world) == old) {
                world_step(&world);
            }
            assert_true(world.now_ms - before_ms < 100);
            assert_true(to == 0 || world_leader(&world)->id == to);
        }
        submit_and_wait(&world, 10);
        world_done(&world);
    }
}

static void a_group_is_replaced_member_by_member(void **state)
{
    struct world world;
    (void)state;
    world_init(&world, 5, 3);
    world.snapshot_entries = 30;
    submit_and_wait(&world, 60);
    submit_and_wait(&world, 60);
    for (uint64_t id = 4; id <= 6; id++) {
        assert_int_equal(change(&world, ADD, id, MEMBER_STANDBY), 0);
        world_start_node(&world, &world.nodes[id]);
        submit_and_wait(&world, 20);
        assert_int_equal(change(&world, ROLE, id, MEMBER_VOTER), 0);
        submit_and_wait(&world, 20);
        assert_int_equal(change(&world, ROLE, id - 3, MEMBER_STANDBY), 0);
        assert_int_equal(change(&world, ROLE, id - 3, MEMBER_SPARE), 0);
        assert_int_equal(change(&world, REMOVE, id - 3, MEMBER_SPARE), 0);
        assert_int_equal(change(&world, REMOVE, id - 3, MEMBER_SPARE),
                         HASP_ENOENT);
        world_crash(&world, &world.nodes[id - 3]);
        submit_and_wait(&world, 20);
    }
    struct replica_members members;
    struct world_node *leader = world_wait_leader(&world);
    replica_members(leader->replica, &members);
    assert_int_equal(members.count, 3);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(members.member[i].id, 4 + i);
        assert_int_equal(members.member[i].role, MEMBER_VOTER);
    }
    world_settle(&world);
    /* New members came late enough to need a snapshot. */
    assert_true(world.nodes[4].installed_count +
                    world.nodes[5].installed_count +
                    world.nodes[6].installed_count >
                0);
    world_done(&world);
}

static void one_node_grows_to_three(void **state)
{
    struct world world;
    (void)state;
    world_init(&world, 6, 1);
    submit_and_wait(&world, 10);
    for (uint64_t id = 2; id <= 3; id++) {
        assert_int_equal(change(&world, ADD, id, MEMBER_STANDBY), 0);
        world_start_node(&world, &world.nodes[id]);
        assert_int_equal(change(&world, ROLE, id, MEMBER_VOTER), 0);
    }
    world_kill(&world, world_wait_leader(&world));
    submit_and_wait(&world, 10);
    world_heal(&world);
    world_settle(&world);
    world_done(&world);
}

/* T14: the one voter promotes a second, and dies before the entry has left. */
static void growing_to_two_survives_a_crash_at_the_worst_moment(void **state)
{
    struct world world;
    struct replica_update update;
    uint64_t promoted;
    (void)state;
    world_init(&world, 7, 1);
    submit_and_wait(&world, 10);
    assert_int_equal(change(&world, ADD, 2, MEMBER_STANDBY), 0);
    world_start_node(&world, &world.nodes[2]);
    world_run(&world, 1000);
    struct world_node *one = &world.nodes[1];
    world.cut[1][2] = true;
    assert_int_equal(replica_set_role(one->replica, 2, MEMBER_VOTER,
                                      world.now_ms, &promoted, &update),
                     0);
    world_carry_out(&world, one, &update);
    world_run(&world, 100); /* Durable here, unknown there. */
    world_crash(&world, one);
    world_heal(&world);
    submit_and_wait(&world, 10);
    world_settle(&world);
    world_done(&world);
}

static void a_follower_that_lags_gets_a_snapshot(void **state)
{
    struct world world;
    (void)state;
    world_init(&world, 8, 3);
    world.in_flight_max = 64;
    world.snapshot_entries = 50;
    struct world_node *leader = world_wait_leader(&world);
    struct world_node *laggard = &world.nodes[leader->id % 3 + 1];
    world_crash(&world, laggard);
    uint64_t size = 0;
    for (int i = 0; i < 20; i++) {
        submit_and_wait(&world, 20);
        if (replica_log_size(leader->replica) > size) {
            size = replica_log_size(leader->replica);
        }
    }
    /* Entries covered by a snapshot do not count: the log does not seem to grow
     * forever. (Bodies have 64 bytes at most.) */
    assert_true(size > 0 && size < 150 * 64);
    assert_true(leader->trimmed > 100);
    assert_true(leader->disk.count < 300);
    world_heal(&world);
    world_settle(&world);
    assert_true(laggard->installed_count > 0);
    world_done(&world);
}

/* A26 */
static void configurations_are_committed_again_after_a_restart(void **state)
{
    struct world world;
    (void)state;
    world_init(&world, 9, 3);
    assert_int_equal(change(&world, ADD, 4, MEMBER_STANDBY), 0);
    world_start_node(&world, &world.nodes[4]);
    submit_and_wait(&world, 10);
    world_run(&world, 500);
    for (uint64_t id = 1; id <= 4; id++) {
        world_crash(&world, &world.nodes[id]); /* Tables stay as they are. */
    }
    world_heal(&world);
    assert_int_equal(change(&world, ROLE, 4, MEMBER_VOTER), 0);
    assert_int_equal(change(&world, REMOVE, 4, MEMBER_VOTER), 0);
    world_settle(&world);
    world_done(&world);
}

static void a_lost_part_of_an_append_is_sent_again(void **state)
{
    struct world world;
    uint64_t first;
    (void)state;
    world_init(&world, 11, 3);
    struct world_node *leader = world_wait_leader(&world);
    world.drop = 0.5;
    world.twice = 0.3;
    for (int i = 0; i < 200; i++) {
        leader = world_wait_leader(&world);
        (void)world_submit(&world, leader, 10, &first);
        world_run(&world, 20);
    }
    world.drop = 0;
    world_settle(&world);
    assert_true(world.committed_last > 100);
    world_done(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(groups_of_one_three_and_five_elect_and_commit),
        cmocka_unit_test(a_silent_group_keeps_its_leader),
        cmocka_unit_test(a_minority_steps_down_and_confirms_nothing),
        cmocka_unit_test(who_is_left_stands_in_order),
        cmocka_unit_test(an_election_waits_as_long_as_flushes_take),
        cmocka_unit_test(the_dead_do_not_delay_the_living),
        cmocka_unit_test(a_new_leaders_first_entry_costs_one_flush),
        cmocka_unit_test(leadership_is_handed_over),
        cmocka_unit_test(a_group_is_replaced_member_by_member),
        cmocka_unit_test(one_node_grows_to_three),
        cmocka_unit_test(growing_to_two_survives_a_crash_at_the_worst_moment),
        cmocka_unit_test(a_follower_that_lags_gets_a_snapshot),
        cmocka_unit_test(configurations_are_committed_again_after_a_restart),
        cmocka_unit_test(a_lost_part_of_an_append_is_sent_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
