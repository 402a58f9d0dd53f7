/* SPDX-License-Identifier: MIT */

#include "net/http_tls_bridge.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/account.h"
#include "base/check.h"
#include "base/list.h"
#include "base/memory.h"
#include "net/stream.h"

#define SPEAKS_PLAIN                                                      \
    "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nConnection:" \
    " close\r\n\r\nthis port requires HTTPS: use https://\n"

static const struct stream_limits limits = {
    .input_max = HTTP_TLS_BRIDGE_UNSENT_MAX,
    .output_max = 1 << 20,
    .idle_max = 4 << 10};

/* A client's connection and its other half. */
struct bridge {
    struct stream outer; /* The stream to the client. */
    struct stream inner; /* The stream to the library. */
    struct http_tls_bridge *front;
    struct list in_front;
    char origin[STREAM_ADDRESS_SIZE];
    int fd;                /* The library's end; -1 if there is none yet. */
    uint32_t stream_count; /* Streams that are not closed. */
};

struct http_tls_bridge {
    uv_loop_t *loop;
    struct http_tls_bridge_events events;
    struct listener *listener;
    struct list
        waiting;        /* Bridges, the oldest first: in their handshakes ... */
    struct list joined; /* ... and those that the library has. */
    uint32_t connections;
    uint32_t per_origin;
    uint32_t part_count; /* Parts that must close before the memory is freed. */
    void (*closed)(void *data);
    void *closed_data;
};

static void http_tls_bridge_part_closed(struct http_tls_bridge *front)
{
    CHECK(front->part_count > 0);
    if (--front->part_count > 0) {
        return;
    }
    void (*closed)(void *data) = front->closed;
    void *data = front->closed_data;
    free(front);
    closed(data);
}

/* --- Forwarding ----------------------------------------------------------- */

/* Reads one more byte at most: a stream that kept reading would notice its end
 * and close, and its unread bytes would be lost. */
static void hold_back(struct stream *from)
{
    from->limits.input_max = 1;
    stream_pause(from);
}

static void go_on(struct stream *from)
{
    from->limits.input_max = HTTP_TLS_BRIDGE_UNSENT_MAX;
    stream_resume(from);
}

static void hand_on(struct stream *from, struct stream *to)
{
    struct bytes bytes = stream_input(from);
    buffer_put_bytes(stream_output(to), bytes);
    stream_consume(from, bytes.size);
    stream_flush(to);
    if (stream_unsent(to) > HTTP_TLS_BRIDGE_UNSENT_MAX) {
        hold_back(from);
    }
}

static void on_outer_bytes(struct stream *outer)
{
    struct bridge *bridge = outer->owner;
    /* The library's end exists before the first bytes arrive. */
    CHECK(bridge->fd >= 0);
    hand_on(outer, &bridge->inner);
}

static void on_inner_bytes(struct stream *inner)
{
    struct bridge *bridge = inner->owner;
    hand_on(inner, &bridge->outer);
}

static void on_outer_drained(struct stream *outer)
{
    struct bridge *bridge = outer->owner;
    if (bridge->fd >= 0) {
        go_on(&bridge->inner);
    }
}

static void on_inner_drained(struct stream *inner)
{
    struct bridge *bridge = inner->owner;
    go_on(&bridge->outer);
}

static void stream_gone(struct bridge *bridge)
{
    struct http_tls_bridge *front = bridge->front;
    CHECK(bridge->stream_count > 0);
    if (--bridge->stream_count == 0) {
        list_remove(&bridge->in_front);
        free(bridge);
        http_tls_bridge_part_closed(front);
    }
}

static void on_outer_closed(struct stream *outer, const char *reason)
{
    struct bridge *bridge = outer->owner;
    const struct http_tls_bridge_events *events = &bridge->front->events;
    if (outer->has_failed_tls) {
        events->failed(events->data, outer->address, reason);
    }
    if (bridge->stream_count == 2) {
        stream_close(&bridge->inner, "the client has disconnected");
    }
    stream_gone(bridge);
}

static void on_inner_closed(struct stream *inner, const char *reason)
{
    struct bridge *bridge = inner->owner;
    (void)reason;
    if (bridge->stream_count == 2) {
        stream_close_flushed(&bridge->outer, "answered");
    }
    stream_gone(bridge);
}

static void on_outer_handshake(struct stream *outer, bool is_over)
{
    const struct bridge *bridge = outer->owner;
    struct account *account = bridge->front->events.account;
    if (account != NULL && is_over) {
        account_charge_key(account, account_key_of_origin(bridge->origin));
    } else if (account != NULL) {
        account_start(account);
    }
}

static const struct stream_events outer_events = {
    .on_bytes = on_outer_bytes,
    .on_closed = on_outer_closed,
    .on_drained = on_outer_drained,
    .on_handshake = on_outer_handshake};
static const struct stream_events inner_events = {
    .on_bytes = on_inner_bytes,
    .on_closed = on_inner_closed,
    .on_drained = on_inner_drained};

/* --- Accepting ------------------------------------------------------------ */

static void http_tls_bridge_make_room(struct http_tls_bridge *front,
                                      const char *origin, uint32_t max)
{
    uint32_t count = 0;
    struct bridge *oldest = NULL;
    LIST_FOR (struct bridge, bridge, &front->waiting, in_front) {
        if (!bridge->outer.is_closing &&
            (origin == NULL || strcmp(bridge->origin, origin) == 0)) {
            count++;
            oldest = oldest == NULL ? bridge : oldest;
        }
    }
    if (count >= max) {
        stream_close(&oldest->outer, "made room for others");
    }
}

static struct stream *
http_tls_bridge_on_accept(void *data, const char *address,
                          const struct stream_events **ret_events,
                          const struct stream_limits **ret_limits,
                          void **ret_owner, const char **ret_refusal)
{
    struct http_tls_bridge *front = data;
    struct bridge *bridge = memory_new(sizeof *bridge);
    (void)ret_refusal;
    address_origin(address, bridge->origin);
    /* The oldest one that waits is closed, so that connections without a
     * handshake cannot exclude others. */
    http_tls_bridge_make_room(front, bridge->origin, front->per_origin);
    http_tls_bridge_make_room(front, NULL, front->connections);
    front->events.make_room(front->events.data, bridge->origin);
    bridge->front = front;
    bridge->fd = -1;
    bridge->stream_count = 1;
    list_push_back(&front->waiting, &bridge->in_front);
    front->part_count++;
    *ret_events = &outer_events;
    *ret_limits = &limits;
    *ret_owner = bridge;
    return &bridge->outer;
}

static void http_tls_bridge_on_ready(void *data, struct stream *outer)
{
    struct http_tls_bridge *front = data;
    struct bridge *bridge = outer->owner;
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0,
                   pair) != 0) {
        stream_close(outer, "no free descriptor");
        return;
    }
    stream_adopt(&bridge->inner, front->loop, pair[0], &inner_events, &limits,
                 bridge);
    bridge->stream_count = 2;
    bridge->fd = pair[1];
    list_remove(&bridge->in_front);
    list_push_back(&front->joined, &bridge->in_front);
    front->events.joined(front->events.data, pair[1]);
}

struct http_tls_bridge *
http_tls_bridge_open(uv_loop_t *loop, int fd, uint32_t connections,
                     uint32_t per_origin, struct tls_context *context,
                     const struct http_tls_bridge_events *events)
{
    struct http_tls_bridge *front = memory_new(sizeof *front);
    *front = (struct http_tls_bridge){.loop = loop,
                                      .events = *events,
                                      .connections = connections,
                                      .per_origin = per_origin,
                                      .part_count = 1};
    list_init(&front->waiting);
    list_init(&front->joined);
    front->listener = listener_adopt(loop, fd, NULL, http_tls_bridge_on_accept,
                                     http_tls_bridge_on_ready, front);
    http_tls_bridge_use_tls(front, context);
    return front;
}

void http_tls_bridge_use_tls(struct http_tls_bridge *front,
                             struct tls_context *context)
{
    listener_use_tls(front->listener, TLS_REQUIRE, context, SPEAKS_PLAIN);
}

/* --- Lookups -------------------------------------------------------------- */

/* Finds the newest bridge with the descriptor: the library may have closed that
 * of an older one without this file having noticed yet. */
static const struct bridge *
http_tls_bridge_find(const struct http_tls_bridge *front, int fd)
{
    const struct bridge *found = NULL;
    LIST_FOR (const struct bridge, bridge, &front->joined, in_front) {
        if (bridge->fd == fd) {
            found = bridge;
        }
    }
    return found;
}

const char *http_tls_bridge_address(const struct http_tls_bridge *front, int fd)
{
    const struct bridge *bridge = http_tls_bridge_find(front, fd);
    return bridge != NULL ? bridge->outer.address : "";
}

const struct tls_identity *
http_tls_bridge_identity(const struct http_tls_bridge *front, int fd)
{
    const struct bridge *bridge = http_tls_bridge_find(front, fd);
    return bridge != NULL ? stream_identity(&bridge->outer) : NULL;
}

/* --- The end -------------------------------------------------------------- */

static void listener_closed(void *data)
{
    http_tls_bridge_part_closed(data);
}

static void close_all(struct list *bridges)
{
    LIST_FOR (struct bridge, bridge, bridges, in_front) {
        stream_close(&bridge->outer, "the port closes");
    }
}

void http_tls_bridge_close(struct http_tls_bridge *front,
                           void (*closed)(void *data), void *data)
{
    front->closed = closed;
    front->closed_data = data;
    close_all(&front->waiting);
    close_all(&front->joined);
    listener_close_then(front->listener, listener_closed, front);
}
