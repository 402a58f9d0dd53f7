/* SPDX-License-Identifier: MIT */

/* One request to a cluster, on a connection (client/cluster_conn.h), until it
 * ends: it outlives connections.
 *
 * Results of an attempt, and their effect:
 *
 *     an answer, a refusal  is given out
 *     NOLEADER              nothing was done: again, at another node
 *     BUSY                  nothing was done: again, later
 *     MOVED                 nothing was done: again, at the node that it names
 *     no connection         nothing was done: again, at another node
 *     lost connection,      the outcome is not known: again if the request is
 *     no answer, UNKNOWN    repeatable, else given out
 *
 * until the request's deadline. Then the worst result that was seen is
 * returned: an unknown outcome before a missing leader, and that before an
 * unreachable node.
 *
 *   HASP_EREPLY      the server refused: 'code' is its word
 *   HASP_ECONNECT    no node could be reached; nothing was done
 *   HASP_ECERT       the same, since their certificate or this side's is
 *                    refused
 *   HASP_ENOTLEADER  none knows a leader; nothing was done
 *   HASP_EBUSY       they were overloaded; nothing was done
 *   HASP_ETIMEDOUT   no answer, the outcome is not known
 *   HASP_EPROTO      the peer does not use hasp's protocol
 *
 * A request is in one of the connection's two lists, in 'asks' until it is sent
 * and in 'sent' until its attempt ends; then in 'asks' again, or in none. */

#ifndef HASP_CLIENT_CLIENT_REQUEST_H
#define HASP_CLIENT_CLIENT_REQUEST_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/err.h"
#include "base/list.h"
#include "client/query.h"
#include "lease/lease.h"
#include "net/resp.h"

/* Time for an answer, before another node is tried; longer than a node waits
 * for a leader before it answers NOLEADER. */
#define CLIENT_ATTEMPT_MS 4000
#define CLIENT_CODE_SIZE 32
/* After SESSION.OPEN, ATTACH and CLOSE a node processes nothing until they are
 * answered. At most this many are in progress, so that heartbeats do not wait
 * for those of a thousand sessions. */
#define CLUSTER_CONN_BLOCKING_MAX 8

struct cluster_conn;
struct cluster_conn_member;
struct client_request;

/* Result of a request; borrowed for the duration of the call. */
struct client_request_end {
    int error;                      /* 0: 'reply'. */
    const struct resp_reply *reply; /* NULL after an error. */
    const char *code; /* HASP_EREPLY: the server's word, as in "NOTHELD". */
    const char *why;  /* After an error: a text for a person. */
};

/* Called when the request no longer belongs to the connection: it can be asked
 * again, or freed. */
typedef void client_request_done_fn(struct client_request *ask,
                                    const struct client_request_end *end);

/* Zeroed memory with a query, a deadline and 'done'. From cluster_conn_ask() to
 * 'done' it belongs to the connection and must not move. */
struct client_request {
    struct query query;
    struct cluster_conn_member *member; /* The member that asks; NULL: none. */
    uint64_t deadline_ns;
    uint64_t attempt_ms; /* Time for one node; 0: CLIENT_ATTEMPT_MS. */
    bool is_repeatable;  /* It has a REQ, or can be done twice. */
    bool is_read;        /* Repeatable, and its outcome does not matter. */
    bool is_once;        /* One attempt at one node, whatever its result. */
    bool is_urgent;      /* Sent before others that are not sent yet. */
    bool is_apart;       /* Names session and secret: needs no ATTACH. */
    bool blocks;         /* See CLUSTER_CONN_BLOCKING_MAX. */
    bool was_sent;       /* Sent before under its REQ, so possibly done. */
    /* Called before it is sent again, to rewrite the query. Or NULL. */
    void (*again)(struct client_request *ask, struct lease_clock now);
    client_request_done_fn *done;
    void *data;
    struct lease_clock sent; /* Time of the newest attempt. */
    /* The rest is private. */
    struct list in_asker;
    bool is_asked;
    bool is_sent;
    uint64_t begun_ns;
    uint64_t not_before_ns;
    uint32_t tried; /* Attempts that this or that node turned down. */
    uint32_t seen;  /* 1 << outcome */
};

/* Takes a request back; 'done' is not called. Its answer, if one is under way,
 * is dropped. Harmless if it is not asked. */
void client_request_cancel(struct cluster_conn *conn,
                           struct client_request *ask);

/* The worst outcome of its attempts so far, as an error; the asker's 'code' and
 * 'why' say it in words. It is still asked. */
int asking_judge(struct cluster_conn *conn, struct client_request *ask);

/* --- For the asker's files ------------------------------------------------ */

/* How an attempt ended. */
enum outcome {
    OUTCOME_NONE,
    OUTCOME_REFUSED,     /* Asking again would give the same error. */
    OUTCOME_NO_LEADER,   /* Nothing was done. */
    OUTCOME_BUSY,        /* Nothing was done. */
    OUTCOME_MOVED,       /* Nothing was done. */
    OUTCOME_UNREACHABLE, /* Nothing was done. */
    OUTCOME_DISTRUSTED,  /* Nothing was done: certificates. */
    OUTCOME_UNKNOWN,     /* It may have been done. */
    OUTCOME_STRANGER     /* The peer is not a hasp node. */
};

/* Initializes a request; the caller puts it into a list. */
void client_request_begin(struct cluster_conn *conn,
                          struct client_request *ask);
/* Records the outcome of an attempt; NONE is ignored. */
void client_request_count(struct client_request *ask, enum outcome outcome);
bool client_request_may_go_on(const struct client_request *ask);
/* True if the refusal that was just read is about the client's credentials, not
 * about the request. */
bool cluster_conn_is_refusal_of_asker(const struct cluster_conn *conn);
/* True if the refusal that was just read says nothing about an earlier attempt,
 * which may have been done, or may still get into the log. */
bool client_request_is_open_still(const struct cluster_conn *conn,
                                  const struct client_request *ask);
/* Ends it, with the reply that was just read (0) or the connection's 'code' and
 * 'why'. */
void client_request_finish(struct cluster_conn *conn,
                           struct client_request *ask, int error);
/* Ends it with the worst outcome of its attempts. */
void client_request_give_up(struct cluster_conn *conn,
                            struct client_request *ask);

/* Requests that wait to be sent, and are refused together. */
struct client_request_refused {
    struct list asks;
    char code[CLIENT_CODE_SIZE];
    char why[HASP_WHY_SIZE];
};

/* Takes the requests of one member or (NULL) of all, with the refusal that was
 * just read; those that may have been done continue. */
void client_request_take_refused(struct cluster_conn *conn,
                                 const struct cluster_conn_member *member,
                                 struct client_request_refused *ret_refused);
void client_request_end_refused(struct cluster_conn *conn,
                                struct client_request_refused *refused);

/* Reads an error reply into the connection's 'code' and 'why', records it, and
 * returns what it means for a repetition. */
enum outcome cluster_conn_read_error(struct cluster_conn *conn,
                                     struct bytes text);
/* Records the last error of the current endpoint. */
__attribute__((format(printf, 2, 3))) void
cluster_conn_note(struct cluster_conn *conn, const char *format, ...);
/* The pause after 'round' rounds without success. */
uint64_t cluster_conn_pause_ns(struct cluster_conn *conn, uint32_t round);

#endif /* HASP_CLIENT_CLIENT_REQUEST_H */
