/* SPDX-License-Identifier: MIT */

/* Runs of bytes: globs beside a naive matcher, UTF-8 for each code point,
 * numbers and hex at their ends, words, buffers and readers. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/bytes.h"
#include "base/size.h"
#include "tests/unit/drawn.h"

/* --- Globs ---------------------------------------------------------------- */

/* The class after '[', as the set of characters it matches; returns the text
 * after it. */
static const char *naive_class(const char *p, const char *end, bool set[256])
{
    bool is_negated = p < end && *p == '^';
    memset(set, 0, 256 * sizeof *set);
    p += is_negated;
    for (; p < end && *p != ']'; p++) {
        p += *p == '\\' && p + 1 < end;
        uint8_t low = (uint8_t)*p, high = low;
        if (end - p > 2 && p[1] == '-' && p[2] != ']') {
            high = (uint8_t)p[2];
            p += 2;
        }
        for (int c = low; c <= high; c++) {
            set[c] = true;
        }
    }
    for (int c = 0; c < 256; c++) {
        set[c] = set[c] != is_negated;
    }
    return p < end ? p + 1 : p;
}

static bool naive_match(const char *p, const char *end, const char *t,
                        const char *text_end)
{
    if (p == end) {
        return t == text_end;
    }
    if (*p == '*') {
        for (const char *rest = t; rest <= text_end; rest++) {
            if (naive_match(p + 1, end, rest, text_end)) {
                return true;
            }
        }
        return false;
    }
    if (t == text_end) {
        return false;
    }
    bool set[256] = {false};
    const char *next = p + 1;
    if (*p == '[') {
        next = naive_class(p + 1, end, set);
    } else if (*p == '\\' && p + 1 < end) {
        set[(uint8_t)p[1]] = true;
        next = p + 2;
    } else {
        set[(uint8_t)*p] = true;
    }
    return (*p == '?' || set[(uint8_t)*t]) &&
           naive_match(next, end, t + 1, text_end);
}

static void a_glob_matches_what_a_naive_matcher_does(void **state)
{
    static const char letters[] = "ab*?[]^-\\*[a";
    struct drawn drawn = {1};
    uint32_t matches = 0;
    (void)state;
    for (int i = 0; i < 300000; i++) {
        char p[8], t[6];
        size_t size = drawn_text(&drawn, letters,
                                 drawn_below(&drawn, sizeof p + 1), p);
        size_t text_size = drawn_text(&drawn, "ab-]^\\c",
                                      drawn_below(&drawn, sizeof t + 1), t);
        struct bytes pattern = bytes_of(p, size), text = bytes_of(t, text_size);
        struct bytes fixed = bytes_fixed(pattern);
        uint64_t steps = 0;
        bool is_match = naive_match(p, p + size, t, t + text_size);
        if (bytes_match_counted(pattern, text, &steps) != is_match) {
            fail_msg("'%.*s' and '%.*s'", (int)size, p, (int)text_size, t);
        }
        assert_true(bytes_match(pattern, text) == is_match);
        assert_true(steps <= 3 * (size + 1) * (text_size + 1));
        assert_true(!is_match || bytes_has_prefix(text, fixed));
        assert_true(fixed.size == size ||
                    strchr("*?[\\", p[fixed.size]) != NULL);
        for (size_t at = 0; at < fixed.size; at++) {
            assert_null(strchr("*?[\\", p[at]));
        }
        matches += is_match;
    }
    assert_true(matches > 10000);
}

static void a_glob_counts_what_it_looks_at(void **state)
{
    static const struct {
        const char *pattern, *text;
        uint64_t steps;
    } cases[] = {{"", "", 0},      {"abc", "abc", 6},  {"a?c", "abd", 6},
                 {"[ab]", "b", 5}, {"*b", "aab", 6},   {"\\*", "*", 3},
                 {"", "a", 1},     {"*", "aaaaaa", 6}, {"a*", "", 0}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint64_t steps = 0;
        (void)bytes_match_counted(bytes_of_text(cases[i].pattern),
                                  bytes_of_text(cases[i].text), &steps);
        if (steps != cases[i].steps) {
            fail_msg("'%s': %u steps", cases[i].pattern, (unsigned)steps);
        }
    }
}

/* --- Characters ----------------------------------------------------------- */

/* Encodes the code in 'size' bytes, valid or not. */
static struct bytes encoded(uint32_t code, size_t size, uint8_t out[4])
{
    static const uint8_t heads[] = {0, 0, 0xc0, 0xe0, 0xf0};
    for (size_t i = size - 1; i > 0; i--) {
        out[i] = (uint8_t)(0x80 | (code & 0x3f));
        code >>= 6;
    }
    out[0] = (uint8_t)(heads[size] | code);
    return bytes_of(out, size);
}

static bool naive_printable(uint32_t code)
{
    return code >= 0x20 && !(code >= 0x7f && code <= 0x9f) &&
           !(code >= 0xd800 && code <= 0xdfff) &&
           !(code >= 0x2028 && code <= 0x202e) &&
           !(code >= 0x2066 && code <= 0x2069) && code <= 0x10ffff;
}

static void each_character_is_known(void **state)
{
    static const uint32_t firsts[] = {0, 0, 0x80, 0x800, 0x10000, 0x200000};
    uint8_t out[4];
    (void)state;
    for (uint32_t code = 0; code < 0x200000; code++) {
        for (size_t size = 1; size <= 4; size++) {
            if (size < 4 && code >= firsts[size + 1]) {
                continue; /* There is no room for it. */
            }
            struct bytes text = encoded(code, size, out);
            bool is_right = code >= firsts[size] && naive_printable(code);
            if (bytes_printable(text) != (is_right ? size : 0)) {
                fail_msg("U+%04X in %u bytes", (unsigned)code, (unsigned)size);
            }
            text.size--; /* It is cut off. */
            assert_true(size == 1 || bytes_printable(text) == 0);
        }
    }
    for (int first = 0x80; first < 0x100; first++) { /* Not a first byte. */
        uint8_t wrong[] = {(uint8_t)first, 'a', 'a', 'a'};
        assert_int_equal(bytes_printable(bytes_of(wrong, 4)), 0);
    }
    assert_int_equal(bytes_printable(BYTES_LITERAL("\xc3\xa4z")), 2);
}

static void what_is_shown_can_be_printed(void **state)
{
    char out[BYTES_SHOWN_SIZE];
    char text[60];
    (void)state;
    assert_string_equal(bytes_shown(BYTES_LITERAL("a\x1f ~\x7f\xc3"), out),
                        "a? ~??");
    memset(text, 'x', sizeof text);
    for (size_t size = 38; size < 44; size++) {
        bytes_shown(bytes_of(text, size), out);
        assert_int_equal(strlen(out), size < 40 ? size : 40);
    }
}

/* --- Words and order ------------------------------------------------------ */

static int sign(int order)
{
    return (order > 0) - (order < 0);
}

static void runs_are_ordered_and_compared(void **state)
{
    static const char *const ascending[] = {"",  "a",  "aa", "ab",
                                            "b", "ba", "c"};
    (void)state;
    for (int i = 0; i < 7; i++) {
        for (int j = 0; j < 7; j++) {
            struct bytes a = bytes_of_text(ascending[i]);
            struct bytes b = bytes_of_text(ascending[j]);
            bool begins = strncmp(ascending[i], ascending[j], b.size) == 0;
            assert_int_equal(sign(bytes_compare(a, b)), sign(i - j));
            assert_true(bytes_equal(a, b) == (i == j));
            assert_true(bytes_has_prefix(a, b) == begins);
        }
    }
}

static void a_word_has_no_case(void **state)
{
    static const char *const others[] = {"",     "WOR",  "WORDS",      "WORx",
                                         "wo d", "{ORD", "wor\x44\x44"};
    (void)state;
    assert_true(bytes_is_word(BYTES_LITERAL("word"), "WORD"));
    assert_true(bytes_is_word(BYTES_LITERAL("WoRd"), "WORD"));
    assert_true(bytes_is_word(BYTES_LITERAL("azAZ09-"), "AZAZ09-"));
    assert_true(bytes_is_word(BYTES_LITERAL(""), ""));
    assert_false(bytes_is_word(BYTES_LITERAL("`"), "@"));
    assert_false(bytes_is_word(BYTES_LITERAL("{"), "["));
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        assert_false(bytes_is_word(bytes_of_text(others[i]), "WORD"));
    }
}

static void a_run_is_cut_at_a_mark(void **state)
{
    struct bytes rest = BYTES_LITERAL("a=b==");
    static const char *const parts[] = {"a", "b", "", "", ""};
    (void)state;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        struct bytes part = bytes_cut(&rest, '=');
        assert_true(bytes_equal(part, bytes_of_text(parts[i])));
    }
    assert_int_equal(rest.size, 0);
}

/* --- Numbers -------------------------------------------------------------- */

static void a_number_fits_or_is_refused(void **state)
{
    static const struct {
        const char *text;
        bool is_good;
        uint64_t value;
    } cases[] = {
        {"0", true, 0},
        {"9", true, 9},
        {"10", true, 10},
        {"18446744073709551615", true, UINT64_MAX},
        {"18446744073709551609", true, UINT64_MAX - 6},
        {"18446744073709551616", false, 0},
        {"18446744073709551620", false, 0},
        {"99999999999999999999", false, 0},
        {"00000000000000000001", true, 1},
        {"000000000000000000001", false, 0},
        {"", false, 0},
        {"-1", false, 0},
        {"+1", false, 0},
        {"1 ", false, 0},
        {"/", false, 0},
        {":", false, 0},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint64_t value = 7;
        bool is_good = bytes_to_u64(bytes_of_text(cases[i].text), &value);
        if (is_good != cases[i].is_good ||
            value != (is_good ? cases[i].value : 7)) {
            fail_msg("'%s'", cases[i].text);
        }
    }
}

static void a_size_has_a_unit(void **state)
{
    static const struct {
        const char *text;
        bool is_good;
        uint64_t size;
    } cases[] = {
        {"0", true, 0},
        {"7", true, 7},
        {"4096", true, 4096},
        {"1K", true, 1024},
        {"1k", true, 1024},
        {"16M", true, 16777216},
        {"2g", true, UINT64_C(2147483648)},
        {"18014398509481983K", true, UINT64_MAX - 1023},
        {"18014398509481984K", false, 0},
        {"17179869184G", false, 0},
        {"17179869183G", true, UINT64_MAX - 1073741823},
        {"18446744073709551615", true, UINT64_MAX},
        {"", false, 0},
        {"K", false, 0},
        {"1T", false, 0},
        {"1KK", false, 0},
        {"1 K", false, 0},
        {"-1K", false, 0},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint64_t size = 7;
        bool is_good = size_parse(cases[i].text, &size);
        if (is_good != cases[i].is_good ||
            size != (is_good ? cases[i].size : 7)) {
            fail_msg("'%s'", cases[i].text);
        }
    }
}

static void hex_goes_both_ways(void **state)
{
    uint8_t all[256], back[256];
    char text[513];
    (void)state;
    for (int i = 0; i < 256; i++) {
        all[i] = (uint8_t)i;
    }
    hex_put(text, bytes_of(all, sizeof all));
    assert_int_equal(strlen(text), 512);
    assert_memory_equal(text + 512 - 8, "fcfdfeff", 8);
    assert_true(hex_get(bytes_of_text(text), back, sizeof back));
    assert_memory_equal(all, back, sizeof all);
    assert_true(hex_get(BYTES_LITERAL("aBFf"), back, 2));
    assert_memory_equal(back, "\xab\xff", 2);
    assert_false(hex_get(BYTES_LITERAL("abf"), back, 2));
    assert_false(hex_get(BYTES_LITERAL("abfff"), back, 2));
    assert_false(hex_get(BYTES_LITERAL("abfg"), back, 2));
    assert_false(hex_get(bytes_of("\0000", 2), back, 1));
}

/* --- Buffers and readers -------------------------------------------------- */

static void what_is_put_is_read(void **state)
{
    struct buffer buffer = {0};
    (void)state;
    for (uint32_t i = 0; i < 1000; i++) { /* It grows during this. */
        buffer_put_u8(&buffer, (uint8_t)i);
        buffer_put_u32(&buffer, i * 2654435761u);
        buffer_put_u64(&buffer, i * UINT64_C(11400714819323198485));
        buffer_put_run(&buffer, bytes_of("abcdefgh", i % 9));
        buffer_printf(&buffer, "%u.", (unsigned)(i % 10));
        buffer_put_text(&buffer, "");
    }
    struct reader reader = reader_of(buffer_bytes(&buffer));
    for (uint32_t i = 0; i < 1000; i++) {
        assert_int_equal(reader_u8(&reader), (uint8_t)i);
        assert_int_equal(reader_u32(&reader), i * 2654435761u);
        assert_true(reader_u64(&reader) == i * UINT64_C(11400714819323198485));
        assert_true(
            bytes_equal(reader_run(&reader), bytes_of("abcdefgh", i % 9)));
        assert_true(reader_bytes(&reader, 2).data[0] == '0' + i % 10);
    }
    assert_true(reader_ok(&reader, true));
    assert_int_equal(reader_u8(&reader), 0);
    assert_false(reader_ok(&reader, false));
    buffer_done(&buffer);
    assert_null(buffer.data);
}

static void the_front_of_a_buffer_goes(void **state)
{
    struct buffer buffer = {0};
    (void)state;
    buffer_put_text(&buffer, "abcdef");
    buffer_consume(&buffer, 2);
    assert_true(bytes_equal(buffer_bytes(&buffer), BYTES_LITERAL("cdef")));
    buffer_consume(&buffer, 0);
    buffer_consume(&buffer, 3);
    assert_true(bytes_equal(buffer_bytes(&buffer), BYTES_LITERAL("f")));
    buffer_consume(&buffer, 1);
    assert_int_equal(buffer.size, 0);
    for (size_t size = 1; size < 5000; size = 3 * size + 1) {
        size_t before = buffer.size;
        memset(buffer_reserve(&buffer, size), 'x', size);
        buffer.size += size;
        assert_true(buffer.capacity >= before + size);
        assert_true(buffer.capacity <= 2 * (before + size) + 64);
    }
    buffer_done(&buffer);
}

static void a_reader_ends_at_its_end(void **state)
{
    static const uint8_t raw[] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
    (void)state;
    for (size_t size = 0; size <= sizeof raw; size++) {
        struct reader r8 = reader_of(bytes_of(raw, size)), r16 = r8;
        struct reader r32 = r8, r64 = r8;
        assert_int_equal(reader_left(&r8), size);
        assert_int_equal(reader_u8(&r8), size >= 1 ? 1 : 0);
        assert_int_equal(reader_u16(&r16), size >= 2 ? 0x0201 : 0);
        assert_int_equal(reader_u32(&r32), size >= 4 ? 0x04030201 : 0);
        assert_true(reader_u64(&r64) ==
                    (size >= 8 ? UINT64_C(0x0807060504030201) : 0));
        assert_true(reader_ok(&r32, false) == (size >= 4));
        assert_true(reader_ok(&r64, true) == (size == 8));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_glob_matches_what_a_naive_matcher_does),
        cmocka_unit_test(a_glob_counts_what_it_looks_at),
        cmocka_unit_test(each_character_is_known),
        cmocka_unit_test(what_is_shown_can_be_printed),
        cmocka_unit_test(runs_are_ordered_and_compared),
        cmocka_unit_test(a_word_has_no_case),
        cmocka_unit_test(a_run_is_cut_at_a_mark),
        cmocka_unit_test(a_number_fits_or_is_refused),
        cmocka_unit_test(a_size_has_a_unit),
        cmocka_unit_test(hex_goes_both_ways),
        cmocka_unit_test(what_is_put_is_read),
        cmocka_unit_test(the_front_of_a_buffer_goes),
        cmocka_unit_test(a_reader_ends_at_its_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
