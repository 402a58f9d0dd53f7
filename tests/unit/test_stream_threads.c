/* SPDX-License-Identifier: MIT */

/* Streams on the loops of several threads (see it under FLAVOUR=tsan). */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/prng.h"
#include "net/stream.h"

/* A loop of its own with both ends: all that threads share is the spare
 * buffer. */
struct worker {
    uv_loop_t loop;
    struct listener *listener;
    struct stream server;
    struct stream client;
    struct prng prng;
    struct buffer sent;
    struct buffer got;
    int closed;
};

static void put_random(struct buffer *out, struct prng *prng, size_t size)
{
    uint8_t *at = buffer_reserve(out, size);
    for (size_t i = 0; i < size; i++) {
        at[i] = (uint8_t)prng_next(prng);
    }
    out->size += size;
}

static void worker_bytes(struct stream *stream)
{
    struct worker *worker = stream->owner;
    struct bytes input = stream_input(stream);
    if (stream == &worker->server) {
        buffer_put_bytes(stream_output(stream), input);
        stream_consume(stream, input.size);
        stream_flush(stream);
        return;
    }
    buffer_put_bytes(&worker->got, input);
    stream_consume(stream, input.size);
    if (worker->got.size == 400000) {
        stream_close(&worker->server, "done");
        stream_close(&worker->client, "done");
        listener_close(worker->listener);
    } else if (worker->got.size == worker->sent.size) {
        put_random(stream_output(stream), &worker->prng, 4000);
        buffer_put_bytes(&worker->sent, buffer_bytes(stream_output(stream)));
        stream_flush(stream);
    }
}

static void worker_closed(struct stream *stream, const char *reason)
{
    struct worker *worker = stream->owner;
    worker->closed += strcmp(reason, "done") == 0;
}

static const struct stream_events worker_events = {.on_bytes = worker_bytes,
                                                   .on_closed = worker_closed};

static struct stream *worker_accept(void *data, const char *address,
                                    const struct stream_events **ret_events,
                                    const struct stream_limits **ret_limits,
                                    void **ret_owner, const char **ret_refusal)
{
    struct worker *worker = data;
    (void)address;
    (void)ret_limits;
    (void)ret_refusal;
    *ret_events = &worker_events;
    *ret_owner = worker;
    return &worker->server;
}

static void work(void *data)
{
    uv_run(data, UV_RUN_DEFAULT);
}

static void loops_of_several_threads_do_not_disturb_each_other(void **state)
{
    (void)state;
    struct worker worker[3] = {0};
    uv_thread_t thread[3];
    char why[HASP_WHY_SIZE];
    for (int i = 0; i < 3; i++) {
        struct worker *w = &worker[i];
        w->prng.state = (uint64_t)i;
        assert_int_equal(uv_loop_init(&w->loop), 0);
        assert_int_equal(listener_open(&w->loop, "127.0.0.1", 0, worker_accept,
                                       NULL, w, &w->listener, why),
                         0);
        assert_int_equal(stream_connect(&w->client, &w->loop, "127.0.0.1",
                                        listener_port(w->listener),
                                        &worker_events, NULL, w),
                         0);
        put_random(stream_output(&w->client), &w->prng, 4000);
        buffer_put_bytes(&w->sent, buffer_bytes(stream_output(&w->client)));
        assert_int_equal(uv_thread_create(&thread[i], work, &w->loop), 0);
    }
    for (int i = 0; i < 3; i++) {
        struct worker *w = &worker[i];
        assert_int_equal(uv_thread_join(&thread[i]), 0);
        assert_int_equal(w->closed, 2);
        assert_true(bytes_equal(buffer_bytes(&w->got), buffer_bytes(&w->sent)));
        assert_int_equal(uv_loop_close(&w->loop), 0);
        buffer_done(&w->got);
        buffer_done(&w->sent);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loops_of_several_threads_do_not_disturb_each_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
