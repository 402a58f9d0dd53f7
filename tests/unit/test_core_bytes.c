/* SPDX-License-Identifier: MIT */

/* Bytes of requests in flight: of one connection, and of all. */

#include "core/state.h"
#include "tests/unit/core_fixture.h"
#include "tests/unit/core_world.h"

static struct core *core;
static char big[1001];

static void begin_with_bytes(uint64_t of_node, uint32_t of_conn)
{
    world = world_new(1);
    world->limits.bytes_in_flight = of_node;
    world->limits.bytes_per_conn = of_conn;
    world_found(world);
    world_elect(world);
    core = world->node[1].core;
    memset(big, 'v', 1000);
}

#define CROWD 1000
#define REQUESTS 5 /* From each of them. */

static void a_crowd_leaves_no_more_memory_than_for_so_many(void **state)
{
    (void)state;
    world = world_new(1);
    world_found(world);
    world_elect(world);
    core = world->node[1].core;
    world->node[1].is_disk_stuck = true;
    for (uint64_t conn = 1; conn <= CROWD; conn++) {
        client_open(world, 1, conn);
        for (int i = 0; i < REQUESTS; i++) {
            client_send(world, 1, conn, "FENCE.ADMIT r 7");
        }
    }
    assert_int_equal(core->requests.in_flight.count, CROWD * REQUESTS);
    world->node[1].is_disk_stuck = false;
    world_run(world, 100);
    assert_int_equal(core->requests.in_flight.count, 0);
    assert_int_equal(core->requests.free_count, 4096);
}

static uint32_t count_of(uint64_t conn, const char *text)
{
    uint32_t count = 0;
    for (const char *at = client_text(world, 1, conn);
         (at = strstr(at, text)) != NULL; at++) {
        count++;
    }
    return count;
}

static void a_connection_with_many_bytes_in_flight_is_not_read(void **state)
{
    (void)state;
    begin_with_bytes(1 << 20, 4000);
    client_open(world, 1, 1);
    client_session(world, 1, 1, "");
    client_clear(world, 1, 1);
    for (int i = 0; i < 10; i++) {
        client_send(world, 1, 1, "LOCK.ACQUIRE a%d VALUE %s", i, big);
    }
    assert_true(world->node[1].client[1].is_blocked);
    assert_true(core->conns.held_size < 5000);
    world_run(world, 50);
    assert_int_equal(count_of(1, ":"), 10);
    /* Answers that wait for an earlier one count as well. */
    client_clear(world, 1, 1);
    client_send(world, 1, 1, "LOCK.ACQUIRE b");
    for (int i = 0; i < 10; i++) {
        client_send(world, 1, 1, "ECHO %s", big);
    }
    assert_true(world->node[1].client[1].is_blocked);
    assert_true(core->conns.held_size < 6000);
    world_run(world, 50);
    assert_int_equal(count_of(1, "$1000"), 10);
    assert_int_equal(core->conns.held_size, 0);
}

static void whoever_has_most_is_told_busy_when_all_have_too_much(void **state)
{
    (void)state;
    begin_with_bytes(20000, 1 << 20);
    for (uint64_t conn = 1; conn <= 2; conn++) {
        client_open(world, 1, conn);
        client_session(world, 1, conn, "TTL 60000");
        client_clear(world, 1, conn);
    }
    for (int i = 0; i < 14; i++) {
        client_send(world, 1, 1, "LOCK.ACQUIRE a%d VALUE %s", i, big);
    }
    for (int i = 0; i < 6; i++) {
        client_send(world, 1, 2, "LOCK.ACQUIRE b%d VALUE %s", i, big);
    }
    assert_true(core->conns.held_size >= 20000);
    client_send(world, 1, 1, "LOCK.ACQUIRE a14 VALUE %s", big);
    client_send(world, 1, 1, "LOCK.ACQUIRE a15 VALUE %s", big);
    assert_true(world->node[1].client[1].is_blocked);
    client_send(world, 1, 2, "LOCK.ACQUIRE b6 VALUE %s", big);
    world_run(world, 50);
    assert_int_equal(count_of(1, ":"), 15);
    assert_int_equal(count_of(1, "-BUSY too many bytes are in flight; nothing "
                                 "was done, try later\r\n"),
                     1);
    assert_int_equal(count_of(2, ":"), 7);
    assert_int_equal(core->conns.held_size, 0);
}

static void waits_hold_their_bytes_until_their_clients_go(void **state)
{
    (void)state;
    begin_with_bytes(20000, 1 << 20);
    client_open(world, 1, 1);
    client_session(world, 1, 1, "TTL 60000");
    client_ask(world, 1, 1, "LOCK.ACQUIRE taken");
    for (uint64_t conn = 2; conn < 30; conn++) {
        client_open(world, 1, conn);
        client_session(world, 1, conn, "TTL 60000");
        client_send(world, 1, conn, "LOCK.ACQUIRE taken WAIT FOREVER VALUE %s",
                    big);
        world_run(world, 5);
    }
    assert_true(core->conns.held_size >= 28000);
    /* A client that holds little is served. */
    assert_int_equal(client_ask(world, 1, 1, "LOCK.ACQUIRE free")[0], ':');
    /* The granted one is answered, the clients that leave are forgotten. */
    client_ask(world, 1, 1, "LOCK.RELEASE taken");
    world_run(world, 50);
    for (uint64_t conn = 2; conn < 30; conn++) {
        client_close(world, 1, conn);
    }
    assert_int_equal(core->conns.held_size, 0);
}

int main(void)
{
#define one(test) cmocka_unit_test_teardown(test, tear_down)
    const struct CMUnitTest tests[] = {
        one(a_connection_with_many_bytes_in_flight_is_not_read),
        one(whoever_has_most_is_told_busy_when_all_have_too_much),
        one(waits_hold_their_bytes_until_their_clients_go),
        one(a_crowd_leaves_no_more_memory_than_for_so_many),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
