/* SPDX-License-Identifier: MIT */

/* The rate of a remote clock, estimated from its timestamps, however late they
 * arrive. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>

#include "base/prng.h"
#include "core/members/clock_rate.h"

#define MS NS_PER_MS

/* A pair of clocks, and messages of one each half a second; each acknowledges
 * one that arrived HELD_NS before. */
struct pair {
    struct clock_rate rate;
    struct prng prng;
    uint64_t true_ns;
    uint64_t permille[2]; /* Rates of the local and of the remote clock. */
    uint64_t remote_from_ns;
};

#define HELD_NS (250 * MS)

static struct pair pair_of(uint64_t local, uint64_t remote)
{
    return (struct pair){.prng = {.state = 7},
                         .true_ns = 10 * NS_PER_S,
                         .permille = {local, remote},
                         .remote_from_ns = 77 * NS_PER_S};
}

static uint64_t local_at(const struct pair *pair, uint64_t true_ns)
{
    return true_ns / 1000 * pair->permille[0];
}

static uint64_t remote_at(const struct pair *pair, uint64_t true_ns)
{
    return pair->remote_from_ns + true_ns / 1000 * pair->permille[1];
}

/* A message sent now and received 'late_ns' later; what it acknowledges was
 * 'there_ns' on its way. */
static void message(struct pair *pair, uint64_t late_ns, uint64_t there_ns)
{
    uint64_t arrived_ns = pair->true_ns - HELD_NS;
    struct clock_times times = {
        .remote_ns = remote_at(pair, pair->true_ns),
        .local_ns = local_at(pair, pair->true_ns + late_ns),
        .echo_ns = local_at(pair, arrived_ns - there_ns),
        .echo_received_ns = remote_at(pair, arrived_ns)};
    clock_rate_add(&pair->rate, &times);
    pair->true_ns += 500 * MS;
}

/* Messages for 'ns', each 'delay_ns' late, plus a random delay of up to
 * 'more_ns'. */
static void run(struct pair *pair, uint64_t ns, uint64_t delay_ns,
                uint64_t more_ns)
{
    uint64_t end_ns = pair->true_ns + ns;
    while (pair->true_ns < end_ns) {
        message(pair, delay_ns + prng_below(&pair->prng, more_ns + 1),
                delay_ns + prng_below(&pair->prng, more_ns + 1));
    }
}

static void expect(const struct pair *pair, int32_t ppm, int32_t within)
{
    struct clock_range range;
    assert_true(clock_rate_range(&pair->rate, &range));
    if (abs(range.ppm - ppm) > within || range.low_ppm > ppm + 2 ||
        range.high_ppm < ppm - 2) {
        fail_msg("%d ppm (%d to %d), not %d", (int)range.ppm,
                 (int)range.low_ppm, (int)range.high_ppm, (int)ppm);
    }
}

static bool is_known(const struct pair *pair)
{
    struct clock_range range;
    return clock_rate_range(&pair->rate, &range);
}

static void nothing_is_known_before_ten_seconds(void **state)
{
    (void)state;
    struct pair pair = pair_of(1000, 1000);
    assert_false(is_known(&pair));
    run(&pair, 10 * NS_PER_S, 1 * MS, 0);
    assert_false(is_known(&pair));
    run(&pair, 5 * NS_PER_S, 1 * MS, 0);
    expect(&pair, 0, 0);
}

static void a_rate_is_told_in_millionths(void **state)
{
    static const struct {
        uint64_t local, remote;
        int32_t ppm;
    } rates[] = {{1000, 1100, 100000},  {1000, 900, -100000},
                 {900, 1100, 222222},   {1100, 900, -181818},
                 {1000, 1010, 10000},   {1000, 999, -1000},
                 {1000, 2000, 1000000}, {1000, 1000, 0}};
    (void)state;
    for (size_t i = 0; i < sizeof rates / sizeof rates[0]; i++) {
        struct pair pair = pair_of(rates[i].local, rates[i].remote);
        run(&pair, 60 * NS_PER_S, 1 * MS, 0);
        expect(&pair, rates[i].ppm, 2);
    }
}

/* Random changes of delay, as in a busy network. */
static void delays_move_it_little(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed < 50; seed++) {
        struct pair pair = pair_of(1000, 1000);
        pair.prng.state = seed;
        run(&pair, 60 * NS_PER_S, 1 * MS, 20 * MS);
        expect(&pair, 0, 1500);
    }
}

/* A blocked network or a stopped process: everything of some seconds is late,
 * and arrives at once. */
static void what_is_late_for_seconds_does_not_move_it(void **state)
{
    (void)state;
    struct pair pair = pair_of(1000, 1050);
    run(&pair, 60 * NS_PER_S, 1 * MS, 2 * MS);
    for (int i = 0; i < 6; i++) {
        message(&pair, (uint64_t)(3000 - 500 * i) * MS, 1 * MS);
    }
    expect(&pair, 50000, 1000);
    run(&pair, 9 * NS_PER_S, 1500 * MS, 10 * MS);
    expect(&pair, 50000, 3000);
    run(&pair, 30 * NS_PER_S, 1 * MS, 2 * MS);
    expect(&pair, 50000, 1000);
}

static void a_change_of_speed_is_seen(void **state)
{
    (void)state;
    struct pair pair = pair_of(1000, 1000);
    run(&pair, 30 * NS_PER_S, 1 * MS, 2 * MS);
    expect(&pair, 0, 500);
    pair.remote_from_ns += pair.true_ns / 1000 * 1000 -
                           pair.true_ns / 1000 * 900;
    pair.permille[1] = 900;
    run(&pair, 60 * NS_PER_S, 1 * MS, 2 * MS);
    expect(&pair, -100000, 1000);
}

static void a_clock_that_goes_back_is_another_one(void **state)
{
    (void)state;
    struct pair pair = pair_of(1000, 1000);
    run(&pair, 30 * NS_PER_S, 1 * MS, 0);
    pair.remote_from_ns = 0;
    run(&pair, 1 * NS_PER_S, 1 * MS, 0);
    assert_false(is_known(&pair));
    run(&pair, 30 * NS_PER_S, 1 * MS, 0);
    expect(&pair, 0, 0);
}

/* One way is late by more and more, as at a node whose loop falls behind: the
 * estimate is wrong, but within the error. */
static void lateness_is_an_error_not_a_rate(void **state)
{
    struct pair pair = pair_of(1000, 1000);
    struct clock_range range;
    (void)state;
    for (uint64_t i = 0; i < 32; i++) {
        message(&pair, i * 300 * MS, 1 * MS);
    }
    assert_true(clock_rate_range(&pair.rate, &range));
    assert_true(range.ppm < -200000);
    assert_true(range.low_ppm < -200000 && range.high_ppm > -2);
    pair = pair_of(1000, 1000);
    for (uint64_t i = 0; i < 32; i++) {
        message(&pair, 1 * MS, i * 300 * MS);
    }
    assert_true(clock_rate_range(&pair.rate, &range));
    assert_true(range.low_ppm < 2 && range.high_ppm > -2);
}

/* The error is that of the delays there and back. */
static void a_quick_answer_bounds_the_rate(void **state)
{
    struct pair pair = pair_of(1000, 1100);
    struct clock_range range;
    (void)state;
    run(&pair, 60 * NS_PER_S, 1 * MS, 0);
    assert_true(clock_rate_range(&pair.rate, &range));
    assert_in_range(range.low_ppm, 99000, 100000);
    assert_in_range(range.high_ppm, 100000, 101000);
}

/* Without acknowledgement, or with one of a time that is long past or has not
 * come yet, there is no measurement. */
static void what_acknowledges_nothing_does_not_count(void **state)
{
    (void)state;
    for (int kind = 0; kind < 4; kind++) {
        struct clock_rate rate = {.count = 0};
        struct clock_range range;
        for (uint64_t i = 100; i < 160; i++) {
            uint64_t now_ns = i * 500 * MS;
            struct clock_times times = {.remote_ns = now_ns,
                                        .local_ns = now_ns,
                                        .echo_ns = now_ns - 3 * MS,
                                        .echo_received_ns = now_ns - 2 * MS};
            times.echo_ns = kind == 0   ? 0
                            : kind == 1 ? now_ns + 1
                            : kind == 2 ? now_ns - CLOCK_WINDOW_NS - 1
                                        : times.echo_ns;
            times.echo_received_ns += kind == 3 ? 3 * MS : 0;
            clock_rate_add(&rate, &times);
        }
        assert_false(clock_rate_range(&rate, &range));
    }
}

static uint64_t nonsense(struct prng *prng, int i)
{
    return i % 3 == 0   ? UINT64_MAX - prng_below(prng, 5)
           : i % 3 == 1 ? prng_next(prng)
                        : prng_below(prng, 1000);
}

static void who_says_nonsense_does_no_harm(void **state)
{
    (void)state;
    struct clock_rate rate = {.count = 0};
    struct prng prng = {.state = 5};
    struct clock_range range;
    uint64_t local_ns = 0;
    for (int i = 0; i < 10000; i++) {
        uint64_t remote_ns = nonsense(&prng, i);
        local_ns += prng_below(&prng, 4 * NS_PER_S);
        struct clock_times times = {
            .remote_ns = i < 5000 ? remote_ns
                                  : UINT64_MAX / 2 + (uint64_t)i * 3,
            .local_ns = local_ns,
            .echo_ns = i % 7 == 0 ? nonsense(&prng, i / 7)
                                  : local_ns - prng_below(&prng, NS_PER_S),
            .echo_received_ns = i % 5 == 0 ? nonsense(&prng, i / 5) : 0};
        clock_rate_add(&rate, &times);
        if (clock_rate_range(&rate, &range)) {
            assert_true(range.low_ppm > -CLOCK_PPM_MAX);
            assert_true(range.low_ppm <= range.ppm);
            assert_true(range.ppm <= range.high_ppm);
            assert_true(range.high_ppm <= CLOCK_PPM_MAX);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_known_before_ten_seconds),
        cmocka_unit_test(a_rate_is_told_in_millionths),
        cmocka_unit_test(delays_move_it_little),
        cmocka_unit_test(what_is_late_for_seconds_does_not_move_it),
        cmocka_unit_test(a_change_of_speed_is_seen),
        cmocka_unit_test(a_clock_that_goes_back_is_another_one),
        cmocka_unit_test(lateness_is_an_error_not_a_rate),
        cmocka_unit_test(a_quick_answer_bounds_the_rate),
        cmocka_unit_test(what_acknowledges_nothing_does_not_count),
        cmocka_unit_test(who_says_nonsense_does_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
