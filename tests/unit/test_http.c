/* SPDX-License-Identifier: MIT */

/* The HTTP side with plain sockets as clients. Every loop has a time limit. */

#include <arpa/inet.h>
#include <errno.h>
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
#include "net/http.h"

#define BOUND_NS 8000000000u
#define LARGE_SIZE (3u << 20)
#define BODY_SIZE 1000u

struct fixture {
    uv_loop_t loop;
    struct http *http;
    int requests;
    int ended;
    bool closes_in_handler;
    struct http_exchange *later; /* To be answered. */
    int left;                    /* A connection that is open at the end. */
};

static void put_numbers(struct buffer *body)
{
    while (body->size < LARGE_SIZE) {
        buffer_printf(body, "hasp_line %zu\n", body->size);
    }
}

static void handle(void *data, struct http_exchange *exchange)
{
    struct fixture *f = data;
    struct http_reply reply = {.status = 404};
    const char *target = http_target(exchange);
    f->requests++;
    if (strncmp(target, "/healthz", 8) == 0) {
        reply.status = 200;
        buffer_put_text(&reply.body, "ok\n");
    } else if (strcmp(target, "/readyz") == 0) {
        reply.status = 503;
        buffer_put_text(&reply.body, "no leader\n");
    } else if (strcmp(target, "/metrics") == 0) {
        reply.status = 200;
        reply.content_type = "text/plain; version=0.0.4";
        put_numbers(&reply.body);
    } else if (strcmp(target, "/empty") == 0) {
        reply.status = 204;
    } else if (strcmp(target, "/later") == 0) {
        f->later = exchange;
        return;
    } else if (strcmp(target, "/stream") == 0) {
        f->later = exchange;
        reply.status = 200;
        http_stream(exchange, &reply);
        return;
    } else {
        buffer_printf(&reply.body, "%s %s ", http_method(exchange), target);
        buffer_put_bytes(&reply.body, http_body(exchange));
        buffer_put_text(&reply.body, ".\n");
    }
    http_answer(exchange, &reply);
    if (f->closes_in_handler) {
        http_close(f->http);
        f->http = NULL;
    }
}

/* The body of an unauthenticated client is not read; a guest's has at most 5
 * bytes. */
static uint32_t judge_head(void *data, struct http_exchange *exchange)
{
    struct http_reply reply = {.status = 401,
                               .header = {{"Connection", "close"}}};
    (void)data;
    if (strcmp(http_target(exchange), "/stranger") == 0) {
        http_answer(exchange, &reply);
    }
    return strcmp(http_target(exchange), "/guest") == 0 ? 5 : UINT32_MAX;
}

static void note_end(void *data, struct http_exchange *exchange)
{
    struct fixture *f = data;
    f->ended++;
    if (f->later == exchange) {
        f->later = NULL;
    }
}

static int set_up(void **state)
{
    struct fixture *f = memory_new(sizeof *f);
    char why[HASP_WHY_SIZE];
    sigaction(SIGPIPE, &(struct sigaction){.sa_handler = SIG_IGN}, NULL);
    assert_int_equal(uv_loop_init(&f->loop), 0);
    struct http_limits limits = {.connections = 64,
                                 .per_address = 16,
                                 .body_size = BODY_SIZE,
                                 .unread = 4 * LARGE_SIZE,
                                 .unread_per_address = 3 * LARGE_SIZE};
    struct http_handler handler = {.on_head = judge_head,
                                   .on_request = handle,
                                   .on_end = note_end,
                                   .data = f};
    assert_int_equal(http_open(&f->loop, "127.0.0.1", 0, &limits, &handler,
                               NULL, &f->http, why),
                     0);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    if (f->http != NULL) {
        http_close(f->http);
    }
    assert_int_equal(uv_run(&f->loop, UV_RUN_DEFAULT), 0);
    assert_int_equal(f->ended, f->requests);
    assert_int_equal(uv_loop_close(&f->loop), 0);
    if (f->left > 0) {
        close(f->left);
    }
    free(f);
    return 0;
}

static void connect_by(struct fixture *f, int fd, const char *address)
{
    struct sockaddr_in from = {.sin_family = AF_INET};
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons(http_port(f->http)),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    assert_int_equal(inet_pton(AF_INET, address, &from.sin_addr), 1);
    assert_int_equal(bind(fd, (struct sockaddr *)&from, sizeof from), 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
}

static int connect_from(struct fixture *f, const char *address)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    connect_by(f, fd, address);
    return fd;
}

static int connect_client(struct fixture *f)
{
    return connect_from(f, "127.0.0.1");
}

static void say(int fd, const char *text)
{
    assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
}

/* Reads until 'text' has arrived or, with NULL, until the other end has closed.
 * Turns the loop as the daemon does: it waits, bounded by a timer. */
static void wake_cb(uv_timer_t *timer)
{
    (void)timer;
}

static void hear(struct fixture *f, int fd, const char *text,
                 struct buffer *got)
{
    uint64_t start = uv_hrtime();
    uv_timer_t wake;
    uv_timer_init(&f->loop, &wake);
    uv_timer_start(&wake, wake_cb, 5, 5);
    for (;;) {
        ssize_t size = recv(fd, buffer_reserve(got, 65537), 65536,
                            MSG_DONTWAIT);
        if (size > 0) {
            got->size += (size_t)size;
        }
        got->data[got->size] = '\0';
        if (text == NULL ? size == 0 || (size < 0 && errno != EAGAIN)
                         : strstr((char *)got->data, text) != NULL) {
            break;
        }
        assert_true(uv_hrtime() - start < BOUND_NS);
        if (size < 0) {
            uv_run(&f->loop, UV_RUN_ONCE);
        }
        assert_true(text == NULL || size != 0);
    }
    uv_close((uv_handle_t *)&wake, NULL);
    uv_run(&f->loop, UV_RUN_NOWAIT);
}

static void settle(struct fixture *f)
{
    for (int i = 0; i < 5; i++) {
        uv_run(&f->loop, UV_RUN_NOWAIT);
    }
}

static void assert_reply(struct fixture *f, const char *request,
                         const char *status, const char *end)
{
    struct buffer got = {0};
    int fd = connect_client(f);
    say(fd, request);
    hear(f, fd, end, &got);
    if (strncmp((char *)got.data, status, strlen(status)) != 0) {
        fail_msg("'%s' was answered: %s", request, (char *)got.data);
    }
    buffer_done(&got);
    close(fd);
}

static void each_path_has_its_answer(void **state)
{
    struct fixture *f = *state;
    assert_reply(f, "GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n",
                 "HTTP/1.1 200 OK\r\n", "\r\n\r\nok\n");
    assert_reply(f, "GET /healthz?x=1 HTTP/1.1\r\nHost: a\r\n\r\n",
                 "HTTP/1.1 200 OK\r\n", "\r\n\r\nok\n");
    assert_reply(f, "GET /readyz HTTP/1.1\r\nHost: a\r\n\r\n", "HTTP/1.1 503 ",
                 "\r\n\r\nno leader\n");
    assert_reply(f, "GET /nothing HTTP/1.1\r\nHost: a\r\n\r\n", "HTTP/1.1 404 ",
                 "\r\n\r\nGET /nothing .\n");
    assert_reply(f, "GET /empty HTTP/1.1\r\nHost: a\r\n\r\n", "HTTP/1.1 204 ",
                 "\r\n\r\n");
    assert_int_equal(f->requests, 5);
}

static void the_target_and_the_body_come_as_they_were_sent(void **state)
{
    struct fixture *f = *state;
    assert_reply(f,
                 "POST /a%2Fb%00%25?x=%41+1 HTTP/1.1\r\nHost: a\r\n"
                 "Content-Length: 5\r\n\r\nhello",
                 "HTTP/1.1 404 ", "\r\n\r\nPOST /a%2Fb%00%25?x=%41+1 hello.\n");
    assert_reply(f,
                 "PUT /p HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked"
                 "\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n",
                 "HTTP/1.1 404 ", "\r\n\r\nPUT /p hello.\n");
    assert_reply(f, "DELETE / HTTP/1.1\r\nHost: a\r\n\r\n", "HTTP/1.1 404 ",
                 "\r\n\r\nDELETE / .\n");
    assert_reply(f, "garbage\r\n\r\n", "", NULL); /* Closed. */
    assert_int_equal(f->requests, 3);
}

static void a_body_is_bounded(void **state)
{
    struct fixture *f = *state;
    char chunk[600];
    assert_reply(f,
                 "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1001\r\n\r\n",
                 "HTTP/1.1 413 ", NULL);
    assert_reply(f,
                 "POST / HTTP/1.1\r\nHost: a\r\n"
                 "Content-Length: 18446744073709551617\r\n\r\n",
                 "HTTP/1.1 4", NULL);
    int fd = connect_client(f);
    struct buffer got = {0};
    memset(chunk, 'a', sizeof chunk);
    say(fd, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
    for (int i = 0; i < 2; i++) {
        say(fd, "258\r\n");
        assert_int_equal(send(fd, chunk, sizeof chunk, MSG_NOSIGNAL),
                         sizeof chunk);
        say(fd, "\r\n");
    }
    hear(f, fd, NULL, &got);
    assert_int_equal(f->requests, 0);
    buffer_done(&got);
    close(fd);
}

/* NUL ends no line, no value and no head. */
static void nul_in_a_head_is_refused(void **state)
{
    struct fixture *f = *state;
    static const struct bytes heads[] = {
        BYTES_LITERAL("GET / HTTP/1.1\r\nHost: a\r\nA: b\0c\r\nD: e\r\n\r\n"),
        BYTES_LITERAL("GET / HTTP/1.1\r\nHost: a\r\nA: b\0\r\n\r\n"),
        BYTES_LITERAL("GET / HTTP/1.1\r\nHost: a\r\nA: b\0\0\r\n\r\n"),
        BYTES_LITERAL("GET / HTTP/1.1\r\nHost: a\r\nA\0: b\r\n\r\n"),
        BYTES_LITERAL("GET / HTTP/1.1\r\n\0Host: a\r\n\r\n"),
        BYTES_LITERAL("GET /\0x HTTP/1.1\r\nHost: a\r\n\r\n"),
        BYTES_LITERAL("GET /x\0 HTTP/1.1\r\nHost: a\r\n\r\n"),
        BYTES_LITERAL("GET\0 /x HTTP/1.1\r\nHost: a\r\n\r\n"),
        BYTES_LITERAL("GET /x HTTP/1.1\0\r\nHost: a\r\n\r\n"),
        BYTES_LITERAL("GET /x HTTP/1.1\nHost: a\r\n\r\n"),
        BYTES_LITERAL("GET /x HTTP/1.1\rHost: a\r\n\r\n"),
        BYTES_LITERAL("GET /x HTTP/1.1\r\nHost: a\n\n"),
    };
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) {
        struct buffer got = {0};
        int fd = connect_client(f);
        assert_int_equal(send(fd, heads[i].data, heads[i].size, MSG_NOSIGNAL),
                         heads[i].size);
        hear(f, fd, NULL, &got); /* Until it is closed. */
        buffer_put_u8(&got, 0);
        const char *answer = (const char *)got.data;
        if (got.size > 1 && strncmp(answer, "HTTP/1.1 400 ", 13) != 0) {
            fail_msg("head %zu was answered: %s", i, answer);
        }
        buffer_done(&got);
        close(fd);
    }
    assert_int_equal(f->requests, 0);
}

/* Whitespace that is allowed, a body that follows at once, and a head that
 * comes byte by byte. */
static void an_unusual_head_is_accepted(void **state)
{
    struct fixture *f = *state;
    assert_reply(f,
                 "POST /a?b=c&d HTTP/1.1\r\nHost:a\r\nA:   b  \r\nC:\r\n"
                 "Cookie: a=b; c=d\r\nE: \tf\r\nContent-Length: 2\r\n\r\nhi",
                 "HTTP/1.1 404 ", "POST /a?b=c&d hi.\n");
    assert_reply(f, "GET /x HTTP/1.0\r\n\r\n", "HTTP/1.1 404 ", "GET /x .\n");
    const char *head = "GET /y HTTP/1.1\r\nHost: a\r\nA: b\r\n\r\n";
    struct buffer got = {0};
    int fd = connect_client(f);
    for (const char *at = head; *at != '\0'; at++) {
        assert_int_equal(send(fd, at, 1, MSG_NOSIGNAL), 1);
        settle(f);
    }
    hear(f, fd, "GET /y .\n", &got);
    say(fd, "\r\nGET /z HTTP/1.1\r\nHost: a\r\n\r\n");
    hear(f, fd, "GET /z .\n", &got);
    buffer_done(&got);
    close(fd);
}

/* Requests that a proxy in between may have understood differently. */
static void an_ambiguous_head_is_refused(void **state)
{
    struct fixture *f = *state;
    static const struct {
        const char *headers;
        const char *why;
    } rows[] = {
        {"Host: b", "duplicate header Host"},
        {"Content-Length: 1\r\nContent-Length: 2",
         "duplicate header Content-Length"},
        {"Content-Length: 1\r\nTransfer-Encoding: chunked", "cannot have both"},
        {"Content-Length : 40", "a blank"},
        {"Content-Length\t: 40", "a blank"},
        {"Transfer-Encoding : chunked", "a blank"},
        {"X Content-Length: 40", "a blank"},
        {"Transfer-Encoding: xchunked", "must be chunked"},
        {"Transfer-Encoding: chunked, identity", "must be chunked"},
        {"Transfer-Encoding: identity", "must be chunked"},
        {"Authorization: Bearer x\r\nauthorization: Bearer y",
         "duplicate header Authorization"},
        {"Hasp-Session: 1:a\r\nHasp-Session: 2:b",
         "duplicate header Hasp-Session"},
        {"Origin: http://a\r\nOrigin: http://b", "duplicate header Origin"},
        {"Content-Type: a\r\nContent-Type: b", "duplicate header Content-Type"},
        {"A: b\r\n folded", "a header line"},
        {"A: b\r\n\tfolded\r\nC: d", "a header line"},
        {"A: b\r\n ", "a header line"},
        {"A: b\r\nAuthorization:\r\n Bearer x", "a header line"},
        {"A: b\rAuthorization: Bearer x", "a header line"},
        {"A: b\r\r\nC: d", "a header line"},
        {"A: b\nC: d", "a header line"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[300];
        snprintf(text, sizeof text,
                 "POST / HTTP/1.1\r\nHost: a\r\n%s\r\n\r\n"
                 "GET /now HTTP/1.1\r\nHost: a\r\n\r\n",
                 rows[i].headers);
        struct buffer got = {0};
        int fd = connect_client(f);
        say(fd, text);
        hear(f, fd, NULL, &got); /* Until it is closed. */
        buffer_put_u8(&got, 0);
        const char *answer = (const char *)got.data;
        if (strncmp(answer, "HTTP/1.1 400 ", 13) != 0 ||
            strstr(answer, rows[i].why) == NULL ||
            strstr(answer + 1, "HTTP/1.1") != NULL) {
            fail_msg("'%s' was answered: %s", rows[i].headers, answer);
        }
        buffer_done(&got);
        close(fd);
    }
    assert_int_equal(f->requests, 0);
}

/* Each bounded. */
static void turn_until(struct fixture *f, bool (*is_so)(struct fixture *f))
{
    uint64_t start = uv_hrtime();
    uv_timer_t wake;
    uv_timer_init(&f->loop, &wake);
    uv_timer_start(&wake, wake_cb, 5, 5);
    while (!is_so(f)) {
        assert_true(uv_hrtime() - start < BOUND_NS);
        uv_run(&f->loop, UV_RUN_ONCE);
    }
    uv_close((uv_handle_t *)&wake, NULL);
    uv_run(&f->loop, UV_RUN_NOWAIT);
}

static bool is_asked(struct fixture *f)
{
    return f->later != NULL;
}

static bool has_ended(struct fixture *f)
{
    return f->ended == f->requests;
}

static void an_answer_may_come_later(void **state)
{
    struct fixture *f = *state;
    struct buffer got = {0};
    int fd = connect_client(f);
    for (int i = 0; i < 3; i++) {
        struct http_reply reply = {.status = 201};
        say(fd, "GET /later HTTP/1.1\r\nHost: a\r\n\r\n");
        turn_until(f, is_asked);
        assert_reply(f, "GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n",
                     "HTTP/1.1 200 OK\r\n", "\r\n\r\nok\n");
        buffer_put_text(&reply.body, "at last\n");
        http_answer(f->later, &reply);
        http_flush(f->http);
        buffer_clear(&got);
        hear(f, fd, "\r\n\r\nat last\n", &got);
    }
    buffer_done(&got);
    close(fd);
}

static void who_hangs_up_is_noticed(void **state)
{
    struct fixture *f = *state;
    struct linger now = {.l_onoff = 1, .l_linger = 0};
    for (int i = 0; i < 3; i++) {
        int fd = connect_client(f);
        say(fd, i == 2 ? "GET /stream HTTP/1.1\r\nHost: a\r\n\r\n"
                       : "GET /later HTTP/1.1\r\nHost: a\r\n\r\n");
        turn_until(f, is_asked);
        if (i == 0) {
            setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
        }
        close(fd);
        turn_until(f, has_ended);
    }
    /* And connections that are still open at the end. */
    f->left = connect_client(f);
    say(f->left, "GET /later HTTP/1.1\r\nHost: a\r\n\r\n");
    turn_until(f, is_asked);
}

static void a_stream_goes_on_until_its_end(void **state)
{
    struct fixture *f = *state;
    struct buffer got = {0};
    int fd = connect_client(f);
    say(fd, "GET /stream HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    turn_until(f, is_asked);
    for (int i = 0; i < 3; i++) {
        char line[32];
        snprintf(line, sizeof line, "part %d\n", i);
        buffer_put_text(http_stream_output(f->later), line);
        http_stream_more(f->later);
        http_flush(f->http);
        hear(f, fd, line, &got);
    }
    /* More than the socket accepts: the rest waits for its reader. */
    put_numbers(http_stream_output(f->later));
    http_stream_end(f->later);
    http_flush(f->http);
    settle(f);
    assert_true(http_stream_unsent(f->later) > 0);
    hear(f, fd, NULL, &got);
    assert_true(got.size > LARGE_SIZE);
    buffer_done(&got);
    close(fd);
}

static void a_request_head_is_bounded(void **state)
{
    struct fixture *f = *state;
    struct buffer got = {0};
    char line[1001];
    int fd = connect_client(f);
    memset(line, 'a', sizeof line);
    line[1000] = '\0';
    say(fd, "GET /healthz HTTP/1.1\r\n");
    for (int i = 0; i < 40; i++) {
        if (send(fd, "X: ", 3, MSG_NOSIGNAL) != 3 ||
            send(fd, line, 1000, MSG_NOSIGNAL) != 1000 ||
            send(fd, "\r\n", 2, MSG_NOSIGNAL) != 2) {
            break;
        }
        uv_run(&f->loop, UV_RUN_NOWAIT);
    }
    hear(f, fd, NULL, &got);
    assert_int_equal(f->requests, 0);
    buffer_done(&got);
    close(fd);
}

static void head_has_no_body(void **state)
{
    struct fixture *f = *state;
    struct buffer got = {0};
    int fd = connect_client(f);
    say(fd, "HEAD /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    hear(f, fd, NULL, &got);
    assert_non_null(strstr((char *)got.data, "Content-Length: 3\r\n"));
    assert_memory_equal(got.data + got.size - 4, "\r\n\r\n", 4);
    buffer_done(&got);
    close(fd);
}

static void requests_follow_each_other_on_one_connection(void **state)
{
    struct fixture *f = *state;
    struct buffer got = {0};
    static const char request[] = "GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n";
    int fd = connect_client(f);
    for (int i = 1; i <= 20; i++) {
        buffer_clear(&got);
        say(fd, request);
        hear(f, fd, "\r\n\r\nok\n", &got);
        assert_int_equal(f->requests, i);
    }
    /* Two in one packet, then one byte by byte. */
    say(fd, "GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n"
            "GET /readyz HTTP/1.1\r\nHost: a\r\n\r\n");
    buffer_clear(&got);
    hear(f, fd, "no leader\n", &got);
    for (const char *c = request; *c != '\0'; c++) {
        assert_int_equal(send(fd, c, 1, MSG_NOSIGNAL), 1);
        uv_run(&f->loop, UV_RUN_NOWAIT);
    }
    buffer_clear(&got);
    hear(f, fd, "\r\n\r\nok\n", &got);
    assert_int_equal(f->requests, 23);
    buffer_done(&got);
    close(fd);
}

static void a_large_body_reaches_a_slow_reader_whole(void **state)
{
    struct fixture *f = *state;
    struct buffer got = {0};
    int fd = connect_client(f);
    say(fd, "GET /metrics HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    for (int i = 0; i < 50; i++) {
        uv_run(&f->loop, UV_RUN_NOWAIT);
        usleep(1000);
    }
    /* It could not be sent in one go. */
    assert_true(recv(fd, buffer_reserve(&got, LARGE_SIZE), LARGE_SIZE,
                     MSG_DONTWAIT | MSG_PEEK) < LARGE_SIZE);
    hear(f, fd, NULL, &got);
    const char *body = strstr((char *)got.data, "\r\n\r\n");
    assert_non_null(body);
    body += 4;
    size_t size = got.size - (size_t)(body - (char *)got.data);
    assert_true(size >= LARGE_SIZE);
    size_t at = 0;
    while (at < size) {
        char line[64];
        int length = snprintf(line, sizeof line, "hasp_line %zu\n", at);
        assert_memory_equal(body + at, line, (size_t)length);
        at += (size_t)length;
    }
    assert_non_null(strstr((char *)got.data, "version=0.0.4"));
    buffer_done(&got);
    close(fd);
}

static int ask_and_leave_unread(struct fixture *f, const char *address)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int size = 4096;
    assert_true(fd >= 0);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof size),
                     0);
    connect_by(f, fd, address);
    say(fd, "GET /metrics HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    int before = f->requests;
    for (int i = 0; i < 1000 && f->requests == before; i++) {
        uv_run(&f->loop, UV_RUN_NOWAIT);
        usleep(1000);
    }
    assert_int_equal(f->requests, before + 1);
    settle(f);
    return fd;
}

/* Bytes of the answer until its connection ends. */
static size_t answer_size(struct fixture *f, int fd)
{
    struct buffer got = {0};
    hear(f, fd, NULL, &got);
    size_t size = got.size;
    buffer_done(&got);
    close(fd);
    return size;
}

/* An answer has a little more than LARGE_SIZE: two of an address fit, and three
 * in all. The oldest goes. */
static void unread_answers_are_bounded(void **state)
{
    struct fixture *f = *state;
    int fd[5];
    for (int i = 0; i < 3; i++) {
        fd[i] = ask_and_leave_unread(f, "127.0.0.1");
        assert_int_equal(http_unread_cut(f->http), i / 2);
    }
    fd[3] = ask_and_leave_unread(f, "127.0.0.2");
    assert_int_equal(http_unread_cut(f->http), 1);
    fd[4] = ask_and_leave_unread(f, "127.0.0.3");
    assert_int_equal(http_unread_cut(f->http), 2);
    assert_true(answer_size(f, fd[0]) < LARGE_SIZE);
    assert_true(answer_size(f, fd[1]) < LARGE_SIZE);
    for (int i = 2; i < 5; i++) {
        assert_true(answer_size(f, fd[i]) > LARGE_SIZE);
    }
    assert_reply(f, "GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n",
                 "HTTP/1.1 200 OK\r\n", "\r\n\r\nok\n");
    assert_int_equal(http_unread_cut(f->http), 2);
}

static void a_body_is_bounded_by_its_head(void **state)
{
    struct fixture *f = *state;
    assert_reply(f,
                 "POST /stranger HTTP/1.1\r\nHost: a\r\n"
                 "Content-Length: 900\r\n\r\n",
                 "HTTP/1.1 401 ", NULL); /* Without the body. */
    assert_reply(f,
                 "POST /stranger HTTP/1.1\r\nHost: a\r\n"
                 "Transfer-Encoding: chunked\r\n\r\n",
                 "HTTP/1.1 401 ", NULL);
    assert_reply(f,
                 "POST /guest HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n"
                 "\r\n",
                 "HTTP/1.1 413 ", NULL);
    assert_int_equal(f->requests, 0);
    assert_reply(f,
                 "POST /guest HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: "
                 "chunked\r\n\r\n6\r\nhello!\r\n0\r\n\r\n",
                 "", NULL); /* Closed. */
    assert_int_equal(f->requests, 0);
    assert_reply(f,
                 "POST /guest HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n"
                 "\r\nhello",
                 "HTTP/1.1 404 ", "POST /guest hello.\n");
}

static void many_connections_are_answered_in_parallel(void **state)
{
    struct fixture *f = *state;
    int fd[16];
    for (int i = 0; i < 16; i++) {
        fd[i] = connect_client(f);
        say(fd[i], "GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n");
    }
    for (int i = 0; i < 16; i++) {
        struct buffer got = {0};
        hear(f, fd[i], "\r\n\r\nok\n", &got);
        buffer_done(&got);
        close(fd[i]);
    }
    assert_int_equal(f->requests, 16);
}

static bool is_closed(int fd)
{
    char byte;
    ssize_t size = recv(fd, &byte, 1, MSG_DONTWAIT | MSG_PEEK);
    return size == 0 || (size < 0 && errno != EAGAIN);
}

static void one_address_gets_sixteen_connections(void **state)
{
    struct fixture *f = *state;
    int fd[17];
    struct buffer got = {0};
    /* An answered connection counts as younger than those without a head. */
    fd[0] = connect_client(f);
    for (int i = 1; i < 16; i++) {
        fd[i] = connect_client(f);
        say(fd[i], "GET /hea");
        settle(f);
    }
    say(fd[0], "GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n");
    hear(f, fd[0], "\r\n\r\nok\n", &got);
    fd[16] = connect_client(f);
    settle(f);
    for (int i = 0; i < 17; i++) {
        assert_int_equal(is_closed(fd[i]), i == 1);
        close(fd[i]);
    }
    buffer_done(&got);
}

/* More than the limit, from one address or from many. */
static void half_heads_do_not_silence_those_who_ask(void **state)
{
    struct fixture *f = *state;
    int fd[200];
    for (int i = 0; i < 200; i++) {
        char from[16];
        snprintf(from, sizeof from, "127.0.0.%d", i < 40 ? 1 : i);
        fd[i] = connect_from(f, from);
        say(fd[i], "GET /healthz HTTP/1.1\r\nHost:");
        uv_run(&f->loop, UV_RUN_NOWAIT);
        if (i % 10 == 0) {
            assert_reply(f, "GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n",
                         "HTTP/1.1 200 OK\r\n", "\r\n\r\nok\n");
        }
    }
    settle(f);
    uint32_t open = 0;
    for (int i = 0; i < 200; i++) {
        open += !is_closed(fd[i]);
    }
    assert_in_range(open, 40, 64);
    /* All of them at the same moment, and one that asks. */
    for (int i = 0; i < 200; i++) {
        close(fd[i]);
        fd[i] = connect_client(f);
        say(fd[i], "GET /");
    }
    assert_reply(f, "GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n",
                 "HTTP/1.1 200 OK\r\n", "\r\n\r\nok\n");
    for (int i = 0; i < 200; i++) {
        close(fd[i]);
    }
}

static int ask_and_wait(struct fixture *f, const char *address)
{
    int before = f->requests;
    int fd = connect_from(f, address);
    say(fd, "GET /later HTTP/1.1\r\nHost: a\r\n\r\n");
    for (int i = 0; i < 1000 && f->requests == before; i++) {
        uv_run(&f->loop, UV_RUN_NOWAIT);
        usleep(1000);
    }
    assert_int_equal(f->requests, before + 1);
    return fd;
}

/* A flood from many addresses takes the places of its own requests that wait,
 * not that of an address with one; the same for unread answers. */
static void who_has_few_keeps_them_whatever_others_have(void **state)
{
    struct fixture *f = *state;
    int fd[201], patient = ask_and_wait(f, "127.0.0.200");
    for (int i = 0; i < 200; i++) {
        char from[16];
        snprintf(from, sizeof from, "127.0.0.%d", 1 + i % 20);
        fd[i] = ask_and_wait(f, from);
    }
    assert_false(is_closed(patient));
    uint32_t open = 0;
    for (int i = 0; i < 200; i++) {
        open += !is_closed(fd[i]);
        close(fd[i]);
    }
    assert_in_range(open, 40, 64);
    close(patient);
    settle(f);
    patient = ask_and_leave_unread(f, "127.0.0.200");
    fd[0] = ask_and_leave_unread(f, "127.0.0.1");
    fd[1] = ask_and_leave_unread(f, "127.0.0.1");
    fd[2] = ask_and_leave_unread(f, "127.0.0.2");
    assert_int_equal(http_unread_cut(f->http), 1);
    assert_true(answer_size(f, fd[0]) < LARGE_SIZE);
    assert_true(answer_size(f, patient) > LARGE_SIZE);
    close(fd[1]);
    close(fd[2]);
}

/* However steadily it sends: a byte a second is not silence. */
static void a_head_has_five_seconds_to_be_whole(void **state)
{
    struct fixture *f = *state;
    int fd = connect_client(f);
    uint64_t start = uv_hrtime(), last = start;
    uv_timer_t wake;
    uv_timer_init(&f->loop, &wake);
    uv_timer_start(&wake, wake_cb, 5, 5);
    say(fd, "GET /healthz HTTP/1.1\r\nX: ");
    while (!is_closed(fd)) {
        assert_true(uv_hrtime() - start < BOUND_NS);
        if (uv_hrtime() - last > 200000000) {
            last = uv_hrtime();
            (void)!send(fd, "x", 1, MSG_NOSIGNAL);
        }
        uv_run(&f->loop, UV_RUN_ONCE);
    }
    assert_true(uv_hrtime() - start >= UINT64_C(4900000000));
    uv_close((uv_handle_t *)&wake, NULL);
    settle(f);
    close(fd);
}

static void clients_that_leave_in_the_middle_do_no_harm(void **state)
{
    struct fixture *f = *state;
    for (int i = 0; i < 60; i++) {
        int fd = connect_client(f);
        struct linger now = {.l_onoff = 1, .l_linger = 0};
        say(fd, i % 2 == 0 ? "GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n"
                           : "GET /metr");
        if (i % 4 < 2) {
            setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
        }
        for (int turn = 0; turn < i % 5; turn++) {
            uv_run(&f->loop, UV_RUN_NOWAIT);
        }
        close(fd);
        uv_run(&f->loop, UV_RUN_NOWAIT);
    }
    assert_reply(f, "GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n",
                 "HTTP/1.1 200 OK\r\n", "\r\n\r\nok\n");
}

static void closing_with_open_connections_is_fine(void **state)
{
    struct fixture *f = *state;
    int fd[3];
    for (int i = 0; i < 3; i++) {
        fd[i] = connect_client(f);
        say(fd[i],
            i == 0 ? "GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n" : "GET /he");
        uv_run(&f->loop, UV_RUN_NOWAIT);
    }
    http_close(f->http);
    f->http = NULL;
    assert_int_equal(uv_run(&f->loop, UV_RUN_DEFAULT), 0);
    for (int i = 0; i < 3; i++) {
        close(fd[i]);
    }
}

static void closing_inside_the_handler_is_fine(void **state)
{
    struct fixture *f = *state;
    int fd = connect_client(f);
    f->closes_in_handler = true;
    say(fd, "GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n"
            "GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_int_equal(uv_run(&f->loop, UV_RUN_DEFAULT), 0);
    assert_int_equal(f->requests, 1);
    close(fd);
}

static void a_port_in_use_is_told(void **state)
{
    struct fixture *f = *state;
    struct http *second = NULL;
    char why[HASP_WHY_SIZE] = "";
    struct http_limits limits = {.connections = 64, .per_address = 16};
    struct http_handler handler = {.data = f};
    assert_int_equal(http_open(&f->loop, "127.0.0.1", http_port(f->http),
                               &limits, &handler, NULL, &second, why),
                     HASP_EBUSY);
    assert_non_null(strstr(why, "127.0.0.1"));
    assert_null(second);
}

#define HTTP_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        HTTP_TEST(each_path_has_its_answer),
        HTTP_TEST(the_target_and_the_body_come_as_they_were_sent),
        HTTP_TEST(a_body_is_bounded),
        HTTP_TEST(an_ambiguous_head_is_refused),
        HTTP_TEST(nul_in_a_head_is_refused),
        HTTP_TEST(an_unusual_head_is_accepted),
        HTTP_TEST(unread_answers_are_bounded),
        HTTP_TEST(a_body_is_bounded_by_its_head),
        HTTP_TEST(an_answer_may_come_later),
        HTTP_TEST(who_hangs_up_is_noticed),
        HTTP_TEST(a_stream_goes_on_until_its_end),
        HTTP_TEST(a_request_head_is_bounded),
        HTTP_TEST(head_has_no_body),
        HTTP_TEST(requests_follow_each_other_on_one_connection),
        HTTP_TEST(a_large_body_reaches_a_slow_reader_whole),
        HTTP_TEST(many_connections_are_answered_in_parallel),
        HTTP_TEST(one_address_gets_sixteen_connections),
        HTTP_TEST(half_heads_do_not_silence_those_who_ask),
        HTTP_TEST(who_has_few_keeps_them_whatever_others_have),
        HTTP_TEST(a_head_has_five_seconds_to_be_whole),
        HTTP_TEST(clients_that_leave_in_the_middle_do_no_harm),
        HTTP_TEST(closing_with_open_connections_is_fine),
        HTTP_TEST(closing_inside_the_handler_is_fine),
        HTTP_TEST(a_port_in_use_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
