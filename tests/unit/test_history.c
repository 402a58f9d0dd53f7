/* SPDX-License-Identifier: MIT */

/* When each entry was applied, according to the marks and to a full record. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/units.h"
#include "core/events/history.h"
#include "tests/unit/drawn.h"

#define SPACING_MS 10 /* Distance of the newest marks. */

static void what_is_new_is_told_to_a_few_milliseconds(void **state)
{
    struct history history = {0};
    (void)state;
    history_begin(&history, 7, 5 * NS_PER_MS);
    assert_int_equal(history_age_ms(&history, 1, 5 * NS_PER_MS), 0);
    assert_int_equal(history_age_ms(&history, 7, 45 * NS_PER_MS), 40);
    assert_int_equal(history_age_ms(&history, 8, 45 * NS_PER_MS), 0);
    /* The first entry after the start gets a mark of its own, however soon. */
    history_add(&history, 8, 6 * NS_PER_MS);
    assert_int_equal(history.count, 2);
    history_add(&history, 9, 16 * NS_PER_MS - 1); /* Joins it. */
    assert_int_equal(history.count, 2);
    assert_int_equal(history_age_ms(&history, 9, 20 * NS_PER_MS), 14);
    history_add(&history, 10, 16 * NS_PER_MS); /* Ten milliseconds later. */
    assert_int_equal(history.count, 3);
    assert_int_equal(history_age_ms(&history, 10, 20 * NS_PER_MS), 4);
    assert_int_equal(history_age_ms(&history, 9, 20 * NS_PER_MS), 14);
    assert_int_equal(history_age_ms(&history, 7, 20 * NS_PER_MS), 15);
    history_add(&history, 10, 90 * NS_PER_MS); /* It is known. */
    history_add(&history, 3, 90 * NS_PER_MS);
    assert_int_equal(history.count, 3);
    assert_int_equal(history_age_ms(&history, 10, 15 * NS_PER_MS), 0);
    history_begin(&history, 20, 100 * NS_PER_MS); /* Again. */
    assert_int_equal(history.count, 1);
    assert_int_equal(history_age_ms(&history, 1, 101 * NS_PER_MS), 1);
    history_done(&history);
    assert_null(history.marks);
}

/* No entry is reported as older by more than the spacing, or as younger by more
 * than a share of its age, however long the log grows. */
static void each_age_is_right_to_a_share_of_it(void **state)
{
    enum { COUNT = 60000 };
    uint64_t *applied_ms = malloc(COUNT * sizeof *applied_ms);
    struct history history = {0};
    struct drawn drawn = {3};
    uint64_t now_ms = 1000;
    (void)state;
    assert_non_null(applied_ms);
    history_begin(&history, 0, now_ms * NS_PER_MS);
    applied_ms[0] = now_ms;
    for (uint64_t i = 1; i < COUNT; i++) {
        now_ms += drawn_below(&drawn, 40);
        applied_ms[i] = now_ms;
        history_add(&history, i, now_ms * NS_PER_MS);
        assert_true(history.count <= HISTORY_MARK_COUNT);
        if (i % 997 != 0) {
            continue;
        }
        for (uint64_t k = 0; k <= i; k += 1 + i / 300) {
            uint64_t age_ms = now_ms - applied_ms[k];
            uint64_t told_ms = history_age_ms(&history, k, now_ms * NS_PER_MS);
            if (told_ms > age_ms + SPACING_MS ||
                told_ms + age_ms / 50 + 2 * SPACING_MS < age_ms) {
                fail_msg("%u of %u: %u ms, told as %u", (unsigned)k,
                         (unsigned)i, (unsigned)age_ms, (unsigned)told_ms);
            }
        }
        for (uint32_t m = 1; m < history.count; m++) {
            assert_true(history.marks[m - 1].log_index <
                        history.marks[m].log_index);
            assert_true(history.marks[m - 1].ns < history.marks[m].ns);
        }
    }
    /* The start is kept, and so are the newest, one by one. */
    assert_int_equal(history.marks[0].log_index, 0);
    assert_int_equal(history.marks[history.count - 1].log_index, COUNT - 1);
    history_done(&history);
    free(applied_ms);
}

/* Eleven hours of fifty entries a second; then nothing but one a day. */
static void a_long_life_is_remembered(void **state)
{
    struct history history = {0};
    const uint64_t count = 2000000, step_ms = 20, day_ms = 86400000;
    (void)state;
    history_begin(&history, 0, 0);
    for (uint64_t i = 1; i <= count; i++) {
        history_add(&history, i, i * step_ms * NS_PER_MS);
    }
    for (uint64_t k = 1; k < count; k *= 2) {
        uint64_t age_ms = (count - k) * step_ms;
        uint64_t told_ms = history_age_ms(&history, k,
                                          count * step_ms * NS_PER_MS);
        assert_in_range(told_ms, age_ms - age_ms / 50, age_ms + SPACING_MS);
    }
    /* 27 years. */
    for (uint64_t i = 1; i <= 10000; i++) {
        uint64_t now_ms = count * step_ms + i * day_ms;
        history_add(&history, count + i, now_ms * NS_PER_MS);
        if (i % 1000 == 0) {
            uint64_t age_ms = (i - i / 2) * day_ms;
            uint64_t told_ms = history_age_ms(&history, count + i / 2,
                                              now_ms * NS_PER_MS);
            assert_in_range(told_ms, age_ms - age_ms / 50, age_ms);
        }
    }
    history_done(&history);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_new_is_told_to_a_few_milliseconds),
        cmocka_unit_test(each_age_is_right_to_a_share_of_it),
        cmocka_unit_test(a_long_life_is_remembered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
