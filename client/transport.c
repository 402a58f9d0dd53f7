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

void transport_init(struct transport *transport, struct cluster_conn *conn,
                    struct shown *shown)
{
    *transport = (struct transport){
        .fd = -1, .shown = shown != NULL ? shown_ref(shown) : NULL};
    conn->may_renew = shown != NULL && shown_has_files(shown);
}

static void freeaddrinfo_if(struct addrinfo *addresses)
{
    if (addresses != NULL) {
        freeaddrinfo(addresses);
    }
}

static void transport_shut(struct transport *transport)
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
    transport_shut(transport);
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

/* Fails with an error of TLS, after sending the alert to the peer. */
static void fail_tls(struct transport *transport, struct cluster_conn *conn,
                     int error)
{
    if (error == HASP_ECLOSED) {
        cluster_conn_failed(conn, "closed the connection", client_clock_read());
        return;
    }
    send_some(transport, tls_output(transport->tls));
    cluster_conn_distrusted(conn, tls_why(transport->tls), client_clock_read());
}

/* Goes on with the handshake, until it is complete. */
static void transport_shake(struct transport *transport,
                            struct cluster_conn *conn)
{
    int error = tls_handshake(transport->tls);
    send_some(transport, tls_output(transport->tls));
    if (error == 0) {
        cluster_conn_connected(conn);
    } else if (error != HASP_EMORE) {
        fail_tls(transport, conn, error);
    }
}

/* Begins to use a socket that is connected. */
static void transport_begin(struct transport *transport,
                            struct cluster_conn *conn)
{
    if (transport->context == NULL) {
        cluster_conn_connected(conn);
        return;
    }
    transport->tls = tls_new(transport->context, false, 0);
    transport_shake(transport, conn);
}

/* Decrypts the input into 'plain'; 0, or an error of TLS. */
static int transport_decipher(struct transport *transport,
                              struct cluster_conn *conn)
{
    uint32_t number = conn->number;
    struct buffer *plain = &transport->plain;
    size_t size;
    buffer_clear(plain);
    int error = tls_feed(transport->tls, buffer_bytes(&transport->in));
    if (error == 0 && is_shaking(transport)) {
        transport_shake(transport, conn);
    }
    if (conn->number != number || is_shaking(transport)) {
        return 0; /* The connection was informed. */
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
static void connect_next(struct transport *transport, struct cluster_conn *conn,
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
            transport_begin(transport, conn);
            return;
        }
        code = errno;
        /* connect() on a socket that does not block usually ends here; its
         * outcome arrives with POLLOUT. */
        transport->is_connecting = code == EINPROGRESS;
        if (transport->is_connecting) {
            return;
        }
    }
    cluster_conn_failed(conn, strerror(code), client_clock_read());
}

void transport_renew(struct transport *transport, struct cluster_conn *conn,
                     pthread_mutex_t *mutex)
{
    char secret[CLIENT_USER_SECRET_SIZE], why[HASP_WHY_SIZE];
    if (transport->shown == NULL || conn->state != CLUSTER_CONN_OPENING) {
        return;
    }
    if (mutex != NULL) {
        pthread_mutex_unlock(mutex);
    }
    /* Without the mutex: reading files must not block callers. */
    bool has_changed = shown_renew(transport->shown, why);
    struct tls_context *context = shown_context(transport->shown);
    shown_secret(transport->shown, secret);
    if (mutex != NULL) {
        pthread_mutex_lock(mutex);
    }
    tls_context_unref(transport->context);
    transport->context = context;
    transport->was_let_in = shown_was_let_in(transport->shown);
    conn->was_let_in |= transport->was_let_in;
    cluster_conn_show(conn, secret);
    explicit_bzero(secret, sizeof secret);
    cluster_conn_renewed(conn, has_changed, why, client_clock_read());
}

/* A node has accepted a request: recorded for all connections with these
 * credentials. */
static void tell_let_in(struct transport *transport,
                        const struct cluster_conn *conn)
{
    if (transport->shown != NULL && conn->was_let_in &&
        !transport->was_let_in) {
        transport->was_let_in = true;
        shown_let_in(transport->shown);
    }
}

bool transport_is_late(struct transport *transport,
                       const struct cluster_conn *conn)
{
    return transport->number != conn->number;
}

/* Connects to a socket of this machine, without TLS, at once or not at all. */
static int connect_socket(struct transport *transport,
                          const struct sockaddr_un *to)
{
    int off = 0;
    transport->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC,
                           0);
    /* A descriptor sent by the peer could block the reading thread. Kernels
     * before 6.16 do not have this option. */
    (void)setsockopt(transport->fd, SOL_SOCKET, SO_PASSRIGHTS, &off,
                     sizeof off);
    return transport->fd >= 0 &&
                   connect(transport->fd, (const struct sockaddr *)to,
                           sizeof *to) == 0
               ? 0
               : errno;
}

/* The folder's path can be too long for a socket address, so it is addressed by
 * a descriptor. */
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
                                        struct cluster_conn *conn)
{
    /* The state machine has left the old connection; no byte of it may reach
     * the new one. */
    transport_shut(transport);
    transport->number = conn->number;
    if (conn->state != CLUSTER_CONN_OPENING) {
        return NULL;
    }
    const struct endpoint *endpoint = cluster_conn_endpoint(conn);
    const char *path = endpoint_socket(endpoint);
    if (path == NULL && !endpoint_is_local(endpoint)) {
        return endpoint;
    }
    int code = path != NULL ? connect_path(transport, path)
                            : connect_door(transport, endpoint->host);
    if (code == 0) {
        cluster_conn_connected(conn);
    } else {
        cluster_conn_failed(conn, strerror(code), client_clock_read());
    }
    return NULL;
}

void transport_connect(struct transport *transport, struct cluster_conn *conn,
                       struct addrinfo *addresses, const char *why)
{
    if (transport_is_late(transport, conn)) {
        freeaddrinfo_if(addresses);
    } else if (addresses == NULL) {
        cluster_conn_failed(conn, why, client_clock_read());
    } else {
        transport->addresses = transport->next = addresses;
        connect_next(transport, conn, ECONNREFUSED);
    }
}

/* Resolves the name, without the mutex. */
static void connect_to(struct transport *transport, struct cluster_conn *conn,
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
    transport_connect(transport, conn, code == 0 ? addresses : NULL, why);
}

void transport_turn(struct transport *transport, struct cluster_conn *conn,
                    pthread_mutex_t *mutex)
{
    while (transport_is_late(transport, conn)) {
        transport_renew(transport, conn, mutex);
        const struct endpoint *endpoint = transport_follow(transport, conn);
        if (endpoint != NULL) {
            connect_to(transport, conn, *endpoint, mutex);
        }
    }
    transport_flush(transport, conn);
}

short transport_events(const struct transport *transport,
                       const struct cluster_conn *conn)
{
    bool writes = transport->is_connecting ||
                  (conn->out.size > 0 && !is_shaking(transport)) ||
                  (transport->tls != NULL &&
                   tls_output(transport->tls)->size > 0);
    return (short)(POLLIN | (writes ? POLLOUT : 0));
}

void transport_flush(struct transport *transport, struct cluster_conn *conn)
{
    if (transport->fd < 0 || transport->is_connecting ||
        transport->number != conn->number) {
        return;
    }
    if (transport->tls == NULL) {
        send_some(transport, &conn->out);
        return;
    }
    if (!is_shaking(transport) && conn->out.size > 0 &&
        tls_write(transport->tls, buffer_bytes(&conn->out)) == 0) {
        buffer_clear(&conn->out); /* A read reports this error, too. */
    }
    send_some(transport, tls_output(transport->tls));
}

/* An incomplete reply is parsed again from its start, so everything available
 * is read first. Input before the end of the stream is still processed: a node
 * that refuses a client sends the reason and closes. */
static void transport_receive(struct transport *transport,
                              struct cluster_conn *conn)
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
        error = transport_decipher(transport, conn);
        plain = &transport->plain;
    }
    struct lease_clock now = client_clock_read();
    if (plain->size > 0 && transport->number == conn->number) {
        cluster_conn_input(conn, buffer_bytes(plain), now);
        tell_let_in(transport, conn);
    }
    /* The input can have ended this connection and begun another: its number is
     * compared again before each step. */
    if (transport->number == conn->number && error != 0) {
        fail_tls(transport, conn, error);
    }
    if (transport->number == conn->number &&
        (count == 0 || (count < 0 && code != EAGAIN))) {
        cluster_conn_failed(conn, "closed the connection", now);
    }
    if (in->capacity > READ_SIZE * 4) {
        buffer_done(in);
    }
    if (transport->plain.capacity > READ_SIZE * 4) {
        buffer_done(&transport->plain);
    }
}

void transport_ready(struct transport *transport, struct cluster_conn *conn)
{
    int code = 0;
    socklen_t size = sizeof code;
    if (transport->fd < 0 || transport->number != conn->number) {
        return;
    }
    if (!transport->is_connecting) {
        transport_receive(transport, conn);
        return;
    }
    getsockopt(transport->fd, SOL_SOCKET, SO_ERROR, &code, &size);
    if (code != 0) {
        connect_next(transport, conn, code);
        return;
    }
    transport->is_connecting = false;
    transport_begin(transport, conn);
}
