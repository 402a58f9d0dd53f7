/* SPDX-License-Identifier: MIT */

/* How a node begins: from what is on its disk, by founding a cluster, or by
 * joining one.
 *
 *     startup_open_disk()   the directory, the log, the snapshot, the table
 *     startup_from_disk()   goes on where it stopped, finishes a founding that
 *                         was interrupted, or begins to greet the others
 *     startup_when_due()    in each turn until it has begun: may it found or
 *                         join by now? (node/founding.h)
 *
 * Then the core runs on the port that is defined here. */

#ifndef HASP_NODE_STARTUP_H
#define HASP_NODE_STARTUP_H

#include <stdint.h>

#include "base/err.h"
#include "node/recovery.h"

struct hasp_node;

MUST_CHECK int startup_open_disk(struct hasp_node *node,
                                 struct recovery *recovery,
                                 char why[HASP_WHY_SIZE]);
/* This and the next report failure with turn_fail(). */
void startup_from_disk(struct hasp_node *node, struct recovery *recovery);
void startup_when_due(struct hasp_node *node, uint64_t now_ns);

#endif /* HASP_NODE_STARTUP_H */
