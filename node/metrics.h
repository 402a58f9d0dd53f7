/* SPDX-License-Identifier: MIT */

/* The numbers of /metrics (Prometheus' text format 0.0.4). All of them are kept
 * up as things happen or are read in constant time, so that they may be asked
 * for every second; docs/monitoring.md says what to look at. */

#ifndef HASP_NODE_METRICS_H
#define HASP_NODE_METRICS_H

#include <stdbool.h>

#include "base/bytes.h"

struct hasp_node;

/* Appends them. */
void metrics_put(const struct hasp_node *node, bool is_ready,
                 struct buffer *out);

#endif /* HASP_NODE_METRICS_H */
