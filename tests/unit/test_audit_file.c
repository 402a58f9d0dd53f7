/* SPDX-License-Identifier: MIT */

/* Acts that a file will never contain (node/audit_file.h). */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "node/audit_file.h"

static void what_follows_has_no_gap(void **state)
{
    (void)state;
    struct audit_gap gap;
    struct audit_source source = {"b", 81, 1};
    struct audit_place empty = {"", 0};
    struct audit_place behind = {"b", 90};
    struct audit_place ahead = {"b", 900};
    /* Of an earlier life, and it has all of that; or not yet. */
    struct audit_place earlier = {"a", 80};
    struct audit_place unknown = {"", 40};
    assert_false(audit_gap_next(&empty, &source, &gap));
    assert_false(audit_gap_next(&behind, &source, &gap));
    assert_false(audit_gap_next(&ahead, &source, &gap));
    assert_false(audit_gap_next(&earlier, &source, &gap));
    assert_false(audit_gap_next(&unknown, &source, &gap));
    assert_int_equal(ahead.number, 900);
    source.oldest = 91; /* The next one is the first that is stored. */
    assert_false(audit_gap_next(&behind, &source, &gap));
}

static void what_the_state_has_forgotten_is_one(void **state)
{
    (void)state;
    struct audit_gap gap;
    struct audit_source source = {"b", 81, 92};
    struct audit_place place = {"b", 90};
    assert_true(audit_gap_next(&place, &source, &gap));
    assert_int_equal(gap.from, 91);
    assert_int_equal(gap.to, 91);
    assert_int_equal(place.number, 91);
    assert_false(audit_gap_next(&place, &source, &gap));
}

static void what_a_restore_has_undone_is_one(void **state)
{
    (void)state;
    struct audit_gap gap;
    struct audit_source source = {"b", 81, 1};
    struct audit_place place = {"a", 81};
    assert_true(audit_gap_next(&place, &source, &gap));
    assert_int_equal(gap.from, 81);
    assert_int_equal(gap.to, 81);
    assert_int_equal(place.number, 80);
    assert_string_equal(place.cluster, "b");
    assert_false(audit_gap_next(&place, &source, &gap));
}

static void both_may_be(void **state)
{
    (void)state;
    struct audit_gap gap;
    struct audit_source source = {"b", 81, 100};
    struct audit_place place = {"a", 500};
    assert_true(audit_gap_next(&place, &source, &gap));
    assert_int_equal(gap.from, 81);
    assert_int_equal(gap.to, 500);
    assert_true(audit_gap_next(&place, &source, &gap));
    assert_int_equal(gap.from, 81);
    assert_int_equal(gap.to, 99);
    assert_int_equal(place.number, 99);
    assert_false(audit_gap_next(&place, &source, &gap));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_follows_has_no_gap),
        cmocka_unit_test(what_the_state_has_forgotten_is_one),
        cmocka_unit_test(what_a_restore_has_undone_is_one),
        cmocka_unit_test(both_may_be),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
