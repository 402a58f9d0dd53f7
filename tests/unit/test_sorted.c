/* SPDX-License-Identifier: MIT */

/* Pointers in the order of their numbers. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/prng.h"
#include "base/sorted.h"

#define ITEM_COUNT 5000

static void what_was_added_stands_in_the_order_of_its_numbers(void **state)
{
    static uint64_t items[ITEM_COUNT];
    struct sorted sorted = {0};
    struct prng prng = {5};
    (void)state;
    for (size_t i = 0; i < ITEM_COUNT; i++) {
        items[i] = prng_next(&prng) << 16 | i; /* No two are equal. */
        sorted_add(&sorted, items[i], &items[i]);
    }
    sorted_sort(&sorted);
    assert_int_equal(sorted.count, ITEM_COUNT);
    for (size_t i = 0; i < ITEM_COUNT; i++) {
        assert_int_equal(sorted.at[i].number,
                         *(const uint64_t *)sorted.at[i].item);
        assert_true(i == 0 || sorted.at[i - 1].number < sorted.at[i].number);
        assert_ptr_equal(sorted_find(&sorted, items[i]), &items[i]);
    }
    assert_null(sorted_find(&sorted, items[0] ^ 1 << 15));
    sorted_done(&sorted);
}

static void nothing_is_found_in_an_empty_one(void **state)
{
    struct sorted sorted = {0};
    (void)state;
    sorted_sort(&sorted);
    assert_null(sorted_find(&sorted, 0));
    sorted_done(&sorted);
    assert_null(sorted.at);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_added_stands_in_the_order_of_its_numbers),
        cmocka_unit_test(nothing_is_found_in_an_empty_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
