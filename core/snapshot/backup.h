/* SPDX-License-Identifier: MIT */

/* RAFT.BACKUP: the asked node's state as a file for its client.
 *
 *     RAFT.BACKUP                   takes a snapshot, unless the newest one has
 *                                   everything applied; returns its index, term
 *                                   and size, and the leader that the node
 * hears RAFT.PART index term offset   the next bytes of it, at most
 *                                   snapshot_chunk_size; none at its end
 *
 * The asked node answers by itself, so that a backup costs the leader nothing
 * unless the leader is asked. The exception is one question to the leader, when
 * the backup starts: whether the requester still has the right, because a node
 * that hears no leader may have missed that it was revoked. On the local socket
 * there is no such question, so that a node which has lost its majority can
 * still be saved. The file is read as it is requested, from the page cache if
 * it has just been written and checked; nothing of it is stored here. */

#ifndef HASP_CORE_SNAPSHOT_BACKUP_H
#define HASP_CORE_SNAPSHOT_BACKUP_H

#include <stdint.h>

#include "core/command.h"

#define BACKUP_READER_MAX 16

struct core;
struct request;

/* The connections that read a backup. Lives as long as the core. */
struct backup {
    struct backup_reader {
        uint64_t conn; /* 0: none. */
        uint64_t read_ns;
    } readers[BACKUP_READER_MAX];
};

/* Answers a request that waited for a snapshot: there is one, or 'error' says
 * why there is none. */
void backup_answer(struct core *core, struct request *request, int error);
/* Gives the connection a place among the readers, or renews it; false if there
 * is none. Each reader has a part in memory and uses the loop's time; thousands
 * would cost a leader its leadership. */
bool backup_may_read(struct core *core, uint64_t conn);

#endif /* HASP_CORE_SNAPSHOT_BACKUP_H */
