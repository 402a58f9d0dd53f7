/* SPDX-License-Identifier: MIT */

/* core with one node: requests in, replies out, byte by byte. */

#include "lockfsm/entry.h"
#include "tests/unit/core_fixture.h"
#include "tests/unit/core_world.h"

/* How many connections may read backups. */
#define BACKUP_READERS 16

static int set_up(void **state)
{
    (void)state;
    world = world_new(1);
    return 0;
}

static const struct identity by_door = {.way = IDENTITY_LOCAL,
                                        .is_private = true};

/* By the local door: only a user whose role allows it may read backups. */
static int set_up_door(void **state)
{
    begin_one(state);
    client_close(world, 1, 1);
    client_open_as(world, 1, 1, &by_door);
    return 0;
}

#define assert_begins(text, begin) \
    assert_memory_equal(text, begin, sizeof(begin) - 1)
#define ask(...) client_ask(world, 1, 1, __VA_ARGS__)
#define expect(answer, ...) assert_answer(world, 1, 1, answer, __VA_ARGS__)

static void
nothing_is_answered_before_the_nodes_own_begin_is_applied(void **state)
{
    (void)state;
    world_found(world);
    client_open(world, 1, 1);
    client_send(world, 1, 1, "SESSION.OPEN");
    client_send(world, 1, 1, "PING");
    while (!core_is_serving(world->node[1].core)) {
        assert_int_equal(world->node[1].client[1].output.size, 0);
        world_run(world, 1);
    }
    world_run(world, 20);
    assert_non_null(strstr(client_text(world, 1, 1), "+PONG\r\n"));
}

static void greetings_are_answered_as_redis_does(void **state)
{
    (void)state;
    expect("+PONG\r\n", "PING");
    expect("$2\r\nhi\r\n", "ping hi");
    expect("$5\r\nhello\r\n", "ECHO hello");
    expect("+OK\r\n", "SELECT 0");
    expect("-ERR DB index is out of range\r\n", "SELECT 1");
    expect("-ERR unknown command 'nonsense'\r\n", "nonsense");
    expect("-ERR wrong number of arguments for 'echo' command\r\n", "ECHO");
    expect("+OK\r\n", "CLIENT SETNAME me");
    expect("$2\r\nme\r\n", "CLIENT GETNAME");
    expect("-NOPROTO unsupported protocol version\r\n", "HELLO 4");
    assert_begins(
        ask("HELLO 3"),
        "%9\r\n$6\r\nserver\r\n$4\r\nhasp\r\n$7\r\nversion\r\n$8\r\n0.0."
        "test\r\n$5\r\nproto\r\n:3\r\n$2\r\nid\r\n:1\r\n$4\r\nmode\r\n$10\r\n"
        "standalone\r\n$4\r\nrole\r\n$6\r\nmaster\r\n$7\r\nmodules\r\n*0");
    expect("+RESET\r\n", "RESET");
    expect("$-1\r\n", "CLIENT GETNAME");
}

static void a_lock_is_acquired_and_released(void **state)
{
    (void)state;
    char token[64];
    struct credentials session = client_session(world, 1, 1, "TTL 5000");
    assert_true(session.id > 0);
    snprintf(token, sizeof token, ":%llu\r\n",
             (unsigned long long)session.id + 1);
    expect(token, "LOCK.ACQUIRE a OWNER t1");
    expect(token, "lock.acquire a owner t1"); /* Re-entry keeps the token. */
    expect("$-1\r\n", "LOCK.ACQUIRE a OWNER t2");
    expect(":1\r\n", "LOCK.CHECK a %llu", (unsigned long long)session.id + 1);
    expect(":0\r\n", "LOCK.CHECK a 1");
    expect(":1\r\n", "LOCK.RELEASE a OWNER t1");
    expect(":0\r\n", "LOCK.RELEASE a OWNER t1");
    expect("-NOTHELD not held by this session and owner, or not with this "
           "token\r\n",
           "LOCK.RELEASE a OWNER t1");
    expect(":0\r\n", "SESSION.CLOSE");
    expect("-NOSESSION no session is attached to this connection\r\n",
           "LOCK.ACQUIRE a");
}

static void argument_errors_name_the_command_and_the_option(void **state)
{
    (void)state;
    client_session(world, 1, 1, "");
    expect("-BADARG lock.acquire: unknown option 'FOO'\r\n",
           "LOCK.ACQUIRE a FOO");
    expect("-BADARG lock.acquire: option WAIT needs a value\r\n",
           "LOCK.ACQUIRE a WAIT");
    expect("-BADARG lock.acquire: WAIT must be a decimal integer, not '-1'\r\n",
           "LOCK.ACQUIRE a WAIT -1");
    expect("-BADARG lock.acquire: duplicate option WAIT\r\n",
           "LOCK.ACQUIRE a WAIT 1 WAIT 1");
    expect("-BADARG lock.acquire: wrong number of arguments\r\n",
           "LOCK.ACQUIRE");
    expect("-BADARG lock.acquire: the lock's name must have 1 to 511 bytes\r\n",
           "LOCK.ACQUIRE ''");
    expect("-BADARG lock.acquire: SHARED and SLOTS exclude each other\r\n",
           "LOCK.ACQUIRE a SHARED SLOTS 2");
    expect("-BADARG lock.acquire: REQ must be greater than ACKED\r\n",
           "LOCK.ACQUIRE a REQ 3 ACKED 3");
    expect("-BADARG session.open: TTL must be from 100 to 3600000\r\n",
           "SESSION.OPEN TTL 99");
    expect("-BADARG session.open: LINGER must not exceed the TTL\r\n",
           "SESSION.OPEN TTL 1000 LINGER 1001");
    expect("-BADARG session.open: LINGER must be from 50 to 3600000\r\n",
           "SESSION.OPEN LINGER 49");
    expect("-BADARG lock.macquire: expected 3 names, got fewer\r\n",
           "LOCK.MACQUIRE 3 a b");
    expect("-BADARG blacklist.add: SESSION or CLIENT is missing\r\n",
           "BLACKLIST.ADD REASON x");
}

static void a_heartbeat_answers_the_times_and_moves_the_deadline(void **state)
{
    (void)state;
    struct credentials session = client_session(world, 1, 1,
                                                "TTL 1000 LINGER 400");
    world_run(world, 600);
    expect("*10\r\n$6\r\nttl_ms\r\n:1000\r\n$9\r\nlinger_ms\r\n:400\r\n$8\r\n"
           "trust_ms\r\n:320\r\n$5\r\nended\r\n*0\r\n$7\r\ndropped\r\n:0\r\n",
           "SESSION.KEEP FULL");
    expect(":1000\r\n", "SESSION.KEEP");
    world_run(world, 900);
    ask("SESSION.SHOW %llu", (unsigned long long)session.id);
    int64_t left_ms = answer_number(world, 1, 1, "left_ms");
    assert_in_range(left_ms, 80, 110);
    world_run(world, 250);
    expect("-EXPIRED the session has ended\r\n", "SESSION.KEEP FULL");
    expect("-EXPIRED the session has ended\r\n", "LOCK.ACQUIRE a");
    expect("-NOSESSION no such session\r\n", "SESSION.SHOW %llu",
           (unsigned long long)session.id);
}

static void several_sessions_are_kept_in_one_request(void **state)
{
    (void)state;
    struct credentials one = client_session(world, 1, 1, "TTL 1000");
    struct credentials two = client_session(world, 1, 1, "TTL 2000");
    char wrong[33] = "00000000000000000000000000000000";
    const char *text = ask("SESSION.KEEP %llu %s %llu %s %llu %s FULL",
                           (unsigned long long)one.id, one.secret,
                           (unsigned long long)two.id, wrong,
                           (unsigned long long)two.id, two.secret);
    assert_string_equal(
        text,
        "*3\r\n*10\r\n$6\r\nttl_ms\r\n:1000\r\n$9\r\nlinger_ms\r\n:0\r\n"
        "$8\r\ntrust_ms\r\n:800\r\n$5\r\nended\r\n*0\r\n$7\r\ndropped\r\n:0\r\n"
        "-NOSESSION no such session, or a wrong secret\r\n"
        "*10\r\n$6\r\nttl_ms\r\n:2000\r\n$9\r\nlinger_ms\r\n:0\r\n"
        "$8\r\ntrust_ms\r\n:1600\r\n$5\r\nended\r\n*0\r\n$7\r\ndropped\r\n:"
        "0\r\n");
    client_open(world, 1, 2);
    assert_answer(world, 1, 2,
                  "-NOSESSION no session is attached to this connection\r\n",
                  "SESSION.KEEP FULL");
    assert_answer(world, 1, 2,
                  "-NOSESSION no such session, or a wrong secret\r\n",
                  "SESSION.ATTACH %llu %s", (unsigned long long)one.id, wrong);
    /* An id that never existed is as unknown as one of an earlier life. */
    assert_answer(world, 1, 2,
                  "-NOSESSION no such session, or a wrong secret\r\n",
                  "SESSION.ATTACH 1 %s", wrong);
    /* Every bit of the secret counts. */
    snprintf(wrong, sizeof wrong, "%s", one.secret);
    wrong[31] = wrong[31] == '0' ? '1' : '0';
    assert_answer(world, 1, 2,
                  "-NOSESSION no such session, or a wrong secret\r\n",
                  "SESSION.ATTACH %llu %s", (unsigned long long)one.id, wrong);
    assert_answer(world, 1, 2,
                  "*6\r\n$6\r\nttl_ms\r\n:1000\r\n$9\r\nlinger_ms\r\n:0\r\n"
                  "$8\r\ntrust_ms\r\n:800\r\n",
                  "SESSION.ATTACH %llu %s FULL", (unsigned long long)one.id,
                  one.secret);
    assert_non_null(strstr(client_ask(world, 1, 2, "LOCK.ACQUIRE a"), ":"));
}

static void a_session_is_chosen_by_its_id(void **state)
{
    (void)state;
    struct credentials one = client_session(world, 1, 1, "");
    struct credentials two = client_session(world, 1, 1, "");
    ask("LOCK.ACQUIRE a SESSION %llu", (unsigned long long)one.id);
    ask("LOCK.SHOW a");
    assert_int_equal(answer_number(world, 1, 1, "session"), one.id);
    expect("-NOTHELD not held by this session and owner, or not with this "
           "token\r\n",
           "LOCK.RELEASE a");
    expect(":0\r\n", "LOCK.RELEASE a SESSION %llu", (unsigned long long)one.id);
    ask("LOCK.ACQUIRE b");
    ask("LOCK.SHOW b");
    assert_int_equal(answer_number(world, 1, 1, "session"), two.id);
    expect("-NOSESSION that session is not attached to this connection\r\n",
           "LOCK.ACQUIRE b SESSION 999999");
}

static void replies_come_in_the_order_of_the_requests(void **state)
{
    (void)state;
    client_session(world, 1, 1, "");
    client_clear(world, 1, 1);
    client_send(world, 1, 1, "LOCK.ACQUIRE a");
    client_send(world, 1, 1, "PING");
    client_send(world, 1, 1, "LOCK.CHECK a 1");
    client_send(world, 1, 1, "LOCK.RELEASE a");
    client_send(world, 1, 1, "ECHO end");
    assert_int_equal(world->node[1].client[1].output.size, 0);
    world_run(world, 20);
    const char *text = client_text(world, 1, 1);
    assert_int_equal(text[0], ':');
    assert_string_equal(strstr(text, "+PONG"),
                        "+PONG\r\n:0\r\n:0\r\n$3\r\nend\r\n");
}

static void what_is_pipelined_has_its_effect_in_that_order(void **state)
{
    (void)state;
    client_session(world, 1, 1, "");
    client_clear(world, 1, 1);
    client_send(world, 1, 1, "FENCE.ADMIT r 5");
    client_send(world, 1, 1, "FENCE.SHOW r");
    client_send(world, 1, 1, "FENCE.ADMIT r 6");
    client_send(world, 1, 1, "FENCE.SHOW r");
    world_run(world, 40);
    assert_string_equal(client_text(world, 1, 1), ":1\r\n:5\r\n:1\r\n:6\r\n");
    /* A change waits for the read before it, even if nothing delays that read;
     * a change to another name does not wait. */
    client_clear(world, 1, 1);
    client_send(world, 1, 1, "FENCE.SHOW r");
    client_send(world, 1, 1, "FENCE.ADMIT s 1");
    assert_false(world->node[1].client[1].is_blocked);
    client_send(world, 1, 1, "FENCE.ADMIT r 7");
    assert_true(world->node[1].client[1].is_blocked);
    client_send(world, 1, 1, "PING");
    world_run(world, 40);
    assert_string_equal(client_text(world, 1, 1),
                        ":6\r\n:1\r\n:1\r\n+PONG\r\n");
    assert_false(world->node[1].client[1].is_blocked);
    /* The result of a list is unknown in advance; a request for several locks
     * concerns all of them. */
    client_clear(world, 1, 1);
    client_send(world, 1, 1, "LOCK.MACQUIRE 2 x y");
    client_send(world, 1, 1, "LOCK.SHOW y");
    client_send(world, 1, 1, "LOCK.MRELEASE 2 x y");
    world_run(world, 40);
    assert_non_null(strstr(client_text(world, 1, 1), "lease_left_ms"));
    client_clear(world, 1, 1);
    client_send(world, 1, 1, "LOCK.ACQUIRE a");
    client_send(world, 1, 1, "LOCK.LIST");
    client_send(world, 1, 1, "LOCK.RELEASE a");
    world_run(world, 40);
    assert_non_null(strstr(client_text(world, 1, 1), "lease_left_ms"));
}

static void a_connection_that_ends_takes_what_it_held_back_along(void **state)
{
    (void)state;
    client_send(world, 1, 1, "FENCE.SHOW r");
    client_send(world, 1, 1, "FENCE.ADMIT r 7");
    client_close(world, 1, 1);
    world_run(world, 40);
    client_open(world, 1, 1);
    expect(":0\r\n", "FENCE.SHOW r");
}

static void an_acquire_that_waits_blocks_its_connection_only(void **state)
{
    (void)state;
    client_session(world, 1, 1, "");
    client_open(world, 1, 2);
    client_session(world, 1, 2, "");
    ask("LOCK.ACQUIRE a");
    client_clear(world, 1, 2);
    client_send(world, 1, 2, "LOCK.ACQUIRE a WAIT 5000");
    assert_true(world->node[1].client[2].is_blocked);
    client_send(world, 1, 2, "PING");
    world_run(world, 50);
    assert_int_equal(world->node[1].client[2].output.size, 0);
    expect("+PONG\r\n", "PING");
    expect(":0\r\n", "LOCK.RELEASE a");
    world_run(world, 5);
    assert_false(world->node[1].client[2].is_blocked);
    const char *text = client_text(world, 1, 2);
    assert_int_equal(text[0], ':');
    assert_non_null(strstr(text, "\r\n+PONG\r\n"));
}

static void a_wait_ends_with_nil_when_its_time_is_over(void **state)
{
    (void)state;
    client_session(world, 1, 1, "");
    client_open(world, 1, 2);
    client_session(world, 1, 2, "");
    ask("LOCK.ACQUIRE a");
    uint64_t before = world->now_ms;
    assert_answer(world, 1, 2, "$-1\r\n", "LOCK.ACQUIRE a WAIT 300");
    assert_in_range(world->now_ms - before, 300, 330);
    ask("LOCK.SHOW a");
    assert_non_null(strstr(client_text(world, 1, 1), "queue\r\n*0\r\n"));
}

static void the_same_wait_asked_again_answers_both(void **state)
{
    (void)state;
    client_session(world, 1, 1, "");
    client_open(world, 1, 2);
    struct credentials waiter = client_session(world, 1, 2, "");
    client_open(world, 1, 3);
    client_ask(world, 1, 3, "SESSION.ATTACH %llu %s",
               (unsigned long long)waiter.id, waiter.secret);
    ask("LOCK.ACQUIRE a");
    client_clear(world, 1, 2);
    client_clear(world, 1, 3);
    client_send(world, 1, 2, "LOCK.ACQUIRE a WAIT FOREVER REQ 1");
    world_run(world, 10);
    client_send(world, 1, 3, "LOCK.ACQUIRE a WAIT FOREVER REQ 1");
    world_run(world, 10);
    ask("LOCK.RELEASE a");
    world_run(world, 10);
    assert_int_equal(client_text(world, 1, 2)[0], ':');
    assert_string_equal(client_text(world, 1, 2), client_text(world, 1, 3));
}

static void a_repeated_request_number_repeats_the_result(void **state)
{
    (void)state;
    char first[64];
    client_session(world, 1, 1, "");
    snprintf(first, sizeof first, "%s", ask("LOCK.ACQUIRE a REQ 1"));
    assert_int_equal(first[0], ':');
    expect(first, "LOCK.ACQUIRE a REQ 1");
    expect(":0\r\n", "LOCK.RELEASE a REQ 2 ACKED 1");
    expect(":0\r\n", "LOCK.RELEASE a REQ 2 ACKED 1");
    expect("-BADARG lock.acquire: the number was used for another command\r\n",
           "LOCK.ACQUIRE b REQ 2 ACKED 1");
    expect("-BADARG fence.admit: the token was never granted\r\n",
           "FENCE.ADMIT r 9007199254740991");
    assert_non_null(strstr(ask("LOCK.ACQUIRE a REQ 1 ACKED 0"), "-FORGOTTEN "));
    ask("LOCK.RELEASE a REQ 9 ACKED 2,4,6-8");
    assert_non_null(strstr(ask("LOCK.ACQUIRE a REQ 7"), "-FORGOTTEN "));
    assert_int_equal(ask("LOCK.ACQUIRE a REQ 5")[0], ':');
}

static void a_note_outlives_the_hold(void **state)
{
    (void)state;
    client_session(world, 1, 1, "");
    const char *told = ask("LOCK.ACQUIRE a") + 1;
    ask("LOCK.NOTE a %llu page-17", strtoull(told, NULL, 10));
    ask("LOCK.RELEASE a");
    assert_non_null(strstr(ask("LOCK.SHOW a"), "page-17"));
}

static void too_many_pipelined_requests_block_the_connection(void **state)
{
    (void)state;
    world_free(world);
    world = world_new(1);
    world->limits.requests_per_conn = 4;
    world_found(world);
    world_elect(world);
    client_open(world, 1, 1);
    client_session(world, 1, 1, "");
    client_clear(world, 1, 1);
    for (int i = 0; i < 10; i++) {
        client_send(world, 1, 1, "LOCK.ACQUIRE a%d", i);
    }
    assert_true(world->node[1].client[1].is_blocked);
    assert_true(world->node[1].client[1].waiting.size > 0);
    world_run(world, 50);
    assert_false(world->node[1].client[1].is_blocked);
    uint32_t count = 0;
    for (const char *at = client_text(world, 1, 1); *at != '\0'; at++) {
        count += *at == ':';
    }
    assert_int_equal(count, 10);
}

static void too_much_in_flight_is_busy(void **state)
{
    (void)state;
    world_free(world);
    world = world_new(1);
    world->limits.requests_in_flight = 3;
    world_found(world);
    world_elect(world);
    client_open(world, 1, 1);
    client_session(world, 1, 1, "");
    client_clear(world, 1, 1);
    for (int i = 0; i < 6; i++) {
        client_send(world, 1, 1, "LOCK.ACQUIRE a%d", i);
    }
    world_run(world, 20);
    assert_non_null(strstr(client_text(world, 1, 1), "-BUSY "));
    assert_int_equal(client_text(world, 1, 1)[0], ':');
}

/* A HEARD of all of them would be longer than an entry may be. */
static void very_many_marked_sessions_are_heard_in_turn(void **state)
{
    (void)state;
    enum { PAIRS = (FRAME_ARGUMENT_MAX - 1) / 2, BEATS = 100 };
    static struct bytes words[1 + 2 * PAIRS];
    struct credentials one = client_session(world, 1, 1, "TTL 1000");
    char id[24];
    snprintf(id, sizeof id, "%llu", (unsigned long long)one.id);
    words[0] = BYTES_LITERAL("SESSION.KEEP");
    for (int i = 0; i < PAIRS; i++) {
        words[1 + 2 * i] = bytes_of_text(id);
        words[2 + 2 * i] = bytes_of_text(one.secret);
    }
    const struct resp_request beat = {.argument = words,
                                      .count = 1 + 2 * PAIRS};
    world_run(world, 300); /* It is marked. */
    client_clear(world, 1, 1);
    client_open(world, 1, 2);
    client_open(world, 1, 3);
    for (int i = 0; i < BEATS; i++) {
        for (uint64_t conn = 1; conn <= 3; conn++) {
            core_client_request(world->node[1].core, conn, &beat,
                                node_now(&world->node[1]));
        }
    }
    world->node[1].next_turn_ms = world->now_ms;
    world_run(world, 400);
    for (uint64_t conn = 1; conn <= 3; conn++) {
        const char *text = client_text(world, 1, conn);
        assert_null(strchr(text, '-'));
        assert_int_equal(
            world->node[1].client[conn].output.size,
            BEATS * (strlen("*511\r\n") + PAIRS * strlen(":1000\r\n")));
    }
}

/* True if an entry from index 'first' on is a HEARD of that one, so often. */
static bool is_logged_heard(uint64_t first, uint64_t session, uint32_t times)
{
    const struct world_log *log = &world->node[1].log;
    struct buffer heard = {0};
    bool is_logged = false;
    uint64_t *sessions = memory_new(times * sizeof *sessions);
    for (uint32_t i = 0; i < times; i++) {
        sessions[i] = session;
    }
    encode_heard(&heard, &(struct heard_command){.sessions = sessions,
                                                 .session_count = times});
    for (uint64_t i = first - log->first; i < log->count; i++) {
        is_logged |= bytes_equal(log->entry[i].body, buffer_bytes(&heard));
    }
    buffer_done(&heard);
    free(sessions);
    return is_logged;
}

/* An entry takes heartbeats until it has 1,024 sessions. */
static void a_heard_ends_with_the_heartbeat_that_fills_it(void **state)
{
    static const struct {
        uint32_t pairs, beats, first, second;
    } cases[] = {{256, 4, 1024, 0}, /* Full to the last. */
                 {256, 5, 1024, 256},   {273, 4, 4 * 273, 0},
                 {273, 3, 3 * 273, 0},  {255, 5, 5 * 255, 0},
                 {255, 6, 5 * 255, 255}};
    static struct bytes words[1 + 2 * 273];
    (void)state;
    struct credentials one = client_session(world, 1, 1, "TTL 1000");
    char id[24];
    snprintf(id, sizeof id, "%llu", (unsigned long long)one.id);
    words[0] = BYTES_LITERAL("SESSION.KEEP");
    for (int i = 0; i < 273; i++) {
        words[1 + 2 * i] = bytes_of_text(id);
        words[2 + 2 * i] = bytes_of_text(one.secret);
    }
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct resp_request beat = {.argument = words,
                                          .count = 1 + 2 * cases[i].pairs};
        struct world_node *node = &world->node[1];
        world_run(world, 300); /* It is marked. */
        uint64_t first = node->log.first + node->log.count;
        for (uint32_t j = 0; j < cases[i].beats; j++) {
            core_client_request(node->core, 1, &beat, node_now(node));
        }
        node->next_turn_ms = world->now_ms;
        world_run(world, 50);
        assert_true(is_logged_heard(first, one.id, cases[i].first));
        assert_true(cases[i].second == 0 ||
                    is_logged_heard(first, one.id, cases[i].second));
    }
}

static void linger_shortens_the_lease_of_a_closed_connection(void **state)
{
    (void)state;
    client_open(world, 1, 2);
    struct credentials session = client_session(world, 1, 2,
                                                "TTL 10000 LINGER 200");
    client_open(world, 1, 3);
    client_ask(world, 1, 3, "SESSION.ATTACH %llu %s",
               (unsigned long long)session.id, session.secret);
    client_ask(world, 1, 2, "LOCK.ACQUIRE a");
    client_close(world, 1, 2);
    world_run(world, 500); /* Another connection is still attached. */
    ask("SESSION.SHOW %llu", (unsigned long long)session.id);
    assert_true(answer_number(world, 1, 1, "left_ms") > 5000);
    client_close(world, 1, 3);
    world_run(world, 1);
    ask("SESSION.SHOW %llu", (unsigned long long)session.id);
    assert_in_range(answer_number(world, 1, 1, "left_ms"), 150, 200);
    world_run(world, 250);
    ask("LOCK.SHOW a");
    assert_non_null(strstr(client_text(world, 1, 1), "holders\r\n*0\r\n"));
}

static void a_session_expires_under_a_loop_that_is_always_late(void **state)
{
    (void)state;
    client_session(world, 1, 1, "TTL 1000");
    for (int i = 0; i < 10; i++) {
        world->now_ms += 600;
        world_step(world);
    }
    assert_int_equal(
        HASH_CNT(by_id, lockfsm_sessions(core_state(world->node[1].core))), 0);
}

static void
a_blacklisted_sessions_heartbeat_is_refused_and_moves_nothing(void **state)
{
    (void)state;
    client_open(world, 1, 2);
    struct credentials session = client_session(world, 1, 2, "TTL 1000");
    expect("+OK\r\n", "BLACKLIST.ADD SESSION %llu REASON broken BY me",
           (unsigned long long)session.id);
    uint64_t since = world->now_ms;
    while (world->now_ms < since + 800) {
        assert_answer(world, 1, 2, "-BLACKLISTED broken\r\n",
                      "SESSION.KEEP FULL");
        world_run(world, 50);
    }
    world_run(world, 400);
    assert_answer(world, 1, 2, "-EXPIRED the session has ended\r\n",
                  "SESSION.KEEP FULL");
}

static void a_wait_that_is_asked_for_again_is_told_once(void **state)
{
    (void)state;
    client_open(world, 1, 2);
    client_ask(world, 1, 2, "HELLO 3");
    client_open(world, 1, 3);
    client_session(world, 1, 3, "");
    client_ask(world, 1, 3, "LOCK.ACQUIRE a");
    struct credentials session = client_session(world, 1, 1, "");
    client_open(world, 1, 4);
    client_ask(world, 1, 4, "SESSION.ATTACH %llu %s",
               (unsigned long long)session.id, session.secret);
    client_ask(world, 1, 2, "LOCK.WATCH a");
    client_clear(world, 1, 2);
    client_send(world, 1, 1, "LOCK.ACQUIRE a WAIT 5000 REQ 1");
    client_send(world, 1, 4, "LOCK.ACQUIRE a WAIT 5000 REQ 1");
    world_run(world, 20);
    const char *told = strstr(client_text(world, 1, 2), "queued");
    assert_non_null(told);
    assert_null(strstr(told + 1, "queued"));
}

static void events_are_pushed_to_watchers(void **state)
{
    (void)state;
    client_open(world, 1, 2);
    client_ask(world, 1, 2, "HELLO 3");
    assert_answer(world, 1, 2, "+OK\r\n", "LOCK.WATCH jobs/");
    client_clear(world, 1, 2);
    client_open(world, 1, 3);
    assert_answer(world, 1, 3,
                  "*3\r\n$10\r\npsubscribe\r\n$11\r\nlock:jobs/*\r\n:1\r\n",
                  "PSUBSCRIBE lock:jobs/*");
    client_clear(world, 1, 3);
    struct credentials session = client_session(world, 1, 1, "");
    ask("LOCK.ACQUIRE other");
    assert_int_equal(world->node[1].client[2].output.size, 0);
    unsigned long long token = strtoull(ask("LOCK.ACQUIRE jobs/1") + 1, NULL,
                                        10);
    char expected[512];
    snprintf(
        expected, sizeof expected,
        ">3\r\n$4\r\nlock\r\n$7\r\ngranted\r\n%%6\r\n$4\r\nlock\r\n$6\r\n"
        "jobs/1\r\n$7\r\nsession\r\n:%llu\r\n$5\r\ntoken\r\n:%llu\r\n$5\r\n"
        "index\r\n:%llu\r\n$7\r\nmessage\r\n$0\r\n\r\n$2\r\nid\r\n$",
        (unsigned long long)session.id, token, token);
    assert_ptr_equal(strstr(client_text(world, 1, 2), expected),
                     client_text(world, 1, 2));
    assert_non_null(strstr(client_text(world, 1, 3),
                           "*4\r\n$8\r\npmessage\r\n$11\r\nlock:jobs/*\r\n$11"
                           "\r\nlock:jobs/1\r\n"));
    assert_non_null(strstr(client_text(world, 1, 3),
                           "{\"kind\":\"granted\",\"lock\":"
                           "\"jobs/1\",\"session\":"));
    assert_answer(world, 1, 3,
                  "-ERR Can't execute 'echo': only (P)SUBSCRIBE / "
                  "(P)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this "
                  "context\r\n",
                  "ECHO x");
}

static void blacklisting_is_told_of_each_lock_held(void **state)
{
    (void)state;
    client_open(world, 1, 2);
    client_ask(world, 1, 2, "HELLO 3");
    struct credentials session = client_session(world, 1, 1, "");
    ask("LOCK.ACQUIRE jobs/1");
    ask("LOCK.ACQUIRE other");
    client_ask(world, 1, 2, "LOCK.WATCH jobs/");
    client_clear(world, 1, 2);
    ask("BLACKLIST.ADD SESSION %llu REASON broken",
        (unsigned long long)session.id);
    const char *text = client_text(world, 1, 2);
    assert_begins(text, ">3\r\n$4\r\nlock\r\n$11\r\nblacklisted\r\n%6\r\n$4\r\n"
                        "lock\r\n$6\r\njobs/1\r\n");
    assert_non_null(strstr(text, "$7\r\nmessage\r\n$6\r\nbroken\r\n"));
    assert_null(strstr(text, "other"));
    /* Another reason is not another event. */
    client_clear(world, 1, 2);
    ask("BLACKLIST.ADD CLIENT * REASON all");
    assert_int_equal(world->node[1].client[2].output.size, 0);
}

static void please_reaches_the_holder_unasked(void **state)
{
    (void)state;
    client_open(world, 1, 2);
    client_ask(world, 1, 2, "HELLO 3");
    client_ask(world, 1, 2, "SESSION.OPEN");
    client_ask(world, 1, 2, "LOCK.ACQUIRE a");
    client_clear(world, 1, 2);
    expect(":1\r\n", "LOCK.PLEASE a MESSAGE hurry");
    assert_non_null(strstr(client_text(world, 1, 2),
                           ">3\r\n$4\r\nlock\r\n$6\r\n"
                           "please\r\n"));
    assert_non_null(strstr(client_text(world, 1, 2), "$5\r\nhurry\r\n"));
}

static void an_unknown_lock_shows_as_free(void **state)
{
    (void)state;
    expect("*14\r\n$4\r\nname\r\n$4\r\nnone\r\n$4\r\nmode\r\n$4\r\nfree\r\n$5"
           "\r\nslots\r\n:0\r\n$7\r\nholders\r\n*0\r\n$5\r\nqueue\r\n*0\r\n$13"
           "\r\ndelay_left_ms\r\n:0\r\n$11\r\nearliest_ms\r\n:0\r\n",
           "LOCK.SHOW none");
}

static void the_state_survives_a_restart(void **state)
{
    (void)state;
    struct credentials session = client_session(world, 1, 1, "TTL 60000");
    char token[64];
    snprintf(token, sizeof token, "%s", ask("LOCK.ACQUIRE a REQ 7"));
    expect("+OK\r\n", "RAFT.SNAPSHOT");
    ask("LOCK.ACQUIRE b");
    world_run(world, 5);
    node_kill(world, 1);
    node_start(world, 1);
    world_elect(world);
    client_open(world, 1, 1);
    ask("SESSION.ATTACH %llu %s", (unsigned long long)session.id,
        session.secret);
    expect(token, "LOCK.ACQUIRE a REQ 7");
    expect("$-1\r\n", "LOCK.ACQUIRE b OWNER other");
}

static void a_backup_is_read_in_parts(void **state)
{
    struct world_node *node = &world->node[1];
    char told[128], part[128];
    (void)state;
    ask("FENCE.ADMIT disk 7");
    snprintf(told, sizeof told, "%s", ask("RAFT.BACKUP"));
    uint64_t index = node->snapshot_index, term = node->snapshot_term;
    size_t size = node->snapshot.size;
    assert_true(index > 0);
    snprintf(part, sizeof part,
             "*8\r\n$5\r\nindex\r\n:%llu\r\n$4\r\nterm\r\n:%llu\r\n$4\r\n"
             "size\r\n:%zu\r\n$6\r\nleader\r\n:1\r\n",
             (unsigned long long)index, (unsigned long long)term, size);
    assert_string_equal(told, part);
    /* Nothing has changed: the same one. */
    expect(told, "RAFT.BACKUP");
    assert_true(node->snapshot_index == index);
    const char *answer = ask("RAFT.PART %llu %llu 0", (unsigned long long)index,
                             (unsigned long long)term);
    snprintf(part, sizeof part, "$%zu\r\nHASPSNAP", size);
    assert_memory_equal(answer, part, strlen(part));
    answer = ask("RAFT.PART %llu %llu %zu", (unsigned long long)index,
                 (unsigned long long)term, size - 3);
    assert_memory_equal(answer, "$3\r\n", 4);
    ask("FENCE.ADMIT disk 8");
    ask("RAFT.BACKUP");
    assert_true(node->snapshot_index > index);
    expect("-GONE snapshot no longer available; restart the backup\r\n",
           "RAFT.PART %llu %llu 0", (unsigned long long)index,
           (unsigned long long)term);
    expect("-BADARG raft.part: wrong number of arguments\r\n", "RAFT.PART 1");
    expect("-BADARG raft.part: index, term and offset must be decimal "
           "integers\r\n",
           "RAFT.PART 1 1 -1");
}

static void only_so_many_read_backups_at_once(void **state)
{
    struct world_node *node = &world->node[1];
    (void)state;
    ask("FENCE.ADMIT disk 7");
    ask("RAFT.BACKUP");
    uint64_t index = node->snapshot_index, term = node->snapshot_term;
    for (uint64_t i = 0; i <= BACKUP_READERS; i++) {
        client_open_as(world, 1, 10 + i, &by_door);
    }
    for (uint64_t i = 0; i <= BACKUP_READERS; i++) {
        const char *answer = client_ask(
            world, 1, 10 + i, "RAFT.PART %llu %llu 0",
            (unsigned long long)index, (unsigned long long)term);
        assert_int_equal(answer[0], i < BACKUP_READERS ? '$' : '-');
    }
    /* One goes, another comes. */
    client_close(world, 1, 10 + 3);
    assert_begins(client_ask(world, 1, 10 + BACKUP_READERS,
                             "RAFT.PART %llu %llu 0", (unsigned long long)index,
                             (unsigned long long)term),
                  "$");
    expect("-BUSY too many connections are reading backups of this node; "
           "nothing was done, try later\r\n",
           "RAFT.PART %llu %llu 0", (unsigned long long)index,
           (unsigned long long)term);
    world_run(world, 6000);
    assert_begins(ask("RAFT.PART %llu %llu 0", (unsigned long long)index,
                      (unsigned long long)term),
                  "$");
}

static void quit_answers_what_came_before_it(void **state)
{
    (void)state;
    client_session(world, 1, 1, "");
    client_clear(world, 1, 1);
    client_send(world, 1, 1, "LOCK.ACQUIRE a");
    client_send(world, 1, 1, "QUIT");
    client_send(world, 1, 1, "LOCK.ACQUIRE b");
    assert_false(world->node[1].client[1].was_closed);
    world_run(world, 20);
    assert_true(world->node[1].client[1].was_closed);
    assert_int_equal(client_text(world, 1, 1)[0], ':');
    assert_string_equal(strchr(client_text(world, 1, 1), '\n'), "\n+OK\r\n");
}

static void a_connection_attaches_only_so_many_sessions(void **state)
{
    (void)state;
    world_free(world);
    world = world_new(1);
    world->limits.sessions_per_conn = 2;
    world_found(world);
    world_elect(world);
    client_open(world, 1, 1);
    struct credentials one = client_session(world, 1, 1, "TTL 60000");
    client_session(world, 1, 1, "TTL 300");
    expect("-LIMIT sessions of a connection\r\n", "SESSION.OPEN");
    /* One that it has already may be attached again. */
    expect("+OK\r\n", "SESSION.ATTACH %llu %s", (unsigned long long)one.id,
           one.secret);
    world_run(world, 400); /* One has ended and makes room. */
    client_session(world, 1, 1, "TTL 60000");
    expect("-LIMIT sessions of a connection\r\n", "SESSION.OPEN");
}

static void conversion_fences_and_several_locks(void **state)
{
    (void)state;
    client_session(world, 1, 1, "");
    int64_t token = strtoll(ask("LOCK.ACQUIRE a SHARED") + 1, NULL, 10);
    assert_true(strtoll(ask("LOCK.CONVERT a EXCLUSIVE") + 1, NULL, 10) > token);
    assert_begins(ask("LOCK.MACQUIRE 2 x y WAIT 100"), "*2\r\n:");
    expect("*-1\r\n", "LOCK.MACQUIRE 2 y z OWNER other");
    expect(":2\r\n", "LOCK.MRELEASE 2 x y");
    expect("-NOTHELD not held by this session and owner, or not with this "
           "token\r\n",
           "LOCK.RELEASE x");
    expect(":0\r\n", "LOCK.CANCEL a");
    expect(":1\r\n", "FENCE.ADMIT disk %lld", (long long)token);
    expect(":0\r\n", "FENCE.ADMIT disk %lld", (long long)token - 1);
    ask("FENCE.SHOW disk");
    assert_int_equal(strtoll(client_text(world, 1, 1) + 1, NULL, 10), token);
    expect(":0\r\n", "FENCE.SHOW other");
    expect(":1\r\n", "LOCK.RELEASEIF a OWNER '' TOKEN %lld",
           (long long)token + 1);
    expect("+OK\r\n", "BLACKLIST.ADD CLIENT bad* REASON why");
    expect("-BLACKLISTED why\r\n", "SESSION.OPEN NAME bad-one");
    assert_begins(ask("BLACKLIST.LIST"),
                  "*2\r\n$1\r\n0\r\n*1\r\n*12\r\n$7\r\nsession\r\n:0\r\n");
    expect(":1\r\n", "BLACKLIST.REMOVE CLIENT bad*");
    expect(":0\r\n", "BLACKLIST.REMOVE CLIENT bad*");
}

static void what_ended_unasked_is_told_by_keep(void **state)
{
    (void)state;
    client_session(world, 1, 1, "");
    ask("LOCK.ACQUIRE a HOLD 200 OWNER me");
    ask("LOCK.SHOW a");
    assert_in_range(answer_number(world, 1, 1, "hold_left_ms"), 190, 200);
    world_run(world, 300);
    assert_non_null(
        strstr(ask("SESSION.KEEP FULL"),
               "$5\r\nended\r\n*1\r\n*12\r\n$4\r\nlock\r\n$1\r\na\r\n"
               "$5\r\nowner\r\n$2\r\nme\r\n"));
    ask("LOCK.RELEASE a OWNER me"); /* It wipes no notice. */
    assert_non_null(strstr(ask("SESSION.KEEP FULL"), "ended\r\n*1\r\n"));
}

static void commands_describe_themselves(void **state)
{
    (void)state;
    assert_begins(ask("COMMAND INFO lock.acquire nonsense"),
                  "*2\r\n*10\r\n$12\r\nlock.acquire\r\n:-2\r\n*1\r\n+write"
                  "\r\n:1\r\n:1\r\n:1\r\n");
    expect("*3\r\n$1\r\na\r\n$1\r\nb\r\n$1\r\nc\r\n",
           "COMMAND GETKEYS LOCK.MACQUIRE 3 a b c");
    expect("*1\r\n$1\r\nk\r\n", "COMMAND GETKEYS EVALSHA x 1 k");
    assert_non_null(strstr(ask("COMMAND DOCS lock.release"),
                           "$4\r\nname\r\n$3\r\ntag\r\n$4\r\ntype\r\n$6\r\n"
                           "string\r\n$5\r\ntoken\r\n$5\r\nOWNER\r\n"));
    struct resp_reply reply = {0};
    size_t used;
    const char *all = ask("COMMAND DOCS");
    assert_int_equal(
        resp_parse_reply(bytes_of_text(all), 100000, &reply, &used), 0);
    assert_int_equal(used, strlen(all)); /* Counts and contents agree. */
    all = ask("COMMAND");
    assert_int_equal(
        resp_parse_reply(bytes_of_text(all), 100000, &reply, &used), 0);
    assert_int_equal(used, strlen(all));
    resp_reply_done(&reply);
    assert_non_null(strstr(ask("INFO"), "loading:0\r\n"));
    assert_non_null(strstr(ask("CLUSTER SLOTS"),
                           "*1\r\n*3\r\n:0\r\n:16383\r\n*3\r\n$9\r\n127.0.0.1"
                           "\r\n:7201\r\n"));
    expect(":12182\r\n", "CLUSTER KEYSLOT foo");
    expect(":12182\r\n", "CLUSTER KEYSLOT a{foo}b");
    expect("*4\r\n$4\r\nsave\r\n$0\r\n\r\n$10\r\nappendonly\r\n$3\r\nyes\r\n",
           "CONFIG GET save appendonly");
}

static void a_clean_stop_refuses_and_becomes_quiet(void **state)
{
    (void)state;
    client_session(world, 1, 1, "");
    core_stop(world->node[1].core, world->now_ms * MS);
    expect("-NOLEADER this node is stopping; nothing was done\r\n",
           "LOCK.ACQUIRE a");
    world_run(world, 10);
    assert_true(core_is_quiet(world->node[1].core));
    assert_int_equal(core_flush(world->node[1].core), 0);
}

static void a_scarce_disk_refuses_what_takes_but_not_what_gives(void **state)
{
    (void)state;
    client_session(world, 1, 1, "TTL 1000");
    ask("LOCK.ACQUIRE a");
    core_disk_is(world->node[1].core, CORE_DISK_FULL, world->now_ms * MS);
    expect("-LIMIT disk: the leader's disk is nearly full\r\n",
           "LOCK.ACQUIRE b");
    core_disk_is(world->node[1].core, CORE_DISK_SLOW, world->now_ms * MS);
    expect(
        "-BUSY the leader's disk is too slow; nothing was done, try later\r\n",
        "LOCK.ACQUIRE b");
    expect(":0\r\n", "LOCK.RELEASE a");
    assert_begins(ask("SESSION.KEEP FULL"), "*10\r\n");
    core_disk_is(world->node[1].core, CORE_DISK_OK, world->now_ms * MS);
    assert_int_equal(ask("LOCK.ACQUIRE b")[0], ':');
}

/* No client would release the hold of the first one. */
static void a_scarce_disk_refuses_no_request_that_was_asked_before(void **state)
{
    (void)state;
    char token[32];
    struct credentials one = client_session(world, 1, 1, "TTL 60000");
    snprintf(token, sizeof token, "%s", ask("LOCK.ACQUIRE a REQ 1"));
    client_send(world, 1, 1, "LOCK.ACQUIRE b REQ 2");
    core_disk_is(world->node[1].core, CORE_DISK_FULL, world->now_ms * MS);
    client_open(world, 1, 2);
    client_send(world, 1, 2, "SESSION.ATTACH %llu %s",
                (unsigned long long)one.id, one.secret);
    client_send(world, 1, 2,
                "LOCK.ACQUIRE b REQ 2"); /* Before it is applied. */
    world_run(world, 50);
    assert_null(strstr(client_text(world, 1, 2), "LIMIT"));
    assert_answer(world, 1, 2, token, "LOCK.ACQUIRE a REQ 1");
    assert_begins(client_ask(world, 1, 2, "LOCK.ACQUIRE c REQ 3"), "-LIMIT");
    /* A waiter has its place. */
    core_disk_is(world->node[1].core, CORE_DISK_OK, world->now_ms * MS);
    client_open(world, 1, 3);
    client_session(world, 1, 3, "TTL 60000");
    client_ask(world, 1, 3, "LOCK.ACQUIRE d");
    client_send(world, 1, 2, "LOCK.ACQUIRE d WAIT 5000 REQ 4");
    world_run(world, 50);
    core_disk_is(world->node[1].core, CORE_DISK_FULL, world->now_ms * MS);
    client_open(world, 1, 4);
    client_ask(world, 1, 4, "SESSION.ATTACH %llu %s",
               (unsigned long long)one.id, one.secret);
    client_clear(world, 1, 4);
    client_send(world, 1, 4, "LOCK.ACQUIRE d WAIT 5000 REQ 4");
    world_run(world, 50);
    assert_string_equal(client_text(world, 1, 4), "");
    client_ask(world, 1, 3, "LOCK.RELEASE d");
    assert_begins(client_text(world, 1, 4), ":");
}

/* LIMIT would mean that nothing had been done. */
static void a_scarce_disk_does_not_hide_that_the_session_has_ended(void **state)
{
    (void)state;
    struct credentials one = client_session(world, 1, 1, "TTL 60000");
    ask("LOCK.ACQUIRE a REQ 1");
    client_open(world, 1, 2);
    client_ask(world, 1, 2, "SESSION.ATTACH %llu %s",
               (unsigned long long)one.id, one.secret);
    assert_answer(world, 1, 2, ":1\r\n", "SESSION.CLOSE");
    core_disk_is(world->node[1].core, CORE_DISK_FULL, world->now_ms * MS);
    assert_begins(ask("LOCK.ACQUIRE a REQ 1"), "-EXPIRED");
}

#define serving(test) \
    cmocka_unit_test_setup_teardown(test, begin_one, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            nothing_is_answered_before_the_nodes_own_begin_is_applied, set_up,
            tear_down),
        serving(greetings_are_answered_as_redis_does),
        serving(a_lock_is_acquired_and_released),
        serving(argument_errors_name_the_command_and_the_option),
        serving(a_heartbeat_answers_the_times_and_moves_the_deadline),
        serving(several_sessions_are_kept_in_one_request),
        serving(a_session_is_chosen_by_its_id),
        serving(replies_come_in_the_order_of_the_requests),
        serving(what_is_pipelined_has_its_effect_in_that_order),
        serving(a_connection_that_ends_takes_what_it_held_back_along),
        serving(an_acquire_that_waits_blocks_its_connection_only),
        serving(a_wait_ends_with_nil_when_its_time_is_over),
        serving(the_same_wait_asked_again_answers_both),
        serving(a_repeated_request_number_repeats_the_result),
        serving(a_note_outlives_the_hold),
        serving(too_many_pipelined_requests_block_the_connection),
        serving(too_much_in_flight_is_busy),
        serving(very_many_marked_sessions_are_heard_in_turn),
        serving(a_heard_ends_with_the_heartbeat_that_fills_it),
        serving(linger_shortens_the_lease_of_a_closed_connection),
        serving(a_session_expires_under_a_loop_that_is_always_late),
        serving(a_blacklisted_sessions_heartbeat_is_refused_and_moves_nothing),
        serving(events_are_pushed_to_watchers),
        serving(a_wait_that_is_asked_for_again_is_told_once),
        serving(blacklisting_is_told_of_each_lock_held),
        serving(please_reaches_the_holder_unasked),
        serving(an_unknown_lock_shows_as_free),
        serving(the_state_survives_a_restart),
        cmocka_unit_test_setup_teardown(a_backup_is_read_in_parts, set_up_door,
                                        tear_down),
        cmocka_unit_test_setup_teardown(only_so_many_read_backups_at_once,
                                        set_up_door, tear_down),
        serving(quit_answers_what_came_before_it),
        serving(a_connection_attaches_only_so_many_sessions),
        serving(conversion_fences_and_several_locks),
        serving(what_ended_unasked_is_told_by_keep),
        serving(commands_describe_themselves),
        serving(a_clean_stop_refuses_and_becomes_quiet),
        serving(a_scarce_disk_refuses_what_takes_but_not_what_gives),
        serving(a_scarce_disk_refuses_no_request_that_was_asked_before),
        serving(a_scarce_disk_does_not_hide_that_the_session_has_ended),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
