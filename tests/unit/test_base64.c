/* SPDX-License-Identifier: MIT */

/* The vectors of RFC 4648, and invalid encodings. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/base64.h"

static const struct {
    const char *bytes;
    const char *text;
} vectors[] = {
    {"", ""},
    {"f", "Zg=="},
    {"fo", "Zm8="},
    {"foo", "Zm9v"},
    {"foob", "Zm9vYg=="},
    {"fooba", "Zm9vYmE="},
    {"foobar", "Zm9vYmFy"},
    {"\xfb\xff\xbf", "+/+/"},
};

static void vectors_go_both_ways(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof vectors / sizeof vectors[0]; i++) {
        struct buffer out = {0};
        base64_put(&out, bytes_of_text(vectors[i].bytes));
        assert_true(
            bytes_equal(buffer_bytes(&out), bytes_of_text(vectors[i].text)));
        buffer_clear(&out);
        assert_true(base64_get(&out, bytes_of_text(vectors[i].text)));
        assert_true(
            bytes_equal(buffer_bytes(&out), bytes_of_text(vectors[i].bytes)));
        buffer_done(&out);
    }
}

static void what_nobody_writes_is_refused(void **state)
{
    static const char *const bad[] = {
        "Z",    "Zg",   "Zg=",      "Zg===", "Zh==",   "Zm9=", "=Zg=",
        "Z=g=", "====", "Zg==Zg==", "Zm 9v", "Zm9v\n", "Zm-_", "Zg=a"};
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct buffer out = {0};
        if (base64_get(&out, bytes_of_text(bad[i]))) {
            fail_msg("'%s' was taken", bad[i]);
        }
        buffer_done(&out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vectors_go_both_ways),
        cmocka_unit_test(what_nobody_writes_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
