/* SPDX-License-Identifier: MIT */

/* Checks at the start which parts of the disk fit together, and rebuilds the
 * others. */

#include "node/recovery.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "base/memory.h"
#include "storage/datadir.h"

#define CHUNK_SIZE ((size_t)1 << 20)

static int recovery_fail(const struct recovery_disk *disk, int error,
                         const char *what, char why[HASP_WHY_SIZE])
{
    snprintf(why, HASP_WHY_SIZE, "cannot %s in '%.300s': %s", what,
             datadir_path(disk->datadir), hasp_strerror(error));
    return error;
}

/* Copies the body into chunks, since a log has hundreds of thousands of small
 * bodies. */
static struct bytes recovery_keep(struct recovery *recovery, struct bytes body)
{
    if (body.size == 0) {
        return (struct bytes){NULL, 0};
    }
    if (body.size > recovery->chunk_left) {
        size_t size = body.size > CHUNK_SIZE ? body.size : CHUNK_SIZE;
        recovery->chunk = memory_resize(recovery->chunk,
                                        (recovery->chunk_count + 1) *
                                            sizeof *recovery->chunk);
        recovery->chunk_at = memory_resize(NULL, size);
        recovery->chunk[recovery->chunk_count++] = recovery->chunk_at;
        recovery->chunk_left = size;
    }
    CHECK(body.size <= recovery->chunk_left);
    uint8_t *at = recovery->chunk_at;
    memcpy(at, body.data, body.size);
    recovery->chunk_at += body.size;
    recovery->chunk_left -= body.size;
    return bytes_of(at, body.size);
}

static void on_entry(void *data, const struct wal_entry *entry)
{
    struct recovery *recovery = data;
    ROOM(recovery->entries, recovery->entry_capacity,
         recovery->entry_count + 1);
    CHECK(recovery->entry_count == 0 ||
          entry->log_index ==
              recovery->entries[recovery->entry_count - 1].log_index + 1);
    recovery->entries[recovery->entry_count++] = (struct replica_entry){
        .term = entry->term,
        .log_index = entry->log_index,
        .type = (enum replica_entry_type)entry->type,
        .body = recovery_keep(recovery, entry->body)};
}

static int recovery_open_log(struct recovery *recovery,
                             struct recovery_disk *disk,
                             char why[HASP_WHY_SIZE])
{
    return wal_open(datadir_wal_path(disk->datadir), &disk->wal_options,
                    on_entry, recovery, &disk->wal, why);
}

static int recovery_open_table(struct recovery_disk *disk,
                               char why[HASP_WHY_SIZE])
{
    return disk->open_table(disk->data, datadir_table_path(disk->datadir),
                            &disk->table, why);
}

static int find_snapshot(struct recovery *recovery, struct recovery_disk *disk,
                         char why[HASP_WHY_SIZE])
{
    char reason[HASP_WHY_SIZE] = "";
    int rv = snapshot_file_newest(datadir_snapshot_path(disk->datadir),
                                  &recovery->snapshot, reason);
    recovery->has_snapshot = rv == 0;
    if (rv == 0 && reason[0] != '\0') {
        LOG_ERROR("a snapshot is bad, an older one is used", "why=%s",
                  log_quote(reason));
    }
    if (rv != 0 && rv != HASP_ENOENT) {
        snprintf(why, HASP_WHY_SIZE, "%s", reason);
        return rv;
    }
    return 0;
}

static int not_whole(const struct recovery_disk *disk, const char *what,
                     char why[HASP_WHY_SIZE])
{
    snprintf(why, HASP_WHY_SIZE,
             "the data directory '%.200s' is incomplete: %s; remove this "
             "member from the cluster and add it again with an empty "
             "directory",
             datadir_path(disk->datadir), what);
    return HASP_ECORRUPT;
}

/* Refuses a directory with a missing part: it may have lost entries that this
 * node acknowledged, or a vote. */
static int look_for_gaps(const struct recovery *recovery,
                         struct recovery_disk *disk, char why[HASP_WHY_SIZE])
{
    const struct datadir_identity *identity = datadir_identity(disk->datadir);
    const struct wal *wal = disk->wal;
    bool was_in_cluster = cluster_id_is_known(identity->cluster_id);
    bool is_fresh = wal_first(wal) == 1 && wal_last(wal) == 0;
    uint64_t reached = recovery->has_snapshot
                           ? recovery->snapshot.header.last_index
                           : 0;
    const char *what = NULL;
    if (is_fresh && was_in_cluster) {
        what = "its log is gone";
    } else if (is_fresh && !recovery->has_snapshot &&
               recovery->start.voted_for != 0) {
        what = "it has voted, but its log is gone";
    } else if (wal_first(wal) > reached + 1) {
        /* Rule 23: first - 1 <= applied, or entries between snapshot and log
         * are missing. */
        what = "the log begins after the newest good snapshot ends";
    }
    return what != NULL ? not_whole(disk, what, why) : 0;
}

static void forget_entries(struct recovery *recovery)
{
    for (uint32_t i = 0; i < recovery->chunk_count; i++) {
        free(recovery->chunk[i]);
    }
    free(recovery->chunk);
    free(recovery->entries);
    recovery->chunk = NULL;
    recovery->chunk_count = 0;
    recovery->chunk_left = 0;
    recovery->entries = NULL;
    recovery->entry_count = 0;
    recovery->entry_capacity = 0;
}

/* True if the log neither contains the snapshot's last entry nor continues
 * after it. */
static bool is_log_behind(const struct recovery *recovery,
                          const struct wal *wal)
{
    const struct snapshot_header *header = &recovery->snapshot.header;
    uint64_t at = header->last_index;
    if (!recovery->has_snapshot || at + 1 == wal_first(wal)) {
        return false;
    }
    if (at > wal_last(wal) || at < wal_first(wal)) {
        return at > wal_last(wal);
    }
    uint64_t position = at - wal_first(wal);
    CHECK(position < recovery->entry_count &&
          recovery->entries[position].log_index == at);
    return recovery->entries[position].term != header->last_term;
}

/* Empties the log if the mark of an interrupted installation of the snapshot is
 * present. Without the mark, the log is an older copy, which lacks entries that
 * this node has acknowledged. */
static int finish_installation(struct recovery *recovery,
                               struct recovery_disk *disk,
                               char why[HASP_WHY_SIZE])
{
    const struct snapshot_header *header = &recovery->snapshot.header;
    struct wal *wal = disk->wal;
    uint64_t at = header->last_index;
    char what[128];
    if (!datadir_is_installing(disk->datadir, at, header->last_term)) {
        snprintf(what, sizeof what,
                 "its log, up to entry %" PRIu64 ", is older than its snapshot "
                 "of entry %" PRIu64,
                 wal_last(wal), at);
        return not_whole(disk, what, why);
    }
    LOG_WARN("log emptied after an interrupted installation",
             "snapshot=%" PRIu64 " last=%" PRIu64, at, wal_last(wal));
    /* The entries were read from the old log, which the snapshot replaces (rule
     * 23). */
    forget_entries(recovery);
    int rv = wal_reset(wal, at + 1);
    return rv != 0 ? recovery_fail(disk, rv, "empty the log", why) : 0;
}

static int fit_log_to_snapshot(struct recovery *recovery,
                               struct recovery_disk *disk,
                               char why[HASP_WHY_SIZE])
{
    int rv = is_log_behind(recovery, disk->wal)
                 ? finish_installation(recovery, disk, why)
                 : 0;
    if (rv != 0) {
        return rv;
    }
    rv = datadir_install_end(disk->datadir);
    return rv != 0 ? recovery_fail(disk, rv,
                                   "remove the mark of an installation", why)
                   : 0;
}

/* Reads the applied index; 0 if nothing has been applied yet. */
static int read_applied(struct table *table, uint64_t *ret_index)
{
    struct table_txn *txn;
    struct bytes value;
    int rv = table_begin_read(table, &txn);
    if (rv != 0) {
        return rv;
    }
    rv = table_get(txn, TABLE_META, BYTES_LITERAL(SNAPSHOT_META_APPLIED),
                   &value);
    if (rv == 0 && value.size != 16) {
        rv = HASP_ECORRUPT;
    }
    if (rv == 0) {
        *ret_index = load_u64_be(value.data);
    } else if (rv == HASP_ENOENT) {
        *ret_index = 0;
        rv = 0;
    }
    table_abort(txn);
    return rv;
}

/* Replaces the table's content with 'file', or empties it if NULL. */
static int recovery_decode(struct table *table,
                           const struct snapshot_file *file)
{
    struct table_txn *txn;
    int rv = table_begin_write(table, &txn);
    if (rv != 0) {
        return rv;
    }
    rv = file == NULL ? table_clear(txn) : snapshot_decode(file->stream, txn);
    if (rv != 0) {
        table_abort(txn);
        return rv;
    }
    return table_commit(txn);
}

int recovery_fill_table(struct datadir *datadir, struct table *table,
                        const struct snapshot_file *file)
{
    int rv = datadir_table_restoring(datadir, true);
    rv = rv ?: recovery_decode(table, file);
    while (rv == HASP_EFULL) {
        rv = table_grow(table);
        rv = rv ?: recovery_decode(table, file);
    }
    return rv ?: datadir_table_restoring(datadir, false);
}

static int rebuild_table(struct recovery *recovery, struct recovery_disk *disk,
                         const char *reason, char why[HASP_WHY_SIZE])
{
    CHECK(disk->table != NULL);
    if (recovery->has_snapshot || recovery->entry_count > 0) {
        LOG_INFO("table is rebuilt from the snapshot and the log",
                 "reason=\"%s\" snapshot=%" PRIu64, reason,
                 recovery->has_snapshot ? recovery->snapshot.header.last_index
                                        : 0);
    }
    /* A crash during this leaves the mark of a restore, and the next start
     * rebuilds the table again (rule 23). */
    int rv = recovery_fill_table(disk->datadir, disk->table,
                                 recovery->has_snapshot ? &recovery->snapshot
                                                        : NULL);
    if (rv != 0) {
        return recovery_fail(disk, rv, "rebuild the table", why);
    }
    recovery->start.applied_index = recovery->has_snapshot
                                        ? recovery->snapshot.header.last_index
                                        : 0;
    return 0;
}

int recovery_replace_table(struct recovery *recovery,
                           struct recovery_disk *disk, char why[HASP_WHY_SIZE])
{
    char wrong[HASP_WHY_SIZE];
    int number = 0;
    memcpy(wrong, why, sizeof wrong);
    table_close(disk->table);
    disk->table = NULL;
    /* The damaged file is kept for analysis; the number of kept files bounds
     * the attempts. */
    int rv = datadir_table_set_aside(disk->datadir, &number);
    if (rv == HASP_EFULL) {
        snprintf(
            why, HASP_WHY_SIZE,
            "the table is damaged (%.120s), and was %d times before, see "
            "'table.damaged-*' in '%.200s': check the memory and the disk, "
            "then remove these files; the next start rebuilds the table "
            "from snapshot and log",
            wrong, DATADIR_DAMAGED_MAX, datadir_path(disk->datadir));
        return HASP_ECORRUPT;
    }
    if (rv != 0) {
        snprintf(why, HASP_WHY_SIZE,
                 "cannot set the damaged table in '%.300s' aside: %s",
                 datadir_path(disk->datadir), hasp_strerror(rv));
        return rv;
    }
    LOG_ERROR("the table is damaged and is rebuilt",
              "why=%s kept=table.damaged-%d hint=\"check the memory and the "
              "disk\"",
              log_quote(wrong), number);
    rv = recovery_open_table(disk, why);
    return rv ?: rebuild_table(recovery, disk, "damaged", why);
}

/* Replaces a truncated table; nothing of it is used. It is neither kept nor
 * counted as damaged, since a process that is killed right after a commit can
 * leave one, too (storage/table_lmdb.c, keep_length()). */
static int replace_cut_table(struct recovery *recovery,
                             struct recovery_disk *disk,
                             char why[HASP_WHY_SIZE])
{
    LOG_ERROR("the table is truncated and is rebuilt", "why=%s",
              log_quote(why));
    int rv = datadir_table_remove(disk->datadir);
    if (rv != 0) {
        return recovery_fail(disk, rv, "remove the table", why);
    }
    rv = recovery_open_table(disk, why);
    return rv ?: rebuild_table(recovery, disk, "truncated", why);
}

static int load_table(struct recovery *recovery, struct recovery_disk *disk,
                      char why[HASP_WHY_SIZE])
{
    const struct wal *wal = disk->wal;
    uint64_t applied = 0;
    uint64_t reached = recovery->has_snapshot
                           ? recovery->snapshot.header.last_index
                           : 0;
    bool is_trusted = datadir_table_is_trusted(disk->datadir);
    int rv = is_trusted ? 0 : datadir_table_remove(disk->datadir);
    if (rv != 0) {
        return recovery_fail(disk, rv, "remove the table", why);
    }
    /* The mark stays until the table has been read: LMDB might crash on a
     * damaged page, and the next start must not trust the table then (rule
     * 23). */
    rv = datadir_table_restoring(disk->datadir, true);
    if (rv != 0) {
        return recovery_fail(disk, rv, "mark the table", why);
    }
    rv = recovery_open_table(disk, why);
    if (rv == 0 && is_trusted) {
        rv = read_applied(disk->table, &applied);
        if (rv != 0) {
            rv = recovery_fail(disk, rv, "read the table", why);
        }
    }
    if (rv == HASP_ECORRUPT) {
        return recovery_replace_table(recovery, disk, why);
    }
    if (rv == HASP_EMORE) {
        return replace_cut_table(recovery, disk, why);
    }
    if (rv != 0) {
        return rv;
    }
    if (!is_trusted) {
        return rebuild_table(recovery, disk, "possibly incomplete", why);
    }
    if (applied < reached || applied + 1 < wal_first(wal)) {
        return rebuild_table(recovery, disk, "older than the log", why);
    }
    if (applied > wal_last(wal)) {
        return rebuild_table(recovery, disk, "ahead of the log", why);
    }
    recovery->start.applied_index = applied;
    return 0;
}

int recovery_run(struct recovery *recovery, struct recovery_disk *disk,
                 char why[HASP_WHY_SIZE])
{
    *recovery = (struct recovery){0};
    struct replica_start *start = &recovery->start;
    int rv = datadir_load_vote(disk->datadir, &start->term, &start->voted_for,
                               why);
    rv = rv ?: recovery_open_log(recovery, disk, why);
    rv = rv ?: find_snapshot(recovery, disk, why);
    rv = rv ?: look_for_gaps(recovery, disk, why);
    rv = rv ?: fit_log_to_snapshot(recovery, disk, why);
    rv = rv ?: load_table(recovery, disk, why);
    if (rv != 0) {
        return rv;
    }
    /* Every applied entry is in the log or in the snapshot (rule 23). */
    CHECK(start->applied_index <= wal_last(disk->wal) ||
          (recovery->has_snapshot &&
           start->applied_index == recovery->snapshot.header.last_index));
    start->entries = recovery->entries;
    start->entry_count = recovery->entry_count;
    recovery->is_empty = recovery->entry_count == 0 && !recovery->has_snapshot;
    if (recovery->has_snapshot) {
        const struct snapshot_header *header = &recovery->snapshot.header;
        start->snapshot_index = header->last_index;
        start->snapshot_term = header->last_term;
        start->snapshot_members = header->configuration;
        start->snapshot_members_index = header->configuration_index;
    }
    return 0;
}

void recovery_done(struct recovery *recovery)
{
    forget_entries(recovery);
    if (recovery->has_snapshot) {
        snapshot_file_unmap(&recovery->snapshot);
    }
    *recovery = (struct recovery){0};
}
