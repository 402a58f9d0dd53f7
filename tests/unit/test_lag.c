/* SPDX-License-Identifier: MIT */

/* The lag of a node (node/lag.h). */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "node/lag.h"

#define MS NS_PER_MS

static void who_has_heard_no_leader_is_behind(void **state)
{
    (void)state;
    struct lag lag = {0};
    assert_true(lag_is_long(&lag, 0));
    lag_note(&lag, 0, 500, 100 * MS);
    assert_true(lag_is_long(&lag, 100 * MS));
    lag_note(&lag, 500, 500, 200 * MS);
    assert_false(lag_is_long(&lag, 200 * MS));
}

static void after_a_start_it_catches_up_first(void **state)
{
    (void)state;
    struct lag lag = {0};
    lag_note(&lag, 1000, 10, 0);
    assert_true(lag_is_long(&lag, 0));
    lag_note(&lag, 1500, 999, 10 * MS);
    assert_true(lag_is_long(&lag, 10 * MS));
    /* Entries that were added meanwhile do not count. */
    lag_note(&lag, 2000, 1000, 20 * MS);
    assert_false(lag_is_long(&lag, 20 * MS));
}

static void a_busy_node_is_always_a_little_behind(void **state)
{
    (void)state;
    struct lag lag = {0};
    uint64_t committed = 100;
    lag_note(&lag, committed, committed, 0);
    for (uint64_t ms = 1; ms < 20000; ms++) {
        committed += 1000;
        lag_note(&lag, committed, committed - 900000, ms * MS);
        assert_false(lag_is_long(&lag, ms * MS));
    }
}

static void who_stands_still_is_behind_after_a_while(void **state)
{
    (void)state;
    struct lag lag = {0};
    lag_note(&lag, 100, 100, 0);
    lag_note(&lag, 101, 100, MS);
    for (uint64_t ms = 2; ms <= 3001; ms++) {
        lag_note(&lag, 101 + ms, 100, ms * MS);
        assert_false(lag_is_long(&lag, ms * MS));
    }
    assert_true(lag_is_long(&lag, 3002 * MS));
    lag_note(&lag, 5000, 101, 3003 * MS);
    assert_false(lag_is_long(&lag, 3003 * MS));
}

/* Nothing is committed, so nothing is missing. */
static void an_idle_node_is_not_behind(void **state)
{
    (void)state;
    struct lag lag = {0};
    for (uint64_t ms = 0; ms < 10000; ms += 1000) {
        lag_note(&lag, 7, 7, ms * MS);
        assert_false(lag_is_long(&lag, ms * MS));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_has_heard_no_leader_is_behind),
        cmocka_unit_test(after_a_start_it_catches_up_first),
        cmocka_unit_test(a_busy_node_is_always_a_little_behind),
        cmocka_unit_test(who_stands_still_is_behind_after_a_while),
        cmocka_unit_test(an_idle_node_is_not_behind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
