/* SPDX-License-Identifier: MIT */

/* The restore of include/hasp/node.h with its random numbers as an argument, so
 * that the simulator can run it. All access to files goes through
 * storage/port.h. */

#ifndef HASP_NODE_BACKUP_H
#define HASP_NODE_BACKUP_H

#include "base/cluster_id.h"
#include "base/err.h"
#include "include/hasp/node.h"

/* Random numbers of the new epoch; never used before. */
struct backup_chance {
    uint8_t cluster_id[CLUSTER_ID_SIZE];
    uint64_t incarnation; /* The directory's; not 0. */
    uint64_t log_id;
};

/* Sets the highest feature level of states that are loaded here: FEATURE_LEVEL
 * unless a test sets another. */
void backup_set_level(uint32_t feature_level);
/* Sets lockfsm_set_slice() of all states here, for tests. */
void backup_set_slice(uint32_t entry_slice);

/* As hasp_node_restore(). Until the directory is complete haspd refuses it,
 * since it names a cluster but has no log. */
MUST_CHECK int backup_new_life(const struct hasp_node_options *options,
                               const char *path, uint64_t quarantine_ms,
                               bool suspends_users,
                               const struct backup_chance *chance,
                               struct hasp_node_snapshot *ret_snapshot,
                               char why[HASP_NODE_WHY_SIZE]);

#endif /* HASP_NODE_BACKUP_H */
