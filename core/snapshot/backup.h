/* SPDX-License-Identifier: MIT */

/* RAFT.BACKUP: the asked node's state as a file for its client.
 *
 *     RAFT.BACKUP                   takes a snapshot, unless the newest one has
 *                                   all that was applied; tells its index, term
 *                                   and size, and which leader the node hears
 *     RAFT.PART index term offset   the next bytes of it, at most
 *                                   snapshot_chunk_size; none at its end
 *
 * The asked node answers of its own, so that a backup costs the leader nothing
 * unless it is asked; but for one question, when it is begun, whether who asks
 * still may: a node that hears nobody may have missed that he may no more. By
 * the local door there is no question, so that a node which has lost its
 * majority can still be saved. The file is read as it is asked for, from the
 * page cache where it has just been written and checked; nothing of it is kept
 * here. */

#ifndef HASP_CORE_SNAPSHOT_BACKUP_H
#define HASP_CORE_SNAPSHOT_BACKUP_H

#include <stdint.h>

#include "core/command.h"

#define BACKUP_READER_MAX 16

struct core;
struct request;

/* The connections that read one. Lives as long as the core. */
struct backup {
    struct backup_reader {
        uint64_t conn; /* 0: none. */
        uint64_t read_ns;
    } readers[BACKUP_READER_MAX];
};

/* A request that waited for a snapshot is answered: there is one, or 'error'
 * says why there is none. */
void backup_answer(struct core *core, struct request *request, int error);

/* Handlers of commands (core/command.h). */
command_parse_fn raft_part_parse;
command_run_fn raft_part_run;
command_read_fn raft_backup_read;

#endif /* HASP_CORE_SNAPSHOT_BACKUP_H */
