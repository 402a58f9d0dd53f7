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

/* A pair of clocks, and messages of one each half a second. */
struct pair {
    struct clock_rate rate;
    struct prng prng;
    uint64_t true_ns;
    uint64_t permille[2]; /* Rates of the local and of the remote clock. */
    uint64_t remote_from_ns;
};

static struct pair pair_of(uint64_t local, uint64_t remote)
{
    return (struct pair){.prng = {.state = 7},
                         .permille = {local, remote},
                         .remote_from_ns = 77 * NS_PER_S};
}

/* Messages for 'ns', each 'delay_ns' late, plus a random delay of up to
 * 'more_ns'. */
static void run(struct pair *pair, uint64_t ns, uint64_t delay_ns,
                uint64_t more_ns)
{
    uint64_t end_ns = pair->true_ns + ns;
    for (; pair->true_ns < end_ns; pair->true_ns += 500 * MS) {
        uint64_t late_ns = delay_ns + prng_below(&pair->prng, more_ns + 1);
        uint64_t remote_ns = pair->remote_from_ns +
                             pair->true_ns / 1000 * pair->permille[1];
        uint64_t local_ns = (pair->true_ns + late_ns) / 1000 *
                            pair->permille[0];
        clock_rate_add(&pair->rate, local_ns, remote_ns);
    }
}

static void expect(const struct pair *pair, int32_t ppm, int32_t within)
{
    int32_t measured;
    assert_true(clock_rate_ppm(&pair->rate, &measured));
    if (abs(measured - ppm) > within) {
        fail_msg("%d ppm, not %d", (int)measured, (int)ppm);
    }
}

static void nothing_is_known_before_ten_seconds(void **state)
{
    (void)state;
    struct pair pair = pair_of(1000, 1000);
    int32_t ppm;
    assert_false(clock_rate_ppm(&pair.rate, &ppm));
    run(&pair, 10 * NS_PER_S, 1 * MS, 0);
    assert_false(clock_rate_ppm(&pair.rate, &ppm));
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
        uint64_t remote_ns = pair.remote_from_ns +
                             pair.true_ns / 1000 * pair.permille[1];
        uint64_t local_ns = pair.true_ns + (uint64_t)(3000 - 500 * i) * MS;
        clock_rate_add(&pair.rate, local_ns, remote_ns);
        pair.true_ns += 500 * MS;
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
    int32_t ppm;
    run(&pair, 30 * NS_PER_S, 1 * MS, 0);
    pair.remote_from_ns = 0;
    run(&pair, 1 * NS_PER_S, 1 * MS, 0);
    assert_false(clock_rate_ppm(&pair.rate, &ppm));
    run(&pair, 30 * NS_PER_S, 1 * MS, 0);
    expect(&pair, 0, 0);
}

static void who_says_nonsense_does_no_harm(void **state)
{
    (void)state;
    struct clock_rate rate = {.count = 0};
    struct prng prng = {.state = 5};
    uint64_t local_ns = 0;
    int32_t ppm;
    for (int i = 0; i < 10000; i++) {
        uint64_t remote_ns = i % 3 == 0   ? UINT64_MAX - prng_below(&prng, 5)
                             : i % 3 == 1 ? prng_next(&prng)
                                          : prng_below(&prng, 1000);
        local_ns += prng_below(&prng, 4 * NS_PER_S);
        clock_rate_add(&rate, local_ns,
                       i < 5000 ? remote_ns : UINT64_MAX / 2 + (uint64_t)i * 3);
        if (clock_rate_ppm(&rate, &ppm)) {
            assert_in_range(ppm + CLOCK_PPM_MAX, 0, 2 * CLOCK_PPM_MAX);
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
        cmocka_unit_test(who_says_nonsense_does_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
