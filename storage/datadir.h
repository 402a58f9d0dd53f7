/* SPDX-License-Identifier: MIT */

/* The data directory of a node.
 *
 *     DIR/LOCK          held with flock() while the node runs
 *     DIR/identity      cluster id, node id, incarnation (text, key=value)
 *     DIR/vote          Raft's current term and vote (storage/vote_file.h)
 *     DIR/wal/          storage/wal.h
 *     DIR/snapshot/     storage/snapshot.h
 *     DIR/table/        storage/table.h
 *     DIR/trust         whether the table's files are complete: "clean",
 *                       "restoring", or "boot" and the id of the operating
 *                       system's boot under which it was last written
 *
 * Folders are made with mode 0700, files with 0600. The incarnation is a random
 * number made with the directory: a node that returns empty under an old id has
 * another incarnation, and its peers refuse it.
 *
 * Errors have a message for the operator: which file, what was tried, what to
 * do. Threads: one, except that a vote_saver saves the vote. */

#ifndef HASP_STORAGE_DATADIR_H
#define HASP_STORAGE_DATADIR_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/cluster_id.h"
#include "base/err.h"

struct datadir;

struct datadir_identity {
    uint8_t cluster_id[CLUSTER_ID_SIZE]; /* All zero: not yet known. */
    uint64_t node_id;
    uint64_t incarnation;
};

/* Opens the directory, creates it if it is missing, and takes its lock.
 * 'node_id' must agree with the identity found there. Its parent must exist.
 * 'ret_is_new' is set if there was no identity. Errors: HASP_EBUSY, another
 * process has it; HASP_EINVALID, it belongs to another node; HASP_EIO;
 * HASP_ENOSPC; HASP_ECORRUPT. */
MUST_CHECK int datadir_open(const char *path, uint64_t node_id,
                            uint64_t random_incarnation,
                            struct datadir **ret_datadir, bool *ret_is_new,
                            char why[HASP_WHY_SIZE]);
/* Opens an existing directory of any node and takes its lock. The same errors;
 * HASP_ENOENT: it is not a data directory. */
MUST_CHECK int datadir_open_existing(const char *path,
                                     struct datadir **ret_datadir,
                                     char why[HASP_WHY_SIZE]);
void datadir_close(struct datadir *datadir);

const struct datadir_identity *datadir_identity(const struct datadir *datadir);

/* Writes the cluster id, durably; done once, at the bootstrap or when a node
 * that joins first hears from its cluster. */
MUST_CHECK int datadir_set_cluster(struct datadir *datadir,
                                   const uint8_t cluster_id[CLUSTER_ID_SIZE]);
/* The same in two steps, for a caller that must not wait for the disk. The id
 * is known after the first, and durable after the second, which another thread
 * may do with a copy of the identity. The same errors, with a message. */
void datadir_know_cluster(struct datadir *datadir,
                          const uint8_t cluster_id[CLUSTER_ID_SIZE]);
MUST_CHECK int datadir_save_identity(const struct datadir *datadir,
                                     const struct datadir_identity *identity,
                                     char why[HASP_WHY_SIZE]);

/* DIR, DIR/wal and so on; the text lives as long as 'datadir'. */
const char *datadir_path(const struct datadir *datadir);
const char *datadir_wal_path(const struct datadir *datadir);
const char *datadir_snapshot_path(const struct datadir *datadir);
const char *datadir_table_path(const struct datadir *datadir);

/* Raft's hard state, durable on return. (0, 0) before the first save.
 * HASP_ECORRUPT if no record is valid or the file is missing: a node that has
 * forgotten its vote must not vote. */
MUST_CHECK int datadir_load_vote(struct datadir *datadir, uint64_t *ret_term,
                                 uint64_t *ret_voted_for,
                                 char why[HASP_WHY_SIZE]);
MUST_CHECK int datadir_save_vote(struct datadir *datadir, uint64_t term,
                                 uint64_t voted_for);

/* True if the table was last written under this boot of the operating system or
 * closed cleanly, and no restore was under way: its pages are all there. The
 * caller still compares its applied index with the log. */
bool datadir_table_is_trusted(const struct datadir *datadir);
/* Removes an untrusted table's files. */
MUST_CHECK int datadir_table_remove(struct datadir *datadir);
/* Sets a damaged table aside as 'table.damaged-<n>', so that an empty one can
 * be made in its place; '*ret_number' is n. HASP_EFULL: there are
 * DATADIR_DAMAGED_MAX already, and the table has not been moved. */
#define DATADIR_DAMAGED_MAX 3
MUST_CHECK int datadir_table_set_aside(struct datadir *datadir,
                                       int *ret_number);
/* The table has been read and is complete: from now on only this boot may trust
 * it. */
MUST_CHECK int datadir_table_opened(struct datadir *datadir);
/* Marks a restore or the first reading of the table as under way or over,
 * durably, so that a process which dies of it does not try again. */
MUST_CHECK int datadir_table_restoring(struct datadir *datadir,
                                       bool is_restoring);
/* After the table was flushed to disk and closed: any boot may trust it. */
MUST_CHECK int datadir_table_closed(struct datadir *datadir);

/* Marks the installation of a received snapshot: from before that gets its name
 * until the log has been emptied. A start that finds a log older than the
 * snapshot empties it only under this mark (rule 23): without it the log does
 * not belong here, and acknowledged entries are lost. Each is durable on
 * return. */
MUST_CHECK int datadir_install_begin(struct datadir *datadir,
                                     uint64_t log_index, uint64_t term);
MUST_CHECK int datadir_install_end(struct datadir *datadir);
/* True if this very snapshot was being installed. */
bool datadir_is_installing(const struct datadir *datadir, uint64_t log_index,
                           uint64_t term);

/* Bytes free for this user on the file system of the directory. */
MUST_CHECK int datadir_space(const struct datadir *datadir, uint64_t *ret_free);

#endif /* HASP_STORAGE_DATADIR_H */
