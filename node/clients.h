/* SPDX-License-Identifier: MIT */

/* Connections of clients.
 *
 * Each is a stream, a RESP parser and a few list nodes. Its number ('conn' in
 * the core) is a slot and the slot's generation, so that a late answer to a
 * closed connection is dropped. Requests are parsed as long as the core does
 * not block the connection; a blocked one (a request waits in a queue, or too
 * many are unanswered) keeps its bytes until the core unblocks it. A connection
 * has no timer: those with an unfinished request are in one list, in the order
 * in which the request began, and the housekeeping checks the head.
 *
 * Their work is charged to an account (base/account.h) whose payers are users
 * and, for unauthenticated connections, origins. Until it is spent, requests
 * are served as they arrive. Then the streams rest, with their bytes in the
 * kernel, and loop.c has the account serve one request of each payer, in turn.
 *
 * Limits: connections in all (which leaves 256 descriptors for the node itself)
 * and per origin; at the first limit, the oldest connection that has done
 * nothing so far is closed (core_client_is_fresh()). A request must be
 * complete within 10 s. Streams have bounds for input and output. The unsent
 * bytes of all clients together are bounded (CLIENTS_UNSENT_MAX): beyond that,
 * connections with more than their share are closed. */

#ifndef HASP_NODE_CLIENTS_H
#define HASP_NODE_CLIENTS_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "base/bytes.h"
#include "base/err.h"
#include "base/list.h"
#include "base/log_limit.h"
#include "base/units.h"
#include "net/stream.h"

#define CLIENT_REQUEST_NS (10 * NS_PER_S)
/* Descriptors that clients leave for the log, the peers, HTTP and the rest. */
#define CLIENTS_FILES_LEFT 256
#define CLIENTS_UNSENT_MAX (UINT64_C(512) << 20)

/* Reasons for which this node closes connections. */
#define CLIENTS_CUT_REASONS 7
extern const char *const clients_cut_reason[CLIENTS_CUT_REASONS];

/* Limits of unauthenticated connections while access is required: their time,
 * their bytes, and their part of all connections. */
#define CLIENTS_UNKNOWN_NS (10 * NS_PER_S)
#define CLIENTS_UNKNOWN_SIZE (16u << 10)
#define CLIENTS_UNKNOWN_PART 8

struct hasp_node;
struct hasp_node_limits;
struct node_client;
struct listener;
struct origin;

struct clients {
    struct hasp_node *node;
    struct stream_limits limits; /* Each stream's. */
    struct stream_pace pace;     /* Closing streams, paced. */
    struct listener *listener;
    struct listener *door;  /* The admin socket. */
    struct listener *local; /* At listen.local; NULL: none. */
    struct node_client **slot;
    uint32_t *generation;
    uint32_t *vacant; /* A stack of free slots. */
    uint32_t vacant_count;
    uint32_t slot_count;
    uint32_t count;
    uint32_t count_max;
    /* Candidates for clients_make_room(), oldest first. */
    struct list fresh;
    struct list unknown; /* Possibly unauthenticated, oldest first. */
    uint32_t unknown_count;
    uint64_t sift_by_ns; /* Check those that came before; 0: none. */
    uint32_t per_origin_max;
    struct list dirty;      /* With output to flush at the end of the turn. */
    struct list resumed;    /* Unblocked in this turn. */
    struct list unfinished; /* With an incomplete request; oldest first. */
    struct origin *origins; /* Hash table by host. */
    struct buffer nowhere;  /* Output to closed connections. */
    uint64_t unsent_size;   /* Of all, each as last counted. */
    uint64_t unsent_max;
    uint64_t request_count; /* For the metrics. */
    uint64_t refused_count;
    uint64_t tls_failed_count;
    struct log_limit tls_failures;
    uint64_t cut_count[CLIENTS_CUT_REASONS]; /* As clients_cut_reason[]. */
};

/* Listens. 'why' says what failed. */
MUST_CHECK int clients_open(struct clients *clients, struct hasp_node *node,
                            const char *address, char why[HASP_WHY_SIZE]);
/* Listens at a UNIX socket for this machine (net/local.h). */
MUST_CHECK int clients_open_local(struct clients *clients, const char *path,
                                  char why[HASP_WHY_SIZE]);
/* Listens at the admin socket in the data directory. */
MUST_CHECK int clients_open_door(struct clients *clients,
                                 char why[HASP_WHY_SIZE]);
/* The core has started: reports the open connections to it. Until then every
 * request is answered with NOLEADER. */
void clients_begin(struct clients *clients);
/* For future connections: the limits of their number. */
void clients_use_limits(struct clients *clients,
                        const struct hasp_node_limits *of_node);
/* For future connections. */
void clients_use_tls(struct clients *clients, enum tls_mode mode,
                     struct tls_context *context);
/* Stops accepting connections. */
void clients_refuse(struct clients *clients);
/* Closes all connections once their output is sent. */
void clients_close(struct clients *clients);
/* Closes the remaining connections at once. */
void clients_cut(struct clients *clients);
/* Call it after the last connection is closed. */
void clients_done(struct clients *clients);

/* At the end of a turn: sends the answers. */
void clients_flush(struct clients *clients);
/* Continues to parse connections that the core has unblocked. */
void clients_resume(struct clients *clients);
/* True if clients_resume() has something to do. */
bool clients_have_resumed(const struct clients *clients);
/* Housekeeping: closes connections with a request that takes too long. */
void clients_tick(struct clients *clients, uint64_t now_ns);

/* For struct core_port; 'data' is the node. */
struct buffer *clients_port_output(void *data, uint64_t conn);
void clients_port_close(void *data, uint64_t conn, const char *reason);
void clients_port_user(void *data, uint64_t conn, uint64_t user);
void clients_port_block(void *data, uint64_t conn, bool is_blocked);

#endif /* HASP_NODE_CLIENTS_H */
