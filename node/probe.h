/* SPDX-License-Identifier: MIT */

/* Checks whether a new member is at its addresses, and reads the incarnation of
 * its data directory, which the log names.
 *
 * This node dials both addresses and sends RAFT.STATUS to the one for clients.
 * So a closed port, swapped addresses and another node's address are reported
 * before they are in the log.
 *
 * Threads: the loop's. */

#ifndef HASP_NODE_PROBE_H
#define HASP_NODE_PROBE_H

#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"

struct hasp_node;

/* The identity that a node appends to its errors until it serves. */
#define PROBE_IDENTITY "node=%" PRIu64 " incarnation=%016" PRIx64

struct probes {
    struct list probes; /* In progress; several if changes were given up. */
};

void probes_open(struct probes *probes);
/* Ends those in progress, while the loop runs, without a result. */
void probes_close(struct probes *probes);
bool probes_are_closed(const struct probes *probes);

/* For struct core_port; 'data' is the node. */
void probe_port_address(void *data, uint64_t number, uint64_t id,
                        const char *address);

#endif /* HASP_NODE_PROBE_H */
