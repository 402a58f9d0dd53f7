/* SPDX-License-Identifier: MIT */

/* Traps of libmicrohttpd (0.9.75) on a foreign loop:
 *
 *   1. Its epoll set is edge-triggered and it can stop in the middle of its
 *      work, so a readable epoll descriptor is not enough: before each wait of
 *      the loop MHD_get_timeout() says when to run again, 0 included. Without
 *      that, connections hang (as they did in systemd-journal-remote).
 *   2. MHD_resume_connection() does not wake an external epoll: MHD_run()
 *  *      must be called after it.
 *   3. A suspended connection is neither read nor timed out: this file has to
 *  *      find out whether its client has disconnected.
 *   4. MHD_stop_daemon() panics if a connection is suspended.
 *   5. It decodes paths before the handler sees them; only the log's callback
 *  *      gets the original. */

#include "net/http.h"

#include <errno.h>
#include <inttypes.h>
#include <microhttpd.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/check.h"
#include "base/list.h"
#include "base/log.h"
#include "base/log_limit.h"
#include "base/memory.h"
#include "base/minmax.h"
#include "net/http_head.h"
#include "net/http_share.h"
#include "net/http_tls_bridge.h"
#include "net/stream.h"

/* Connections that may be about to close; the next turn closes them. */
#define CONNECTION_LEAVING_MAX 64u

/* Connections accepted between two runs, so that none is closed to make room
 * before its request could be read. */
#define ACCEPTS_PER_RUN 16
#define REQUEST_MAX_MS 5000
#define STARVED_PAUSE_MS 100
#define PRESENCE_MS 1000
#define CONNECTION_MEMORY_SIZE ((size_t)16 << 10)
#define STREAM_BLOCK_SIZE 4096
#define SILENCE_MAX_S 10u
/* Runs of the library in a turn: an answer made in one run can be sent in the
 * next. */
#define RUNS_MAX 4

struct http {
    struct MHD_Daemon *daemon;
    struct http_limits limits;
    struct http_handler handler;
    /* Accepts TLS connections; NULL if this file accepts plain ones. */
    struct http_tls_bridge *front;
    int listen_fd; /* Used without 'front'. */
    uv_poll_t listening;
    uv_poll_t poll;
    uv_prepare_t prepare;
    uv_timer_t timer;
    int handle_count;
    /* Connections, oldest first: without a whole request, waiting for an
     * answer, and closing. */
    struct list idle;
    struct list asking;
    struct list leaving;
    struct http_shares shares; /* Of 'idle' and 'asking'. */
    struct pollfd *presence;   /* The sockets of the connections in 'asking'. */
    uint64_t presence_ms;      /* When they are checked next. */
    uint64_t starved_ms;       /* When accepting was paused; 0 if it is not. */
    uint16_t port;
    bool is_loopback;
    struct log_limit tls_failures;
    uint64_t tls_failed_count;
    uint64_t cut_count; /* Connections closed for unread answers. */
    bool is_running;    /* MHD_run() is on the stack. */
    bool has_resumed;   /* MHD_run() is due. */
    bool is_closing;
};

/* A client's connection. */
struct guest {
    struct list in_http;
    int fd;
    char address[STREAM_ADDRESS_SIZE];
    char origin[STREAM_ADDRESS_SIZE];
    struct http_share *share; /* NULL: it is closing. */
    struct tls_identity who;  /* The client's certificate, if it uses TLS. */
    uint64_t since_ms;        /* Time of the accept, or of its last answer. */
    struct http_exchange *exchange;
};

struct http_exchange {
    struct http *http;
    struct account_claim claim; /* Used once the request is complete. */
    struct guest *guest;
    struct MHD_Connection *connection;
    char *target;
    const char *line_target; /* The same, where the library read it. */
    const char *method;
    struct buffer body;
    uint32_t body_max;
    void *owner;
    struct MHD_Response *response; /* Set until it is queued. */
    unsigned status;
    size_t answer_size;   /* Memory of the answer until it is sent. */
    struct buffer output; /* A stream's bytes to be sent. */
    bool has_begun;       /* The head of the request has been read. */
    bool has_arrived;     /* All of the request has been read. */
    bool is_reported;     /* on_request() was called. */
    bool is_answered;
    bool is_suspended;
    bool is_stream;
    bool is_at_end; /* Nothing more is appended to the stream. */
    bool has_gone;  /* The client has disconnected, or is being closed. */
};

static void http_part_closed(void *http_data)
{
    struct http *http = http_data;
    if (--http->handle_count == 0) {
        free(http->presence);
        free(http);
    }
}

static void http_closed_cb(uv_handle_t *handle)
{
    http_part_closed(handle->data);
}

static void http_resume(struct http_exchange *exchange)
{
    if (exchange->is_suspended) {
        exchange->is_suspended = false;
        exchange->http->has_resumed = true;
        MHD_resume_connection(exchange->connection);
    }
}

/* Closes everything. The handles come first, since stopping the daemon closes
 * the descriptor that they poll. */
static void close_now(struct http *http)
{
    if (http->front != NULL) {
        http_tls_bridge_close(http->front, http_part_closed, http);
    } else {
        uv_close((uv_handle_t *)&http->listening, http_closed_cb);
        close(http->listen_fd); /* The poll is closed already. */
    }
    uv_close((uv_handle_t *)&http->poll, http_closed_cb);
    uv_close((uv_handle_t *)&http->prepare, http_closed_cb);
    uv_close((uv_handle_t *)&http->timer, http_closed_cb);
    LIST_FOR (struct guest, guest, &http->asking, in_http) {
        http_resume(guest->exchange);
    }
    LIST_FOR (struct guest, guest, &http->leaving, in_http) {
        if (guest->exchange != NULL) {
            http_resume(guest->exchange);
        }
    }
    MHD_stop_daemon(http->daemon);
    http->daemon = NULL;
}

static uint64_t now_ms(const struct http *http)
{
    return uv_now(http->prepare.loop);
}

static void http_stop_counting(struct http *http, struct guest *guest)
{
    if (guest->share != NULL) {
        http_share_remove(&http->shares, guest->share);
        guest->share = NULL;
    }
}

/* Shuts a connection down; libmicrohttpd notices that and closes it. */
static void http_leave(struct http *http, struct guest *guest)
{
    (void)shutdown(guest->fd, SHUT_RDWR);
    http_stop_counting(http, guest);
    list_remove(&guest->in_http);
    list_push_back(&http->leaving, &guest->in_http);
    if (guest->exchange != NULL) {
        guest->exchange->has_gone = true;
        http_resume(guest->exchange);
    }
}

static uint64_t request_due_ms(const struct http *http)
{
    return list_is_empty(&http->idle)
               ? UINT64_MAX
               : LIST_FIRST(&http->idle, struct guest, in_http)->since_ms +
                     REQUEST_MAX_MS;
}

static void close_overdue(struct http *http)
{
    while (request_due_ms(http) <= now_ms(http)) {
        http_leave(http, LIST_FIRST(&http->idle, struct guest, in_http));
    }
}

/* Finds clients that have disconnected while they wait for an answer. */
static void look_for_presence(struct http *http)
{
    nfds_t count = 0;
    if (list_is_empty(&http->asking) || now_ms(http) < http->presence_ms) {
        return;
    }
    http->presence_ms = now_ms(http) + PRESENCE_MS;
    LIST_FOR (struct guest, guest, &http->asking, in_http) {
        http->presence[count++] = (struct pollfd){
            /* The library watches a connection that is not suspended; poll()
             * ignores -1. */
            .fd = guest->exchange->is_suspended ? guest->fd : -1,
            .events = POLLRDHUP};
    }
    if (poll(http->presence, count, 0) <= 0) {
        return;
    }
    count = 0;
    LIST_FOR_SAFE (struct guest, guest, &http->asking, in_http) {
        if (http->presence[count++].revents != 0) {
            http_leave(http, guest);
        }
    }
}

static void http_run(struct http *http)
{
    struct account *account = http->limits.account;
    if (http->is_closing) {
        return;
    }
    close_overdue(http);
    look_for_presence(http);
    if (account != NULL) {
        account_start(account);
    }
    http->is_running = true;
    /* A run reads at most one request of each connection. Once the account is
     * spent, resumed connections wait for the next pass. */
    for (int i = 0; i < RUNS_MAX && (i == 0 || http->has_resumed) &&
                    (i == 0 || account == NULL || account_is_open(account));
         i++) {
        http->has_resumed = false;
        (void)MHD_run(http->daemon);
        if (account != NULL) {
            account_charge(account, NULL);
        }
    }
    http->is_running = false;
    if (http->is_closing) {
        close_now(http);
    }
}

static void http_poll_cb(uv_poll_t *poll, int status, int events)
{
    (void)status;
    (void)events;
    http_run(poll->data);
}

/* Closes the oldest connection without a whole request, or else the oldest that
 * waits for an answer: of 'share' or, if that is NULL, of origins with as many
 * connections as 'most'. */
static void http_leave_oldest(struct http *http, const struct http_share *share,
                              uint32_t most)
{
    struct list *lists[] = {&http->idle, &http->asking};
    for (int i = 0; i < 2; i++) {
        LIST_FOR (struct guest, guest, lists[i], in_http) {
            if (share == NULL ? guest->share->count == most
                              : guest->share == share) {
                http_leave(http, guest);
                return;
            }
        }
    }
    UNREACHABLE(); /* Each connection that is counted is in one of them. */
}

/* Makes room for a connection from 'origin': among its own, and among all, of
 * which the origin with the most gives one up. */
static void http_make_room(struct http *http, const char *origin)
{
    struct http_share *own = http_share_find(&http->shares, origin);
    if (own != NULL && own->count >= http->limits.per_address) {
        http_leave_oldest(http, own, 0);
    }
    if (http->shares.count >= http->limits.connections) {
        http_leave_oldest(http, NULL, http_share_most(&http->shares));
    }
}

static void http_pause_starved(struct http *http)
{
    LOG_ERROR("accepting is paused",
              "port=%u error=%s hint=\"raise the limit of open files\"",
              (unsigned)http->port, log_quote(strerror(errno)));
    http->starved_ms = now_ms(http);
    uv_poll_stop(&http->listening);
}

static void http_accept_cb(uv_poll_t *poll, int status, int events)
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
            http_make_room(http, origin);
            /* libmicrohttpd closes the socket if this fails. */
            (void)MHD_add_connection(http->daemon, fd, (struct sockaddr *)&from,
                                     size);
        } else if (errno == EMFILE || errno == ENFILE) {
            http_pause_starved(http);
            break;
        } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
            break;
        }
    }
    http_run(http);
}

static void http_timer_cb(uv_timer_t *timer)
{
    struct http *http = timer->data;
    if (http->starved_ms != 0 &&
        now_ms(http) >= http->starved_ms + STARVED_PAUSE_MS) {
        http->starved_ms = 0;
        CHECK(uv_poll_start(&http->listening, UV_READABLE, http_accept_cb) ==
              0);
    }
    http_run(http);
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
        due_ms = u64_min(due_ms, http->starved_ms + STARVED_PAUSE_MS);
    }
    due_ms = u64_min(due_ms, request_due_ms(http));
    if (!list_is_empty(&http->asking)) {
        due_ms = u64_min(due_ms, http->presence_ms);
    }
    /* A resumed connection produces no event of the descriptor, so the library
     * has to run in this turn. */
    if (http->has_resumed) {
        due_ms = 0;
    }
    if (due_ms != UINT64_MAX) {
        after_ms = due_ms > now_ms(http) ? due_ms - now_ms(http) : 0;
        CHECK(uv_timer_start(&http->timer, http_timer_cb, after_ms, 0) == 0);
    } else {
        uv_timer_stop(&http->timer);
    }
}

static struct guest *guest_of(struct MHD_Connection *connection)
{
    return MHD_get_connection_info(connection,
                                   MHD_CONNECTION_INFO_SOCKET_CONTEXT)
        ->socket_context;
}

static void know_by_front(const struct http *http, struct guest *guest)
{
    const struct tls_identity *who = http_tls_bridge_identity(http->front,
                                                              guest->fd);
    snprintf(guest->address, sizeof guest->address, "%s",
             http_tls_bridge_address(http->front, guest->fd));
    if (who != NULL) {
        guest->who = *who;
    }
}

static void connection_cb(void *data, struct MHD_Connection *connection,
                          void **context,
                          enum MHD_ConnectionNotificationCode what)
{
    struct http *http = data;
    if (what == MHD_CONNECTION_NOTIFY_CLOSED) {
        struct guest *guest = *context;
        CHECK(guest->exchange == NULL);
        http_stop_counting(http, guest);
        list_remove(&guest->in_http);
        free(guest);
        return;
    }
    struct guest *guest = memory_new(sizeof *guest);
    guest->fd = MHD_get_connection_info(connection,
                                        MHD_CONNECTION_INFO_CONNECTION_FD)
                    ->connect_fd;
    /* With TLS the library's peer is this process; the client's address is
     * known to the bridge. */
    if (http->front != NULL) {
        know_by_front(http, guest);
    } else {
        address_format(MHD_get_connection_info(
                           connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS)
                           ->client_addr,
                       guest->address);
    }
    address_origin(guest->address, guest->origin);
    guest->share = http_share_add(&http->shares, guest->origin);
    guest->since_ms = now_ms(http);
    list_push_back(&http->idle, &guest->in_http);
    *context = guest;
}

/* Called when the request line has arrived. */
static void *target_cb(void *data, const char *target,
                       struct MHD_Connection *connection)
{
    struct http_exchange *exchange = memory_new(sizeof *exchange);
    exchange->http = data;
    exchange->guest = guest_of(connection);
    exchange->connection = connection;
    exchange->line_target = target;
    exchange->target = memory_text(target);
    CHECK(exchange->guest->exchange == NULL);
    exchange->guest->exchange = exchange;
    return exchange;
}

/* Ends an exchange. The connection waits for its next request, as the
 * newest. */
static void completed_cb(void *data, struct MHD_Connection *connection,
                         void **request, enum MHD_RequestTerminationCode how)
{
    struct http *http = data;
    struct http_exchange *exchange = *request;
    (void)connection;
    (void)how;
    if (exchange == NULL) {
        return;
    }
    struct guest *guest = exchange->guest;
    *request = NULL;
    if (exchange->is_reported) {
        http->handler.on_end(http->handler.data, exchange);
    }
    /* A connection that is being closed stays in its list until the library
     * reports its end. */
    if (!exchange->has_gone) {
        guest->since_ms = now_ms(http);
        list_remove(&guest->in_http);
        list_push_back(&http->idle, &guest->in_http);
    }
    guest->exchange = NULL;
    if (http->limits.account != NULL) {
        account_leave(http->limits.account, &exchange->claim);
    }
    if (exchange->response != NULL) {
        MHD_destroy_response(exchange->response);
    }
    buffer_done(&exchange->body);
    buffer_done(&exchange->output);
    free(exchange->target);
    free(exchange);
}

static enum MHD_Result queue_response(struct http_exchange *exchange)
{
    enum MHD_Result result = MHD_queue_response(
        exchange->connection, exchange->status, exchange->response);
    MHD_destroy_response(exchange->response);
    exchange->response = NULL;
    return result;
}

static void put_headers(struct MHD_Response *response,
                        const struct http_reply *reply)
{
    MHD_add_response_header(response, "Content-Type",
                            reply->content_type != NULL ? reply->content_type
                                                        : "text/plain");
    MHD_add_response_header(response, "Cache-Control", "no-store");
    MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
    for (int i = 0; reply->header[i].name != NULL; i++) {
        MHD_add_response_header(response, reply->header[i].name,
                                reply->header[i].value);
    }
}

static void set_response(struct http_exchange *exchange, unsigned status,
                         struct MHD_Response *response)
{
    CHECK(response != NULL && !exchange->is_answered);
    exchange->is_answered = true;
    exchange->status = status;
    exchange->response = response;
    http_resume(exchange);
}

/* Memory of the answer or the stream that the client has not read. */
static size_t http_unread_size(const struct guest *guest)
{
    const struct http_exchange *exchange = guest->exchange;
    return exchange != NULL ? exchange->answer_size + exchange->output.size : 0;
}

/* Counts the unread answers of each origin, except that of 'exchange'; returns
 * their sum. */
static size_t http_count_unread(struct http *http,
                                const struct http_exchange *exchange)
{
    size_t sum = 0;
    HASH_FOR (struct http_share, share, http->shares.all, by_origin) {
        share->unread = 0;
    }
    LIST_FOR (const struct guest, guest, &http->asking, in_http) {
        size_t unread = guest != exchange->guest ? http_unread_size(guest) : 0;
        guest->share->unread += unread;
        sum += unread;
    }
    return sum;
}

/* Closes connections of the share, those with the oldest requests first, until
 * it has at most 'size' unread bytes, besides those of 'exchange'. Returns how
 * many fewer it has now. */
static size_t http_cut_unread(struct http *http,
                              const struct http_exchange *exchange,
                              struct http_share *share, size_t size)
{
    size_t before = share->unread, left = share->unread;
    LIST_FOR_SAFE (struct guest, guest, &http->asking, in_http) {
        if (left <= size) {
            break;
        }
        if (guest->share == share && guest != exchange->guest &&
            http_unread_size(guest) > 0) {
            left -= http_unread_size(guest);
            /* The share ends with its last connection. */
            share->unread = left;
            http->cut_count++;
            http_leave(http, guest);
        }
    }
    return before - left;
}

/* Makes room for the answer of 'exchange'. Small answers are not counted: the
 * number of connections bounds them. */
static void bound_unread(struct http_exchange *exchange)
{
    struct http *http = exchange->http;
    const struct http_limits *limits = &http->limits;
    size_t own = http_unread_size(exchange->guest);
    struct http_share *share = exchange->guest->share;
    if (own <= HTTP_UNREAD_FREE || limits->unread == 0 || share == NULL) {
        return;
    }
    size_t unread = http_count_unread(http, exchange);
    size_t most = limits->unread_per_address;
    unread -= http_cut_unread(http, exchange, share,
                              most > own ? most - own : 0);
    most = limits->unread > own ? limits->unread - own : 0;
    /* The origin with the most unread bytes gives some up, until all fit. */
    while (unread > most) {
        struct http_share *largest = http_share_most_unread(&http->shares);
        unread -= http_cut_unread(http, exchange, largest, largest->unread - 1);
    }
}

void http_answer(struct http_exchange *exchange, struct http_reply *reply)
{
    struct MHD_Response *response = reply->constant.size > 0
                                        ? MHD_create_response_from_buffer(
                                              reply->constant.size,
                                              (void *)(uintptr_t)
                                                  reply->constant.data,
                                              MHD_RESPMEM_PERSISTENT)
                                        : MHD_create_response_from_buffer(
                                              reply->body.size,
                                              reply->body.data,
                                              MHD_RESPMEM_MUST_FREE);
    CHECK(response != NULL);
    exchange->answer_size = reply->body.size;
    reply->body = (struct buffer){0};
    bound_unread(exchange);
    put_headers(response, reply);
    set_response(exchange, reply->status, response);
}

/* Passes a stream's next bytes to the library. */
static ssize_t http_read_cb(void *data, uint64_t at, char *to, size_t size)
{
    struct http_exchange *exchange = data;
    struct buffer *output = &exchange->output;
    (void)at;
    if (exchange->has_gone) {
        return MHD_CONTENT_READER_END_WITH_ERROR;
    }
    if (output->size > 0) {
        size = size < output->size ? size : output->size;
        memcpy(to, output->data, size);
        buffer_consume(output, size);
        return (ssize_t)size;
    }
    if (exchange->is_at_end) {
        return MHD_CONTENT_READER_END_OF_STREAM;
    }
    exchange->is_suspended = true;
    /* Without this the library would call again at once, and spin until there
     * are bytes. */
    MHD_suspend_connection(exchange->connection);
    return 0;
}

void http_stream(struct http_exchange *exchange, struct http_reply *reply)
{
    struct MHD_Response *response = MHD_create_response_from_callback(
        MHD_SIZE_UNKNOWN, STREAM_BLOCK_SIZE, http_read_cb, exchange, NULL);
    CHECK(response != NULL && reply->body.size == 0);
    put_headers(response, reply);
    exchange->is_stream = true;
    set_response(exchange, reply->status, response);
}

struct buffer *http_stream_output(struct http_exchange *exchange)
{
    CHECK(exchange->is_stream);
    return &exchange->output;
}

void http_stream_more(struct http_exchange *exchange)
{
    bound_unread(exchange);
    http_resume(exchange);
}

size_t http_stream_unsent(const struct http_exchange *exchange)
{
    return exchange->output.size;
}

void http_stream_end(struct http_exchange *exchange)
{
    exchange->is_at_end = true;
    http_resume(exchange);
}

static void http_refuse(struct http_exchange *exchange, unsigned status,
                        const char *title, const char *detail)
{
    struct http_reply reply;
    http_head_refuse(exchange->http->limits.is_plain, status, title, detail,
                     &reply);
    http_answer(exchange, &reply);
}

/* Handles the head of a request. */
static enum MHD_Result http_begin(struct http_exchange *exchange,
                                  const char *method, const char *version)
{
    const struct http *http = exchange->http;
    struct http_head head;
    char detail[64];
    exchange->has_begun = true;
    exchange->method = method;
    exchange->body_max = http->limits.body_size;
    const char *why = http_head_read(
        exchange->connection, exchange->line_target, strlen(exchange->target),
        method, version, &head);
    if (why != NULL) {
        http_refuse(exchange, MHD_HTTP_BAD_REQUEST, "Bad Request", why);
        return queue_response(exchange);
    }
    if (head.has_body && http->handler.on_head != NULL) {
        /* Before the body is received, so that a request that is refused in any
         * case is not buffered. */
        uint32_t max = http->handler.on_head(http->handler.data, exchange);
        exchange->body_max = max < exchange->body_max ? max
                                                      : exchange->body_max;
    }
    if (exchange->response == NULL && head.body_size > exchange->body_max) {
        snprintf(detail, sizeof detail, "the body may have at most %u bytes",
                 (unsigned)exchange->body_max);
        http_refuse(exchange, MHD_HTTP_CONTENT_TOO_LARGE, "Content Too Large",
                    detail);
    }
    return exchange->response != NULL ? queue_response(exchange) : MHD_YES;
}

/* Passes a whole request to the handler. */
static void http_tell(struct http_exchange *exchange)
{
    struct http *http = exchange->http;
    exchange->is_reported = true;
    http->handler.on_request(http->handler.data, exchange);
}

/* Serves a request, whose connection is suspended, in its turn. */
static bool http_serve(struct account_claim *claim)
{
    struct http_exchange *exchange = LIST_ENTRY(claim, struct http_exchange,
                                                claim);
    if (!exchange->has_gone && !exchange->http->is_closing) {
        http_tell(exchange);
    }
    return false;
}

/* A request is complete: passes it to the handler, now or in its turn. */
static void http_arrive(struct http_exchange *exchange)
{
    struct account *account = exchange->http->limits.account;
    list_remove(&exchange->guest->in_http);
    list_push_back(&exchange->http->asking, &exchange->guest->in_http);
    exchange->has_arrived = true;
    if (account == NULL) {
        http_tell(exchange);
        return;
    }
    account_join(account, &exchange->claim,
                 account_key_of_origin(exchange->guest->origin), http_serve);
    if (account_is_open(account)) {
        http_tell(exchange);
        account_charge(account, &exchange->claim);
    } else {
        account_rest(account, &exchange->claim);
    }
}

/* Called when the head of a request has arrived, for each part of its body, at
 * its end, and after MHD_resume_connection(). */
static enum MHD_Result request_cb(void *data, struct MHD_Connection *connection,
                                  const char *path, const char *method,
                                  const char *version, const char *upload,
                                  size_t *upload_size, void **request)
{
    struct http *http = data;
    struct http_exchange *exchange = *request;
    (void)connection;
    (void)path;
    if (http->is_closing || exchange->has_gone) {
        return MHD_NO;
    }
    if (!exchange->has_begun) {
        return http_begin(exchange, method, version);
    }
    if (*upload_size > 0) {
        if (*upload_size > exchange->body_max - exchange->body.size) {
            /* The size of a chunked body is not known before. */
            return MHD_NO;
        }
        buffer_put(&exchange->body, upload, *upload_size);
        *upload_size = 0;
        return MHD_YES;
    }
    if (!exchange->has_arrived) {
        http_arrive(exchange);
    }
    if (exchange->response != NULL) {
        return queue_response(exchange);
    }
    exchange->is_suspended = true;
    MHD_suspend_connection(exchange->connection);
    return MHD_YES;
}

/* Leaves paths undecoded; the code that splits them decodes their parts. */
static size_t unescape_cb(void *data, struct MHD_Connection *connection,
                          char *text)
{
    (void)data;
    (void)connection;
    return strlen(text);
}

/* --- Listening ------------------------------------------------------------ */

static void front_make_room(void *data, const char *origin)
{
    struct http *http = data;
    http_make_room(http, origin);
}

static void front_joined(void *data, int fd)
{
    struct http *http = data;
    struct sockaddr nowhere = {.sa_family = AF_UNIX};
    /* libmicrohttpd closes the socket if this fails. */
    (void)MHD_add_connection(http->daemon, fd, &nowhere, sizeof nowhere);
    http->has_resumed = true; /* The new connection needs a run. */
}

static void front_failed(void *data, const char *address, const char *reason)
{
    struct http *http = data;
    uint32_t left_out;
    http->tls_failed_count++;
    if (log_limit_pass(&http->tls_failures, now_ms(http), &left_out)) {
        LOG_WARN("client refused",
                 "port=http address=%s reason=%s suppressed=%" PRIu32, address,
                 log_quote(reason), left_out);
    }
}

static void listen_on(struct http *http, uv_loop_t *loop, int fd,
                      struct tls_context *context)
{
    const struct http_tls_bridge_events events = {
        .make_room = front_make_room,
        .joined = front_joined,
        .failed = front_failed,
        .data = http,
        .account = http->limits.account};
    if (context != NULL) {
        http->front = http_tls_bridge_open(loop, fd, http->limits.connections,
                                           http->limits.per_address, context,
                                           &events);
        return;
    }
    http->listen_fd = fd;
    CHECK(uv_poll_init(loop, &http->listening, fd) == 0);
    http->listening.data = http;
    CHECK(uv_poll_start(&http->listening, UV_READABLE, http_accept_cb) == 0);
}

void http_use_tls(struct http *http, struct tls_context *context)
{
    CHECK(http->front != NULL);
    http_tls_bridge_use_tls(http->front, context);
}

uint64_t http_tls_failed(const struct http *http)
{
    return http->tls_failed_count;
}

static struct MHD_Daemon *start_daemon(struct http *http)
{
    return MHD_start_daemon(
        MHD_USE_EPOLL | MHD_USE_NO_LISTEN_SOCKET | MHD_ALLOW_SUSPEND_RESUME, 0,
        NULL, NULL, request_cb, http, MHD_OPTION_CONNECTION_LIMIT,
        http->limits.connections + CONNECTION_LEAVING_MAX,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, CONNECTION_MEMORY_SIZE,
        MHD_OPTION_CONNECTION_TIMEOUT, SILENCE_MAX_S,
        MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_URI_LOG_CALLBACK, target_cb,
        http, MHD_OPTION_UNESCAPE_CALLBACK, unescape_cb, NULL,
        MHD_OPTION_NOTIFY_CONNECTION, connection_cb, http,
        MHD_OPTION_NOTIFY_COMPLETED, completed_cb, http, MHD_OPTION_END);
}

int http_open(uv_loop_t *loop, const char *host, uint16_t port,
              const struct http_limits *limits,
              const struct http_handler *handler, struct tls_context *context,
              struct http **ret_http, char why[HASP_WHY_SIZE])
{
    int fd;
    int error = listener_bind(host, port, &fd, why);
    if (error != 0) {
        return error;
    }
    struct http *http = memory_new(sizeof *http);
    http->limits = *limits;
    http->handler = *handler;
    http->port = listener_port_of(fd);
    http->is_loopback = listener_is_loopback_of(fd);
    list_init(&http->idle);
    list_init(&http->asking);
    list_init(&http->leaving);
    http->presence = memory_new((limits->connections + CONNECTION_LEAVING_MAX) *
                                sizeof *http->presence);
    http->daemon = start_daemon(http);
    if (http->daemon == NULL) {
        snprintf(why, HASP_WHY_SIZE, "cannot start HTTP on '%s' port %u", host,
                 (unsigned)port);
        close(fd);
        free(http->presence);
        free(http);
        return HASP_ECONNECT;
    }
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(
        http->daemon, MHD_DAEMON_INFO_EPOLL_FD);
    CHECK(info != NULL);
    CHECK(uv_poll_init(loop, &http->poll, info->epoll_fd) == 0);
    CHECK(uv_prepare_init(loop, &http->prepare) == 0);
    CHECK(uv_timer_init(loop, &http->timer) == 0);
    http->handle_count = 4;
    http->poll.data = http;
    http->prepare.data = http;
    http->timer.data = http;
    /* The library's own epoll descriptor becomes readable when any of its
     * connections is. */
    CHECK(uv_poll_start(&http->poll, UV_READABLE, http_poll_cb) == 0);
    listen_on(http, loop, fd, context);
    CHECK(uv_prepare_start(&http->prepare, prepare_cb) == 0);
    *ret_http = http;
    return 0;
}

const char *http_method(const struct http_exchange *exchange)
{
    return exchange->method;
}

const char *http_target(const struct http_exchange *exchange)
{
    return exchange->target;
}

struct bytes http_body(const struct http_exchange *exchange)
{
    return buffer_bytes(&exchange->body);
}

const char *http_address(const struct http_exchange *exchange)
{
    return exchange->guest->address;
}

const struct tls_identity *http_identity(const struct http_exchange *exchange)
{
    return exchange->http->front != NULL ? &exchange->guest->who : NULL;
}

const char *http_header(const struct http_exchange *exchange, const char *name)
{
    return MHD_lookup_connection_value(exchange->connection, MHD_HEADER_KIND,
                                       name);
}

void http_set_owner(struct http_exchange *exchange, void *owner)
{
    exchange->owner = owner;
}

void *http_owner(const struct http_exchange *exchange)
{
    return exchange->owner;
}

void http_flush(struct http *http)
{
    if (http->has_resumed && !http->is_running) {
        http_run(http);
    }
}

bool http_is_loopback(const struct http *http)
{
    return http->is_loopback;
}

uint64_t http_unread_cut(const struct http *http)
{
    return http->cut_count;
}

uint16_t http_port(const struct http *http)
{
    return http->port;
}

void http_close(struct http *http)
{
    CHECK(!http->is_closing);
    http->is_closing = true;
    if (!http->is_running) {
        close_now(http);
    }
}
