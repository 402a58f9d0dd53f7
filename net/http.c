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

#include <errno.h>
#include <microhttpd.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/check.h"
#include "base/list.h"
#include "base/log.h"
#include "base/memory.h"
#include "net/stream.h"

#define CONNECTION_MAX 64u
#define CONNECTION_PER_ADDRESS_MAX 16u

/* Those that had to make room go in the next turn. */
#define CONNECTION_LEAVING_MAX 64u

/* Between two looks at what they have asked: none is to make room unheard. */
#define ACCEPTS_PER_RUN 16
#define HEAD_MAX_MS 5000
#define STARVED_PAUSE_MS 100
#define CONNECTION_MEMORY_SIZE ((size_t)16 << 10)
#define SILENCE_MAX_S 10u

struct http {
    struct MHD_Daemon *daemon;
    http_handler_fn *handler;
    void *data;
    void (*closed)(void *data);
    void *closed_data;
    int listen_fd;
    uv_poll_t listening;
    uv_poll_t poll;
    uv_prepare_t prepare;
    uv_timer_t timer;
    int handle_count;
    struct list guests;  /* The oldest first. */
    uint64_t starved_ms; /* Accepting pauses since then; 0: it does not. */
    uint16_t port;
    bool is_running; /* Inside MHD_run(). */
    bool is_closing;
};

/* A connection. */
struct guest {
    struct list in_http;
    int fd;
    char origin[STREAM_ADDRESS_SIZE];
    uint64_t since_ms; /* It came, or has had its last answer. */
    bool is_asking;    /* The head is whole, the answer is under way. */
    bool is_leaving;   /* It had to make room. */
};

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

/* The handles first: the daemon closes the descriptor that is polled. */
static void close_now(struct http *http)
{
    uv_close((uv_handle_t *)&http->listening, closed_cb);
    close(http->listen_fd); /* The poll has forgotten it. */
    uv_close((uv_handle_t *)&http->poll, closed_cb);
    uv_close((uv_handle_t *)&http->prepare, closed_cb);
    uv_close((uv_handle_t *)&http->timer, closed_cb);
    MHD_stop_daemon(http->daemon);
    http->daemon = NULL;
}

static uint64_t now_ms(const struct http *http)
{
    return uv_now(http->prepare.loop);
}

static uint64_t head_due_ms(const struct guest *guest)
{
    return guest->is_asking || guest->is_leaving
               ? UINT64_MAX
               : guest->since_ms + HEAD_MAX_MS;
}

/* libmicrohttpd notices that, and closes. */
static void leave(struct guest *guest)
{
    guest->is_leaving = true;
    (void)shutdown(guest->fd, SHUT_RDWR);
}

static void close_overdue(struct http *http)
{
    LIST_EACH (node, &http->guests) {
        struct guest *guest = LIST_ENTRY(node, struct guest, in_http);
        if (head_due_ms(guest) <= now_ms(http)) {
            leave(guest);
        }
    }
}

static void run(struct http *http)
{
    if (http->is_closing) {
        return;
    }
    close_overdue(http);
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

static uint64_t sooner(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Of those from 'origin' (NULL: of all) there is room for one more. */
static void make_room(struct http *http, const char *origin, uint32_t max)
{
    uint32_t count = 0;
    struct guest *oldest = NULL;
    LIST_EACH (node, &http->guests) {
        struct guest *guest = LIST_ENTRY(node, struct guest, in_http);
        if (guest->is_leaving ||
            (origin != NULL && strcmp(guest->origin, origin) != 0)) {
            continue;
        }
        count++;
        if (oldest == NULL || (oldest->is_asking && !guest->is_asking)) {
            oldest = guest;
        }
    }
    if (count >= max) {
        leave(oldest);
    }
}

static void pause_starved(struct http *http)
{
    LOG_ERROR("accepting pauses",
              "port=%u error=%s hint=\"raise the limit of open files\"",
              (unsigned)http->port,
              log_quote(strerror(errno), strlen(strerror(errno))));
    http->starved_ms = now_ms(http);
    uv_poll_stop(&http->listening);
}

static void accept_cb(uv_poll_t *poll, int status, int events)
{
    struct http *http = poll->data;
    char address[STREAM_ADDRESS_SIZE], origin[STREAM_ADDRESS_SIZE];
    (void)status;
    (void)events;
    for (int i = 0; i < ACCEPTS_PER_RUN; i++) {
        struct sockaddr_storage from = {0};
        socklen_t size = sizeof from;
        int fd = accept4(http->listen_fd, (struct sockaddr *)&from, &size,
                         SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0) {
            address_format((struct sockaddr *)&from, address);
            address_origin(address, origin);
            make_room(http, origin, CONNECTION_PER_ADDRESS_MAX);
            make_room(http, NULL, CONNECTION_MAX);
            /* What fails closes the socket. */
            (void)MHD_add_connection(http->daemon, fd, (struct sockaddr *)&from,
                                     size);
        } else if (errno == EMFILE || errno == ENFILE) {
            pause_starved(http);
            break;
        } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
            break;
        }
    }
    run(http);
}

static void timer_cb(uv_timer_t *timer)
{
    struct http *http = timer->data;
    if (http->starved_ms != 0 &&
        now_ms(http) >= http->starved_ms + STARVED_PAUSE_MS) {
        http->starved_ms = 0;
        CHECK(uv_poll_start(&http->listening, UV_READABLE, accept_cb) == 0);
    }
    run(http);
}

static void prepare_cb(uv_prepare_t *prepare)
{
    struct http *http = prepare->data;
    MHD_UNSIGNED_LONG_LONG after_ms;
    uint64_t due_ms = UINT64_MAX;
    if (MHD_get_timeout(http->daemon, &after_ms) == MHD_YES) {
        due_ms = now_ms(http) + after_ms;
    }
    if (http->starved_ms != 0) {
        due_ms = sooner(due_ms, http->starved_ms + STARVED_PAUSE_MS);
    }
    LIST_EACH (node, &http->guests) {
        due_ms = sooner(due_ms,
                        head_due_ms(LIST_ENTRY(node, struct guest, in_http)));
    }
    if (due_ms != UINT64_MAX) {
        after_ms = due_ms > now_ms(http) ? due_ms - now_ms(http) : 0;
        CHECK(uv_timer_start(&http->timer, timer_cb, after_ms, 0) == 0);
    } else {
        uv_timer_stop(&http->timer);
    }
}

static void connection_cb(void *data, struct MHD_Connection *connection,
                          void **context,
                          enum MHD_ConnectionNotificationCode what)
{
    struct http *http = data;
    if (what == MHD_CONNECTION_NOTIFY_CLOSED) {
        struct guest *guest = *context;
        list_remove(&guest->in_http);
        free(guest);
        return;
    }
    char address[STREAM_ADDRESS_SIZE];
    struct guest *guest = memory_new(sizeof *guest);
    guest->fd = MHD_get_connection_info(connection,
                                        MHD_CONNECTION_INFO_CONNECTION_FD)
                    ->connect_fd;
    address_format(
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS)
            ->client_addr,
        address);
    address_origin(address, guest->origin);
    guest->since_ms = now_ms(http);
    list_push_back(&http->guests, &guest->in_http);
    *context = guest;
}

static struct guest *guest_of(struct MHD_Connection *connection)
{
    return MHD_get_connection_info(connection,
                                   MHD_CONNECTION_INFO_SOCKET_CONTEXT)
        ->socket_context;
}

/* It waits for the next request: it is the youngest now. */
static void completed_cb(void *data, struct MHD_Connection *connection,
                         void **request, enum MHD_RequestTerminationCode how)
{
    struct http *http = data;
    struct guest *guest = guest_of(connection);
    (void)request;
    (void)how;
    guest->is_asking = false;
    guest->since_ms = now_ms(http);
    list_remove(&guest->in_http);
    list_push_back(&http->guests, &guest->in_http);
}

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
    guest_of(connection)->is_asking = true;
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
    http->listen_fd = fd;
    list_init(&http->guests);
    http->daemon = MHD_start_daemon(
        MHD_USE_EPOLL | MHD_USE_NO_LISTEN_SOCKET, 0, NULL, NULL, request_cb,
        http, MHD_OPTION_CONNECTION_LIMIT,
        CONNECTION_MAX + CONNECTION_LEAVING_MAX,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, CONNECTION_MEMORY_SIZE,
        MHD_OPTION_CONNECTION_TIMEOUT, SILENCE_MAX_S,
        MHD_OPTION_NOTIFY_CONNECTION, connection_cb, http,
        MHD_OPTION_NOTIFY_COMPLETED, completed_cb, http, MHD_OPTION_END);
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
    CHECK(uv_poll_init(loop, &http->listening, fd) == 0);
    CHECK(uv_prepare_init(loop, &http->prepare) == 0);
    CHECK(uv_timer_init(loop, &http->timer) == 0);
    http->handle_count = 4;
    http->listening.data = http;
    http->poll.data = http;
    http->prepare.data = http;
    http->timer.data = http;
    CHECK(uv_poll_start(&http->poll, UV_READABLE, poll_cb) == 0);
    CHECK(uv_poll_start(&http->listening, UV_READABLE, accept_cb) == 0);
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
