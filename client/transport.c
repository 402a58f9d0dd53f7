/* SPDX-License-Identifier: MIT */

/* A socket for an asker. */

#include "client/transport.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "client/clock.h"
#include "client/shown.h"

#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS 83
#endif
#define READ_SIZE ((size_t)64 << 10)
#define READ_ALL_MAX ((size_t)64 << 20)

void transport_init(struct transport *transport, struct asker *asker,
                    struct shown *shown)
{
    *transport = (struct transport){
        .fd = -1, .shown = shown != NULL ? shown_ref(shown) : NULL};
    asker->may_renew = shown != NULL && shown_has_files(shown);
}

static void freeaddrinfo_if(struct addrinfo *addresses)
{
    if (addresses != NULL) {
        freeaddrinfo(addresses);
    }
}

static void shut(struct transport *transport)
{
    if (transport->fd >= 0) {
        close(transport->fd);
    }
    tls_free(transport->tls);
    transport->tls = NULL;
    freeaddrinfo_if(transport->addresses);
    transport->addresses = transport->next = NULL;
    transport->fd = -1;
    transport->is_connecting = false;
}

void transport_done(struct transport *transport)
{
    shut(transport);
    tls_context_unref(transport->context);
    shown_unref(transport->shown);
    buffer_done(&transport->in);
    buffer_done(&transport->plain);
}

/* --- TLS ------------------------------------------------------------------ */

static bool is_shaking(const struct transport *transport)
{
    return transport->tls != NULL && !tls_is_up(transport->tls);
}

/* Sends as much as the socket takes. */
static void send_some(struct transport *transport, struct buffer *out)
{
    while (out->size > 0) {
        ssize_t count = send(transport->fd, out->data, out->size, MSG_NOSIGNAL);
        if (count < 0 && errno == EINTR) {
            continue;
        }
        if (count < 0) {
            return; /* Reading shows the error. */
        }
        buffer_consume(out, (size_t)count);
    }
}

/* Fails with an error of TLS, whose last words the other side should have. */
static void fail_tls(struct transport *transport, struct asker *asker,
                     int error)
{
    if (error == HASP_ECLOSED) {
        asker_failed(asker, "closed the connection", client_clock_read());
        return;
    }
    send_some(transport, tls_output(transport->tls));
    asker_distrusted(asker, tls_why(transport->tls), client_clock_read());
}

/* Goes on with the handshake, until it is complete. */
static void shake(struct transport *transport, struct asker *asker)
{
    int error = tls_handshake(transport->tls);
    send_some(transport, tls_output(transport->tls));
    if (error == 0) {
        asker_connected(asker);
    } else if (error != HASP_EMORE) {
        fail_tls(transport, asker, error);
    }
}

/* Begins to use a socket that is connected. */
static void begin(struct transport *transport, struct asker *asker)
{
    if (transport->context == NULL) {
        asker_connected(asker);
        return;
    }
    transport->tls = tls_new(transport->context, false, 0);
    shake(transport, asker);
}

/* Deciphers what has come into 'plain'; 0, or an error of TLS. */
static int decipher(struct transport *transport, struct asker *asker)
{
    uint32_t number = asker->number;
    struct buffer *plain = &transport->plain;
    size_t size;
    buffer_clear(plain);
    int error = tls_feed(transport->tls, buffer_bytes(&transport->in));
    if (error == 0 && is_shaking(transport)) {
        shake(transport, asker);
    }
    if (asker->number != number || is_shaking(transport)) {
        return 0; /* The asker has been told. */
    }
    while (error == 0) {
        uint8_t *at = buffer_reserve(plain, READ_SIZE);
        error = tls_read(transport->tls, at, READ_SIZE, &size);
        plain->size += error == 0 ? size : 0;
    }
    return error == HASP_EMORE ? 0 : error;
}

/* --- The socket ----------------------------------------------------------- */

/* Sends without delay, and probes the peer: one whose machine has gone does not
 * answer, and a request would wait for ever. */
static void watch_peer(int fd)
{
    int on = 1, idle_s = 5, interval_s = 2, count = 3, unacked_ms = 10000;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval_s, sizeof interval_s);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof count);
    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &unacked_ms,
               sizeof unacked_ms);
}

/* Tries the next address; 'code' is how the last one failed. */
static void connect_next(struct transport *transport, struct asker *asker,
                         int code)
{
    while (transport->next != NULL) {
        const struct addrinfo *to = transport->next;
        transport->next = to->ai_next;
        transport->is_connecting = false;
        if (transport->fd >= 0) {
            close(transport->fd);
        }
        transport->fd = socket(to->ai_family,
                               SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        if (transport->fd < 0) {
            code = errno;
            continue;
        }
        watch_peer(transport->fd);
        if (connect(transport->fd, to->ai_addr, to->ai_addrlen) == 0) {
            begin(transport, asker);
            return;
        }
        code = errno;
        transport->is_connecting = code == EINPROGRESS;
        if (transport->is_connecting) {
            return;
        }
    }
    asker_failed(asker, strerror(code), client_clock_read());
}

void transport_renew(struct transport *transport, struct asker *asker,
                     pthread_mutex_t *mutex)
{
    char secret[CLIENT_USER_SECRET_SIZE], why[HASP_WHY_SIZE];
    if (transport->shown == NULL || asker->state != ASKER_OPENING) {
        return;
    }
    if (mutex != NULL) {
        pthread_mutex_unlock(mutex);
    }
    bool has_changed = shown_renew(transport->shown, why);
    struct tls_context *context = shown_context(transport->shown);
    shown_secret(transport->shown, secret);
    if (mutex != NULL) {
        pthread_mutex_lock(mutex);
    }
    tls_context_unref(transport->context);
    transport->context = context;
    transport->was_let_in = shown_was_let_in(transport->shown);
    asker->was_let_in |= transport->was_let_in;
    asker_show(asker, secret);
    explicit_bzero(secret, sizeof secret);
    asker_renewed(asker, has_changed, why, client_clock_read());
}

/* A node has done what was asked: that is known to all who show the same. */
static void tell_let_in(struct transport *transport, const struct asker *asker)
{
    if (transport->shown != NULL && asker->was_let_in &&
        !transport->was_let_in) {
        transport->was_let_in = true;
        shown_let_in(transport->shown);
    }
}

bool transport_is_late(struct transport *transport, const struct asker *asker)
{
    return transport->number != asker->number;
}

/* Connects to a socket of this machine, without TLS, at once or not at all. */
static int connect_socket(struct transport *transport,
                          const struct sockaddr_un *to)
{
    int off = 0;
    transport->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC,
                           0);
    /* A descriptor from the other end could hold up whoever reads. Kernels
     * before 6.16 have no such option. */
    (void)setsockopt(transport->fd, SOL_SOCKET, SO_PASSRIGHTS, &off,
                     sizeof off);
    return transport->fd >= 0 &&
                   connect(transport->fd, (const struct sockaddr *)to,
                           sizeof *to) == 0
               ? 0
               : errno;
}

/* The folder's path may be longer than what fits into an address, so it is
 * named by a descriptor. */
static int connect_door(struct transport *transport, const char *folder)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    int directory = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (directory < 0) {
        return errno;
    }
    snprintf(to.sun_path, sizeof to.sun_path, "/proc/self/fd/%d/admin.sock",
             directory);
    int code = connect_socket(transport, &to);
    close(directory);
    return code;
}

static int connect_path(struct transport *transport, const char *path)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    snprintf(to.sun_path, sizeof to.sun_path, "%s", path);
    return connect_socket(transport, &to);
}

const struct endpoint *transport_follow(struct transport *transport,
                                        struct asker *asker)
{
    shut(transport);
    transport->number = asker->number;
    if (asker->state != ASKER_OPENING) {
        return NULL;
    }
    const struct endpoint *endpoint = asker_endpoint(asker);
    const char *path = endpoint_socket(endpoint);
    if (path == NULL && !endpoint_is_local(endpoint)) {
        return endpoint;
    }
    int code = path != NULL ? connect_path(transport, path)
                            : connect_door(transport, endpoint->host);
    if (code == 0) {
        asker_connected(asker);
    } else {
        asker_failed(asker, strerror(code), client_clock_read());
    }
    return NULL;
}

void transport_connect(struct transport *transport, struct asker *asker,
                       struct addrinfo *addresses, const char *why)
{
    if (transport_is_late(transport, asker)) {
        freeaddrinfo_if(addresses);
    } else if (addresses == NULL) {
        asker_failed(asker, why, client_clock_read());
    } else {
        transport->addresses = transport->next = addresses;
        connect_next(transport, asker, ECONNREFUSED);
    }
}

/* Looks the name up, without the mutex. */
static void connect_to(struct transport *transport, struct asker *asker,
                       struct endpoint endpoint, pthread_mutex_t *mutex)
{
    struct addrinfo hints = TRANSPORT_HINTS, *addresses = NULL;
    if (mutex != NULL) {
        pthread_mutex_unlock(mutex);
    }
    int code = getaddrinfo(endpoint.host, endpoint.port, &hints, &addresses);
    const char *why = code == EAI_SYSTEM ? strerror(errno) : gai_strerror(code);
    if (mutex != NULL) {
        pthread_mutex_lock(mutex);
    }
    transport_connect(transport, asker, code == 0 ? addresses : NULL, why);
}

void transport_turn(struct transport *transport, struct asker *asker,
                    pthread_mutex_t *mutex)
{
    while (transport_is_late(transport, asker)) {
        transport_renew(transport, asker, mutex);
        const struct endpoint *endpoint = transport_follow(transport, asker);
        if (endpoint != NULL) {
            connect_to(transport, asker, *endpoint, mutex);
        }
    }
    transport_flush(transport, asker);
}

short transport_events(const struct transport *transport,
                       const struct asker *asker)
{
    bool writes = transport->is_connecting ||
                  (asker->out.size > 0 && !is_shaking(transport)) ||
                  (transport->tls != NULL &&
                   tls_output(transport->tls)->size > 0);
    return (short)(POLLIN | (writes ? POLLOUT : 0));
}

void transport_flush(struct transport *transport, struct asker *asker)
{
    if (transport->fd < 0 || transport->is_connecting ||
        transport->number != asker->number) {
        return;
    }
    if (transport->tls == NULL) {
        send_some(transport, &asker->out);
        return;
    }
    if (!is_shaking(transport) && asker->out.size > 0 &&
        tls_write(transport->tls, buffer_bytes(&asker->out)) == 0) {
        buffer_clear(&asker->out); /* Reading shows this error, too. */
    }
    send_some(transport, tls_output(transport->tls));
}

/* An unfinished reply is parsed from its start when more has come, so all that
 * is there is read first. What came before the end of the stream is still given
 * out: a node that refuses a client says why and closes. */
static void receive(struct transport *transport, struct asker *asker)
{
    struct buffer *in = &transport->in;
    ssize_t count;
    int code = 0;
    buffer_clear(in);
    do {
        uint8_t *at = buffer_reserve(in, READ_SIZE);
        count = recv(transport->fd, at, READ_SIZE, 0);
        code = errno;
        in->size += count > 0 ? (size_t)count : 0;
    } while ((count > 0 && in->size < READ_ALL_MAX) ||
             (count < 0 && code == EINTR));
    int error = 0;
    struct buffer *plain = in;
    if (transport->tls != NULL && in->size > 0) {
        error = decipher(transport, asker);
        plain = &transport->plain;
    }
    struct lease_clock now = client_clock_read();
    if (plain->size > 0 && transport->number == asker->number) {
        asker_input(asker, buffer_bytes(plain), now);
        tell_let_in(transport, asker);
    }
    if (transport->number == asker->number && error != 0) {
        fail_tls(transport, asker, error);
    }
    if (transport->number == asker->number &&
        (count == 0 || (count < 0 && code != EAGAIN))) {
        asker_failed(asker, "closed the connection", now);
    }
    if (in->capacity > READ_SIZE * 4) {
        buffer_done(in);
    }
    if (transport->plain.capacity > READ_SIZE * 4) {
        buffer_done(&transport->plain);
    }
}

void transport_ready(struct transport *transport, struct asker *asker)
{
    int code = 0;
    socklen_t size = sizeof code;
    if (transport->fd < 0 || transport->number != asker->number) {
        return;
    }
    if (!transport->is_connecting) {
        receive(transport, asker);
        return;
    }
    getsockopt(transport->fd, SOL_SOCKET, SO_ERROR, &code, &size);
    if (code != 0) {
        connect_next(transport, asker, code);
        return;
    }
    transport->is_connecting = false;
    begin(transport, asker);
}
