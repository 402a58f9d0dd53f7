/* SPDX-License-Identifier: MIT */

/* Streams and listeners on loopback: a pair of streams, or a stream and a plain
 * blocking socket as an unknown peer. Every loop has a time limit. */

#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/log.h"
#include "base/memory.h"
#include "base/prng.h"
#include "net/stream.h"

#define BOUND_MS 60000

/* One end, with its events. */
struct end {
    struct stream stream;
    struct buffer got; /* Bytes consumed by on_bytes. */
    int bytes_calls;
    int connected_calls;
    int closed_calls;
    const char *reason;
    size_t consume_max;     /* 0: everything. */
    const char *close_with; /* on_bytes closes. */
    bool close_on_connect;
    bool pause_once;
    bool pause_and_resume_once;
    bool keeps_input;
};

struct fixture {
    uv_loop_t loop;
    uv_timer_t bound;
    struct listener *listener;
    struct stream_limits limits;
    struct end server;
    struct end client;
    int accepted;
    bool refuses;
    bool had_ended; /* The server's end, when the newest was accepted. */
    bool is_late;
    const char *refusal;
    const char *ready_text;
    bool ready_closes;
};

/* --- Fixture -------------------------------------------------------------- */

static void on_bytes(struct stream *stream)
{
    struct end *end = stream->owner;
    assert_int_equal(end->closed_calls, 0);
    end->bytes_calls++;
    struct bytes input = stream_input(stream);
    assert_true(input.size > 0);
    if (end->pause_once) {
        end->pause_once = false;
        stream_pause(stream);
        return;
    }
    if (end->keeps_input) {
        return;
    }
    size_t size = end->consume_max > 0 && input.size > end->consume_max
                      ? end->consume_max
                      : input.size;
    buffer_put(&end->got, input.data, size);
    stream_consume(stream, size);
    if (end->pause_and_resume_once) {
        end->pause_and_resume_once = false;
        stream_pause(stream);
        stream_resume(stream);
    }
    if (end->close_with != NULL) {
        stream_close(stream, end->close_with);
        stream_close(stream, "a second reason");
    }
}

static void on_connected(struct stream *stream)
{
    struct end *end = stream->owner;
    end->connected_calls++;
    if (end->close_on_connect) {
        stream_close(stream, "not wanted");
    }
}

static void on_closed(struct stream *stream, const char *reason)
{
    struct end *end = stream->owner;
    end->closed_calls++;
    end->reason = reason;
    /* The owner may free what embeds the stream: it must not be read again. */
    struct stream last = *stream;
    memset(stream, 0xa5, sizeof *stream);
    stream->was_closed_by_peer = last.was_closed_by_peer;
    stream->has_failed_lookup = last.has_failed_lookup;
}

static const struct stream_events events = {
    .on_bytes = on_bytes, .on_connected = on_connected, .on_closed = on_closed};

static struct stream *accept_one(void *data, const char *address,
                                 const struct stream_events **ret_events,
                                 const struct stream_limits **ret_limits,
                                 void **ret_owner, const char **ret_refusal)
{
    struct fixture *f = data;
    assert_memory_equal(address, "127.0.0.1:", 10);
    f->accepted++;
    f->had_ended = f->server.stream.is_closing;
    if (f->refuses) {
        *ret_refusal = f->refusal;
        return NULL;
    }
    *ret_events = &events;
    *ret_limits = &f->limits;
    *ret_owner = &f->server;
    return &f->server.stream;
}

static void ready(void *data, struct stream *stream)
{
    struct fixture *f = data;
    if (f->ready_text != NULL) {
        buffer_put_text(stream_output(stream), f->ready_text);
        stream_flush(stream);
    }
    if (f->ready_closes) {
        stream_close(stream, "not today");
    }
}

static void late_cb(uv_timer_t *timer)
{
    struct fixture *f = timer->data;
    f->is_late = true;
}

static int set_up(void **state)
{
    struct fixture *f = memory_new(sizeof *f);
    char why[HASP_WHY_SIZE];
    sigaction(SIGPIPE, &(struct sigaction){.sa_handler = SIG_IGN}, NULL);
    assert_int_equal(uv_loop_init(&f->loop), 0);
    assert_int_equal(uv_timer_init(&f->loop, &f->bound), 0);
    f->bound.data = f;
    assert_int_equal(listener_open(&f->loop, "127.0.0.1", 0, accept_one, ready,
                                   f, &f->listener, why),
                     0);
    uv_timer_start(&f->bound, late_cb, BOUND_MS, 0);
    uv_unref((uv_handle_t *)&f->bound);
    *state = f;
    return 0;
}

/* Turns the loop until 'fact' is true. */
#define RUN_UNTIL(f, fact)                                 \
    do {                                                   \
        uv_timer_start(&(f)->bound, late_cb, BOUND_MS, 0); \
        while (!(fact)) {                                  \
            assert_false((f)->is_late);                    \
            uv_ref((uv_handle_t *)&(f)->bound);            \
            uv_run(&(f)->loop, UV_RUN_ONCE);               \
            uv_unref((uv_handle_t *)&(f)->bound);          \
        }                                                  \
    } while (0)

/* Turns the loop for a while. */
static void run_for(struct fixture *f, uint64_t ms)
{
    uint64_t end = uv_hrtime() + ms * 1000000;
    while (uv_hrtime() < end) {
        uv_run(&f->loop, UV_RUN_NOWAIT);
        usleep(1000);
    }
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    struct end *ends[] = {&f->server, &f->client};
    for (int i = 0; i < 2; i++) {
        struct end *end = ends[i];
        if (end->stream.events != NULL && end->closed_calls == 0) {
            stream_close(&end->stream, "the test is over");
            RUN_UNTIL(f, end->closed_calls == 1);
        }
        assert_in_range(end->closed_calls, 0, 1);
        buffer_done(&end->got);
    }
    if (f->listener != NULL) {
        listener_close(f->listener);
    }
    uv_close((uv_handle_t *)&f->bound, NULL);
    assert_int_equal(uv_run(&f->loop, UV_RUN_DEFAULT), 0);
    assert_int_equal(uv_loop_close(&f->loop), 0);
    free(f);
    return 0;
}

static void connect_pair(struct fixture *f)
{
    assert_int_equal(stream_connect(&f->client.stream, &f->loop, "127.0.0.1",
                                    listener_port(f->listener), &events,
                                    &f->limits, &f->client),
                     0);
    RUN_UNTIL(f, f->client.connected_calls == 1 && f->accepted == 1);
}

/* An unknown peer's blocking socket, connected. */
static int open_stranger(struct fixture *f)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons(listener_port(f->listener)),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct timeval bound = {.tv_sec = 5};
    assert_true(fd >= 0);
    assert_int_equal(
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &bound, sizeof bound), 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    return fd;
}

/* The same, and accepted. */
static int connect_stranger(struct fixture *f)
{
    int before = f->accepted;
    int fd = open_stranger(f);
    RUN_UNTIL(f, f->accepted > before);
    return fd;
}

static int option_of(int fd, int level, int name)
{
    int value = -1;
    socklen_t size = sizeof value;
    assert_int_equal(getsockopt(fd, level, name, &value, &size), 0);
    return value;
}

static void put_random(struct buffer *out, struct prng *prng, size_t size)
{
    uint8_t *at = buffer_reserve(out, size);
    for (size_t i = 0; i < size; i++) {
        at[i] = (uint8_t)prng_next(prng);
    }
    out->size += size;
}

/* --- Bytes ---------------------------------------------------------------- */

static void bytes_arrive_in_order_both_ways(void **state)
{
    struct fixture *f = *state;
    struct prng prng = {1};
    struct buffer sent[2] = {{0}, {0}};
    connect_pair(f);
    struct stream *streams[2] = {&f->client.stream, &f->server.stream};
    for (int round = 0; round < 300; round++) {
        for (int i = 0; i < 2; i++) {
            size_t start = sent[i].size;
            put_random(&sent[i], &prng,
                       prng_below(&prng, round % 50 == 0 ? 2000000 : 20000));
            buffer_put(stream_output(streams[i]), sent[i].data + start,
                       sent[i].size - start);
            stream_flush(streams[i]);
        }
        uv_run(&f->loop, UV_RUN_NOWAIT);
    }
    RUN_UNTIL(f, f->server.got.size >= sent[0].size &&
                     f->client.got.size >= sent[1].size);
    assert_true(
        bytes_equal(buffer_bytes(&f->server.got), buffer_bytes(&sent[0])));
    assert_true(
        bytes_equal(buffer_bytes(&f->client.got), buffer_bytes(&sent[1])));
    buffer_done(&sent[0]);
    buffer_done(&sent[1]);
}

static void an_idle_stream_keeps_little_memory(void **state)
{
    struct fixture *f = *state;
    struct prng prng = {2};
    connect_pair(f);
    f->server.consume_max = 1;
    f->server.pause_once = true;
    put_random(stream_output(&f->client.stream), &prng, 3000000);
    stream_flush(&f->client.stream);
    RUN_UNTIL(f, stream_input(&f->server.stream).size >= 1u << 20);
    f->server.consume_max = 0;
    stream_resume(&f->server.stream);
    RUN_UNTIL(f, f->server.got.size == 3000000);
    run_for(f, 10);
    struct stream *ends[2] = {&f->client.stream, &f->server.stream};
    for (int i = 0; i < 2; i++) {
        assert_true(ends[i]->input.capacity + ends[i]->output.capacity +
                        ends[i]->in_flight.capacity <=
                    16u << 10);
    }
}

static void
what_the_owner_leaves_is_seen_again_with_more_behind_it(void **state)
{
    struct fixture *f = *state;
    connect_pair(f);
    f->server.keeps_input = true;
    struct buffer *out = stream_output(&f->client.stream);
    for (int i = 0; i < 200; i++) {
        int calls = f->server.bytes_calls;
        buffer_printf(out, "%03d,", i);
        stream_flush(&f->client.stream);
        RUN_UNTIL(f, f->server.bytes_calls > calls);
        assert_int_equal(stream_input(&f->server.stream).size, (i + 1) * 4);
    }
    struct bytes input = stream_input(&f->server.stream);
    assert_memory_equal(input.data, "000,001,", 8);
    assert_memory_equal(input.data + 796, "199,", 4);
    /* From outside of on_bytes. */
    stream_consume(&f->server.stream, 796);
    input = stream_input(&f->server.stream);
    assert_memory_equal(input.data, "199,", 4);
    f->server.keeps_input = false;
    buffer_put_text(out, "more");
    stream_flush(&f->client.stream);
    RUN_UNTIL(f, f->server.got.size > 0);
    assert_memory_equal(f->server.got.data, "199,more", 8);
}

static void small_bites_see_every_byte_once(void **state)
{
    struct fixture *f = *state;
    struct prng prng = {3};
    struct buffer sent = {0};
    f->limits.input_max = 5000;
    connect_pair(f);
    f->server.consume_max = 77;
    put_random(&sent, &prng, 60000);
    buffer_put_bytes(stream_output(&f->client.stream), buffer_bytes(&sent));
    stream_flush(&f->client.stream);
    /* on_bytes is called for new bytes, not for old ones: a push a turn. */
    uint64_t pushed = 0;
    while (f->server.got.size < sent.size) {
        assert_true(pushed++ < 100000);
        assert_true(stream_input(&f->server.stream).size <= 5000);
        assert_true(f->server.stream.input.capacity <= 16384);
        stream_pause(&f->server.stream);
        stream_resume(&f->server.stream);
        uv_run(&f->loop, UV_RUN_NOWAIT);
    }
    assert_true(bytes_equal(buffer_bytes(&f->server.got), buffer_bytes(&sent)));
    buffer_done(&sent);
}

static void several_appends_leave_with_one_write(void **state)
{
    struct fixture *f = *state;
    char got[64] = "";
    int fd = connect_stranger(f);
    for (int i = 0; i < 10; i++) {
        buffer_printf(stream_output(&f->server.stream), "+%d\r\n", i);
    }
    stream_flush(&f->server.stream);
    /* No turn of the loop is needed: the socket took it at once. */
    assert_int_equal(recv(fd, got, sizeof got, 0), 40);
    assert_int_equal(stream_unsent(&f->server.stream), 0);
    close(fd);
}

/* --- Pressure ------------------------------------------------------------- */

static void a_paused_owner_gets_no_more_than_the_limit(void **state)
{
    struct fixture *f = *state;
    struct prng prng = {4};
    struct buffer sent = {0};
    f->limits.input_max = 100000;
    f->limits.output_max = 64u << 20;
    connect_pair(f);
    f->server.pause_once = true;
    put_random(&sent, &prng, 20u << 20);
    buffer_put_bytes(stream_output(&f->client.stream), buffer_bytes(&sent));
    stream_flush(&f->client.stream);
    run_for(f, 100);
    assert_int_equal(f->server.bytes_calls, 1);
    assert_int_equal(stream_input(&f->server.stream).size, 100000);
    assert_true(f->server.stream.input.capacity <= 1u << 18);
    assert_true(stream_unsent(&f->client.stream) > 1u << 20);
    stream_resume(&f->server.stream);
    assert_int_equal(f->server.bytes_calls, 1); /* Not from inside the call. */
    RUN_UNTIL(f, f->server.got.size == sent.size);
    assert_true(bytes_equal(buffer_bytes(&f->server.got), buffer_bytes(&sent)));
    buffer_done(&sent);
}

static void resuming_inside_on_bytes_calls_it_once_more(void **state)
{
    struct fixture *f = *state;
    connect_pair(f);
    f->server.consume_max = 3;
    f->server.pause_and_resume_once = true;
    buffer_put_text(stream_output(&f->client.stream), "abcdefgh");
    stream_flush(&f->client.stream);
    RUN_UNTIL(f, f->server.got.size >= 6);
    run_for(f, 20);
    assert_int_equal(f->server.bytes_calls, 2);
    assert_int_equal(f->server.got.size, 6);
    assert_int_equal(stream_input(&f->server.stream).size, 2);
}

static void a_reader_that_is_too_slow_is_closed(void **state)
{
    struct fixture *f = *state;
    f->limits.output_max = 1u << 20;
    int fd = connect_stranger(f);
    size_t most = 0;
    for (int i = 0; i < 10000 && f->server.closed_calls == 0; i++) {
        uint8_t zeroes[10000] = {0};
        buffer_put(stream_output(&f->server.stream), zeroes, sizeof zeroes);
        stream_flush(&f->server.stream);
        if (!f->server.stream.is_closing) {
            size_t unsent = stream_unsent(&f->server.stream);
            most = unsent > most ? unsent : most;
        }
        uv_run(&f->loop, UV_RUN_NOWAIT);
    }
    assert_int_equal(f->server.closed_calls, 1);
    assert_string_equal(f->server.reason, "output limit");
    assert_false(f->server.stream.was_closed_by_peer);
    assert_in_range(most, 900000, 1u << 20);
    close(fd);
}

/* --- The end -------------------------------------------------------------- */

static void the_other_ends_close_is_told_as_such(void **state)
{
    struct fixture *f = *state;
    int fd = connect_stranger(f);
    close(fd);
    RUN_UNTIL(f, f->server.closed_calls == 1);
    assert_string_equal(f->server.reason, "closed by the peer");
    assert_true(f->server.stream.was_closed_by_peer);
}

static void the_other_ends_reset_is_told_as_such(void **state)
{
    struct fixture *f = *state;
    struct linger now = {.l_onoff = 1, .l_linger = 0};
    int fd = connect_stranger(f);
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    close(fd);
    RUN_UNTIL(f, f->server.closed_calls == 1);
    assert_string_equal(f->server.reason, "reset by the peer");
    assert_true(f->server.stream.was_closed_by_peer);
}

static void a_paused_stream_notices_that_the_other_end_has_gone(void **state)
{
    struct fixture *f = *state;
    int fd = connect_stranger(f);
    f->server.pause_once = true;
    assert_int_equal(write(fd, "block me", 8), 8);
    RUN_UNTIL(f, f->server.bytes_calls == 1);
    close(fd);
    RUN_UNTIL(f, f->server.closed_calls == 1);
    assert_true(f->server.stream.was_closed_by_peer);
    assert_int_equal(f->server.bytes_calls, 1);
}

static void closing_inside_on_bytes_ends_all_callbacks(void **state)
{
    struct fixture *f = *state;
    connect_pair(f);
    f->server.close_with = "seen enough";
    f->server.consume_max = 1;
    buffer_put_text(stream_output(&f->client.stream), "abc");
    stream_flush(&f->client.stream);
    RUN_UNTIL(f, f->server.closed_calls == 1 && f->client.closed_calls == 1);
    assert_string_equal(f->server.reason, "seen enough");
    assert_int_equal(f->server.bytes_calls, 1);
    assert_false(f->server.stream.was_closed_by_peer);
    assert_true(f->client.stream.was_closed_by_peer);
}

static void closing_inside_on_connected_is_fine(void **state)
{
    struct fixture *f = *state;
    f->client.close_on_connect = true;
    connect_pair(f);
    RUN_UNTIL(f, f->server.closed_calls == 1 && f->client.closed_calls == 1);
    assert_string_equal(f->client.reason, "not wanted");
}

static void closing_inside_ready_is_fine(void **state)
{
    struct fixture *f = *state;
    f->ready_closes = true;
    int fd = connect_stranger(f);
    RUN_UNTIL(f, f->server.closed_calls == 1);
    assert_string_equal(f->server.reason, "not today");
    close(fd);
}

static void closing_while_a_write_is_under_way_loses_it(void **state)
{
    struct fixture *f = *state;
    struct prng prng = {5};
    int fd = connect_stranger(f);
    put_random(stream_output(&f->server.stream), &prng, 15u << 20);
    stream_flush(&f->server.stream);
    assert_true(f->server.stream.is_writing);
    stream_close(&f->server.stream, "now");
    assert_int_equal(f->server.closed_calls, 0); /* Never inside the call. */
    RUN_UNTIL(f, f->server.closed_calls == 1);
    assert_string_equal(f->server.reason, "now");
    close(fd);
}

static void last_words_arrive_though_the_other_end_still_talks(void **state)
{
    struct fixture *f = *state;
    struct prng prng = {6};
    struct buffer words = {0};
    struct buffer got = {0};
    put_random(&words, &prng, 3u << 20);
    int fd = connect_stranger(f);
    f->server.keeps_input = true;
    assert_int_equal(write(fd, "garbage", 7), 7);
    RUN_UNTIL(f, f->server.bytes_calls == 1);
    buffer_put_bytes(stream_output(&f->server.stream), buffer_bytes(&words));
    stream_close_flushed(&f->server.stream, "protocol error");
    assert_int_equal(write(fd, "more garbage", 12), 12);
    for (;;) {
        uv_run(&f->loop, UV_RUN_NOWAIT);
        uint8_t *at = buffer_reserve(&got, 100000);
        ssize_t size = recv(fd, at, 100000, MSG_DONTWAIT);
        if (size == 0) {
            break;
        }
        if (size < 0) {
            assert_int_equal(errno, EAGAIN);
            usleep(1000);
            continue;
        }
        got.size += (size_t)size;
    }
    assert_true(bytes_equal(buffer_bytes(&got), buffer_bytes(&words)));
    assert_int_equal(f->server.closed_calls, 0);
    close(fd);
    RUN_UNTIL(f, f->server.closed_calls == 1);
    assert_string_equal(f->server.reason, "protocol error");
    assert_int_equal(f->server.bytes_calls, 1);
    buffer_done(&words);
    buffer_done(&got);
}

static void last_words_to_one_that_never_closes_are_bounded(void **state)
{
    struct fixture *f = *state;
    int fd = connect_stranger(f);
    uint64_t start = uv_hrtime();
    buffer_put_text(stream_output(&f->server.stream), "+OK\r\n");
    stream_close_flushed(&f->server.stream, "quit");
    RUN_UNTIL(f, f->server.closed_calls == 1);
    assert_true(uv_hrtime() - start >=
                (STREAM_LAST_FLUSH_MS - 10) * 1000000ull);
    assert_string_equal(f->server.reason, "quit");
    close(fd);
}

/* --- Connecting ----------------------------------------------------------- */

static void a_refused_connection_is_told(void **state)
{
    struct fixture *f = *state;
    uint16_t port = listener_port(f->listener);
    listener_close(f->listener);
    f->listener = NULL;
    assert_int_equal(stream_connect(&f->client.stream, &f->loop, "127.0.0.1",
                                    port, &events, NULL, &f->client),
                     0);
    assert_int_equal(f->client.closed_calls, 0);
    RUN_UNTIL(f, f->client.closed_calls == 1);
    assert_string_equal(f->client.reason, "connection refused");
    assert_int_equal(f->client.connected_calls, 0);
    assert_false(f->client.stream.was_closed_by_peer);
    assert_false(f->client.stream.has_failed_lookup);
}

/* Replaces libuv's: the name "two.addresses" has 127.0.0.2, where nothing
 * listens, and then 127.0.0.1. */
typedef int getaddrinfo_fn(uv_loop_t *loop, uv_getaddrinfo_t *request,
                           uv_getaddrinfo_cb cb, const char *node,
                           const char *service, const struct addrinfo *hints);
static uv_getaddrinfo_cb resolved_cb;
static uv_getaddrinfo_t *unanswered;

static void append_second(uv_getaddrinfo_t *request, int status,
                          struct addrinfo *list)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    if (status == 0) {
        assert_int_equal(getaddrinfo("127.0.0.1", "1", &hints, &list->ai_next),
                         0);
        ((struct sockaddr_in *)list->ai_next->ai_addr)
            ->sin_port = ((struct sockaddr_in *)list->ai_addr)->sin_port;
    }
    resolved_cb(request, status, list);
}

int uv_getaddrinfo(uv_loop_t *loop, uv_getaddrinfo_t *request,
                   uv_getaddrinfo_cb cb, const char *node, const char *service,
                   const struct addrinfo *hints)
{
    getaddrinfo_fn *real = NULL;
    *(void **)&real = dlsym(RTLD_NEXT, "uv_getaddrinfo");
    assert_true(real != NULL);
    resolved_cb = cb;
    if (strcmp(node, "never.answered") == 0) {
        unanswered = request;
        return 0;
    }
    if (strcmp(node, "two.addresses") != 0) {
        return real(loop, request, cb, node, service, hints);
    }
    return real(loop, request, append_second, "127.0.0.2", service, hints);
}

static void each_address_of_a_name_is_tried(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(stream_connect(&f->client.stream, &f->loop,
                                    "two.addresses", listener_port(f->listener),
                                    &events, NULL, &f->client),
                     0);
    RUN_UNTIL(f, f->client.connected_calls == 1 && f->accepted == 1);
    assert_int_equal(f->client.closed_calls, 0);
    assert_memory_equal(f->client.stream.address, "127.0.0.1:", 10);
}

static void when_all_addresses_fail_the_last_reason_is_told(void **state)
{
    struct fixture *f = *state;
    uint16_t port = listener_port(f->listener);
    listener_close(f->listener);
    f->listener = NULL;
    assert_int_equal(stream_connect(&f->client.stream, &f->loop,
                                    "two.addresses", port, &events, NULL,
                                    &f->client),
                     0);
    RUN_UNTIL(f, f->client.closed_calls == 1);
    assert_string_equal(f->client.reason, "connection refused");
}

static void a_name_that_does_not_exist_is_told(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(stream_connect(&f->client.stream, &f->loop, "no such host",
                                    1, &events, NULL, &f->client),
                     0);
    RUN_UNTIL(f, f->client.closed_calls == 1);
    assert_non_null(strstr(f->client.reason, "host name"));
    assert_true(f->client.stream.has_failed_lookup);
}

/* A name server that does not answer keeps the resolver for half a minute. */
static void a_lookup_has_its_time(void **state)
{
    struct fixture *f = *state;
    struct stream_limits limits = {.connect_ms = 50};
    assert_int_equal(stream_connect(&f->client.stream, &f->loop,
                                    "never.answered", 1, &events, &limits,
                                    &f->client),
                     0);
    RUN_UNTIL(f, f->client.closed_calls == 1);
    assert_true(f->client.stream.has_failed_lookup);
    assert_non_null(strstr(f->client.reason, "not resolved"));
    resolved_cb(unanswered, UV_ECANCELED, NULL);
}

static void all_addresses_are_both_kinds(void **state)
{
    struct fixture *f = *state;
    char why[HASP_WHY_SIZE] = "";
    int fd;
    assert_int_equal(listener_bind("*", 0, &fd, why), 0);
    assert_false(listener_is_loopback_of(fd));
    listener_close(f->listener);
    f->listener = NULL;
    int v6 = socket(AF_INET6, SOCK_STREAM, 0);
    for (int i = 0; i < (v6 >= 0 ? 2 : 1); i++) {
        f->client = (struct end){0};
        assert_int_equal(stream_connect(&f->client.stream, &f->loop,
                                        i == 0 ? "127.0.0.1" : "::1",
                                        listener_port_of(fd), &events, NULL,
                                        &f->client),
                         0);
        RUN_UNTIL(f, f->client.connected_calls == 1);
        stream_close(&f->client.stream, "seen");
        RUN_UNTIL(f, f->client.closed_calls == 1);
    }
    close(v6);
    close(fd);
}

static void closing_while_connecting_or_resolving_is_fine(void **state)
{
    struct fixture *f = *state;
    const char *hosts[] = {"127.0.0.1", "localhost", "no such host",
                           "two.addresses"};
    for (int i = 0; i < 40; i++) {
        f->client = (struct end){0};
        assert_int_equal(stream_connect(&f->client.stream, &f->loop,
                                        hosts[i % 4], 9, &events, NULL,
                                        &f->client),
                         0);
        for (int turn = 0; turn < i / 4; turn++) {
            uv_run(&f->loop, UV_RUN_NOWAIT);
        }
        if (f->client.closed_calls == 0) {
            stream_close(&f->client.stream, "changed my mind");
        }
        RUN_UNTIL(f, f->client.closed_calls == 1);
        assert_int_equal(f->client.connected_calls, 0);
    }
}

static void an_unusable_target_starts_nothing(void **state)
{
    struct fixture *f = *state;
    char host[300];
    memset(host, 'a', sizeof host);
    host[sizeof host - 1] = '\0';
    assert_int_equal(stream_connect(&f->client.stream, &f->loop, host, 1,
                                    &events, NULL, &f->client),
                     HASP_EINVALID);
    assert_int_equal(stream_connect(&f->client.stream, &f->loop, "", 1, &events,
                                    NULL, &f->client),
                     HASP_EINVALID);
    assert_int_equal(stream_connect(&f->client.stream, &f->loop, "a", 0,
                                    &events, NULL, &f->client),
                     HASP_EINVALID);
    assert_null(f->client.stream.events);
}

static void half_open_connections_are_noticed_within_seconds(void **state)
{
    struct fixture *f = *state;
    connect_pair(f);
    struct stream *ends[2] = {&f->client.stream, &f->server.stream};
    for (int i = 0; i < 2; i++) {
        int fd = -1;
        assert_int_equal(uv_fileno((uv_handle_t *)&ends[i]->tcp, &fd), 0);
        assert_int_equal(option_of(fd, IPPROTO_TCP, TCP_NODELAY), 1);
        assert_int_equal(option_of(fd, SOL_SOCKET, SO_KEEPALIVE), 1);
        assert_int_equal(option_of(fd, IPPROTO_TCP, TCP_KEEPIDLE), 2);
        assert_int_equal(option_of(fd, IPPROTO_TCP, TCP_KEEPINTVL), 1);
        assert_int_equal(option_of(fd, IPPROTO_TCP, TCP_KEEPCNT), 3);
        assert_int_equal(option_of(fd, IPPROTO_TCP, TCP_USER_TIMEOUT), 5000);
    }
}

static void set_loopback(bool is_up)
{
    struct ifreq request = {.ifr_name = "lo"};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    assert_int_equal(ioctl(fd, SIOCGIFFLAGS, &request), 0);
    request.ifr_flags = (short)(is_up ? request.ifr_flags | IFF_UP
                                      : request.ifr_flags & ~IFF_UP);
    assert_int_equal(ioctl(fd, SIOCSIFFLAGS, &request), 0);
    close(fd);
}

/* In a network of its own, whose only interface then goes down: no FIN, no
 * reset, no packet arrives. Needs root; skipped elsewhere. */
static void a_dead_network_is_noticed_within_seconds(void **state)
{
    struct fixture *f = *state;
    int before = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    if (before < 0 || unshare(CLONE_NEWNET) != 0) {
        close(before);
        skip();
    }
    set_loopback(true);
    listener_close(f->listener);
    char why[HASP_WHY_SIZE];
    assert_int_equal(listener_open(&f->loop, "127.0.0.1", 0, accept_one, ready,
                                   f, &f->listener, why),
                     0);
    connect_pair(f);
    run_for(f, 20);
    set_loopback(false);
    /* One end has something to send, the other is idle. */
    buffer_put_text(stream_output(&f->client.stream), "are you there");
    stream_flush(&f->client.stream);
    uint64_t start = uv_hrtime();
    RUN_UNTIL(f, f->client.closed_calls == 1 && f->server.closed_calls == 1);
    uint64_t took_ms = (uv_hrtime() - start) / 1000000;
    print_message("noticed after %d ms\n", (int)took_ms);
    assert_string_equal(f->client.reason, "timed out");
    assert_string_equal(f->server.reason, "timed out");
    assert_false(f->client.stream.was_closed_by_peer);
    assert_false(f->server.stream.was_closed_by_peer);
    assert_int_equal(setns(before, CLONE_NEWNET), 0);
    close(before);
}

/* --- Listening ------------------------------------------------------------ */

/* Also one that has sent something already: unread bytes must not turn our
 * close into a reset. */
static void a_refused_client_is_told_why(void **state)
{
    struct fixture *f = *state;
    f->refuses = true;
    for (int i = 0; i < 3; i++) {
        char got[64] = "";
        f->refusal = i < 2 ? "-LIMIT connections\r\n" : NULL;
        int fd = open_stranger(f);
        if (i == 1) {
            assert_int_equal(write(fd, "HELLO 3\r\n", 9), 9);
        }
        RUN_UNTIL(f, f->accepted == i + 1);
        if (f->refusal != NULL) {
            assert_int_equal(recv(fd, got, 20, MSG_WAITALL), 20);
            assert_string_equal(got, f->refusal);
        }
        assert_int_equal(recv(fd, got, sizeof got, 0), 0);
        assert_int_equal(option_of(fd, SOL_SOCKET, SO_ERROR), 0);
        close(fd);
    }
}

static void a_greeting_may_be_written_in_ready(void **state)
{
    struct fixture *f = *state;
    char got[8] = "";
    f->ready_text = "hello";
    int fd = connect_stranger(f);
    assert_int_equal(recv(fd, got, 5, MSG_WAITALL), 5);
    assert_string_equal(got, "hello");
    close(fd);
}

static int logged_lines;

static void count_lines(void *data, enum log_level level, const char *event,
                        const char *fields)
{
    (void)data;
    (void)fields;
    assert_int_equal(level, LOG_ERROR_LEVEL);
    assert_string_equal(event, "accepting is paused");
    logged_lines++;
}

static void without_descriptors_accepting_pauses_and_goes_on(void **state)
{
    struct fixture *f = *state;
    struct rlimit before;
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons(listener_port(f->listener)),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    logged_lines = 0;
    log_set_sink(count_lines, NULL);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    int spare = dup(fd);
    close(spare);
    struct rlimit none = {(rlim_t)spare, before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    run_for(f, 350); /* Three pauses. */
    assert_int_equal(f->accepted, 0);
    assert_int_equal(logged_lines, 1);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    RUN_UNTIL(f, f->accepted == 1);
    assert_int_equal(logged_lines, 1);
    log_set_sink(NULL, NULL);
    close(fd);
    RUN_UNTIL(f, f->server.closed_calls == 1);
}

/* The end of a connection and a new one are seen in one pass, the new one
 * first. */
static void who_has_ended_is_closed_before_others_are_accepted(void **state)
{
    struct fixture *f = *state;
    int first = connect_stranger(f);
    assert_false(f->had_ended);
    f->refuses = true;
    int second = open_stranger(f);
    close(first);
    RUN_UNTIL(f, f->accepted == 2);
    assert_true(f->had_ended);
    close(second);
    RUN_UNTIL(f, f->server.closed_calls == 1);
}

static void a_port_in_use_is_told_with_its_number(void **state)
{
    struct fixture *f = *state;
    struct listener *second = NULL;
    char why[HASP_WHY_SIZE] = "";
    char number[16];
    uint16_t port = listener_port(f->listener);
    assert_int_equal(listener_open(&f->loop, "127.0.0.1", port, accept_one,
                                   ready, f, &second, why),
                     HASP_EBUSY);
    snprintf(number, sizeof number, "%u", port);
    assert_non_null(strstr(why, number));
    assert_non_null(strstr(why, "127.0.0.1"));
    assert_null(second);
    assert_int_equal(listener_open(&f->loop, "no such host", 0, accept_one,
                                   ready, f, &second, why),
                     HASP_EINVALID);
    assert_non_null(strstr(why, "no such host"));
}

static void note(void *data)
{
    *(int *)data += 1;
}

static void a_listener_tells_when_it_has_gone(void **state)
{
    struct fixture *f = *state;
    int gone = 0;
    listener_close_then(f->listener, note, &gone);
    f->listener = NULL;
    assert_int_equal(gone, 0);
    RUN_UNTIL(f, gone == 1);
}

#define LOOP_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        LOOP_TEST(bytes_arrive_in_order_both_ways),
        LOOP_TEST(an_idle_stream_keeps_little_memory),
        LOOP_TEST(what_the_owner_leaves_is_seen_again_with_more_behind_it),
        LOOP_TEST(small_bites_see_every_byte_once),
        LOOP_TEST(several_appends_leave_with_one_write),
        LOOP_TEST(a_paused_owner_gets_no_more_than_the_limit),
        LOOP_TEST(resuming_inside_on_bytes_calls_it_once_more),
        LOOP_TEST(a_reader_that_is_too_slow_is_closed),
        LOOP_TEST(the_other_ends_close_is_told_as_such),
        LOOP_TEST(the_other_ends_reset_is_told_as_such),
        LOOP_TEST(a_paused_stream_notices_that_the_other_end_has_gone),
        LOOP_TEST(closing_inside_on_bytes_ends_all_callbacks),
        LOOP_TEST(closing_inside_on_connected_is_fine),
        LOOP_TEST(closing_inside_ready_is_fine),
        LOOP_TEST(closing_while_a_write_is_under_way_loses_it),
        LOOP_TEST(last_words_arrive_though_the_other_end_still_talks),
        LOOP_TEST(last_words_to_one_that_never_closes_are_bounded),
        LOOP_TEST(a_refused_connection_is_told),
        LOOP_TEST(each_address_of_a_name_is_tried),
        LOOP_TEST(when_all_addresses_fail_the_last_reason_is_told),
        LOOP_TEST(a_name_that_does_not_exist_is_told),
        LOOP_TEST(a_lookup_has_its_time),
        LOOP_TEST(all_addresses_are_both_kinds),
        LOOP_TEST(closing_while_connecting_or_resolving_is_fine),
        LOOP_TEST(an_unusable_target_starts_nothing),
        LOOP_TEST(half_open_connections_are_noticed_within_seconds),
        LOOP_TEST(a_dead_network_is_noticed_within_seconds),
        LOOP_TEST(a_refused_client_is_told_why),
        LOOP_TEST(a_greeting_may_be_written_in_ready),
        LOOP_TEST(without_descriptors_accepting_pauses_and_goes_on),
        LOOP_TEST(who_has_ended_is_closed_before_others_are_accepted),
        LOOP_TEST(a_port_in_use_is_told_with_its_number),
        LOOP_TEST(a_listener_tells_when_it_has_gone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
