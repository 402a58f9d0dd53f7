/* SPDX-License-Identifier: MIT */

/* The numbers of /metrics (Prometheus' text format 0.0.4). All of them are
 * maintained incrementally or read in constant time, so they can be scraped
 * every second; docs/monitoring.md explains them. */

#ifndef HASP_NODE_METRICS_H
#define HASP_NODE_METRICS_H

#include <stdbool.h>

#include "base/bytes.h"

struct hasp_node;

/* Appends them. */
void metrics_put(const struct hasp_node *node, bool is_ready,
                 struct buffer *out);

#endif /* HASP_NODE_METRICS_H */
