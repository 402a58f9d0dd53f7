/* SPDX-License-Identifier: MIT */

/* Two sessions on one connection: the requests and reports of each, and the
 * effects of one on the other. The second one is session 18. */

#include "tests/unit/machine_world.h"

#define OTHER_SECRET "09000000000000000000000000000000"
#define ATTACH_17 "SESSION.ATTACH 17 " SECRET "|"
#define ATTACH_18 "SESSION.ATTACH 18 " OTHER_SECRET "|"
#define BEAT_18 "SESSION.KEEP 18 " OTHER_SECRET " FULL"

static struct session_fsm other;

static int set_up_two(void **state)
{
    struct hasp_options options = {.size = sizeof options, .ttl_ms = TTL_MS};
    uint8_t random[SESSION_FSM_RANDOM_SIZE] = {9};
    struct told told;
    set_up(state);
    session_fsm_init(&other, &world.asker);
    other.timeout_ms = 10000;
    once("SESSION.OPEN", "%3\r\n$2\r\nid\r\n:18\r\n$6\r\nttl_ms\r\n:1000\r\n"
                         "$9\r\nlinger_ms\r\n:0\r\n");
    assert_int_equal(
        session_fsm_open(&other, &options, "it", random, call_of(&told), now()),
        0);
    turn();
    assert_told(&told, 0);
    world.seen[0] = '\0';
    return 0;
}

static int tear_down_two(void **state)
{
    session_fsm_done(&other);
    return tear_down(state);
}

static void acquire_other(struct told *told, const char *name, uint64_t wait_ms)
{
    struct hasp_acquire_options options = {.size = sizeof options,
                                           .wait_ms = wait_ms};
    assert_int_equal(
        session_fsm_acquire(&other, &name, 1, &options, call_of(told), now()),
        0);
    turn();
}

static uint64_t other_left_ms(void)
{
    struct hasp_lease lease;
    session_fsm_look(&other, NULL, read_clock(), &lease);
    return lease.remaining_ns / NS_PER_MS;
}

static int next_event_of_other(void)
{
    struct event_node *node = session_fsm_take_event(&other);
    int kind = node != NULL ? (int)node->event.kind : 0;
    free(node);
    return kind;
}

static void each_request_names_its_session(void **state)
{
    struct told told;
    (void)state;
    acquire(&told, "a", 0);
    assert_told(&told, 0);
    acquire_other(&told, "b", 0);
    assert_told(&told, 0);
    assert_seen("0:LOCK.ACQUIRE a OWNER #1 REQ 1|"
                "0:LOCK.ACQUIRE b SESSION 18 OWNER #1 REQ 1|");
}

static void each_is_kept_by_its_own_heartbeat(void **state)
{
    (void)state;
    always(BEAT_18, "-BLACKLISTED by an operator\r\n");
    pass(300);
    assert_seen("0:" BEAT_18 "|0:SESSION.KEEP FULL|");
    assert_int_equal(left_ms(NULL), 700);
    assert_int_equal(other_left_ms(), 500);
    pass(500);
    assert_int_equal(next_event(), 0);
    assert_int_equal(next_event_of_other(), HASP_EVENT_LOST);
    assert_int_equal(world.at, 0);
}

static void on_a_new_connection_all_are_attached(void **state)
{
    struct told one, two;
    (void)state;
    once("LOCK.ACQUIRE b", HANG_UP);
    acquire(&one, "a", 0);
    acquire_other(&two, "b", 0);
    assert_told(&one, 0);
    assert_told(&two, 0);
    assert_contains(world.seen, "1:" ATTACH_18 "1:" ATTACH_17 "1:LOCK.ACQUIRE");
}

/* The connection stays, and so does the neighbour's wait. */
static void a_refused_attach_ends_one_session_alone(void **state)
{
    struct told waiting, told;
    (void)state;
    once("LOCK.ACQUIRE w", QUEUED);
    acquire(&waiting, "w", HASP_FOREVER);
    acquire_other(&told, "b", HASP_FOREVER);
    once("SESSION.ATTACH 18", "-NOSESSION no such session\r\n");
    always("LOCK.ACQUIRE w", QUEUED);
    cluster_conn_failed(&world.asker, "closed the connection", now());
    pass(10);
    assert_int_equal(next_event_of_other(), HASP_EVENT_LOST);
    assert_int_equal(other_left_ms(), 0);
    assert_int_equal(world.at, 1);
    assert_true(left_ms(NULL) > 700);
    assert_int_equal(next_event(), 0);
    assert_int_equal(waiting.count, 0);
    give(ANSWER_PUSH("#1"));
    turn();
    acquire(&told, "c", 0);
    assert_told(&told, 0);
    assert_int_equal(world.at, 1);
}

/* It is asked again, but only after a pause: the session may be attached
 * later. */
static void who_may_not_be_attached_asks_again_after_a_pause(void **state)
{
    struct told told;
    (void)state;
    always("SESSION.ATTACH 18", "-LIMIT sessions of a connection\r\n");
    cluster_conn_failed(&world.asker, "closed the connection", now());
    pass(5);
    acquire_other(&told, "b", 0);
    assert_int_equal(told.count, 0);
    pass(50);
    assert_told(&told, HASP_EFULL);
    assert_int_equal(world.at, 1);
    world.rule_count = 0;
    acquire_other(&told, "b", 0);
    pass(100);
    assert_told(&told, 0);
    assert_int_equal(world.at, 1);
    assert_int_equal(next_event_of_other(), 0);
}

/* Both wait as "#1", at place 8. */
static void a_push_is_for_the_session_that_it_names(void **state)
{
    static struct told one, two; /* The tear-down ends the waiting call. */
    (void)state;
    once("LOCK.ACQUIRE w", QUEUED);
    once("LOCK.ACQUIRE w", QUEUED);
    acquire(&one, "w", HASP_FOREVER);
    acquire_other(&two, "w", HASP_FOREVER);
    world.seen[0] = '\0';
    give(ANSWER_PUSH("#1"));
    turn();
    assert_told(&one, 0);
    assert_int_equal(two.count, 0);
    assert_seen("0:LOCK.ACQUIRE w WAIT FOREVER PUSH OWNER #1 REQ 1|");
    give(">3\r\n$4\r\nlock\r\n$6\r\nplease\r\n%2\r\n$4\r\nlock\r\n$1\r\nw\r\n"
         "$7\r\nsession\r\n:18\r\n");
    assert_int_equal(next_event(), 0);
    assert_int_equal(next_event_of_other(), HASP_EVENT_PLEASE);
    give(">3\r\n$4\r\nlock\r\n$6\r\nplease\r\n%2\r\n$4\r\nlock\r\n$1\r\nw\r\n"
         "$7\r\nsession\r\n:19\r\n");
    give(">1\r\n$4\r\nlock\r\n");
    assert_int_equal(next_event(), 0);
    assert_int_equal(next_event_of_other(), 0);
}

/* Its request has no answer, but its time was over before the node's. */
static void a_hasty_call_disturbs_nobody(void **state)
{
    struct told told;
    (void)state;
    world.is_silent[0] = true;
    other.timeout_ms = 30;
    acquire_other(&told, "b", 0);
    pass(199);
    assert_int_equal(told.count, 0); /* It is being resolved, ... */
    assert_int_equal(world.at, 0);
    world.is_silent[0] = false;
    give(GRANT("1", "1", "1", "_", "1") GRANT("1", "1", "1", "_", "1"));
    pass(100);
    assert_told(&told, 0); /* ... and its last answer was good. */
    assert_int_equal(world.at, 0);
}

static void a_silent_node_is_left_by_both(void **state)
{
    (void)state;
    world.is_silent[0] = true;
    pass(400);
    assert_seen("0:" BEAT_18
                "|0:SESSION.KEEP FULL|1:SESSION.KEEP FULL|1:" BEAT_18
                "|1:" ATTACH_18 "1:" ATTACH_17);
    assert_int_equal(left_ms(NULL), 800);
    assert_int_equal(other_left_ms(), 800);
}

/* A session of 200 ms cannot wait long for a connection, the others can. */
static void a_short_session_takes_its_haste_along(void **state)
{
    struct hasp_options options = {.size = sizeof options, .ttl_ms = 200};
    uint8_t random[SESSION_FSM_RANDOM_SIZE] = {7};
    struct session_fsm brief;
    struct told told;
    (void)state;
    session_fsm_init(&brief, &world.asker);
    brief.timeout_ms = 10000;
    once("SESSION.OPEN", "%3\r\n$2\r\nid\r\n:19\r\n$6\r\nttl_ms\r\n:200\r\n"
                         "$9\r\nlinger_ms\r\n:0\r\n");
    assert_int_equal(
        session_fsm_open(&brief, &options, "it", random, call_of(&told), now()),
        0);
    turn();
    assert_told(&told, 0);
    world.is_silent[0] = world.is_silent[1] = world.is_silent[2] = true;
    cluster_conn_failed(&world.asker, "closed the connection", now());
    pass(39);
    assert_int_equal(world.at, 1);
    pass(1);
    assert_int_equal(world.at, 2);
    session_fsm_done(&brief);
    cluster_conn_failed(&world.asker, "closed the connection", now());
    pass(30); /* The pause after a round. */
    assert_int_equal(world.at, 0);
    pass(150);
    assert_int_equal(world.at, 0);
    pass(50);
    assert_int_equal(world.at, 1);
}

static void who_leaves_is_detached_and_the_last_one_closes(void **state)
{
    uint32_t number = world.number;
    (void)state;
    session_fsm_leave(&other, now());
    turn();
    assert_seen("0:SESSION.DETACH SESSION 18|");
    session_fsm_done(&other);
    pass(300);
    assert_seen("0:SESSION.KEEP FULL|");
    assert_int_equal(world.number, number);
    session_fsm_leave(&world.machine, now());
    turn();
    assert_seen("");
    assert_int_equal(world.asker.state, CLUSTER_CONN_REST);
    session_fsm_init(&other, &world.asker);
}

static void who_closes_is_not_detached(void **state)
{
    struct told told;
    (void)state;
    assert_int_equal(session_fsm_close(&other, call_of(&told), now()), 0);
    turn();
    assert_told(&told, 0);
    session_fsm_leave(&other, now());
    turn();
    assert_seen("0:SESSION.CLOSE SESSION 18|");
}

static int count_seen(const char *part)
{
    int count = 0;
    for (const char *at = world.seen; (at = strstr(at, part)) != NULL; at++) {
        count++;
    }
    return count;
}

/* After each ATTACH a node does nothing until it is answered: heartbeats must
 * not wait for those of all sessions. Sessions with a request come first. */
static void few_are_attached_at_a_time(void **state)
{
    enum { COUNT = 30 };
    static struct session_fsm many[COUNT];
    struct told told, closing;
    (void)state;
    for (unsigned i = 0; i < COUNT; i++) {
        struct credentials credentials = {.session = 100 + i,
                                          .secret = OTHER_SECRET};
        session_fsm_init(&many[i], &world.asker);
        many[i].timeout_ms = 10000;
        cluster_conn_set_session(&many[i].member, &credentials, now());
    }
    turn();
    always("SESSION.ATTACH", SILENCE);
    cluster_conn_failed(&world.asker, "closed the connection", now());
    world.seen[0] = '\0';
    pass(5);
    assert_int_equal(count_seen("SESSION.ATTACH"), CLUSTER_CONN_BLOCKING_MAX);
    assert_true(cluster_conn_left_ns(&world.asker, read_clock()) > 0);
    assert_true(strstr(world.seen, "SESSION.ATTACH 110 ") == NULL);
    many[10].credentials.session = 110;
    assert_int_equal(session_fsm_close(&many[10], call_of(&closing), now()), 0);
    turn();
    assert_int_equal(count_seen("SESSION."), CLUSTER_CONN_BLOCKING_MAX);
    world.seen[0] = '\0';
    give("+OK\r\n");
    turn();
    assert_contains(world.seen, "1:SESSION.ATTACH 110 ");
    assert_int_equal(count_seen("SESSION."), 1);
    acquire(&told, "a", 0);
    assert_int_equal(count_seen("LOCK."), 0); /* It is not attached, either. */
    for (unsigned i = 0; i < COUNT; i++) {
        session_fsm_done(&many[i]);
    }
}

int main(void)
{
#define two(test) \
    cmocka_unit_test_setup_teardown(test, set_up_two, tear_down_two)
    const struct CMUnitTest tests[] = {
        two(few_are_attached_at_a_time),
        two(each_request_names_its_session),
        two(each_is_kept_by_its_own_heartbeat),
        two(on_a_new_connection_all_are_attached),
        two(a_refused_attach_ends_one_session_alone),
        two(who_may_not_be_attached_asks_again_after_a_pause),
        two(a_push_is_for_the_session_that_it_names),
        two(a_hasty_call_disturbs_nobody),
        two(a_silent_node_is_left_by_both),
        two(a_short_session_takes_its_haste_along),
        two(who_leaves_is_detached_and_the_last_one_closes),
        two(who_closes_is_not_detached),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
