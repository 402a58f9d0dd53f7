/* SPDX-License-Identifier: MIT */

/* The events of acquisitions that hooks are called for. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "client/hooks.h"

static struct hook_queue queue;
static char seen[4096]; /* What hooks were called for. */

static void hear(void *data, const struct hasp_hook_event *event)
{
    static const char *const kinds[] = {"",       "acquire",  "wait", "granted",
                                        "failed", "released", "lost"};
    size_t size = strlen(seen);
    (void)data;
    snprintf(seen + size, sizeof seen - size, "%s%llu:%s:%llu+%llu%s%s;",
             kinds[event->kind], (unsigned long long)event->id, event->name,
             (unsigned long long)event->token,
             (unsigned long long)event->elapsed_ns,
             event->text[0] != '\0' ? "," : "", event->text);
}

static void begin(void)
{
    hook_queue_init(&queue);
    hasp_hooks_init(&queue.hooks);
    queue.is_on = true;
    queue.hooks.acquire = queue.hooks.wait = queue.hooks.granted = hear;
    queue.hooks.failed = queue.hooks.released = queue.hooks.lost = hear;
    seen[0] = '\0';
}

static struct hasp_hook_event call_all(void)
{
    struct hasp_hook_event event = {.skipped = 0};
    while (hook_queue_take(&queue, 100, 1000, &event)) {
        hooks_call(&queue.hooks, &event);
    }
    return event;
}

static void each_begins_once_and_ends_once(void **state)
{
    (void)state;
    begin();
    struct hooked *one = hooked_new(&queue, "a", "00-1", 10);
    hooked_released(one, 11); /* It is not granted yet. */
    hooked_waits(one, 12);
    hooked_waits(one, 13);
    hooked_granted(one, 7, 15);
    hooked_failed(one, "late", 16);
    hooked_lost(one, "kicked", 6, 20);
    hooked_lost(one, "again", 5, 21);
    hooked_released(one, 22);
    hooked_free(one);
    struct hasp_hook_event last = call_all();
    assert_string_equal(seen, "acquire1:a:0+0;wait1:a:0+2;granted1:a:7+5;"
                              "lost1:a:7+5,kicked;");
    assert_string_equal(last.trace, "00-1");
    assert_int_equal(last.unix_ns, 920); /* It was 80 ns ago. */
    hook_queue_done(&queue);
}

static void one_that_is_not_granted_ends_by_failed(void **state)
{
    (void)state;
    begin();
    struct hooked *one = hooked_new(&queue, "a", NULL, 10);
    hooked_failed(one, "LIMIT", 12);
    hooked_granted(one, 7, 15);
    hooked_free(one);
    call_all();
    assert_string_equal(seen, "acquire1:a:0+0;failed1:a:0+2,LIMIT;");
    hook_queue_done(&queue);
}

static void late_hooks_miss_whole_acquisitions(void **state)
{
    struct hooked *first = NULL;
    (void)state;
    begin();
    for (uint32_t i = 0; i < HOOKS_LATE_MAX; i++) {
        struct hooked *one = hooked_new(&queue, "b", NULL, 1);
        assert_non_null(one);
        if (i == 0) {
            first = one;
        } else {
            hooked_free(one);
        }
    }
    for (int i = 0; i < 3; i++) {
        struct hooked *none = hooked_new(&queue, "c", NULL, 2);
        assert_null(none);
        hooked_granted(none, 9, 2);
        hooked_free(none);
    }
    assert_int_equal(queue.count, HOOKS_LATE_MAX);
    hooked_granted(first, 9, 3);
    hooked_released(first, 4);
    hooked_free(first);
    assert_int_equal(queue.count, HOOKS_LATE_MAX + 2);
    uint64_t skipped = 0;
    struct hasp_hook_event event;
    while (hook_queue_take(&queue, 5, 5, &event)) {
        assert_int_equal(event.skipped,
                         event.kind == HASP_HOOK_GRANTED ? 3 : 0);
        skipped += event.skipped;
    }
    assert_int_equal(skipped, 3);
    hook_queue_done(&queue);
}

static void without_hooks_nothing_is_reported(void **state)
{
    (void)state;
    hook_queue_init(&queue);
    assert_null(hooked_new(&queue, "a", NULL, 1));
    assert_int_equal(queue.skipped, 0);
}

static void events_that_nobody_takes_are_freed(void **state)
{
    (void)state;
    begin();
    struct hooked *one = hooked_new(&queue, "a", NULL, 1);
    hooked_waits(one, 2);
    hooked_free(one);
    hook_queue_done(&queue);
    assert_int_equal(queue.count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_begins_once_and_ends_once),
        cmocka_unit_test(one_that_is_not_granted_ends_by_failed),
        cmocka_unit_test(late_hooks_miss_whole_acquisitions),
        cmocka_unit_test(without_hooks_nothing_is_reported),
        cmocka_unit_test(events_that_nobody_takes_are_freed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
