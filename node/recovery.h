/* SPDX-License-Identifier: MIT */

/* Reads the disk at the start and decides from what the core can start.
 *
 *     the vote      term and vote
 *     the log       all entries, with its first and last index
 *     the snapshot  the newest good one
 *     the table     the state as of its applied index, if it can be trusted
 *
 * The table is trusted if it was last written under this boot of the operating
 * system (or closed cleanly), no restore was under way, and its applied index
 * fits the log: applied + 1 >= first and applied <= last (rule 23). Otherwise
 * it is rebuilt: emptied, or filled from the snapshot, and then updated from
 * the log. A damaged table is rebuilt in the same way, since it is derived from
 * the two others.
 *
 * An interrupted installation leaves a log that ends before the snapshot, or
 * has another entry at its index. If the mark of that installation is present,
 * the log is emptied and continues after the snapshot. A directory with missing
 * parts (a log without its beginning, a vote without a log) or with older parts
 * (such a log without the mark) has lost what this node promised to others: it
 * must not start. */

#ifndef HASP_NODE_RECOVERY_H
#define HASP_NODE_RECOVERY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/err.h"
#include "raft/replica.h"
#include "storage/snapshot.h"
#include "storage/table.h"
#include "storage/wal.h"

struct datadir;

/* The disk of a node that starts. */
struct recovery_disk {
    struct datadir *datadir; /* Open. */
    struct wal_options wal_options;
    /* Opens the table in the folder 'path', like table_open_lmdb(). */
    int (*open_table)(void *data, const char *path, struct table **ret_table,
                      char why[HASP_WHY_SIZE]);
    void *data;
    /* Opened by recovery, also if it failed; the caller closes them. */
    struct wal *wal;
    struct table *table;
};

struct recovery {
    /* For the core; borrows from the members below. */
    struct replica_start start;
    bool is_empty; /* Neither log nor snapshot: may found or join. */
    bool has_snapshot;
    struct snapshot_file snapshot;
    struct replica_entry *entries;
    uint32_t entry_count;
    uint32_t entry_capacity;
    uint8_t **chunk; /* Bodies of the entries. */
    uint32_t chunk_count;
    uint8_t *chunk_at; /* Free part of the last one. */
    size_t chunk_left;
};

/* Opens and checks the parts of the data directory. On an error 'why' says what
 * to do. */
MUST_CHECK int recovery_run(struct recovery *recovery,
                            struct recovery_disk *disk,
                            char why[HASP_WHY_SIZE]);
/* Replaces a table that recovery_run() trusted but that is damaged ('why' says
 * how): closes it, sets it aside and rebuilds it from the snapshot and the log.
 * Nothing is lost by that, since recovery_run() has checked that these are
 * complete. After DATADIR_DAMAGED_MAX times it returns HASP_ECORRUPT: a disk or
 * memory that damages the table repeatedly must be replaced. */
MUST_CHECK int recovery_replace_table(struct recovery *recovery,
                                      struct recovery_disk *disk,
                                      char why[HASP_WHY_SIZE]);
/* Replaces the table's content with 'file', or empties it if NULL. A start does
 * not trust the table until this is complete. */
MUST_CHECK int recovery_fill_table(struct datadir *datadir, struct table *table,
                                   const struct snapshot_file *file);
/* Call it after the core has started. */
void recovery_done(struct recovery *recovery);

#endif /* HASP_NODE_RECOVERY_H */
