/* SPDX-License-Identifier: MIT */

/* The cluster that a process works with. It keeps the process from locking at
 * another cluster that answers at one of its endpoints, e.g. a node that
 * founded a cluster of its own.
 *
 * Each node's answer to HELLO names its cluster id, and the ids from which that
 * was restored. The first id at which a request succeeded becomes the known
 * one. A node with another id is foreign, and the client tries the next
 * endpoint, unless
 *
 *     its cluster was restored from the known one, or
 *  *     every endpoint had this same id when it was last reached, and no
 *  *     grant of the known cluster can still be trusted.
 *
 * All connections of a process to the same endpoints share this object. It is
 * never stored.
 *
 * Threads: 'guard' makes it safe to be shared among threads. */

#ifndef HASP_CLIENT_KNOWN_CLUSTER_H
#define HASP_CLIENT_KNOWN_CLUSTER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/cluster_id.h"
#include "base/err.h"
#include "net/resp.h"

/* The address of MOVED, which is not an endpoint. */
#define KNOWN_CLUSTER_ELSEWHERE UINT32_MAX

/* Result of checking a node's answer to HELLO. */
enum cluster_view {
    CLUSTER_FITS,
    CLUSTER_UNBORN,        /* The node has no cluster yet. */
    CLUSTER_STRANGER,      /* It belongs to another cluster ... */
    CLUSTER_STRANGER_STILL /* ... as when it was last reached. */
};

struct known_cluster {
    /* Locks (true) or unlocks; or NULL. */
    void (*guard)(struct known_cluster *known, bool enters);
    char id[CLUSTER_ID_TEXT_SIZE]; /* "": no request has succeeded yet. */
    /* The foreign id that each endpoint last had; "": none. */
    char (*shown)[CLUSTER_ID_TEXT_SIZE];
    uint32_t count;
    uint64_t believed_until_ns; /* CLOCK_BOOTTIME */
    uint32_t endless_count;     /* Open durable sessions. */
};

/* 'count' is that of the endpoints. HASP_ENOMEM. */
MUST_CHECK int known_cluster_init(struct known_cluster *known, uint32_t count);
void known_cluster_done(struct known_cluster *known);

/* Checks the answer to HELLO from 'endpoint', and copies the node's cluster id.
 * An answer without the key "cluster" fits, with "". */
enum cluster_view known_cluster_see(struct known_cluster *known,
                                    uint32_t endpoint,
                                    const struct resp_reply *reply,
                                    uint64_t now_ns,
                                    char ret_id[CLUSTER_ID_TEXT_SIZE]);
/* The endpoint was not reached. */
void known_cluster_miss(struct known_cluster *known, uint32_t endpoint);
/* A request to a node with this cluster id has succeeded. */
void known_cluster_learn(struct known_cluster *known, const char *id);
/* A lease is trusted until 'until_ns'. */
void known_cluster_believe(struct known_cluster *known, uint64_t until_ns);
/* A durable session was opened (+1) or has ended (-1). */
void known_cluster_endless(struct known_cluster *known, int operation);
/* Copies the known id. */
void known_cluster_id(struct known_cluster *known,
                      char ret_id[CLUSTER_ID_TEXT_SIZE]);

#endif /* HASP_CLIENT_KNOWN_CLUSTER_H */
