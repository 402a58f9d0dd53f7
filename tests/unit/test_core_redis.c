/* SPDX-License-Identifier: MIT */

/* The Redis façade of core: requests of lock clients, byte by byte. */

#include <ctype.h>

#include "tests/unit/core_fixture.h"
#include "tests/unit/core_world.h"

#include "base/sha.h"
#include "core/scripts.h"

#define ask(...) client_ask(world, 1, 1, __VA_ARGS__)
#define expect(answer, ...) assert_answer(world, 1, 1, answer, __VA_ARGS__)

/* Sends a request whose arguments may contain anything. */
static const char *ask_raw(uint64_t node, const char *const *words)
{
    struct world_client *client = &world->node[node].client[1];
    uint32_t count = 0;
    while (words[count] != NULL) {
        count++;
    }
    client_clear(world, node, 1);
    resp_request_begin(&client->waiting, count);
    for (uint32_t i = 0; i < count; i++) {
        resp_request_argument(&client->waiting, bytes_of_text(words[i]));
    }
    client_feed(&world->node[node], 1);
    for (int i = 0; i < 5000 && client->output.size == 0; i++) {
        world_run(world, 1);
    }
    return client_text(world, node, 1);
}

static int64_t number(const char *answer)
{
    assert_int_equal(answer[0], ':');
    return strtoll(answer + 1, NULL, 10);
}

static void set_nx_px_takes_a_lock_that_runs_out(void **state)
{
    (void)state;
    expect("+OK\r\n", "SET k v NX PX 1000");
    expect("$-1\r\n", "SET k other NX PX 1000");
    expect("$1\r\nv\r\n", "GET k");
    expect("$-1\r\n", "GET none");
    expect(":1\r\n", "EXISTS k none");
    assert_in_range(number(ask("PTTL k")), 985, 1000);
    expect(":1\r\n", "TTL k");
    expect(":-2\r\n", "PTTL none");
    /* The leader gives it a quarter more: the client trusts the whole PX. */
    world_run(world, 1150);
    expect("$-1\r\n", "SET k other NX PX 1000");
    world_run(world, 120);
    expect("+OK\r\n", "set k other px 1000 nx");
    assert_non_null(strstr(ask("LOCK.SHOW k"), "value\r\n$5\r\nother\r\n"));
}

static void a_value_for_which_there_is_no_room_is_refused(void **state)
{
    (void)state;
    world_free(world);
    world = world_new(1);
    world->limits.founding.of[LIMIT_LOCKS] = 1;
    world_found(world);
    world_elect(world);
    client_open(world, 1, 1);
    expect("+OK\r\n", "SET k v NX PX 1000");
    expect("-LIMIT locks\r\n", "SET more v NX PX 1000");
    expect("+OK\r\n", "SET k v NX AGAIN PX 1000");
}

static void the_same_value_again_renews(void **state)
{
    (void)state;
    expect("+OK\r\n", "SET k v EX 1 NX");
    world_run(world, 1000);
    expect("+OK\r\n", "SET k v NX AGAIN PX 2000");
    assert_in_range(number(ask("PTTL k")), 1985, 2000);
    world_run(world, 1900);
    expect("$1\r\nv\r\n", "GET k");
}

/* The value of npm's redis-lock 1.0 is the time in ms, and others use the id of
 * a process: the same value does not prove that it is the same client. */
static void two_clients_with_one_value_do_not_both_hold_the_lock(void **state)
{
    (void)state;
    client_open(world, 1, 2);
    expect("+OK\r\n", "SET k 1700000000000 NX PX 2000");
    world_run(world, 1000);
    expect("$-1\r\n", "SET k 1700000000000 NX PX 2000");
    expect("$13\r\n1700000000000\r\n", "SET k 1700000000000 NX GET PX 2000");
    assert_answer(world, 1, 2, "$-1\r\n", "SET k 1700000000000 NX PX 2000");
    /* It was not renewed. */
    assert_in_range(number(ask("PTTL k")), 1100, 1300);
    assert_answer(world, 1, 2, "+OK\r\n", "MULTI");
    assert_answer(world, 1, 2, "+QUEUED\r\n", "SET k 1700000000000 NX PX 2000");
    assert_answer(world, 1, 2, "*1\r\n$-1\r\n", "EXEC");
}

static void the_operator_may_say_that_values_are_unique(void **state)
{
    (void)state;
    world_free(world);
    world = world_new(1);
    world->renews_same_value = true;
    world_found(world);
    world_elect(world);
    client_open(world, 1, 1);
    expect("+OK\r\n", "SET k v NX PX 1000");
    expect("+OK\r\n", "SET k v NX PX 2000");
    assert_in_range(number(ask("PTTL k")), 1985, 2000);
    expect("$-1\r\n", "SET k v NX FRESH PX 3000");
    expect("$-1\r\n", "SET k w NX PX 3000");
}

static void pexpire_renews_and_is_a_heartbeat(void **state)
{
    (void)state;
    expect("+OK\r\n", "SET k v NX PX 1000");
    for (int i = 0; i < 10; i++) {
        world_run(world, 800);
        expect(":1\r\n", "PEXPIRE k 1000");
    }
    expect(":1\r\n", "EXPIRE k 5");
    assert_in_range(number(ask("PTTL k")), 4985, 5000);
    expect(":1\r\n", "PEXPIRE k 200");
    assert_in_range(number(ask("PTTL k")), 185, 200);
    world_run(world, 230);
    expect("$-1\r\n", "SET k other NX PX 1000");
    world_run(world, 40);
    expect("+OK\r\n", "SET k other NX PX 1000");
    expect(":0\r\n", "PEXPIRE none 1000");
}

static void what_would_delete_a_lock_is_refused(void **state)
{
    (void)state;
    expect("-BADARG set: a lock needs a time to live: use PX ms or EX s\r\n",
           "SET k v");
    assert_memory_equal(ask("SET k v NX"), "-BADARG set: ", 13);
    assert_memory_equal(ask("SET k v NX XX PX 5"), "-BADARG set: ", 13);
    assert_memory_equal(ask("SET k v NX PX 0"), "-BADARG set: ", 13);
    assert_memory_equal(ask("SETNX k v"), "-BADARG setnx: ", 15);
    expect(":0\r\n", "DEL k");
    ask("SET k v NX PX 1000");
    assert_memory_equal(ask("DEL k"), "-BADARG del: ", 13);
    assert_memory_equal(ask("UNLINK k"), "-BADARG unlink: ", 16);
}

static long long token_of(const char *key)
{
    const char *token = strstr(ask("LOCK.SHOW %s", key), "\r\ntoken\r\n:");
    assert_non_null(token);
    return atoll(token + 10);
}

/* Carries out a script on one key with these arguments. */
static const char *eval(const char *text, const char *key, const char *a,
                        const char *b, const char *c)
{
    const char *words[] = {"EVAL", text, "1", key, a, b, c, NULL};
    return ask_raw(1, words);
}

/* As redis-py has them. */
#define TOKEN                                    \
    "local token = redis.call('get', KEYS[1])\n" \
    "if not token or token ~= ARGV[1] then\n"    \
    "    return 0\n"                             \
    "end\n"
#define RELEASE                          \
    TOKEN "redis.call('del', KEYS[1])\n" \
          "return 1\n"
#define EXTEND                                               \
    TOKEN "local expiration = redis.call('pttl', KEYS[1])\n" \
          "if not expiration then\n"                         \
          "    expiration = 0\n"                             \
          "end\n"                                            \
          "if expiration < 0 then\n"                         \
          "    return 0\n"                                   \
          "end\n"                                            \
          "local newttl = ARGV[2]\n"                         \
          "if ARGV[3] == '0' then\n"                         \
          "    newttl = ARGV[2] + expiration\n"              \
          "end\n"                                            \
          "redis.call('pexpire', KEYS[1], newttl)\n"         \
          "return 1\n"

static void scripts_of_redis_py_extend_and_release(void **state)
{
    (void)state;
    ask("SET k tok NX PX 1000");
    assert_string_equal(eval(EXTEND, "k", "x", "500", "0"), ":0\r\n");
    assert_string_equal(eval(EXTEND, "k", "tok", "500", "0"), ":1\r\n");
    assert_in_range(number(ask("PTTL k")), 1470, 1500);
    assert_string_equal(eval(EXTEND, "k", "tok", "3000", "1"), ":1\r\n");
    assert_in_range(number(ask("PTTL k")), 2980, 3000);
    assert_string_equal(eval(RELEASE, "k", "x", NULL, NULL), ":0\r\n");
    assert_string_equal(eval(RELEASE, "k", "tok", NULL, NULL), ":1\r\n");
    expect("$-1\r\n", "GET k");
    assert_string_equal(eval(RELEASE, "k", "tok", NULL, NULL), ":0\r\n");
}

/* As sent by Redlock for Node.js, version 5. */
#define TAKE                                                    \
    "for i, key in ipairs(KEYS) do\n"                           \
    "  if redis.call(\"exists\", key) == 1 then return 0 end\n" \
    "end\n"                                                     \
    "for i, key in ipairs(KEYS) do\n"                           \
    "  redis.call(\"set\", key, ARGV[1], \"PX\", ARGV[2])\n"    \
    "end\n"                                                     \
    "return #KEYS\n"
#define GIVE_BACK                                     \
    "local count = 0\n"                               \
    "for i, key in ipairs(KEYS) do\n"                 \
    "  if redis.call(\"get\", key) == ARGV[1] then\n" \
    "    redis.pcall(\"del\", key)\n"                 \
    "    count = count + 1\n"                         \
    "  end\n"                                         \
    "end\n"                                           \
    "return count\n"

static void a_script_takes_several_keys_or_none(void **state)
{
    (void)state;
    const char *two[] = {"EVAL", TAKE, "2", "a", "b", "v", "1000", NULL};
    const char *three[] = {"EVAL", TAKE, "3", "c", "d", "b", "w", "9", NULL};
    const char *back[] = {"EVAL", GIVE_BACK, "2", "a", "c", "v", NULL};
    assert_string_equal(ask_raw(1, two), ":2\r\n");
    /* One entry, one token: no client ever has one of them without the
     * other. */
    assert_true(token_of("a") == token_of("b"));
    assert_string_equal(ask_raw(1, three), ":0\r\n");
    expect(":2\r\n", "EXISTS a b c d");
    assert_string_equal(ask_raw(1, back), ":1\r\n");
    expect(":1\r\n", "EXISTS a b");
}

/* They live together, for as long as the longest was promised. */
static void keys_that_are_taken_together_live_the_longest_time(void **state)
{
    (void)state;
    const char *take[] = {"EVAL",
                          "redis.call('set', KEYS[1], 'v', 'PX', 1000)\n"
                          "redis.call('set', KEYS[2], 'v', 'PX', 5000)\n"
                          "redis.call('set', KEYS[3], 'v', 'PX', 2000)\n"
                          "return 1",
                          "3",
                          "a",
                          "b",
                          "c",
                          NULL};
    assert_string_equal(ask_raw(1, take), ":1\r\n");
    for (int i = 0; i < 3; i++) {
        assert_in_range(strtoll(ask("PTTL %c", 'a' + i) + 1, NULL, 10), 4900,
                        5000);
    }
}

static void scripts_are_known_by_their_digest_once_they_came(void **state)
{
    (void)state;
    ask("SET k v NX PX 1000");
    const char *run[] = {"EVAL", RELEASE, "1", "k", "other", NULL};
    const char *load[] = {"SCRIPT", "LOAD", RELEASE, NULL};
    char sha[SHA1_TEXT_SIZE], expected[64];
    sha1_text(bytes_of_text(RELEASE), sha);
    expect("-NOSCRIPT No matching script. Please use EVAL.\r\n",
           "EVALSHA %s 1 k v", sha);
    assert_string_equal(ask_raw(1, run), ":0\r\n");
    expect(":0\r\n", "EVALSHA %s 1 k other", sha); /* EVAL loads, too. */
    expect("+OK\r\n", "SCRIPT FLUSH");
    expect("-NOSCRIPT No matching script. Please use EVAL.\r\n",
           "EVALSHA %s 1 k v", sha);
    snprintf(expected, sizeof expected, "$40\r\n%s\r\n", sha);
    assert_string_equal(ask_raw(1, load), expected);
    expect("*2\r\n:1\r\n:0\r\n", "SCRIPT EXISTS %s %040d", sha, 0);
    for (char *c = sha; *c != '\0'; c++) {
        *c = (char)toupper((unsigned char)*c);
    }
    expect(":1\r\n", "EVALSHA %s 1 k v", sha);
    expect(":0\r\n", "EXISTS k");
}

static void load(int number, char ret_sha[SHA1_TEXT_SIZE])
{
    char text[32], expected[64];
    const char *words[] = {"SCRIPT", "LOAD", text, NULL};
    snprintf(text, sizeof text, "return %d", number);
    sha1_text(bytes_of_text(text), ret_sha);
    snprintf(expected, sizeof expected, "$40\r\n%s\r\n", ret_sha);
    assert_string_equal(ask_raw(1, words), expected);
}

/* The newest are known; the oldest is evicted for the next, and flushed ones
 * have gone. */
static void the_newest_scripts_are_known_before_and_after_a_flush(void **state)
{
    char oldest[SHA1_TEXT_SIZE], second[SHA1_TEXT_SIZE], sha[SHA1_TEXT_SIZE];
    (void)state;
    for (int round = 0; round < 3; round++) {
        load(0, oldest);
        load(1, second);
        for (int i = 2; i < SCRIPTS_LOADED_MAX; i++) {
            load(i, sha);
        }
        expect("*2\r\n:1\r\n:1\r\n", "SCRIPT EXISTS %s %s", oldest, second);
        load(SCRIPTS_LOADED_MAX, sha);
        expect("*3\r\n:0\r\n:1\r\n:1\r\n", "SCRIPT EXISTS %s %s %s", oldest,
               second, sha);
        expect("+OK\r\n", "SCRIPT FLUSH");
        expect("*2\r\n:0\r\n:0\r\n", "SCRIPT EXISTS %s %s", second, sha);
    }
}

static void what_a_script_cannot_do_is_named_with_its_line(void **state)
{
    (void)state;
    static const char *const refused[][2] = {
        {"return redis.call('xadd', KEYS[1], 1, 2)",
         "-ERR hasp does not run this script: line 1: redis.call('xadd'): "
         "hasp does not support this command in scripts\r\n"},
        {"\n\nlocal x = cmsgpack.unpack(ARGV[1])",
         "-ERR hasp does not run this script: line 3: 'cmsgpack.unpack' is "
         "neither a local variable nor a function that hasp supports\r\n"},
        {"if redis.call('get', KEYS[1]) then return 1",
         "-ERR hasp does not run this script: line 1: expected 'end' at the "
         "end\r\n"},
        {"x = 1", "-ERR hasp does not run this script: line 1: 'x' is not a "
                  "local variable; hasp supports no others\r\n"},
        {"return redis.call('pexpireat', KEYS[1], '1900000000000')",
         "-ERR script: line 1: a point in time needs a script that calls TIME "
         "before: hasp uses only the clock of the log\r\n"},
        {"redis.call('set', KEYS[1], 'v') return 1",
         "-BADARG eval: a lock needs a time to live: use PX ms or EX s\r\n"},
        {"while true do end", "-ERR script: line 1: the script runs for more "
                              "than 5000 steps\r\n"},
        {"local s = 'x' while true do s = s .. s end",
         "-ERR script: line 1: the script needs more than 262144 bytes\r\n"},
        {"local function f() return f() end return f()",
         "-ERR script: line 1: more than 16 functions call each other\r\n"},
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        assert_string_equal(eval(refused[i][0], "k", NULL, NULL, NULL),
                            refused[i][1]);
    }
    expect(":0\r\n", "EXISTS k");
}

static void a_script_loaded_at_a_follower_runs_at_the_leader(void **state)
{
    (void)state;
    char
        body[] = "return{redis.call('get',KEYS[1]),redis.call('pttl',KEYS[1])}";
    client_open(world, follower, 1);
    assert_answer(world, follower, 1, "+OK\r\n", "SET k v NX PX 1000");
    const char *load[] = {"SCRIPT", "LOAD", body, NULL};
    char sha[SHA1_TEXT_SIZE];
    sha1_text(bytes_of_text(body), sha);
    ask_raw(follower, load);
    const char *text = client_ask(world, follower, 1, "EVALSHA %s 1 k", sha);
    assert_memory_equal(text, "*2\r\n$1\r\nv\r\n:9", 13);
    assert_answer(world, follower, 1, ":1\r\n", "DELIFEQ k v");
}

/* A client that sends endless scripts delays only itself. */
static void endless_scripts_share_a_turn(void **state)
{
    (void)state;
    client_open(world, 1, 2);
    struct world_client *client = &world->node[1].client[1];
    const char *words[] = {"EVAL", "while true do end", "0", NULL};
    size_t size = strlen(ask_raw(1, words));
    client_clear(world, 1, 1);
    for (int i = 0; i < 100; i++) {
        resp_request_begin(&client->waiting, 3);
        for (int j = 0; j < 3; j++) {
            resp_request_argument(&client->waiting, bytes_of_text(words[j]));
        }
    }
    client_feed(&world->node[1], 1);
    world_step(world);
    assert_in_range(client->output.size, 0, 90 * size); /* Not in one. */
    assert_answer(world, 1, 2, "+OK\r\n", "SET k v NX PX 1000");
    world_run(world, 100);
    assert_int_equal(client->output.size, 100 * size);
}

/* Two that find the key free at once: the second one's entry finds it taken,
 * and is decided again. */
static void of_two_at_once_one_gets_it(void **state)
{
    (void)state;
    client_open(world, 1, 2);
    struct world_client *one = &world->node[1].client[1];
    struct world_client *two = &world->node[1].client[2];
    client_send(world, 1, 1, "SET k one NX PX 1000");
    client_send(world, 1, 2, "SET k two NX PX 1000");
    world_run(world, 50);
    assert_int_equal(one->output.size, 5);
    assert_memory_equal(one->output.data, "+OK\r\n", 5);
    assert_int_equal(two->output.size, 5);
    assert_memory_equal(two->output.data, "$-1\r\n", 5);
}

static void set_and_delete_may_compare(void **state)
{
    (void)state;
    expect("$-1\r\n", "SET k v XX PX 1000");
    expect("$-1\r\n", "SET k v NX GET PX 1000");
    expect("$-1\r\n", "SET k v NX PX 1000");
    expect("$-1\r\n", "SET k v NX FRESH PX 1000");
    expect("+OK\r\n", "SET k v NX AGAIN PX 1000");
    assert_memory_equal(ask("SET k v NX AGAIN FRESH PX 1000"), "-BADARG", 7);
    assert_memory_equal(ask("SET k v AGAIN PX 1000"), "-BADARG", 7);
    expect("$1\r\nv\r\n", "SET k w NX GET PX 1000");
    expect("$-1\r\n", "SET k w IFEQ x PX 1000");
    long long before = token_of("k");
    expect("+OK\r\n", "SET k w IFEQ v PX 3000");
    assert_true(token_of("k") > before); /* Another grant. */
    assert_in_range(number(ask("PTTL k")), 2980, 3000);
    expect("+OK\r\n", "SET k w XX PX 2000");
    expect("+OK\r\n", "SET k x IFEQ w KEEPTTL");
    expect("-BADARG set: another value holds this lock: use IFEQ, or compare "
           "the value first\r\n",
           "SET k y XX PX 2000");
    expect(":0\r\n", "DELIFEQ k y");
    expect(":0\r\n", "DELEX k IFEQ y");
    expect(":1\r\n", "DELEX k IFEQ x");
    expect(":0\r\n", "DELIFEQ k x");
}

/* A client that says DURABLE means it; redis.no_ttl is for those that cannot
 * say it. */
static void a_value_is_durable_if_set_says_so(void **state)
{
    (void)state;
    const char *again = "redis.call('set', KEYS[1], ARGV[1], 'NX', 'DURABLE')\n"
                        "redis.call('del', KEYS[1])\n"
                        "return redis.call('set', KEYS[1], ARGV[1])";
    expect("+OK\r\n", "SET k v NX DURABLE");
    expect(":-1\r\n", "PTTL k");
    expect("$-1\r\n", "SET k v NX DURABLE");
    expect("+OK\r\n", "SET k v NX AGAIN DURABLE");
    expect("$-1\r\n", "SET k v NX FRESH DURABLE");
    expect("$-1\r\n", "SET k w NX DURABLE");
    expect(":1\r\n", "DELIFEQ k v");
    assert_memory_equal(ask("SET k v DURABLE"), "-BADARG", 7);
    assert_memory_equal(ask("SET k v NX PX 1000 DURABLE"), "-BADARG", 7);
    assert_memory_equal(ask("SET k v NX"), "-BADARG", 7);
    /* It is the word of that SET, not of the key. */
    assert_memory_equal(eval(again, "k", "v", NULL, NULL), "-BADARG", 7);
    expect(":0\r\n", "EXISTS k");
}

/* Libraries select their database in the script, and one releases its semaphore
 * without a script. */
static void scripts_select_and_members_are_removed(void **state)
{
    (void)state;
    const char *select = "redis.pcall('SELECT', tonumber(ARGV[1]))\n"
                         "return redis.call('set', KEYS[1], ARGV[1], 'NX', "
                         "'PX', 1000)";
    const char *add = "redis.call('zadd', KEYS[1], 1, 'a', 2, 'b')\n"
                      "redis.call('pexpire', KEYS[1], 1000) return 1";
    assert_string_equal(eval(select, "k", "0", NULL, NULL), "+OK\r\n");
    expect(":1\r\n", "DELIFEQ k 0");
    assert_string_equal(
        eval("return redis.call('select', ARGV[1])", "k", "0", NULL, NULL),
        "+OK\r\n");
    assert_memory_equal(
        eval("return redis.call('select', ARGV[1])", "k", "1", NULL, NULL),
        "-ERR", 4);
    assert_string_equal(eval(add, "k", "0", NULL, NULL), ":1\r\n");
    expect(":0\r\n", "ZREM k c");
    expect(":1\r\n", "ZREM k a c");
    expect(":1\r\n", "EXISTS k");
    expect(":1\r\n", "ZREM k b");
    expect(":0\r\n", "EXISTS k");
}

static void what_is_deleted_and_set_anew_is_another_grant(void **state)
{
    (void)state;
    const char *text = "if redis.call('get', KEYS[1]) then\n"
                       "  redis.call('del', KEYS[1])\n"
                       "end\n"
                       "return redis.call('set', KEYS[1], ARGV[1], 'PX', 3000)";
    expect("+OK\r\n", "SET k v NX PX 1000");
    long long before = token_of("k");
    assert_string_equal(eval(text, "k", "w", NULL, NULL), "+OK\r\n");
    expect("$1\r\nw\r\n", "GET k");
    assert_in_range(number(ask("PTTL k")), 2985, 3000);
    assert_true(token_of("k") > before);
    /* The same value also gets the new time to live. */
    assert_string_equal(eval(text, "k", "w", NULL, NULL), "+OK\r\n");
    assert_in_range(number(ask("PTTL k")), 2985, 3000);
    expect(":1\r\n", "DELIFEQ k w");
}

static void a_function_may_have_another_name(void **state)
{
    (void)state;
    const char *text = "local rcall, other = redis.call, 1";
    assert_non_null(strstr(eval(text, "k", NULL, NULL, NULL), "redis.call"));
    text = "local rcall = redis.call\n"
           "local number = tonumber;\n"
           "local function take(key)\n"
           "  return rcall('set', key, ARGV[1], 'NX', 'PX', number('1000'))\n"
           "end\n"
           "if rcall('exists', KEYS[1]) == 0 then return take(KEYS[1]) end\n"
           "return rcall('get', KEYS[1])";
    assert_string_equal(eval(text, "k", "v", NULL, NULL), "+OK\r\n");
    assert_string_equal(eval(text, "k", "w", NULL, NULL), "$1\r\nv\r\n");
    text = "local rcall = redis.call return rcall('xadd', KEYS[1], 1, 'x')";
    assert_non_null(strstr(eval(text, "k", NULL, NULL, NULL),
                           "redis.call('xadd'): hasp does not support"));
    /* A variable of that name shadows it; and only names can be called. */
    text = "local call = redis.call local call = 7 return call";
    assert_string_equal(eval(text, "k", NULL, NULL, NULL), ":7\r\n");
    text = "local v = redis.call('get', KEYS[1]) return v";
    assert_string_equal(eval(text, "k", NULL, NULL, NULL), "$1\r\nv\r\n");
}

/* --- Hashes and messages -------------------------------------------------- */

/* As Redisson takes or re-enters a lock. */
#define ENTER                                                            \
    "if redis.call('exists', KEYS[1]) == 0 or\n"                         \
    "   redis.call('hexists', KEYS[1], ARGV[1]) == 1 then\n"             \
    "  local count = redis.call('hincrby', KEYS[1], ARGV[1], ARGV[2])\n" \
    "  redis.call('pexpire', KEYS[1], 1000)\n"                           \
    "  redis.call('publish', 'news', count)\n"                           \
    "  return count\n"                                                   \
    "end\n"                                                              \
    "return redis.call('pttl', KEYS[1])"

static void a_hash_keeps_its_token_as_long_as_its_fields(void **state)
{
    (void)state;
    assert_string_equal(eval(ENTER, "k", "a:1", "1", NULL), ":1\r\n");
    long long token = token_of("k");
    assert_string_equal(eval(ENTER, "k", "a:1", "1", NULL), ":2\r\n");
    assert_int_equal(token_of("k"), token);
    expect("$1\r\n2\r\n", "HGET k a:1");
    expect("$-1\r\n", "HGET k a:2");
    expect(":1\r\n", "HEXISTS k a:1");
    assert_in_range(number(eval(ENTER, "k", "b:1", "1", NULL)), 985, 1000);
    const char *text = "redis.call('hset', KEYS[1], 'b', 1, 'c', 'x') "
                       "redis.call('hdel', KEYS[1], 'a:1', 'none') "
                       "return {redis.call('hlen', KEYS[1]), "
                       "redis.call('hget', KEYS[1], 'c'), "
                       "redis.call('hsetnx', KEYS[1], 'c', 'y'), "
                       "redis.call('hsetnx', KEYS[1], 'd', 'y')}";
    assert_string_equal(eval(text, "k", NULL, NULL, NULL),
                        "*4\r\n:2\r\n$1\r\nx\r\n:0\r\n:1\r\n");
    assert_true(token_of("k") > token);
    text = "return redis.call('hdel', KEYS[1], 'b', 'c', 'd')";
    assert_string_equal(eval(text, "k", NULL, NULL, NULL), ":3\r\n");
    expect(":0\r\n", "EXISTS k");
}

static void what_a_hash_cannot_be_is_refused(void **state)
{
    (void)state;
    static const char *const refused[][2] = {
        {"return redis.call('hset', KEYS[1], 'a', 1)", "a lock needs a time"},
        {"return redis.call('hset', KEYS[1], 'a')", "HSET: wrong number"},
        {"return redis.call('hset', KEYS[1], 'a', 1, 'b')", "wrong number"},
        {"return redis.call('hincrby', KEYS[1], 'a', 'x')", "not an integer"},
        {"return redis.call('hincrby', KEYS[1], 'a', '9007199254740993')",
         "not an integer"},
        {"local s = 'xxxxxxxxxxxxxxxx' for i = 1, 8 do s = s .. s end "
         "return redis.call('hset', KEYS[1], 'a', s)",
         "a hash may have at most 4096 bytes"},
        {"for i = 1, 17 do redis.call('publish', 'c', i) end",
         "at most 16 messages"},
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        const char *answer = eval(refused[i][0], "k", NULL, NULL, NULL);
        assert_int_equal(answer[0], '-');
        assert_non_null(strstr(answer, refused[i][1]));
    }
    expect(":0\r\n", "EXISTS k");
}

static void
what_a_script_publishes_is_told_if_it_changed_something(void **state)
{
    (void)state;
    client_open(world, 1, 2);
    client_ask(world, 1, 2, "SUBSCRIBE news");
    client_clear(world, 1, 2);
    assert_string_equal(eval(ENTER, "k", "a:1", "1", NULL), ":1\r\n");
    assert_string_equal(client_text(world, 1, 2),
                        "*3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n$1\r\n1\r\n");
    client_clear(world, 1, 2);
    const char *text = "return redis.call('publish', 'news', 'x')";
    assert_string_equal(eval(text, "k", NULL, NULL, NULL), ":0\r\n");
    text = "redis.call('hincrby', KEYS[1], 'a:1', 1) "
           "redis.call('publish', 'lock:k', 'forged') return 1";
    assert_string_equal(eval(text, "k", NULL, NULL, NULL), ":1\r\n");
    world_run(world, 100);
    assert_string_equal(client_text(world, 1, 2), "");
}

/* --- Other types, and TIME ------------------------------------------------ */

static const char *eval1(const char *text)
{
    return eval(text, "k", "x", "1000", NULL);
}

/* Everything in them is returned, and a person can read it. */
static void collections_keep_all_bytes(void **state)
{
    (void)state;
    const char *text = "redis.call('hset', KEYS[1], 'a=b%\\n', '1=2%\\n%3D') "
                       "redis.call('pexpire', KEYS[1], 1000) return 1";
    assert_string_equal(eval1(text), ":1\r\n");
    assert_string_equal(eval1("return redis.call('hgetall', KEYS[1])"),
                        "*2\r\n$5\r\na=b%\n\r\n$8\r\n1=2%\n%3D\r\n");
    assert_non_null(
        strstr(ask("LOCK.SHOW k"), "\x01hash\na%3Db%25%0A=1=2%25%0A%253D\r\n"));
    assert_string_equal(eval1("return redis.call('del', KEYS[1])"), ":1\r\n");
    text = "redis.call('rpush', KEYS[1], '', '=', '%', '') "
           "redis.call('pexpire', KEYS[1], 1000) return 1";
    assert_string_equal(eval1(text), ":1\r\n");
    assert_string_equal(eval1("return redis.call('lrange', KEYS[1], 0, -1)"),
                        "*4\r\n$0\r\n\r\n$1\r\n=\r\n$1\r\n%\r\n$0\r\n\r\n");
    assert_non_null(strstr(ask("TYPE k"), "-")); /* No command of its own. */
    assert_string_equal(eval1("return redis.call('type', KEYS[1])"),
                        "+list\r\n");
    assert_non_null(
        strstr(eval1("return redis.call('zcard', KEYS[1])"), "WRONGTYPE"));
    assert_non_null(strstr(ask("GET k"), "WRONGTYPE"));
}

/* A semaphore of two: its members come and go; removing the last one ends the
 * lock. */
static void a_sorted_set_is_a_semaphore(void **state)
{
    (void)state;
    const char
        *take = "redis.call('zremrangebyscore', KEYS[1], '-inf', ARGV[3]) "
                "if redis.call('zcard', KEYS[1]) < 2 then "
                "redis.call('zadd', KEYS[1], ARGV[2], ARGV[1]) "
                "redis.call('pexpire', KEYS[1], 1000) return 1 end return 0";
    assert_string_equal(eval(take, "k", "a", "10", "5"), ":1\r\n");
    assert_string_equal(eval(take, "k", "b", "7", "5"), ":1\r\n");
    assert_string_equal(eval(take, "k", "c", "9", "6"), ":0\r\n");
    assert_string_equal(eval1("return redis.call('zrange', KEYS[1], 0, -1, "
                              "'withscores')"),
                        "*4\r\n$1\r\nb\r\n$1\r\n7\r\n$1\r\na\r\n$2\r\n10\r\n");
    assert_string_equal(eval(take, "k", "c", "9", "7"), ":1\r\n");
    assert_string_equal(eval1("return redis.call('zrem', KEYS[1], 'a', 'c')"),
                        ":2\r\n");
    expect(":0\r\n", "EXISTS k");
}

/* A key that the script names itself is a key like any other. */
static void a_script_may_name_a_key_itself(void **state)
{
    (void)state;
    const char *text = "return redis.call('set', KEYS[1] .. ':2', ARGV[1], "
                       "'px', ARGV[2])";
    assert_string_equal(eval1(text), "+OK\r\n");
    expect("$1\r\nx\r\n", "GET k:2");
    text = "if redis.call('get', KEYS[1] .. ':2') == ARGV[1] then "
           "return redis.call('pexpire', KEYS[1] .. ':2', 2000) end";
    assert_string_equal(eval1(text), ":1\r\n");
    assert_in_range(number(ask("PTTL k:2")), 1900, 2000);
}

#define TELL_TIME                                        \
    "local t = redis.call('time') "                      \
    "local now = t[1] * 1000 + math.floor(t[2] / 1000) " \
    "redis.call('set', KEYS[1], 'v', 'px', '60000') return now"

/* TIME continues from the log's value, at 0.8 of the leader's own clock,
 * whichever node leads and whatever the wall clocks show; and a point in time
 * ends when TIME reaches it. */
static void time_is_the_clusters_and_never_too_fast(void **state)
{
    (void)state;
    client_open(world, leader, 1);
    const char *words[] = {"EVAL", TELL_TIME, "1", "k", NULL};
    int64_t first = number(ask_raw(leader, words));
    world_run(world, 1000);
    int64_t second = number(ask_raw(leader, words));
    assert_in_range(second - first, 790, 830);
    uint64_t since_ms = world->now_ms;
    world_run(world, 1000);
    node_kill(world, leader);
    world_elect(world);
    uint64_t next = world_leader(world);
    assert_int_not_equal(next, leader);
    client_open(world, next, 1);
    int64_t last = number(ask_raw(next, words));
    int64_t passed = last - second;
    int64_t most = (int64_t)(world->now_ms - since_ms) * 4 / 5;
    assert_in_range(passed, most - 100, most); /* It learns of it late. */
    const char *until[] = {"EVAL",
                           "local t = redis.call('time') "
                           "local now = t[1] * 1000 + math.floor(t[2] / 1000) "
                           "redis.call('zadd', KEYS[1], now + 500, 'a') "
                           "redis.call('pexpireat', KEYS[1], now + 500) "
                           "return redis.call('pttl', KEYS[1])",
                           "1", "z", NULL};
    assert_int_equal(number(ask_raw(next, until)), 500);
    const char *over[] = {"EVAL",
                          "redis.call('time') "
                          "return redis.call('pexpireat', KEYS[1], 1)",
                          "1", "z", NULL};
    assert_int_equal(number(ask_raw(next, over)), 1);
    assert_answer(world, next, 1, ":0\r\n", "EXISTS z");
}

/* Feeds several requests at once. */
static void feed(const char *const *words[], size_t count)
{
    struct world_client *client = &world->node[1].client[1];
    client_clear(world, 1, 1);
    for (size_t i = 0; i < count; i++) {
        uint32_t size = 0;
        while (words[i][size] != NULL) {
            size++;
        }
        resp_request_begin(&client->waiting, size);
        for (uint32_t j = 0; j < size; j++) {
            resp_request_argument(&client->waiting, bytes_of_text(words[i][j]));
        }
    }
    client_feed(&world->node[1], 1);
    world_run(world, 200);
}

static void what_comes_at_once_is_done_in_its_order(void **state)
{
    (void)state;
    const char *set[] = {"SET", "k", "v", "NX", "PX", "5000", NULL};
    const char *renew[] = {"PEXPIRE", "k", "5000", NULL};
    const char *release[] = {"DELIFEQ", "k", "v", NULL};
    const char *try[] = {"SET", "k", "w", "NX", "PX", "5000", NULL};
    const char *const *at_once[] = {release, set,   renew, try,
                                    release, renew, try,   release};
    feed(at_once, sizeof at_once / sizeof *at_once);
    assert_string_equal(client_text(world, 1, 1), ":0\r\n+OK\r\n:1\r\n$-1\r\n"
                                                  ":1\r\n:0\r\n+OK\r\n:0\r\n");
    expect("$1\r\nw\r\n", "GET k");
}

/* --- MULTI, EXEC, WATCH --------------------------------------------------- */

static void a_transaction_is_one_entry_if_nothing_has_changed(void **state)
{
    (void)state;
    expect("+OK\r\n", "SET k v NX PX 1000");
    expect("+OK\r\n", "WATCH k none");
    expect("+OK\r\n", "MULTI");
    expect("+QUEUED\r\n", "GET k");
    expect("+QUEUED\r\n", "DEL k");
    expect("+QUEUED\r\n", "SET none v NX PX 1000");
    uint64_t before = lockfsm_applied_index(core_state(world->node[1].core));
    expect("*3\r\n$1\r\nv\r\n:1\r\n+OK\r\n", "EXEC");
    assert_int_equal(lockfsm_applied_index(core_state(world->node[1].core)),
                     before + 1);
    expect(":1\r\n", "EXISTS k none");
}

static void a_transaction_is_nothing_if_a_watched_key_has_changed(void **state)
{
    (void)state;
    static const char *const meanwhile[] = {
        "DELIFEQ k v", "SET none w NX PX 1000", "SET k w IFEQ v PX 1000"};
    client_open(world, 1, 2);
    for (size_t i = 0; i < sizeof meanwhile / sizeof *meanwhile; i++) {
        expect("+OK\r\n", "SET k v NX PX 1000");
        expect("+OK\r\n", "WATCH k none");
        assert_int_not_equal(client_ask(world, 1, 2, "%s", meanwhile[i])[0],
                             '-');
        expect("+OK\r\n", "MULTI");
        expect("+QUEUED\r\n", "SET other v NX PX 1000");
        expect("*-1\r\n", "EXEC");
        expect(":0\r\n", "EXISTS other");
        world_run(world, 1300);
    }
    /* A renewal, by any client, changes nothing. */
    expect("+OK\r\n", "SET k v NX PX 1000");
    expect("+OK\r\n", "WATCH k");
    assert_answer(world, 1, 2, ":1\r\n", "PEXPIRE k 2000");
    expect("+OK\r\n", "MULTI");
    expect("+QUEUED\r\n", "DEL k");
    expect("*1\r\n:1\r\n", "EXEC");
    /* A watch ends with UNWATCH, and when the watched key expires. */
    expect("+OK\r\n", "SET k v NX PX 1000");
    expect("+OK\r\n", "WATCH k");
    world_run(world, 1300);
    expect("+OK\r\n", "MULTI");
    expect("*-1\r\n", "EXEC");
    expect("+OK\r\n", "WATCH none");
    expect("+OK\r\n", "SET none v NX PX 1000");
    expect("+OK\r\n", "UNWATCH");
    expect("+OK\r\n", "MULTI");
    expect("+QUEUED\r\n", "GET none");
    expect("*1\r\n$1\r\nv\r\n", "EXEC");
}

/* A lock of a session has no version that a value, or a free key, could have:
 * whatever becomes of it, EXEC does nothing. */
static void a_lock_of_a_session_is_watched_too(void **state)
{
    (void)state;
    static const struct {
        const char *before, *meanwhile;
        bool is_missed;
    } cases[] = {{"LOCK.ACQUIRE k", "LOCK.RELEASE k", true},
                 {"PING", "LOCK.ACQUIRE k", true},
                 {"LOCK.ACQUIRE k", "LOCK.ACQUIRE k", false},
                 {"LOCK.ACQUIRE k", "PING", false}};
    client_open(world, 1, 2);
    (void)client_session(world, 1, 2, "TTL 60000");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        (void)client_ask(world, 1, 2, "%s", cases[i].before);
        expect("+OK\r\n", "WATCH k");
        (void)client_ask(world, 1, 2, "%s", cases[i].meanwhile);
        expect("+OK\r\n", "MULTI");
        expect("+QUEUED\r\n", "EXISTS other");
        expect(cases[i].is_missed ? "*-1\r\n" : "*1\r\n:0\r\n", "EXEC");
        (void)client_ask(world, 1, 2, "LOCK.RELEASE k");
        (void)client_ask(world, 1, 2, "LOCK.RELEASE k");
    }
}

static void only_so_many_keys_are_watched(void **state)
{
    (void)state;
    char name[MULTI_COUNT_MAX][16];
    const char *words[MULTI_COUNT_MAX + 2] = {"WATCH"};
    for (size_t i = 0; i < MULTI_COUNT_MAX; i++) {
        snprintf(name[i], sizeof name[i], "k%zu", i);
        words[i + 1] = name[i];
    }
    assert_string_equal(ask_raw(1, words), "+OK\r\n");
    expect("+OK\r\n", "WATCH k0 k1");
    expect("-LIMIT keys of a transaction\r\n", "WATCH more");
    expect("+OK\r\n", "MULTI");
    expect("-EXECABORT Transaction discarded because of: WATCH was refused\r\n",
           "EXEC");
}

static void what_was_watched_in_vain_is_not_carried_out(void **state)
{
    (void)state;
    client_open(world, follower, 1);
    node_kill(world, leader);
    node_kill(world, follower % 3 + 1);
    assert_memory_equal(client_ask(world, follower, 1, "WATCH k"), "-NOLEADER",
                        9);
    assert_answer(world, follower, 1, "+OK\r\n", "MULTI");
    assert_answer(world, follower, 1, "+QUEUED\r\n", "DEL k");
    assert_answer(world, follower, 1,
                  "-EXECABORT Transaction discarded because of: WATCH was "
                  "refused\r\n",
                  "EXEC");
    assert_answer(world, follower, 1, "+OK\r\n", "MULTI");
    assert_answer(world, follower, 1, "*0\r\n", "EXEC");
}

static void a_value_survives_the_leaders_death(void **state)
{
    (void)state;
    client_open(world, follower, 1);
    assert_answer(world, follower, 1, "+OK\r\n", "SET k v NX PX 4000");
    node_kill(world, leader);
    world_elect(world);
    assert_answer(world, follower, 1, "$-1\r\n", "SET k w NX PX 4000");
    assert_answer(world, follower, 1, "$-1\r\n", "SET k v NX PX 4000");
    assert_answer(world, follower, 1, "+OK\r\n", "SET k v NX AGAIN PX 4000");
}

#define one(test) cmocka_unit_test_setup_teardown(test, begin_one, tear_down)
#define three(test) \
    cmocka_unit_test_setup_teardown(test, begin_three, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        one(set_nx_px_takes_a_lock_that_runs_out),
        one(a_value_for_which_there_is_no_room_is_refused),
        one(the_same_value_again_renews),
        one(two_clients_with_one_value_do_not_both_hold_the_lock),
        one(the_operator_may_say_that_values_are_unique),
        one(pexpire_renews_and_is_a_heartbeat),
        one(what_would_delete_a_lock_is_refused),
        one(scripts_of_redis_py_extend_and_release),
        one(a_script_takes_several_keys_or_none),
        one(keys_that_are_taken_together_live_the_longest_time),
        one(scripts_are_known_by_their_digest_once_they_came),
        one(the_newest_scripts_are_known_before_and_after_a_flush),
        one(what_a_script_cannot_do_is_named_with_its_line),
        one(endless_scripts_share_a_turn),
        one(of_two_at_once_one_gets_it),
        one(set_and_delete_may_compare),
        one(a_value_is_durable_if_set_says_so),
        one(scripts_select_and_members_are_removed),
        one(what_is_deleted_and_set_anew_is_another_grant),
        one(a_function_may_have_another_name),
        one(a_hash_keeps_its_token_as_long_as_its_fields),
        one(what_a_hash_cannot_be_is_refused),
        one(collections_keep_all_bytes),
        one(a_sorted_set_is_a_semaphore),
        one(a_script_may_name_a_key_itself),
        three(time_is_the_clusters_and_never_too_fast),
        one(what_a_script_publishes_is_told_if_it_changed_something),
        one(what_comes_at_once_is_done_in_its_order),
        one(a_transaction_is_one_entry_if_nothing_has_changed),
        one(a_transaction_is_nothing_if_a_watched_key_has_changed),
        one(a_lock_of_a_session_is_watched_too),
        one(only_so_many_keys_are_watched),
        three(what_was_watched_in_vain_is_not_carried_out),
        three(a_script_loaded_at_a_follower_runs_at_the_leader),
        three(a_value_survives_the_leaders_death),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
