/* SPDX-License-Identifier: MIT */

/* RAFT.SNAPSHOT; RAFT.BACKUP and RAFT.PART, a snapshot in parts. */

#include "base/check.h"
#include "base/minmax.h"
#include "core/audit_log.h"
#include "core/commands/commands.h"
#include "core/conn.h"
#include "core/request.h"
#include "core/snapshot/backup.h"
#include "core/snapshot/snapshots.h"
#include "core/state.h"

/* Small enough to be read between two heartbeats, even from a slow disk. */
#define CHUNK_SIZE_MAX ((uint64_t)256 << 10)

void raft_snapshot_run(struct core *core, struct request *request)
{
    audit_log_log(request);
    snapshots_enqueue(core, request);
}

bool raft_part_parse(struct call *call, struct resp_writer *writer)
{
    uint64_t number;
    CHECK(call->count == 4); /* The table of commands sets the arity. */
    for (uint32_t i = 1; i < 4; i++) {
        if (!bytes_to_u64(call->argument[i], &number) || number > INT64_MAX) {
            return call_fail(call, writer,
                             "index, term and offset must be decimal integers");
        }
    }
    return true;
}

/* Counts the backup if this part is its last one. */
static void backup_note(struct core *core, const uint64_t number[3],
                        size_t part_size)
{
    uint64_t index, term, size;
    if (part_size > 0 &&
        core->port.snapshot_stat(core->port.data, &index, &term, &size) &&
        index == number[0] && term == number[1] &&
        number[2] + part_size == size) {
        core->stats.counts.backups++;
        core->stats.counts.backup_ns = core->now_ns;
    }
}

void raft_part_run(struct core *core, struct request *request)
{
    const struct call *call = request->call;
    uint64_t number[3] = {0};
    /* A COMMAND_LOCAL is never forwarded. */
    CHECK(call->count == 4 && request->conn != NULL);
    for (uint32_t i = 0; i < 3; i++) {
        (void)bytes_to_u64(call->argument[i + 1], &number[i]);
    }
    /* The leader was asked for permission once, when the backup began. */
    if (request->user != USER_LOCAL && !request->conn->may_back_up) {
        request_refuse(core, request, WORD_GONE,
                       "no backup in progress on this connection: start one "
                       "with RAFT.BACKUP");
        return;
    }
    /* A reply that waits for an earlier one is stored in memory. */
    if (request->conn->first_slot != request->slot) {
        request_refuse(core, request, WORD_BUSY,
                       "request one part at a time: wait for the previous "
                       "answer");
        return;
    }
    if (!backup_may_read(core, request->conn->id)) {
        request_refuse(core, request, WORD_BUSY,
                       "too many connections are reading backups of this node");
        return;
    }
    struct buffer chunk = {0};
    uint64_t size = u64_min(core->options.limits.snapshot_chunk_size,
                            CHUNK_SIZE_MAX);
    if (!core->port.snapshot_read(core->port.data, number[0], number[1],
                                  number[2], size, &chunk)) {
        request_refuse(core, request, WORD_GONE,
                       "snapshot no longer available; restart the backup");
    } else {
        backup_note(core, number, chunk.size);
        resp_bulk(request_reply(core, request), buffer_bytes(&chunk));
        request_done(core, request);
    }
    buffer_done(&chunk);
}

/* As the leader, answers the asked node that its client may read a backup, and
 * up to which entry that node must have applied the log. */
static void backup_allow(struct core *core, struct request *request)
{
    (void)request_reply(core, request);
    request_done_as(core, request, ANSWER_ALLOWED,
                    lockfsm_applied_index(core->fsm));
}

void raft_backup_read(struct core *core, struct request *request)
{
    if (request->conn == NULL) {
        backup_allow(core, request);
        return;
    }
    request->conn->may_back_up = true;
    if (lockfsm_applied_index(core->fsm) == 0) {
        request_refuse(core, request, WORD_GONE,
                       "this node has no state to back up yet");
    } else {
        audit_log_log(request);
        snapshots_enqueue(core, request);
    }
}
