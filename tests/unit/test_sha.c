/* SPDX-License-Identifier: MIT */

/* base/sha.h against the vectors of FIPS 180-4, and the hex digits in which
 * digests are written. */

#include "base/sha.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void sha1_is_that_of_the_standard(void **state)
{
    (void)state;
    char sha[SHA1_TEXT_SIZE], million[200];
    sha1_text(BYTES_LITERAL("abc"), sha);
    assert_string_equal(sha, "a9993e364706816aba3e25717850c26c9cd0d89d");
    sha1_text(BYTES_LITERAL(""), sha);
    assert_string_equal(sha, "da39a3ee5e6b4b0d3255bfef95601890afd80709");
    memset(million, 'a', sizeof million);
    sha1_text(bytes_of(million, 64), sha);
    assert_string_equal(sha, "0098ba824b5c16427bd7a1122a5a442a25ec644d");
    sha1_text(bytes_of(million, 119), sha);
    assert_string_equal(sha, "ee971065aaa017e0632a8ca6c77bb3bf8b1dfc56");
}

static void assert_sha256(struct bytes bytes, const char *digits)
{
    uint8_t digest[SHA256_SIZE];
    char text[2 * SHA256_SIZE + 1];
    assert_int_equal(sha256(bytes, digest), 0);
    hex_put(text, bytes_of(digest, sizeof digest));
    assert_string_equal(text, digits);
}

static void sha256_is_that_of_the_standard(void **state)
{
    (void)state;
    assert_sha256(
        BYTES_LITERAL("abc"),
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    assert_sha256(
        BYTES_LITERAL(""),
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    assert_sha256(
        BYTES_LITERAL(
            "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

static void hex_digits_are_read_in_either_case(void **state)
{
    (void)state;
    uint8_t bytes[3];
    char text[7];
    static const char *const wrong[] = {"",        "00ff1",   "00ff1g",
                                        "00ff1a0", "00 ff 1", "0x00ff"};
    assert_true(hex_get(BYTES_LITERAL("00Ff1a"), bytes, sizeof bytes));
    assert_memory_equal(bytes, "\x00\xff\x1a", 3);
    hex_put(text, bytes_of(bytes, sizeof bytes));
    assert_string_equal(text, "00ff1a");
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_false(hex_get(bytes_of_text(wrong[i]), bytes, sizeof bytes));
    }
    /* Bytes beyond ASCII, and a zero byte, are not digits. */
    assert_false(hex_get(BYTES_LITERAL("00\xff\x00\xb2\xb3"), bytes, 3));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sha1_is_that_of_the_standard),
        cmocka_unit_test(sha256_is_that_of_the_standard),
        cmocka_unit_test(hex_digits_are_read_in_either_case),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
