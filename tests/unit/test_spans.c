/* SPDX-License-Identifier: MIT */

/* The leader's other deadlines: waits, delays, max holds, blacklistings, the
 * quarantine (lockfsm/timers, lockfsm/spans). Sessions: test_timers.c. */

#include "base/units.h"
#include "tests/unit/timers_world.h"

struct pair {
    uint64_t holder, waiter;
};

/* One session holds "a", another waits for it for 300 ms. */
static struct pair hold_and_wait(struct world *w)
{
    struct pair pair = {.holder = open_session(w, 100000, 0)};
    pair.waiter = open_session(w, 100000, 0);
    acquire(w, pair.holder, "a", (struct ask){.wait_ms = 0});
    assert_int_equal(
        acquire(w, pair.waiter, "a", (struct ask){.wait_ms = 300}).code,
        RESULT_QUEUED);
    return pair;
}

static void a_wait_is_over_after_its_time(void **state)
{
    struct world *w = *state;
    uint64_t t0 = w->now_ms;
    hold_and_wait(w);
    uint64_t wait_index = w->index;
    assert_string_equal(due(w, t0 + 299), "");
    char expected[64];
    snprintf(expected, sizeof expected, "wait-timeout 2 @%llu\n",
             (unsigned long long)wait_index);
    assert_string_equal(due(w, t0 + 300), expected);
    assert_string_equal(due(w, t0 + 900), "");
    apply_proposed(w);
    assert_string_equal(due(w, t0 + 9000), "");
}

static void a_wait_that_was_granted_is_not_timed_out(void **state)
{
    struct world *w = *state;
    uint64_t t0 = w->now_ms;
    struct pair pair = hold_and_wait(w);
    release(w, pair.holder, "a");
    assert_string_equal(due(w, t0 + 300), "");
}

static void a_repeated_wait_counts_anew(void **state)
{
    struct world *w = *state;
    uint64_t t0 = w->now_ms;
    struct pair pair = hold_and_wait(w);
    w->now_ms = t0 + 200;
    acquire(w, pair.waiter, "a", (struct ask){.wait_ms = 300});
    assert_string_equal(due(w, t0 + 499), "");
    w->now_ms = t0 + 499;
    acquire(w, pair.waiter, "a", (struct ask){.wait_ms = 0});
    assert_string_equal(due(w, t0 + 9000), "");
}

/* Its WAIT_TIMEOUT was proposed, but the repetition got into the log first. */
static void a_wait_repeated_at_its_end_is_not_cut_short(void **state)
{
    struct world *w = *state;
    uint64_t t0 = w->now_ms;
    struct pair pair = hold_and_wait(w);
    assert_non_null(strstr(due(w, t0 + 300), "wait-timeout 2"));
    w->now_ms = t0 + 300;
    acquire(w, pair.waiter, "a", (struct ask){.wait_ms = 300});
    apply_proposed(w);
    assert_string_equal(due(w, t0 + 599), "");
    assert_non_null(strstr(due(w, t0 + 600), "wait-timeout 2"));
}

static void a_new_leader_starts_a_wait_in_full(void **state)
{
    struct world *w = *state;
    uint64_t t0 = w->now_ms;
    hold_and_wait(w);
    change_leader(w, t0 + 200);
    assert_string_equal(due(w, t0 + 499), "");
    assert_non_null(strstr(due(w, t0 + 500), "wait-timeout 2"));
}

static void a_delay_is_over_after_its_time(void **state)
{
    struct world *w = *state;
    uint64_t t0 = w->now_ms;
    uint64_t s = open_session(w, 1000, 0);
    acquire(w, s, "a", (struct ask){.delay_ms = 700});
    due(w, t0 + 1000);
    apply_proposed(w);
    char expected[64];
    snprintf(expected, sizeof expected, "delay-over a @%llu\n",
             (unsigned long long)w->index);
    assert_int_equal(timers_delay_left(w->timers, BYTES_LITERAL("a"), ns(w)),
                     700 * MS);
    assert_string_equal(due(w, t0 + 1699), "");
    change_leader(w, t0 + 1699);
    assert_string_equal(due(w, t0 + 2398), "");
    assert_string_equal(due(w, t0 + 2399), expected);
    apply_proposed(w);
    assert_string_equal(due(w, t0 + 9000), "");
}

static void a_limited_hold_ages_and_ends(void **state)
{
    struct world *w = *state;
    uint64_t t0 = w->now_ms;
    uint64_t s = open_session(w, 100000, 0);
    struct result result = acquire(w, s, "a", (struct ask){.hold_ms = 4000});
    struct bytes lock = BYTES_LITERAL("a");
    struct bytes owner = {NULL, 0};
    char over[64];
    snprintf(over, sizeof over, "hold-over 1 %llu\n",
             (unsigned long long)result.token);
    assert_int_equal(timers_hold_left(w->timers, lock, s, owner, ns(w)),
                     4000 * MS);
    assert_string_equal(due(w, t0 + 1999), "");
    assert_string_equal(due(w, t0 + 2000), "hold-age 1 2000\n");
    apply_proposed(w);
    assert_string_equal(due(w, t0 + 2999), "");
    change_leader(w, t0 + 3000);
    assert_int_equal(timers_hold_left(w->timers, lock, s, owner, ns(w)),
                     2000 * MS);
    assert_string_equal(due(w, t0 + 4000), "hold-age 1 3000\n");
    assert_string_equal(due(w, t0 + 4999), "");
    assert_string_equal(due(w, t0 + 5000), over);
    apply_proposed(w);
    assert_string_equal(due(w, t0 + 20000), "");
}

static void a_released_hold_is_not_ended_later(void **state)
{
    struct world *w = *state;
    uint64_t t0 = w->now_ms;
    uint64_t s = open_session(w, 100000, 0);
    acquire(w, s, "a", (struct ask){.hold_ms = 4000});
    release(w, s, "a");
    assert_string_equal(due(w, t0 + 5000), "");
    /* And the next hold of the same owner counts from its own grant. */
    acquire(w, s, "a", (struct ask){.hold_ms = 4000});
    assert_string_equal(due(w, t0 + 6999), "");
    assert_string_equal(due(w, t0 + 7000), "hold-age 1 2000\n");
}

static void re_entry_does_not_prolong_a_limited_hold(void **state)
{
    struct world *w = *state;
    uint64_t t0 = w->now_ms;
    uint64_t s = open_session(w, 100000, 0);
    acquire(w, s, "a", (struct ask){.hold_ms = 4000});
    w->now_ms = t0 + 1000;
    acquire(w, s, "a", (struct ask){.hold_ms = 4000});
    assert_string_equal(due(w, t0 + 2000), "hold-age 1 2000\n");
    /* One of the two is given back: it is still held, and still limited. */
    release(w, s, "a");
    assert_non_null(strstr(due(w, t0 + 4000), "hold-over 1"));
}

static void a_blacklisting_ends_after_its_time(void **state)
{
    struct world *w = *state;
    uint64_t t0 = w->now_ms;
    struct blacklist_command add = {.client = BYTES_LITERAL("evil*"),
                                    .reason = BYTES_LITERAL("why"),
                                    .for_ms = 800};
    encode_blacklist_add(&w->command, &add);
    apply_command(w);
    char expected[64];
    snprintf(expected, sizeof expected, "blacklist-over @%llu\n",
             (unsigned long long)w->index);
    change_leader(w, t0 + 100);
    assert_string_equal(due(w, t0 + 899), "");
    assert_string_equal(due(w, t0 + 900), expected);
    apply_proposed(w);
    assert_string_equal(due(w, t0 + 9000), "");
}

/* 4a.10: without this command nothing would ever be granted again. */
static void a_quarantine_ends_after_its_time(void **state)
{
    struct world *w = *state;
    uint8_t cluster_id[16] = {2};
    struct begin_command begin = {.node = 1, .cluster_id = cluster_id};
    timers_end(w->timers);
    lockfsm_new_life(w->fsm, 700);
    encode_begin(&w->command, &begin);
    apply_command(w);
    char expected[64];
    snprintf(expected, sizeof expected, "quarantine-over @%llu\n",
             (unsigned long long)w->index);
    uint64_t t0 = w->now_ms;
    change_leader(w, t0);
    assert_string_equal(due(w, t0 + 600), "");
    assert_true(
        timers_quarantine_left(w->timers, w->fsm, (t0 + 600) * NS_PER_MS) ==
        100 * NS_PER_MS);
    change_leader(w, t0 + 600); /* It counts anew: longer, never shorter. */
    assert_string_equal(due(w, t0 + 1299), "");
    assert_string_equal(due(w, t0 + 1300), expected);
    apply_proposed(w);
    assert_int_equal(lockfsm_quarantine(w->fsm, NULL), 0);
    assert_true(timers_quarantine_left(w->timers, w->fsm,
                                       (t0 + 1000) * NS_PER_MS) == 0);
    uint64_t s = open_session(w, 100000, 0);
    assert_int_equal(acquire(w, s, "a", (struct ask){.wait_ms = 0}).code,
                     RESULT_OK);
    change_leader(w, t0 + 2000);
    assert_string_equal(due(w, t0 + 9000), "");
}

static void the_rest_is_left_after_a_refusal(void **state)
{
    struct world *w = *state;
    uint64_t t0 = w->now_ms;
    hold_and_wait(w);
    w->is_refusing = true;
    assert_string_equal(due(w, t0 + 400), "");
    w->is_refusing = false;
    assert_non_null(strstr(due(w, t0 + 400), "wait-timeout 2"));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_wait_is_over_after_its_time),
        TEST(a_wait_that_was_granted_is_not_timed_out),
        TEST(a_repeated_wait_counts_anew),
        TEST(a_wait_repeated_at_its_end_is_not_cut_short),
        TEST(a_new_leader_starts_a_wait_in_full),
        TEST(a_delay_is_over_after_its_time),
        TEST(a_limited_hold_ages_and_ends),
        TEST(a_released_hold_is_not_ended_later),
        TEST(re_entry_does_not_prolong_a_limited_hold),
        TEST(a_blacklisting_ends_after_its_time),
        TEST(a_quarantine_ends_after_its_time),
        TEST(the_rest_is_left_after_a_refusal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
