/* SPDX-License-Identifier: MIT */

/* A process works with one cluster: it leaves nodes of another one, unless that
 * was restored from it, or no other node is left. And a session that opens
 * after its caller gave up is closed. */

#include "tests/unit/machine_world.h"

#define ID(digit) digit digit digit digit digit digit digit digit
#define A ID("aaaa")
#define B ID("bbbb")
#define C ID("cccc")
#define FIRST(id) \
    "%2\r\n$7\r\ncluster\r\n$32\r\n" id "\r\n$6\r\nformer\r\n*0\r\n"
#define RESTORED(id, of)                                                      \
    "%2\r\n$7\r\ncluster\r\n$32\r\n" id "\r\n$6\r\nformer\r\n*2\r\n$32\r\n" C \
    "\r\n$32\r\n" of "\r\n"
#define UNBORN "%2\r\n$7\r\ncluster\r\n$0\r\n\r\n$6\r\nformer\r\n*0\r\n"

static int set_up_known(void **state)
{
    int error = set_up_closed(state);
    always("HELLO", FIRST(A));
    open_session();
    return error;
}

static void forget_rules(void)
{
    world.rule_count = 0;
    world.seen[0] = '\0';
}

static void a_node_of_another_cluster_is_asked_nothing(void **state)
{
    struct told told;
    (void)state;
    uint32_t home = (uint32_t)world.at;
    forget_rules();
    for (uint32_t i = 0; i < NODES; i++) {
        world.is_dead[i] = true;
    }
    world.is_dead[(home + 1) % NODES] = false;
    always("HELLO", FIRST(B));
    cluster_conn_drop(&world.asker, "told to", now());
    acquire(&told, "a", 0);
    pass(300);
    assert_int_equal(told.count, 0);
    assert_string_equal(world.seen, "");
    assert_int_equal(next_event(), HASP_EVENT_NOTICE);
    pass(300);
    assert_int_equal(next_event(), 0); /* It is reported once. */
    forget_rules();
    world.is_dead[home] = false;
    always("0:HELLO", home == 0 ? FIRST(A) : FIRST(B));
    always("1:HELLO", home == 1 ? FIRST(A) : FIRST(B));
    always("2:HELLO", home == 2 ? FIRST(A) : FIRST(B));
    pass(100);
    assert_told(&told, 0);
    release(told.call.hold, &told);
}

static void what_was_restored_from_the_known_cluster_is_taken(void **state)
{
    struct told told;
    (void)state;
    forget_rules();
    always("HELLO", RESTORED(B, A));
    cluster_conn_drop(&world.asker, "told to", now());
    acquire(&told, "a", 0);
    pass(100);
    assert_told(&told, 0);
    release(told.call.hold, &told);
    /* The former life, and another restore of it, are foreign now. */
    forget_rules();
    always("0:HELLO", FIRST(A));
    always("HELLO", RESTORED(C, A));
    cluster_conn_drop(&world.asker, "told to", now());
    pass(300);
    assert_string_equal(world.seen, "");
}

/* A node without a cluster may still found one of its own. */
static void a_node_without_a_cluster_is_asked_nothing(void **state)
{
    (void)state;
    forget_rules();
    always("HELLO", UNBORN);
    cluster_conn_drop(&world.asker, "told to", now());
    pass(300);
    assert_string_equal(world.seen, "");
    forget_rules();
    always("HELLO", FIRST(A));
    pass(300);
    assert_contains(world.seen, "SESSION.KEEP");
}

/* The lease, of which 0.8 s are trusted, ends in between. */
static void another_cluster_is_taken_when_nothing_is_left(void **state)
{
    (void)state;
    forget_rules();
    always("HELLO", FIRST(B));
    cluster_conn_drop(&world.asker, "told to", now());
    pass(700);
    assert_string_equal(world.seen, "");
    pass(200);
    assert_int_equal(next_event(), HASP_EVENT_NOTICE);
    assert_int_equal(next_event(), HASP_EVENT_NOTICE);
    assert_int_equal(next_event(), HASP_EVENT_NOTICE);
    assert_int_equal(next_event(), HASP_EVENT_LOST);
    struct told told;
    struct query query = {0};
    query_begin(&query, "LOCK.CHECK");
    assert_int_equal(
        session_fsm_query(&world.machine, &query, false, call_of(&told), now()),
        0);
    query_done(&query);
    pass(500);
    assert_contains(world.seen, "LOCK.CHECK");
}

/* While one endpoint is silent, or shows the known cluster, it is not. */
static void
while_one_endpoint_may_be_of_it_no_other_cluster_is_taken(void **state)
{
    struct told told;
    struct query query = {0};
    (void)state;
    forget_rules();
    world.is_dead[2] = true;
    always("HELLO", FIRST(B));
    cluster_conn_drop(&world.asker, "told to", now());
    pass(2000);
    query_begin(&query, "LOCK.CHECK");
    assert_int_equal(
        session_fsm_query(&world.machine, &query, false, call_of(&told), now()),
        0);
    query_done(&query);
    pass(3000);
    assert_string_equal(world.seen, "");
    world.is_dead[2] = false;
    pass(1000);
    assert_contains(world.seen, "LOCK.CHECK");
}

static void a_session_without_end_is_believed_without_end(void **state)
{
    (void)state;
    lease_answered_endless(&world.machine.lease, read_clock());
    known_cluster_endless(world.asker.known, 1);
    world.machine.is_endless = true;
    forget_rules();
    always("HELLO", FIRST(B));
    cluster_conn_drop(&world.asker, "told to", now());
    pass(60000);
    assert_string_equal(world.seen, "");
}

/* The secret is meant for nodes of the known cluster. */
static void a_stranger_is_shown_no_secret(void **state)
{
    (void)state;
    forget_rules();
    cluster_conn_show(&world.asker,
                      (const char[CLIENT_USER_SECRET_SIZE]){"app.123"});
    always("HELLO", FIRST(B));
    cluster_conn_drop(&world.asker, "told to", now());
    pass(300);
    assert_string_equal(world.seen, "");
    forget_rules();
    always("HELLO", FIRST(A));
    pass(300);
    assert_contains(world.seen, "AUTH default app.123");
}

/* --- Opened late ---------------------------------------------------------- */

static void begin_open(struct told *told)
{
    static const uint8_t random[SESSION_FSM_RANDOM_SIZE] = {1, 2, 3};
    struct hasp_options options = {.size = sizeof options};
    world.machine.timeout_ms = 2000;
    always("SESSION.OPEN", SILENCE);
    assert_int_equal(session_fsm_open(&world.machine, &options, "me", random,
                                      call_of(told), now()),
                     0);
    pass(1900);
    assert_int_equal(told->count, 0);
    pass(200);
    assert_told(told, HASP_ECONNECT);
    assert_true(machine_is_clearing(&world.machine));
    world.seen[0] = '\0';
}

static void what_is_opened_late_is_closed(void **state)
{
    struct told told;
    (void)state;
    begin_open(&told);
    give("%1\r\n$2\r\nid\r\n:17\r\n");
    turn();
    assert_contains(world.seen, "SESSION.CLOSE");
    assert_false(machine_is_clearing(&world.machine));
    assert_int_equal(told.count, 1);
    assert_int_equal(next_event(), 0);
}

/* If the connection is lost before the CLOSE is answered, another node is
 * asked. */
static void what_is_opened_late_is_closed_at_any_node(void **state)
{
    struct told told;
    (void)state;
    begin_open(&told);
    once("SESSION.CLOSE", HANG_UP);
    give("%1\r\n$2\r\nid\r\n:17\r\n");
    pass(500);
    assert_contains(world.seen, "SESSION.ATTACH 17 " SECRET);
    assert_contains(strstr(world.seen, "SESSION.ATTACH"), "SESSION.CLOSE");
    assert_false(machine_is_clearing(&world.machine));
}

static void of_a_late_answer_that_never_comes_nothing_is_left(void **state)
{
    struct told told;
    (void)state;
    begin_open(&told);
    pass(CLIENT_ATTEMPT_MS);
    assert_false(machine_is_clearing(&world.machine));
    assert_string_equal(world.seen, "");
    assert_int_equal(told.count, 1);
}

static void what_was_never_sent_leaves_nothing(void **state)
{
    struct told told;
    static const uint8_t random[SESSION_FSM_RANDOM_SIZE] = {1, 2, 3};
    struct hasp_options options = {.size = sizeof options};
    (void)state;
    for (uint32_t i = 0; i < NODES; i++) {
        world.is_dead[i] = true;
    }
    world.machine.timeout_ms = 2000;
    assert_int_equal(session_fsm_open(&world.machine, &options, "me", random,
                                      call_of(&told), now()),
                     0);
    pass(2100);
    assert_told(&told, HASP_ECONNECT);
    assert_false(machine_is_clearing(&world.machine));
}

#define KNOWN(test) \
    cmocka_unit_test_setup_teardown(test, set_up_known, tear_down)
#define CLOSED(test) \
    cmocka_unit_test_setup_teardown(test, set_up_closed, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        KNOWN(a_node_of_another_cluster_is_asked_nothing),
        KNOWN(what_was_restored_from_the_known_cluster_is_taken),
        KNOWN(a_node_without_a_cluster_is_asked_nothing),
        KNOWN(another_cluster_is_taken_when_nothing_is_left),
        KNOWN(while_one_endpoint_may_be_of_it_no_other_cluster_is_taken),
        KNOWN(a_session_without_end_is_believed_without_end),
        KNOWN(a_stranger_is_shown_no_secret),
        CLOSED(what_is_opened_late_is_closed),
        CLOSED(what_is_opened_late_is_closed_at_any_node),
        CLOSED(of_a_late_answer_that_never_comes_nothing_is_left),
        CLOSED(what_was_never_sent_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
