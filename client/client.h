/* SPDX-License-Identifier: MIT */

/* A client of a cluster: finds a node that answers, and asks again where asking
 * again is right.
 *
 * It holds one connection at a time. Any node takes any request (a follower
 * forwards to the leader), so it stays where it is until that node fails it;
 * then it goes on to the next of its endpoints. A session that it acts for is
 * attached anew on each connection.
 *
 * What is asked again, when and where, is client/cluster_conn.h's matter; this
 * waits for it.
 *
 * Errors:
 *
 *   HASP_EREPLY      the server refused: client_code() is its word
 *   HASP_ECONNECT    no node could be reached; nothing was done
 *   HASP_ECERT       likewise, for want of a certificate that is taken
 *   HASP_ENOTLEADER  nodes were reached and none knows a leader; nothing was
 *                    done
 *   HASP_EBUSY       they had too much to do until the deadline; nothing was
 *                    done
 *   HASP_ETIMEDOUT   no answer, the outcome is not known
 *   HASP_EINTR       the interrupting descriptor; the outcome is not known
 *   HASP_EPROTO      what answers does not speak our protocol
 *
 * client_why() then has a message for a person.
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

/* Takes a message that no request asked for; 'reply' is borrowed. */
typedef void connection_push_fn(void *data, const struct resp_reply *reply);

struct client;
struct shown;

/* 'endpoints' is copied and must not be empty; of 'shown' a reference is taken,
 * NULL is plain and without a secret. */
struct client *client_new(const struct endpoints *endpoints,
                          struct shown *shown);
/* Closes the connection. NULL is fine. */
void client_free(struct client *client);

/* From now on each connection acts for this session; NULL: for none. */
void client_set_session(struct client *client,
                        const struct credentials *credentials);
/* A wait ends when this descriptor turns readable; -1: none. */
void client_set_interrupt(struct client *client, int fd);
/* Messages that nobody asked for (please, watched events) go here. */
void client_set_push(struct client *client, connection_push_fn *push,
                     void *data);

/* Writes a query anew, which is about to be sent again: what is left of a wait
 * has become shorter. */
typedef void client_again_fn(void *data);

struct client_options {
    uint64_t deadline_ns; /* Of the whole. */
    uint64_t attempt_ms;  /* For an answer of one node; 0: as many parts of
                            the whole as there are endpoints, four at most. */
    bool is_repeatable;
    bool is_read; /* Repeatable, and whether it was done does not matter. */
    bool is_once; /* One attempt at one node, whatever it ends with. */
    client_again_fn *again; /* Before each attempt but the first; or NULL. */
    void *again_data;
};

/* Asks. The reply is borrowed until the next call for 'client'. */
MUST_CHECK int client_ask(struct client *client, const struct query *query,
                          const struct client_options *options,
                          const struct resp_reply **ret_reply);

/* Waits for one push on the connection that is open (after LOCK.WATCH, say).
 * HASP_ETIMEDOUT, HASP_EINTR and, if the connection is lost, HASP_ECLOSED. */
MUST_CHECK int client_wait_push(struct client *client, uint64_t deadline_ns);
/* Who answers there, by its certificate; NULL: nobody, or it speaks plain. It
 * lives as long as the connection. */
const struct tls_identity *client_node(const struct client *client);
/* Gives the connection up; the next query opens one to the next endpoint. */
void client_drop(struct client *client);
/* Where to begin, before the first query: a number of an endpoint. */
void client_begin_at(struct client *client, uint32_t endpoint);

/* After an error: a text for a person; after HASP_EREPLY: the server's word, as
 * in "NOTHELD". */
const char *client_why(const struct client *client);
const char *client_code(const struct client *client);
/* The endpoint last talked to, as text. */
const char *client_peer(const struct client *client);

#endif /* HASP_CLIENT_CLIENT_H */
