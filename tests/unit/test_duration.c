/* SPDX-License-Identifier: MIT */

/* Lengths of time as text. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/duration.h"

static void each_unit_is_read(void **state)
{
    static const struct {
        const char *text;
        uint64_t time_ms;
    } cases[] = {
        {"0", 0},          {"10", 10000},
        {"0.5", 500},      {"500ms", 500},
        {"10s", 10000},    {"2m", 120000},
        {"1.5h", 5400000}, {"1d", 86400000},
        {"1e3ms", 1000},   {"0.0004s", 0},
        {"0.0006s", 1},    {"1000000000000s", 1000000000000000},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint64_t time_ms = 7;
        assert_true(duration_parse(cases[i].text, &time_ms));
        assert_int_equal(time_ms, cases[i].time_ms);
    }
}

static void what_is_no_length_of_time_is_refused(void **state)
{
    static const char *const texts[] = {
        "",     "s",   "-1",  "+1",  " 1",   "1 s",   "1x",
        "0x10", "0X1", "nan", "inf", "1ms2", "1e400", "1000000000001s",
        ".5",
    };
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        uint64_t time_ms = 7;
        assert_false(duration_parse(texts[i], &time_ms));
        assert_int_equal(time_ms, 7);
    }
}

static void two_places_of_the_largest_units_are_written(void **state)
{
    static const struct {
        uint64_t time_ms;
        const char *text;
    } cases[] = {
        {0, "0ms"},
        {999, "999ms"},
        {1000, "1.0s"},
        {59999, "59.9s"},
        {60000, "1m00s"},
        {3599999, "59m59s"},
        {3600000, "1h00m"},
        {86399999, "23h59m"},
        {86400000, "1d00h"},
        {273600000, "3d04h"},
        {UINT64_MAX, "213503982334d14h"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[DURATION_TEXT_SIZE];
        duration_format(cases[i].time_ms, text);
        assert_string_equal(text, cases[i].text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_unit_is_read),
        cmocka_unit_test(what_is_no_length_of_time_is_refused),
        cmocka_unit_test(two_places_of_the_largest_units_are_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
