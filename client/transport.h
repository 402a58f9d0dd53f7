/* SPDX-License-Identifier: MIT */

/* The socket of an asker (client/cluster_conn.h), for all drivers.
 *
 * It connects where the asker says, speaks TLS if it is given a context, reads
 * what there is and sends what can be sent; it never waits. Names are looked up
 * by transport_turn(), which does wait for that, or by a driver that can do it
 * otherwise (transport_follow()).
 *
 * Threads: one calls transport_turn() and transport_ready(), and polls; it
 * alone opens and closes. Where others share the asker all hold its mutex, and
 * may call transport_flush() then. */

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
    struct shown *shown;         /* NULL: plain, and no secret. */
    struct tls_context *context; /* Of this connection; NULL: plain. */
    bool was_let_in;             /* 'shown' has been told. */
    int fd;                      /* -1: closed. */
    uint32_t number;             /* The asker's connection that it carries. */
    bool is_connecting;
    struct addrinfo *addresses;
    struct addrinfo *next; /* To be tried if this one fails. */
    struct tls *tls;       /* NULL: plain, or closed. */
    struct buffer in;
    struct buffer plain; /* Likewise, out of TLS. */
};

/* Takes a reference of 'shown', which is NULL for plain without a secret. */
void transport_init(struct transport *transport, struct cluster_conn *conn,
                    struct shown *shown);
void transport_done(struct transport *transport);
/* Does what the asker wants; 'mutex', if there is one, is held by the caller
 * and given up while files are read and a name is looked up. */
void transport_turn(struct transport *transport, struct cluster_conn *conn,
                    pthread_mutex_t *mutex);

/* The same in parts. Late: the asker has gone on, and what is open is to be
 * closed. transport_follow() does that, connects to a local door, or gives the
 * endpoint to be looked up (with these hints) and told by transport_connect(),
 * or NULL. 'addresses' are taken; NULL: none, for 'why'. */
#define TRANSPORT_HINTS                                        \
    {                                                          \
        .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV \
    }
bool transport_is_late(struct transport *transport,
                       const struct cluster_conn *conn);
/* First of these: reads again what the connection is to show; 'mutex' as above.
 */
void transport_renew(struct transport *transport, struct cluster_conn *conn,
                     pthread_mutex_t *mutex);
const struct endpoint *transport_follow(struct transport *transport,
                                        struct cluster_conn *conn);
void transport_connect(struct transport *transport, struct cluster_conn *conn,
                       struct addrinfo *addresses, const char *why);

/* What to poll() for. */
short transport_events(const struct transport *transport,
                       const struct cluster_conn *conn);
/* It is ready, or broken. */
void transport_ready(struct transport *transport, struct cluster_conn *conn);
/* Sends what can be sent; an error shows when it is read from. */
void transport_flush(struct transport *transport, struct cluster_conn *conn);

#endif /* HASP_CLIENT_TRANSPORT_H */
