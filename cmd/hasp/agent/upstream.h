/* SPDX-License-Identifier: MIT */

/* The agent's connection to the cluster, on a thread of its own: it is kept
 * warm, and SESSION.DIED is sent at once. A node that does not answer within
 * UPSTREAM_ATTEMPT_MS is left for the next one, with more patience each time;
 * the request can be repeated. */

#ifndef HASP_CMD_HASP_AGENT_UPSTREAM_H
#define HASP_CMD_HASP_AGENT_UPSTREAM_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "cmd/hasp/agent/ties.h"

#define UPSTREAM_ATTEMPT_MS 200
#define UPSTREAM_ATTEMPT_MAX_MS 2000
#define UPSTREAM_PING_MS 5000

struct tool;
struct upstream;

/* Starts the thread, which uses the client of 'tool' from now on. HASP_EIO. */
MUST_CHECK int upstream_start(struct tool *tool,
                              struct upstream **ret_upstream);
/* Ends the thread; a report under way is waited for. NULL is ignored. */
void upstream_stop(struct upstream *upstream);
/* Readable once a report is over. */
int upstream_fd(const struct upstream *upstream);
/* Reports the deaths; none may be under way. */
void upstream_report(struct upstream *upstream, const struct tie_death *deaths,
                     uint32_t count);
/* True if the report is over. */
bool upstream_take(struct upstream *upstream, enum tie_result *ret_result);
/* When the cluster last answered, by client_now_ns(); 0: never. */
uint64_t upstream_heard_ns(struct upstream *upstream);

#endif /* HASP_CMD_HASP_AGENT_UPSTREAM_H */
