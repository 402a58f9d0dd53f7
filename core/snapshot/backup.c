/* SPDX-License-Identifier: MIT */

/* RAFT.BACKUP: a snapshot in parts, for the client that requests them. */

#include "core/snapshot/backup.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/check.h"
#include "base/minmax.h"

#include "core/audit_log.h"
#include "core/command.h"
#include "core/state.h"

/* A reader that has been idle for this time has given up. */
#define READER_IDLE_NS (5000 * NS_PER_MS)

bool backup_may_read(struct core *core, uint64_t conn)
{
    struct backup_reader *place = NULL;
    for (int i = 0; i < BACKUP_READER_MAX; i++) {
        struct backup_reader *reader = &core->snapshots.backup.readers[i];
        if (reader->conn == conn) {
            place = reader;
            break;
        }
        /* An idle or closed connection loses its place, so that abandoned
         * backups cannot exclude new ones. */
        if (reader->conn == 0 || conn_find(core, reader->conn) == NULL ||
            core->now_ns - reader->read_ns > READER_IDLE_NS) {
            place = reader;
        }
    }
    if (place == NULL) {
        return false;
    }
    *place = (struct backup_reader){.conn = conn, .read_ns = core->now_ns};
    return true;
}

void backup_answer(struct core *core, struct request *request, int error)
{
    uint64_t index, term, size;
    if (error != 0) {
        char why[HASP_WHY_SIZE];
        snprintf(why, sizeof why, "cannot take a snapshot: %s",
                 hasp_strerror(error));
        request_refuse(core, request, WORD_GONE, why);
        return;
    }
    if (!core->port.snapshot_stat(core->port.data, &index, &term, &size)) {
        request_refuse(core, request, WORD_GONE, "this node has no snapshot");
        return;
    }
    struct resp_writer *writer = request_reply(core, request);
    resp_map(writer, 4);
    resp_key_number(writer, "index", index);
    resp_key_number(writer, "term", term);
    resp_key_number(writer, "size", size);
    resp_key_integer(writer, "leader",
                     request->read_index != 0 ? (int64_t)core->leader.id : 0);
    request_done(core, request);
}
