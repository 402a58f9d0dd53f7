/* SPDX-License-Identifier: MIT */

/* When a link is called slow. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/units.h"
#include "net/round_trip.h"

static uint32_t note(struct round_trip *trip, uint32_t count, uint64_t ms)
{
    uint32_t changes = 0;
    for (uint32_t i = 0; i < count; i++) {
        changes += round_trip_note(trip, ms * NS_PER_MS);
    }
    return changes;
}

static void a_link_is_slow_from_fifty_ms(void **state)
{
    (void)state;
    struct round_trip trip = {.count = 0};
    assert_int_equal(note(&trip, 8, 60), 0); /* Too few yet. */
    assert_false(trip.is_slow);
    assert_int_equal(note(&trip, 1, 60), 1);
    assert_true(trip.is_slow);
    assert_int_equal(trip.median_us, 60000);
    assert_int_equal(note(&trip, 100, 45), 0); /* Not calm yet. */
    assert_true(trip.is_slow);
    assert_int_equal(note(&trip, 100, 39), 1);
    assert_false(trip.is_slow);
    assert_int_equal(note(&trip, 100, 49), 0);
}

static void a_few_that_wait_do_not_count(void **state)
{
    (void)state;
    struct round_trip trip = {.count = 0};
    assert_int_equal(note(&trip, 20, 1), 0);
    for (int i = 0; i < 100; i++) {
        assert_int_equal(note(&trip, 4, 3000), 0);
        assert_int_equal(trip.median_us, 1000);
        assert_int_equal(note(&trip, 9, 1), 0);
    }
    /* A time that is too long to be counted. */
    assert_true(round_trip_note(&trip, UINT64_MAX) == false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_link_is_slow_from_fifty_ms),
        cmocka_unit_test(a_few_that_wait_do_not_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
