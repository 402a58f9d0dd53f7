/* SPDX-License-Identifier: MIT */

/* Each duration is counted at the first bound that is not less than it. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/histogram.h"
#include "base/units.h"

static uint32_t place_of(uint64_t ns)
{
    struct histogram histogram = {0};
    histogram_note(&histogram, ns);
    assert_int_equal(histogram_total(&histogram), 1);
    assert_int_equal(histogram.sum_us, ns / NS_PER_US);
    for (uint32_t i = 0; i <= HISTOGRAM_BOUND_COUNT; i++) {
        if (histogram.count[i] == 1) {
            return i;
        }
    }
    fail();
    return 0;
}

static void each_bound_holds_what_is_not_above_it(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < HISTOGRAM_BOUND_COUNT; i++) {
        uint64_t bound_ns = histogram_bound_us[i] * NS_PER_US;
        assert_int_equal(place_of(bound_ns), i);
        assert_int_equal(place_of(bound_ns + NS_PER_US), i + 1);
        assert_true(i == 0 ||
                    histogram_bound_us[i - 1] < histogram_bound_us[i]);
    }
    assert_int_equal(place_of(0), 0);
    assert_int_equal(place_of(UINT64_MAX), HISTOGRAM_BOUND_COUNT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_bound_holds_what_is_not_above_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
