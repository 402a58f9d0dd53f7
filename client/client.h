/* SPDX-License-Identifier: MIT */

/* A client of a cluster: finds a node that answers, and repeats requests if
 * that is safe.
 *
 * It has one connection at a time. Any node accepts any request (a follower
 * forwards it to the leader), so the client stays at a node until that fails,
 * and then tries its next endpoint. The session that it acts for is attached
 * again on each connection.
 *
 * client/cluster_conn.h decides what is repeated, when and where; this file
 * waits for it.
 *
 * Errors:
 *
 *   HASP_EREPLY      the server refused: client_code() is its word
 *   HASP_ECONNECT    no node could be reached; nothing was done
 *   HASP_ECERT       the same, because a certificate was rejected
 *   HASP_ENOTLEADER  nodes were reached and none knows a leader; nothing was
 *                    done
 *   HASP_EBUSY       they were overloaded until the deadline; nothing was
 *  *                    done
 *   HASP_ETIMEDOUT   no answer, the outcome is not known
 *   HASP_EINTR       the interrupting descriptor; the outcome is not known
 *   HASP_EPROTO      the peer does not use hasp's protocol
 *
 * client_why() then returns a message.
 *
 * Threads: a client belongs to one thread at a time. */

#ifndef HASP_CLIENT_CLIENT_H
#define HASP_CLIENT_CLIENT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "client/cluster_conn.h"
#include "client/endpoints.h"
#include "client/query.h"
#include "lease/lease.h"
#include "net/tls.h"

/* Receives a push; 'reply' is borrowed. */
typedef void connection_push_fn(void *data, const struct resp_reply *reply);

struct client;
struct shown;

/* 'endpoints' is copied and must not be empty. Keeps a reference to 'shown';
 * NULL: no TLS and no secret. */
struct client *client_new(const struct endpoints *endpoints,
                          struct shown *shown);
/* Closes the connection. NULL is ignored. */
void client_free(struct client *client);

/* From now on each connection acts for this session; NULL: for none. */
void client_set_session(struct client *client,
                        const struct credentials *credentials);
/* A wait ends when this descriptor becomes readable; -1: none. */
void client_set_interrupt(struct client *client, int fd);
/* Sets the function for pushes (please, watched events). */
void client_set_push(struct client *client, connection_push_fn *push,
                     void *data);

/* Rewrites a query before it is sent again, since the rest of a wait has become
 * shorter. */
typedef void client_again_fn(void *data);

struct client_options {
    uint64_t deadline_ns; /* For all attempts together. */
    /* For one node; 0: the whole time divided by the number of endpoints, at
     * most four. */
    uint64_t attempt_ms;
    bool is_repeatable;
    bool is_read;           /* Repeatable, and its outcome does not matter. */
    bool is_once;           /* One attempt at one node, whatever its result. */
    client_again_fn *again; /* Before each attempt but the first; or NULL. */
    void *again_data;
};

/* Sends a request and waits for the reply, which is borrowed until the next
 * call for 'client'. */
MUST_CHECK int client_ask(struct client *client, const struct query *query,
                          const struct client_options *options,
                          const struct resp_reply **ret_reply);

/* Waits for one push on the open connection (e.g. after LOCK.WATCH).
 * HASP_ETIMEDOUT, HASP_EINTR and, if the connection is lost, HASP_ECLOSED. */
MUST_CHECK int client_wait_push(struct client *client, uint64_t deadline_ns);
/* The node's identity from its certificate; NULL: no connection, or no TLS.
 * Valid as long as the connection. */
const struct tls_identity *client_node(const struct client *client);
/* Closes the connection; the next query opens one to the next endpoint. */
void client_drop(struct client *client);
/* Sets the first endpoint, before the first query. */
void client_begin_at(struct client *client, uint32_t endpoint);

/* After an error: a message; after HASP_EREPLY: the server's error word, e.g.
 * "NOTHELD". */
const char *client_why(const struct client *client);
const char *client_code(const struct client *client);
/* The last endpoint, as text. */
const char *client_peer(const struct client *client);

#endif /* HASP_CLIENT_CLIENT_H */
