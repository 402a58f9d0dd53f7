/* SPDX-License-Identifier: MIT */

/* A client's view of its holds: created by grants, named by tokens, ended by
 * notices, or because notices are missing. */

#include "tests/unit/machine_world.h"

#define TOLD(ended, dropped)                                         \
    "%4\r\n$6\r\nttl_ms\r\n:1000\r\n$9\r\nlinger_ms\r\n:0\r\n$5\r\n" \
    "ended\r\n" ended "$7\r\ndropped\r\n:" dropped "\r\n"
#define NONE "*0\r\n"
#define ENDED(lock, owner, first, token, number)                        \
    "%6\r\n$4\r\nlock\r\n$1\r\n" lock "\r\n$5\r\nowner\r\n$2\r\n" owner \
    "\r\n$5\r\ntoken\r\n:" token "\r\n$5\r\nfirst\r\n:" first           \
    "\r\n$6\r\nreason\r\n$9\r\nreleaseif\r\n$6\r\nnumber\r\n:" number "\r\n"
#define PAGE(cursor, count)                                             \
    "%3\r\n$6\r\ncursor\r\n" cursor "\r\n$5\r\nas_of\r\n:300\r\n$5\r\n" \
    "holds\r\n*" count "\r\n"
#define LISTED(lock, token)                                         \
    "%4\r\n$4\r\nlock\r\n$1\r\n" lock "\r\n$5\r\nowner\r\n$2\r\nme" \
    "\r\n$5\r\ntoken\r\n:" token "\r\n$5\r\nfirst\r\n:" token "\r\n"

static struct told held[4];

static void hold(int i, const char *name, const char *answer)
{
    once("LOCK.ACQUIRE", answer);
    acquire_for(&held[i], name, 0, "me", 0);
    assert_told(&held[i], 0);
}

static uint64_t left(int i)
{
    return left_ms(held[i].call.hold);
}

static void give_back(int i, int error)
{
    struct told told;
    world.seen[0] = '\0';
    release(held[i].call.hold, &told);
    assert_told(&told, error);
}

/* Another object of the same owner has the lock under another token: the token
 * that was taken away is no longer trusted, and not released. */
static void a_later_grant_ends_an_earlier_one(void **state)
{
    (void)state;
    hold(0, "a", GRANT("40", "40", "1", "_", "40"));
    hold(1, "a", GRANT("50", "50", "1", "_", "50"));
    assert_int_equal(left(0), 0);
    assert_int_equal(next_event(), HASP_EVENT_LOST);
    assert_true(left(1) > 0);
    give_back(0, HASP_ENOTHELD);
    assert_seen("");
    assert_true(left(1) > 0);
    once("LOCK.RELEASE a TOKEN 50", ":0\r\n");
    give_back(1, 0);
    assert_seen("0:LOCK.RELEASE a TOKEN 50 OWNER me REQ 3 ACKED 2|");
}

/* After an upgrade the hold stays the same. */
static void a_re_entry_after_an_upgrade_is_the_same_hold(void **state)
{
    (void)state;
    hold(0, "a", GRANT("40", "40", "1", "_", "40"));
    hold(1, "a", GRANT("50", "40", "2", "_", "50"));
    assert_true(left(0) > 0 && left(1) > 0);
    once("SESSION.KEEP",
         TOLD("*1\r\n" ENDED("a", "me", "40", "50", "60"), "0"));
    pass(200);
    assert_int_equal(left(0) + left(1), 0);
}

/* A notice names one hold: not another owner's, and not a later one's. */
static void a_notice_ends_the_hold_that_it_names(void **state)
{
    (void)state;
    hold(0, "a", GRANT("50", "50", "1", "_", "50"));
    hold(1, "b", GRANT("50", "50", "1", "_", "50"));
    once("SESSION.KEEP", TOLD("*3\r\n" ENDED("a", "me", "40", "49", "50")
                                  ENDED("b", "it", "50", "50", "51")
                                      ENDED("b", "me", "51", "52", "53"),
                              "0"));
    pass(200);
    assert_true(left(0) > 0 && left(1) > 0);
    assert_int_equal(next_event(), 0);
    world.seen[0] = '\0';
    once("SESSION.KEEP",
         TOLD("*1\r\n" ENDED("b", "me", "50", "50", "54"), "0"));
    pass(200);
    assert_seen("0:SESSION.KEEP FULL AFTER 53|");
    assert_true(left(0) > 0);
    assert_int_equal(left(1), 0);
    give_back(1, HASP_ENOTHELD);
    assert_seen("");
}

/* Of several holds, those not known to be over are released. */
static void several_are_given_back_by_their_tokens(void **state)
{
    const char *names[] = {"a", "b", "c"};
    struct hasp_acquire_options options = {
        .size = sizeof options, .owner = "me", .interrupt_fd = -1};
    (void)state;
    for (int i = 0; i < 2; i++) {
        once("LOCK.MACQUIRE", "*3\r\n:50\r\n:51\r\n:52\r\n");
        assert_int_equal(session_fsm_acquire(&world.machine, names, 3, &options,
                                             call_of(&held[i]), now()),
                         0);
        turn();
        assert_told(&held[i], 0);
    }
    once("LOCK.MRELEASE", ":3\r\n");
    give_back(0, 0);
    assert_seen("0:LOCK.MRELEASE 3 a b c TOKENS 50 51 52 OWNER me REQ 3 "
                "ACKED 2|");
    once("SESSION.KEEP",
         TOLD("*1\r\n" ENDED("b", "me", "51", "51", "60"), "0"));
    pass(200);
    assert_int_equal(left(1), 0);
    once("LOCK.MRELEASE", ":2\r\n");
    give_back(1, HASP_ENOTHELD);
    assert_seen("0:LOCK.MRELEASE 2 a c TOKENS 50 52 OWNER me REQ 4 ACKED 3|");
}

/* The cluster keeps a limited number of notices; a client that has missed one
 * asks for the full list of its holds, and trusts nothing else. */
static void what_is_missing_is_asked_for(void **state)
{
    (void)state;
    hold(0, "a", GRANT("40", "40", "1", "_", "40"));
    hold(1, "b", GRANT("41", "41", "1", "_", "41"));
    hold(2, "c", GRANT("42", "42", "1", "_", "42"));
    hold(3, "d", GRANT("250", "250", "1", "_", "250")); /* It came later. */
    once("SESSION.KEEP", TOLD(NONE, "200"));
    once("SESSION.HOLDS COUNT 500 CURSOR",
         PAGE("$1\r\n0", "2") LISTED("b", "99") LISTED("c", "42"));
    once("SESSION.HOLDS", PAGE("$4\r\n=1/a", "1") LISTED("a", "40"));
    world.seen[0] = '\0';
    pass(200);
    assert_seen("0:SESSION.KEEP FULL|0:SESSION.HOLDS COUNT 500 SESSION 17|"
                "0:SESSION.HOLDS COUNT 500 CURSOR =1/a SESSION 17|");
    assert_true(left(0) > 0 && left(2) > 0 && left(3) > 0);
    assert_int_equal(left(1), 0);
    assert_int_equal(next_event(), HASP_EVENT_LOST);
    assert_int_equal(next_event(), 0);
    give_back(1, HASP_ENOTHELD);
    assert_seen("");
    /* It is not asked again, unless there is more. */
    once("SESSION.KEEP", TOLD(NONE, "200"));
    pass(200);
    assert_seen("0:SESSION.KEEP FULL AFTER 200|");
}

static void a_list_that_fails_is_asked_for_again(void **state)
{
    (void)state;
    hold(0, "a", GRANT("40", "40", "1", "_", "40"));
    once("SESSION.KEEP", TOLD(NONE, "200"));
    once("SESSION.HOLDS", "-ERR what\r\n");
    pass(200);
    world.seen[0] = '\0';
    once("SESSION.KEEP", TOLD(NONE, "200"));
    once("SESSION.HOLDS", PAGE("$1\r\n0", "0"));
    pass(200);
    assert_seen("0:SESSION.KEEP FULL|0:SESSION.HOLDS COUNT 500 SESSION 17|");
    assert_int_equal(left(0), 0);
}

/* A client without holds need not ask. */
static void without_belief_nothing_is_missing(void **state)
{
    (void)state;
    once("SESSION.KEEP", TOLD(NONE, "200"));
    pass(200);
    world.seen[0] = '\0';
    pass(200);
    assert_seen("0:SESSION.KEEP FULL AFTER 200|");
}

/* The notice has arrived before the answer to the request itself. */
static void an_answer_older_than_a_notice_is_asked_again(void **state)
{
    (void)state;
    once("SESSION.KEEP",
         TOLD("*1\r\n" ENDED("a", "me", "40", "40", "45"), "0"));
    pass(200);
    world.seen[0] = '\0';
    once("LOCK.ACQUIRE", GRANT("40", "40", "1", "_", "40"));
    once("LOCK.ACQUIRE", GRANT("40", "40", "0", ":0", "46"));
    acquire_for(&held[0], "a", 0, "me", 0);
    assert_told(&held[0], 0);
    assert_seen("0:LOCK.ACQUIRE a OWNER me REQ 1|"
                "0:LOCK.ACQUIRE a OWNER me REQ 1|");
    assert_int_equal(left(0), 0);
    assert_int_equal(next_event(), HASP_EVENT_LOST);
    give_back(0, HASP_ENOTHELD);
    assert_seen("");
}

/* It is granted when requested again, under any leader, or none. */
static void what_was_granted_is_not_told_as_undone(void **state)
{
    (void)state;
    once("SESSION.KEEP",
         TOLD("*1\r\n" ENDED("b", "me", "40", "40", "45"), "0"));
    pass(200);
    once("LOCK.ACQUIRE", GRANT("41", "41", "1", "_", "41"));
    always("LOCK.ACQUIRE", "-NOLEADER nobody leads\r\n");
    acquire_for(&held[0], "a", 0, "me", 0);
    pass(20000);
    assert_told(&held[0], HASP_EUNKNOWN);
    world.rule[world.rule_count - 1].is_used = true;
    once("LOCK.ACQUIRE", GRANT("41", "41", "1", "_", "46"));
    once("LOCK.RELEASE a TOKEN 41", ":0\r\n");
    world.seen[0] = '\0';
    pass(2000);
    assert_non_null(strstr(world.seen, "LOCK.RELEASE a TOKEN 41"));
}

/* A re-entry has the limit of the hold that it enters, whatever it asked for;
 * several have the shortest. */
static void the_limit_is_what_was_granted(void **state)
{
    struct told told;
    const char *names[] = {"b", "c", "d"};
    struct hasp_acquire_options options = {
        .size = sizeof options, .hold_ms = 5000, .interrupt_fd = -1};
    (void)state;
    hold(0, "a", GRANT("40", "40", "2", ":300", "40"));
    assert_int_equal(left(0), 240);
    once("LOCK.MACQUIRE", "*3\r\n" GRANT("41", "41", "1", ":5000", "41")
                              GRANT("9", "9", "2", ":250", "41")
                                  GRANT("8", "8", "2", "_", "41"));
    assert_int_equal(session_fsm_acquire(&world.machine, names, 3, &options,
                                         call_of(&told), now()),
                     0);
    turn();
    assert_told(&told, 0);
    assert_int_equal(left_ms(told.call.hold), 200);
}

/* NOTHELD applies to the hold that the token names, in all of its objects. */
static void what_is_not_held_is_over_for_all_its_objects(void **state)
{
    (void)state;
    hold(0, "a", GRANT("40", "40", "1", "_", "40"));
    hold(1, "a", GRANT("40", "40", "2", "_", "41"));
    once("LOCK.RELEASE", "-NOTHELD not held\r\n");
    give_back(1, HASP_ENOTHELD);
    assert_int_equal(left(0), 0);
    give_back(0, HASP_ENOTHELD);
    assert_seen("");
}

int main(void)
{
#define test(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        test(a_later_grant_ends_an_earlier_one),
        test(a_re_entry_after_an_upgrade_is_the_same_hold),
        test(a_notice_ends_the_hold_that_it_names),
        test(several_are_given_back_by_their_tokens),
        test(what_is_missing_is_asked_for),
        test(a_list_that_fails_is_asked_for_again),
        test(without_belief_nothing_is_missing),
        test(an_answer_older_than_a_notice_is_asked_again),
        test(what_was_granted_is_not_told_as_undone),
        test(the_limit_is_what_was_granted),
        test(what_is_not_held_is_over_for_all_its_objects),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
