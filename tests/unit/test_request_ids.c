/* SPDX-License-Identifier: MIT */

/* A session's request numbers beside a naive model: the contents of ACKED, for
 * any number of open requests; and owner tags. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "client/request_numbers.h"
#include "tests/unit/drawn.h"

#define NUMBER_MAX 4000

struct model {
    struct request_numbers numbers;
    struct drawn drawn;
    uint64_t newest;
    bool is_open[NUMBER_MAX];
    bool is_acked[NUMBER_MAX]; /* Numbers acknowledged since begin_saying(). */
    uint32_t ranges;           /* Of the request written last. */
};

static void begin(struct model *model)
{
    uint64_t number;
    assert_int_equal(request_numbers_begin(&model->numbers, &number), 0);
    assert_true(number == ++model->newest && number < NUMBER_MAX);
    model->is_open[number] = true;
}

static void end(struct model *model, uint64_t number)
{
    request_numbers_end(&model->numbers, number);
    model->is_open[number] = false;
}

static void note_range(struct model *model, uint64_t from, uint64_t to)
{
    assert_true(from <= to && to <= model->newest);
    for (uint64_t number = from; number <= to; number++) {
        assert_false(model->is_open[number]);
        model->is_acked[number] = true;
    }
    model->ranges++;
}

/* "4,6-9,11-11": no open number is among them, all of them are sound. */
static void read_acked(struct model *model, struct bytes acked)
{
    struct bytes range, from;
    uint64_t first, last;
    range = bytes_cut(&acked, ',');
    assert_true(bytes_to_u64(range, &last));
    model->ranges = 0;
    if (last > 0) {
        note_range(model, 1, last);
        model->ranges--;
    }
    assert_true(model->is_open[last + 1]); /* Otherwise it would be more. */
    while (acked.size > 0) {
        range = bytes_cut(&acked, ',');
        from = bytes_cut(&range, '-');
        assert_true(bytes_to_u64(from, &first) && bytes_to_u64(range, &last));
        note_range(model, first, last);
        assert_true(model->is_open[first - 1]);
        assert_true(last == model->newest || model->is_open[last + 1]);
    }
    assert_true(model->ranges <= ACKED_RANGE_MAX);
}

static void write_one(struct model *model)
{
    struct owner owner = {.tag = ""};
    struct query query = {0};
    struct buffer out = {0};
    query_begin(&query, "X");
    request_numbers_write(&model->numbers, &owner, model->newest, &query);
    uint32_t count = query.count;
    query_encode(&query, &out);
    /* "*N", then "$size" and the text of each; ACKED comes last. */
    struct bytes rest = buffer_bytes(&out), line, last = {0}, word = {0};
    line = bytes_cut(&rest, '\n');
    for (uint32_t i = 0; i < count; i++) {
        line = bytes_cut(&rest, '\n');
        word = last;
        last = bytes_cut(&rest, '\n');
        last.size--;
    }
    (void)line;
    if (bytes_equal(word, BYTES_LITERAL("ACKED"))) {
        read_acked(model, last);
    } else {
        assert_true(bytes_equal(word, BYTES_LITERAL("REQ")));
        assert_true(model->is_open[1]);
        model->ranges = 0;
    }
    query_done(&query);
    buffer_done(&out);
}

static uint32_t closed_ranges(const struct model *model)
{
    uint32_t count = 0;
    for (uint64_t number = 1; number <= model->newest; number++) {
        count += !model->is_open[number] && model->is_open[number - 1];
    }
    return count;
}

/* Whichever are open, a few requests acknowledge all that are over. */
static void say_all(struct model *model)
{
    uint32_t count = closed_ranges(model);
    memset(model->is_acked, 0, sizeof model->is_acked);
    for (uint32_t said = 0; said < count + 2 * ACKED_RANGE_MAX;
         said += ACKED_RANGE_MAX) {
        write_one(model);
    }
    for (uint64_t number = 1; number <= model->newest; number++) {
        if (!model->is_open[number] && !model->is_acked[number]) {
            fail_msg("%u is over, and never acknowledged", (unsigned)number);
        }
    }
}

static void all_that_is_over_is_acknowledged(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct model model = {.drawn = {seed}};
        uint32_t open_max = 1 + drawn_below(&model.drawn, 90);
        request_numbers_init(&model.numbers);
        for (int i = 0; i < 400; i++) {
            begin(&model);
            write_one(&model);
            while (model.numbers.open_count > open_max ||
                   (model.numbers.open_count > 1 &&
                    drawn_below(&model.drawn, 3) == 0)) {
                /* Not the newest: that one is being written. */
                uint32_t at = drawn_below(&model.drawn,
                                          model.numbers.open_count - 1);
                end(&model, model.numbers.open[at]);
            }
            if (i % 40 == 39) {
                say_all(&model);
            }
        }
        request_numbers_done(&model.numbers);
    }
}

static void what_was_never_open_ends_nothing(void **state)
{
    struct model model = {.drawn = {1}};
    (void)state;
    request_numbers_init(&model.numbers);
    begin(&model);
    begin(&model);
    request_numbers_end(&model.numbers, 3);
    request_numbers_end(&model.numbers, 0);
    assert_int_equal(model.numbers.open_count, 2);
    end(&model, 1);
    end(&model, 1);
    assert_int_equal(model.numbers.open_count, 1);
    write_one(&model);
    assert_int_equal(model.ranges, 0); /* "1" is all. */
    request_numbers_done(&model.numbers);
}

static void a_promised_place_is_there(void **state)
{
    struct request_numbers numbers;
    uint64_t number;
    (void)state;
    request_numbers_init(&numbers);
    for (int i = 0; i < 100; i++) {
        assert_int_equal(request_numbers_keep(&numbers), 0);
        assert_true(numbers.open_count + numbers.kept_count <=
                    numbers.open_room);
    }
    for (int i = 0; i < 60; i++) {
        uint32_t room = numbers.open_room;
        request_numbers_give_back(&numbers);
        assert_int_equal(request_numbers_begin(&numbers, &number), 0);
        assert_int_equal(numbers.open_room, room);
    }
    request_numbers_done(&numbers);
}

static void tags_are_shared_and_private_ones_are_not(void **state)
{
    struct request_numbers numbers;
    char longest[OWNER_TAG_SIZE + 1];
    (void)state;
    request_numbers_init(&numbers);
    struct owner *a = owner_take(&numbers, "a");
    struct owner *first = owner_take(&numbers, NULL);
    struct owner *second = owner_take(&numbers, NULL);
    assert_ptr_equal(owner_take(&numbers, "a"), a);
    assert_ptr_not_equal(owner_take(&numbers, "b"), a);
    assert_ptr_not_equal(first, second);
    assert_string_not_equal(first->tag, second->tag);
    assert_true(first->tag[0] == OWNER_PRIVATE_MARK);
    assert_int_equal(a->use_count, 2);
    owner_put(first); /* It is used again, and so its tag. */
    assert_ptr_equal(owner_take(&numbers, NULL), first);
    owner_put(a);
    assert_ptr_equal(owner_take(&numbers, "a"), a);
    owner_put(a);
    owner_put(a);
    LIST_FOR (const struct owner, owner, &numbers.owners, in_numbers) {
        assert_string_not_equal(owner->tag, "a");
    }
    request_numbers_done(&numbers);

    memset(longest, 'x', sizeof longest);
    longest[OWNER_TAG_SIZE] = '\0';
    assert_false(owner_tag_is_good(longest));
    longest[OWNER_TAG_SIZE - 1] = '\0';
    assert_true(owner_tag_is_good(longest));
    assert_true(owner_tag_is_good(""));
    assert_true(owner_tag_is_good("x#"));
    assert_false(owner_tag_is_good("#1"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_that_is_over_is_acknowledged),
        cmocka_unit_test(what_was_never_open_ends_nothing),
        cmocka_unit_test(a_promised_place_is_there),
        cmocka_unit_test(tags_are_shared_and_private_ones_are_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
