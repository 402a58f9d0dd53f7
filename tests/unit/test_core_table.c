/* SPDX-License-Identifier: MIT */

/* core: when the state is written to the table, and what a node reports if its
 * table is that of a restored cluster. */

#include "base/log.h"
#include "tests/unit/core_fixture.h"
#include "tests/unit/core_world.h"

static uint32_t dirty_count(void)
{
    return lockfsm_dirty_count(core_state(world->node[1].core));
}

static void what_has_changed_is_written_after_its_time(void **state)
{
    (void)state;
    client_session(world, 1, 1, "TTL 60000");
    world_run(world, 1000);
    assert_int_equal(dirty_count(), 0);
    client_send(world, 1, 1, "LOCK.ACQUIRE a");
    while (dirty_count() == 0) {
        world_run(world, 1);
    }
    uint64_t from_ms = world->now_ms;
    while (dirty_count() > 0) {
        world_run(world, 1);
    }
    assert_int_equal(world->now_ms - from_ms, world->limits.flush_ms);
}

/* As a restore does with a backup. */
static void begin_new_life(uint64_t quarantine_ms)
{
    struct world_node *node = &world->node[1];
    struct lockfsm *fsm = lockfsm_new();
    char why[HASP_WHY_SIZE];
    assert_int_equal(core_flush(node->core), 0);
    node_kill(world, 1);
    assert_int_equal(lockfsm_load(fsm, node->table, why), 0);
    lockfsm_new_life(fsm, quarantine_ms);
    assert_int_equal(lockfsm_flush(fsm, node->table), 0);
    lockfsm_free(fsm);
    node_start(world, 1);
    world_elect(world);
    client_open(world, 1, 1);
}

static void take_line(void *data, enum log_level level, const char *event,
                      const char *fields)
{
    (void)fields;
    if (level == LOG_WARN_LEVEL &&
        strcmp(event, "quarantine after a restore") == 0) {
        ++*(uint32_t *)data;
    }
}

static void the_log_tells_of_a_quarantine_once_a_minute(void **state)
{
    uint32_t told_count = 0;
    (void)state;
    log_set_sink(take_line, &told_count);
    begin_new_life(100000);
    world_run(world, 50000);
    assert_int_equal(told_count, 1);
    world_run(world, 30000);
    assert_int_equal(told_count, 2);
    world_run(world, 90000); /* It is over. */
    assert_int_equal(told_count, 2);
    log_set_sink(NULL, NULL);
}

static void a_restored_cluster_says_how_long_it_grants_nothing(void **state)
{
    static const char begins[] = "-BUSY quarantine after a restore: nothing is "
                                 "granted for another ";
    (void)state;
    begin_new_life(5000);
    client_session(world, 1, 1, "TTL 60000");
    const char *answer = client_ask(world, 1, 1, "LOCK.ACQUIRE a");
    assert_memory_equal(answer, begins, sizeof begins - 1);
    uint64_t left_ms = strtoull(answer + sizeof begins - 1, NULL, 10);
    uint64_t from_ms = world->now_ms;
    while (lockfsm_quarantine(core_state(world->node[1].core), NULL) != 0) {
        world_run(world, 1);
    }
    assert_int_equal(world->now_ms - from_ms, left_ms + WRITE_MS);
    assert_int_equal(client_ask(world, 1, 1, "LOCK.ACQUIRE a")[0], ':');
}

/* Nobody holds these names, so no answer may say that somebody does. */
static void a_redis_client_is_not_told_of_holders_in_a_quarantine(void **state)
{
    static const char *const commands[] = {
        "GET k",
        "EXISTS k",
        "SETNX k v",
        "SET k v NX PX 1000",
        "TTL k",
        "DEL k",
        "EVAL return(redis.call('get',KEYS[1])) 1 k",
        "EVAL return(redis.pcall('set',KEYS[1],'v','NX')) 1 k"};
    static const char begins[] = "-BUSY quarantine after a restore: nothing is "
                                 "granted for another ";
    (void)state;
    begin_new_life(5000);
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        const char *answer = client_ask(world, 1, 1, "%s", commands[i]);
        if (strncmp(answer, begins, sizeof begins - 1) != 0) {
            fail_msg("%s: %s", commands[i], answer);
        }
    }
    assert_string_equal(client_ask(world, 1, 1, "EVAL return(7) 0"), ":7\r\n");
    while (lockfsm_quarantine(core_state(world->node[1].core), NULL) != 0) {
        world_run(world, 1);
    }
    assert_string_equal(client_ask(world, 1, 1, "EXISTS k"), ":0\r\n");
    assert_string_equal(client_ask(world, 1, 1, "SET k v NX PX 1000"),
                        "+OK\r\n");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin_one, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_has_changed_is_written_after_its_time),
        TEST(a_restored_cluster_says_how_long_it_grants_nothing),
        TEST(a_redis_client_is_not_told_of_holders_in_a_quarantine),
        TEST(the_log_tells_of_a_quarantine_once_a_minute),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
