/* SPDX-License-Identifier: MIT */

/* Is a new member there, where it is said to be, and with which data directory?
 * This node dials both of its addresses and asks behind the clients' one whose
 * it is (RAFT.STATUS), so that a port that is shut, two addresses that were
 * swapped and another node's are told before they stand in the log, and so that
 * the log can name the directory.
 *
 * Threads: the loop's. */

#ifndef HASP_NODE_PROBE_H
#define HASP_NODE_PROBE_H

#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"

struct hasp_node;

/* How a node that has not begun says who it is, at the end of its refusals. */
#define PROBE_IDENTITY "node=%" PRIu64 " incarnation=%016" PRIx64

struct probes {
    struct list probes; /* Under way; more than one if changes are given up. */
};

void probes_open(struct probes *probes);
/* Ends those that are under way, as the loop goes on; nobody is told. */
void probes_close(struct probes *probes);
bool probes_are_closed(const struct probes *probes);

/* Of struct core_port; 'data' is the node. */
void probe_port_address(void *data, uint64_t number, uint64_t id,
                        const char *address);

#endif /* HASP_NODE_PROBE_H */
