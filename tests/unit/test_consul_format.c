/* SPDX-License-Identifier: MIT */

/* The texts of Consul's protocol. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "http/consul_format.h"

static void an_id_is_a_uuid_and_back(void **state)
{
    (void)state;
    static const struct consul_id ids[] = {
        {1, 1},
        {(UINT64_C(1) << 53) - 1, UINT64_MAX},
        {62380494028805, UINT64_C(0x8000000000000001)},
        {UINT64_C(1) << 52, UINT64_C(1) << 57},
        {12345, 0}};
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
        char text[CONSUL_ID_SIZE];
        struct consul_id back = {0};
        consul_id_put(&ids[i], text);
        assert_int_equal(strlen(text), 36);
        assert_int_equal(text[14], '4');
        assert_non_null(strchr("89ab", text[19]));
        assert_true(consul_id_get(bytes_of_text(text), &back));
        assert_true(back.session == ids[i].session);
        assert_true(back.random == ids[i].random);
    }
}

static void every_bit_of_an_id_counts(void **state)
{
    (void)state;
    struct consul_id id = {62380494028805, UINT64_C(0x123456789abcdef0)}, back;
    char text[CONSUL_ID_SIZE];
    consul_id_put(&id, text);
    for (size_t i = 0; i < strlen(text); i++) {
        for (const char *c = "0123456789abcdef-g"; *c != '\0'; c++) {
            char other[CONSUL_ID_SIZE];
            memcpy(other, text, sizeof other);
            other[i] = *c;
            bool is_same = strcmp(other, text) == 0;
            if (consul_id_get(bytes_of_text(other), &back) && !is_same) {
                assert_true(back.session != id.session ||
                            back.random != id.random);
            }
        }
    }
    for (char *c = text; *c != '\0'; c++) {
        *c = (char)(*c >= 'a' && *c <= 'f' ? *c - 32 : *c);
    }
    assert_true(consul_id_get(bytes_of_text(text), &back));
}

static void what_is_no_id_is_refused(void **state)
{
    (void)state;
    static const char *const wrong[] = {"",
                                        "x",
                                        "00000000-0000-0000-0000-000000000000",
                                        "00000000-0000-4000-8000-000000000000",
                                        "0038bc00-0000-4500-8000-0000000000001",
                                        "0038bc00000045008000000000000000",
                                        "123e4567-e89b-12d3-a456-426614174000",
                                        "------------------------------------"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct consul_id id;
        assert_false(consul_id_get(bytes_of_text(wrong[i]), &id));
    }
    char nobody[CONSUL_ID_SIZE];
    consul_id_put(&(struct consul_id){0}, nobody);
    assert_string_equal(nobody, wrong[2]);
}

static void an_owner_shows_the_random_number(void **state)
{
    (void)state;
    struct consul_id id = {7, UINT64_C(0x00ff00000000abcd)};
    char owner[CONSUL_OWNER_SIZE], secret[CONSUL_SECRET_SIZE];
    consul_id_owner(&id, owner);
    assert_string_equal(owner, "consul-00ff00000000abcd");
    assert_true(consul_owner_random(bytes_of_text(owner)) == id.random);
    assert_true(consul_owner_random(BYTES_LITERAL("consul-1")) == 0);
    assert_true(consul_owner_random(BYTES_LITERAL("")) == 0);
    consul_id_secret(&id, secret);
    assert_int_equal(strlen(secret), 32);
    assert_int_equal(strspn(secret, "0123456789abcdef"), 32);
}

static void durations_are_read_as_go_reads_them(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t ns; /* Below 0: none. */
    } cases[] = {{"15s", 15000000000},
                 {"15.0s", 15000000000},
                 {"0.001s", 1000000},
                 {"1m30s", 90000000000},
                 {"1h", 3600000000000},
                 {"100ms", 100000000},
                 {"5us", 5000},
                 {"5\xc2\xb5s", 5000},
                 {"1.5ns", 1},
                 {".5s", 500000000},
                 {"1.s", 1000000000},
                 {"0.123456789123s", 123456789},
                 {"0", 0},
                 {"0s", 0},
                 {"+3s", 3000000000},
                 {"", -1},
                 {"15", -1},
                 {"s", -1},
                 {".s", -1},
                 {"-1s", -1},
                 {"1 s", -1},
                 {"1.2.3s", -1},
                 {"15x", -1},
                 {"99999999999999999999999h", -1},
                 {"1000000h1000000h", -1},
                 {"9999999h", -1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint64_t ns = 0;
        bool is_one = consul_duration_get(bytes_of_text(cases[i].text), &ns);
        assert_int_equal(is_one, cases[i].ns >= 0);
        assert_true(!is_one || ns == (uint64_t)cases[i].ns);
    }
}

static void a_value_keeps_its_flags(void **state)
{
    (void)state;
    struct buffer value = {0};
    uint64_t flags;
    consul_value_put(&value, 42, BYTES_LITERAL("a\0b"));
    assert_int_equal(value.size, CONSUL_VALUE_HEAD + 3);
    assert_true(bytes_equal(consul_value_get(buffer_bytes(&value), &flags),
                            BYTES_LITERAL("a\0b")));
    assert_true(flags == 42);
    /* A value of another kind of client is a body. */
    value.data[3] ^= 1;
    assert_true(bytes_equal(consul_value_get(buffer_bytes(&value), &flags),
                            buffer_bytes(&value)));
    assert_true(flags == CONSUL_LOCK_FLAGS);
    assert_true(consul_value_get(BYTES_LITERAL(""), &flags).size == 0);
    buffer_done(&value);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_id_is_a_uuid_and_back),
        cmocka_unit_test(every_bit_of_an_id_counts),
        cmocka_unit_test(what_is_no_id_is_refused),
        cmocka_unit_test(an_owner_shows_the_random_number),
        cmocka_unit_test(durations_are_read_as_go_reads_them),
        cmocka_unit_test(a_value_keeps_its_flags),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
