/* SPDX-License-Identifier: MIT */

/* Which cluster a process works with, so that it does not lock at another one
 * which happens to answer at one of its endpoints: a node that has founded a
 * cluster of its own, say.
 *
 * Each node says in its answer to HELLO to which life of a cluster it belongs,
 * and from which lives that was restored. The first life at which something was
 * done becomes the known one. A node of another life is a stranger, and is left
 * for the next endpoint, unless
 *
 *     its life was restored from the known one, or
 *     every endpoint showed this same life when it was reached last, and no
 *     belief is left in a grant of the known life.
 *
 * All connections of a process to the same endpoints share one of these. It is
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

/* An address that a node has named (MOVED); it is not an endpoint. */
#define KNOWN_CLUSTER_ELSEWHERE UINT32_MAX

/* How a node's answer to HELLO is judged. */
enum cluster_view {
    CLUSTER_FITS,
    CLUSTER_UNBORN,        /* The node belongs to no life yet. */
    CLUSTER_STRANGER,      /* It belongs to another one, ... */
    CLUSTER_STRANGER_STILL /* ... as it did when it was reached last. */
};

struct known_cluster {
    /* Enters (true) or leaves what one thread does at a time; or NULL. */
    void (*guard)(struct known_cluster *known, bool enters);
    char id[CLUSTER_ID_TEXT_SIZE]; /* "": nothing was done yet. */
    /* The other life that each endpoint has shown last; "": none. */
    char (*shown)[CLUSTER_ID_TEXT_SIZE];
    uint32_t count;
    uint64_t believed_until_ns; /* CLOCK_BOOTTIME */
    uint32_t endless_count;     /* Sessions without end that are open. */
};

/* 'count' is that of the endpoints. HASP_ENOMEM. */
MUST_CHECK int known_cluster_init(struct known_cluster *known, uint32_t count);
void known_cluster_done(struct known_cluster *known);

/* Reads the answer to HELLO from 'endpoint', and copies the node's life. An
 * answer without the key "cluster" fits, with "". */
enum cluster_view known_cluster_see(struct known_cluster *known,
                                    uint32_t endpoint,
                                    const struct resp_reply *reply,
                                    uint64_t now_ns,
                                    char ret_id[CLUSTER_ID_TEXT_SIZE]);
/* That endpoint was not reached. */
void known_cluster_miss(struct known_cluster *known, uint32_t endpoint);
/* A node of this life has done something. */
void known_cluster_learn(struct known_cluster *known, const char *id);
/* A lease is believed until then. */
void known_cluster_believe(struct known_cluster *known, uint64_t until_ns);
/* A session without end has been opened (+1) or has ended (-1). */
void known_cluster_endless(struct known_cluster *known, int operation);
/* Copies the known id. */
void known_cluster_id(struct known_cluster *known,
                      char ret_id[CLUSTER_ID_TEXT_SIZE]);

#endif /* HASP_CLIENT_KNOWN_CLUSTER_H */
