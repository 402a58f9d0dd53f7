/* SPDX-License-Identifier: MIT */

#include "client/connection.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "client/clock.h"

#define READ_SIZE ((size_t)64 << 10)
#define READ_ALL_MAX ((size_t)64 << 20)
/* A list of everything is the largest reply there is. */
#define REPLY_VALUE_MAX (16u << 20)
#define REPLY_SIZE_MAX ((size_t)1 << 30)

static int open_address(struct connection *connection,
                        const struct addrinfo *address, uint64_t deadline_ns,
                        char why[HASP_WHY_SIZE]);
static int wait_ready(struct connection *connection, short events,
                      uint64_t deadline_ns);
static int receive_any(struct connection *connection, uint64_t deadline_ns);
static int read_more(struct connection *connection, uint64_t deadline_ns);
static int fail(struct connection *connection, int error);

void connection_init(struct connection *connection)
{
    *connection = (struct connection){.fd = -1, .interrupt_fd = -1};
}

void connection_done(struct connection *connection)
{
    connection_close(connection);
    buffer_done(&connection->in);
    buffer_done(&connection->out);
    resp_reply_done(&connection->reply);
}

int connection_open(struct connection *connection,
                    const struct endpoint *endpoint, uint64_t deadline_ns,
                    char why[HASP_WHY_SIZE])
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
                             .ai_flags = AI_NUMERICSERV};
    struct addrinfo *addresses;
    connection_close(connection);
    int code = getaddrinfo(endpoint->host, endpoint->port, &hints, &addresses);
    if (code != 0) {
        snprintf(why, HASP_WHY_SIZE, "%s",
                 code == EAI_SYSTEM ? strerror(errno) : gai_strerror(code));
        return HASP_ECONNECT;
    }
    int error = HASP_ECONNECT;
    for (const struct addrinfo *a = addresses;
         a != NULL && error == HASP_ECONNECT; a = a->ai_next) {
        error = open_address(connection, a, deadline_ns, why);
    }
    freeaddrinfo(addresses);
    return error;
}

void connection_close(struct connection *connection)
{
    if (connection->fd >= 0) {
        close(connection->fd);
    }
    connection->fd = -1;
    connection->used = 0;
    buffer_clear(&connection->in);
}

int connection_send(struct connection *connection, const struct query *query,
                    uint64_t deadline_ns)
{
    if (connection->fd < 0) {
        return HASP_ECLOSED;
    }
    buffer_clear(&connection->out);
    query_encode(query, &connection->out);
    struct bytes left = buffer_bytes(&connection->out);
    while (left.size > 0) {
        ssize_t count = send(connection->fd, left.data, left.size,
                             MSG_NOSIGNAL);
        if (count >= 0) {
            left = bytes_of(left.data + count, left.size - (size_t)count);
            continue;
        }
        if (errno == EINTR) {
            continue;
        }
        if (errno != EAGAIN) {
            return fail(connection, HASP_ECLOSED);
        }
        /* Half a request on the wire cannot be taken back. */
        int error = wait_ready(connection, POLLOUT, deadline_ns);
        if (error != 0) {
            connection_close(connection);
            return error;
        }
    }
    return 0;
}

int connection_receive(struct connection *connection, uint64_t deadline_ns,
                       const struct resp_reply **ret_reply)
{
    for (;;) {
        int error = receive_any(connection, deadline_ns);
        if (error != 0) {
            return error;
        }
        if (connection->reply.value[0].type != RESP_PUSH) {
            *ret_reply = &connection->reply;
            return 0;
        }
        if (connection->push != NULL) {
            connection->push(connection->push_data, &connection->reply);
        }
    }
}

int connection_receive_push(struct connection *connection, uint64_t deadline_ns)
{
    int error = receive_any(connection, deadline_ns);
    if (error != 0) {
        return error;
    }
    if (connection->reply.value[0].type != RESP_PUSH) {
        return fail(connection, HASP_EPROTO);
    }
    if (connection->push != NULL) {
        connection->push(connection->push_data, &connection->reply);
    }
    return 0;
}

static int fail(struct connection *connection, int error)
{
    connection_close(connection);
    return error;
}

/* A peer whose machine has gone does not answer; without these a wait for ever
 * would be one. */
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

static int open_address(struct connection *connection,
                        const struct addrinfo *address, uint64_t deadline_ns,
                        char why[HASP_WHY_SIZE])
{
    int code = 0;
    socklen_t size = sizeof code;
    connection->fd = socket(address->ai_family,
                            SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (connection->fd < 0) {
        snprintf(why, HASP_WHY_SIZE, "%s", strerror(errno));
        return HASP_ECONNECT;
    }
    watch_peer(connection->fd);
    if (connect(connection->fd, address->ai_addr, address->ai_addrlen) == 0) {
        return 0;
    }
    code = errno;
    if (code == EINPROGRESS) {
        int error = wait_ready(connection, POLLOUT, deadline_ns);
        if (error == HASP_EINTR) {
            return fail(connection, error);
        }
        code = ETIMEDOUT;
        if (error == 0) {
            getsockopt(connection->fd, SOL_SOCKET, SO_ERROR, &code, &size);
        }
    }
    if (code != 0) {
        snprintf(why, HASP_WHY_SIZE, "%s", strerror(code));
        return fail(connection, HASP_ECONNECT);
    }
    return 0;
}

/* Waits until the socket is ready (or broken, which the next call on it
 * tells). */
static int wait_ready(struct connection *connection, short events,
                      uint64_t deadline_ns)
{
    for (;;) {
        struct pollfd fds[2] = {
            {.fd = connection->fd, .events = events},
            {.fd = connection->interrupt_fd, .events = POLLIN},
        };
        int count = poll(fds, 2, client_poll_ms(deadline_ns));
        if (count < 0 && errno != EINTR) {
            return fail(connection, HASP_ECLOSED);
        }
        if (count > 0 && fds[0].revents != 0) {
            return 0;
        }
        if (count > 0 && fds[1].revents != 0) {
            return HASP_EINTR;
        }
        if (client_now_ns() >= deadline_ns) {
            return HASP_ETIMEDOUT;
        }
    }
}

static int receive_any(struct connection *connection, uint64_t deadline_ns)
{
    if (connection->fd < 0) {
        return HASP_ECLOSED;
    }
    buffer_consume(&connection->in, connection->used);
    connection->used = 0;
    for (;;) {
        int error = HASP_EMORE;
        if (connection->in.size > 0) {
            error = resp_parse_reply(buffer_bytes(&connection->in),
                                     REPLY_VALUE_MAX, &connection->reply,
                                     &connection->used);
        }
        if (error == 0) {
            return 0;
        }
        if (error != HASP_EMORE || connection->in.size > REPLY_SIZE_MAX) {
            return fail(connection, HASP_EPROTO);
        }
        error = read_more(connection, deadline_ns);
        if (error != 0) {
            return error;
        }
    }
}

/* An unfinished reply is parsed from its start when more has come, so all that
 * is there is read first. What came before the end of the stream is still given
 * out: a node that refuses a client says why and closes. */
static int read_more(struct connection *connection, uint64_t deadline_ns)
{
    size_t had = connection->in.size;
    for (;;) {
        uint8_t *at = buffer_reserve(&connection->in, READ_SIZE);
        ssize_t count = recv(connection->fd, at, READ_SIZE, 0);
        if (count > 0) {
            connection->in.size += (size_t)count;
            if (connection->in.size - had < READ_ALL_MAX) {
                continue;
            }
            return 0;
        }
        if (count < 0 && errno == EINTR) {
            continue;
        }
        if (connection->in.size > had) {
            return 0;
        }
        if (count == 0 || errno != EAGAIN) {
            return fail(connection, HASP_ECLOSED);
        }
        int error = wait_ready(connection, POLLIN, deadline_ns);
        if (error != 0) {
            return error;
        }
    }
}
