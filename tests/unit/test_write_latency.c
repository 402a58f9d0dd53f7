/* SPDX-License-Identifier: MIT */

/* When the disk is slow, when it hangs, and when it is healthy again. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "node/write_latency.h"

static void a_write_is_slow_while_it_lasts_too_long(void **state)
{
    struct write_latency writes = {.slow_ns = 100, .hangs_ns = 500};
    (void)state;
    assert_int_equal(write_latency_look(&writes, 5000), 0);
    write_latency_began(&writes, 1000);
    write_latency_began(&writes, 1050); /* It is the same one. */
    assert_int_equal(write_latency_look(&writes, 1100), 100);
    assert_false(writes.is_slow);
    assert_int_equal(write_latency_look(&writes, 1101), 101);
    assert_true(writes.is_slow);
    write_latency_ended(&writes, 1150);
    assert_int_equal(write_latency_look(&writes, 1151), 0);
    assert_false(writes.is_slow);
}

static void what_has_not_been_read_may_have_ended(void **state)
{
    struct write_latency writes = {.slow_ns = 100, .hangs_ns = 500};
    (void)state;
    write_latency_began(&writes, 1000);
    assert_int_equal(write_latency_look(&writes, 900), 0);
    assert_false(writes.is_slow);
}

static void a_disk_that_writes_without_a_pause_gets_well_again(void **state)
{
    struct write_latency writes = {.slow_ns = 100, .hangs_ns = 500};
    (void)state;
    write_latency_began(&writes, 1000);
    write_latency_look(&writes, 1500);
    write_latency_ended(&writes, 1500);
    write_latency_began(&writes, 1500);
    write_latency_look(&writes, 1510); /* The last one was slow: unknown. */
    assert_true(writes.is_slow);
    write_latency_ended(&writes, 1520);
    write_latency_began(&writes, 1520);
    write_latency_look(&writes, 1530);
    assert_false(writes.is_slow);
}

static void a_write_hangs_after_a_time_of_its_own(void **state)
{
    struct write_latency writes = {.slow_ns = 100, .hangs_ns = 500};
    (void)state;
    write_latency_began(&writes, 1000);
    assert_false(
        write_latency_hang(&writes, write_latency_look(&writes, 1500)));
    assert_true(write_latency_hang(&writes, write_latency_look(&writes, 1501)));
}

static void writes_are_counted_and_summed(void **state)
{
    struct write_latency writes = {.slow_ns = 100, .hangs_ns = 500};
    (void)state;
    write_latency_ended(&writes, 10); /* None was in flight. */
    write_latency_began(&writes, 1000);
    write_latency_ended(&writes, 301000);
    write_latency_began(&writes, 400000);
    write_latency_ended(&writes, 410000);
    assert_int_equal(histogram_total(&writes.times), 2);
    for (uint32_t i = 0; i < HISTOGRAM_BOUND_COUNT; i++) {
        uint64_t bound_us = histogram_bound_us[i];
        assert_int_equal(writes.times.count[i],
                         bound_us == 25 || bound_us == 500);
    }
    assert_int_equal(writes.times.sum_us, 310);
    assert_int_equal(writes.max_ns, 300000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_write_is_slow_while_it_lasts_too_long),
        cmocka_unit_test(what_has_not_been_read_may_have_ended),
        cmocka_unit_test(a_disk_that_writes_without_a_pause_gets_well_again),
        cmocka_unit_test(a_write_hangs_after_a_time_of_its_own),
        cmocka_unit_test(writes_are_counted_and_summed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
