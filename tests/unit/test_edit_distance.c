/* SPDX-License-Identifier: MIT */

/* The similarity of two words. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/edit_distance.h"

static void distance_counts_the_letters_to_be_mended(void **state)
{
    (void)state;
    static const struct {
        const char *a;
        const char *b;
        unsigned distance;
    } rows[] = {
        {"", "", 0},
        {"", "abc", 3},
        {"status", "status", 0},
        {"staus", "status", 1},
        {"statuss", "status", 1},
        {"stutus", "status", 1},
        {"satuts", "status", 2},
        {"lsit", "list", 1},
        {"ca", "abc", 3},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_int_equal(word_distance(rows[i].a, rows[i].b), rows[i].distance);
        assert_int_equal(word_distance(rows[i].b, rows[i].a), rows[i].distance);
    }
}

static void a_word_that_is_too_long_is_like_none(void **state)
{
    (void)state;
    char word[WORD_SIZE_MAX + 2];
    memset(word, 'a', sizeof word);
    word[WORD_SIZE_MAX + 1] = '\0';
    assert_int_equal(word_distance(word, word), WORD_SIZE_MAX);
    word[WORD_SIZE_MAX] = '\0';
    assert_int_equal(word_distance(word, word), 0);
    assert_int_equal(word_distance(word, ""), WORD_SIZE_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(distance_counts_the_letters_to_be_mended),
        cmocka_unit_test(a_word_that_is_too_long_is_like_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
