/* SPDX-License-Identifier: MIT */

/* A client whose credentials are refused: a removed secret, a revoked
 * certificate. Before the first answer the session ends, after one reading of
 * the files; later nothing is lost while the lease lasts. */

#include "tests/unit/machine_world.h"

#define WRONG "-WRONGPASS the secret is not known\r\n"

static const char *const refusals[] = {WRONG,
                                       "-NOAUTH certificate was revoked\r\n",
                                       "-NOTLS this port requires TLS\r\n"};

static void a_refused_greeting_is_no_loss_until_the_lease_is_over(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        struct told told;
        always("SESSION.KEEP", HANG_UP);
        always("HELLO", refusals[i]);
        pass(300);
        assert_true(left_ms(NULL) > 0);
        acquire(&told, "a", 0);
        assert_int_equal(told.count, 0); /* It waits for authentication. */
        world.rule_count = 0;
        pass(220);
        assert_told(&told, 0);
        assert_int_equal(next_event(), 0);
        release(told.call.hold, &told);
        assert_told(&told, 0);
    }
    always("SESSION.KEEP", HANG_UP);
    always("HELLO", WRONG);
    pass(1000);
    assert_int_equal(next_event(), HASP_EVENT_LOST);
}

/* The answer to a request, to ATTACH and to a heartbeat. */
static void a_refusal_of_who_asks_is_no_answer(void **state)
{
    static const char *const words[] = {"LOCK.ACQUIRE", "SESSION.KEEP",
                                        "SESSION.ATTACH"};
    (void)state;
    for (int i = 0; i < 3; i++) {
        for (int j = 0; j < 3; j++) {
            struct told told;
            uint32_t number = world.asker.number;
            once(words[i], refusals[j]);
            if (i == 2) {
                cluster_conn_drop(&world.asker, "told to", now());
            }
            acquire(&told, "a", 0);
            pass(500);
            assert_told(&told, 0);
            assert_true(world.asker.number != number);
            assert_int_equal(next_event(), 0);
            release(told.call.hold, &told);
            world.rule_count = 0;
        }
    }
}

static void between_two_attempts_are_a_tenth_to_one_second(void **state)
{
    uint64_t least_ms = UINT64_MAX, most_ms = 0;
    struct session_fsm *machine = &world.machine;
    (void)state;
    machine->member.open_ms = 1000; /* Not earlier than that. */
    always("HELLO", WRONG);
    cluster_conn_drop(&world.asker, "told to", now());
    pass(100);
    for (int i = 0; i < 100; i++) {
        uint64_t wait_ms = (world.asker.until_ns - read_clock().monotonic_ns) /
                           NS_PER_MS;
        least_ms = wait_ms < least_ms ? wait_ms : least_ms;
        most_ms = wait_ms > most_ms ? wait_ms : most_ms;
        world.ms += wait_ms + 1;
        lease_answered_endless(&machine->lease, read_clock());
        turn();
    }
    assert_in_range(least_ms, 100, 250);
    assert_in_range(most_ms, 700, 1000);
}

static void the_first_one_is_refused_at_once(void **state)
{
    struct hasp_options options = {.size = sizeof options, .ttl_ms = TTL_MS};
    uint8_t random[SESSION_FSM_RANDOM_SIZE] = {1, 2, 3};
    (void)state;
    for (int i = 0; i < 4; i++) {
        struct told told;
        bool greets = i % 2 == 0;
        world.may_renew = world.asker.may_renew = i >= 2;
        world.renewals = 0;
        world.asker.was_doubted = false;
        always(greets ? "HELLO" : "SESSION.OPEN", WRONG);
        assert_int_equal(session_fsm_open(&world.machine, &options, "me",
                                          random, call_of(&told), now()),
                         0);
        pass(100);
        assert_told(&told, HASP_EREFUSED);
        assert_string_equal(told.call.why,
                            "WRONGPASS: the secret is not known");
        /* The credentials were read again, and were the same. */
        assert_int_equal(world.renewals, i >= 2 ? 2 : 0);
        world.rule_count = 0;
        if (world.asker.state != CLUSTER_CONN_REST) {
            cluster_conn_drop(&world.asker, "told to", now());
        }
    }
}

static void the_first_one_tries_again_if_its_files_have_changed(void **state)
{
    struct hasp_options options = {.size = sizeof options, .ttl_ms = TTL_MS};
    uint8_t random[SESSION_FSM_RANDOM_SIZE] = {1, 2, 3};
    struct told told;
    (void)state;
    world.may_renew = world.asker.may_renew = true;
    world.has_changed = true;
    once("HELLO", WRONG);
    assert_int_equal(session_fsm_open(&world.machine, &options, "me", random,
                                      call_of(&told), now()),
                     0);
    pass(10);
    assert_told(&told, 0);
}

static void what_is_not_taken_is_told_in_an_event(void **state)
{
    (void)state;
    world.may_renew = world.asker.may_renew = true;
    world.why = "the files are half written";
    cluster_conn_drop(&world.asker, "told to", now());
    pass(100);
    struct event_node *node = session_fsm_take_event(&world.machine);
    assert_non_null(node);
    assert_int_equal(node->event.kind, HASP_EVENT_NOTICE);
    assert_string_equal(node->event.text, "the files are half written");
    free(node);
    /* A program that reads no events is not flooded. */
    for (int i = 0; i < 1000; i++) {
        if (world.asker.state != CLUSTER_CONN_REST) {
            cluster_conn_drop(&world.asker, "told to", now());
        }
        pass(30);
        lease_answered_endless(&world.machine.lease, read_clock());
    }
    int count = 0;
    while (next_event() == HASP_EVENT_NOTICE) {
        count++;
    }
    assert_in_range(count, 10, 64);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define HELD(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
#define NEW(test) \
    cmocka_unit_test_setup_teardown(test, set_up_closed, tear_down)
        HELD(a_refused_greeting_is_no_loss_until_the_lease_is_over),
        HELD(a_refusal_of_who_asks_is_no_answer),
        HELD(between_two_attempts_are_a_tenth_to_one_second),
        HELD(what_is_not_taken_is_told_in_an_event),
        NEW(the_first_one_is_refused_at_once),
        NEW(the_first_one_tries_again_if_its_files_have_changed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
