/* SPDX-License-Identifier: MIT */

/* The functions made of rows (base/codec_straight.h) against the tables made of
 * the same rows, which base/codec.c walks: for every structure of entry.def and
 * records.def both write equal bytes, and read or refuse the same drawn and
 * damaged ones. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>
#include <stdlib.h>

#include "base/codec_straight.h"
#include "base/memory.h"
#include "base/prng.h"
#include "lockfsm/entry.h"
#include "lockfsm/store/records.h"

#define ROUNDS 3000
/* A count is drawn up to this, so that no text gets long. */
#define DRAWN_COUNT_MAX 4

struct drawing {
    struct prng prng;
    uint64_t seed;
    unsigned depth;
    struct arena arena;
    struct buffer bytes;
    struct buffer walked;
    struct buffer straight;
    uint64_t read;    /* How many were read, and ... */
    uint64_t refused; /* ... refused. */
};

/* What is walked: a table without functions. Its parts are walked, too. */
static struct codec_message without_functions(const struct codec_message *of)
{
    static const struct codec_straight none = {NULL, NULL, NULL};
    struct codec_message walked = *of;
    walked.straight = &none;
    return walked;
}

static uint64_t draw_number(struct drawing *drawing, uint64_t max)
{
    struct prng *prng = &drawing->prng;
    switch (prng_below(prng, 6)) {
    case 0:
        return max;
    case 1:
        return max + 1; /* One too many, unless there is no bound. */
    case 2:
        return prng_below(prng, 2);
    case 3:
        return prng_below(prng, 300);
    case 4:
        return prng_next(prng) >> prng_below(prng, 64);
    default:
        return max == 0 ? prng_next(prng) : prng_below(prng, max + 1);
    }
}

static void draw_run(struct drawing *drawing, uint32_t tag, uint64_t size)
{
    uint8_t text[600];
    size = size % sizeof text;
    memset(text, (int)prng_below(&drawing->prng, 3), sizeof text);
    codec_put_run(&drawing->bytes, tag, bytes_of(text, size));
}

static void draw_message(struct drawing *drawing,
                         const struct codec_message *message);

static void draw_part(struct drawing *drawing, const struct codec_field *field)
{
    size_t start = codec_begin_run(&drawing->bytes, field->tag);
    if (drawing->depth < 3) {
        drawing->depth++;
        draw_message(drawing, field->part());
        drawing->depth--;
    }
    codec_end_run(&drawing->bytes, start);
}

static void draw_numbers(struct drawing *drawing,
                         const struct codec_field *field)
{
    uint64_t numbers[160];
    size_t count = prng_below(&drawing->prng, 5);
    if (field->max > 0 && field->max < 70 &&
        prng_below(&drawing->prng, 3) == 0) {
        count = field->max * field->unit + prng_below(&drawing->prng, 2);
    }
    assert_in_range(count, 0, 160);
    for (size_t i = 0; i < count; i++) {
        numbers[i] = draw_number(drawing, 0);
    }
    codec_put_numbers(&drawing->bytes, field->tag, numbers, count);
}

static void draw_field(struct drawing *drawing, const struct codec_field *field)
{
    uint64_t count = 1 + prng_below(&drawing->prng, DRAWN_COUNT_MAX);
    if (field->max > 0 && field->max < 70 &&
        prng_below(&drawing->prng, 8) == 0) {
        count = field->max + prng_below(&drawing->prng, 2);
    }
    switch ((enum codec_type)field->type) {
    case CODEC_TYPE_U32:
    case CODEC_TYPE_U64:
    case CODEC_TYPE_BOOL:
        codec_put_head(&drawing->bytes, field->tag, WIRE_NUMBER,
                       draw_number(drawing, field->max));
        return;
    case CODEC_TYPE_BYTES:
        draw_run(drawing, field->tag, draw_number(drawing, field->max));
        return;
    case CODEC_TYPE_FIXED:
        draw_run(drawing, field->tag,
                 prng_below(&drawing->prng, 8) == 0 ? 3 : field->max);
        return;
    case CODEC_TYPE_NUMBERS:
        draw_numbers(drawing, field);
        return;
    case CODEC_TYPE_RUNS:
        for (uint64_t i = 0; i < count; i++) {
            draw_run(drawing, field->tag, prng_below(&drawing->prng, 9));
        }
        return;
    case CODEC_TYPE_PARTS:
    case CODEC_TYPE_LIST:
        for (uint64_t i = 0; i < count; i++) {
            draw_part(drawing, field);
        }
        return;
    case CODEC_TYPE_PART:
    case CODEC_TYPE_CHOICE:
        draw_part(drawing, field);
        return;
    }
}

/* Some of the fields, now and then one twice, one that nobody knows, or one of
 * another kind. */
static void draw_message(struct drawing *drawing,
                         const struct codec_message *message)
{
    struct prng *prng = &drawing->prng;
    bool is_many = message->field_count > 40;
    for (size_t i = 0; i < message->field_count; i++) {
        const struct codec_field *field = &message->fields[i];
        if (field->tag == 0 || prng_below(prng, is_many ? 30 : 2) == 0) {
            continue;
        }
        draw_field(drawing, field);
        if (prng_below(prng, 60) == 0) {
            draw_field(drawing, field);
        }
        if (prng_below(prng, 60) == 0) {
            codec_put_head(&drawing->bytes, field->tag,
                           prng_below(prng, 2) == 0 ? WIRE_NUMBER : WIRE_RUN,
                           0);
        }
    }
    if (prng_below(prng, 20) == 0) {
        codec_put_head(&drawing->bytes, 900, WIRE_NUMBER, 7);
    }
}

static void damage(struct drawing *drawing)
{
    struct prng *prng = &drawing->prng;
    struct buffer *bytes = &drawing->bytes;
    for (uint64_t i = prng_below(prng, 4); i > 0 && bytes->size > 0; i--) {
        if (prng_below(prng, 3) == 0) {
            bytes->size = prng_below(prng, bytes->size);
        } else {
            bytes->data[prng_below(prng, bytes->size)] = (uint8_t)prng_next(
                prng);
        }
    }
}

static void *take(void *data, size_t size)
{
    void *piece = arena_take(data, size);
    memset(piece, 0, size);
    return piece;
}

static void *new_structure(struct drawing *drawing,
                           const struct codec_message *message)
{
    char *structure = take(&drawing->arena, message->size);
    for (size_t i = 0; i < message->field_count; i++) {
        if (message->fields[i].type == CODEC_TYPE_LIST) {
            list_init(
                (struct list *)(void *)(structure + message->fields[i].offset));
        }
    }
    return structure;
}

static void assert_same(struct drawing *drawing, const char *what,
                        uint64_t walked, uint64_t straight)
{
    if (walked != straight) {
        fail_msg("%s: %ju by the table, %ju without, seed %ju", what,
                 (uintmax_t)walked, (uintmax_t)straight,
                 (uintmax_t)drawing->seed);
    }
}

/* Compares what both make of what was read. */
static void compare_written(struct drawing *drawing,
                            const struct codec_message *message,
                            const void *walked, const void *straight)
{
    struct codec_message plain = without_functions(message);
    struct codec_level of_walked, of_straight;
    typedef void put_fn(struct buffer * out, const struct codec_message *,
                        const void *);
    put_fn *const put[] = {codec_put, codec_put_identity};
    for (size_t i = 0; i < 2; i++) {
        buffer_clear(&drawing->walked);
        buffer_clear(&drawing->straight);
        put[i](&drawing->walked, &plain, walked);
        put[i](&drawing->straight, message, straight);
        assert_same(drawing, "bytes are equal", true,
                    bytes_equal(buffer_bytes(&drawing->walked),
                                buffer_bytes(&drawing->straight)));
    }
    assert_same(drawing, "is within bounds",
                codec_check(&plain, walked, &of_walked),
                codec_check(message, straight, &of_straight));
    assert_same(drawing, "needs level", of_walked.level, of_straight.level);
    assert_string_equal(of_walked.what, of_straight.what);
}

static void compare_read(struct drawing *drawing,
                         const struct codec_message *message)
{
    struct codec_message plain = without_functions(message);
    struct codec_memory memory = {.take = take, .data = &drawing->arena};
    struct codec_level of_walked, of_straight;
    struct bytes in = buffer_bytes(&drawing->bytes);
    void *walked = new_structure(drawing, message);
    void *straight = new_structure(drawing, message);
    bool is_read = codec_get(in, &plain, walked, &memory, &of_walked);
    assert_same(drawing, "is read", is_read,
                codec_get(in, message, straight, &memory, &of_straight));
    *(is_read ? &drawing->read : &drawing->refused) += 1;
    if (is_read) {
        assert_same(drawing, "level", of_walked.level, of_straight.level);
        assert_string_equal(of_walked.what, of_straight.what);
        if (message->straight->put != NULL) {
            compare_written(drawing, message, walked, straight);
        }
    }
}

static void compare(struct drawing *drawing,
                    const struct codec_message *message)
{
    assert_non_null(message->straight->get);
    for (uint64_t seed = 1; seed <= ROUNDS; seed++) {
        drawing->seed = seed;
        drawing->prng.state = seed;
        buffer_clear(&drawing->bytes);
        draw_message(drawing, message);
        compare_read(drawing, message);
        damage(drawing);
        compare_read(drawing, message);
        arena_reset(&drawing->arena);
    }
}

static void finish(struct drawing *drawing)
{
    /* Neither case is rare, or this test would show little. */
    assert_true(drawing->read > ROUNDS && drawing->refused > ROUNDS);
    buffer_done(&drawing->bytes);
    buffer_done(&drawing->walked);
    buffer_done(&drawing->straight);
    arena_done(&drawing->arena);
}

/* --- Tests ---------------------------------------------------------------- */

static void entries_are_the_same_both_ways(void **state)
{
    (void)state;
    struct drawing drawing = {.depth = 0};
    const struct codec_message *entry = entry_message();
    compare(&drawing, entry);
    for (size_t i = 0; i < entry->field_count; i++) {
        if (entry->fields[i].type == CODEC_TYPE_CHOICE &&
            entry->fields[i].tag != 0) {
            compare(&drawing, entry->fields[i].part());
        }
    }
    finish(&drawing);
}

static void records_are_the_same_both_ways(void **state)
{
    (void)state;
    struct drawing drawing = {.depth = 0};
    compare(&drawing, lockfsm_message());
    for (size_t i = 0; i < RECORD_KIND_COUNT; i++) {
        compare(&drawing, record_kinds[i].message());
    }
    finish(&drawing);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(entries_are_the_same_both_ways),
        cmocka_unit_test(records_are_the_same_both_ways),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
