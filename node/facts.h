/* SPDX-License-Identifier: MIT */

/* The numbers of RAFT.STATUS that the core does not know: the process, its
 * disk, and the settings that should be the same at all members. 'hasp doctor'
 * judges them.
 *
 * Reading /proc takes longer the more files are open, so its numbers are reused
 * for FACTS_FRESH_NS.
 *
 * Threads: the loop's. */

#ifndef HASP_NODE_FACTS_H
#define HASP_NODE_FACTS_H

#include <stdint.h>

#include "base/units.h"
#include "core/core.h"
#include "node/process.h"

#define FACTS_FRESH_NS (5 * NS_PER_S)

struct facts {
    uint64_t read_ns; /* When 'process' was read; 0: never. */
    struct process process;
};

/* For struct core_port; 'data' is the node. */
void facts_port(void *data, struct core_facts *ret_facts);

#endif /* HASP_NODE_FACTS_H */
