/* SPDX-License-Identifier: MIT */

/* traceparent: what is valid, and that everything else is ignored. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/traceparent.h"

#define GOOD "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

static void a_valid_one_is_kept_as_it_is(void **state)
{
    uint8_t trace[TRACE_SIZE];
    char out[TRACE_TEXT_SIZE];
    (void)state;
    assert_true(traceparent_parse(bytes_of_text(GOOD), trace));
    assert_true(traceparent_is_set(trace));
    assert_int_equal(trace[0], 0x4b);
    assert_int_equal(trace[TRACE_SIZE - 1], 1);
    traceparent_format(trace, out);
    assert_string_equal(out, GOOD);
}

static void a_later_version_is_read_up_to_its_flags(void **state)
{
    static const char
        later[] = "cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    uint8_t trace[TRACE_SIZE];
    char out[TRACE_TEXT_SIZE], longer[128];
    (void)state;
    assert_true(traceparent_parse(bytes_of_text(later), trace));
    snprintf(longer, sizeof longer, "%s-what.the-future", later);
    assert_true(traceparent_parse(bytes_of_text(longer), trace));
    traceparent_format(trace, out);
    assert_string_equal(out, GOOD);
    snprintf(longer, sizeof longer, "%s.what", later);
    assert_false(traceparent_parse(bytes_of_text(longer), trace));
}

static void everything_else_is_no_trace(void **state)
{
    static const char *const bad[] = {
        "",
        "00",
        GOOD "-", /* Version 00 has exactly this length. */
        GOOD "-extra",
        GOOD " ",
        "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
        "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
        "00-4bf92f3577b34da6a3ce929d0e0e473g-00f067aa0ba902b7-01",
        "00_4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "00-4bf92f3577b34da6a3ce929d0e0e4736_00f067aa0ba902b7-01",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7_01",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0x",
        "0x-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "\"' OR 1=1;\r\nSET a b\r\n",
    };
    uint8_t trace[TRACE_SIZE];
    char out[TRACE_TEXT_SIZE], big[4096];
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        memset(trace, 1, sizeof trace);
        assert_false(traceparent_parse(bytes_of_text(bad[i]), trace));
        assert_false(traceparent_is_set(trace));
    }
    traceparent_format(trace, out);
    assert_string_equal(out, "");
    memset(big, 'a', sizeof big);
    memcpy(big, "01", 2);
    memcpy(big + 2, &GOOD[2], sizeof GOOD - 3);
    big[sizeof GOOD - 1] = '-';
    assert_true(traceparent_parse(bytes_of(big, TRACE_TEXT_SIZE_MAX), trace));
    assert_false(
        traceparent_parse(bytes_of(big, TRACE_TEXT_SIZE_MAX + 1), trace));
}

/* Each byte of a valid text replaced by each other value. */
static void each_changed_byte_is_read_or_ignored(void **state)
{
    uint8_t text[sizeof GOOD - 1], trace[TRACE_SIZE];
    char out[TRACE_TEXT_SIZE];
    (void)state;
    for (size_t i = 0; i < sizeof text; i++) {
        for (int c = 0; c < 256; c++) {
            memcpy(text, GOOD, sizeof text);
            text[i] = (uint8_t)c;
            bool is_good = traceparent_parse(bytes_of(text, sizeof text),
                                             trace);
            traceparent_format(trace, out);
            if (is_good) {
                assert_memory_equal(out + 2, text + 2, sizeof text - 2);
            } else {
                assert_string_equal(out, "");
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_valid_one_is_kept_as_it_is),
        cmocka_unit_test(a_later_version_is_read_up_to_its_flags),
        cmocka_unit_test(everything_else_is_no_trace),
        cmocka_unit_test(each_changed_byte_is_read_or_ignored),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
