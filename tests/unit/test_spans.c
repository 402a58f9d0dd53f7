/* SPDX-License-Identifier: MIT */

/* The leader's other deadlines: waits, delays, max holds, blacklistings, the
 * quarantine (lease/timers, lease/spans). Sessions: test_timers.c. */

#include "base/prng.h"
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

/* Its WAIT_TIMEOUT was proposed, but the repetition entered the log first. */
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

/* The clock's advance since the start of a wait can include up to one step of
 * time before it. */
static void an_inherited_wait_ends_later_by_a_step_at_most(void **state)
{
    struct world *w = *state;
    uint64_t t0 = w->now_ms;
    struct pair pair = hold_and_wait(w);
    w->now_ms = t0 + 100;
    acquire(w, pair.waiter, "a", (struct ask){.wait_ms = 3000});
    for (uint64_t t = 100; t < 2500; t += 10) {
        due(w, t0 + t);
        apply_proposed(w);
        forget_proposed(w);
    }
    change_leader(w, t0 + 2500);
    const char *left = due(w, t0 + 3099);
    assert_string_equal(left, "");
    assert_string_equal(due(w, t0 + 3999), "");
    assert_non_null(strstr(due(w, t0 + 4100), "wait-timeout 2"));
}

/* However short the leaderships: the bound of rule 10. */
static void a_delay_outlasts_no_number_of_reigns(void **state)
{
    struct world *w = *state;
    static const uint64_t reigns_ms[] = {200, 500, 900, 2000, 3900, 5000};
    for (size_t i = 0; i < sizeof reigns_ms / sizeof reigns_ms[0]; i++) {
        uint64_t s = open_session(w, 1000, 0);
        acquire(w, s, "a", (struct ask){.delay_ms = 4000});
        encode_expire(&w->command, &(struct expire_command){
                                       .sessions = &s, .session_count = 1});
        apply_command(w);
        uint64_t t0 = w->now_ms;
        while (lockfsm_lock(w->fsm, BYTES_LITERAL("a")) != NULL) {
            uint64_t t = w->now_ms - t0;
            assert_in_range(t, 0, 20000);
            due(w, w->now_ms);
            apply_proposed(w);
            forget_proposed(w);
            w->now_ms += 10;
            if ((t + 10) / reigns_ms[i] > t / reigns_ms[i]) {
                change_leader(w, w->now_ms);
            }
        }
        assert_in_range(w->now_ms - t0, 4000, 5200);
    }
}

static uint64_t break_holds(struct world *w, uint64_t after_ms)
{
    struct break_holds_command command = {.name = BYTES_LITERAL("a"),
                                          .after_ms = after_ms};
    encode_break_holds(&w->command, &command);
    assert_int_equal(apply_command(w).count, 1);
    return w->index;
}

static const char *break_over(uint64_t since_index)
{
    static char text[64];
    snprintf(text, sizeof text, "break-over 1 @%llu\n",
             (unsigned long long)since_index);
    return text;
}

static void a_break_is_over_after_its_time(void **state)
{
    struct world *w = *state;
    uint64_t t0 = w->now_ms;
    uint64_t s = open_durable(w);
    acquire(w, s, "a", (struct ask){.wait_ms = 1});
    break_holds(w, 500);
    w->now_ms = t0 + 400;
    uint64_t since_index = break_holds(w, 700); /* Announced again. */
    assert_string_equal(due(w, t0 + 1099), "");
    assert_string_equal(due(w, t0 + 1100), break_over(since_index));
    apply_proposed(w);
    assert_null(lockfsm_lock(w->fsm, BYTES_LITERAL("a")));
    assert_string_equal(due(w, t0 + 9000), "");
}

/* It was proposed, and the objection entered the log first. */
static void an_objection_at_the_end_of_a_break_counts(void **state)
{
    struct world *w = *state;
    uint64_t t0 = w->now_ms;
    uint64_t s = open_durable(w);
    acquire(w, s, "a", (struct ask){.wait_ms = 1});
    uint64_t since_index = break_holds(w, 500);
    assert_string_equal(due(w, t0 + 500), break_over(since_index));
    struct object_command object = {.origin = {.session = s},
                                    .name = BYTES_LITERAL("a")};
    encode_object(&w->command, &object);
    assert_int_equal(apply_command(w).count, 1);
    apply_proposed(w);
    assert_non_null(lockfsm_lock(w->fsm, BYTES_LITERAL("a")));
    assert_string_equal(due(w, t0 + 9000), "");
}

/* Never before its time, whichever node leads; and not much later. */
static void a_break_outlasts_no_number_of_reigns(void **state)
{
    struct world *w = *state;
    static const uint64_t reigns_ms[] = {200, 500, 900, 2000, 3900, 5000};
    uint64_t s = open_durable(w);
    for (size_t i = 0; i < sizeof reigns_ms / sizeof reigns_ms[0]; i++) {
        acquire(w, s, "a", (struct ask){.wait_ms = 1});
        break_holds(w, 4000);
        uint64_t t0 = w->now_ms;
        while (lockfsm_lock(w->fsm, BYTES_LITERAL("a")) != NULL) {
            uint64_t t = w->now_ms - t0;
            assert_in_range(t, 0, 20000);
            due(w, w->now_ms);
            apply_proposed(w);
            forget_proposed(w);
            w->now_ms += 10;
            if ((t + 10) / reigns_ms[i] > t / reigns_ms[i]) {
                change_leader(w, w->now_ms);
            }
        }
        assert_in_range(w->now_ms - t0, 4000, 5200);
    }
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
    assert_string_equal(due(w, t0 + 1700), expected);
    apply_proposed(w);
    assert_string_equal(due(w, t0 + 9000), "");
}

#define HOLD_LEFT(at_ms) \
    (timers_hold_left(w->timers, w->fsm, lock, s, owner, (at_ms)*MS) / MS)

static void a_limited_hold_ends_after_its_time(void **state)
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
    assert_int_equal(HOLD_LEFT(t0), 4000);
    assert_string_equal(due(w, t0 + 3999), "");
    assert_int_equal(HOLD_LEFT(t0 + 3999), 1);
    assert_string_equal(due(w, t0 + 4000), over);
    apply_proposed(w);
    assert_string_equal(due(w, t0 + 20000), "");
}

/* A client trusts 0.8 of the time that it receives, a successor may end the
 * hold no sooner, and only the log's clock decides when. */
static void what_is_told_of_a_hold_is_less_than_a_successor_leaves(void **state)
{
    struct world *w = *state;
    struct prng prng = {7};
    struct bytes lock = BYTES_LITERAL("a");
    struct bytes owner = {NULL, 0};
    for (int round = 0; round < 200; round++) {
        uint64_t s = open_session(w, 3600000, 0);
        w->now_ms += prng_below(&prng, 3000);
        acquire(w, s, "a", (struct ask){.hold_ms = 5000});
        uint64_t granted = w->now_ms;
        uint64_t promised = 0; /* The end that a client was promised. */
        while (lockfsm_lock(w->fsm, lock) != NULL) {
            due(w, w->now_ms);
            if (HOLD_LEFT(w->now_ms) > 0) {
                uint64_t until = w->now_ms + HOLD_LEFT(w->now_ms);
                promised = until > promised ? until : promised;
            }
            if (prng_below(&prng, 3) != 0) {
                apply_proposed(w);
                forget_proposed(w);
            }
            w->now_ms += prng_below(&prng, 300);
            if (prng_below(&prng, 8) == 0) {
                change_leader(w, w->now_ms);
            }
            assert_in_range(w->now_ms - granted, 0, 12000);
        }
        assert_true(w->now_ms >= promised);
        encode_close(&w->command, &(struct close_command){
                                      .origin = (struct origin){.session = s}});
        apply_command(w);
    }
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
    assert_string_equal(due(w, t0 + 8999), "");
    assert_non_null(strstr(due(w, t0 + 9000), "hold-over 1"));
}

static void re_entry_does_not_prolong_a_limited_hold(void **state)
{
    struct world *w = *state;
    uint64_t t0 = w->now_ms;
    uint64_t s = open_session(w, 100000, 0);
    acquire(w, s, "a", (struct ask){.hold_ms = 4000});
    w->now_ms = t0 + 1000;
    acquire(w, s, "a", (struct ask){.hold_ms = 4000});
    /* One of the two is released: it is still held, and still limited. */
    release(w, s, "a");
    assert_non_null(strstr(due(w, t0 + 4000), "hold-over 1"));
}

static void a_downgrade_does_not_prolong_a_limited_hold(void **state)
{
    struct world *w = *state;
    uint64_t t0 = w->now_ms;
    uint64_t s = open_session(w, 100000, 0);
    acquire(w, s, "a", (struct ask){.hold_ms = 4000});
    w->now_ms = t0 + 1000;
    downgrade(w, s, "a");
    assert_string_equal(due(w, t0 + 3999), "");
    assert_non_null(strstr(due(w, t0 + 4000), "hold-over 1"));
}

static void a_blacklisting_ends_after_its_time(void **state)
{
    struct world *w = *state;
    uint64_t t0 = w->now_ms;
    struct blacklist_add_command add = {.client = BYTES_LITERAL("evil*"),
                                        .reason = BYTES_LITERAL("why"),
                                        .for_ms = 800};
    encode_blacklist_add(&w->command, &add);
    apply_command(w);
    char expected[64];
    snprintf(expected, sizeof expected, "blacklist-over @%llu\n",
             (unsigned long long)w->index);
    change_leader(w, t0 + 100);
    assert_string_equal(due(w, t0 + 899), "");
    assert_string_equal(due(w, t0 + 900), expected); /* Less than a step. */
    apply_proposed(w);
    assert_string_equal(due(w, t0 + 9000), "");
}

static void a_blacklisting_without_end_outlives_a_leader(void **state)
{
    struct world *w = *state;
    uint64_t t0 = w->now_ms;
    struct blacklist_add_command add = {.client = BYTES_LITERAL("evil*"),
                                        .reason = BYTES_LITERAL("why")};
    encode_blacklist_add(&w->command, &add);
    apply_command(w);
    assert_string_equal(due(w, t0 + 9000), "");
    change_leader(w, t0 + 9000);
    assert_string_equal(due(w, t0 + 90000), "");
}

/* Without this command no lock would ever be granted again. */
static void a_quarantine_ends_after_its_time(void **state)
{
    struct world *w = *state;
    uint8_t cluster_id[16] = {2};
    struct begin_command begin = {
        .node = 1, .cluster_id = bytes_of(cluster_id, CLUSTER_ID_SIZE)};
    timers_end(w->timers);
    lockfsm_new_life(w->fsm, 60000);
    encode_begin(&w->command, &begin);
    apply_command(w);
    char expected[64];
    snprintf(expected, sizeof expected, "quarantine-over @%llu\n",
             (unsigned long long)w->index);
    uint64_t t0 = w->now_ms;
    begin_timers(w);
    for (uint64_t t = 0; t < 50000; t += 100) {
        assert_string_equal(due(w, t0 + t), "");
        apply_proposed(w);
        forget_proposed(w);
    }
    assert_true(timers_quarantine_left(w->timers, w->fsm, (t0 + 50000) * MS) ==
                10000 * MS);
    change_leader(w, t0 + 50000); /* It does not begin again. */
    assert_true(timers_quarantine_left(w->timers, w->fsm, (t0 + 50000) * MS) ==
                11000 * MS);
    assert_string_equal(due(w, t0 + 60999), "");
    assert_string_equal(due(w, t0 + 61000), expected);
    apply_proposed(w);
    assert_int_equal(lockfsm_quarantine(w->fsm, NULL), 0);
    assert_true(timers_quarantine_left(w->timers, w->fsm, ns(w)) == 0);
    uint64_t s = open_session(w, 100000, 0);
    assert_int_equal(acquire(w, s, "a", (struct ask){.wait_ms = 0}).code,
                     RESULT_OK);
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
        TEST(an_inherited_wait_ends_later_by_a_step_at_most),
        TEST(a_delay_outlasts_no_number_of_reigns),
        TEST(a_break_is_over_after_its_time),
        TEST(an_objection_at_the_end_of_a_break_counts),
        TEST(a_break_outlasts_no_number_of_reigns),
        TEST(a_delay_is_over_after_its_time),
        TEST(a_limited_hold_ends_after_its_time),
        TEST(what_is_told_of_a_hold_is_less_than_a_successor_leaves),
        TEST(a_released_hold_is_not_ended_later),
        TEST(re_entry_does_not_prolong_a_limited_hold),
        TEST(a_downgrade_does_not_prolong_a_limited_hold),
        TEST(a_blacklisting_ends_after_its_time),
        TEST(a_blacklisting_without_end_outlives_a_leader),
        TEST(a_quarantine_ends_after_its_time),
        TEST(the_rest_is_left_after_a_refusal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
