/* SPDX-License-Identifier: MIT */

/* Streams that end at once: their closes wait for slots. */

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "net/stream.h"

#define BOUND_MS 60000

/* One end of a connection, and how it has ended. */
struct fixture {
    uv_loop_t loop;
    uv_timer_t bound;
    struct stream_pace pace;
    struct stream stream;
    int fd;
    int other_fd;
    const char *expected; /* The reason. */
    int ended_calls;
    int closed_calls;
    const char *reason;
    bool was_closed_by_peer;
};

static void on_bytes(struct stream *stream)
{
    stream_consume(stream, stream_input(stream).size);
}

static void on_ended(struct stream *stream)
{
    struct fixture *f = stream->owner;
    f->ended_calls++;
}

static void on_closed(struct stream *stream, const char *reason)
{
    struct fixture *f = stream->owner;
    f->closed_calls++;
    f->reason = reason;
    f->was_closed_by_peer = stream->was_closed_by_peer;
}

static const struct stream_events events = {
    .on_bytes = on_bytes, .on_ended = on_ended, .on_closed = on_closed};

static void bound_cb(uv_timer_t *timer)
{
    (void)timer;
    fail_msg("the loop goes on for too long");
}

#define RUN_UNTIL(f, condition)                                        \
    do {                                                               \
        while (!(condition)) {                                         \
            assert_int_not_equal(uv_run(&(f)->loop, UV_RUN_ONCE), -1); \
        }                                                              \
    } while (0)

/* A connection, and no place in the slots of the next minute. */
static struct fixture *connect_one(void **state)
{
    static struct fixture fixture;
    struct fixture *f = &fixture;
    int ends[2];
    *f = (struct fixture){.fd = -1};
    assert_int_equal(uv_loop_init(&f->loop), 0);
    assert_int_equal(uv_timer_init(&f->loop, &f->bound), 0);
    assert_int_equal(uv_timer_start(&f->bound, bound_cb, BOUND_MS, 0), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends),
                     0);
    stream_pace_init(&f->pace);
    assert_false(stream_pace_hurry(&f->pace));
    f->pace.slot_ms = uv_now(&f->loop) + BOUND_MS;
    f->pace.count = STREAM_SLOT_COUNT;
    struct stream_limits limits = {.pace = &f->pace};
    f->fd = ends[0];
    stream_adopt(&f->stream, &f->loop, ends[0], &events, &limits, f);
    f->other_fd = ends[1];
    *state = f;
    return f;
}

static int run_until_it_waits(struct fixture *f, const char *expected)
{
    f->expected = expected;
    RUN_UNTIL(f, f->stream.is_closing);
    assert_int_equal(f->ended_calls, 1);
    assert_int_equal(f->closed_calls, 0);
    assert_true(uv_timer_get_due_in(&f->stream.timer) > BOUND_MS / 2);
    return 0;
}

static int set_up(void **state)
{
    struct fixture *f = connect_one(state);
    close(f->other_fd);
    return run_until_it_waits(f, "closed by the peer");
}

/* This end has sent its last bytes, and the other one answers by its close. */
static int set_up_ended_here(void **state)
{
    struct fixture *f = connect_one(state);
    stream_close_flushed(&f->stream, "disabled");
    close(f->other_fd);
    return run_until_it_waits(f, "disabled");
}

/* The same, but the other one does not answer in time. */
static int set_up_late(void **state)
{
    struct fixture *f = connect_one(state);
    stream_close_flushed(&f->stream, "late");
    uv_timer_start(&f->stream.timer, f->stream.timer.timer_cb, 0, 0);
    run_until_it_waits(f, "late");
    return close(f->other_fd);
}

static int set_up_unwanted(void **state)
{
    struct fixture *f = connect_one(state);
    stream_close_in_slot(&f->stream, "unwanted");
    stream_close_in_slot(&f->stream, "again");
    close(f->other_fd);
    return run_until_it_waits(f, "unwanted");
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    RUN_UNTIL(f, f->closed_calls > 0);
    assert_int_equal(f->closed_calls, 1);
    assert_int_equal(f->ended_calls, 1);
    assert_string_equal(f->reason, f->expected);
    assert_int_equal(f->was_closed_by_peer,
                     strcmp(f->expected, "closed by the peer") == 0);
    assert_false(stream_pace_hurry(&f->pace));
    uv_close((uv_handle_t *)&f->bound, NULL);
    while (uv_run(&f->loop, UV_RUN_DEFAULT) != 0) {
    }
    assert_int_equal(uv_loop_close(&f->loop), 0);
    return 0;
}

static bool is_open(int fd)
{
    return fcntl(fd, F_GETFD) != -1;
}

static void those_that_end_at_once_close_in_slots(void **state)
{
    struct stream_pace pace;
    (void)state;
    stream_pace_init(&pace);
    for (uint64_t i = 0; i < 10 * STREAM_SLOT_COUNT; i++) {
        assert_int_equal(stream_pace_ms(&pace, 5000),
                         i / STREAM_SLOT_COUNT * STREAM_SLOT_MS);
    }
    /* A connection that ends later queues after them, and not longer than they
     * do. */
    assert_int_equal(stream_pace_ms(&pace, 5003), 10 * STREAM_SLOT_MS - 3);
    assert_int_equal(stream_pace_ms(&pace, 5000 + 11 * STREAM_SLOT_MS), 0);
    /* A few wait for nothing, at any time. */
    for (uint64_t i = 0; i < 10 * STREAM_SLOT_COUNT; i++) {
        assert_int_equal(stream_pace_ms(&pace, 9000 + i / STREAM_SLOT_COUNT *
                                                          STREAM_SLOT_MS),
                         0);
    }
}

/* It is closing meanwhile: the only further event is its end. */
static void a_close_waits_for_its_slot(void **state)
{
    struct fixture *f = *state;
    buffer_put_text(stream_output(&f->stream), "nobody reads it");
    stream_flush(&f->stream);
    assert_int_equal(stream_unsent(&f->stream), 0);
    stream_close_flushed(&f->stream, "again");
    for (int i = 0; i < 3; i++) {
        assert_true(uv_run(&f->loop, UV_RUN_NOWAIT) != 0);
    }
    assert_int_equal(f->closed_calls, 0);
    assert_true(is_open(f->fd));
    assert_in_range(uv_timer_get_due_in(&f->stream.timer), BOUND_MS / 2,
                    BOUND_MS + STREAM_SLOT_MS);
    uv_timer_start(&f->stream.timer, f->stream.timer.timer_cb, 0, 0);
}

static void the_first_that_waits_makes_room(void **state)
{
    struct fixture *f = *state;
    assert_true(is_open(f->fd));
    assert_true(stream_pace_hurry(&f->pace));
    assert_false(is_open(f->fd));
    assert_false(stream_pace_hurry(&f->pace));
}

static void one_that_waits_is_closed_by_who_closes_it(void **state)
{
    struct fixture *f = *state;
    assert_true(is_open(f->fd));
    stream_close(&f->stream, "again");
    assert_false(is_open(f->fd));
    stream_close(&f->stream, "a third time");
}

static void at_the_end_of_the_process_none_waits(void **state)
{
    struct fixture *f = *state;
    f->pace.is_off = true;
    for (uint64_t i = 0; i < 10 * STREAM_SLOT_COUNT; i++) {
        assert_int_equal(stream_pace_ms(&f->pace, 5000), 0);
    }
    assert_true(stream_pace_hurry(&f->pace));
}

#define PACE_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(those_that_end_at_once_close_in_slots),
        PACE_TEST(a_close_waits_for_its_slot),
        cmocka_unit_test_setup_teardown(a_close_waits_for_its_slot,
                                        set_up_ended_here, tear_down),
        cmocka_unit_test_setup_teardown(a_close_waits_for_its_slot, set_up_late,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_close_waits_for_its_slot,
                                        set_up_unwanted, tear_down),
        PACE_TEST(at_the_end_of_the_process_none_waits),
        PACE_TEST(the_first_that_waits_makes_room),
        PACE_TEST(one_that_waits_is_closed_by_who_closes_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
