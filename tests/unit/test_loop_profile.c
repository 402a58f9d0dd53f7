/* SPDX-License-Identifier: MIT */

/* The time of a pass of the loop, stage by stage. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/units.h"
#include "node/loop_profile.h"

static void each_stage_has_what_passed_since_the_one_before(void **state)
{
    struct loop_profile stages = {0};
    (void)state;
    loop_profile_begin(&stages, 1000);
    loop_profile_end(&stages, STAGE_RECEIVE, 1300);
    loop_profile_end(&stages, STAGE_APPLY, 2000);
    assert_int_equal(stages.spent_ns[STAGE_RECEIVE], 300);
    assert_int_equal(stages.spent_ns[STAGE_APPLY], 700);
    assert_int_equal(histogram_total(&stages.times[STAGE_APPLY]), 0);
    loop_profile_sleep(&stages);
    assert_int_equal(histogram_total(&stages.times[STAGE_RECEIVE]), 1);
    assert_int_equal(histogram_total(&stages.times[STAGE_APPLY]), 1);
    assert_int_equal(histogram_total(&stages.times[STAGE_SEND]), 0);
    assert_int_equal(stages.max_ns[STAGE_APPLY], 700);
}

static void the_turns_of_a_pass_count_together(void **state)
{
    struct loop_profile stages = {0};
    (void)state;
    loop_profile_begin(&stages, 1000);
    for (int turn = 0; turn < 3; turn++) {
        loop_profile_begin(&stages, 999999); /* It is at work already. */
        loop_profile_end(&stages, STAGE_APPLY, stages.at_ns + 10 * NS_PER_MS);
        loop_profile_end(&stages, STAGE_REPLY, stages.at_ns + NS_PER_MS);
    }
    loop_profile_sleep(&stages);
    assert_int_equal(histogram_total(&stages.times[STAGE_APPLY]), 1);
    assert_int_equal(stages.times[STAGE_APPLY].sum_us, 30000);
    assert_int_equal(stages.max_ns[STAGE_APPLY], 30 * NS_PER_MS);
    assert_int_equal(stages.max_ns[STAGE_REPLY], 3 * NS_PER_MS);
}

static void sleep_is_no_stage(void **state)
{
    struct loop_profile stages = {0};
    (void)state;
    loop_profile_end(&stages, STAGE_REST, 5000); /* It has slept until now. */
    assert_int_equal(stages.spent_ns[STAGE_REST], 0);
    loop_profile_begin(&stages, 6000);
    loop_profile_end(&stages, STAGE_RECEIVE, 6100);
    loop_profile_sleep(&stages);
    loop_profile_end(&stages, STAGE_RECEIVE, 9000);
    loop_profile_sleep(&stages);
    assert_int_equal(histogram_total(&stages.times[STAGE_RECEIVE]), 1);
    assert_int_equal(stages.max_ns[STAGE_RECEIVE], 100);
}

static void the_longest_of_this_pass_is_told(void **state)
{
    struct loop_profile stages = {0};
    (void)state;
    assert_string_equal(loop_profile_longest(&stages), "none");
    loop_profile_begin(&stages, 1000);
    loop_profile_end(&stages, STAGE_PROPOSE, 1010);
    loop_profile_end(&stages, STAGE_TABLE, 1030);
    loop_profile_end(&stages, STAGE_REPLY, 1040);
    assert_string_equal(loop_profile_longest(&stages), "table");
    loop_profile_sleep(&stages);
    assert_string_equal(loop_profile_longest(&stages), "none");
    for (int i = 0; i < STAGE_COUNT; i++) {
        assert_true(strlen(stage_names[i]) > 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_stage_has_what_passed_since_the_one_before),
        cmocka_unit_test(the_turns_of_a_pass_count_together),
        cmocka_unit_test(sleep_is_no_stage),
        cmocka_unit_test(the_longest_of_this_pass_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
