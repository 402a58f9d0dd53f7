/* SPDX-License-Identifier: MIT */

/* The newest events: which are kept, forgotten, and returned again. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"
#include "core/events/event_log.h"
#include "core/state.h"
#include "lockfsm/entry.h"

static uint64_t wall_ms(void *data)
{
    (void)data;
    return 77;
}

static int set_up(void **state)
{
    struct core *core = memory_new(sizeof *core);
    core->fsm = lockfsm_new();
    core->port.wall_ms = wall_ms;
    event_log_reset(core, 10);
    *state = core;
    return 0;
}

static int tear_down(void **state)
{
    struct core *core = *state;
    event_log_done(&core->event_log);
    lockfsm_free(core->fsm);
    free(core);
    return 0;
}

static void add(struct core *core, uint64_t index, const char *lock,
                struct bytes message)
{
    struct effect effect = {.log_index = index,
                            .lock = bytes_of_text(lock),
                            .session = index,
                            .token = index};
    event_log_add(core, "granted", &effect, message);
}

static bool knows(struct core *core, uint64_t index, uint32_t ordinal)
{
    struct event_log_id id = {0, index, ordinal};
    return event_log_knows(core, &id);
}

static void events_of_an_entry_are_numbered(void **state)
{
    struct core *core = *state;
    char id[EVENT_LOG_ID_SIZE];
    add(core, 11, "a", BYTES_LITERAL("one"));
    add(core, 11, "b", BYTES_LITERAL("two"));
    add(core, 13, "c", BYTES_LITERAL(""));
    const struct event_log_event *event = event_log_event(&core->event_log, 1);
    assert_int_equal(event->ordinal, 1);
    assert_int_equal(event->wall_ms, 77);
    assert_true(bytes_equal(event_log_name(&core->event_log, event),
                            BYTES_LITERAL("b")));
    assert_true(bytes_equal(event_log_message(&core->event_log, event),
                            BYTES_LITERAL("two")));
    assert_int_equal(event_log_event(&core->event_log, 2)->ordinal, 0);
    event_log_id_format(core, 13, 0, id);
    assert_string_equal(id, "0-13-0");
    struct event_log_id parsed;
    assert_true(event_log_id_parse(bytes_of_text(id), &parsed));
    assert_true(event_log_is_behind(event_log_event(&core->event_log, 2),
                                    &(struct event_log_id){0, 11, UINT32_MAX}));
    assert_false(
        event_log_is_behind(event_log_event(&core->event_log, 2), &parsed));
}

static void what_was_replayed_has_no_time(void **state)
{
    struct core *core = *state;
    core->run.replayed_index = 11;
    add(core, 11, "a", BYTES_LITERAL(""));
    add(core, 12, "a", BYTES_LITERAL(""));
    assert_int_equal(event_log_event(&core->event_log, 0)->wall_ms, 0);
    assert_int_equal(event_log_event(&core->event_log, 1)->wall_ms, 77);
}

static void beyond_so_many_the_oldest_are_forgotten(void **state)
{
    struct core *core = *state;
    assert_true(knows(core, 10, UINT32_MAX));
    assert_false(knows(core, 10, 5));
    for (uint64_t i = 0; i < EVENT_LOG_COUNT; i++) {
        add(core, 11 + i / 2, "a", BYTES_LITERAL(""));
    }
    assert_true(knows(core, 10, UINT32_MAX));
    add(core, 11 + EVENT_LOG_COUNT, "a", BYTES_LITERAL(""));
    assert_int_equal(core->event_log.next - core->event_log.first,
                     EVENT_LOG_COUNT);
    assert_false(knows(core, 10, UINT32_MAX));
    assert_true(knows(core, 11, 0)); /* Its second event is still there. */
    add(core, 11 + EVENT_LOG_COUNT, "a", BYTES_LITERAL(""));
    assert_false(knows(core, 11, 0));
    assert_true(knows(core, 11, 1));
}

/* Sizes that do not divide the ring: each event stays whole and contiguous. */
static void beyond_so_many_bytes_the_oldest_are_forgotten(void **state)
{
    struct core *core = *state;
    static char text[4096];
    for (uint64_t i = 0; i < 20000; i++) {
        memset(text, (int)('a' + i % 26), sizeof text);
        add(core, 11 + i, "name", bytes_of(text, 1 + i * 7919 % sizeof text));
    }
    uint64_t size = 0;
    for (uint64_t i = core->event_log.first; i < core->event_log.next; i++) {
        const struct event_log_event *event = event_log_event(&core->event_log,
                                                              i);
        struct bytes message = event_log_message(&core->event_log, event);
        assert_int_equal(event->index, 11 + i);
        assert_true(bytes_equal(event_log_name(&core->event_log, event),
                                BYTES_LITERAL("name")));
        assert_int_equal(message.size, 1 + i * 7919 % sizeof text);
        assert_int_equal(message.data[0], 'a' + i % 26);
        assert_int_equal(message.data[message.size - 1], 'a' + i % 26);
        size += event->name_size + event->message_size;
    }
    assert_in_range(size, EVENT_LOG_SIZE - 3 * sizeof text, EVENT_LOG_SIZE);
    assert_true(knows(core, core->event_log.first + 10, 0));
    assert_false(knows(core, core->event_log.first + 9, 0));
}

static void another_state_has_another_past(void **state)
{
    struct core *core = *state;
    add(core, 11, "a", BYTES_LITERAL(""));
    event_log_reset(core, 500);
    assert_int_equal(core->event_log.first, core->event_log.next);
    assert_false(knows(core, 11, 0));
    assert_true(knows(core, 500, UINT32_MAX));
    add(core, 501, "a", BYTES_LITERAL(""));
    assert_true(knows(core, 500, UINT32_MAX));
    struct event_log_id other = {1, 501, 0};
    assert_false(event_log_knows(core, &other));
}

static void begin_life(struct lockfsm *fsm, uint64_t index, uint64_t life)
{
    uint8_t id[CLUSTER_ID_SIZE] = {(uint8_t)life};
    struct begin_command begin = {.node = 1,
                                  .cluster_id = bytes_of(id, sizeof id),
                                  .token_base = life << 20};
    struct buffer command = {0};
    struct effects effects = {0};
    encode_begin(&command, &begin);
    assert_int_equal(
        lockfsm_apply(fsm, index, 1, buffer_bytes(&command), &effects), 0);
    effects_done(&effects);
    buffer_done(&command);
}

/* Between its start and the BEGIN of its new life a restored node has the state
 * of a backup, but not the events that followed it there. */
static void what_a_restored_state_was_is_no_life_any_more(void **state)
{
    struct core *core = *state;
    begin_life(core->fsm, 1, 9);
    struct event_log_id seen = {9, 501, 0};
    event_log_reset(core, 500);
    assert_true(event_log_knows(core, &seen));
    lockfsm_new_life(core->fsm, 0);
    event_log_reset(core, 500);
    assert_false(event_log_knows(core, &seen));
    begin_life(core->fsm, 2, 10);
    assert_false(event_log_knows(core, &seen));
    seen.life = lockfsm_token_base(core->fsm) >> 20;
    assert_true(event_log_knows(core, &seen));
}

#define PAST_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        PAST_TEST(events_of_an_entry_are_numbered),
        PAST_TEST(what_was_replayed_has_no_time),
        PAST_TEST(beyond_so_many_the_oldest_are_forgotten),
        PAST_TEST(beyond_so_many_bytes_the_oldest_are_forgotten),
        PAST_TEST(another_state_has_another_past),
        PAST_TEST(what_a_restored_state_was_is_no_life_any_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
