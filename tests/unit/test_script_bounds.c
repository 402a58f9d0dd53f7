/* SPDX-License-Identifier: MIT */

/* What a hostile client's script may cost the leader, and what it may make it
 * say. */

#include <string.h>

#include "core/redis/collection.h"
#include "tests/unit/core_world.h"

static struct world *world;

static int set_up(void **state)
{
    (void)state;
    world = world_new(1);
    world_found(world);
    world_elect(world);
    client_open(world, 1, 1);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    world_free(world);
    return 0;
}

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

/* Else a script would put answers of its own among those of the node. */
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

/* Whatever goes through all of a text counts it: eight times this one is too
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

/* A hash that takes many steps to be told. */
static void set_large_hash(void)
{
    const char *text = "for i = ARGV[1], ARGV[1] + 29 do "
                       "redis.call('hset', KEYS[1], i, '') end "
                       "redis.call('pexpire', KEYS[1], 50000) return 1";
    char from[8];
    for (int i = 100; i < 800; i += 30) {
        snprintf(from, sizeof from, "%d", i);
        assert_string_equal(eval(text, bytes_of_text(from)), ":1\r\n");
    }
}

/* The function returns nothing, so that no argument counts what it took. */
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
        "-ERR script: line 1: the script goes on for more than 5000 steps\r\n");
}

/* What has no room is not encoded to find that out: it could be megabytes. */
static void a_collection_without_room_is_not_written(void **state)
{
    (void)state;
    struct arena arena = {0};
    struct collection collection = {0};
    struct bytes stored;
    struct member member = {.name = BYTES_LITERAL("%")};
    collection_insert(&collection, &arena, 0, &member);
    assert_true(collection_write(KEY_SET, &collection, 8, &arena, &stored));
    assert_memory_equal(stored.data, "\x01set\n%25", 8);
    assert_false(collection_write(KEY_SET, &collection, 7, &arena, &stored));
    /* Nobody reads where there is nothing. */
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

#define one(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        one(a_status_or_an_error_is_one_line),
        one(who_goes_through_a_long_text_counts_it),
        one(what_a_call_took_bounds_the_pattern_behind_it),
        cmocka_unit_test(a_collection_without_room_is_not_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
