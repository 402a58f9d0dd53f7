/* SPDX-License-Identifier: MIT */

/* Calls during the life of a connection:
 *
 *     stream_connect -> target_resolve -> resolved_cb -> try_address ->
 *         connect_cb -> begin                        stream_adopt -> begin
 *     read_cb -> take_in -> deliver -> on_bytes
 *     stream_flush -> send_output -> write_cb
 *     stream_close -> handle_closed_cb (twice) -> on_closed
 *
 * stream_read_cb() and stream_send_output() are the two places where bytes pass
 * between the socket and the owner's buffers; TLS (net/stream_tls.c) is
 * inserted there. */

#include "net/stream.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/check.h"
#include "base/memory.h"
#include "net/rights.h"
#include "net/stream_parts.h"
#include "net/stream_tls.h"

#define READ_SIZE (64u << 10)
#define KEEPALIVE_IDLE_S 2
#define KEEPALIVE_INTERVAL_S 1
#define KEEPALIVE_PROBES 3
#define USER_TIMEOUT_MS 5000
#define HOST_SIZE 256
#define APART_RETRY_MS 100

/* The target of a connection. It outlives a stream that is closed while its
 * name is being resolved. */
struct stream_target {
    uv_getaddrinfo_t request;
    struct stream *stream; /* NULL if the stream is closed. */
    struct addrinfo *list;
    struct addrinfo *next; /* The address to try after this one. */
    struct sockaddr_storage numeric;
    bool is_resolving;
    char host[HOST_SIZE];
    char service[8];
};

static void resolved_cb(uv_getaddrinfo_t *request, int status,
                        struct addrinfo *list);
static void connect_cb(uv_connect_t *request, int status);
static void alloc_cb(uv_handle_t *handle, size_t suggested, uv_buf_t *buf);
static void stream_read_cb(uv_stream_t *tcp, ssize_t size, const uv_buf_t *buf);
static void write_cb(uv_write_t *request, int status);
static void shutdown_cb(uv_shutdown_t *request, int status);
static void stream_timer_cb(uv_timer_t *timer);
static void handle_closed_cb(uv_handle_t *handle);

static void target_resolve(struct stream *stream);
static void target_drop(struct stream *stream);
static void try_address(struct stream *stream);
static void stream_start(struct stream *stream);
static void stream_deliver(struct stream *stream);

static size_t stream_unread_size(const struct stream *stream)
{
    return stream->arrived.size + stream->input.size - stream->input_start;
}

/* --- Birth ---------------------------------------------------------------- */

static void stream_init(struct stream *stream, uv_loop_t *loop,
                        const struct stream_events *events,
                        const struct stream_limits *limits, void *owner)
{
    *stream = (struct stream){.events = events, .owner = owner};
    if (limits != NULL) {
        stream->limits = *limits;
    }
    if (stream->limits.input_max == 0) {
        stream->limits.input_max = 1u << 20;
    }
    if (stream->limits.output_max == 0) {
        stream->limits.output_max = 16u << 20;
    }
    if (stream->limits.idle_max == 0) {
        stream->limits.idle_max = 16u << 10;
    }
    if (stream->limits.connect_ms == 0) {
        stream->limits.connect_ms = STREAM_CONNECT_MS;
    }
    CHECK(uv_tcp_init(loop, &stream->tcp) == 0);
    CHECK(uv_timer_init(loop, &stream->timer) == 0);
    list_init(&stream->in_pace);
    stream->tcp.data = stream;
    stream->timer.data = stream;
    stream->handle_count = 2;
}

int stream_connect(struct stream *stream, uv_loop_t *loop, const char *host,
                   uint16_t port, const struct stream_events *events,
                   const struct stream_limits *limits, void *owner)
{
    if (host[0] == '\0' || strlen(host) >= HOST_SIZE || port == 0) {
        return HASP_EINVALID;
    }
    stream_init(stream, loop, events, limits, owner);
    struct stream_target *target = memory_new(sizeof *target);
    target->stream = stream;
    target->request.data = target;
    snprintf(target->host, sizeof target->host, "%s", host);
    snprintf(target->service, sizeof target->service, "%u", (unsigned)port);
    stream->target = target;
    snprintf(stream->address, sizeof stream->address,
             strchr(host, ':') != NULL ? "[%.40s]:%u" : "%.48s:%u", host,
             (unsigned)port);
    /* A numeric address needs no resolver, which can hang for seconds. */
    if (uv_ip4_addr(host, port, (struct sockaddr_in *)&target->numeric) == 0 ||
        uv_ip6_addr(host, port, (struct sockaddr_in6 *)&target->numeric) == 0) {
        try_address(stream);
    } else {
        target_resolve(stream);
    }
    return 0;
}

void stream_adopt(struct stream *stream, uv_loop_t *loop, int fd,
                  const struct stream_events *events,
                  const struct stream_limits *limits, void *owner)
{
    stream_init(stream, loop, events, limits, owner);
    int error = uv_tcp_open(&stream->tcp, fd);
    if (error != 0) {
        close(fd);
        stream_fail(stream, error);
        return;
    }
    stream_start(stream);
}

static void lookup_failed(struct stream *stream, int uv_error)
{
    uv_timer_stop(&stream->timer);
    stream->has_failed_lookup = true;
    stream_fail(stream, uv_error);
}

static void target_resolve(struct stream *stream)
{
    struct stream_target *target = stream->target;
    struct addrinfo hints = {.ai_family = AF_UNSPEC,
                             .ai_socktype = SOCK_STREAM};
    int error = uv_getaddrinfo(stream->tcp.loop, &target->request, resolved_cb,
                               target->host, target->service, &hints);
    target->is_resolving = error == 0;
    if (error != 0) {
        lookup_failed(stream, error);
        return;
    }
    /* A lookup that gets no answer occupies its thread for many seconds. */
    stream_start_timer(stream, stream->limits.connect_ms);
}

static void resolved_cb(uv_getaddrinfo_t *request, int status,
                        struct addrinfo *list)
{
    struct stream_target *target = request->data;
    struct stream *stream = target->stream;
    target->is_resolving = false;
    target->list = list;
    if (stream == NULL) {
        uv_freeaddrinfo(list);
        free(target);
    } else if (status != 0) {
        lookup_failed(stream, status);
    } else {
        uv_timer_stop(&stream->timer);
        target->next = list;
        try_address(stream);
    }
}

/* Frees the target; an unfinished lookup frees it later. */
static void target_drop(struct stream *stream)
{
    struct stream_target *target = stream->target;
    stream->target = NULL;
    if (target == NULL) {
        return;
    }
    if (target->is_resolving) {
        target->stream = NULL;
        (void)uv_cancel((uv_req_t *)&target->request);
        return;
    }
    uv_freeaddrinfo(target->list);
    free(target);
}

/* The current attempt has failed: tries the next address, or closes the stream.
 * A socket can be used for one attempt only, so it is closed first;
 * handle_closed_cb() continues. */
static void attempt_failed(struct stream *stream, int uv_error)
{
    uv_timer_stop(&stream->timer);
    if (stream->target->next == NULL) {
        stream_fail(stream, uv_error);
        return;
    }
    uv_close((uv_handle_t *)&stream->tcp, handle_closed_cb);
}

static void try_address(struct stream *stream)
{
    struct stream_target *target = stream->target;
    const struct sockaddr *to = (struct sockaddr *)&target->numeric;
    if (target->next != NULL) {
        to = target->next->ai_addr;
        target->next = target->next->ai_next;
    }
    int error = uv_tcp_connect(&stream->connect, &stream->tcp, to, connect_cb);
    if (error != 0) {
        attempt_failed(stream, error);
        return;
    }
    stream_start_timer(stream, stream->limits.connect_ms);
}

static void connect_cb(uv_connect_t *request, int status)
{
    struct stream *stream = request->handle->data;
    if (stream->is_closing || status == UV_ECANCELED) {
        return;
    }
    if (status != 0) {
        attempt_failed(stream, status);
        return;
    }
    uv_timer_stop(&stream->timer);
    target_drop(stream);
    stream_start(stream);
    if (stream->is_closing) {
        return;
    }
    if (stream->stream_tls != NULL) {
        /* Calls on_connected after the handshake. */
        stream_tls_connected(stream);
        return;
    }
    if (stream->events->on_connected != NULL) {
        stream->events->on_connected(stream);
    }
    stream_flush(stream);
}

/* A connection works even if one of these cannot be set. */
static void set_socket_options(int fd)
{
    static const struct {
        int level;
        int name;
        int value;
    } options[] = {
        {IPPROTO_TCP, TCP_NODELAY, 1},
        {SOL_SOCKET, SO_KEEPALIVE, 1},
        {IPPROTO_TCP, TCP_KEEPIDLE, KEEPALIVE_IDLE_S},
        {IPPROTO_TCP, TCP_KEEPINTVL, KEEPALIVE_INTERVAL_S},
        {IPPROTO_TCP, TCP_KEEPCNT, KEEPALIVE_PROBES},
        {IPPROTO_TCP, TCP_USER_TIMEOUT, USER_TIMEOUT_MS},
    };
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        (void)setsockopt(fd, options[i].level, options[i].name,
                         &options[i].value, sizeof options[i].value);
    }
}

/* Starts to use an established connection. */
static void stream_start(struct stream *stream)
{
    struct sockaddr_storage peer = {0};
    int size = sizeof peer;
    uv_os_fd_t fd;
    if (uv_fileno((uv_handle_t *)&stream->tcp, &fd) == 0) {
        set_socket_options(fd);
    }
    if (uv_tcp_getpeername(&stream->tcp, (struct sockaddr *)&peer, &size) ==
        0) {
        address_format((struct sockaddr *)&peer, stream->address);
    }
    stream->is_open = true;
    stream_keep_reading(stream);
}

/* --- Input ---------------------------------------------------------------- */

/* Between alloc_cb() and the end of stream_read_cb() nothing else runs on the
 * thread, so one spare buffer serves all streams; another thread allocates its
 * own. */
static _Atomic(char *) spare_buffer;

/* libuv's read() would receive passed descriptors and drop them. So it gets an
 * empty buffer, and calls stream_read_cb() with UV_ENOBUFS. */
static void read_ourselves(struct stream *stream, uv_buf_t *buf)
{
    uv_os_fd_t fd;
    CHECK(uv_fileno((uv_handle_t *)&stream->tcp, &fd) == 0);
    stream->read_size = rights_read(fd, buf->base, buf->len);
    buf->len = 0;
}

static char *stream_borrow(void)
{
    char *memory = atomic_exchange(&spare_buffer, NULL);
    return memory != NULL ? memory : memory_resize(NULL, READ_SIZE);
}

static bool stream_may_read(struct stream *stream)
{
    return stream->events->may_read == NULL || stream->closes_when_flushed ||
           stream_tls_is_unready(stream) || stream->events->may_read(stream);
}

static void alloc_cb(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
    (void)suggested;
    struct stream *stream = handle->data;
    if (!stream_may_read(stream)) {
        /* libuv then reports UV_ENOBUFS without a read. */
        *buf = uv_buf_init(NULL, 0);
        return;
    }
    char *memory = stream_borrow();
    size_t unread = stream_unread_size(stream);
    size_t max = stream->limits.input_max;
    size_t room = READ_SIZE;
    if (!stream->closes_when_flushed && !stream_tls_is_unready(stream) &&
        max < unread + READ_SIZE) {
        room = max > unread ? max - unread : 1;
    }
    *buf = uv_buf_init(memory, (unsigned)room);
    if (stream->may_get_rights) {
        read_ourselves(stream, buf);
    }
}

static void stream_give_back(char *memory)
{
    free(atomic_exchange(&spare_buffer, memory));
}

static void buffer_shrink(struct buffer *buffer, size_t kept)
{
    CHECK(buffer->size == 0);
    if (buffer->capacity > kept) {
        buffer_done(buffer);
    }
}

/* Appends to the bytes that the owner has left. Consumed bytes in front are
 * dropped once they are the larger part, so that each byte is moved at most
 * once. */
static void input_append(struct stream *stream, struct bytes bytes)
{
    if (stream->input_start >= stream->input.size - stream->input_start) {
        buffer_consume(&stream->input, stream->input_start);
        stream->input_start = 0;
    }
    buffer_put_bytes(&stream->input, bytes);
}

/* Prepares for more input after the owner has processed some. */
static void input_settle(struct stream *stream)
{
    if (stream->input.size == 0) {
        buffer_shrink(&stream->input, stream->limits.idle_max / 4);
    }
    stream_keep_reading(stream);
}

/* The owner gets the bytes in place, unless it has left earlier ones. */
void stream_take_in(struct stream *stream, struct bytes bytes)
{
    if (stream->is_closing || stream->closes_when_flushed) {
        return;
    }
    if (stream_unread_size(stream) > 0) {
        input_append(stream, bytes);
    } else {
        stream->arrived = bytes;
    }
    if (!stream->is_paused) {
        stream_deliver(stream);
    }
    /* The memory of 'arrived' is borrowed until this function returns, so what
     * the owner left is copied. */
    struct bytes left = stream->arrived;
    stream->arrived = (struct bytes){NULL, 0};
    if (!stream->is_closing) {
        if (left.size > 0) {
            input_append(stream, left);
        }
        input_settle(stream);
    }
}

static void stream_deliver(struct stream *stream)
{
    CHECK(!stream->is_delivering);
    stream->is_delivering = true;
    do {
        stream->is_again = false;
        stream->events->on_bytes(stream);
    } while (stream->is_again && !stream->is_closing &&
             !stream->closes_when_flushed && !stream->is_paused &&
             stream_unread_size(stream) > 0);
    stream->is_again = false;
    stream->is_delivering = false;
}

/* Reads while there is room: stops at the limit, resumes at half of it. */
void stream_keep_reading(struct stream *stream)
{
    if (stream->is_closing || !stream->is_open ||
        (stream->is_resting && !stream->closes_when_flushed)) {
        return;
    }
    size_t unread = stream_unread_size(stream);
    size_t max = stream->limits.input_max;
    bool is_full = stream_tls_is_full(stream);
    if (stream->is_reading) {
        if ((unread >= max || is_full) && !stream->closes_when_flushed) {
            uv_read_stop((uv_stream_t *)&stream->tcp);
            stream->is_reading = false;
        }
    } else if ((unread <= max / 2 && !is_full) || stream->closes_when_flushed) {
        /* A stream that closes when it is flushed reads and discards: unread
         * input would make the kernel reset the connection, and the last answer
         * would be lost. */
        int error = uv_read_start((uv_stream_t *)&stream->tcp, alloc_cb,
                                  stream_read_cb);
        stream->is_reading = error == 0;
        if (error != 0) {
            stream_fail(stream, error);
        }
    }
}

/* Handles the result of a read: bytes, nothing, or an error. */
static void stream_take(struct stream *stream, const char *data, ssize_t size)
{
    if (size == -EBADMSG && stream->may_get_rights) {
        stream_close(stream, STREAM_PASSED_RIGHTS);
    } else if (size == UV_EAGAIN) {
        /* No input. */
    } else if (size > 0 && stream->stream_tls != NULL) {
        stream_tls_take(stream, bytes_of(data, (size_t)size));
    } else if (size > 0) {
        stream_take_in(stream, bytes_of(data, (size_t)size));
    } else if (size < 0 && !stream->is_closing) {
        stream_fail(stream, (int)size);
    }
}

static void stream_read_cb(uv_stream_t *tcp, ssize_t size, const uv_buf_t *buf)
{
    struct stream *stream = tcp->data;
    if (size == UV_ENOBUFS && buf->base == NULL) {
        stream_rest(stream); /* may_read() returned false in alloc_cb(). */
        return;
    }
    if (stream->may_get_rights && size == UV_ENOBUFS) {
        size = stream->read_size != 0 ? stream->read_size : UV_EOF;
    }
    stream_take(stream, buf->base, size);
    if (buf->base != NULL) {
        stream_give_back(buf->base);
    }
}

void stream_rest(struct stream *stream)
{
    if (stream->closes_when_flushed || stream->is_closing) {
        return;
    }
    stream->is_resting = true;
    if (stream->is_reading) {
        uv_read_stop((uv_stream_t *)&stream->tcp);
        stream->is_reading = false;
    }
}

void stream_wake(struct stream *stream)
{
    stream->is_resting = false;
    stream_keep_reading(stream);
}

bool stream_read(struct stream *stream)
{
    uv_os_fd_t fd;
    if (!stream->is_resting || stream->is_closing ||
        stream->closes_when_flushed || stream_tls_is_full(stream) ||
        stream_unread_size(stream) >= stream->limits.input_max ||
        uv_fileno((uv_handle_t *)&stream->tcp, &fd) != 0) {
        return false;
    }
    char *memory = stream_borrow();
    ssize_t size = stream->may_get_rights
                       ? rights_read(fd, memory, STREAM_READ_SIZE)
                       : read(fd, memory, STREAM_READ_SIZE);
    if (size < 0 && !stream->may_get_rights) {
        size = errno == EINTR ? UV_EAGAIN : uv_translate_sys_error(errno);
    }
    stream_take(stream, memory, size != 0 ? size : UV_EOF);
    stream_give_back(memory);
    /* A full read means that more can be waiting in the kernel. */
    return size == STREAM_READ_SIZE;
}

struct bytes stream_input(const struct stream *stream)
{
    if (stream->arrived.size > 0) {
        return stream->arrived;
    }
    if (stream->input.size == stream->input_start) {
        return (struct bytes){NULL, 0};
    }
    return bytes_of(stream->input.data + stream->input_start,
                    stream->input.size - stream->input_start);
}

void stream_consume(struct stream *stream, size_t size)
{
    CHECK(size <= stream_unread_size(stream));
    if (stream->arrived.size > 0) {
        stream->arrived = bytes_of(stream->arrived.data + size,
                                   stream->arrived.size - size);
        return;
    }
    stream->input_start += size;
    if (stream->input_start == stream->input.size && !stream->is_closing) {
        stream->input_start = 0;
        buffer_clear(&stream->input);
    }
    /* Inside on_bytes the owner may still use the memory. */
    if (!stream->is_delivering && !stream->is_closing) {
        input_settle(stream);
    }
}

void stream_pause(struct stream *stream)
{
    stream->is_paused = true;
}

void stream_resume(struct stream *stream)
{
    if (!stream->is_paused) {
        return;
    }
    stream->is_paused = false;
    if (stream->is_closing || stream->closes_when_flushed) {
        return;
    }
    if (stream->is_delivering) {
        stream->is_again = true;
    } else if (stream_unread_size(stream) > 0) {
        stream_start_timer(stream, 0);
    }
}

/* --- Output --------------------------------------------------------------- */

struct buffer *stream_output(struct stream *stream)
{
    return &stream->output;
}

size_t stream_unsent(const struct stream *stream)
{
    return stream->output.size + stream->tcp.write_queue_size;
}

static bool has_output(const struct stream *stream)
{
    return stream->stream_tls != NULL ? stream_tls_has_output(stream)
                                      : stream->output.size > 0;
}

void stream_flush(struct stream *stream)
{
    if (stream->is_closing) {
        buffer_clear(&stream->output);
        return;
    }
    if (stream->is_open && !stream->is_writing && has_output(stream)) {
        stream_send_output(stream);
    }
    if (!stream->is_closing &&
        stream_unsent(stream) > stream->limits.output_max) {
        stream_close(stream, "output limit");
    }
}

/* All output has been passed to the kernel. The peer may still be sending:
 * closing at once would make the kernel reset the connection, and the peer
 * could lose the last output. So FIN is sent and the peer's FIN awaited. */
static void output_is_empty(struct stream *stream)
{
    /* Output can remain while the handshake is not complete. */
    if (stream->output.size == 0) {
        buffer_shrink(&stream->output, stream->limits.idle_max / 2);
    }
    buffer_shrink(&stream->in_flight, stream->limits.idle_max / 4);
    if (stream->closes_when_flushed) {
        if (stream->stream_tls != NULL && stream_tls_end(stream)) {
            /* This function is called again after that. */
            stream_send_output(stream);
            return;
        }
        int error = uv_shutdown(&stream->shutdown, (uv_stream_t *)&stream->tcp,
                                shutdown_cb);
        if (error != 0) {
            stream_close(stream, stream->close_reason);
        }
    }
}

void stream_send_output(struct stream *stream)
{
    struct buffer *output = stream->stream_tls != NULL
                                ? stream_tls_output(stream)
                                : &stream->output;
    if (output == NULL) {
        return;
    }
    uv_buf_t buf = uv_buf_init((char *)output->data, (unsigned)output->size);
    int sent = uv_try_write((uv_stream_t *)&stream->tcp, &buf, 1);
    if (sent == UV_EAGAIN) {
        sent = 0;
    }
    if (sent < 0) {
        stream_fail(stream, sent);
        return;
    }
    if ((size_t)sent == output->size) {
        buffer_clear(output);
        buffer_shrink(output, stream->limits.idle_max / 2);
        output_is_empty(stream);
        return;
    }
    /* The buffers change places: libuv needs the bytes in place until
     * write_cb(), while the owner continues to write. */
    struct buffer rest = *output;
    *output = stream->in_flight;
    stream->in_flight = rest;
    buf = uv_buf_init((char *)rest.data + sent,
                      (unsigned)(rest.size - (size_t)sent));
    int error = uv_write(&stream->write, (uv_stream_t *)&stream->tcp, &buf, 1,
                         write_cb);
    if (error != 0) {
        stream_fail(stream, error);
        return;
    }
    stream->is_writing = true;
}

static void write_cb(uv_write_t *request, int status)
{
    struct stream *stream = request->handle->data;
    stream->is_writing = false;
    if (stream->is_closing) {
        return;
    }
    if (status != 0) {
        stream_fail(stream, status);
        return;
    }
    buffer_clear(&stream->in_flight);
    if (has_output(stream)) {
        stream_send_output(stream);
    } else {
        output_is_empty(stream);
    }
    /* The calls above can have closed the stream, or begun another write. */
    if (stream->events->on_drained != NULL && !stream->is_closing &&
        !stream->is_writing) {
        stream->events->on_drained(stream);
    }
}

static void shutdown_cb(uv_shutdown_t *request, int status)
{
    struct stream *stream = request->handle->data;
    if (status != 0) {
        stream_close_in_slot(stream, stream->close_reason);
    }
}

/* --- Time and end --------------------------------------------------------- */

void stream_start_timer(struct stream *stream, uint64_t after_ms)
{
    CHECK(uv_timer_start(&stream->timer, stream_timer_cb, after_ms, 0) == 0);
}

/* True if closing the descriptor does not block on passed descriptors: none is
 * queued, or a thread has the last reference to the socket. */
static bool rights_are_gone(struct stream *stream)
{
    uv_os_fd_t fd;
    struct stream_pace *pace = stream->limits.pace;
    if (uv_fileno((uv_handle_t *)&stream->tcp, &fd) != 0 || rights_drain(fd)) {
        return true;
    }
    int other = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (other >= 0 && rights_close_apart(other, pace != NULL && pace->is_off)) {
        return true;
    }
    if (other >= 0) {
        close(other);
    }
    return false;
}

static void close_handles(struct stream *stream)
{
    CHECK(stream->is_closing);
    list_remove(&stream->in_pace);
    if (stream->may_get_rights && !rights_are_gone(stream)) {
        uv_read_stop((uv_stream_t *)&stream->tcp);
        stream_start_timer(stream, APART_RETRY_MS);
        return;
    }
    if (stream->limits.pace != NULL) {
        stream->limits.pace->gone_count++;
    }
    uv_close((uv_handle_t *)&stream->timer, handle_closed_cb);
    /* After a failed attempt to connect, the socket is already closing. */
    if (!uv_is_closing((uv_handle_t *)&stream->tcp)) {
        uv_close((uv_handle_t *)&stream->tcp, handle_closed_cb);
    }
}

void stream_pace_init(struct stream_pace *pace)
{
    *pace = (struct stream_pace){.count = 0};
    list_init(&pace->waiting);
}

uint64_t stream_pace_ms(struct stream_pace *pace, uint64_t now_ms)
{
    if (pace->is_off) {
        return 0;
    }
    if (now_ms >= pace->slot_ms + STREAM_SLOT_MS) {
        pace->slot_ms = now_ms;
        pace->count = 0;
    }
    if (pace->count == STREAM_SLOT_COUNT) {
        pace->slot_ms += STREAM_SLOT_MS;
        pace->count = 0;
    }
    pace->count++;
    return pace->slot_ms > now_ms ? pace->slot_ms - now_ms : 0;
}

bool stream_pace_hurry(struct stream_pace *pace)
{
    struct stream *stream = LIST_FIRST(&pace->waiting, struct stream, in_pace);
    if (stream != NULL) {
        close_handles(stream);
    }
    return stream != NULL;
}

/* Marks the stream as closing for its owner, and closes it after 'after_ms'. */
static void close_after(struct stream *stream, const char *reason,
                        uint64_t after_ms)
{
    CHECK(!stream->is_closing && list_is_empty(&stream->in_pace));
    stream->is_closing = true;
    stream->close_reason = reason;
    target_drop(stream);
    if (after_ms == 0) {
        close_handles(stream);
        return;
    }
    uv_read_stop((uv_stream_t *)&stream->tcp);
    stream_start_timer(stream, after_ms);
    list_push_back(&stream->limits.pace->waiting, &stream->in_pace);
    if (stream->events->on_ended != NULL) {
        stream->events->on_ended(stream);
    }
}

static void stream_timer_cb(uv_timer_t *timer)
{
    struct stream *stream = timer->data;
    /* One timer serves all states of a stream, each of which has one deadline
     * at most. */
    if (stream->is_closing) {
        close_handles(stream);
    } else if (stream->closes_when_flushed) {
        stream_close_in_slot(stream, stream->close_reason);
    } else if (!stream->is_open && stream->target->is_resolving) {
        lookup_failed(stream, UV_EAI_AGAIN);
    } else if (!stream->is_open) {
        attempt_failed(stream, UV_ETIMEDOUT);
    } else if (stream_tls_is_unready(stream)) {
        stream_tls_is_late(stream);
    } else if (!stream->is_paused && stream_unread_size(stream) > 0) {
        stream_deliver(stream);
        if (!stream->is_closing) {
            input_settle(stream);
        }
    }
}

void stream_close_flushed(struct stream *stream, const char *reason)
{
    if (stream->is_closing || stream->closes_when_flushed) {
        return;
    }
    if (!stream->is_open) {
        stream_close(stream, reason);
        return;
    }
    stream->closes_when_flushed = true;
    stream->close_reason = reason;
    stream_start_timer(stream, STREAM_LAST_FLUSH_MS);
    /* Continue to read, to see the peer close; the bytes are dropped. */
    stream_keep_reading(stream);
    if (stream->is_closing || stream->is_writing) {
        return;
    }
    if (has_output(stream)) {
        stream_send_output(stream);
    } else {
        output_is_empty(stream);
    }
}

void stream_close(struct stream *stream, const char *reason)
{
    if (!stream->is_closing) {
        close_after(stream, reason, 0);
    } else if (!list_is_empty(&stream->in_pace)) {
        close_handles(stream);
    }
}

void stream_close_in_slot(struct stream *stream, const char *reason)
{
    struct stream_pace *pace = stream->limits.pace;
    if (!stream->is_closing) {
        bool is_paced = pace != NULL && stream->is_open;
        uint64_t now_ms = uv_now(stream->tcp.loop);
        close_after(stream, reason,
                    is_paced ? stream_pace_ms(pace, now_ms) : 0);
    }
}

static void handle_closed_cb(uv_handle_t *handle)
{
    struct stream *stream = handle->data;
    if (!stream->is_closing) {
        uv_loop_t *loop = stream->tcp.loop;
        CHECK(uv_tcp_init(loop, &stream->tcp) == 0);
        stream->tcp.data = stream;
        try_address(stream);
        return;
    }
    CHECK(stream->handle_count > 0);
    stream->handle_count--;
    if (stream->handle_count > 0) {
        return;
    }
    buffer_done(&stream->input);
    buffer_done(&stream->output);
    buffer_done(&stream->in_flight);
    stream->input_start = 0;
    stream->is_open = false;
    if (stream->limits.pace != NULL) {
        CHECK(stream->limits.pace->gone_count > 0);
        stream->limits.pace->gone_count--;
    }
    struct stream_tls *stream_tls = stream->stream_tls;
    stream->events->on_closed(stream, stream->close_reason);
    stream_tls_free(stream_tls); /* Last: the reason can be in this memory. */
}

static const char *reason_of(int uv_error)
{
    switch (uv_error) {
    case UV_EOF:
        return "closed by the peer";
    case UV_ECONNRESET:
    case UV_EPIPE:
    case UV_ECONNABORTED:
        return "reset by the peer";
    case UV_ECONNREFUSED:
        return "connection refused";
    case UV_ETIMEDOUT:
        return "timed out";
    case UV_EHOSTUNREACH:
    case UV_ENETUNREACH:
        return "unreachable";
    case UV_EAI_NONAME:
    case UV_EAI_NODATA:
    case UV_EAI_FAIL:
        return "unknown host name";
    case UV_EAI_AGAIN:
        return "host name not resolved: no answer from the name server";
    case UV_EMFILE:
    case UV_ENFILE:
        return "too many open files";
    default:
        return "network error";
    }
}

void stream_fail(struct stream *stream, int uv_error)
{
    if (stream->closes_when_flushed) {
        stream_close_in_slot(stream, stream->close_reason);
        return;
    }
    const char *reason = reason_of(uv_error);
    stream->was_closed_by_peer = uv_error == UV_EOF ||
                                 uv_error == UV_ECONNRESET ||
                                 uv_error == UV_EPIPE ||
                                 uv_error == UV_ECONNABORTED;
    if (stream->was_closed_by_peer && stream_tls_is_dialling(stream)) {
        stream->has_failed_tls = true;
        reason = "it closed the connection during the TLS handshake: it does "
                 "not use TLS, or its log says why";
    }
    stream_close_in_slot(stream, reason);
}
