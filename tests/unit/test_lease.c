/* SPDX-License-Identifier: MIT */

/* The client's arithmetic of a lease: each rule, and each way to break one.
 * Times are in milliseconds here; at() makes a reading of both clocks. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "lease/lease.h"

#define MS UINT64_C(1000000)
/* Both clocks have an arbitrary and a different origin. */
#define ORIGIN_NS (UINT64_C(86400) * 1000 * MS)

static struct lease_clock at(uint64_t ms)
{
    return (struct lease_clock){ORIGIN_NS + ms * MS, 3 * ORIGIN_NS + ms * MS};
}

/* The machine has slept for 'asleep_ms' since the origin. */
static struct lease_clock at_after_sleep(uint64_t awake_ms, uint64_t asleep_ms)
{
    struct lease_clock clock = at(awake_ms);
    clock.boottime_ns += asleep_ms * MS;
    return clock;
}

static struct lease granted(uint64_t sent_ms, uint64_t ttl_ms,
                            uint64_t linger_ms)
{
    struct lease lease;
    lease_init(&lease);
    lease_answered(&lease, at(sent_ms), ttl_ms, linger_ms);
    return lease;
}

static void nothing_is_held_before_the_first_answer(void **state)
{
    (void)state;
    struct lease lease;
    lease_init(&lease);
    assert_int_equal(lease_check(&lease, at(0)), LEASE_JEOPARDY);
    assert_int_equal(lease_remaining(&lease, at(0)), 0);
    assert_int_equal(lease_next_beat(&lease, at(0)), 0);
    lease_beat_sent(&lease, at(0));
    assert_int_equal(lease_check(&lease, at(1)), LEASE_JEOPARDY);
}

static void a_lease_is_held_for_four_fifths_of_ttl_and_not_longer(void **state)
{
    (void)state;
    struct lease lease = granted(100, 10000, 0);
    assert_int_equal(lease_check(&lease, at(100)), LEASE_HELD);
    assert_int_equal(lease_remaining(&lease, at(100)), 8000 * MS);
    struct lease_clock last = at(8100);
    last.monotonic_ns--;
    last.boottime_ns--;
    assert_int_equal(lease_check(&lease, last), LEASE_HELD);
    assert_int_equal(lease_remaining(&lease, last), 1);
    assert_int_equal(lease_check(&lease, at(8100)), LEASE_LOST);
    assert_int_equal(lease_remaining(&lease, at(8100)), 0);
}

/* Rule 1: the answer arrived at 2900, which must not matter. The interface has
 * no parameter for the time of an answer; this ensures that 'sent' counts. */
static void a_late_answer_does_not_prolong_a_lease(void **state)
{
    (void)state;
    struct lease lease = granted(0, 1000, 0);
    lease_beat_sent(&lease, at(200));
    lease_answered(&lease, at(200), 1000, 0);
    assert_int_equal(lease_remaining(&lease, at(790)), 210 * MS);
    assert_int_equal(lease_check(&lease, at(999)), LEASE_HELD);
    assert_int_equal(lease_check(&lease, at(1000)), LEASE_LOST);
}

/* A client at 0.9 and a leader at 1.1 of true time: 0.8 T / 0.9 < T / 1.1, with
 * a heartbeat that took no time at all. */
static void the_client_ends_before_the_leader_at_the_worst_clocks(void **state)
{
    (void)state;
    for (uint64_t ttl_ms = 100; ttl_ms <= 3600000; ttl_ms = ttl_ms * 3 + 7) {
        struct lease lease = granted(0, ttl_ms, 0);
        uint64_t true_end_us = ttl_ms * 1000 * 10 / 11;
        struct lease_clock now = at(0);
        now.monotonic_ns += true_end_us * 900;
        now.boottime_ns += true_end_us * 900;
        assert_int_equal(lease_check(&lease, now), LEASE_LOST);
    }
}

static void the_newest_answer_counts_whatever_the_order(void **state)
{
    (void)state;
    struct lease lease = granted(0, 1000, 0);
    lease_answered(&lease, at(400), 1000, 0);
    lease_answered(&lease, at(200), 1000, 0);
    assert_int_equal(lease_check(&lease, at(1199)), LEASE_HELD);
    assert_int_equal(lease_check(&lease, at(1200)), LEASE_LOST);
}

static void an_old_answer_does_not_bring_its_old_ttl(void **state)
{
    (void)state;
    struct lease lease = granted(0, 10000, 0);
    lease_answered(&lease, at(500), 1000, 0);
    lease_answered(&lease, at(400), 10000, 0);
    assert_int_equal(lease_check(&lease, at(1300)), LEASE_LOST);
}

static void nothing_leaves_lost(void **state)
{
    (void)state;
    struct lease lease = granted(0, 1000, 0);
    assert_int_equal(lease_check(&lease, at(800)), LEASE_LOST);
    lease_answered(&lease, at(700), 1000, 0);
    assert_int_equal(lease_check(&lease, at(801)), LEASE_LOST);
    assert_int_equal(lease_check(&lease, at(10)), LEASE_LOST);
    assert_int_equal(lease_next_beat(&lease, at(801)), UINT64_MAX);
}

static void a_heartbeat_sent_after_the_end_does_not_revive(void **state)
{
    (void)state;
    struct lease lease = granted(0, 1000, 0);
    lease_answered(&lease, at(800), 1000, 0);
    assert_int_equal(lease_check(&lease, at(801)), LEASE_LOST);
}

/* Sent in time, the answer read late, no check in between: it was held all the
 * time. */
static void a_heartbeat_sent_in_time_keeps_the_lease(void **state)
{
    (void)state;
    struct lease lease = granted(0, 1000, 0);
    lease_answered(&lease, at(799), 1000, 0);
    assert_int_equal(lease_check(&lease, at(1598)), LEASE_HELD);
}

static void a_refusal_ends_it_for_ever(void **state)
{
    (void)state;
    struct lease lease = granted(0, 1000, 0);
    lease_refused(&lease);
    assert_int_equal(lease_check(&lease, at(1)), LEASE_LOST);
    lease_answered(&lease, at(2), 1000, 0);
    assert_int_equal(lease_check(&lease, at(3)), LEASE_LOST);
    assert_int_equal(lease_remaining(&lease, at(3)), 0);
}

static void linger_bounds_what_is_held(void **state)
{
    (void)state;
    struct lease lease = granted(0, 10000, 1000);
    assert_int_equal(lease_remaining(&lease, at(0)), 800 * MS);
    assert_int_equal(lease_check(&lease, at(799)), LEASE_HELD);
    assert_int_equal(lease_check(&lease, at(800)), LEASE_JEOPARDY);
    assert_int_equal(lease_remaining(&lease, at(800)), 0);
    assert_int_equal(lease_check(&lease, at(7999)), LEASE_JEOPARDY);
    assert_int_equal(lease_check(&lease, at(8000)), LEASE_LOST);
}

static void an_answer_leads_out_of_jeopardy(void **state)
{
    (void)state;
    struct lease lease = granted(0, 10000, 1000);
    assert_int_equal(lease_check(&lease, at(3000)), LEASE_JEOPARDY);
    lease_answered(&lease, at(2900), 10000, 1000);
    assert_int_equal(lease_check(&lease, at(3000)), LEASE_HELD);
    assert_int_equal(lease_remaining(&lease, at(3000)), 700 * MS);
    assert_int_equal(lease_check(&lease, at(3700)), LEASE_JEOPARDY);
    assert_int_equal(lease_check(&lease, at(10900)), LEASE_LOST);
}

static void a_linger_not_below_the_ttl_changes_nothing(void **state)
{
    (void)state;
    struct lease lease = granted(0, 1000, 1000);
    assert_int_equal(lease_check(&lease, at(799)), LEASE_HELD);
    assert_int_equal(lease_check(&lease, at(800)), LEASE_LOST);
    lease = granted(0, 1000, 5000);
    assert_int_equal(lease_check(&lease, at(799)), LEASE_HELD);
    assert_int_equal(lease_check(&lease, at(800)), LEASE_LOST);
}

static void a_suspended_machine_loses_its_lease(void **state)
{
    (void)state;
    struct lease lease = granted(0, 1000, 0);
    assert_int_equal(lease_remaining(&lease, at_after_sleep(10, 500)),
                     290 * MS);
    assert_int_equal(lease_check(&lease, at_after_sleep(10, 790)), LEASE_LOST);
}

static void the_clock_that_went_further_counts_either_way(void **state)
{
    (void)state;
    struct lease lease = granted(0, 1000, 0);
    struct lease_clock now = at(900);
    now.boottime_ns = at(10).boottime_ns;
    assert_int_equal(lease_check(&lease, now), LEASE_LOST);
}

/* Suspended between two heartbeats with the same monotonic time: the second is
 * the newer. */
static void the_newer_of_two_is_found_by_the_second_clock(void **state)
{
    (void)state;
    struct lease lease;
    lease_init(&lease);
    lease_answered(&lease, at_after_sleep(0, 500), 1000, 0);
    lease_answered(&lease, at_after_sleep(0, 0), 1000, 0);
    assert_int_equal(lease_check(&lease, at_after_sleep(0, 1299)), LEASE_HELD);
}

static void heartbeats_are_due_each_fifth_of_the_shorter(void **state)
{
    (void)state;
    struct lease lease = granted(0, 10000, 0);
    assert_int_equal(lease_next_beat(&lease, at(0)), 2000 * MS);
    assert_int_equal(lease_next_beat(&lease, at(1999)), 1 * MS);
    assert_int_equal(lease_next_beat(&lease, at(2000)), 0);
    assert_int_equal(lease_next_beat(&lease, at(5000)), 0);
    lease = granted(0, 10000, 1000);
    assert_int_equal(lease_next_beat(&lease, at(0)), 200 * MS);
}

static void an_unanswered_heartbeat_is_repeated_by_two_fifths(void **state)
{
    (void)state;
    struct lease lease = granted(0, 10000, 0);
    lease_beat_sent(&lease, at(2000));
    assert_int_equal(lease_next_beat(&lease, at(2000)), 2000 * MS);
    assert_int_equal(lease_next_beat(&lease, at(4000)), 0);
    /* A request sent is not a request answered. */
    assert_int_equal(lease_remaining(&lease, at(4000)), 4000 * MS);
    lease_answered(&lease, at(2000), 10000, 0);
    assert_int_equal(lease_next_beat(&lease, at(2100)), 1900 * MS);
}

static void
a_limited_hold_is_trusted_for_four_fifths_of_what_is_left(void **state)
{
    (void)state;
    assert_int_equal(lease_hold_remaining(at(0), 1000, at(0)), 800 * MS);
    assert_int_equal(lease_hold_remaining(at(0), 1000, at(799)), 1 * MS);
    assert_int_equal(lease_hold_remaining(at(0), 1000, at(800)), 0);
    assert_int_equal(lease_hold_remaining(at(0), 1000, at(5000)), 0);
    assert_int_equal(lease_hold_remaining(at(0), 1000, at_after_sleep(1, 799)),
                     0);
}

static void without_end_only_a_refusal_ends_it(void **state)
{
    (void)state;
    struct lease lease;
    lease_init(&lease);
    lease_answered_endless(&lease, at(100));
    assert_int_equal(lease_check(&lease, at(9000000000)), LEASE_HELD);
    assert_true(lease_remaining(&lease, at(9000000000)) == UINT64_MAX);
    assert_int_equal(lease_next_beat(&lease, at(100)), LEASE_LOOK_NS);
    assert_int_equal(lease_next_beat(&lease, at(9000000000)), 0);
    lease_refused(&lease);
    lease_answered_endless(&lease, at(9000000001));
    assert_int_equal(lease_check(&lease, at(9000000001)), LEASE_LOST);
    assert_int_equal(lease_remaining(&lease, at(9000000001)), 0);
}

static void an_answer_without_end_counts_from_the_newest(void **state)
{
    (void)state;
    struct lease lease;
    lease_init(&lease);
    lease_answered(&lease, at(0), 1000, 0);
    lease_answered_endless(&lease, at(100));
    assert_int_equal(lease_next_beat(&lease, at(100)), LEASE_LOOK_NS);
    lease_answered_endless(&lease, at(50)); /* Comes late. */
    assert_int_equal(lease_next_beat(&lease, at(100)), LEASE_LOOK_NS);
    assert_int_equal(lease_check(&lease, at(5000)), LEASE_HELD);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_held_before_the_first_answer),
        cmocka_unit_test(a_lease_is_held_for_four_fifths_of_ttl_and_not_longer),
        cmocka_unit_test(a_late_answer_does_not_prolong_a_lease),
        cmocka_unit_test(the_client_ends_before_the_leader_at_the_worst_clocks),
        cmocka_unit_test(the_newest_answer_counts_whatever_the_order),
        cmocka_unit_test(an_old_answer_does_not_bring_its_old_ttl),
        cmocka_unit_test(nothing_leaves_lost),
        cmocka_unit_test(a_heartbeat_sent_after_the_end_does_not_revive),
        cmocka_unit_test(a_heartbeat_sent_in_time_keeps_the_lease),
        cmocka_unit_test(a_refusal_ends_it_for_ever),
        cmocka_unit_test(without_end_only_a_refusal_ends_it),
        cmocka_unit_test(an_answer_without_end_counts_from_the_newest),
        cmocka_unit_test(linger_bounds_what_is_held),
        cmocka_unit_test(an_answer_leads_out_of_jeopardy),
        cmocka_unit_test(a_linger_not_below_the_ttl_changes_nothing),
        cmocka_unit_test(a_suspended_machine_loses_its_lease),
        cmocka_unit_test(the_clock_that_went_further_counts_either_way),
        cmocka_unit_test(the_newer_of_two_is_found_by_the_second_clock),
        cmocka_unit_test(heartbeats_are_due_each_fifth_of_the_shorter),
        cmocka_unit_test(an_unanswered_heartbeat_is_repeated_by_two_fifths),
        cmocka_unit_test(
            a_limited_hold_is_trusted_for_four_fifths_of_what_is_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
