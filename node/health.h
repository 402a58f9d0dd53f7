/* SPDX-License-Identifier: MIT */

/* What a node tells about itself over HTTP.
 *
 *     /healthz   200 as long as the loop turns: the process is alive
 *     /readyz    200 if clients are served here: this node leads and serves, or
 *                is connected to the leader; else 503 and the reason
 *     /metrics   numbers for Prometheus (text format 0.0.4) */

#ifndef HASP_NODE_HEALTH_H
#define HASP_NODE_HEALTH_H

#include "base/err.h"

struct hasp_node;
struct http;

struct health {
    struct hasp_node *node;
    struct http *http; /* NULL: no HTTP. */
};

/* Listens on 'address'. */
MUST_CHECK int health_open(struct health *health, struct hasp_node *node,
                           const char *address, char why[HASP_WHY_SIZE]);
/* The memory goes when the loop has turned once more. */
void health_close(struct health *health);

#endif /* HASP_NODE_HEALTH_H */
