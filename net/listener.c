/* SPDX-License-Identifier: MIT */

/* Accepting connections. This file accepts on a polled socket instead of libuv,
 * because the owner must see the address before it provides memory for a
 * stream, and because libuv handles EMFILE by accepting and closing all waiting
 * connections. */

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/check.h"
#include "base/log.h"
#include "base/memory.h"
#include "net/admin_socket.h"
#include "net/rights.h"
#include "net/stream_tls.h"

#define BACKLOG 1024
/* Bounds the time that a flood of new connections takes from existing ones. */
#define ACCEPTS_PER_TURN 64
#define STARVED_PAUSE_MS 100
#define STARVED_LOG_EVERY_MS 60000

struct listener {
    uv_poll_t poll;
    uv_check_t check; /* Runs while connections wait. */
    uv_timer_t timer; /* Runs while accepting is paused. */
    listener_accept_fn *accept;
    void *data;
    struct gate gate;
    const char *name; /* Used as the address of connections; or NULL. */
    void (*closed)(void *data);
    void *closed_data;
    uint64_t starved_logged_ms;
    int fd;
    int handle_count;
    uint16_t port;
    bool is_loopback;
    bool is_closing;
    /* A UNIX socket, and the kernel cannot refuse descriptors. */
    bool may_get_rights;
};

static void listener_poll_cb(uv_poll_t *poll, int status, int events);
static void listener_check_cb(uv_check_t *check);
static void listener_timer_cb(uv_timer_t *timer);
static void listener_handle_closed_cb(uv_handle_t *handle);

/* Listens at an address; returns a socket, or -errno. */
static int bind_at(const struct sockaddr *address, socklen_t size)
{
    int on = 1, off = 0;
    int fd = socket(address->sa_family,
                    SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return -errno;
    }
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (address->sa_family == AF_INET6) {
        /* "::" includes IPv4, regardless of net.ipv6.bindv6only. */
        (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    }
    if (bind(fd, address, size) != 0 || listen(fd, BACKLOG) != 0) {
        int error = -errno;
        close(fd);
        return error;
    }
    return fd;
}

/* Binds the first address of the list that can be bound; returns a socket, or
 * -errno. */
static int bind_first(const struct addrinfo *list)
{
    int fd = -EADDRNOTAVAIL;
    for (const struct addrinfo *a = list; a != NULL && fd < 0; a = a->ai_next) {
        fd = bind_at(a->ai_addr, a->ai_addrlen);
    }
    return fd;
}

uint16_t listener_port_of(int fd)
{
    struct sockaddr_storage address = {0};
    socklen_t size = sizeof address;
    CHECK(getsockname(fd, (struct sockaddr *)&address, &size) == 0);
    return address.ss_family == AF_INET6
               ? ntohs(((struct sockaddr_in6 *)&address)->sin6_port)
               : ntohs(((struct sockaddr_in *)&address)->sin_port);
}

bool listener_is_loopback_of(int fd)
{
    struct sockaddr_storage address = {0};
    socklen_t size = sizeof address;
    const struct in6_addr *v6 = &((struct sockaddr_in6 *)&address)->sin6_addr;
    CHECK(getsockname(fd, (struct sockaddr *)&address, &size) == 0);
    switch (address.ss_family) {
    case AF_UNIX:
        return true;
    case AF_INET:
        return ntohl(((struct sockaddr_in *)&address)->sin_addr.s_addr) >> 24 ==
               127;
    default:
        return IN6_IS_ADDR_LOOPBACK(v6) ||
               (IN6_IS_ADDR_V4MAPPED(v6) && v6->s6_addr[12] == 127);
    }
}

/* Binds all addresses of this machine; only those of IPv4 if the kernel has no
 * IPv6. */
static int bind_all(uint16_t port)
{
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6,
                              .sin6_port = htons(port)};
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(port)};
    int fd = bind_at((struct sockaddr *)&v6, sizeof v6);
    if (fd == -EAFNOSUPPORT || fd == -EADDRNOTAVAIL) {
        fd = bind_at((struct sockaddr *)&v4, sizeof v4);
    }
    return fd;
}

static int bind_named(const char *host, uint16_t port, int *ret_fd,
                      char why[HASP_WHY_SIZE])
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC,
                             .ai_socktype = SOCK_STREAM,
                             .ai_flags = AI_PASSIVE};
    struct addrinfo *list = NULL;
    char service[8];
    snprintf(service, sizeof service, "%u", (unsigned)port);
    int error = getaddrinfo(host, service, &hints, &list);
    if (error != 0) {
        snprintf(why, HASP_WHY_SIZE,
                 "cannot listen on '%s': %s; use an address of this machine",
                 host, gai_strerror(error));
        return HASP_EINVALID;
    }
    *ret_fd = bind_first(list);
    freeaddrinfo(list);
    return 0;
}

int listener_bind(const char *host, uint16_t port, int *ret_fd,
                  char why[HASP_WHY_SIZE])
{
    int fd;
    if (strcmp(host, "*") == 0) {
        fd = bind_all(port);
    } else if (bind_named(host, port, &fd, why) != 0) {
        return HASP_EINVALID;
    }
    if (fd < 0) {
        snprintf(why, HASP_WHY_SIZE, "cannot listen on '%s' port %u: %s", host,
                 (unsigned)port, strerror(-fd));
        return fd == -EADDRINUSE ? HASP_EBUSY : HASP_ECONNECT;
    }
    *ret_fd = fd;
    return 0;
}

int listener_open(uv_loop_t *loop, const char *host, uint16_t port,
                  listener_accept_fn *accept, listener_ready_fn *ready,
                  void *data, struct listener **ret_listener,
                  char why[HASP_WHY_SIZE])
{
    int fd;
    int error = listener_bind(host, port, &fd, why);
    if (error == 0) {
        *ret_listener = listener_adopt(loop, fd, NULL, accept, ready, data);
        (*ret_listener)->port = listener_port_of(fd);
        (*ret_listener)->is_loopback = listener_is_loopback_of(fd);
    }
    return error;
}

struct listener *listener_adopt(uv_loop_t *loop, int fd, const char *name,
                                listener_accept_fn *accept,
                                listener_ready_fn *ready, void *data)
{
    struct listener *listener = memory_new(sizeof *listener);
    listener->name = name;
    listener->accept = accept;
    listener->data = data;
    listener->gate.ready = ready;
    listener->gate.data = data;
    listener->fd = fd;
    listener->may_get_rights = name != NULL && !rights_refuse(fd);
    CHECK(uv_poll_init(loop, &listener->poll, fd) == 0);
    CHECK(uv_check_init(loop, &listener->check) == 0);
    CHECK(uv_timer_init(loop, &listener->timer) == 0);
    gate_open(&listener->gate, loop);
    /* The listener is freed when as many handles have been closed. */
    listener->handle_count = 3 + GATE_HANDLES;
    listener->check.data = listener;
    listener->gate.check.data = listener;
    listener->gate.idle.data = listener;
    listener->poll.data = listener;
    listener->timer.data = listener;
    CHECK(uv_poll_start(&listener->poll, UV_READABLE, listener_poll_cb) == 0);
    return listener;
}

void listener_use_tls(struct listener *listener, enum tls_mode mode,
                      struct tls_context *context, const char *refusal)
{
    gate_use(&listener->gate, mode, context, refusal);
}

bool listener_is_loopback(const struct listener *listener)
{
    return listener->is_loopback;
}

uint16_t listener_port(const struct listener *listener)
{
    return listener->port;
}

void listener_close_then(struct listener *listener, void (*closed)(void *data),
                         void *data)
{
    CHECK(!listener->is_closing);
    listener->is_closing = true;
    listener->closed = closed;
    listener->closed_data = data;
    uv_close((uv_handle_t *)&listener->poll, listener_handle_closed_cb);
    uv_close((uv_handle_t *)&listener->check, listener_handle_closed_cb);
    uv_close((uv_handle_t *)&listener->timer, listener_handle_closed_cb);
    gate_close(&listener->gate, listener_handle_closed_cb);
    close(listener->fd); /* uv_close() has removed it from the poll. */
    listener->fd = -1;
}

void listener_close(struct listener *listener)
{
    listener_close_then(listener, NULL, NULL);
}

static void listener_handle_closed_cb(uv_handle_t *handle)
{
    struct listener *listener = handle->data;
    if (--listener->handle_count > 0) {
        return;
    }
    void (*closed)(void *data) = listener->closed;
    void *data = listener->closed_data;
    free(listener);
    if (closed != NULL) {
        closed(data);
    }
}

/* Sends 'refusal' if the socket accepts it at once, and closes. Input is read
 * first: unread bytes would make the close a reset, and the client could lose
 * the refusal. */
static void listener_refuse(const struct listener *listener, int fd,
                            const char *refusal)
{
    char unread[4096];
    if (refusal != NULL) {
        (void)!send(fd, refusal, strlen(refusal), MSG_NOSIGNAL | MSG_DONTWAIT);
    }
    if (listener->may_get_rights) {
        /* Their number is bounded, since listener_check_cb() pauses while many
         * are closing. */
        if (!rights_drain(fd) && rights_close_apart(fd, true)) {
            return;
        }
    } else if (refusal != NULL) {
        (void)shutdown(fd, SHUT_WR);
        (void)!recv(fd, unread, sizeof unread, MSG_DONTWAIT);
    }
    close(fd);
}

static bool is_door(const struct listener *listener)
{
    return listener->name != NULL &&
           strcmp(listener->name, ADMIN_SOCKET_ADDRESS) == 0;
}

static void take_connection(struct listener *listener, int fd,
                            const struct sockaddr *from)
{
    char address[STREAM_ADDRESS_SIZE];
    const struct stream_events *events = NULL;
    const struct stream_limits *limits = NULL;
    const char *refusal = NULL;
    void *owner = NULL;
    if (listener->may_get_rights) {
        rights_expect(fd);
    }
    /* Before the connection is counted, so that other users cannot use up the
     * connections of the admin socket. */
    if (is_door(listener) && !admin_socket_lets_in(fd)) {
        listener_refuse(
            listener, fd,
            "-NOPERM only root and the user that runs the node may use the "
            "admin socket\r\n");
        return;
    }
    if (listener->name != NULL) {
        snprintf(address, sizeof address, "%s", listener->name);
    } else {
        address_format(from, address);
    }
    struct stream *stream = listener->accept(listener->data, address, &events,
                                             &limits, &owner, &refusal);
    if (stream == NULL) {
        listener_refuse(listener, fd, refusal);
        return;
    }
    CHECK(events != NULL);
    stream_adopt(stream, listener->poll.loop, fd, events, limits, owner);
    memcpy(stream->address, address, sizeof stream->address);
    stream->may_get_rights = listener->may_get_rights;
    gate_take(&listener->gate, stream);
}

/* Pauses accepting; meanwhile the kernel keeps the connections. */
static void pause_accepting(struct listener *listener)
{
    uv_poll_stop(&listener->poll);
    CHECK(uv_timer_start(&listener->timer, listener_timer_cb, STARVED_PAUSE_MS,
                         0) == 0);
}

/* Pauses because there is no descriptor or no memory. */
static void listener_pause_starved(struct listener *listener, int error)
{
    uint64_t now_ms = uv_now(listener->poll.loop);
    if (listener->starved_logged_ms == 0 ||
        now_ms - listener->starved_logged_ms >= STARVED_LOG_EVERY_MS) {
        LOG_ERROR("accepting is paused",
                  "port=%u error=%s hint=\"raise the limit of open files\"",
                  (unsigned)listener->port, log_quote(strerror(error)));
        listener->starved_logged_ms = now_ms > 0 ? now_ms : 1;
    }
    pause_accepting(listener);
}

static void listener_timer_cb(uv_timer_t *timer)
{
    struct listener *listener = timer->data;
    if (!listener->is_closing) {
        CHECK(uv_poll_start(&listener->poll, UV_READABLE, listener_poll_cb) ==
              0);
    }
}

static bool is_starvation(int error)
{
    return error == EMFILE || error == ENFILE || error == ENOBUFS ||
           error == ENOMEM;
}

/* Defers accepting until all polled input has been read: connections that were
 * closed by it then no longer occupy places of new ones. */
static void listener_poll_cb(uv_poll_t *poll, int status, int events)
{
    struct listener *listener = poll->data;
    (void)status;
    (void)events;
    CHECK(uv_check_start(&listener->check, listener_check_cb) == 0);
}

static void listener_check_cb(uv_check_t *check)
{
    struct listener *listener = check->data;
    uv_check_stop(check);
    for (int i = 0; i < ACCEPTS_PER_TURN && !listener->is_closing; i++) {
        struct sockaddr_storage from = {0};
        socklen_t size = sizeof from;
        /* The admin socket is exempt: its users could stop the node anyway. */
        if (listener->may_get_rights && !is_door(listener) &&
            rights_are_busy()) {
            pause_accepting(listener);
            return;
        }
        int fd = accept4(listener->fd, (struct sockaddr *)&from, &size,
                         SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0) {
            take_connection(listener, fd, (struct sockaddr *)&from);
        } else if (is_starvation(errno)) {
            listener_pause_starved(listener, errno);
            return;
        } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
            return;
        }
        /* Other errors belong to a connection that failed before it was
         * accepted. */
    }
}
