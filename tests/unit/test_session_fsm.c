/* SPDX-License-Identifier: MIT */

/* A client's heartbeats, changes and waits. */

#include "tests/unit/machine_world.h"

/* --- Heartbeats ----------------------------------------------------------- */

static void a_heartbeat_leaves_each_fifth(void **state)
{
    (void)state;
    pass(1000);
    assert_seen("0:SESSION.KEEP FULL|0:SESSION.KEEP FULL|0:SESSION.KEEP FULL|"
                "0:SESSION.KEEP FULL|0:SESSION.KEEP FULL|");
    assert_int_equal(left_ms(NULL), 800);
    assert_int_equal(next_event(), 0);
}

static void a_lease_counts_from_before_it_was_asked(void **state)
{
    char answer[256];
    (void)state;
    once("SESSION.KEEP", SILENCE);
    pass(300);
    assert_int_equal(left_ms(NULL), 500);
    snprintf(answer, sizeof answer, "%%3\r\n" TIMES, 0);
    give(answer);
    assert_int_equal(left_ms(NULL), 700);
}

static void a_silent_node_is_left_after_another_fifth(void **state)
{
    (void)state;
    world.is_silent[0] = true;
    pass(399);
    assert_seen("0:SESSION.KEEP FULL|");
    pass(1);
    assert_seen("1:SESSION.KEEP FULL|1:SESSION.ATTACH 17 " SECRET "|");
    assert_int_equal(left_ms(NULL), 800);
}

/* A heartbeat waits for the answers before it, which wait for a disk. */
static void behind_other_requests_it_takes_two_fifths(void **state)
{
    struct told told;
    (void)state;
    once("LOCK.ACQUIRE", SILENCE);
    acquire(&told, "a", 0);
    once("SESSION.KEEP", SILENCE);
    pass(598);
    assert_int_equal(world.at, 0);
    pass(2);
    assert_int_equal(world.at, 1);
    assert_contains(world.seen,
                    "1:SESSION.KEEP FULL|1:SESSION.ATTACH 17 " SECRET
                    "|1:LOCK.ACQUIRE a OWNER #1 REQ 1|");
}

/* A node has the full time from the moment of sending: a request that waited
 * for a connection is not a reason to leave the next node at once. */
static void a_heartbeat_that_had_to_wait_accuses_nobody(void **state)
{
    (void)state;
    world.is_silent[0] = true;
    pass(390);
    once("SESSION.KEEP", SILENCE);
    once("SESSION.ATTACH", SILENCE);
    cluster_conn_failed(&world.asker, "closed the connection", now());
    pass(199);
    assert_int_equal(world.at, 1);
    pass(1);
    assert_int_equal(world.at, 2);
    assert_int_equal(left_ms(NULL), 800);
}

static void without_answers_it_is_lost_and_all_calls_are_told(void **state)
{
    struct told waiting, held;
    (void)state;
    acquire(&held, "h", 0);
    once("LOCK.ACQUIRE w", QUEUED);
    acquire(&waiting, "w", HASP_FOREVER);
    world.is_dead[0] = world.is_dead[1] = world.is_dead[2] = true;
    cluster_conn_failed(&world.asker, "closed the connection", now());
    pass(799);
    assert_int_equal(waiting.count, 0);
    assert_int_equal(left_ms(held.call.hold), 1);
    pass(1);
    assert_told(&waiting, HASP_ELOST);
    assert_int_equal(next_event(), HASP_EVENT_LOST);
    assert_int_equal(next_event(), 0);
    world.is_dead[1] = false;
    pass(5000);
    assert_int_equal(left_ms(held.call.hold), 0);
    session_fsm_forget(&world.machine, held.call.hold);
}

#define NO_TIMES                                     \
    "$6\r\nttl_ms\r\n_\r\n$9\r\nlinger_ms\r\n:0\r\n" \
    "$8\r\ntrust_ms\r\n_\r\n"

/* Silence does not end it, only a notice. */
static void without_end_it_is_held_until_it_is_told_otherwise(void **state)
{
    struct hasp_options options = {
        .size = sizeof options, .is_durable = true, .reason = "why"};
    uint8_t random[SESSION_FSM_RANDOM_SIZE] = {1, 2, 3};
    struct told told, waiting;
    (void)state;
    once("SESSION.OPEN", "%4\r\n$2\r\nid\r\n:17\r\n" NO_TIMES);
    always("SESSION.KEEP", "%4\r\n" NO_TIMES "$5\r\nended\r\n*0\r\n");
    assert_int_equal(session_fsm_open(&world.machine, &options, "me", random,
                                      call_of(&told), now()),
                     0);
    turn();
    assert_told(&told, 0);
    assert_contains(world.seen,
                    "SESSION.OPEN TTL NONE LABEL reason why NAME me PROOF ");
    acquire(&told, "a", 0);
    assert_told(&told, 0);
    once("LOCK.ACQUIRE w", QUEUED);
    acquire(&waiting, "w", HASP_FOREVER);
    assert_contains(world.seen, "LOCK.ACQUIRE w WAIT 60000 PUSH");
    world.seen[0] = '\0';
    pass(5000);
    assert_contains(world.seen, "SESSION.KEEP FULL");
    world.is_dead[0] = world.is_dead[1] = world.is_dead[2] = true;
    cluster_conn_failed(&world.asker, "closed the connection", now());
    pass(9000000);
    assert_int_equal(left_ms(told.call.hold), UINT64_MAX / NS_PER_MS);
    assert_int_equal(next_event(), 0);
    world.rule_count = 0;
    once("SESSION.ATTACH", "-NOSESSION no such session\r\n");
    world.is_dead[0] = world.is_dead[1] = world.is_dead[2] = false;
    pass(10000);
    assert_int_equal(next_event(), HASP_EVENT_LOST);
    assert_int_equal(left_ms(told.call.hold), 0);
    session_fsm_forget(&world.machine, told.call.hold);
}

static void a_suspended_machine_has_lost_it_when_it_wakes(void **state)
{
    (void)state;
    world.ms += 900;
    world.asleep_ms = 900;
    assert_int_equal(left_ms(NULL), 0);
    turn();
    assert_int_equal(next_event(), HASP_EVENT_LOST);
}

static void with_linger_there_is_jeopardy_and_a_way_back(void **state)
{
    (void)state;
    world.linger_ms = 500;
    pass(200); /* The next answer reports it. */
    world.is_silent[0] = world.is_silent[1] = world.is_silent[2] = true;
    pass(399);
    assert_int_equal(next_event(), 0);
    pass(1);
    assert_int_equal(next_event(), HASP_EVENT_JEOPARDY);
    assert_int_equal(left_ms(NULL), 0);
    world.is_silent[0] = world.is_silent[1] = world.is_silent[2] = false;
    pass(250);
    assert_int_equal(next_event(), HASP_EVENT_SAFE);
    assert_true(left_ms(NULL) > 0);
}

static void expired_loses_it_at_once_and_blacklisted_does_not(void **state)
{
    struct hasp_lease lease;
    (void)state;
    once("SESSION.KEEP", "-BLACKLISTED too greedy\r\n");
    pass(200);
    session_fsm_look(&world.machine, NULL, read_clock(), &lease);
    assert_true(lease.remaining_ns > 0 && lease.is_refused);
    assert_string_equal(lease.why, "BLACKLISTED too greedy");
    once("SESSION.KEEP", "-EXPIRED the session has ended\r\n");
    pass(200);
    assert_int_equal(left_ms(NULL), 0);
    assert_int_equal(next_event(), HASP_EVENT_LOST);
    world.seen[0] = '\0';
    pass(1000);
    assert_seen("");
}

static void any_answer_may_say_that_it_has_ended(void **state)
{
    struct told told, attached;
    (void)state;
    once("LOCK.ACQUIRE", "-EXPIRED the session has ended\r\n");
    acquire(&told, "a", 0);
    assert_told(&told, HASP_ELOST);
    assert_int_equal(left_ms(NULL), 0);
    tear_down(NULL);
    set_up(NULL);
    once("SESSION.ATTACH", "-NOSESSION unknown\r\n");
    once("LOCK.ACQUIRE", HANG_UP);
    acquire(&attached, "a", 0);
    assert_told(&attached, HASP_ELOST);
    assert_int_equal(left_ms(NULL), 0);
}

static void heartbeats_may_have_to_be_earned(void **state)
{
    struct hasp_lease lease;
    (void)state;
    world.machine.alive_ms = 500;
    session_fsm_alive(&world.machine, read_clock());
    pass(450);
    session_fsm_alive(&world.machine, read_clock());
    pass(450);
    assert_true(left_ms(NULL) > 500);
    pass(1000);
    session_fsm_look(&world.machine, NULL, read_clock(), &lease);
    assert_int_equal(lease.sure_ns, 0);
    assert_contains(lease.why, "hasp_alive");
}

/* --- Changes -------------------------------------------------------------- */

static void changes_are_numbered_and_acknowledged(void **state)
{
    struct told one, two, gone;
    (void)state;
    once("LOCK.ACQUIRE a", ":41\r\n");
    acquire(&one, "a", 0);
    once("LOCK.ACQUIRE b", NIL);
    acquire_for(&two, "b", 0, "me", 0);
    assert_told(&one, 0);
    assert_told(&two, HASP_NOT_ACQUIRED);
    assert_int_equal(one.call.hold->held[0].token, 41);
    assert_int_equal(left_ms(one.call.hold), 800);
    once("LOCK.RELEASE", "-NOTHELD not held by you\r\n");
    release(one.call.hold, &gone);
    assert_told(&gone, HASP_ENOTHELD);
    assert_string_equal(gone.call.why, "NOTHELD: not held by you");
    assert_seen("0:LOCK.ACQUIRE a OWNER #1 REQ 1|"
                "0:LOCK.ACQUIRE b OWNER me REQ 2 ACKED 1|"
                "0:LOCK.RELEASE a TOKEN 41 OWNER #1 REQ 3 ACKED 2|");
}

static void after_a_lost_connection_it_is_asked_under_the_same_number(void **s)
{
    struct told told;
    (void)s;
    once("LOCK.ACQUIRE", HANG_UP);
    acquire(&told, "a", 0);
    pass(1);
    assert_told(&told, 0);
    assert_seen("0:LOCK.ACQUIRE a OWNER #1 REQ 1|"
                "1:SESSION.ATTACH 17 " SECRET "|"
                "1:LOCK.ACQUIRE a OWNER #1 REQ 1|");
}

/* A refusal of the user or of the connection does not answer an earlier
 * request: that may have been done. */
static void a_refused_asker_is_told_nothing_of_what_was_sent_before(void **s)
{
    struct told told;
    (void)s;
    once("LOCK.ACQUIRE", HANG_UP);
    once("HELLO", "-WRONGPASS invalid username-password pair\r\n");
    once("SESSION.ATTACH", "-NOAUTH the user is disabled\r\n");
    once("LOCK.ACQUIRE", "-NOAUTH the user is disabled\r\n");
    once("LOCK.ACQUIRE", "-NOTLS access is required\r\n");
    acquire(&told, "a", 0);
    pass(3000);
    assert_told(&told, 0);
    /* Nor does it answer a request that was never sent before. */
    once("LOCK.ACQUIRE", "-NOAUTH the user is disabled\r\n");
    acquire(&told, "b", 0);
    assert_int_equal(told.count, 0);
    pass(1000);
    assert_told(&told, 0);
}

static void without_a_leader_or_moved_it_is_asked_elsewhere(void **state)
{
    struct told told;
    (void)state;
    once("LOCK.ACQUIRE", "-NOLEADER no leader was found\r\n");
    once("LOCK.ACQUIRE", "-MOVED 0 2:1\r\n");
    once("LOCK.ACQUIRE", "-BUSY too much\r\n");
    once("LOCK.ACQUIRE", "-UNKNOWN the leader was lost\r\n");
    once("LOCK.ACQUIRE", "-LIMIT disk: it is full\r\n"); /* By now. */
    acquire(&told, "a", 0);
    pass(1000);
    assert_told(&told, 0);
    assert_int_equal(world.at, 2);
    assert_contains(world.seen, "1:LOCK.ACQUIRE a OWNER #1 REQ 1|2:SESSION");
}

static void what_was_not_sent_was_not_done(void **state)
{
    struct told told;
    (void)state;
    world.machine.timeout_ms = 300;
    world.is_dead[0] = world.is_dead[1] = world.is_dead[2] = true;
    cluster_conn_failed(&world.asker, "closed the connection", now());
    acquire(&told, "a", 0);
    pass(299);
    assert_int_equal(told.count, 0);
    pass(1);
    assert_told(&told, HASP_ECONNECT);
    assert_contains(told.call.why, "2:1: Connection refused");
}

/* "Unknown" is not "no": a grant that the cluster may have made is released,
 * under the old number and then a new one. */
static void what_has_no_answer_is_cleared_up(void **state)
{
    struct told told, next;
    (void)state;
    world.machine.timeout_ms = 50;
    always("LOCK.ACQUIRE a", SILENCE);
    acquire(&told, "a", 0);
    pass(50 + 499);
    assert_int_equal(told.count, 0);
    pass(1);
    assert_told(&told, HASP_EUNKNOWN);
    world.rule_count = 0;
    once("LOCK.ACQUIRE a", ":7\r\n");
    world.seen[0] = '\0';
    cluster_conn_failed(&world.asker, "closed the connection", now());
    pass(50);
    assert_contains(world.seen,
                    "1:LOCK.ACQUIRE a OWNER #1 REQ 1|"
                    "1:LOCK.RELEASE a TOKEN 7 OWNER #1 REQ 2 ACKED 1|");
    assert_true(list_is_empty(&world.machine.changes));
    world.seen[0] = '\0';
    acquire(&next, "b", 0);
    assert_seen("1:LOCK.ACQUIRE b OWNER #1 REQ 3 ACKED 2|");
}

static void a_forgotten_grant_is_released_to_be_sure(void **state)
{
    struct told told;
    (void)state;
    always("LOCK.ACQUIRE a", "-FORGOTTEN long ago\r\n");
    acquire(&told, "a", 0);
    pass(1);
    assert_told(&told, HASP_EUNKNOWN);
    assert_contains(world.seen, "0:LOCK.RELEASE a OWNER #1 REQ 2 ACKED 1|");
    assert_true(list_is_empty(&world.machine.changes));
}

/* The cluster can have spent the number without executing the release: more
 * than 64 requests with larger numbers were faster. */
static void a_forgotten_release_is_asked_under_a_new_number(void **state)
{
    struct told told, gone;
    (void)state;
    acquire(&told, "a", 0);
    once("LOCK.RELEASE", "-FORGOTTEN spent\r\n");
    once("LOCK.RELEASE", "-FORGOTTEN spent\r\n");
    once("LOCK.RELEASE", "-FORGOTTEN spent again\r\n");
    world.seen[0] = '\0';
    release(told.call.hold, &gone);
    pass(1);
    assert_told(&gone, HASP_EUNKNOWN);
    assert_seen("0:LOCK.RELEASE a TOKEN 1 OWNER #1 REQ 2 ACKED 1|"
                "0:LOCK.RELEASE a TOKEN 1 OWNER #1 REQ 2 ACKED 1|"
                "0:LOCK.RELEASE a TOKEN 1 OWNER #1 REQ 3 ACKED 2|"
                "0:LOCK.RELEASE a TOKEN 1 OWNER #1 REQ 4 ACKED 3|");
    assert_true(list_is_empty(&world.machine.changes));
}

/* If the forgotten release was executed, one more would take the hold from the
 * other acquisition. */
static void a_forgotten_release_of_a_shared_hold_is_not_repeated(void **state)
{
    struct told first, second, gone;
    (void)state;
    acquire_for(&first, "a", 0, "me", 0);
    acquire_for(&second, "a", 0, "me", 0);
    once("LOCK.RELEASE", "-FORGOTTEN spent\r\n");
    once("LOCK.RELEASE", "-FORGOTTEN spent\r\n");
    world.seen[0] = '\0';
    release(first.call.hold, &gone);
    pass(1);
    assert_told(&gone, HASP_EUNKNOWN);
    assert_seen("0:LOCK.RELEASE a TOKEN 1 OWNER me REQ 3 ACKED 2|"
                "0:LOCK.RELEASE a TOKEN 1 OWNER me REQ 3 ACKED 2|");
    assert_true(list_is_empty(&world.machine.changes));
    release(second.call.hold, &gone);
    pass(1);
    assert_told(&gone, 0);
}

/* A downgrade gives up rights, too. */
static void a_forgotten_downgrade_is_asked_under_a_new_number(void **state)
{
    struct told told, shared;
    struct hasp_acquire_options options = {
        .size = sizeof options, .mode = HASP_SHARED, .interrupt_fd = -1};
    (void)state;
    acquire(&told, "a", 0);
    for (int i = 0; i < 3; i++) {
        once("LOCK.CONVERT", "-FORGOTTEN spent\r\n");
    }
    world.seen[0] = '\0';
    assert_int_equal(session_fsm_convert(&world.machine, told.call.hold,
                                         &options, call_of(&shared), now()),
                     0);
    pass(1);
    assert_told(&shared, HASP_EUNKNOWN);
    assert_contains(world.seen,
                    "0:LOCK.CONVERT a SHARED TOKEN 1 OWNER #1 REQ 2 ACKED 1|"
                    "0:LOCK.CONVERT a SHARED TOKEN 1 OWNER #1 REQ 3 ACKED 2|");
    assert_true(list_is_empty(&world.machine.changes));
}

/* A client may get its rights back later: then the lock is released. */
static void a_release_that_is_refused_to_its_asker_is_asked_on(void **state)
{
    struct told told, gone;
    (void)state;
    acquire(&told, "a", 0);
    once("LOCK.RELEASE", "-NOAUTH the user is disabled\r\n");
    once("LOCK.RELEASE", "-NOAUTH the user is disabled\r\n");
    release(told.call.hold, &gone);
    pass(1);
    assert_int_equal(gone.count, 0);
    assert_false(list_is_empty(&world.machine.changes));
    pass(3000);
    assert_told(&gone, 0);
    assert_true(list_is_empty(&world.machine.changes));
}

static void a_release_without_an_answer_is_asked_on(void **state)
{
    struct told told, gone;
    (void)state;
    acquire(&told, "a", 0);
    world.machine.timeout_ms = 50;
    once("LOCK.RELEASE", SILENCE);
    release(told.call.hold, &gone);
    pass(50);
    assert_told(&gone, HASP_EUNKNOWN);
    pass(4000);
    assert_true(list_is_empty(&world.machine.changes));
}

/* --- Waits ---------------------------------------------------------------- */

static void a_wait_is_parked_until_the_push(void **state)
{
    struct told waiting, other;
    (void)state;
    once("LOCK.ACQUIRE w", QUEUED);
    acquire(&waiting, "w", 5000);
    assert_seen("0:LOCK.ACQUIRE w WAIT 5000 PUSH OWNER #1 REQ 1|");
    acquire(&other, "o", 0); /* It blocks nothing. */
    assert_told(&other, 0);
    pass(100);
    assert_int_equal(waiting.count, 0);
    world.seen[0] = '\0';
    once("LOCK.ACQUIRE w", ":77\r\n");
    give(ANSWER_PUSH("#1"));
    turn();
    assert_told(&waiting, 0);
    assert_int_equal(waiting.call.hold->held[0].token, 77);
    assert_seen("0:LOCK.ACQUIRE w WAIT 4900 PUSH OWNER #1 REQ 1 ACKED 0,2-2|");
}

static void a_push_that_tells_of_the_grant_is_the_answer(void **state)
{
    struct told waiting;
    (void)state;
    once("LOCK.ACQUIRE w", QUEUED);
    acquire(&waiting, "w", HASP_FOREVER);
    world.seen[0] = '\0';
    give(GRANT_PUSH("#1", GRANT("70", "70", "1", "_", "70")));
    turn();
    assert_told(&waiting, 0);
    assert_int_equal(waiting.call.hold->held[0].token, 70);
    assert_seen("");
    /* The notice of another wait of this owner does not count. */
    once("LOCK.ACQUIRE v", "+QUEUED 9\r\n");
    acquire_for(&waiting, "v", HASP_FOREVER, "me", 0);
    once("LOCK.ACQUIRE v", "+QUEUED 9\r\n");
    give(GRANT_PUSH("me", GRANT("70", "70", "1", "_", "70")));
    turn();
    assert_int_equal(waiting.count, 0);
}

static void a_push_may_come_before_the_answer(void **state)
{
    struct told waiting;
    (void)state;
    once("LOCK.ACQUIRE w", ANSWER_PUSH("#1") QUEUED);
    acquire(&waiting, "w", HASP_FOREVER);
    assert_told(&waiting, 0);
}

static void a_lost_push_does_no_harm(void **state)
{
    struct told waiting, limited;
    (void)state;
    once("LOCK.ACQUIRE w", QUEUED);
    acquire(&waiting, "w", HASP_FOREVER);
    once("LOCK.ACQUIRE l", QUEUED);
    acquire(&limited, "l", 300);
    once("LOCK.ACQUIRE l OWNER #2 REQ 2", NIL); /* The place is given up. */
    pass(1300);
    assert_told(&limited, HASP_NOT_ACQUIRED);
    pass(13699);
    assert_int_equal(waiting.count, 0);
    pass(1);
    assert_told(&waiting, 0);
}

static void waits_keep_their_places_over_a_lost_connection(void **state)
{
    struct told waiting[3];
    (void)state;
    for (int i = 0; i < 3; i++) {
        once("LOCK.ACQUIRE", QUEUED);
        acquire(&waiting[i], "w", HASP_FOREVER);
    }
    world.seen[0] = '\0';
    cluster_conn_failed(&world.asker, "closed the connection", now());
    pass(1);
    assert_seen("1:SESSION.ATTACH 17 " SECRET "|"
                "1:LOCK.ACQUIRE w WAIT FOREVER PUSH OWNER #1 REQ 1|"
                "1:LOCK.ACQUIRE w WAIT FOREVER PUSH OWNER #2 REQ 2|"
                "1:LOCK.ACQUIRE w WAIT FOREVER PUSH OWNER #3 REQ 3|");
    assert_told(&waiting[2], 0);
}

static void one_connection_carries_a_thousand_waits(void **state)
{
    enum { COUNT = 1000 };
    static struct told waiting[COUNT];
    char push[256];
    (void)state;
    always("LOCK.ACQUIRE w WAIT", QUEUED);
    for (int i = 0; i < COUNT; i++) {
        acquire(&waiting[i], "w", HASP_FOREVER);
    }
    world.rule_count = 0;
    for (int i = 0; i < COUNT; i++) {
        char owner[16];
        snprintf(owner, sizeof owner, "#%d", i + 1);
        snprintf(push, sizeof push,
                 ">3\r\n$4\r\nlock\r\n$6\r\nanswer\r\n%%3\r\n"
                 "$4\r\nwait\r\n:8\r\n"
                 "$7\r\nsession\r\n:17\r\n$5\r\nowner\r\n$%zu\r\n%s\r\n",
                 strlen(owner), owner);
        give(push);
        turn();
        assert_told(&waiting[i], 0);
    }
    assert_int_equal(world.number, world.asker.number);
}

static void an_interrupted_wait_leaves_nothing_behind(void **state)
{
    struct told queued, raced, refused, unsent;
    (void)state;
    once("LOCK.ACQUIRE q", QUEUED);
    acquire(&queued, "q", HASP_FOREVER);
    once("LOCK.ACQUIRE q", NIL);
    session_fsm_interrupt(&world.machine, &queued.call, now());
    turn();
    assert_told(&queued, HASP_EINTR);

    once("LOCK.ACQUIRE r", QUEUED);
    acquire(&raced, "r", HASP_FOREVER);
    once("LOCK.ACQUIRE r", ":55\r\n");
    world.seen[0] = '\0';
    session_fsm_interrupt(&world.machine, &raced.call, now());
    turn();
    assert_told(&raced, HASP_EINTR);
    assert_seen("0:LOCK.ACQUIRE r OWNER #1 REQ 2 ACKED 1|"
                "0:LOCK.RELEASE r TOKEN 55 OWNER #1 REQ 3 ACKED 2|");

    once("LOCK.ACQUIRE f", QUEUED);
    acquire(&refused, "f", HASP_FOREVER);
    once("LOCK.ACQUIRE f", "-FOREIGN the name belongs to another cell\r\n");
    session_fsm_interrupt(&world.machine, &refused.call, now());
    turn();
    assert_told(&refused, HASP_EINTR);

    world.is_dead[0] = world.is_dead[1] = world.is_dead[2] = true;
    cluster_conn_failed(&world.asker, "closed the connection", now());
    acquire(&unsent, "u", HASP_FOREVER);
    session_fsm_interrupt(&world.machine, &unsent.call, now());
    assert_told(&unsent, HASP_EINTR);
    assert_true(list_is_empty(&world.machine.changes));
}

static void a_conversion_changes_the_token_or_leaves_the_hold(void **state)
{
    struct told held, told;
    struct hasp_acquire_options options = {.size = sizeof options,
                                           .mode = HASP_EXCLUSIVE,
                                           .wait_ms = 500,
                                           .interrupt_fd = -1};
    (void)state;
    acquire(&held, "c", 0);
    struct hasp_hold *hold = held.call.hold;
    once("LOCK.CONVERT", QUEUED);
    world.seen[0] = '\0';
    assert_int_equal(session_fsm_convert(&world.machine, hold, &options,
                                         call_of(&told), now()),
                     0);
    turn();
    assert_seen("0:LOCK.CONVERT c EXCLUSIVE TOKEN 1 WAIT 500 PUSH OWNER #1 "
                "REQ 2 ACKED 1|");
    once("LOCK.CONVERT", ":99\r\n");
    give(ANSWER_PUSH("#1"));
    turn();
    assert_told(&told, 0);
    assert_int_equal(hold->held[0].token, 99);
    once("LOCK.CONVERT", "-DEADLOCK a waits for b\r\n");
    assert_int_equal(session_fsm_convert(&world.machine, hold, &options,
                                         call_of(&told), now()),
                     0);
    turn();
    assert_told(&told, HASP_EDEADLOCK);
    assert_int_equal(hold->held[0].token, 99);
}

static void an_owner_with_a_name_asks_once_its_last_is_settled(void **state)
{
    struct told first, second;
    (void)state;
    once("LOCK.ACQUIRE q WAIT", QUEUED);
    always("LOCK.ACQUIRE q OWNER me REQ 1", "-BUSY later\r\n");
    acquire_for(&first, "q", HASP_FOREVER, "me", 0);
    session_fsm_interrupt(&world.machine, &first.call, now());
    pass(600);
    assert_told(&first, HASP_EINTR);
    acquire_for(&second, "q", 0, "me", 0);
    pass(1000);
    assert_int_equal(second.count, 0);
    assert_null(strstr(world.seen, "REQ 2"));
    world.rule[1].is_used = true;
    pass(1000);
    assert_told(&second, 0);
    assert_contains(world.seen, "LOCK.ACQUIRE q OWNER me REQ 2");
}

/* It is not a grant, and the lock is requested again. */
static void a_push_with_no_token_grants_nothing(void **state)
{
    struct told told;
    (void)state;
    once("LOCK.ACQUIRE", QUEUED);
    acquire(&told, "a", HASP_FOREVER);
    give(">3\r\n$4\r\nlock\r\n$6\r\nanswer\r\n%4\r\n$7\r\nsession\r\n:17\r\n"
         "$5\r\nowner\r\n$2\r\n#1\r\n$4\r\nwait\r\n:8\r\n$6\r\ntokens\r\n*1\r\n"
         ":0\r\n");
    turn();
    assert_told(&told, 0);
    assert_int_equal(told.call.hold->held[0].token, 1);
}

static void a_node_that_answers_no_lease_is_left(void **state)
{
    (void)state;
    once("SESSION.KEEP", "+OK\r\n");
    pass(250);
    assert_int_equal(world.at, 1);
    pass(250);
    assert_true(left_ms(NULL) > 500);
    assert_int_equal(next_event(), 0);
}

static void acquire_refused(const char *const *names, size_t count)
{
    struct told told;
    struct hasp_acquire_options options = {.size = sizeof options,
                                           .owner = "me"};
    assert_int_equal(session_fsm_acquire(&world.machine, names, count, &options,
                                         call_of(&told), now()),
                     HASP_EINVALID);
    assert_contains(told.call.why, "'me' is already requesting this lock");
    assert_int_equal(told.count, 0);
}

/* Two waits of one owner would be one, with one grant. */
static void an_owner_asks_for_a_lock_once_at_a_time(void **state)
{
    struct told waiting, told;
    const char *names[] = {"b", "a"};
    (void)state;
    always("LOCK.ACQUIRE a OWNER me REQ 1 ", ":7\r\n");
    always("LOCK.ACQUIRE a", QUEUED);
    acquire_for(&waiting, "a", HASP_FOREVER, "me", 0);
    acquire_refused(&names[1], 1);
    acquire_refused(names, 2);
    acquire_for(&told, "b", 0, "me", 0);
    assert_told(&told, 0);
    acquire_for(&told, "a", 0, "you", 0);
    give(GRANT_PUSH("me", GRANT("7", "7", "1", "_", "7")));
    turn();
    assert_told(&waiting, 0);
    struct hasp_acquire_options options = {.size = sizeof options,
                                           .wait_ms = HASP_FOREVER,
                                           .mode = HASP_EXCLUSIVE};
    once("LOCK.CONVERT", SILENCE);
    assert_int_equal(session_fsm_convert(&world.machine, waiting.call.hold,
                                         &options, call_of(&told), now()),
                     0);
    turn();
    struct told second;
    assert_int_equal(session_fsm_convert(&world.machine, waiting.call.hold,
                                         &options, call_of(&second), now()),
                     HASP_EINVALID);
    acquire_refused(&names[1], 1);
    give(GRANT("8", "7", "1", "_", "8"));
    turn();
    assert_told(&told, 0);
    acquire_for(&told, "b", 0, "me", 0);
    assert_told(&told, 0);
}

/* Its owner has one hold in the cluster, for any number of acquisitions. */
static void a_conversion_is_one_of_all_that_its_owner_has(void **state)
{
    struct told first, second, told;
    struct hasp_acquire_options options = {
        .size = sizeof options, .mode = HASP_EXCLUSIVE, .interrupt_fd = -1};
    (void)state;
    acquire_for(&first, "c", 0, "me", 0);
    acquire_for(&second, "c", 0, "me", 0);
    once("LOCK.CONVERT", ":99\r\n");
    assert_int_equal(session_fsm_convert(&world.machine, first.call.hold,
                                         &options, call_of(&told), now()),
                     0);
    turn();
    assert_told(&told, 0);
    assert_int_equal(second.call.hold->held[0].token, 99);
    world.seen[0] = '\0';
    assert_int_equal(session_fsm_release(&world.machine, second.call.hold,
                                         call_of(&told), now()),
                     0);
    turn();
    assert_seen("0:LOCK.RELEASE c TOKEN 99 OWNER me REQ 4 ACKED 3|");
}

/* --- Holds and events ----------------------------------------------------- */

static void a_limited_hold_ends_and_says_so_once(void **state)
{
    struct told told;
    (void)state;
    acquire_for(&told, "l", 0, NULL, 500);
    assert_int_equal(left_ms(told.call.hold), 400);
    pass(399);
    assert_int_equal(next_event(), 0);
    pass(1);
    assert_int_equal(next_event(), HASP_EVENT_LOST);
    pass(500);
    assert_int_equal(next_event(), 0);
    assert_true(left_ms(NULL) > 0);
}

static void a_limit_that_was_waited_for_counts_from_the_grant(void **state)
{
    struct told told;
    (void)state;
    once("LOCK.ACQUIRE", QUEUED);
    acquire_for(&told, "l", HASP_FOREVER, NULL, 500);
    pass(1000);
    once("LOCK.ACQUIRE l", GRANT("9", "9", "1", ":450", "9"));
    give(GRANT_PUSH("#1", GRANT("9", "9", "1", ":0", "9")));
    turn();
    assert_told(&told, 0);
    assert_int_equal(left_ms(told.call.hold), 360);
}

static void a_heartbeat_tells_of_holds_that_ended(void **state)
{
    struct told told;
    (void)state;
    once("LOCK.ACQUIRE", ":9\r\n");
    acquire(&told, "a", 0);
    once("SESSION.KEEP",
         "%3\r\n$6\r\nttl_ms\r\n:1000\r\n$9\r\nlinger_ms\r\n:0\r\n"
         "$5\r\nended\r\n*1\r\n%5\r\n$4\r\nlock\r\n$1\r\na\r\n"
         "$5\r\nowner\r\n$2\r\n#1\r\n$5\r\ntoken\r\n:9\r\n"
         "$5\r\nfirst\r\n:9\r\n$6\r\nreason\r\n$8\r\nmax hold\r\n");
    pass(200);
    assert_int_equal(next_event(), HASP_EVENT_LOST);
    assert_int_equal(left_ms(told.call.hold), 0);
}

static void please_is_told_and_bounded(void **state)
{
    (void)state;
    for (int i = 0; i < 100; i++) {
        give(">3\r\n$4\r\nlock\r\n$6\r\nplease\r\n%4\r\n$4\r\nlock\r\n"
             "$1\r\na\r\n$5\r\ntoken\r\n:9\r\n$7\r\nsession\r\n:17\r\n"
             "$7\r\nmessage\r\n$4\r\nsoon\r\n");
    }
    for (int i = 0; i < 64; i++) {
        assert_int_equal(next_event(), HASP_EVENT_PLEASE);
    }
    assert_int_equal(next_event(), 0);
}

int main(void)
{
#define one(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        one(a_heartbeat_leaves_each_fifth),
        one(a_lease_counts_from_before_it_was_asked),
        one(a_silent_node_is_left_after_another_fifth),
        one(behind_other_requests_it_takes_two_fifths),
        one(a_heartbeat_that_had_to_wait_accuses_nobody),
        one(without_answers_it_is_lost_and_all_calls_are_told),
        one(a_suspended_machine_has_lost_it_when_it_wakes),
        cmocka_unit_test_setup_teardown(
            without_end_it_is_held_until_it_is_told_otherwise, set_up_closed,
            tear_down),
        one(with_linger_there_is_jeopardy_and_a_way_back),
        one(expired_loses_it_at_once_and_blacklisted_does_not),
        one(any_answer_may_say_that_it_has_ended),
        one(heartbeats_may_have_to_be_earned),
        one(changes_are_numbered_and_acknowledged),
        one(after_a_lost_connection_it_is_asked_under_the_same_number),
        one(a_refused_asker_is_told_nothing_of_what_was_sent_before),
        one(without_a_leader_or_moved_it_is_asked_elsewhere),
        one(what_was_not_sent_was_not_done),
        one(what_has_no_answer_is_cleared_up),
        one(a_forgotten_grant_is_released_to_be_sure),
        one(a_forgotten_release_is_asked_under_a_new_number),
        one(a_forgotten_release_of_a_shared_hold_is_not_repeated),
        one(a_forgotten_downgrade_is_asked_under_a_new_number),
        one(a_release_that_is_refused_to_its_asker_is_asked_on),
        one(a_release_without_an_answer_is_asked_on),
        one(a_wait_is_parked_until_the_push),
        one(a_push_that_tells_of_the_grant_is_the_answer),
        one(a_push_may_come_before_the_answer),
        one(a_lost_push_does_no_harm),
        one(waits_keep_their_places_over_a_lost_connection),
        one(one_connection_carries_a_thousand_waits),
        one(an_interrupted_wait_leaves_nothing_behind),
        one(a_conversion_changes_the_token_or_leaves_the_hold),
        one(an_owner_with_a_name_asks_once_its_last_is_settled),
        one(a_push_with_no_token_grants_nothing),
        one(a_node_that_answers_no_lease_is_left),
        one(an_owner_asks_for_a_lock_once_at_a_time),
        one(a_conversion_is_one_of_all_that_its_owner_has),
        one(a_limited_hold_ends_and_says_so_once),
        one(a_limit_that_was_waited_for_counts_from_the_grant),
        one(a_heartbeat_tells_of_holds_that_ended),
        one(please_is_told_and_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
