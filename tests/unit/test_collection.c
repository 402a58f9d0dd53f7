/* SPDX-License-Identifier: MIT */

/* Collections of Redis as bytes: there and back for random members, at the byte
 * where the room ends; places beside a naive search; scores. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <float.h>
#include <math.h>

#include "core/redis/collection.h"
#include "tests/unit/drawn.h"

static struct bytes drawn_bytes(struct drawn *drawn, struct arena *arena)
{
    char out[8];
    size_t size = drawn_text(drawn, "a=%\n%3D40\x01", drawn_below(drawn, 8),
                             out);
    return arena_copy(arena, bytes_of(out, size));
}

static double drawn_score(struct drawn *drawn)
{
    static const double scores[] = {0,       -1,        0.1,
                                    1e300,   -INFINITY, INFINITY,
                                    DBL_MIN, 1e15,      12345.678901234567,
                                    -DBL_MAX};
    return scores[drawn_below(drawn, 10)];
}

static void fill(struct collection *collection, enum key_type type,
                 struct drawn *drawn, struct arena *arena)
{
    uint32_t count = drawn_below(drawn, 20);
    for (uint32_t i = 0; i < count; i++) {
        struct collection_member member = {.name = drawn_bytes(drawn, arena)};
        if (type == KEY_HASH) {
            member.value = drawn_bytes(drawn, arena);
        } else if (type == KEY_ZSET) {
            member.score = drawn_score(drawn);
        }
        collection_insert(collection, arena, collection->count, &member);
    }
}

static void assert_same(const struct collection *a, const struct collection *b)
{
    assert_int_equal(a->count, b->count);
    for (uint32_t i = 0; i < a->count; i++) {
        assert_true(bytes_equal(a->member[i].name, b->member[i].name));
        assert_true(bytes_equal(a->member[i].value, b->member[i].value));
        assert_true(a->member[i].score >= b->member[i].score &&
                    a->member[i].score <= b->member[i].score);
    }
}

static void what_is_written_is_read(void **state)
{
    struct arena arena = {0};
    struct drawn drawn = {5};
    (void)state;
    for (int i = 0; i < 3000; i++) {
        enum key_type type = KEY_HASH + drawn_below(&drawn, 4);
        struct collection collection = {0};
        struct bytes stored, again;
        fill(&collection, type, &drawn, &arena);
        assert_true(
            collection_write(type, &collection, SIZE_MAX / 2, &arena, &stored));
        assert_int_equal(collection_type(stored), type);
        struct collection back = collection_read(stored, &arena);
        assert_same(&collection, &back);
        /* The encoding has exactly this size. */
        assert_true(
            collection_write(type, &collection, stored.size, &arena, &again));
        assert_true(bytes_equal(stored, again));
        assert_false(collection_write(type, &collection, stored.size - 1,
                                      &arena, &again));
        /* It is readable for people: one line for each member. */
        uint32_t lines = 0;
        for (size_t at = 0; at < stored.size; at++) {
            lines += stored.data[at] == '\n';
        }
        assert_int_equal(lines, collection.count);
        arena_reset(&arena);
    }
    arena_done(&arena);
}

static void what_is_stored_looks_so(void **state)
{
    struct arena arena = {0};
    struct collection collection = {0};
    struct bytes stored;
    const struct collection_member members[] = {
        {.name = BYTES_LITERAL("a=b"), .value = BYTES_LITERAL("c=d%")},
        {.name = BYTES_LITERAL(""), .value = BYTES_LITERAL("x\ny")}};
    (void)state;
    collection_insert(&collection, &arena, 0, &members[0]);
    collection_insert(&collection, &arena, 1, &members[1]);
    assert_true(collection_write(KEY_HASH, &collection, 99, &arena, &stored));
    assert_true(
        bytes_equal(stored, BYTES_LITERAL("\x01hash\na%3Db=c=d%25\n=x%0Ay")));
    arena_done(&arena);
}

/* Encodings that hasp never writes, but that a client's value may contain. */
static void what_is_read_is_bounded(void **state)
{
    static const struct {
        const char *stored, *name, *value;
    } cases[] = {
        {"\x01hash\na", "a", ""},        {"\x01hash\na=%4", "a", "%4"},
        {"\x01hash\na=%", "a", "%"},     {"\x01hash\na=%4g", "a", "%4g"},
        {"\x01hash\na=%g4", "a", "%g4"}, {"\x01hash\n%61%4A%4a%4", "aJJ%4", ""},
        {"\x01hash\na=%61", "a", "a"},   {"\x01hash\na=%2f%2F%39", "a", "//9"}};
    static const struct {
        const char *text;
        enum key_type type;
    } types[] = {{"", KEY_TEXT},         {"hash", KEY_TEXT},
                 {"\x01", KEY_TEXT},     {"\x01has", KEY_TEXT},
                 {"\x02hash", KEY_TEXT}, {"\x01hash", KEY_HASH},
                 {"\x01list", KEY_LIST}, {"\x01set\na", KEY_SET},
                 {"\x01zset", KEY_ZSET}, {"\x01string", KEY_TEXT},
                 {"xhash", KEY_TEXT}};
    struct arena arena = {0};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct collection read = collection_read(bytes_of_text(cases[i].stored),
                                                 &arena);
        assert_int_equal(read.count, 1);
        if (!bytes_equal(read.member[0].name, bytes_of_text(cases[i].name)) ||
            !bytes_equal(read.member[0].value, bytes_of_text(cases[i].value))) {
            fail_msg("%s", cases[i].stored + 1);
        }
    }
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        assert_int_equal(collection_type(bytes_of_text(types[i].text)),
                         types[i].type);
    }
    /* Nothing: the bytes after it do not count. */
    assert_int_equal(collection_type(bytes_of("\x01hash\n", 0)), KEY_TEXT);
    /* The mark alone, cut in the middle of the word. */
    assert_int_equal(collection_type(bytes_of("\x01hash", 4)), KEY_TEXT);
    assert_int_equal(collection_read(BYTES_LITERAL("hash\na=b"), &arena).count,
                     0);
    assert_int_equal(collection_read(BYTES_LITERAL("\x01hash"), &arena).count,
                     0);
    arena_done(&arena);
}

static void members_are_found_put_and_taken(void **state)
{
    struct drawn drawn = {9};
    struct arena arena = {0};
    (void)state;
    for (int round = 0; round < 200; round++) {
        struct collection collection = {0};
        int model[64]; /* The scores, in order; names are as the scores. */
        int count = 0;
        for (int step = 0; step < 60; step++) {
            int score = (int)drawn_below(&drawn, 30);
            char *name = arena_take(&arena, 3);
            struct collection_member member = {.score = score / 4};
            name[0] = (char)('a' + score / 4);
            name[1] = (char)('a' + score % 4);
            member.name = bytes_of(name, 2);
            int place = 0;
            while (place < count && model[place] < score) {
                place++;
            }
            bool is_there = place < count && model[place] == score;
            assert_int_equal(
                collection_place(&collection, member.name, member.score),
                place);
            assert_int_equal(collection_find(&collection, member.name),
                             is_there ? place : count);
            if (is_there) {
                int taken = 1 +
                            (int)drawn_below(&drawn, (uint32_t)(count - place));
                collection_remove(&collection, (uint32_t)place,
                                  (uint32_t)taken);
                memmove(&model[place], &model[place + taken],
                        (size_t)(count - place - taken) * sizeof *model);
                count -= taken;
            } else {
                collection_insert(&collection, &arena, (uint32_t)place,
                                  &member);
                memmove(&model[place + 1], &model[place],
                        (size_t)(count - place) * sizeof *model);
                model[place] = score;
                count++;
            }
            collection_remove(&collection, (uint32_t)count, 0);
            assert_int_equal(collection.count, count);
            for (int i = 0; i < count; i++) {
                assert_int_equal(collection.member[i].name.data[0],
                                 'a' + model[i] / 4);
                assert_int_equal(collection.member[i].name.data[1],
                                 'a' + model[i] % 4);
            }
        }
        arena_reset(&arena);
    }
    arena_done(&arena);
}

static void scores_are_numbers_or_infinite(void **state)
{
    static const struct {
        const char *text;
        double score;
    } good[] = {{"0", 0},
                {"-1.5", -1.5},
                {"1e3", 1000},
                {"inf", INFINITY},
                {"+INF", INFINITY},
                {"-inf", -INFINITY},
                {"+Infinity", INFINITY},
                {"-infinity", -INFINITY},
                {"+2", 2}};
    static const char *const bad[] = {"",  "x",     "nan", "-nan", "+",
                                      "-", "--inf", "1x",  "infi"};
    char text[SCORE_TEXT_SIZE];
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        double score = 7;
        if (!score_read(bytes_of_text(good[i].text), &score) ||
            score < good[i].score || score > good[i].score) {
            fail_msg("'%s'", good[i].text);
        }
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        double score;
        if (score_read(bytes_of_text(bad[i]), &score)) {
            fail_msg("'%s' is no score", bad[i]);
        }
    }
    assert_true(bytes_equal(score_text(INFINITY, text), BYTES_LITERAL("inf")));
    assert_true(
        bytes_equal(score_text(-INFINITY, text), BYTES_LITERAL("-inf")));
    assert_true(bytes_equal(score_text(3, text), BYTES_LITERAL("3")));
    assert_true(bytes_equal(score_text(0.1, text),
                            BYTES_LITERAL("0.10000000000000001")));
    assert_true(score_text(-DBL_MIN / 3, text).size < SCORE_TEXT_SIZE);
}

static void types_have_the_names_of_redis(void **state)
{
    (void)state;
    assert_string_equal(key_type_name(KEY_TEXT), "string");
    assert_string_equal(key_type_name(KEY_HASH), "hash");
    assert_string_equal(key_type_name(KEY_LIST), "list");
    assert_string_equal(key_type_name(KEY_SET), "set");
    assert_string_equal(key_type_name(KEY_ZSET), "zset");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(what_is_stored_looks_so),
        cmocka_unit_test(what_is_read_is_bounded),
        cmocka_unit_test(members_are_found_put_and_taken),
        cmocka_unit_test(scores_are_numbers_or_infinite),
        cmocka_unit_test(types_have_the_names_of_redis),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
