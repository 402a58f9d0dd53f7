/* SPDX-License-Identifier: MIT */

/* Asks a cluster, without I/O: which node, when to go on to the next, what may
 * be asked again. Bytes and `now` come in; bytes to send, the endpoint to
 * connect to, the time of the next turn and answers come out. It calls no
 * clock, socket or thread; a driver does (client/transport.h, hasp_uv.c).
 *
 * There is one connection at a time. Any node takes any request (a follower
 * forwards to the leader), so an asker stays where it is until that node fails
 * it. Requests are sent without waiting for earlier answers, which come in the
 * order of the requests.
 *
 *     REST --somebody asks--> OPENING --cluster_conn_connected()--> GREETING
 *      ^ (a pause after each   |                              HELLO
 *      |  round of all nodes)  |                             (AUTH)
 *      |                       |                                |
 *      '------- failure, silence, NOLEADER, MOVED ----------- OPEN
 *
 * It has members, who share the connection (client/cluster_conn_member.h), and
 * they ask requests (client/client_request.h), each of which ends once: with an
 * answer, with a refusal, or when it is too late to ask again.
 *
 * A node may refuse it: it does not know the secret, wants TLS, or does not
 * take the certificate. Once it was let in, that is like a node that does not
 * answer, since the files with these are read again before each connection; it
 * is tried again after 0.1 to 1 s. One that never was let in has its requests
 * refused, unless the files have changed by then.
 *
 * A node of another cluster than the known one (client/known_cluster.h) is left
 * as soon as it has answered HELLO, before it is shown a secret.
 *
 * Driver: after each call of cluster_conn_turn() or cluster_conn_input() and
 * after each request look at 'number'. If it has changed, close what is open;
 * if the state is OPENING then, connect to cluster_conn_endpoint() and report.
 * Send what is in 'out', and take it out of there. Call cluster_conn_turn(), in
 * which the members have their turns, after each call that a member has begun
 * and when cluster_conn_left_ns() is over. Deadlines are in CLOCK_MONOTONIC.
 *
 * Threads: none; who shares it among threads guards it. */

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

/* For the connection and the greeting; a paused node accepts and is silent. */
#define CLIENT_OPEN_MS 1000
/* Of what a person is told of one endpoint. */
#define CLUSTER_CONN_LAST_SIZE 256

enum cluster_conn_state {
    CLUSTER_CONN_REST,
    CLUSTER_CONN_OPENING,
    CLUSTER_CONN_GREETING,
    CLUSTER_CONN_OPEN
};

struct cluster_conn {
    enum cluster_conn_state state;
    struct lease_clock now; /* Of the call at hand. */
    uint32_t number;        /* Of the connection, or of what follows on it. */
    struct buffer out;      /* To be sent. */
    /* A message that tells of no member's session; borrowed. Or NULL. */
    void (*push)(void *data, const struct resp_reply *reply);
    void *push_data;
    struct known_cluster *known; /* Its own, or one that others share. */
    /* The rest is private. */
    struct known_cluster own_known;
    char cluster[CLUSTER_ID_TEXT_SIZE]; /* Of the node that is connected. */
    bool has_said_hello;                /* GREETING: AUTH is under way. */
    struct list members;
    bool is_touched; /* Some member is. */
    uint64_t due_ns; /* Of the members, the earliest turn. */
    struct endpoint *endpoint;
    char secret[CLIENT_USER_SECRET_SIZE]; /* Of the user; or "". */
    bool may_renew;  /* What it shows may be read again, by the driver. */
    bool was_let_in; /* By a node, which has done what was asked. */
    bool is_denied;  /* The node that was left does not let it in. */
    /* Never was let in, and what it shows is being read again, once: if that
     * changes nothing, this is the end of all that is asked. */
    bool is_doubted;
    bool was_doubted;
    char doubt_code[CLIENT_CODE_SIZE];
    char doubt_why[HASP_WHY_SIZE];
    char (*last)[CLUSTER_CONN_LAST_SIZE]; /* What each endpoint ended with, for
                                      a person. */
    uint32_t count;
    uint32_t at;
    struct endpoint moved; /* Where a node sent us. */
    bool is_moved;
    uint32_t failed;   /* Connections in a row that came to nothing. */
    uint64_t until_ns; /* REST: the pause; OPENING, GREETING: the limit. */
    uint64_t random;
    struct buffer in;
    size_t used; /* Of 'in': given out; there until the next input. */
    struct resp_reply reply;
    struct list asks; /* Those not sent yet, in order. */
    struct list sent; /* Those sent. */
    struct client_request *
        *flight; /* In the order of their answers; NULL: given up. */
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
/* What is still asked is forgotten without 'done'. */
void cluster_conn_done(struct cluster_conn *conn);

void cluster_conn_ask(struct cluster_conn *conn, struct client_request *ask,
                      struct lease_clock now);
/* Its turn is due: it was asked something. */
static inline void cluster_conn_touch(struct cluster_conn_member *member)
{
    member->is_touched = member->conn->is_touched = true;
}
/* The member wants no connection any more, and none acts for its session: it is
 * detached, by closing the connection if nobody else shares it. */
void cluster_conn_leave(struct cluster_conn_member *member,
                        struct lease_clock now);

/* Gives the connection up, for 'why' (a person reads it; NULL: nothing to
 * tell); the next one goes to the next endpoint. */
void cluster_conn_drop(struct cluster_conn *conn, const char *why,
                       struct lease_clock now);
/* Where to begin. */
void cluster_conn_begin_at(struct cluster_conn *conn, uint32_t endpoint);
/* Something is under way that has not been answered. */
bool cluster_conn_is_awaiting(const struct cluster_conn *conn);

/* --- For the driver ------------------------------------------------------- */

/* What it shows from now on. */
void cluster_conn_show(struct cluster_conn *conn,
                       const char secret[CLIENT_USER_SECRET_SIZE]);
/* Before a connection is made, what it shows has been read again, and was other
 * than before; 'why' it was not taken, for all members, or "". The asker may
 * end the connection that is being opened. */
void cluster_conn_renewed(struct cluster_conn *conn, bool has_changed,
                          const char *why, struct lease_clock now);
/* Where to connect to, and who answers. */
const struct endpoint *cluster_conn_endpoint(const struct cluster_conn *conn);
void cluster_conn_connected(struct cluster_conn *conn);
/* No connection came about, or it has broken; 'why' for a person. */
void cluster_conn_failed(struct cluster_conn *conn, const char *why,
                         struct lease_clock now);
/* Likewise, because one side does not take the other's certificate. */
void cluster_conn_distrusted(struct cluster_conn *conn, const char *why,
                             struct lease_clock now);
void cluster_conn_input(struct cluster_conn *conn, struct bytes bytes,
                        struct lease_clock now);
void cluster_conn_turn(struct cluster_conn *conn, struct lease_clock now);
/* Nanoseconds until the next turn; UINT64_MAX: none is due. */
uint64_t cluster_conn_left_ns(const struct cluster_conn *conn,
                              struct lease_clock now);

#endif /* HASP_CLIENT_CLUSTER_CONN_H */
