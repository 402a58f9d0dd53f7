/* SPDX-License-Identifier: MIT */

/* The slow log: which requests are in it, and where their time went. */

#include <string.h>

#include "core/slow_log.h"
#include "core/state.h"
#include "tests/unit/core_world.h"

static struct world *world;
static uint64_t leader;

#define SLOW_MS 50

static void set_slow_ms(uint64_t node, uint32_t slow_ms)
{
    struct core *core = world->node[node].core;
    struct core_options options = core->options;
    options.slow_ms = slow_ms;
    core_change(core, &options);
}

static int set_up(void **state)
{
    (void)state;
    world = world_new(3);
    world_found(world);
    for (uint64_t id = 1; id <= 3; id++) {
        set_slow_ms(id, SLOW_MS);
    }
    leader = world_elect(world);
    client_open(world, leader, 1);
    client_session(world, leader, 1, "TTL 60000 NAME ann");
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    world_free(world);
    return 0;
}

/* --- Helpers -------------------------------------------------------------- */

static uint64_t follower(void)
{
    return leader == 1 ? 2 : 1;
}

/* Milliseconds of the newest slow request of a node in a stage. */
static uint64_t spent_ms(uint64_t node, enum slow_stage stage)
{
    const struct slow_request *slow = slow_log_at(world->node[node].core, 0);
    assert_non_null(slow);
    return slow->spent_ns[stage] / MS;
}

static uint64_t count_of(uint64_t node)
{
    return core_slow_count(world->node[node].core);
}

static void set_flushes(uint64_t of_leader, uint64_t of_others)
{
    for (uint64_t id = 1; id <= 3; id++) {
        world->node[id].flush_ms = id == leader ? of_leader : of_others;
    }
}

/* --- Tests ---------------------------------------------------------------- */

static void quick_requests_are_not_recorded(void **state)
{
    (void)state;
    client_ask(world, leader, 1, "LOCK.ACQUIRE a REQ 1");
    assert_int_equal(count_of(leader), 0);
    assert_null(slow_log_at(world->node[leader].core, 0));
}

static void a_slow_disk_is_flush_and_slow_others_are_replicate(void **state)
{
    (void)state;
    set_flushes(80, 0);
    client_ask(world, leader, 1, "LOCK.ACQUIRE a REQ 1");
    assert_int_equal(count_of(leader), 1);
    assert_in_range(spent_ms(leader, SLOW_FLUSH), 75, 90);
    assert_in_range(spent_ms(leader, SLOW_REPLICATE), 0, 5);
    set_flushes(0, 80);
    client_ask(world, leader, 1, "LOCK.ACQUIRE b REQ 2");
    assert_int_equal(count_of(leader), 2);
    assert_in_range(spent_ms(leader, SLOW_FLUSH), 0, 5);
    assert_in_range(spent_ms(leader, SLOW_REPLICATE), 75, 90);
    const struct slow_request *slow = slow_log_at(world->node[leader].core, 0);
    assert_string_equal(slow->command, "LOCK.ACQUIRE");
    assert_string_equal(slow->lock, "b");
    assert_int_equal(slow->number, 2);
    assert_in_range(slow->took_ns / MS, SLOW_MS, 100);
}

static void a_wait_for_a_lock_is_not_slow(void **state)
{
    (void)state;
    client_ask(world, leader, 1, "LOCK.ACQUIRE a REQ 1");
    client_open(world, leader, 2);
    client_session(world, leader, 2, "TTL 60000 NAME bob");
    client_open(world, follower(), 3);
    client_session(world, follower(), 3, "TTL 60000 NAME cee");
    client_send(world, leader, 2, "LOCK.ACQUIRE a WAIT 60000 REQ 1");
    /* This one waits for the earlier one of its connection. */
    client_send(world, leader, 2, "LOCK.ACQUIRE other REQ 2");
    world_run(world, 100);
    client_send(world, follower(), 3, "LOCK.ACQUIRE a WAIT 60000 REQ 1");
    world_run(world, 1000);
    client_ask(world, leader, 1, "LOCK.RELEASE a REQ 2 ACKED 1");
    world_run(world, 100);
    assert_string_not_equal(client_text(world, leader, 2), "");
    client_clear(world, leader, 2);
    client_ask(world, leader, 2, "LOCK.RELEASE a REQ 3 ACKED 2");
    world_run(world, 100);
    assert_string_not_equal(client_text(world, follower(), 3), "");
    assert_int_equal(count_of(leader), 0);
    assert_int_equal(count_of(follower()), 0);
}

/* A wait that was long and an entry that was slow, too. */
static void only_the_slow_part_of_a_wait_counts(void **state)
{
    (void)state;
    client_ask(world, leader, 1, "LOCK.ACQUIRE a REQ 1");
    client_open(world, leader, 2);
    client_session(world, leader, 2, "TTL 60000");
    set_flushes(60, 60);
    client_send(world, leader, 2, "LOCK.ACQUIRE a WAIT 60000 REQ 1");
    world_run(world, 1000);
    assert_int_equal(count_of(leader), 0); /* It is not answered yet. */
    set_flushes(0, 0);
    client_ask(world, leader, 1, "LOCK.RELEASE a REQ 2 ACKED 1");
    world_run(world, 100);
    assert_int_equal(count_of(leader), 1);
    assert_in_range(spent_ms(leader, SLOW_WAIT), 900, 1000);
    assert_in_range(spent_ms(leader, SLOW_FLUSH), 55, 70);
    assert_in_range(slow_log_at(world->node[leader].core, 0)->took_ns / MS, 55,
                    90);
}

static void a_forwarded_request_is_recorded_on_both_nodes(void **state)
{
    (void)state;
    client_open(world, follower(), 3);
    client_session(world, follower(), 3, "TTL 60000 NAME cee");
    set_flushes(80, 80);
    client_ask(world, follower(), 3, "LOCK.ACQUIRE a REQ 1");
    assert_int_equal(count_of(leader), 1);
    assert_int_equal(count_of(follower()), 1);
    assert_in_range(spent_ms(leader, SLOW_FLUSH), 75, 90);
    assert_in_range(spent_ms(follower(), SLOW_FORWARD), 80, 120);
    assert_int_equal(slow_log_at(world->node[leader].core, 0)->peer,
                     follower());
    assert_string_equal(slow_log_at(world->node[follower()].core, 0)->lock,
                        "a");
}

static void a_read_waits_for_its_confirmation(void **state)
{
    (void)state;
    world->latency_ms = 40;
    client_ask(world, leader, 1, "LOCK.SHOW a");
    assert_int_equal(count_of(leader), 1);
    assert_in_range(spent_ms(leader, SLOW_CONFIRM), 75, 90);
    assert_string_equal(slow_log_at(world->node[leader].core, 0)->lock, "a");
}

static uint64_t late_clock(void *data)
{
    return node_now(data) + 70 * MS;
}

/* The time of the turn itself is measured by the port's clock. */
static void a_slow_turn_is_answer(void **state)
{
    (void)state;
    world->node[leader].core->port.clock_ns = late_clock;
    client_ask(world, leader, 1, "LOCK.SHOW a");
    assert_int_equal(count_of(leader), 1);
    assert_in_range(spent_ms(leader, SLOW_ANSWER), 69, 72);
}

static void secrets_are_not_recorded(void **state)
{
    char text[2048];
    (void)state;
    world->node[leader].core->port.clock_ns = late_clock;
    client_open(world, leader, 9);
    client_ask(world, leader, 9,
               "SESSION.ATTACH 5 0123456789abcdef0123456789ab");
    client_ask(world, leader, 9, "AUTH ann sesame");
    assert_true(count_of(leader) >= 2);
    snprintf(text, sizeof text, "%s",
             client_ask(world, leader, 9, "NODE.SLOW"));
    assert_non_null(strstr(text, "SESSION.ATTACH"));
    assert_null(strstr(text, "sesame"));
    assert_null(strstr(text, "0123456789"));
}

#define TRACE "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

static void a_trace_is_recorded_if_it_is_valid(void **state)
{
    (void)state;
    const struct core *core = world->node[leader].core;
    set_flushes(80, 0);
    client_ask(world, leader, 1, "LOCK.ACQUIRE a TRACE " TRACE " REQ 1");
    assert_string_equal(slow_log_at(core, 0)->trace, TRACE);
    client_ask(world, leader, 1, "LOCK.ACQUIRE b TRACE " TRACE "x REQ 2");
    assert_int_equal(count_of(leader), 2);
    assert_string_equal(slow_log_at(core, 0)->trace, "");
    /* The word as the value of another option. */
    client_ask(world, leader, 1, "LOCK.ACQUIRE c VALUE TRACE REQ 3");
    assert_int_equal(count_of(leader), 3);
    assert_string_equal(slow_log_at(core, 0)->trace, "");
}

static void the_newest_are_kept(void **state)
{
    (void)state;
    world->node[leader].core->port.clock_ns = late_clock;
    for (int i = 0; i < SLOW_COUNT_MAX + 10; i++) {
        client_ask(world, leader, 1, "LOCK.CHECK name%d 1", i);
    }
    const struct core *core = world->node[leader].core;
    assert_int_equal(count_of(leader), SLOW_COUNT_MAX + 10);
    assert_string_equal(slow_log_at(core, 0)->lock, "name265");
    assert_string_equal(slow_log_at(core, SLOW_COUNT_MAX - 1)->lock, "name10");
    assert_null(slow_log_at(core, SLOW_COUNT_MAX));
}

static void it_is_switched_while_requests_are_under_way(void **state)
{
    (void)state;
    set_flushes(80, 80);
    set_slow_ms(leader, 0);
    client_ask(world, leader, 1, "LOCK.ACQUIRE a REQ 1");
    assert_int_equal(count_of(leader), 0);
    client_send(world, leader, 1, "LOCK.ACQUIRE b REQ 2");
    world_run(world, 20);
    set_slow_ms(leader, SLOW_MS);
    world_run(world, 200);
    assert_int_equal(count_of(leader), 1);
    set_slow_ms(leader, 0);
    client_clear(world, leader, 1);
    client_ask(world, leader, 1, "LOCK.ACQUIRE c REQ 3");
    assert_int_equal(count_of(leader), 1);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(quick_requests_are_not_recorded),
        TEST(a_slow_disk_is_flush_and_slow_others_are_replicate),
        TEST(a_wait_for_a_lock_is_not_slow),
        TEST(only_the_slow_part_of_a_wait_counts),
        TEST(a_forwarded_request_is_recorded_on_both_nodes),
        TEST(a_read_waits_for_its_confirmation),
        TEST(a_slow_turn_is_answer),
        TEST(secrets_are_not_recorded),
        TEST(a_trace_is_recorded_if_it_is_valid),
        TEST(the_newest_are_kept),
        TEST(it_is_switched_while_requests_are_under_way),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
