/* SPDX-License-Identifier: MIT */

/* Watchers and their bounds: no watcher keeps the node from its work, or misses
 * events because of another one. */

#include "core/events/watches.h"

#include "base/memory.h"
#include "core/conn.h"

#include "tests/unit/core_fixture.h"
#include "tests/unit/core_world.h"

#define WORKER 1
#define HONEST 2
#define HOSTILE 3
#define FIRST 10 /* The first of many. */

static struct core *core;

static int set_up(void **state)
{
    (void)state;
    world = world_new(1);
    world_found(world);
    world_elect(world);
    core = world->node[1].core;
    client_open(world, 1, WORKER);
    client_session(world, 1, WORKER, "TTL 60000");
    return 0;
}

static void watcher(uint64_t conn)
{
    client_open(world, 1, conn);
    client_ask(world, 1, conn, "HELLO 3");
}

/* Comes from an address of its own, since what one address watches is bounded.
 */
static void from_elsewhere(uint64_t conn)
{
    char address[64];
    snprintf(address, sizeof address, "10.9.%u.%u:1",
             (unsigned)(conn / 256 % 256), (unsigned)(conn % 256));
    struct conn *there = conn_find(core, conn);
    free(there->address);
    there->address = memory_text(address);
}

/* The core's call, without the words around it. */
static const char *add(uint64_t conn, enum watch_kind kind, struct bytes text)
{
    const char *why = NULL;
    enum core_word word = watch_add(core, conn_find(core, conn), kind, text,
                                    &why);
    assert_int_equal(word != WORD_NONE, why != NULL);
    return why;
}

static uint32_t times(uint64_t conn, const char *text)
{
    uint32_t count = 0;
    const char *at = client_text(world, 1, conn);
    while ((at = strstr(at, text)) != NULL) {
        count++;
        at++;
    }
    return count;
}

/* "*[xxxx...]00001": each byte of a name is searched for among all of them. */
static struct bytes costly(uint32_t number)
{
    static char text[WATCH_SIZE_MAX + 1];
    memset(text, 'x', sizeof text);
    text[0] = '*';
    text[1] = '[';
    snprintf(text + WATCH_SIZE_MAX - 6, 7, "]%05u", number % 100000);
    return bytes_of(text, WATCH_SIZE_MAX);
}

static void a_connection_and_a_node_watch_so_much(void **state)
{
    (void)state;
    char text[32];
    uint32_t count = 0;
    watcher(HONEST);
    for (int i = 0; i < GLOB_COUNT_MAX; i++) {
        int size = snprintf(text, sizeof text, "lock:g%d*", i);
        assert_null(add(HONEST, WATCH_PATTERN, bytes_of(text, (size_t)size)));
    }
    for (int i = 0; i < WATCH_COUNT_MAX; i++) {
        int size = snprintf(text, sizeof text, "p%d", i);
        assert_null(add(HONEST, i % 2 ? WATCH_PREFIX : WATCH_CHANNEL,
                        bytes_of(text, (size_t)size)));
    }
    assert_answer(world, 1, HONEST, "-LIMIT patterns of a connection\r\n",
                  "PSUBSCRIBE one-more");
    assert_answer(world, 1, HONEST, "-LIMIT watches of a connection\r\n",
                  "LOCK.WATCH one-more");
    assert_answer(world, 1, HONEST, "-LIMIT watches of a connection\r\n",
                  "SUBSCRIBE one-more");
    /* A watch that exists already may be requested again. */
    assert_answer(world, 1, HONEST, "+OK\r\n", "LOCK.WATCH p1");
    assert_answer(world, 1, HONEST, "+OK\r\n", "LOCK.UNWATCH p1");
    assert_answer(world, 1, HONEST, "+OK\r\n", "LOCK.WATCH one-more");
    count = GLOB_COUNT_MAX + WATCH_COUNT_MAX;
    for (uint64_t conn = FIRST; count < WATCH_COUNT_NODE_MAX; conn++) {
        client_open(world, 1, conn);
        from_elsewhere(conn);
        for (int i = 0; i < 1000 && count < WATCH_COUNT_NODE_MAX; i++) {
            int size = snprintf(text, sizeof text, "p%d", i);
            assert_null(add(conn, WATCH_PREFIX, bytes_of(text, (size_t)size)));
            count++;
        }
    }
    watcher(HOSTILE);
    assert_answer(world, 1, HOSTILE, "-LIMIT watches of this node\r\n",
                  "LOCK.WATCH x");
    core_client_closed(core, FIRST, world->now_ms * MS);
    assert_answer(world, 1, HOSTILE, "+OK\r\n", "LOCK.WATCH x");
}

static void an_address_without_a_user_watches_so_much(void **state)
{
    (void)state;
    char text[32];
    uint32_t count = 0;
    uint64_t conn = FIRST;
    for (; count < WATCH_COUNT_ORIGIN_MAX; conn++) {
        client_open(world, 1, conn);
        for (int i = 0; i < 1000 && count < WATCH_COUNT_ORIGIN_MAX; i++) {
            int size = snprintf(text, sizeof text, "p%d", i);
            assert_null(add(conn, WATCH_PREFIX, bytes_of(text, (size_t)size)));
            count++;
        }
    }
    watcher(HOSTILE);
    assert_answer(world, 1, HOSTILE,
                  "-LIMIT watches of clients without a user from one address: "
                  "12500 of 12500 are in use at this node; end some, or use "
                  "AUTH\r\n",
                  "LOCK.WATCH x");
    watcher(HONEST);
    from_elsewhere(HONEST);
    assert_answer(world, 1, HONEST, "+OK\r\n", "LOCK.WATCH x");
    core_client_closed(core, FIRST, world->now_ms * MS);
    assert_answer(world, 1, HOSTILE, "+OK\r\n", "LOCK.WATCH x");
}

static void what_is_watched_has_a_size(void **state)
{
    (void)state;
    char text[WATCH_SIZE_MAX + 2];
    memset(text, 'x', sizeof text);
    text[WATCH_SIZE_MAX + 1] = '\0';
    watcher(HONEST);
    assert_answer(world, 1, HONEST,
                  "-BADARG psubscribe: a channel or pattern has at most 516 "
                  "bytes\r\n",
                  "PSUBSCRIBE a %s", text);
    assert_answer(world, 1, HONEST,
                  "-BADARG subscribe: a channel or pattern has at most 516 "
                  "bytes\r\n",
                  "SUBSCRIBE %s", text);
    assert_answer(world, 1, HONEST,
                  "-BADARG get: a key has at most 511 bytes\r\n", "GET %.512s",
                  text);
    assert_answer(world, 1, HONEST,
                  "-BADARG exists: a key has at most 511 bytes\r\n",
                  "EXISTS a %.512s", text);
    assert_answer(world, 1, HONEST,
                  "-BADARG cluster: a key has at most 511 bytes\r\n",
                  "CLUSTER KEYSLOT %.512s", text);
    assert_answer(world, 1, HONEST,
                  "-BADARG config: a pattern has at most 64 bytes\r\n",
                  "CONFIG GET save %.65s", text);
    assert_answer(world, 1, HONEST, "_\r\n", "GET %.511s", text);
    text[WATCH_SIZE_MAX] = '\0';
    client_ask(world, 1, HONEST, "PSUBSCRIBE %s", text);
    assert_int_equal(times(HONEST, "psubscribe"), 1);
}

static void each_event_is_told_once_in_its_own_way(void **state)
{
    (void)state;
    watcher(HONEST);
    client_ask(world, 1, HONEST, "LOCK.WATCH job");
    client_ask(world, 1, HONEST, "LOCK.WATCH jobs/");
    client_ask(world, 1, HONEST, "LOCK.WATCH other");
    client_ask(world, 1, HONEST, "SUBSCRIBE lock:jobs/1 lock:jobs/2");
    client_ask(world, 1, HONEST, "PSUBSCRIBE lock:j* lock:x*");
    client_clear(world, 1, HONEST);
    client_ask(world, 1, WORKER, "LOCK.ACQUIRE jobs/1");
    assert_int_equal(times(HONEST, "lock\r\n$7\r\ngranted"), 1);
    assert_int_equal(times(HONEST, "\r\nmessage\r\n$11\r\nlock:jobs/1"), 1);
    assert_int_equal(times(HONEST, "pmessage\r\n"), 1);
    client_clear(world, 1, HONEST);
    client_ask(world, 1, HONEST, "UNSUBSCRIBE");
    assert_int_equal(times(HONEST, "unsubscribe\r\n$11\r\nlock:jobs/"), 2);
    client_clear(world, 1, HONEST);
    client_ask(world, 1, WORKER, "LOCK.RELEASE jobs/1");
    assert_int_equal(times(HONEST, "lock\r\n$8\r\nreleased"), 1);
    assert_int_equal(times(HONEST, "pmessage\r\n"), 1);
    assert_int_equal(times(HONEST, "\r\nmessage\r\n$11"), 0);
}

/* One hostile connection with patterns that backtrack at each byte, against a
 * name of 511 bytes: it is closed during the event, and the others receive all
 * of it. */
static void costly_patterns_close_their_watcher_alone(void **state)
{
    (void)state;
    char name[LOCK_NAME_SIZE_MAX + 1];
    memset(name, 'a', sizeof name);
    name[LOCK_NAME_SIZE_MAX] = '\0';
    watcher(HOSTILE);
    watcher(HONEST);
    client_ask(world, 1, HONEST, "LOCK.WATCH a");
    client_ask(world, 1, HONEST, "PSUBSCRIBE lock:a*");
    for (uint32_t i = 0; i < GLOB_COUNT_MAX; i++) {
        assert_null(add(HOSTILE, WATCH_PATTERN, costly(i)));
    }
    client_clear(world, 1, HONEST);
    client_clear(world, 1, HOSTILE);
    client_ask(world, 1, WORKER, "LOCK.ACQUIRE %s", name);
    assert_true(world->node[1].client[HOSTILE].was_closed);
    assert_string_equal(client_text(world, 1, HOSTILE),
                        "-LIMIT pattern too costly\r\n");
    assert_false(world->node[1].client[HONEST].was_closed);
    assert_int_equal(times(HONEST, "lock\r\n$7\r\ngranted"), 1);
    assert_int_equal(times(HONEST, "pmessage\r\n"), 1);
    /* A later client may watch the same, if the watch is narrow. */
    watcher(HOSTILE + 1);
    assert_null(add(HOSTILE + 1, WATCH_PATTERN, costly(0)));
    core_client_closed(core, HOSTILE, world->now_ms * MS);
    client_ask(world, 1, WORKER, "LOCK.RELEASE %s", name);
    assert_false(world->node[1].client[HOSTILE + 1].was_closed);
    assert_int_equal(times(HONEST, "lock\r\n$8\r\nreleased"), 1);
}

/* Very many patterns: the cost of an event is bounded, whatever they are. */
static void no_number_of_patterns_costs_more_than_a_turn_has(void **state)
{
    (void)state;
    char name[LOCK_NAME_SIZE_MAX + 1];
    uint32_t hostile = 0, left = 0;
    memset(name, 'a', sizeof name);
    name[LOCK_NAME_SIZE_MAX] = '\0';
    for (uint64_t conn = FIRST; hostile < 20000; conn++) {
        client_open(world, 1, conn);
        from_elsewhere(conn);
        for (int i = 0; i < GLOB_COUNT_MAX; i++) {
            assert_null(add(conn, WATCH_PATTERN, costly(hostile++)));
        }
    }
    client_ask(world, 1, WORKER, "LOCK.ACQUIRE %s", name);
    for (uint64_t conn = FIRST; conn_find(core, conn) != NULL; conn++) {
        left += !conn_find(core, conn)->is_closing;
    }
    assert_true(left < 20);
}

static void who_watches_all_sizes_pays_for_all(void **state)
{
    (void)state;
    char name[LOCK_NAME_SIZE_MAX + 1];
    memset(name, 'a', sizeof name);
    name[LOCK_NAME_SIZE_MAX] = '\0';
    watcher(HONEST);
    client_ask(world, 1, HONEST, "LOCK.WATCH aaaa");
    watcher(HOSTILE);
    for (size_t size = 0; size <= LOCK_NAME_SIZE_MAX; size++) {
        assert_null(add(HOSTILE, WATCH_PREFIX, bytes_of(name, size)));
    }
    client_clear(world, 1, HONEST);
    for (int i = 0; i < 300; i++) {
        client_send(world, 1, WORKER, "LOCK.ACQUIRE %s", name);
        client_send(world, 1, WORKER, "LOCK.RELEASE %s", name);
    }
    world_run(world, 200);
    assert_true(world->node[1].client[HOSTILE].was_closed);
    assert_false(world->node[1].client[HONEST].was_closed);
    assert_int_equal(times(HONEST, "lock\r\n$7\r\ngranted"), 300);
    assert_int_equal(times(HONEST, "lock\r\n$8\r\nreleased"), 300);
}

/* One connection carries any number of waits, and stays usable. */
static void a_wait_with_push_holds_back_nothing(void **state)
{
    (void)state;
    client_open(world, 1, 2);
    client_ask(world, 1, 2, "HELLO 3");
    struct credentials waiter = client_session(world, 1, 2, "");
    static const char one[] = "LOCK.ACQUIRE a WAIT FOREVER PUSH OWNER o REQ 1";
    static const char two[] = "LOCK.MACQUIRE 2 b c WAIT 500 PUSH OWNER p REQ 2";
    char queued[64], told[256], tokens[128];
    client_ask(world, 1, WORKER, "LOCK.MACQUIRE 2 a b");
    snprintf(queued, sizeof queued, "%s", client_ask(world, 1, 2, "%s", one));
    assert_int_equal(strncmp(queued, "+QUEUED ", 8), 0);
    assert_int_equal(strncmp(client_ask(world, 1, 2, "%s", two), queued, 8), 0);
    assert_string_equal(client_ask(world, 1, 2, "%s", one), queued);
    client_clear(world, 1, 2);
    client_ask(world, 1, WORKER, "LOCK.RELEASE a");
    world_run(world, 10);
    snprintf(told, sizeof told,
             ">3\r\n$4\r\nlock\r\n$6\r\nanswer\r\n%%6\r\n"
             "$7\r\nsession\r\n:%llu\r\n$5\r\nowner\r\n$1\r\no\r\n"
             "$5\r\nindex\r\n:",
             (unsigned long long)waiter.id);
    snprintf(tokens, sizeof tokens, "$4\r\nwait\r\n:%s$6\r\ntokens\r\n*1\r\n:",
             queued + strlen("+QUEUED "));
    assert_int_equal(strncmp(client_text(world, 1, 2), told, strlen(told)), 0);
    assert_non_null(strstr(client_text(world, 1, 2), tokens));
    assert_null(strstr(client_text(world, 1, 2), "$1\r\np\r\n"));
    assert_int_equal(client_ask(world, 1, 2, "%s", one)[0], ':');
    client_clear(world, 1, 2);
    world_run(world, 1000);
    assert_non_null(strstr(client_text(world, 1, 2), "$1\r\np\r\n"));
    assert_null(strstr(client_text(world, 1, 2), "tokens"));
    assert_answer(world, 1, 2, "_\r\n", "%s", two);
    assert_answer(
        world, 1, WORKER,
        "-BADARG lock.acquire: PUSH needs REQ and RESP3 (HELLO 3)\r\n",
        "LOCK.ACQUIRE a WAIT 1 PUSH REQ 9");
}

/* This decides the rights to watch: a channel is one lock, whatever its name
 * looks like; all other watches cover each lock with their prefix. */
static void what_a_watch_may_tell_of(void **state)
{
    static const struct {
        enum watch_kind kind;
        const char *text;
        bool tells;
        enum extent extent;
        const char *name;
    } cases[] = {{WATCH_PREFIX, "", true, EXTENT_PREFIX, ""},
                 {WATCH_PREFIX, "a", true, EXTENT_PREFIX, "a"},
                 {WATCH_PREFIX, "lock:a", true, EXTENT_PREFIX, "lock:a"},
                 {WATCH_CHANNEL, "lock:a", true, EXTENT_NAME, "a"},
                 {WATCH_CHANNEL, "lock:a*", true, EXTENT_NAME, "a*"},
                 {WATCH_CHANNEL, "lock:", true, EXTENT_NAME, ""},
                 {WATCH_CHANNEL, "lock", false, EXTENT_NAME, ""},
                 {WATCH_CHANNEL, "", false, EXTENT_NAME, ""},
                 {WATCH_CHANNEL, "other:a", false, EXTENT_NAME, ""},
                 {WATCH_PATTERN, "lock:a*", true, EXTENT_PREFIX, "a"},
                 {WATCH_PATTERN, "lock:a?b*", true, EXTENT_PREFIX, "a"},
                 {WATCH_PATTERN, "lock:*", true, EXTENT_PREFIX, ""},
                 {WATCH_PATTERN, "lo*", true, EXTENT_PREFIX, ""},
                 {WATCH_PATTERN, "*", true, EXTENT_PREFIX, ""},
                 {WATCH_PATTERN, "ock*", false, EXTENT_PREFIX, ""},
                 {WATCH_PATTERN, "locks*", false, EXTENT_PREFIX, ""}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        enum extent extent = EXTENT_NAME;
        struct bytes name = {NULL, 0};
        bool tells = watch_tells(cases[i].kind, bytes_of_text(cases[i].text),
                                 &extent, &name);
        if (tells != cases[i].tells ||
            (tells && (extent != cases[i].extent ||
                       !bytes_equal(name, bytes_of_text(cases[i].name))))) {
            fail_msg("'%s'", cases[i].text);
        }
    }
}

int main(void)
{
#define one(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_watch_may_tell_of),
        one(a_connection_and_a_node_watch_so_much),
        one(an_address_without_a_user_watches_so_much),
        one(what_is_watched_has_a_size),
        one(each_event_is_told_once_in_its_own_way),
        one(costly_patterns_close_their_watcher_alone),
        one(no_number_of_patterns_costs_more_than_a_turn_has),
        one(who_watches_all_sizes_pays_for_all),
        one(a_wait_with_push_holds_back_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
