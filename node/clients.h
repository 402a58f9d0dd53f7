/* SPDX-License-Identifier: MIT */

/* Connections of clients.
 *
 * Each is a stream, a RESP parser and a few list nodes; its number ('conn' to
 * the core) is a slot and the slot's generation, so that a late answer to one
 * that has gone finds nobody. Requests are parsed as long as the core does not
 * block the connection; a blocked one (a request waits in a queue, or too many
 * are unanswered) keeps its bytes until the core lets it go on. No timer stands
 * by a connection: those with an unfinished request hang in one list in the
 * order in which it began, and the housekeeping looks at its head.
 *
 * What is done for them is shared by an account (base/account.h) whose payers
 * are users and, for those that have not said who they are, origins. While it
 * lasts, requests are served as they come. Else the stream rests, with its
 * bytes in the kernel, and loop.c has the account serve one request of each
 * payer, in turn.
 *
 * Limits: connections in all (and so many that 256 descriptors are left for the
 * node itself), and per address of origin; at the first, the oldest makes room
 * that has done nothing so far (core_client_is_stranger()); 10 s for one
 * request to become whole; the stream's bounds for input and output. What waits
 * for all clients together is bounded, too (CLIENTS_UNSENT_MAX): beyond it,
 * those of them that read too slowly for their share are closed. */

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

/* Why this node closes a connection that it does not want any more. */
#define CLIENTS_CUT_REASONS 7
extern const char *const clients_cut_reason[CLIENTS_CUT_REASONS];

/* Of those who have not said who they are, while access is required: the time,
 * the bytes, and the part of all connections that they have. */
#define CLIENTS_UNKNOWN_NS (10 * NS_PER_S)
#define CLIENTS_UNKNOWN_SIZE (16u << 10)
#define CLIENTS_UNKNOWN_PART 8

struct hasp_node;
struct node_client;
struct listener;
struct origin;

struct clients {
    struct hasp_node *node;
    struct stream_limits limits; /* Of each. */
    struct stream_pace pace;     /* Those that go at once. */
    struct listener *listener;
    struct listener *door;  /* The local one. */
    struct listener *local; /* At listen.local; NULL: none. */
    struct node_client **slot;
    uint32_t *generation;
    uint32_t *vacant; /* A stack of free slots. */
    uint32_t vacant_count;
    uint32_t slot_count;
    uint32_t count;
    uint32_t count_max;
    struct list strangers; /* Those, and some more; the oldest first. */
    struct list unknown;   /* Who may have yet to say who they are, likewise. */
    uint32_t unknown_count;
    uint64_t sift_by_ns; /* Those that came before are looked at; 0: none. */
    uint32_t per_origin_max;
    struct list dirty;      /* Have output for the end of the turn. */
    struct list resumed;    /* Were let go on in this turn. */
    struct list unfinished; /* Half a request has been read; oldest first. */
    struct origin *origins; /* Hash table by host. */
    struct buffer nowhere;  /* Output of connections that have gone. */
    uint64_t unsent_size;   /* Of all, each as it was last looked at. */
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
/* Likewise at a path, for this machine (net/local.h). */
MUST_CHECK int clients_open_local(struct clients *clients, const char *path,
                                  char why[HASP_WHY_SIZE]);
/* Likewise by the local door, in the data directory. */
MUST_CHECK int clients_open_door(struct clients *clients,
                                 char why[HASP_WHY_SIZE]);
/* The core has begun: it hears of the connections that stand. Before, every
 * request was answered with NOLEADER. */
void clients_begin(struct clients *clients);
/* For connections to come. */
void clients_use_tls(struct clients *clients, enum tls_mode mode,
                     struct tls_context *context);
/* No new connections from now on. */
void clients_refuse(struct clients *clients);
/* Closes all connections after their output was sent. */
void clients_close(struct clients *clients);
/* Closes those that have not gone yet at once. */
void clients_cut(struct clients *clients);
/* After the last one has gone. */
void clients_done(struct clients *clients);

/* The end of a turn: sends what was answered. */
void clients_flush(struct clients *clients);
/* Parses on where the core has lifted a block. */
void clients_resume(struct clients *clients);
/* True if clients_resume() has something to do. */
bool clients_have_resumed(const struct clients *clients);
/* Housekeeping: closes those that do not finish a request. */
void clients_tick(struct clients *clients, uint64_t now_ns);

/* Of struct core_port; 'data' is the node. */
struct buffer *clients_port_output(void *data, uint64_t conn);
void clients_port_close(void *data, uint64_t conn, const char *reason);
void clients_port_user(void *data, uint64_t conn, uint64_t user);
void clients_port_block(void *data, uint64_t conn, bool is_blocked);

#endif /* HASP_NODE_CLIENTS_H */
