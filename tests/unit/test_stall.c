/* SPDX-License-Identifier: MIT */

/* node/stall: the time up to which all input has been read, in a loop that runs
 * late. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "node/stall.h"

#define LATE_NS (2 * STALL_NS)

static void a_loop_in_time_has_read_all(void **state)
{
    (void)state;
    struct stall stall;
    stall_init(&stall, 1000);
    assert_false(stall_note(&stall, 1000, 1000 + STALL_NS));
    assert_false(stall_pass(&stall, false, 1000 + STALL_NS));
    assert_int_equal(stall_read(&stall, 5000 + STALL_NS), 5000 + STALL_NS);
}

static void after_a_stall_two_passes_are_needed(void **state)
{
    (void)state;
    struct stall stall;
    uint64_t late = 1000 + LATE_NS;
    stall_init(&stall, 0);
    assert_int_equal(stall_read(&stall, 1000), 1000);
    assert_true(stall_note(&stall, 1000, late));
    assert_int_equal(stall_read(&stall, late), 1000);
    assert_false(stall_pass(&stall, false, late + 1));
    assert_int_equal(stall_read(&stall, late + 1), 1000);
    assert_true(stall_pass(&stall, false, late + 2));
    assert_false(stall_is_on(&stall));
    assert_int_equal(stall_read(&stall, late + 2), late + 2);
}

static void a_new_connection_takes_another_pass_up_to_a_bound(void **state)
{
    (void)state;
    struct stall stall;
    stall_init(&stall, 0);
    assert_true(stall_note(&stall, 0, LATE_NS));
    assert_false(stall_pass(&stall, true, LATE_NS));
    assert_false(stall_pass(&stall, false, LATE_NS));
    assert_true(stall_is_on(&stall));
    assert_true(stall_pass(&stall, false, LATE_NS));

    int passes = 1;
    assert_true(stall_note(&stall, LATE_NS, 2 * LATE_NS));
    while (!stall_pass(&stall, true, 2 * LATE_NS)) {
        passes++;
        assert_true(passes < 100);
    }
    assert_true(passes > 2);
}

/* Each pass takes longer than a tick: input that had arrived when the passes
 * began is read at their end all the same, and others begin for the rest. */
static void
a_loop_that_is_always_late_lags_and_does_not_stand_still(void **state)
{
    (void)state;
    struct stall stall;
    uint64_t now = 0;
    stall_init(&stall, 0);
    for (int i = 0; i < 20; i++) {
        bool was_on = stall_is_on(&stall);
        uint64_t before = now;
        now += LATE_NS;
        assert_true(stall_note(&stall, before, now));
        if (was_on) {
            stall_pass(&stall, false, now);
        }
        assert_true(stall_is_on(&stall));
        assert_true(stall_read(&stall, now) <= now - LATE_NS);
        assert_true(stall_read(&stall, now) + 4 * LATE_NS >= now);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_loop_in_time_has_read_all),
        cmocka_unit_test(after_a_stall_two_passes_are_needed),
        cmocka_unit_test(a_new_connection_takes_another_pass_up_to_a_bound),
        cmocka_unit_test(
            a_loop_that_is_always_late_lags_and_does_not_stand_still),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
