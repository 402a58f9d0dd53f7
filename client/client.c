/* SPDX-License-Identifier: MIT */

/* A connection and its socket, for a thread that waits. */

#include "client/client.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "base/memory.h"
#include "base/minmax.h"
#include "client/clock.h"
#include "client/transport.h"

/* So many endpoints have their part of the time, if there are more. */
#define ATTEMPTS 4

struct client {
    struct cluster_conn conn;
    struct cluster_conn_member member;
    struct transport transport;
    int interrupt_fd; /* -1 if there is none. */
    struct client_request ask;
    const struct query *query;
    const struct client_options *options;
    struct resp_reply reply; /* The reply to the newest query. */
    bool is_done;
    int error;
    connection_push_fn *push;
    void *push_data;
    bool is_pushed;
    char code[CLIENT_CODE_SIZE];
    char why[HASP_WHY_SIZE];
};

static void client_pushed(void *data, const struct resp_reply *reply)
{
    struct client *client = data;
    client->is_pushed = true;
    if (client->push != NULL) {
        client->push(client->push_data, reply);
    }
}

struct client *client_new(const struct endpoints *endpoints,
                          struct shown *shown)
{
    struct client *client = memory_new(sizeof *client);
    uint64_t seed = client_now_ns() ^ (uint64_t)getpid() << 32;
    int error = cluster_conn_init(&client->conn, endpoints, seed);
    CHECK(error == 0);
    client->conn.push = client_pushed;
    client->conn.asks_unborn = true;
    client->conn.push_data = client;
    cluster_conn_join(&client->conn, &client->member);
    client->interrupt_fd = -1;
    transport_init(&client->transport, &client->conn, shown);
    return client;
}

void client_free(struct client *client)
{
    if (client != NULL) {
        transport_done(&client->transport);
        cluster_conn_part(&client->member);
        cluster_conn_done(&client->conn);
        resp_reply_done(&client->reply);
        free(client);
    }
}

void client_set_session(struct client *client,
                        const struct credentials *credentials)
{
    cluster_conn_set_session(&client->member, credentials, client_clock_read());
}

void client_set_interrupt(struct client *client, int fd)
{
    client->interrupt_fd = fd;
}

void client_set_push(struct client *client, connection_push_fn *push,
                     void *data)
{
    client->push = push;
    client->push_data = data;
}

/* Takes one turn, then waits for what comes next; HASP_EINTR if interrupted. */
static int client_wait_for_news(struct client *client, uint64_t until_ns)
{
    struct cluster_conn *conn = &client->conn;
    struct transport *transport = &client->transport;
    cluster_conn_turn(conn, client_clock_read());
    transport_turn(transport, conn, NULL);
    /* The turn can have ended the request, if its time is over; poll() would
     * then wait for nothing. */
    if (client->is_done) {
        return 0;
    }
    struct lease_clock now = client_clock_read();
    uint64_t left_ns = cluster_conn_left_ns(conn, now);
    uint64_t next_ns = left_ns < UINT64_MAX - now.monotonic_ns
                           ? now.monotonic_ns + left_ns
                           : UINT64_MAX;
    struct pollfd fds[2] = {
        {.fd = transport->fd, .events = transport_events(transport, conn)},
        {.fd = client->interrupt_fd, .events = POLLIN},
    };
    int count = poll(fds, 2, client_poll_ms(u64_min(next_ns, until_ns)));
    if (count > 0 && fds[0].revents != 0) {
        transport_ready(transport, conn);
    } else if (count > 0 && fds[1].revents != 0) {
        return HASP_EINTR;
    }
    return 0;
}

static void client_again(struct client_request *ask, struct lease_clock now)
{
    struct client *client = ask->data;
    (void)now;
    if (client->options->again != NULL) {
        client->options->again(client->options->again_data);
        ask->query = *client->query;
    }
}

static void client_answered(struct client_request *ask,
                            const struct client_request_end *end)
{
    struct client *client = ask->data;
    client->is_done = true;
    /* Only pushes that come from here on are waited for. */
    client->is_pushed = false;
    client->error = end->error;
    if (end->error == 0) {
        /* The reply is in the connection's input until more is read. */
        struct resp_reply spare = client->reply;
        client->reply = client->conn.reply;
        client->conn.reply = spare;
    } else {
        memcpy(client->code, end->code, sizeof client->code);
        memcpy(client->why, end->why, sizeof client->why);
    }
}

/* For an answer of one endpoint: a fraction of the whole time, so that there is
 * some left for the others if one is cut off. */
static uint64_t attempt_ms(const struct client *client,
                           const struct client_options *options)
{
    uint64_t now_ns = client_now_ns();
    if (options->attempt_ms != 0 || options->is_once ||
        options->deadline_ns <= now_ns) {
        return options->attempt_ms;
    }
    uint64_t parts = u64_min(client->conn.count, ATTEMPTS);
    uint64_t left_ms = (options->deadline_ns - now_ns) / NS_PER_MS;
    return u64_max(u64_min(left_ms / u64_max(parts, 1), CLIENT_ATTEMPT_MS), 1);
}

int client_ask(struct client *client, const struct query *query,
               const struct client_options *options,
               const struct resp_reply **ret_reply)
{
    client->query = query;
    client->options = options;
    client->is_done = false;
    client->ask = (struct client_request){
        .query = *query,
        .member = &client->member,
        .deadline_ns = options->deadline_ns,
        .attempt_ms = attempt_ms(client, options),
        .is_repeatable = options->is_repeatable,
        .is_read = options->is_read,
        .is_once = options->is_once,
        .again = client_again,
        .done = client_answered,
        .data = client};
    client->member.open_ms = client->ask.attempt_ms;
    cluster_conn_ask(&client->conn, &client->ask, client_clock_read());
    while (!client->is_done) {
        if (client_wait_for_news(client, UINT64_MAX) == HASP_EINTR) {
            client_request_cancel(&client->conn, &client->ask);
            /* The answer can still arrive: on this connection it would be taken
             * for that of the next request. */
            cluster_conn_drop(&client->conn, NULL, client_clock_read());
            client->code[0] = '\0';
            snprintf(client->why, sizeof client->why, "interrupted");
            return HASP_EINTR;
        }
    }
    if (client->error != 0) {
        return client->error;
    }
    *ret_reply = &client->reply;
    return 0;
}

int client_wait_push(struct client *client, uint64_t deadline_ns)
{
    client->is_done = false;
    for (;;) {
        /* A push can have arrived with the previous answer, before this wait
         * began. */
        if (client->is_pushed) {
            client->is_pushed = false;
            return 0;
        }
        if (client->conn.state != CLUSTER_CONN_OPEN) {
            return HASP_ECLOSED;
        }
        int error = client_wait_for_news(client, deadline_ns);
        if (error != 0) {
            return error;
        }
        if (client_now_ns() >= deadline_ns && !client->is_pushed &&
            client->conn.state == CLUSTER_CONN_OPEN) {
            return HASP_ETIMEDOUT;
        }
    }
}

const struct tls_identity *client_node(const struct client *client)
{
    const struct tls *tls = client->transport.tls;
    return tls != NULL && tls_is_up(tls) ? tls_identity(tls) : NULL;
}

void client_drop(struct client *client)
{
    cluster_conn_drop(&client->conn, NULL, client_clock_read());
    transport_turn(&client->transport, &client->conn, NULL);
}

void client_begin_at(struct client *client, uint32_t endpoint)
{
    cluster_conn_begin_at(&client->conn, endpoint);
}

const char *client_why(const struct client *client)
{
    return client->why;
}

const char *client_code(const struct client *client)
{
    return client->code;
}

const char *client_peer(const struct client *client)
{
    return cluster_conn_endpoint(&client->conn)->text;
}
