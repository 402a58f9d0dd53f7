/* SPDX-License-Identifier: MIT */

/* What a start finds on disk, and what the core may begin with.
 *
 *     the vote      term and vote
 *     the log       all entries, with its first and last index
 *     the snapshot  the newest good one
 *     the table     the state as of its applied index, if it can be trusted
 *
 * The table is trusted if it was last written under this boot of the operating
 * system (or closed cleanly), no restore was under way, and its applied index
 * fits the log: applied + 1 >= first and applied <= last. Else it is rebuilt:
 * emptied, or filled from the snapshot; the log does the rest. So is one that
 * is damaged: the table is derived from the two others.
 *
 * A log that ends before the snapshot, or has another entry at its index, is
 * what an interrupted installation leaves: it is emptied and goes on after the
 * snapshot, if the mark of that very installation is there. A directory in
 * which parts are missing (a log without its beginning, a vote without a log),
 * or older than others (a log without that mark), has lost what this node told
 * others: it must not start. */

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
    /* Opens the table in the folder 'path', as table_open_lmdb() does. */
    int (*open_table)(void *data, const char *path, struct table **ret_table,
                      char why[HASP_WHY_SIZE]);
    void *data;
    /* What was opened, after an error as well: the caller closes it. */
    struct wal *wal;
    struct table *table;
};

struct recovery {
    struct replica_start start; /* For the core; borrows from what follows. */
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

/* Opens what is in the data directory and decides. On an error 'why' says what
 * to do. */
MUST_CHECK int recovery_run(struct recovery *recovery,
                            struct recovery_disk *disk,
                            char why[HASP_WHY_SIZE]);
/* The table, which recovery_run() had trusted, turns out to be damaged ('why'
 * says how): it is closed and set aside, and made anew from the snapshot and
 * the log. recovery_run() has seen that these are whole, with no gap between
 * them, so nothing is lost by that. Not more than DATADIR_DAMAGED_MAX times: a
 * disk, or a memory, that does this again and again is to be replaced, and
 * HASP_ECORRUPT says so. */
MUST_CHECK int recovery_replace_table(struct recovery *recovery,
                                      struct recovery_disk *disk,
                                      char why[HASP_WHY_SIZE]);
/* Replaces the table's content by 'file', or empties it if NULL; until that is
 * done nobody trusts the table. */
MUST_CHECK int recovery_fill_table(struct datadir *datadir, struct table *table,
                                   const struct snapshot_file *file);
/* After the core has begun. */
void recovery_done(struct recovery *recovery);

#endif /* HASP_NODE_RECOVERY_H */
