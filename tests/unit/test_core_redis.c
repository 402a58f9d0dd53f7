/* SPDX-License-Identifier: MIT */

/* The Redis façade of core: what lock clients send, byte by byte. */

#include "tests/unit/core_world.h"

#include "core/redis/scripts.h"

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

static int set_up_three(void **state)
{
    (void)state;
    world = world_new(3);
    world_found(world);
    world_elect(world);
    world_run(world, 100);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    world_free(world);
    return 0;
}

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

static void the_same_value_again_renews(void **state)
{
    (void)state;
    expect("+OK\r\n", "SET k v EX 1 NX");
    world_run(world, 1000);
    expect("+OK\r\n", "SET k v NX PX 2000");
    assert_in_range(number(ask("PTTL k")), 1985, 2000);
    world_run(world, 1900);
    expect("$1\r\nv\r\n", "GET k");
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
    expect(":0\r\n", "PEXPIRE none 1000");
}

static void what_would_delete_a_lock_is_refused(void **state)
{
    (void)state;
    expect("-BADARG set: only SET key value NX PX ms (or EX s) is served: a "
           "lock needs a time to live, 1 ms to 1 h\r\n",
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

static void scripts_of_redis_py_are_known_by_their_digest(void **state)
{
    (void)state;
    ask("SET k tok NX PX 1000");
    expect(":0\r\n",
           "EVALSHA a4e8783852e6b949f9ef3a97212805108459a890 1 k x 500 0");
    expect(":1\r\n",
           "EVALSHA a4e8783852e6b949f9ef3a97212805108459a890 1 k tok 500 0");
    assert_in_range(number(ask("PTTL k")), 1470, 1500);
    expect(":1\r\n",
           "EVALSHA a4e8783852e6b949f9ef3a97212805108459a890 1 k tok 3000 1");
    assert_in_range(number(ask("PTTL k")), 2980, 3000);
    /* A shorter time takes nothing back: its answer may get lost. */
    expect(":1\r\n", "PEXPIRE k 10");
    assert_in_range(number(ask("PTTL k")), 2900, 3000);
    expect(":1\r\n",
           "EVALSHA 1cac51482acf5858da00f6d685d68f886cd6b6b2 1 k tok 9000");
    expect(":0\r\n", "EVALSHA c3f8721cbb97f72bc19e972846bd7aaf91901658 1 k x");
    expect(":1\r\n",
           "EVALSHA c3f8721cbb97f72bc19e972846bd7aaf91901658 1 k tok");
    expect("$-1\r\n", "GET k");
    expect(":-1\r\n",
           "EVALSHA e950836ed1e694540c503ef9972b8de518044d3b 1 k tok");
}

static void scripts_of_redlock_take_several_keys_or_none(void **state)
{
    (void)state;
    expect(":2\r\n",
           "evalsha 96da70f7716f27d278a5218544df37fd8b0a5e4c 2 a b v 1000");
    expect(":0\r\n",
           "evalsha 96da70f7716f27d278a5218544df37fd8b0a5e4c 3 c d b w 1000");
    expect(":2\r\n", "EXISTS a b c d"); /* c and d were given back. */
    expect(":2\r\n",
           "evalsha aed6f382e410db8ba7926d4e5e9aab410bf2a78a 2 a b v 5000");
    expect(":0\r\n",
           "evalsha aed6f382e410db8ba7926d4e5e9aab410bf2a78a 2 a b w 5000");
    expect(":1\r\n",
           "evalsha e4612211c9f8f51c257e26e056b0a654b3187242 2 a c v");
    expect(":1\r\n", "EXISTS a b");
    expect("+OK\r\n",
           "EVALSHA ceb2b2062e40c51a2b3963fd078bc71f11bdc65c 1 r u 1000 yes");
    expect("$-1\r\n",
           "EVALSHA ceb2b2062e40c51a2b3963fd078bc71f11bdc65c 1 r w 1000 yes");
    expect("$-1\r\n",
           "EVALSHA ceb2b2062e40c51a2b3963fd078bc71f11bdc65c 1 s u 1000 no");
    const char *text = ask(
        "EVALSHA 78d2ca48a6dc9ef6892059792a3a0c5237733d64 1 r");
    assert_memory_equal(text, "*2\r\n$1\r\nu\r\n:9", 13);
}

#define RELEASE                                                    \
    "-- a comment of ours\n IF_ redis.call(\"GET\",  KEYS[1]) == " \
    "ARGV[1] then return redis.call('DEL',KEYS[1]) else return 0 end"

static void scripts_are_known_by_their_text(void **state)
{
    (void)state;
    char body[] = RELEASE;
    *strstr(body, "IF_") = 'i';
    *(strstr(body, "iF_") + 1) = 'f';
    *(strstr(body, "if_") + 2) = ' ';
    ask("SET k v NX PX 1000");
    const char *eval[] = {"EVAL", body, "1", "k", "other", NULL};
    const char *load[] = {"SCRIPT", "LOAD", body, NULL};
    char sha[SHA1_TEXT_SIZE], expected[64];
    sha1_text(bytes_of_text(body), sha);
    expect("-NOSCRIPT No matching script. Please use EVAL.\r\n",
           "EVALSHA %s 1 k v", sha);
    assert_string_equal(ask_raw(1, eval), ":0\r\n");
    expect(":0\r\n", "EVALSHA %s 1 k other", sha); /* EVAL loads, too. */
    expect("+OK\r\n", "SCRIPT FLUSH");
    expect("-NOSCRIPT No matching script. Please use EVAL.\r\n",
           "EVALSHA %s 1 k v", sha);
    snprintf(expected, sizeof expected, "$40\r\n%s\r\n", sha);
    assert_string_equal(ask_raw(1, load), expected);
    expect("*2\r\n:1\r\n:0\r\n", "SCRIPT EXISTS %s %040d", sha, 0);
    expect(":1\r\n", "EVALSHA %s 1 k v", sha);
    expect(":0\r\n", "EXISTS k");
    const char *unknown[] = {"EVAL", "return 1", "0", NULL};
    assert_memory_equal(ask_raw(1, unknown), "-ERR unknown script: ", 21);
}

static void a_script_loaded_at_a_follower_runs_at_the_leader(void **state)
{
    (void)state;
    uint64_t leader = world_leader(world);
    uint64_t follower = leader % 3 + 1;
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
    assert_answer(world, follower, 1, ":1\r\n",
                  "EVALSHA c3f8721cbb97f72bc19e972846bd7aaf91901658 1 k v");
}

static void a_value_survives_the_leaders_death(void **state)
{
    (void)state;
    uint64_t leader = world_leader(world);
    uint64_t follower = leader % 3 + 1;
    client_open(world, follower, 1);
    assert_answer(world, follower, 1, "+OK\r\n", "SET k v NX PX 4000");
    node_kill(world, leader);
    world_elect(world);
    assert_answer(world, follower, 1, "$-1\r\n", "SET k w NX PX 4000");
    assert_answer(world, follower, 1, "+OK\r\n", "SET k v NX PX 4000");
}

#define one(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
#define three(test) \
    cmocka_unit_test_setup_teardown(test, set_up_three, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        one(set_nx_px_takes_a_lock_that_runs_out),
        one(the_same_value_again_renews),
        one(pexpire_renews_and_is_a_heartbeat),
        one(what_would_delete_a_lock_is_refused),
        one(scripts_of_redis_py_are_known_by_their_digest),
        one(scripts_of_redlock_take_several_keys_or_none),
        one(scripts_are_known_by_their_text),
        three(a_script_loaded_at_a_follower_runs_at_the_leader),
        three(a_value_survives_the_leaders_death),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
