/* SPDX-License-Identifier: MIT */

/* Two traps of libmicrohttpd on a foreign loop:
 *
 *   1. Its epoll set is edge-triggered and it may stop in the middle of its
 *      work, so a readable epoll descriptor is not enough: before each wait of
 *      the loop MHD_get_timeout() says when to run again, 0 included. Without
 *      that, connections hang (as they did in systemd-journal-remote).
 *   2. MHD_resume_connection() does not wake an external epoll: whoever
 *      suspends a request has to call MHD_run() after resuming it. Nothing is
 *      suspended here: every answer is made at once. */

#include "net/http.h"

#include <microhttpd.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "base/memory.h"
#include "net/stream.h"

#define CONNECTION_MAX 64u
#define CONNECTION_PER_ADDRESS_MAX 16u
#define CONNECTION_MEMORY_SIZE ((size_t)16 << 10)
#define SILENCE_MAX_S 10u

struct http {
    struct MHD_Daemon *daemon;
    http_handler_fn *handler;
    void *data;
    void (*closed)(void *data);
    void *closed_data;
    uv_poll_t poll;
    uv_prepare_t prepare;
    uv_timer_t timer;
    int handle_count;
    uint16_t port;
    bool is_running; /* Inside MHD_run(). */
    bool is_closing;
};

static enum MHD_Result request_cb(void *data, struct MHD_Connection *connection,
                                  const char *path, const char *method,
                                  const char *version, const char *upload,
                                  size_t *upload_size, void **request);
static void poll_cb(uv_poll_t *poll, int status, int events);
static void prepare_cb(uv_prepare_t *prepare);
static void timer_cb(uv_timer_t *timer);
static void closed_cb(uv_handle_t *handle);
static void close_now(struct http *http);

int http_open(uv_loop_t *loop, const char *host, uint16_t port,
              http_handler_fn *handler, void *data, struct http **ret_http,
              char why[HASP_WHY_SIZE])
{
    int fd;
    int error = listener_bind(host, port, &fd, why);
    if (error != 0) {
        return error;
    }
    struct http *http = memory_new(sizeof *http);
    http->handler = handler;
    http->data = data;
    http->port = listener_port_of(fd);
    http->daemon = MHD_start_daemon(
        MHD_USE_EPOLL, 0, NULL, NULL, request_cb, http,
        MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_CONNECTION_LIMIT,
        CONNECTION_MAX, MHD_OPTION_PER_IP_CONNECTION_LIMIT,
        CONNECTION_PER_ADDRESS_MAX, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
        CONNECTION_MEMORY_SIZE, MHD_OPTION_CONNECTION_TIMEOUT, SILENCE_MAX_S,
        MHD_OPTION_END);
    if (http->daemon == NULL) {
        snprintf(why, HASP_WHY_SIZE, "cannot start HTTP on '%s' port %u", host,
                 (unsigned)port);
        close(fd);
        free(http);
        return HASP_ECONNECT;
    }
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(
        http->daemon, MHD_DAEMON_INFO_EPOLL_FD);
    CHECK(info != NULL);
    CHECK(uv_poll_init(loop, &http->poll, info->epoll_fd) == 0);
    CHECK(uv_prepare_init(loop, &http->prepare) == 0);
    CHECK(uv_timer_init(loop, &http->timer) == 0);
    http->handle_count = 3;
    http->poll.data = http;
    http->prepare.data = http;
    http->timer.data = http;
    CHECK(uv_poll_start(&http->poll, UV_READABLE, poll_cb) == 0);
    CHECK(uv_prepare_start(&http->prepare, prepare_cb) == 0);
    *ret_http = http;
    return 0;
}

uint16_t http_port(const struct http *http)
{
    return http->port;
}

void http_close(struct http *http, void (*closed)(void *data), void *data)
{
    CHECK(!http->is_closing);
    http->is_closing = true;
    http->closed = closed;
    http->closed_data = data;
    if (!http->is_running) {
        close_now(http);
    }
}

/* The handles first: the daemon closes the descriptor that is polled. */
static void close_now(struct http *http)
{
    uv_close((uv_handle_t *)&http->poll, closed_cb);
    uv_close((uv_handle_t *)&http->prepare, closed_cb);
    uv_close((uv_handle_t *)&http->timer, closed_cb);
    MHD_stop_daemon(http->daemon);
    http->daemon = NULL;
}

static void closed_cb(uv_handle_t *handle)
{
    struct http *http = handle->data;
    if (--http->handle_count > 0) {
        return;
    }
    void (*closed)(void *data) = http->closed;
    void *data = http->closed_data;
    free(http);
    if (closed != NULL) {
        closed(data);
    }
}

static void run(struct http *http)
{
    if (http->is_closing) {
        return;
    }
    http->is_running = true;
    (void)MHD_run(http->daemon);
    http->is_running = false;
    if (http->is_closing) {
        close_now(http);
    }
}

static void poll_cb(uv_poll_t *poll, int status, int events)
{
    (void)status;
    (void)events;
    run(poll->data);
}

static void timer_cb(uv_timer_t *timer)
{
    run(timer->data);
}

static void prepare_cb(uv_prepare_t *prepare)
{
    struct http *http = prepare->data;
    MHD_UNSIGNED_LONG_LONG after_ms;
    if (MHD_get_timeout(http->daemon, &after_ms) == MHD_YES) {
        CHECK(uv_timer_start(&http->timer, timer_cb, after_ms, 0) == 0);
    } else {
        uv_timer_stop(&http->timer);
    }
}

/* --- Requests ------------------------------------------------------------- */

static enum MHD_Result send_reply(struct MHD_Connection *connection,
                                  struct http_reply *reply)
{
    struct MHD_Response *response = MHD_create_response_from_buffer(
        reply->body.size, reply->body.data, MHD_RESPMEM_MUST_FREE);
    CHECK(response != NULL);
    reply->body = (struct buffer){0};
    MHD_add_response_header(response, "Content-Type",
                            reply->content_type != NULL ? reply->content_type
                                                        : "text/plain");
    MHD_add_response_header(response, "Cache-Control", "no-store");
    MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
    if (reply->status == MHD_HTTP_METHOD_NOT_ALLOWED) {
        MHD_add_response_header(response, "Allow", "GET, HEAD");
        MHD_add_response_header(response, "Connection", "close");
    }
    enum MHD_Result result = MHD_queue_response(connection, reply->status,
                                                response);
    MHD_destroy_response(response);
    return result;
}

/* Called once when the head of a request is there, and again when the (empty)
 * body has ended. */
static enum MHD_Result request_cb(void *data, struct MHD_Connection *connection,
                                  const char *path, const char *method,
                                  const char *version, const char *upload,
                                  size_t *upload_size, void **request)
{
    struct http *http = data;
    struct http_reply reply = {.status = MHD_HTTP_NOT_FOUND};
    (void)version;
    (void)upload;
    if (strcmp(method, MHD_HTTP_METHOD_GET) != 0 &&
        strcmp(method, MHD_HTTP_METHOD_HEAD) != 0) {
        reply.status = MHD_HTTP_METHOD_NOT_ALLOWED;
        buffer_put_text(&reply.body, "GET and HEAD only\n");
        return send_reply(connection, &reply);
    }
    if (*request == NULL) {
        *request = http;
        return MHD_YES;
    }
    if (*upload_size > 0) {
        *upload_size = 0;
        return MHD_YES;
    }
    if (http->is_closing) {
        return MHD_NO;
    }
    http->handler(http->data, path, &reply);
    if (reply.status == MHD_HTTP_NOT_FOUND && reply.body.size == 0) {
        buffer_put_text(&reply.body, "not found\n");
    }
    return send_reply(connection, &reply);
}
