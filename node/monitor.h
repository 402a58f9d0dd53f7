/* SPDX-License-Identifier: MIT */

/* Health and metrics of a node over HTTP.
 *
 *     /healthz   200 as long as the loop runs: the process is alive
 *     /readyz    200 if clients are served here: this node leads and serves, or
 *                is connected to the leader and not far behind it (node/lag.h);
 *                else 503 and the reason. A node whose disk is full says so and
 *                is ready: it keeps leases alive, reads, forwards, and another
 *                with room may lead. To take all such nodes away from their
 *                clients would end every session for the lack of disk space
 *     /metrics   numbers for Prometheus (text format 0.0.4) */

#ifndef HASP_NODE_MONITOR_H
#define HASP_NODE_MONITOR_H

#include "base/bytes.h"
#include "base/err.h"
#include "node/lag.h"

struct core;
struct hasp_node;
struct http_reply;

struct monitor {
    struct hasp_node *node;
    struct lag lag;
    /* The metrics of this iteration of the loop, so that they are made once,
     * however many clients ask. */
    struct buffer metrics;
    uint64_t metrics_ms; /* Loop time of 'metrics'; 0: never made. */
};

void monitor_done(struct monitor *monitor);
/* Answers one of these paths; 'reply' has status 200 at first. */
void monitor_answer(struct monitor *monitor, const char *path,
                    struct http_reply *reply);
/* Once a turn, with or without HTTP: records the progress of the core. */
void monitor_note(struct monitor *monitor, const struct core *core,
                  uint64_t now_ns);

#endif /* HASP_NODE_MONITOR_H */
