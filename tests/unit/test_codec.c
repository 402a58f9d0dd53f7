/* SPDX-License-Identifier: MIT */

/* Structures as bytes, by a table of their members. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>

#include "base/codec.h"
#include "base/list.h"
#include "base/memory.h"

struct inner {
    uint64_t number;
    struct bytes text;
    struct list in_outer;
};

struct outer {
    uint32_t small;
    uint64_t big;
    bool is_set;
    struct bytes text;
    uint8_t id[4];
    struct inner part;
    uint64_t *numbers;
    uint32_t number_count;
    uint64_t *ranges;
    uint32_t range_count;
    struct bytes *names;
    uint32_t name_count;
    struct inner *parts;
    uint32_t part_count;
    uint64_t fixed[3];
    uint32_t fixed_count;
    struct list list;
    uint32_t list_count;
    uint32_t choice;
    struct inner *chosen;
};

static codec_message_fn inner_message, outer_message;
/* clang-format off */
static CODEC_BEGIN(inner, inner)
    CODEC_U64(1, number)
    CODEC_BYTES(2, text)
CODEC_END

static CODEC_BEGIN(outer, outer)
    CODEC_U32(1, small, .max = 7)
    CODEC_U64(2, big, .level = 3, .what = "big")
    CODEC_BOOL(3, is_set, .may_vary = true)
    CODEC_BYTES(4, text, .max = 300)
    CODEC_FIXED(5, id, 4)
    CODEC_PART(6, inner, part)
    CODEC_NUMBERS(7, numbers, number_count)
    CODEC_PAIRS(8, ranges, range_count, .max = 2)
    CODEC_RUNS(9, names, name_count, .max = 3)
    CODEC_PARTS(10, inner, parts, part_count)
    CODEC_NUMBERS(11, fixed, fixed_count, .is_inline = true, .max = 3)
    CODEC_LIST(12, inner, list, list_count, in_outer, .max = 2)
    {.tag = 200, .type = CODEC_TYPE_CHOICE, .part = inner_message,
     .offset = offsetof(struct outer, chosen),
     .count_offset = offsetof(struct outer, choice)},
CODEC_END
    /* clang-format on */

    struct world {
    struct outer outer;
    struct buffer out;
    struct buffer again;
    struct codec_level level;
    void *taken[64];
    uint32_t taken_count;
    size_t taken_size;
};

static int world_open(void **state)
{
    struct world *world = memory_new(sizeof *world);
    list_init(&world->outer.list);
    *state = world;
    return 0;
}

static void forget(struct world *world)
{
    while (world->taken_count > 0) {
        free(world->taken[--world->taken_count]);
    }
}

static int world_close(void **state)
{
    struct world *world = *state;
    forget(world);
    buffer_done(&world->out);
    buffer_done(&world->again);
    free(world);
    return 0;
}

static void *take(void *data, size_t size)
{
    struct world *world = data;
    assert_in_range(world->taken_count, 0, 63);
    world->taken_size += size;
    return world->taken[world->taken_count++] = memory_new(size);
}

static bool get(struct world *world, struct bytes in)
{
    struct codec_memory memory = {.take = take, .data = world};
    world->outer = (struct outer){0};
    list_init(&world->outer.list);
    return codec_get(in, outer_message(), &world->outer, &memory,
                     &world->level);
}

static bool get_text(struct world *world, const char *text, size_t size)
{
    return get(world, bytes_of(text, size));
}
#define GET(world, literal) get_text(world, literal, sizeof(literal) - 1)

/* --- Tests ---------------------------------------------------------------- */

static void what_is_written_is_read(void **state)
{
    struct world *world = *state;
    uint8_t text[300] = {9};
    uint64_t numbers[] = {0, 1, UINT64_MAX};
    uint64_t ranges[] = {1, 2, 300, 400};
    struct bytes names[] = {BYTES_LITERAL("a"), BYTES_LITERAL("")};
    struct inner parts[] = {{.number = 1}, {.text = BYTES_LITERAL("b")}};
    struct inner listed[] = {{.number = 300}, {.number = 0}};
    struct inner chosen = {.text = bytes_of(text, 200)};
    struct outer outer = {.small = 7,
                          .big = UINT64_MAX,
                          .is_set = true,
                          .text = bytes_of(text, sizeof text),
                          .id = {0, 0, 0, 1},
                          .part = {.number = 5},
                          .numbers = numbers,
                          .number_count = 3,
                          .ranges = ranges,
                          .range_count = 2,
                          .names = names,
                          .name_count = 2,
                          .parts = parts,
                          .part_count = 2,
                          .fixed = {7, 8},
                          .fixed_count = 2,
                          .choice = 200,
                          .chosen = &chosen};
    list_init(&outer.list);
    list_push_back(&outer.list, &listed[0].in_outer);
    list_push_back(&outer.list, &listed[1].in_outer);
    codec_put(&world->out, outer_message(), &outer);
    codec_put_choice(&world->out, 200, inner_message(), &chosen);
    assert_true(get(world, buffer_bytes(&world->out)));
    const struct outer *read = &world->outer;
    assert_int_equal(read->small, 7);
    assert_true(read->big == UINT64_MAX);
    assert_true(read->is_set);
    assert_true(bytes_equal(read->text, outer.text));
    assert_memory_equal(read->id, outer.id, 4);
    assert_int_equal(read->part.number, 5);
    assert_true(read->numbers[2] == UINT64_MAX);
    assert_int_equal(read->range_count, 2);
    assert_int_equal(read->ranges[3], 400);
    assert_true(bytes_equal(read->names[0], names[0]));
    assert_int_equal(read->name_count, 2);
    assert_true(bytes_equal(read->parts[1].text, parts[1].text));
    assert_int_equal(read->fixed[1], 8);
    assert_int_equal(read->list_count, 2);
    assert_int_equal(LIST_FIRST(&read->list, struct inner, in_outer)->number,
                     300);
    assert_int_equal(read->choice, 200);
    assert_int_equal(read->chosen->text.size, 200);
    /* Once more, the same bytes. */
    codec_put(&world->again, outer_message(), read);
    codec_put_choice(&world->again, 200, inner_message(), read->chosen);
    assert_true(
        bytes_equal(buffer_bytes(&world->out), buffer_bytes(&world->again)));
    /* A part of it is damaged, or another structure, and never read beyond. */
    for (size_t size = 0; size < world->out.size; size++) {
        uint8_t *copy = memory_new(size + 1);
        memcpy(copy, world->out.data, size);
        forget(world);
        struct codec_memory memory = {.take = take, .data = world};
        struct outer part = {0};
        list_init(&part.list);
        (void)codec_get(bytes_of(copy, size), outer_message(), &part, &memory,
                        &world->level);
        free(copy);
    }
}

static void nothing_is_left_out_but_zeros(void **state)
{
    struct world *world = *state;
    codec_put(&world->out, outer_message(), &world->outer);
    assert_int_equal(world->out.size, 0);
    assert_true(get(world, buffer_bytes(&world->out)));
    assert_int_equal(world->level.level, 0);
}

static void what_may_vary_is_no_part_of_the_identity(void **state)
{
    struct world *world = *state;
    world->outer.small = 3;
    codec_put_identity(&world->out, outer_message(), &world->outer);
    world->outer.is_set = true;
    codec_put_identity(&world->again, outer_message(), &world->outer);
    assert_true(
        bytes_equal(buffer_bytes(&world->out), buffer_bytes(&world->again)));
    world->outer.small = 4;
    buffer_clear(&world->again);
    codec_put_identity(&world->again, outer_message(), &world->outer);
    assert_false(
        bytes_equal(buffer_bytes(&world->out), buffer_bytes(&world->again)));
}

static void levels_are_those_of_what_is_set(void **state)
{
    struct world *world = *state;
    assert_true(GET(world, "\x08\x01"));
    assert_int_equal(world->level.level, 0);
    assert_string_equal(world->level.what, "");
    assert_true(GET(world, "\x08\x01\x10\x01"));
    assert_int_equal(world->level.level, 3);
    assert_string_equal(world->level.what, "big");
    /* An unknown field: in the structure, in a part of it, beside known
     * ones. */
    assert_true(GET(world, "\x78\x01"));
    assert_true(world->level.level == CODEC_LEVEL_UNKNOWN);
    assert_true(GET(world, "\x32\x02\x18\x01"));
    assert_true(world->level.level == CODEC_LEVEL_UNKNOWN);
    assert_true(GET(world, "\x10\x01\x7a\x01x"));
    assert_true(world->level.level == CODEC_LEVEL_UNKNOWN);
}

/* A structure that reading would refuse is found before it is written, with the
 * level that reading would return. */
static void a_check_says_what_reading_will_say(void **state)
{
    struct world *world = *state;
    uint64_t ranges[] = {1, 2, 3, 4, 5, 6};
    struct bytes names[4] = {{NULL, 0}};
    struct inner parts[] = {{.number = 1}, {.number = 2}, {.number = 3}};
    uint8_t text[301] = {0};
    for (int i = 0; i < 14; i++) {
        struct outer outer = {0};
        struct codec_level level;
        list_init(&outer.list);
        for (int p = 0; i >= 11 && p < i - 10; p++) {
            parts[p].number = i == 12 ? 0 : 1;
            list_push_back(&outer.list, &parts[p].in_outer);
            outer.list_count++;
        }
        outer.small = i == 1 ? 8 : 7;
        outer.big = i == 2 ? 1 : 0;
        outer.text = bytes_of(text, i == 3 ? 301 : i == 4 ? 300 : 0);
        outer.numbers = ranges;
        outer.number_count = i == 5 ? 6 : 0;
        outer.ranges = ranges;
        outer.range_count = i == 6 ? 3 : i == 7 ? 2 : 0;
        outer.names = names;
        outer.name_count = i == 8 ? 4 : i == 9 ? 3 : 0;
        outer.parts = parts;
        outer.part_count = i == 10 ? 3 : 0;
        buffer_clear(&world->out);
        codec_put(&world->out, outer_message(), &outer);
        bool is_within = codec_check(outer_message(), &outer, &level);
        assert_int_equal(is_within,
                         i != 1 && i != 3 && i != 6 && i != 8 && i != 13);
        assert_int_equal(get(world, buffer_bytes(&world->out)), is_within);
        if (is_within) {
            assert_int_equal(level.level, world->level.level);
            assert_string_equal(level.what, world->level.what);
        }
        assert_int_equal(level.level, i == 2 ? 3 : 0);
        forget(world);
    }
}

static void damage_is_refused(void **state)
{
    struct world *world = *state;
    assert_false(GET(world, "\x08"));     /* No value. */
    assert_false(GET(world, "\x08\x80")); /* Half a number. */
    assert_false(GET(world, "\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02"));
    assert_false(GET(world, "\x22\x02z"));        /* Shorter than it says. */
    assert_false(GET(world, "\x0a\x01z"));        /* A text for a number. */
    assert_false(GET(world, "\x20\x01"));         /* A number for a text. */
    assert_false(GET(world, "\x18\x02"));         /* No bool. */
    assert_false(GET(world, "\x08\x01\x08\x01")); /* It is there twice. */
    assert_false(GET(world, "\x10\x01\x08\x01")); /* Not in order. */
    assert_false(GET(world, "\x78\x01\x08\x01")); /* After an unknown field. */
    assert_false(GET(world, "\x09\x01"));         /* No such kind. */
    assert_false(GET(world, "\x00\x01"));         /* No such tag. */
    assert_false(GET(world, "\x2a\x03zzz"));      /* Not four bytes. */
    assert_false(GET(world, "\x3a\x01\x80"));     /* A truncated number. */
    assert_false(GET(world, "\x42\x03\x01\x02\x03")); /* One and a half. */
}

static void bounds_are_looked_at_before_memory_is_taken(void **state)
{
    struct world *world = *state;
    assert_false(GET(world, "\x08\x08"));
    assert_true(GET(world, "\x4a\x00\x4a\x00\x4a\x00"));
    assert_int_equal(world->outer.name_count, 3);
    world->taken_size = 0;
    assert_false(GET(world, "\x4a\x00\x4a\x00\x4a\x00\x4a\x00"));
    assert_false(GET(world, "\x42\x06\x01\x02\x03\x04\x05\x06"));
    assert_false(GET(world, "\x5a\x04\x01\x02\x03\x04"));
    assert_false(GET(world, "\x22\xff\xff\xff\xff\x0f"));
    assert_int_equal(world->taken_size, 0);
    assert_false(GET(world, "\x62\x00\x62\x00\x62\x00"));
}

#define TEST(name) \
    cmocka_unit_test_setup_teardown(name, world_open, world_close)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_is_written_is_read),
        TEST(nothing_is_left_out_but_zeros),
        TEST(what_may_vary_is_no_part_of_the_identity),
        TEST(levels_are_those_of_what_is_set),
        TEST(a_check_says_what_reading_will_say),
        TEST(damage_is_refused),
        TEST(bounds_are_looked_at_before_memory_is_taken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
