/* SPDX-License-Identifier: MIT */

/* The restore of include/hasp/node.h with what it draws by chance as an
 * argument, so that the simulator runs it: all that it does to files goes
 * through storage/port.h. */

#ifndef HASP_NODE_BACKUP_H
#define HASP_NODE_BACKUP_H

#include "base/cluster_id.h"
#include "base/err.h"
#include "include/hasp/node.h"

/* Of the new life: nobody had them before. */
struct backup_chance {
    uint8_t cluster_id[CLUSTER_ID_SIZE];
    uint64_t incarnation; /* Of the directory; not 0, as the next. */
    uint64_t log_id;
};

/* Which states this version understands, of all that loads one here:
 * FEATURE_LEVEL unless a test says otherwise. */
void backup_set_level(uint32_t feature_level);
/* lockfsm_set_slice() of all that applies a log here; as that, for tests. */
void backup_set_slice(uint32_t entry_slice);

/* As hasp_node_restore(). Until the directory is whole haspd refuses it: a
 * cluster is known there, and its log is missing. */
MUST_CHECK int backup_new_life(const struct hasp_node_options *options,
                               const char *path, uint64_t quarantine_ms,
                               bool suspends_users,
                               const struct backup_chance *chance,
                               struct hasp_node_snapshot *ret_snapshot,
                               char why[HASP_NODE_WHY_SIZE]);

#endif /* HASP_NODE_BACKUP_H */
