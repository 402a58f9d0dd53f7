/* SPDX-License-Identifier: MIT */

/* A connection to a cluster, without I/O: chooses the node, decides when to try
 * the next one and what may be repeated. Its inputs are bytes and `now`; its
 * outputs are bytes to send, the endpoint to connect to, the time of the next
 * turn, and answers. It uses no clock, socket or thread; a driver does
 * (client/transport.h, hasp_uv.c).
 *
 * There is one connection at a time. Any node accepts any request (a follower
 * forwards it to the leader), so it stays at a node until that fails. Requests
 * are sent without waiting for earlier answers, which arrive in the order of
 * the requests.
 *
 *     REST --somebody asks--> OPENING --cluster_conn_connected()--> GREETING
 *      ^ (a pause after each   |                              HELLO
 *      |  round of all nodes)  |                             (AUTH)
 *      |                       |                                |
 *      '------- failure, silence, NOLEADER, MOVED ----------- OPEN
 *
 * Its members share the connection (client/cluster_conn_member.h) and send
 * requests (client/client_request.h), each of which ends once: with an answer,
 * with a refusal, or at its deadline.
 *
 * A node can refuse it: it does not know the secret, requires TLS, or rejects
 * the certificate. If a node has accepted these before, such a refusal counts
 * like no answer, since the files are read again before each connection; it
 * retries after 0.1 to 1 s. Otherwise its requests are refused, unless the
 * files have changed by then.
 *
 * A node of another cluster than the known one (client/known_cluster.h) is left
 * as soon as it has answered HELLO, before the secret is sent.
 *
 * Driver: after each call of cluster_conn_turn() or cluster_conn_input() and
 * after each request, check 'number'. If it has changed, close the open socket;
 * if the state is OPENING then, connect to cluster_conn_endpoint() and report
 * the result. Send the bytes in 'out' and remove them. Call
 * cluster_conn_turn(), in which the members have their turns, after each call
 * that a member has started and when cluster_conn_left_ns() has passed.
 * Deadlines are in CLOCK_MONOTONIC.
 *
 * Threads: none; a caller that shares it among threads guards it. */

#ifndef HASP_CLIENT_CLUSTER_CONN_H
#define HASP_CLIENT_CLUSTER_CONN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/err.h"
#include "base/list.h"
#include "client/client_request.h"
#include "client/cluster_conn_member.h"
#include "client/endpoints.h"
#include "client/known_cluster.h"
#include "lease/lease.h"
#include "net/resp.h"

/* Time for the connection and the greeting; a paused node accepts but sends
 * nothing. */
#define CLIENT_OPEN_MS 1000
/* Size of the message about one endpoint. */
#define CLUSTER_CONN_LAST_SIZE 256

enum cluster_conn_state {
    CLUSTER_CONN_REST,
    CLUSTER_CONN_OPENING,
    CLUSTER_CONN_GREETING,
    CLUSTER_CONN_OPEN
};

struct cluster_conn {
    enum cluster_conn_state state;
    struct lease_clock now; /* Of the current call. */
    uint32_t number;        /* Number of the connection, or of the next one. */
    struct buffer out;      /* To be sent. */
    /* Receives pushes that are not about a member's session; borrowed. Or
     * NULL. */
    void (*push)(void *data, const struct resp_reply *reply);
    void *push_data;
    struct known_cluster *known; /* Its own, or a shared one. */
    /* Nodes without a cluster are asked, too: for questions about the node
     * itself. Such a node answers anything else with NOLEADER. */
    bool asks_unborn;
    /* The rest is private. */
    struct known_cluster own_known;
    char cluster[CLUSTER_ID_TEXT_SIZE]; /* The connected node's cluster. */
    bool has_said_hello;                /* GREETING: AUTH was sent. */
    struct list members;
    bool is_touched; /* Some member is. */
    uint64_t due_ns; /* Earliest turn of a member. */
    struct endpoint *endpoint;
    char secret[CLIENT_USER_SECRET_SIZE]; /* The user's secret; or "". */
    bool may_renew;  /* The driver can read the files again. */
    bool was_let_in; /* A node has accepted a request. */
    bool is_denied;  /* The last node refused it. */
    /* Never accepted, and the files are being read again, once: if they have
     * not changed, all requests end with the refusal. */
    bool is_doubted;
    bool was_doubted;
    char doubt_code[CLIENT_CODE_SIZE];
    char doubt_why[HASP_WHY_SIZE];
    char (*last)[CLUSTER_CONN_LAST_SIZE]; /* Last error of each endpoint. */
    uint32_t count;
    uint32_t at;
    struct endpoint moved; /* The target of MOVED. */
    bool is_moved;
    /* Connections since the last one that was open for a second; the pauses
     * between rounds over the endpoints grow with it. */
    uint32_t failed;
    uint64_t opened_ns; /* OPEN: since when. */
    uint64_t until_ns;  /* REST: the pause; OPENING, GREETING: the limit. */
    uint64_t random;
    struct buffer in;
    size_t used; /* Processed bytes of 'in'; kept until the next input. */
    struct resp_reply reply;
    struct list asks; /* Requests to be sent, in order. */
    struct list sent; /* Requests that were sent. */
    struct client_request *
        *flight; /* Sent requests in order; NULL: cancelled. */
    uint32_t flight_count;
    uint32_t flight_room;
    char code[CLIENT_CODE_SIZE];
    char why[HASP_WHY_SIZE];
};

/* 'endpoints' is copied and must not be empty; 'seed' makes pauses differ.
 * HASP_ENOMEM. */
MUST_CHECK int cluster_conn_init(struct cluster_conn *conn,
                                 const struct endpoints *endpoints,
                                 uint64_t seed);
/* Pending requests are dropped without 'done'. */
void cluster_conn_done(struct cluster_conn *conn);

void cluster_conn_ask(struct cluster_conn *conn, struct client_request *ask,
                      struct lease_clock now);
/* Makes the member's turn due. */
static inline void cluster_conn_touch(struct cluster_conn_member *member)
{
    member->is_touched = member->conn->is_touched = true;
}
/* The member needs no connection any longer: its session is detached, by
 * closing the connection if no other member shares it. */
void cluster_conn_leave(struct cluster_conn_member *member,
                        struct lease_clock now);

/* Closes the connection because of 'why' (a message; NULL: none); the next one
 * goes to the next endpoint. */
void cluster_conn_drop(struct cluster_conn *conn, const char *why,
                       struct lease_clock now);
/* Sets the first endpoint. */
void cluster_conn_begin_at(struct cluster_conn *conn, uint32_t endpoint);
/* True if a sent request has no answer yet. */
bool cluster_conn_is_awaiting(const struct cluster_conn *conn);

/* --- For the driver ------------------------------------------------------- */

/* Sets the secret for future connections. */
void cluster_conn_show(struct cluster_conn *conn,
                       const char secret[CLIENT_USER_SECRET_SIZE]);
/* The driver has read the files again before a connection. 'why': they were
 * rejected, for this reason, which is reported to all members; or "". This can
 * end the connection that is being opened. */
void cluster_conn_renewed(struct cluster_conn *conn, bool has_changed,
                          const char *why, struct lease_clock now);
/* The endpoint to connect to. */
const struct endpoint *cluster_conn_endpoint(const struct cluster_conn *conn);
void cluster_conn_connected(struct cluster_conn *conn);
/* The connection failed; 'why' is a message. */
void cluster_conn_failed(struct cluster_conn *conn, const char *why,
                         struct lease_clock now);
/* The connection failed because one side rejects the other's certificate. */
void cluster_conn_distrusted(struct cluster_conn *conn, const char *why,
                             struct lease_clock now);
void cluster_conn_input(struct cluster_conn *conn, struct bytes bytes,
                        struct lease_clock now);
void cluster_conn_turn(struct cluster_conn *conn, struct lease_clock now);
/* Nanoseconds until the next turn; UINT64_MAX: none is due. */
uint64_t cluster_conn_left_ns(const struct cluster_conn *conn,
                              struct lease_clock now);

#endif /* HASP_CLIENT_CLUSTER_CONN_H */
