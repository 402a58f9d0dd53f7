/* SPDX-License-Identifier: MIT */

/* A lone founder: a node that is the only voter of its cluster, while a node
 * that should be its peer belongs to another cluster.
 *
 * Such a node was most often started without its configuration, or with an
 * empty directory, and has founded a cluster of its own. Its clients would
 * acquire locks that others hold in the other cluster. So it serves no clients
 * until a minute has passed without such a HELLO: requests are answered
 * NOLEADER, and connections are closed once. Requests to the node itself are
 * answered.
 *
 * Anybody can send a HELLO as a member of another cluster, so the caller passes
 * on only HELLOs that have proved something (node/members.c), and a node whose
 * cluster has other voters ignores them: a majority confirms that it is not
 * alone. */

#ifndef HASP_CORE_MEMBERS_APART_H
#define HASP_CORE_MEMBERS_APART_H

#include <stdbool.h>
#include <stdint.h>

#include "base/address.h"

struct core;

/* Lives as long as the core. */
struct apart {
    uint64_t until_ns; /* 0: it serves clients. */
    uint64_t from;     /* The node that sent the last HELLO ... */
    char address[ADDRESS_SIZE];
    char cluster[9]; /* ... and the beginning of its cluster's id. */
};

/* Serves clients again when the time is over. */
void apart_turn(struct core *core);
uint64_t apart_next(const struct core *core);

#endif /* HASP_CORE_MEMBERS_APART_H */
