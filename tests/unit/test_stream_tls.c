/* SPDX-License-Identifier: MIT */

/* Streams that speak TLS, on loopback: two streams, or a stream and a blocking
 * socket as an unknown peer. Every loop has a time limit. */

#include <arpa/inet.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/memory.h"
#include "net/stream.h"
#include "net/stream_tls.h"
#include "tests/unit/tls_world.h"

#define BOUND_MS 60000
#define SERVERS_MAX 300
#define REFUSAL "-NOTLS this port requires TLS\r\n"

/* One end, with its events. */
struct end {
    struct stream stream;
    struct buffer got;
    int ready_calls;
    int closed_calls;
    int handshake_steps; /* That have begun, ... */
    int handshake_over;  /* ... and those that are over. */
    bool has_failed_tls;
    char reason[HASP_WHY_SIZE];
    bool echoes;
    bool closes_when_ready;
};

struct fixture {
    struct tls_world world;
    struct tls_paper node;
    struct tls_context *context;
    uv_loop_t loop;
    uv_timer_t bound;
    struct listener *listener;
    struct stream_limits limits;
    struct end client;
    struct end *servers; /* SERVERS_MAX of them. */
    int accepted;
    int ready_count;
    bool is_late;
};

static void on_bytes(struct stream *stream)
{
    struct end *end = stream->owner;
    struct bytes input = stream_input(stream);
    assert_int_equal(end->closed_calls, 0);
    assert_int_equal(end->ready_calls, 1);
    buffer_put_bytes(&end->got, input);
    if (end->echoes) {
        buffer_put_bytes(stream_output(stream), input);
    }
    stream_consume(stream, input.size);
    stream_flush(stream);
}

static void on_connected(struct stream *stream)
{
    struct end *end = stream->owner;
    end->ready_calls++;
}

static void on_closed(struct stream *stream, const char *reason)
{
    struct end *end = stream->owner;
    end->closed_calls++;
    end->has_failed_tls = stream->has_failed_tls;
    snprintf(end->reason, sizeof end->reason, "%s", reason);
    memset(stream, 0xa5, sizeof *stream);
}

static void on_handshake(struct stream *stream, bool is_over)
{
    struct end *end = stream->owner;
    assert_int_equal(end->handshake_steps - end->handshake_over, is_over);
    end->handshake_steps += !is_over;
    end->handshake_over += is_over;
    assert_int_equal(end->ready_calls, 0);
}

static const struct stream_events events = {.on_bytes = on_bytes,
                                            .on_connected = on_connected,
                                            .on_closed = on_closed,
                                            .on_handshake = on_handshake};

static struct stream *accept_one(void *data, const char *address,
                                 const struct stream_events **ret_events,
                                 const struct stream_limits **ret_limits,
                                 void **ret_owner, const char **ret_refusal)
{
    struct fixture *f = data;
    (void)address;
    (void)ret_refusal;
    assert_in_range(f->accepted, 0, SERVERS_MAX - 1);
    struct end *end = &f->servers[f->accepted++];
    *ret_events = &events;
    *ret_limits = &f->limits;
    *ret_owner = end;
    return &end->stream;
}

static void ready(void *data, struct stream *stream)
{
    struct fixture *f = data;
    struct end *end = stream->owner;
    end->ready_calls++;
    f->ready_count++;
    if (end->closes_when_ready) {
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
    tls_world_init(&f->world);
    tls_world_node(&f->world, 1, &f->node);
    f->context = tls_world_context(&f->world, TLS_FOR_CLIENTS, &f->node);
    f->servers = memory_new(SERVERS_MAX * sizeof *f->servers);
    assert_int_equal(uv_loop_init(&f->loop), 0);
    assert_int_equal(uv_timer_init(&f->loop, &f->bound), 0);
    f->bound.data = f;
    assert_int_equal(listener_open(&f->loop, "127.0.0.1", 0, accept_one, ready,
                                   f, &f->listener, why),
                     0);
    listener_use_tls(f->listener, TLS_REQUIRE, f->context, REFUSAL);
    *state = f;
    return 0;
}

/* Turns the loop until 'fact' is true. */
#define RUN_UNTIL(f, fact)                                 \
    do {                                                   \
        uv_timer_start(&(f)->bound, late_cb, BOUND_MS, 0); \
        while (!(fact)) {                                  \
            assert_false((f)->is_late);                    \
            uv_run(&(f)->loop, UV_RUN_ONCE);               \
        }                                                  \
        uv_timer_stop(&(f)->bound);                        \
    } while (0)

static void end_close(struct fixture *f, struct end *end)
{
    if (end->stream.events != NULL && end->closed_calls == 0) {
        stream_close(&end->stream, "the test is over");
        RUN_UNTIL(f, end->closed_calls == 1);
    }
    assert_in_range(end->closed_calls, 0, 1);
    buffer_done(&end->got);
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    end_close(f, &f->client);
    for (int i = 0; i < f->accepted; i++) {
        end_close(f, &f->servers[i]);
    }
    if (f->listener != NULL) {
        listener_close(f->listener);
    }
    uv_close((uv_handle_t *)&f->bound, NULL);
    assert_int_equal(uv_run(&f->loop, UV_RUN_DEFAULT), 0);
    assert_int_equal(uv_loop_close(&f->loop), 0);
    tls_context_unref(f->context);
    tls_paper_done(&f->node);
    tls_world_done(&f->world);
    free(f->servers);
    free(f);
    return 0;
}

/* Connects the client; as 'user', or without a certificate. */
static void dial(struct fixture *f, const struct tls_paper *user)
{
    struct tls_context *context = tls_world_context(&f->world, TLS_AS_CLIENT,
                                                    user);
    assert_int_equal(stream_connect(&f->client.stream, &f->loop, "127.0.0.1",
                                    listener_port(f->listener), &events,
                                    &f->limits, &f->client),
                     0);
    stream_use_tls(&f->client.stream, context, 0);
    tls_context_unref(context);
}

/* An unknown peer's blocking socket, connected. */
static int open_stranger(const struct fixture *f)
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

static void say(int fd, struct bytes bytes)
{
    assert_int_equal(send(fd, bytes.data, bytes.size, MSG_NOSIGNAL),
                     bytes.size);
}

static void bytes_go_both_ways(void **state)
{
    struct fixture *f = *state;
    struct tls_paper user;
    enum { SIZE = 3000000 };
    tls_world_user(&f->world, "app", &user);
    f->servers[0].echoes = true;
    dial(f, &user);
    RUN_UNTIL(f, f->client.ready_calls == 1 && f->ready_count == 1);
    const struct tls_identity *who = stream_identity(&f->servers[0].stream);
    assert_non_null(who);
    assert_string_equal(who->name.user, "app");
    assert_int_equal(stream_identity(&f->client.stream)->name.node, 1);
    /* Its owner was told of each step, so that it can be charged. */
    assert_true(f->servers[0].handshake_over >= 2);
    assert_true(f->client.handshake_over >= 2);
    struct buffer *out = stream_output(&f->client.stream);
    for (size_t i = 0; i < SIZE; i++) {
        buffer_put_u8(out, (uint8_t)(i * 31 + i / 257));
    }
    stream_flush(&f->client.stream);
    RUN_UNTIL(f, f->client.got.size == SIZE);
    for (size_t i = 0; i < SIZE; i++) {
        assert_true(f->client.got.data[i] == (uint8_t)(i * 31 + i / 257));
    }
    stream_close_flushed(&f->client.stream, "done");
    RUN_UNTIL(f, f->client.closed_calls == 1 && f->servers[0].closed_calls);
    assert_string_equal(f->servers[0].reason, "closed by the peer");
    assert_false(f->servers[0].has_failed_tls);
    tls_paper_done(&user);
}

static void last_words_arrive(void **state)
{
    struct fixture *f = *state;
    dial(f, NULL);
    RUN_UNTIL(f, f->client.ready_calls == 1 && f->ready_count == 1);
    struct stream *server = &f->servers[0].stream;
    assert_int_equal(stream_identity(server)->name.role, TLS_NOBODY);
    for (int i = 0; i < 100000; i++) {
        buffer_put_text(stream_output(server), "words ");
    }
    stream_close_flushed(server, "enough");
    RUN_UNTIL(f, f->client.closed_calls == 1 && f->servers[0].closed_calls);
    assert_int_equal(f->client.got.size, 600000);
    assert_string_equal(f->client.reason, "closed by the peer");
    assert_string_equal(f->servers[0].reason, "enough");
}

static void plain_is_refused_in_words(void **state)
{
    struct fixture *f = *state;
    char answer[64] = "";
    int fd = open_stranger(f);
    say(fd, bytes_of_text("PING\r\n"));
    RUN_UNTIL(f, f->accepted == 1 && f->servers[0].stream.closes_when_flushed);
    assert_int_equal(recv(fd, answer, sizeof answer - 1, 0), strlen(REFUSAL));
    assert_string_equal(answer, REFUSAL);
    assert_int_equal(recv(fd, answer, sizeof answer, 0), 0);
    close(fd);
    RUN_UNTIL(f, f->servers[0].closed_calls == 1);
    assert_string_equal(f->servers[0].reason,
                        "plain connection; this port requires TLS");
    assert_true(f->servers[0].has_failed_tls);
    assert_int_equal(f->ready_count, 0);
    assert_int_equal(f->servers[0].got.size, 0);
}

static void where_both_are_allowed_both_are_served(void **state)
{
    struct fixture *f = *state;
    char answer[8] = "";
    listener_use_tls(f->listener, TLS_ALLOW, f->context, REFUSAL);
    f->servers[0].echoes = true;
    int fd = open_stranger(f);
    say(fd, bytes_of_text("PING\r\n"));
    RUN_UNTIL(f, f->accepted == 1 && f->servers[0].got.size == 6);
    assert_int_equal(recv(fd, answer, sizeof answer, 0), 6);
    assert_memory_equal(answer, "PING\r\n", 6);
    assert_null(stream_identity(&f->servers[0].stream));
    dial(f, NULL);
    RUN_UNTIL(f, f->client.ready_calls == 1 && f->ready_count == 2);
    assert_non_null(stream_identity(&f->servers[1].stream));
    close(fd);
}

/* A client of another make, which sends its handshake byte by byte. */
static void a_handshake_may_come_byte_by_byte(void **state)
{
    struct fixture *f = *state;
    struct tls_context *context = tls_world_context(&f->world, TLS_AS_CLIENT,
                                                    NULL);
    struct tls *tls = tls_new(context, false, 0);
    uint8_t bytes[4096];
    int fd = open_stranger(f);
    int rv = tls_handshake(tls);
    while (!f->ready_count) {
        struct buffer *out = tls_output(tls);
        for (size_t i = 0; i < out->size; i++) {
            say(fd, bytes_of(out->data + i, 1));
            uv_run(&f->loop, UV_RUN_NOWAIT);
            uv_run(&f->loop, UV_RUN_NOWAIT);
        }
        buffer_clear(out);
        ssize_t size = recv(fd, bytes, sizeof bytes, MSG_DONTWAIT);
        if (size > 0 && rv == HASP_EMORE) {
            assert_int_equal(tls_feed(tls, bytes_of(bytes, (size_t)size)), 0);
            rv = tls_handshake(tls);
            assert_true(rv == 0 || rv == HASP_EMORE);
        }
        uv_run(&f->loop, UV_RUN_NOWAIT);
    }
    assert_int_equal(tls_write(tls, bytes_of_text("PING\r\n")), 0);
    say(fd, buffer_bytes(tls_output(tls)));
    RUN_UNTIL(f, f->servers[0].got.size == 6);
    /* Closed before any TLS: that is an end like any other. */
    close(fd);
    RUN_UNTIL(f, f->servers[0].closed_calls == 1);
    assert_string_equal(f->servers[0].reason, "closed by the peer");
    assert_false(f->servers[0].has_failed_tls);
    tls_free(tls);
    tls_context_unref(context);
}

static void a_handshake_that_is_cut_or_garbage_ends(void **state)
{
    struct fixture *f = *state;
    int fd = open_stranger(f);
    say(fd, BYTES_LITERAL("\x16\x03\x01\x02\x00\x01\x00"));
    close(fd);
    RUN_UNTIL(f, f->accepted == 1 && f->servers[0].closed_calls == 1);
    assert_string_equal(f->servers[0].reason, "closed by the peer");
    fd = open_stranger(f);
    say(fd, BYTES_LITERAL("\x16\x03\x01\x00\x04\x77\x77\x77\x77"));
    RUN_UNTIL(f, f->accepted == 2 && f->servers[1].stream.closes_when_flushed);
    close(fd);
    RUN_UNTIL(f, f->servers[1].closed_calls == 1);
    assert_true(f->servers[1].has_failed_tls);
    assert_int_equal(f->ready_count, 0);
}

/* The time counts from accepting, although bytes keep trickling in. */
static void a_handshake_that_does_not_end_is_closed(void **state)
{
    struct fixture *f = *state;
    int mute = open_stranger(f);
    int slow = open_stranger(f);
    RUN_UNTIL(f, f->accepted == 2);
    uint64_t began = uv_hrtime();
    say(slow, BYTES_LITERAL("\x16\x03\x01\x02"));
    RUN_UNTIL(f, f->servers[0].closed_calls && f->servers[1].closed_calls);
    uint64_t took_ms = (uv_hrtime() - began) / 1000000;
    assert_in_range(took_ms, STREAM_TLS_HANDSHAKE_MS - 100, 30000);
    for (int i = 0; i < 2; i++) {
        assert_true(f->servers[i].has_failed_tls);
        assert_true(strstr(f->servers[i].reason, "no data received") != NULL ||
                    strstr(f->servers[i].reason, "timed out") != NULL);
    }
    close(mute);
    close(slow);
}

static void a_wrong_certificate_is_told_to_the_owner(void **state)
{
    struct fixture *f = *state;
    struct tls_paper other;
    tls_world_make(&f->world,
                   &(struct tls_wish){.file = "other",
                                      .names = "URI:hasp://test/user/app"},
                   &f->world.ca, &other);
    struct tls_context *liar = tls_world_liar(&f->world, TLS_AS_CLIENT, &other);
    assert_int_equal(stream_connect(&f->client.stream, &f->loop, "127.0.0.1",
                                    listener_port(f->listener), &events,
                                    &f->limits, &f->client),
                     0);
    stream_use_tls(&f->client.stream, liar, 0);
    RUN_UNTIL(f, f->accepted == 1 && f->servers[0].closed_calls == 1 &&
                     f->client.closed_calls == 1);
    assert_string_equal(f->servers[0].reason,
                        "the client's certificate is for cluster 'test', not "
                        "'production'");
    assert_true(f->servers[0].has_failed_tls);
    assert_int_equal(f->ready_count, 0);
    assert_true(f->client.has_failed_tls);
    assert_non_null(
        strstr(f->client.reason, "refuses this side's certificate"));
    tls_context_unref(liar);
    tls_paper_done(&other);
}

static void who_dials_tls_where_plain_is_spoken_is_told(void **state)
{
    struct fixture *f = *state;
    listener_use_tls(f->listener, TLS_OFF, NULL, NULL);
    f->servers[0].echoes = false;
    dial(f, NULL);
    RUN_UNTIL(f, f->accepted == 1 && f->servers[0].got.size > 0);
    buffer_put_text(stream_output(&f->servers[0].stream), "-ERR no\r\n");
    stream_close_flushed(&f->servers[0].stream, "malformed");
    RUN_UNTIL(f, f->client.closed_calls == 1);
    assert_string_equal(f->client.reason,
                        "the node does not use TLS: set tls.client there");
}

/* All that come at once get through, a few in a turn. */
static void many_handshakes_at_once_are_paced(void **state)
{
    struct fixture *f = *state;
    enum { COUNT = 60 };
    static struct end clients[COUNT];
    struct tls_context *context = tls_world_context(&f->world, TLS_AS_CLIENT,
                                                    NULL);
    memset(clients, 0, sizeof clients);
    for (int i = 0; i < COUNT; i++) {
        assert_int_equal(stream_connect(&clients[i].stream, &f->loop,
                                        "127.0.0.1", listener_port(f->listener),
                                        &events, &f->limits, &clients[i]),
                         0);
        stream_use_tls(&clients[i].stream, context, 0);
    }
    int most = 0;
    while (f->ready_count < COUNT) {
        int before = f->ready_count;
        RUN_UNTIL(f, f->ready_count > before);
        most = f->ready_count - before > most ? f->ready_count - before : most;
    }
    assert_in_range(most, 1, GATE_FLIGHTS);
    for (int i = 0; i < COUNT; i++) {
        RUN_UNTIL(f, clients[i].ready_calls == 1);
        stream_close(&clients[i].stream, "done");
        RUN_UNTIL(f, clients[i].closed_calls == 1);
    }
    tls_context_unref(context);
}

/* A client is up after its last flight, and its requests follow before the
 * server has processed that flight: they wait for their turn. */
static void requests_may_come_right_behind_the_handshake(void **state)
{
    struct fixture *f = *state;
    enum { SIZE = 1000000 };
    dial(f, NULL);
    for (int i = 0; i < SIZE; i++) {
        buffer_put_u8(stream_output(&f->client.stream), (uint8_t)i);
    }
    RUN_UNTIL(f, f->servers[0].got.size == SIZE || f->client.closed_calls > 0);
    assert_string_equal(f->servers[0].reason, "");
    assert_int_equal(f->ready_count, 1);
}

static void a_listener_may_close_while_handshakes_wait(void **state)
{
    struct fixture *f = *state;
    dial(f, NULL);
    RUN_UNTIL(f, f->accepted == 1);
    listener_close(f->listener);
    f->listener = NULL;
    RUN_UNTIL(f, f->client.ready_calls == 1);
    assert_int_equal(f->ready_count, 0);
}

static void an_owner_may_close_what_has_just_become_ready(void **state)
{
    struct fixture *f = *state;
    f->servers[0].closes_when_ready = true;
    dial(f, NULL);
    RUN_UNTIL(f, f->client.closed_calls == 1 && f->servers[0].closed_calls);
    assert_string_equal(f->servers[0].reason, "not today");
}

#define ON_LOOP(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_LOOP(bytes_go_both_ways),
        ON_LOOP(last_words_arrive),
        ON_LOOP(plain_is_refused_in_words),
        ON_LOOP(where_both_are_allowed_both_are_served),
        ON_LOOP(a_handshake_may_come_byte_by_byte),
        ON_LOOP(a_handshake_that_is_cut_or_garbage_ends),
        ON_LOOP(a_handshake_that_does_not_end_is_closed),
        ON_LOOP(a_wrong_certificate_is_told_to_the_owner),
        ON_LOOP(who_dials_tls_where_plain_is_spoken_is_told),
        ON_LOOP(many_handshakes_at_once_are_paced),
        ON_LOOP(requests_may_come_right_behind_the_handshake),
        ON_LOOP(a_listener_may_close_while_handshakes_wait),
        ON_LOOP(an_owner_may_close_what_has_just_become_ready),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
