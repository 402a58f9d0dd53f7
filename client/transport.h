/* SPDX-License-Identifier: MIT */

/* The socket of a connection (client/cluster_conn.h), for all drivers.
 *
 * It connects to the chosen endpoint, uses TLS if it has a context, and reads
 * and sends without waiting. Only transport_turn() waits, while it resolves a
 * name; a driver that can do that in another way uses transport_follow().
 *
 * Threads: one thread calls transport_turn() and transport_ready(), and polls;
 * only it opens and closes the socket. Other threads that share the connection
 * hold its mutex, and can call transport_flush() then. */

#ifndef HASP_CLIENT_TRANSPORT_H
#define HASP_CLIENT_TRANSPORT_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "client/cluster_conn.h"
#include "net/tls.h"

struct addrinfo;
struct shown;

struct transport {
    struct shown *shown;         /* NULL: no TLS and no secret. */
    struct tls_context *context; /* This connection's; NULL: no TLS. */
    bool was_let_in;             /* Recorded in 'shown'. */
    int fd;                      /* -1: closed. */
    uint32_t number;             /* Number of the connection that it carries. */
    bool is_connecting;
    struct addrinfo *addresses;
    struct addrinfo *next; /* The next to try. */
    struct tls *tls;       /* NULL: no TLS, or closed. */
    struct buffer in;
    struct buffer plain; /* Input after decryption. */
};

/* Keeps a reference to 'shown', which is NULL without TLS and secret. */
void transport_init(struct transport *transport, struct cluster_conn *conn,
                    struct shown *shown);
void transport_done(struct transport *transport);
/* Carries out what the connection wants. The caller holds 'mutex', if not NULL,
 * which is released while files are read and a name is resolved. */
void transport_turn(struct transport *transport, struct cluster_conn *conn,
                    pthread_mutex_t *mutex);

/* The parts of transport_turn(). transport_is_late(): the connection has moved
 * on, so the open socket must be closed. transport_follow() does that, connects
 * to a UNIX socket, or returns the endpoint to be resolved (with these hints)
 * and passed to transport_connect(); or NULL. transport_connect() takes over
 * 'addresses'; NULL: the lookup failed, for 'why'. */
#define TRANSPORT_HINTS                                        \
    {                                                          \
        .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV \
    }
bool transport_is_late(struct transport *transport,
                       const struct cluster_conn *conn);
/* The first of them: reads the files again; 'mutex' as above. */
void transport_renew(struct transport *transport, struct cluster_conn *conn,
                     pthread_mutex_t *mutex);
const struct endpoint *transport_follow(struct transport *transport,
                                        struct cluster_conn *conn);
void transport_connect(struct transport *transport, struct cluster_conn *conn,
                       struct addrinfo *addresses, const char *why);

/* The events to poll() for. */
short transport_events(const struct transport *transport,
                       const struct cluster_conn *conn);
/* The socket is ready, or has an error. */
void transport_ready(struct transport *transport, struct cluster_conn *conn);
/* Sends without waiting; an error is reported by the next read. */
void transport_flush(struct transport *transport, struct cluster_conn *conn);

#endif /* HASP_CLIENT_TRANSPORT_H */
