/* SPDX-License-Identifier: MIT */

/* How a client's session begins, is resumed and ends, and strange answers. */

#include <sys/wait.h>
#include <unistd.h>

#include "client/hasp_session.h"
#include "tests/unit/machine_world.h"

/* --- Closing -------------------------------------------------------------- */

static void belief_ends_when_closing_begins(void **state)
{
    struct told held, told;
    (void)state;
    acquire(&held, "a", 0);
    once("SESSION.CLOSE", SILENCE);
    assert_int_equal(session_fsm_close(&world.machine, call_of(&told), now()),
                     0);
    assert_int_equal(left_ms(held.call.hold), 0);
    world.seen[0] = '\0';
    pass(4100);
    assert_told(&told, 0);
    assert_contains(world.seen, "0:SESSION.CLOSE|1:SESSION.ATTACH");
    world.seen[0] = '\0';
    pass(5000);
    assert_seen("");
}

/* The node fails before it has answered either of them. */
static void a_heartbeat_ends_when_closing_begins(void **state)
{
    struct told told;
    (void)state;
    once("SESSION.KEEP", SILENCE);
    pass(300);
    assert_seen("0:SESSION.KEEP FULL|");
    once("SESSION.CLOSE", HANG_UP);
    assert_int_equal(session_fsm_close(&world.machine, call_of(&told), now()),
                     0);
    world.seen[0] = '\0';
    pass(4000);
    assert_told(&told, 0);
    assert_seen("0:SESSION.CLOSE|"
                "1:SESSION.ATTACH 17 01020300000000000000000000000000|"
                "1:SESSION.CLOSE|");
}

static void a_lost_session_is_not_asked_for_any_more(void **state)
{
    (void)state;
    for (int i = 0; i < NODES; i++) {
        world.is_silent[i] = true;
    }
    pass(2000);
    assert_int_equal(left_ms(NULL), 0);
    for (int i = 0; i < NODES; i++) {
        world.is_silent[i] = false;
    }
    world.seen[0] = '\0';
    pass(4000);
    assert_seen("");
}

/* Not only with the next heartbeat. */
static void who_may_not_attach_has_lost_the_session_at_once(void **state)
{
    (void)state;
    pass(200);
    once("SESSION.ATTACH", "-NOSESSION no such session\r\n");
    cluster_conn_failed(&world.asker, "closed the connection", now());
    pass(10);
    assert_int_equal(left_ms(NULL), 0);
    assert_int_equal(next_event(), HASP_EVENT_LOST);
}

static void waits_end_when_closing_begins(void **state)
{
    struct told waiting, told;
    (void)state;
    once("LOCK.ACQUIRE w", QUEUED);
    acquire(&waiting, "w", HASP_FOREVER);
    assert_int_equal(waiting.count, 0);
    assert_int_equal(session_fsm_close(&world.machine, call_of(&told), now()),
                     0);
    assert_null(waiting.call.operation); /* It will get no result. */
    world.seen[0] = '\0';
    turn();
    assert_told(&told, 0);
    assert_int_equal(waiting.count, 0);
}

/* The call gets no result, and (AddressSanitizer checks) its memory is
 * freed. */
static void a_machine_may_end_while_it_opens_its_session(void **state)
{
    struct hasp_options options = {.size = sizeof options, .ttl_ms = TTL_MS};
    uint8_t random[SESSION_FSM_RANDOM_SIZE] = {1, 2, 3};
    struct told told;
    once("SESSION.OPEN", SILENCE);
    assert_int_equal(session_fsm_open(&world.machine, &options, "me", random,
                                      call_of(&told), now()),
                     0);
    turn();
    assert_contains(world.seen, "SESSION.OPEN");
    tear_down(state);
    assert_int_equal(told.count, 0);
}

/* --- Strange answers ------------------------------------------------------ */

static void a_session_needs_an_answer_with_its_terms(void **state)
{
    struct hasp_options options = {.size = sizeof options, .ttl_ms = TTL_MS};
    uint8_t random[SESSION_FSM_RANDOM_SIZE] = {1, 2, 3};
    struct told told;
    (void)state;
    once("SESSION.OPEN", "%1\r\n$2\r\nid\r\n:17\r\n");
    assert_int_equal(session_fsm_open(&world.machine, &options, "me", random,
                                      call_of(&told), now()),
                     0);
    turn();
    assert_told(&told, HASP_EPROTO);
    assert_string_equal(told.call.why, "the answer does not fit the request");
}

static void who_is_refused_at_the_door_is_told_at_once(void **state)
{
    struct hasp_options options = {.size = sizeof options, .ttl_ms = TTL_MS};
    uint8_t random[SESSION_FSM_RANDOM_SIZE] = {1, 2, 3};
    struct told told;
    (void)state;
    once("HELLO", "-WRONGPASS no such user\r\n");
    assert_int_equal(session_fsm_open(&world.machine, &options, "me", random,
                                      call_of(&told), now()),
                     0);
    pass(50);
    assert_int_equal(told.count, 1);
    assert_int_not_equal(told.call.error, 0);
    assert_contains(told.call.why, "no such user");
}

/* --- Resuming ------------------------------------------------------------- */

#define HELD(lock, owner, size, token, left)                              \
    "%7\r\n$4\r\nlock\r\n$" #size "\r\n" lock "\r\n$5\r\nowner\r\n" owner \
    "\r\n$5\r\ntoken\r\n:" token "\r\n$5\r\nfirst\r\n:" token             \
    "\r\n$5\r\ncount\r\n:1\r\n$12\r\nhold_left_ms\r\n" left               \
    "\r\n$5\r\nas_of\r\n:99\r\n"
#define PAGE(cursor, count)                                      \
    "%3\r\n$6\r\ncursor\r\n" cursor "\r\n$5\r\nas_of\r\n:99\r\n" \
    "$5\r\nholds\r\n*" count "\r\n"

static void a_resumed_hold_has_its_token_and_its_limit(void **state)
{
    struct told told;
    (void)state;
    once("SESSION.HOLDS PREFIX a CURSOR =7/a SESSION 17",
         PAGE("$1\r\n0", "2") HELD("a", "$0\r\n", 1, "34", ":500")
             HELD("ab", "$0\r\n", 2, "35", "_"));
    once("SESSION.HOLDS PREFIX a",
         PAGE("$4\r\n=7/a", "1") HELD("a", "$2\r\nme", 1, "33", "_"));
    assert_int_equal(
        session_fsm_resume(&world.machine, "a", "", call_of(&told), now()), 0);
    turn();
    assert_told(&told, 0);
    assert_int_equal(told.call.hold->held[0].token, 34);
    assert_int_equal(left_ms(told.call.hold), 400);
    pass(401);
    assert_int_equal(left_ms(told.call.hold), 0);
    session_fsm_forget(&world.machine, told.call.hold);
}

/* A limit that is used up is not the same as a hold without a limit. */
static void a_resumed_hold_may_have_no_time_left(void **state)
{
    struct told told;
    (void)state;
    once("SESSION.HOLDS",
         PAGE("$1\r\n0", "1") HELD("a", "$0\r\n", 1, "34", ":0"));
    assert_int_equal(
        session_fsm_resume(&world.machine, "a", "", call_of(&told), now()), 0);
    turn();
    assert_told(&told, 0);
    assert_int_equal(left_ms(told.call.hold), 0);
    session_fsm_forget(&world.machine, told.call.hold);
}

/* --- fork() --------------------------------------------------------------- */

static bool refuses_all(struct hasp_session *session)
{
    struct hasp_hold *hold = NULL;
    bool is_holder = true;
    return hasp_acquire(session, "a", NULL, &hold) == HASP_EFORKED &&
           hasp_check(session, "a", 1, &is_holder) == HASP_EFORKED &&
           hasp_detach(session) == HASP_EFORKED &&
           hasp_alive(session) == HASP_EFORKED &&
           strstr(hasp_why(), "belongs to the parent") != NULL;
}

static void note_error(struct client_request *ask,
                       const struct client_request_end *end)
{
    *(int *)ask->data = end->error;
}

static void what_is_asked_once_ends_with_the_first_refusal(void **state)
{
    int error = 0;
    struct client_request ask = {.deadline_ns = read_clock().monotonic_ns +
                                                5000 * NS_PER_MS,
                                 .is_once = true,
                                 .done = note_error,
                                 .data = &error};
    (void)state;
    query_begin(&ask.query, "RAFT.STATUS");
    once("RAFT.STATUS", "-BUSY later\r\n");
    always("RAFT.STATUS", "+OK\r\n");
    cluster_conn_ask(&world.asker, &ask, now());
    turn();
    assert_int_equal(error, HASP_EBUSY);
    pass(1000);
    assert_null(strstr(world.seen, "|0:RAFT.STATUS"));
    query_done(&ask.query);
}

static void a_forked_child_may_not_use_the_session(void **state)
{
    const struct hasp_options options = {.size = sizeof options,
                                         .endpoints = "127.0.0.1:1"};
    struct hasp_session session;
    int status;
    (void)state;
    assert_int_equal(session_init(&session, &options, &thread_driver, NULL), 0);
    assert_int_equal(session_check_process(&session), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        alarm(10); /* A session without its thread answers nothing. */
        _exit(refuses_all(&session) ? 0 : 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    session_done(&session);
}

int main(void)
{
#define one(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        one(belief_ends_when_closing_begins),
        one(a_heartbeat_ends_when_closing_begins),
        one(a_lost_session_is_not_asked_for_any_more),
        one(who_may_not_attach_has_lost_the_session_at_once),
        one(waits_end_when_closing_begins),
        cmocka_unit_test_setup_teardown(
            a_session_needs_an_answer_with_its_terms, set_up_closed, tear_down),
        cmocka_unit_test_setup_teardown(
            who_is_refused_at_the_door_is_told_at_once, set_up_closed,
            tear_down),
        cmocka_unit_test_setup(a_machine_may_end_while_it_opens_its_session,
                               set_up_closed),
        one(a_resumed_hold_has_its_token_and_its_limit),
        one(a_resumed_hold_may_have_no_time_left),
        one(what_is_asked_once_ends_with_the_first_refusal),
        cmocka_unit_test(a_forked_child_may_not_use_the_session),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
