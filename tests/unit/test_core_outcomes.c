/* SPDX-License-Identifier: MIT */

/* A script's answer is data. The outcome of a request is set by the code that
 * decided it, whatever bytes the reply has. */

#include "tests/unit/core_fixture.h"
#include "tests/unit/core_world.h"

#define TEXT_MAX 512

static void send_words(uint64_t node, uint64_t conn, const char *const *words)
{
    struct world_client *client = &world->node[node].client[conn];
    uint32_t count = 0;
    while (words[count] != NULL) {
        count++;
    }
    resp_request_begin(&client->waiting, count);
    for (uint32_t i = 0; i < count; i++) {
        resp_request_argument(&client->waiting, bytes_of_text(words[i]));
    }
    client_feed(&world->node[node], conn);
}

static const char *ask_words(uint64_t node, const char *const *words)
{
    client_clear(world, node, 1);
    send_words(node, 1, words);
    for (int i = 0; i < 5000 && client_text(world, node, 1)[0] == '\0'; i++) {
        world_run(world, 1);
    }
    return client_text(world, node, 1);
}

static uint64_t counted(uint64_t node, const char *word)
{
    const struct core_counts *counts = core_counts(world->node[node].core);
    for (uint32_t i = 1; i < CORE_WORD_COUNT; i++) {
        if (strcmp(core_words[i], word) == 0) {
            return counts->by_word[i];
        }
    }
    fail_msg("no word %s", word);
    return 0;
}

static void expect_no_verdict(uint64_t node)
{
    struct core *core = world->node[node].core;
    const struct core_counts *counts = core_counts(core);
    assert_int_equal(counts->refusals, 0);
    for (uint32_t i = 0; i < CORE_WORD_COUNT; i++) {
        assert_int_equal(counts->by_word[i], 0);
    }
    assert_int_equal(counts->unknown_scripts, 0);
    assert_null(core_denial(core, 0));
    assert_true(core_client_is_fresh(core, 1));
}

static int set_up(void **state)
{
    begin_three(state);
    for (uint64_t node = 1; node <= 3; node++) {
        client_open(world, node, 1);
    }
    return 0;
}

/* --- Data ----------------------------------------------------------------- */

static void expect_data(const char *error)
{
    static const char *const scripts[] = {
        "return {err=ARGV[1]}",
        "redis.call('set', KEYS[1], ARGV[2], 'PX', 60000) "
        "return {err=ARGV[1]}",
    };
    static uint32_t serial;
    const uint64_t nodes[] = {leader, follower};
    for (size_t i = 0; i < sizeof nodes / sizeof *nodes; i++) {
        for (size_t j = 0; j < sizeof scripts / sizeof *scripts; j++) {
            char key[32];
            snprintf(key, sizeof key, "k%u", ++serial);
            const char *words[] = {"EVAL", scripts[j], "1", key,
                                   error,  "v",        NULL};
            assert_int_equal(ask_words(nodes[i], words)[0], '-');
            expect_no_verdict(nodes[i]);
            expect_no_verdict(leader);
        }
    }
}

static void what_a_script_returns_is_no_verdict(void **state)
{
    (void)state;
    char text[TEXT_MAX];
    for (uint32_t i = 1; i < CORE_WORD_COUNT; i++) {
        expect_data(core_words[i]);
        snprintf(text, sizeof text, "%s nothing was done", core_words[i]);
        expect_data(text);
    }
    expect_data("");
    expect_data(" ");
    expect_data(" x");
    expect_data("\r\n-BUSY x");
    expect_data("ERR hasp does not run this script");
    memset(text, 'x', 300);
    text[300] = '\0';
    expect_data(text);
    assert_int_equal(world_leader(world), leader);
}

/* The same script, to show that the counter counts this node's decisions. */
static void what_we_refuse_is_counted_by_its_word(void **state)
{
    (void)state;
    const uint64_t nodes[] = {leader, follower};
    for (size_t i = 0; i < sizeof nodes / sizeof *nodes; i++) {
        uint64_t node = nodes[i];
        assert_answer(world, node, 1,
                      "-NOSESSION no session is attached to this "
                      "connection\r\n",
                      "LOCK.ACQUIRE a");
        assert_int_equal(counted(node, "NOSESSION"), 1);
        assert_memory_equal(client_ask(world, node, 1, "EVAL ][ 0"), "-ERR", 4);
        assert_int_equal(counted(node, "ERR"), 1);
        assert_int_equal(core_counts(world->node[node].core)->unknown_scripts,
                         1);
        assert_memory_equal(client_ask(world, node, 1, "SCRIPT LOAD ]["),
                            "-ERR", 4);
        assert_int_equal(core_counts(world->node[node].core)->unknown_scripts,
                         2);
        assert_memory_equal(client_ask(world, node, 1, "LOCK.SHOW"), "-BADARG",
                            7);
        assert_memory_equal(client_ask(world, node, 1, "SET k v"), "-BADARG",
                            7);
        assert_int_equal(counted(node, "BADARG"), 2);
        assert_memory_equal(client_ask(world, node, 1, "GET"), "-ERR", 4);
        assert_memory_equal(client_ask(world, node, 1, "GRAB"), "-ERR", 4);
        assert_int_equal(counted(node, "ERR"), 4);
        assert_memory_equal(client_ask(world, node, 1, "EVALSHA 00 0"),
                            "-NOSCRIPT", 9);
        assert_int_equal(counted(node, "NOSCRIPT"), 1);
        assert_true(core_client_is_fresh(world->node[node].core, 1));
        assert_int_equal(core_counts(world->node[node].core)->refusals, 8);
    }
}

/* --- Aborts by a node ------------------------------------------------------
 */

#define HELD_TEXT "-BADARG set: "

static void two_that_set_one_free_key_in_one_turn(void **state)
{
    (void)state;
    client_open(world, leader, 2);
    client_send(world, leader, 1, "SET k one PX 5000");
    client_send(world, leader, 2, "SET k two PX 5000");
    world_run(world, 50);
    assert_string_equal(client_text(world, leader, 1), "+OK\r\n");
    assert_memory_equal(client_text(world, leader, 2), HELD_TEXT,
                        strlen(HELD_TEXT));
    assert_answer(world, leader, 1, "$3\r\none\r\n", "GET k");
}

static void two_that_set_one_free_key_at_a_follower(void **state)
{
    (void)state;
    client_open(world, follower, 2);
    client_send(world, follower, 1, "SET k one PX 5000");
    client_send(world, follower, 2, "SET k two PX 5000");
    world_run(world, 50);
    assert_string_equal(client_text(world, follower, 1), "+OK\r\n");
    assert_memory_equal(client_text(world, follower, 2), HELD_TEXT,
                        strlen(HELD_TEXT));
}

#define NOT_KNOWN "whether this took effect is not known\r\n"

static void expect_unknown(uint64_t node, uint64_t conn)
{
    const char *text = client_text(world, node, conn);
    assert_memory_equal(text, "-UNKNOWN ", 9);
    assert_non_null(strstr(text, NOT_KNOWN));
}

/* The next leader refuses a request that an earlier one may have done. */
static void a_repeatable_that_the_next_leader_refuses(void **state)
{
    (void)state;
    client_open(world, follower, 2);
    assert_answer(world, leader, 1, "+OK\r\n", "SET held v NX PX 60000");
    client_send(world, follower, 1, "SET k v");
    client_send(world, follower, 2, "PERSIST held");
    world_step(world); /* Both are on their way. */
    world_cut(world, leader, true);
    world_run(world, 5000);
    expect_unknown(follower, 1);
    expect_unknown(follower, 2);
}

/* The entry of the earlier leader may be the reason why that of the next one
 * misses. */
static void a_miss_says_nothing_of_an_earlier_leader(void **state)
{
    (void)state;
    client_open(world, follower, 2);
    client_send(world, follower, 1, "SET k one PX 60000");
    client_send(world, follower, 2, "SET k two PX 60000");
    world_step(world);
    world_cut(world, leader, true);
    world_run(world, 5000);
    /* One of them comes first at the next leader, and the other misses. */
    assert_string_equal(client_text(world, follower, 1), "+OK\r\n");
    expect_unknown(follower, 2);
}

/* --- Done once -------------------------------------------------------------
 */

/* Sets 'k' to 5 for 300 ms, and lets its lease expire while an entry that
 * renews it waits for the disks. */
static void increment_while_doomed(uint64_t node, const char *script)
{
    const char *words[] = {"EVAL", script, "1", "k", NULL};
    assert_answer(world, node, 1, "+OK\r\n", "SET k 5 NX PX 300");
    world_run(world, 200);
    client_clear(world, node, 1);
    for (uint64_t id = 1; id <= 3; id++) {
        world->node[id].is_disk_stuck = true;
    }
    send_words(node, 1, words);
    world_run(world, 900);
    assert_string_equal(client_text(world, node, 1), "");
    for (uint64_t id = 1; id <= 3; id++) {
        world->node[id].is_disk_stuck = false;
    }
    world_run(world, 500);
}

static void what_is_done_is_never_decided_again(void **state)
{
    (void)state;
    increment_while_doomed(leader, "redis.call('pexpire', KEYS[1], 300) "
                                   "return redis.call('incr', KEYS[1])");
    assert_string_equal(client_text(world, leader, 1),
                        "-UNKNOWN done, but its lease ends\r\n");
    assert_int_equal(counted(leader, "UNKNOWN"), 1);
    assert_answer(world, leader, 1, "$-1\r\n", "GET k");
}

/* A mark of its silence is under way while a key loses its time to live and
 * gets another: the mark is of the session that was timed before. */
static void a_mark_of_a_key_that_lost_its_end_meanwhile(void **state)
{
    (void)state;
    tear_down(NULL);
    world = world_new(1);
    world->allows_no_ttl = true;
    world_found(world);
    leader = world_elect(world);
    client_open(world, leader, 1);
    client_open(world, leader, 2);
    assert_answer(world, leader, 1, "+OK\r\n", "SET k v NX PX 4000");
    world_run(world, 1000);
    client_clear(world, leader, 1);
    world->node[leader].is_disk_stuck = true;
    client_send(world, leader, 1, "PERSIST k");
    client_send(world, leader, 2, "PEXPIRE k 4000");
    world_run(world, 1500); /* TIME follows both in the log. */
    world->node[leader].is_disk_stuck = false;
    world_run(world, 50);
    assert_string_equal(client_text(world, leader, 1), ":1\r\n");
    assert_string_equal(client_text(world, leader, 2), ":1\r\n");
    assert_answer(world, leader, 1, "$1\r\nv\r\n", "GET k");
    world_run(world, 6000); /* It is not renewed, so it ends. */
    assert_answer(world, leader, 1, "$-1\r\n", "GET k");
}

/* --- Transactions ----------------------------------------------------------
 */

static void a_queued_command_has_changed_nothing(void **state)
{
    (void)state;
    const uint64_t nodes[] = {leader, follower};
    for (size_t i = 0; i < sizeof nodes / sizeof *nodes; i++) {
        uint64_t node = nodes[i];
        struct core *core = world->node[node].core;
        assert_answer(world, node, 1, "+OK\r\n", "MULTI");
        assert_answer(world, node, 1, "+QUEUED\r\n", "SET x v PX 5000");
        assert_true(core_client_is_fresh(core, 1));
        assert_memory_equal(client_ask(world, node, 1, "LOCK.SHOW x"), "-ERR",
                            4);
        assert_memory_equal(client_ask(world, node, 1, "EXEC"), "-EXECABORT",
                            10);
        assert_true(core_client_is_fresh(core, 1));
        assert_int_equal(counted(node, "EXECABORT"), 1);
        assert_int_equal(counted(node, "ERR"), 1);
        assert_answer(world, node, 1, "+OK\r\n", "WATCH x");
        assert_answer(world, node, 1, "+OK\r\n", "MULTI");
        assert_answer(world, node, 1, "+QUEUED\r\n", "SET x%zu v PX 5000", i);
        assert_answer(world, node, 1, "*1\r\n+OK\r\n", "EXEC");
        assert_false(core_client_is_fresh(core, 1));
        assert_int_equal(core_counts(core)->refusals, 2);
    }
}

/* --- Heartbeats ------------------------------------------------------------
 */

static void a_heartbeat_counts_if_any_part_succeeds(void **state)
{
    (void)state;
    struct credentials one = client_session(world, leader, 1, "TTL 60000");
    client_close(world, leader, 1);
    client_open(world, leader, 1);
    struct core *core = world->node[leader].core;
    uint64_t before = counted(leader, "NOSESSION");
    (void)client_ask(world, leader, 1, "SESSION.KEEP 9 %s 8 %s", one.secret,
                     one.secret);
    assert_true(core_client_is_fresh(core, 1));
    assert_int_equal(counted(leader, "NOSESSION"), before);
    assert_memory_equal(
        client_ask(world, leader, 1, "SESSION.KEEP 9 %s", one.secret),
        "-NOSESSION", 10);
    assert_int_equal(counted(leader, "NOSESSION"), before + 1);
    assert_true(core_client_is_fresh(core, 1));
    (void)client_ask(world, leader, 1, "SESSION.KEEP 9 %s %llu %s", one.secret,
                     (unsigned long long)one.id, one.secret);
    assert_false(core_client_is_fresh(core, 1));
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(what_a_script_returns_is_no_verdict),
        TEST(what_we_refuse_is_counted_by_its_word),
        TEST(two_that_set_one_free_key_in_one_turn),
        TEST(two_that_set_one_free_key_at_a_follower),
        TEST(a_repeatable_that_the_next_leader_refuses),
        TEST(a_miss_says_nothing_of_an_earlier_leader),
        TEST(what_is_done_is_never_decided_again),
        TEST(a_mark_of_a_key_that_lost_its_end_meanwhile),
        TEST(a_queued_command_has_changed_nothing),
        TEST(a_heartbeat_counts_if_any_part_succeeds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
