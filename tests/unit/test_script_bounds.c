/* SPDX-License-Identifier: MIT */

/* The cost of a hostile client's script for the leader, and its possible
 * answers. */

#include <string.h>

#include "core/redis/keys.h"
#include "lease/timers.h"
#include "lockfsm/user/access.h"
#include "tests/unit/core_fixture.h"
#include "tests/unit/core_world.h"

#define ask(...) client_ask(world, 1, 1, __VA_ARGS__)

/* With the key "k", and one argument. */
static const char *eval(const char *text, struct bytes argument)
{
    struct world_client *client = &world->node[1].client[1];
    client_clear(world, 1, 1);
    resp_request_begin(&client->waiting, 5);
    resp_request_argument(&client->waiting, BYTES_LITERAL("EVAL"));
    resp_request_argument(&client->waiting, bytes_of_text(text));
    resp_request_argument(&client->waiting, BYTES_LITERAL("1"));
    resp_request_argument(&client->waiting, BYTES_LITERAL("k"));
    resp_request_argument(&client->waiting, argument);
    client_feed(&world->node[1], 1);
    for (int i = 0; i < 5000 && client->output.size == 0; i++) {
        world_run(world, 1);
    }
    return client_text(world, 1, 1);
}

/* Otherwise a script would mix answers of its own with those of the node. */
static void a_status_or_an_error_is_one_line(void **state)
{
    (void)state;
    struct bytes forged = BYTES_LITERAL("A\r\n:1 B");
    assert_string_equal(eval("return {ok = ARGV[1]}", forged), "+A  :1 B\r\n");
    assert_string_equal(eval("return {err = ARGV[1]}", forged), "-A  :1 B\r\n");
    assert_string_equal(eval("return redis.status_reply(ARGV[1])", forged),
                        "+A  :1 B\r\n");
    assert_string_equal(eval("return redis.error_reply(ARGV[1])", forged),
                        "-A  :1 B\r\n");
    assert_string_equal(eval("return redis.pcall('get', ARGV[1])", forged),
                        "$-1\r\n");
}

/* A function that reads a whole text counts it: eight times this one is too
 * much. */
static void who_goes_through_a_long_text_counts_it(void **state)
{
    (void)state;
    static const char *const ways[] = {
        "local x = tonumber(ARGV[1])",
        "local x = ARGV[1] + 1",
        "local x = -ARGV[1]",
        "local x = math.floor(ARGV[1])",
        "for i = ARGV[1], 1 do local x = i end",
        "local x = cjson.decode(ARGV[1])",
        "local x = string.find('a', ARGV[1])",
        "local x = ({})[ARGV[1]]",
        "t[ARGV[1]] = 1",
        "local x = ARGV[1] == ARGV[1]",
        "local x = redis.call('hget', KEYS[1], ARGV[1])",
    };
    enum { SIZE = 60000 };
    char text[256];
    uint8_t *blanks = memory_new(SIZE);
    memset(blanks, ' ', SIZE);
    blanks[SIZE / 2] = '1';
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        snprintf(text, sizeof text,
                 "local t = {} for n = 1, 8 do %s end return 1", ways[i]);
        const char *answer = eval(text, bytes_of(blanks, SIZE));
        if (strstr(answer, "for more than 5000 steps") == NULL) {
            fail_msg("%s was answered %s", text, answer);
        }
    }
    free(blanks);
}

/* A hash that takes many steps to return. */
static void set_large_hash(void)
{
    const char *text = "for i = ARGV[1], ARGV[1] + 29 do "
                       "redis.call('hset', KEYS[1], i, '') end "
                       "redis.call('pexpire', KEYS[1], 50000) return 1";
    char from[12];
    for (int i = 100; i < 800; i += 30) {
        snprintf(from, sizeof from, "%d", i);
        assert_string_equal(eval(text, bytes_of_text(from)), ":1\r\n");
    }
}

/* The function returns nothing, so no argument counts its steps. */
static void what_a_call_took_bounds_the_pattern_behind_it(void **state)
{
    (void)state;
    uint8_t text[300];
    memset(text, 'a', sizeof text);
    set_large_hash();
    assert_string_equal(
        eval("local function f() for i = 1, 3 do "
             "redis.call('hgetall', KEYS[1]) end end "
             "return string.find(ARGV[1], '.-.-.-.-.-.-.-.-x', f())",
             bytes_of(text, sizeof text)),
        "-ERR script: line 1: the script runs for more than 5000 steps\r\n");
}

/* An answer without room is not encoded to find that out: it could be
 * megabytes. */
static void a_collection_without_room_is_not_written(void **state)
{
    (void)state;
    struct arena arena = {0};
    struct collection collection = {0};
    struct bytes stored;
    struct collection_member member = {.name = BYTES_LITERAL("%")};
    collection_insert(&collection, &arena, 0, &member);
    assert_true(collection_write(KEY_SET, &collection, 8, &arena, &stored));
    assert_memory_equal(stored.data, "\x01set\n%25", 8);
    assert_false(collection_write(KEY_SET, &collection, 7, &arena, &stored));
    /* A value without data is not read. */
    member.name = bytes_of(NULL, (size_t)1 << 40);
    collection_insert(&collection, &arena, 1, &member);
    assert_false(collection_write(KEY_SET, &collection, 4096, &arena, &stored));
    member.name.size = 0;
    member.value = bytes_of(NULL, (size_t)1 << 40);
    collection_insert(&collection, &arena, 0, &member);
    assert_false(
        collection_write(KEY_HASH, &collection, 4096, &arena, &stored));
    arena_done(&arena);
}

/* A member is searched for, or moved, among all others. */
static void who_goes_through_many_members_counts_them(void **state)
{
    (void)state;
    static const char *const ways[] = {
        "redis.call('sadd', 'n', unpack(t))",
        "redis.call('zadd', 'n', unpack(t))",
        "redis.call('lpush', 'n', unpack(t))",
        "redis.call('hset', KEYS[1], unpack(t))",
        "redis.call('hdel', KEYS[1], unpack(t))",
        "redis.call('hmget', KEYS[1], unpack(t))",
    };
    char text[256];
    set_large_hash();
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        snprintf(text, sizeof text,
                 "local t = {} for i = 1, 200 do t[i] = i end "
                 "for i = 1, 5 do %s end return 1",
                 ways[i]);
        const char *answer = eval(text, BYTES_LITERAL(""));
        if (strstr(answer, "more than 5000 steps") == NULL) {
            fail_msg("%s was answered %s", text, answer);
        }
    }
    /* All of them go, or come, in one piece. */
    assert_string_equal(
        eval("redis.call('rpush', 'l', 'b') "
             "for i = 1, 150 do redis.call('rpush', 'l', 'a') end "
             "local n = redis.call('lrem', 'l', 0, 'a') "
             "redis.call('del', 'l') return n",
             BYTES_LITERAL("")),
        ":150\r\n");
}

/* Neither is a long text, but each takes as long as a long one. */
static void who_searches_fields_or_writes_digits_counts_them(void **state)
{
    (void)state;
    static const char *const ways[] = {
        "for i = 1, 420 do t['f' .. i] = 1 end",
        ("for i = 1, 200 do t['f' .. i] = 1 end "
         "for i = 1, 250 do local x = t.g end"),
        "for i = 1, 50 do local x = string.format('%f', 1e300) end",
        "for i = 1, 50 do local x = string.format('%.99f', 1e300) end",
        "for i = 1, 50 do local x = tostring(1e-300) end",
        "for i = 1, 50 do local x = 1e300 .. '' end",
    };
    char text[256];
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        snprintf(text, sizeof text, "local t = {} %s return 1", ways[i]);
        const char *answer = eval(text, BYTES_LITERAL(""));
        if (strstr(answer, "for more than 5000 steps") == NULL) {
            fail_msg("%s was answered %s", text, answer);
        }
    }
    assert_string_equal(
        eval("local x for i = 1, 300 do x = string.format('%.3f', i) end "
             "return x",
             BYTES_LITERAL("")),
        "$7\r\n300.000\r\n");
}

static uint32_t steps_of(const char *command, uint32_t word_count)
{
    static struct redis_keys keys;
    struct arena arena = {0};
    struct timers *timers = timers_new();
    const struct bytes words[] = {bytes_of_text(command), BYTES_LITERAL("k"),
                                  BYTES_LITERAL("100")};
    struct value value;
    const struct lockfsm *fsm = core_state(world->node[1].core);
    keys = (struct redis_keys){.fsm = fsm,
                               .user = lockfsm_user(fsm, USER_ANYONE),
                               .timers = timers,
                               .arena = &arena};
    assert_true(redis_keys_call(&keys, words, word_count, &value));
    assert_true(redis_keys_finish(&keys));
    assert_false(redis_keys_change(&keys));
    timers_free(timers);
    arena_done(&arena);
    return keys.steps;
}

#define READ_COUNT 1000

/* Reads of a large hash, sent together; how many are answered at once, that is,
 * in a few turns. */
static size_t answered_at_once(const char *command)
{
    struct world_client *client = &world->node[1].client[1];
    size_t size = strlen(ask("%s", command));
    client_clear(world, 1, 1);
    for (int i = 0; i < READ_COUNT; i++) {
        client_send(world, 1, 1, "%s", command);
    }
    world_step(world);
    size_t at_once = client->output.size / size;
    world_run(world, 200);
    assert_int_equal(client->output.size, READ_COUNT * size);
    return at_once;
}

/* A client that sends many of them together would block all others. */
static void who_goes_through_a_collection_shares_the_turn(void **state)
{
    (void)state;
    set_large_hash();
    assert_int_equal(steps_of("EXISTS", 2), 0);
    assert_int_equal(steps_of("TYPE", 2), 0);
    assert_in_range(steps_of("HGET", 3), 700, 1000);
    assert_int_equal(answered_at_once("EXISTS k"), READ_COUNT);
    assert_in_range(answered_at_once("HGET k 100"), 1, 2 * READ_COUNT / 3);
    assert_in_range(answered_at_once("HEXISTS k 100"), 1, 2 * READ_COUNT / 3);
}

#define one(test) cmocka_unit_test_setup_teardown(test, begin_one, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        one(a_status_or_an_error_is_one_line),
        one(who_goes_through_a_long_text_counts_it),
        one(what_a_call_took_bounds_the_pattern_behind_it),
        one(who_goes_through_a_collection_shares_the_turn),
        one(who_goes_through_many_members_counts_them),
        one(who_searches_fields_or_writes_digits_counts_them),
        cmocka_unit_test(a_collection_without_room_is_not_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
