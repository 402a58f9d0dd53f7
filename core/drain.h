/* SPDX-License-Identifier: MIT */

/* Draining: before its machine is serviced, a node gets rid of its tasks while
 * it keeps its vote and its copy.
 *
 * A leader hands leadership over, as often as it is elected. Requests of this
 * node's clients are refused (NOLEADER), except those that any node answers for
 * itself, so clients try another node; each connection is closed when it has no
 * unanswered request, or after DRAIN_GRACE_NS. A client that is closed has not
 * died, so no linger starts. Clients of the admin socket are served.
 *
 * It ends by NODE.DRAIN CANCEL, or with the process. */

#ifndef HASP_CORE_DRAIN_H
#define HASP_CORE_DRAIN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/units.h"

struct core;
struct conn;

#define DRAIN_GRACE_NS (2 * NS_PER_S)
/* Connections that are closed in a step, and the time between steps, so that
 * the other nodes do not get all clients in one moment. */
#define DRAIN_STEP_COUNT 100
#define DRAIN_STEP_NS (50 * NS_PER_MS)

struct drain {
    uint64_t began_ns; /* 0: it is not drained. */
    uint64_t step_ns;  /* When the next connections are closed. */
};

/* True if the voters that this node is connected with are no majority: when
 * it is stopped, nothing could be committed. Whether they are drained, too, is
 * not known here. */
bool drain_is_refused(const struct core *core, char why[HASP_WHY_SIZE]);
/* True if the node can be stopped: it is drained, does not lead, has no client,
 * and the others are a majority. */
bool drain_is_over(const struct core *core);
void drain_begin(struct core *core);
void drain_cancel(struct core *core);
/* True if a request of this connection is refused. */
bool drain_refuses(const struct core *core, const struct conn *conn);
/* The connections that are still to be closed. */
uint32_t drain_client_count(const struct core *core);
/* Closes some connections, in core_turn(); and when it is due. */
void drain_turn(struct core *core);
uint64_t drain_next(const struct core *core);

#endif /* HASP_CORE_DRAIN_H */
