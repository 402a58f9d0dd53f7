/* SPDX-License-Identifier: MIT */

/* Snapshot files of a running node: a worker writes and checks them, the
 * core sends and receives them in chunks. */

#include "node/snapshots.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "base/memory.h"
#include "node/node.h"
#include "node/recovery.h"
#include "storage/disk.h"
#include "storage/disk_watch.h"
#include "storage/port.h"

void snapshots_init(struct snapshots *snapshots, struct hasp_node *node)
{
    *snapshots = (struct snapshots){
        .node = node, .receiving_fd = -1, .adopting_fd = -1};
    for (int i = 0; i < SNAPSHOT_OPEN_MAX; i++) {
        snapshots->open[i].fd = -1;
    }
}

void snapshots_done(struct snapshots *snapshots)
{
    CHECK(!snapshots_are_busy(snapshots));
    for (int i = 0; i < SNAPSHOT_OPEN_MAX; i++) {
        if (snapshots->open[i].fd >= 0) {
            storage_port->close(snapshots->open[i].fd);
        }
    }
    if (snapshots->receiving_fd >= 0) {
        storage_port->close(snapshots->receiving_fd);
    }
    if (snapshots->adopted.stream.data != NULL) {
        snapshot_file_unmap(&snapshots->adopted);
    }
    free((void *)(uintptr_t)snapshots->header.configuration.data);
    *snapshots = (struct snapshots){.receiving_fd = -1, .adopting_fd = -1};
}

bool snapshots_are_busy(const struct snapshots *snapshots)
{
    return snapshots->is_taking || snapshots->is_adopting ||
           snapshots->is_installing;
}

/* A file without a name takes room on the disk as long as it is open. */
static void close_idle(struct snapshots *snapshots)
{
    uint64_t now_ns = turn_now();
    for (int i = 0; i < SNAPSHOT_OPEN_MAX; i++) {
        struct snapshot_open *open = &snapshots->open[i];
        if (open->fd >= 0 && now_ns - open->read_ns > SNAPSHOT_OPEN_NS) {
            storage_port->close(open->fd);
            open->fd = -1;
        }
    }
}

void snapshots_set_newest(struct snapshots *snapshots, uint64_t log_index,
                          uint64_t term, uint64_t size)
{
    CHECK(log_index > 0 && term > 0 && size > 0); /* 0 means: there is none. */
    snapshots->newest_index = log_index;
    snapshots->newest_term = term;
    snapshots->newest_size = size;
    close_idle(snapshots);
}

/* On a worker's thread: touches the file, the transaction and its results. */
static void take_run(uv_work_t *work)
{
    struct snapshots *snapshots = work->data;
    if (snapshots->take_error != 0) {
        return;
    }
    snapshots->take_error = snapshot_file_write(
        datadir_snapshot_path(snapshots->node->datadir), &snapshots->header,
        snapshots->txn, &snapshots->taken_size, snapshots->take_why);
    table_abort(snapshots->txn);
}

static void take_ended(uv_work_t *work, int status)
{
    struct snapshots *snapshots = work->data;
    struct hasp_node *node = snapshots->node;
    uint64_t log_index = snapshots->header.last_index;
    CHECK(status == 0 && snapshots->is_taking);
    snapshots->is_taking = false;
    snapshots->txn = NULL;
    if (snapshots->take_error != 0) {
        LOG_WARN("cannot take a snapshot", "index=%" PRIu64 " error=%s",
                 log_index,
                 log_quote(snapshots->take_why, strlen(snapshots->take_why)));
    } else {
        LOG_INFO("snapshot taken", "index=%" PRIu64 " size=%" PRIu64, log_index,
                 snapshots->taken_size);
        /* One that was received meanwhile may be newer. */
        if (log_index > snapshots->newest_index) {
            snapshots_set_newest(snapshots, log_index,
                                 snapshots->header.last_term,
                                 snapshots->taken_size);
        }
    }
    if (!turn_is_over(&node->turn)) {
        core_snapshot_taken(node->core, log_index, snapshots->take_error,
                            turn_now());
        turn_wake(&node->turn);
    }
}

void snapshots_port_take(void *data, const struct snapshot_header *header)
{
    struct hasp_node *node = data;
    struct snapshots *snapshots = &node->snapshots;
    CHECK(!snapshots->is_taking);
    free((void *)(uintptr_t)snapshots->header.configuration.data);
    snapshots->header = *header;
    snapshots->header.configuration.data = memory_copy(
        header->configuration.data, header->configuration.size);
    snapshots->take_error = table_begin_read(node->table, &snapshots->txn);
    snapshots->take_work.data = snapshots;
    snapshots->is_taking = true;
    CHECK(uv_queue_work(&node->uv, &snapshots->take_work, take_run,
                        take_ended) == 0);
}

bool snapshots_port_stat(void *data, uint64_t *ret_index, uint64_t *ret_term,
                         uint64_t *ret_size)
{
    struct hasp_node *node = data;
    const struct snapshots *snapshots = &node->snapshots;
    if (snapshots->newest_index == 0) {
        return false;
    }
    *ret_index = snapshots->newest_index;
    *ret_term = snapshots->newest_term;
    *ret_size = snapshots->newest_size;
    return true;
}

/* An open file stays readable when a newer snapshot has made its name go. The
 * one that was not read for longest makes room. */
static struct snapshot_open *open_snapshot(struct snapshots *snapshots,
                                           uint64_t log_index, uint64_t term)
{
    struct snapshot_open *victim = &snapshots->open[0];
    char path[4096];
    uint64_t now_ns = turn_now();
    for (int i = 0; i < SNAPSHOT_OPEN_MAX; i++) {
        struct snapshot_open *open = &snapshots->open[i];
        if (open->fd >= 0 && open->log_index == log_index &&
            open->term == term) {
            open->read_ns = now_ns;
            return open;
        }
        if (open->fd < 0 ||
            (victim->fd >= 0 && open->read_ns < victim->read_ns)) {
            victim = open;
        }
    }
    snprintf(path, sizeof path, "%s/snapshot-%016" PRIx64 "-%016" PRIx64,
             datadir_snapshot_path(snapshots->node->datadir), log_index, term);
    int fd = storage_port->openat(AT_FDCWD, path, O_RDONLY);
    if (fd < 0) {
        return NULL;
    }
    if (victim->fd >= 0) {
        storage_port->close(victim->fd);
    }
    *victim = (struct snapshot_open){fd, log_index, term, now_ns};
    return victim;
}

bool snapshots_port_read(void *data, uint64_t log_index, uint64_t term,
                         uint64_t offset, size_t size, struct buffer *out)
{
    struct hasp_node *node = data;
    struct snapshot_open *open = open_snapshot(&node->snapshots, log_index,
                                               term);
    if (open == NULL) {
        return false;
    }
    if (offset > INT64_MAX - size) {
        return true; /* Far behind the end, which a client may ask for. */
    }
    size_t done = 0;
    int system_error = disk_read(open->fd, buffer_reserve(out, size), size,
                                 offset, &done);
    if (system_error != 0) {
        const char *text = strerror(system_error);
        LOG_WARN("cannot read a snapshot", "index=%" PRIu64 " error=%s",
                 log_index, log_quote(text, strlen(text)));
        return false;
    }
    out->size += done;
    return true;
}

uint64_t snapshots_port_room(void *data)
{
    const struct hasp_node *node = data;
    return journal_room(&node->journal);
}

static void receiving_path(const struct snapshots *snapshots, char out[4096])
{
    snprintf(out, 4096, "%s/received-%u.tmp",
             datadir_snapshot_path(snapshots->node->datadir),
             (unsigned)(snapshots->receiving_turn % 2));
}

/* The lock tells whoever clears away left-over files that this one is in
 * use. */
static void begin_receiving(struct snapshots *snapshots)
{
    char path[4096];
    if (snapshots->receiving_fd >= 0) {
        storage_port->close(snapshots->receiving_fd);
    }
    receiving_path(snapshots, path);
    snapshots->received_size = 0;
    snapshots->receive_error = 0;
    snapshots->receiving_fd = storage_port->openat(AT_FDCWD, path,
                                                   O_RDWR | O_CREAT | O_TRUNC);
    if (snapshots->receiving_fd < 0 ||
        storage_port->lock(snapshots->receiving_fd) != 0) {
        snapshots->receive_error = errno == ENOSPC ? HASP_ENOSPC : HASP_EIO;
        LOG_WARN("cannot receive a snapshot", "path=%s error=%s",
                 log_quote(path, strlen(path)),
                 log_quote(strerror(errno), strlen(strerror(errno))));
    }
}

void snapshots_port_write(void *data, uint64_t offset, struct bytes chunk)
{
    struct hasp_node *node = data;
    struct snapshots *snapshots = &node->snapshots;
    CHECK(chunk.size > 0); /* The core would wait for the rest for ever. */
    if (offset == 0) {
        begin_receiving(snapshots);
    }
    if (snapshots->receive_error != 0) {
        return;
    }
    if (offset != snapshots->received_size) {
        snapshots->receive_error = HASP_EPROTO;
        return;
    }
    int system_error = disk_write_cached(snapshots->receiving_fd, chunk,
                                         offset);
    if (system_error != 0) {
        snapshots->receive_error = disk_error(system_error);
    }
    snapshots->received_size += chunk.size;
}

/* On a worker's thread. The file is mapped before it gets its name: the mapping
 * stays good, and what was checked is what will be loaded. */
static void adopt_run(uv_work_t *work)
{
    struct snapshots *snapshots = work->data;
    struct snapshot_file file;
    if (snapshots->adopt_error != 0) {
        snprintf(snapshots->adopt_why, sizeof snapshots->adopt_why, "%s",
                 hasp_strerror(snapshots->adopt_error));
        return;
    }
    int rv = snapshot_file_map(snapshots->adopting_path, &file,
                               snapshots->adopt_why);
    if (rv == 0) {
        rv = snapshot_file_adopt(
            datadir_snapshot_path(snapshots->node->datadir),
            snapshots->adopting_path, snapshots->adopt_why);
        if (rv == 0) {
            snapshots->adopted = file;
        } else {
            snapshot_file_unmap(&file);
        }
    }
    snapshots->adopt_error = rv;
}

static void adopt_ended(uv_work_t *work, int status)
{
    struct snapshots *snapshots = work->data;
    struct hasp_node *node = snapshots->node;
    struct snapshot_header header = {0};
    CHECK(status == 0 && snapshots->is_adopting);
    snapshots->is_adopting = false;
    if (snapshots->adopting_fd >= 0) {
        storage_port->close(snapshots->adopting_fd);
        snapshots->adopting_fd = -1;
    }
    if (snapshots->adopt_error != 0) {
        LOG_WARN("received snapshot refused", "error=%s",
                 log_quote(snapshots->adopt_why, strlen(snapshots->adopt_why)));
        storage_port->unlinkat(AT_FDCWD, snapshots->adopting_path);
    } else {
        header = snapshots->adopted.header;
        LOG_INFO("snapshot received", "index=%" PRIu64 " size=%zu",
                 header.last_index, snapshots->adopted.stream.size);
        snapshots_set_newest(snapshots, header.last_index, header.last_term,
                             snapshots->adopted.stream.size);
    }
    if (!turn_is_over(&node->turn)) {
        core_snapshot_received(node->core, &header, snapshots->adopt_error,
                               turn_now());
        turn_wake(&node->turn);
    }
}

void snapshots_port_adopt(void *data)
{
    struct hasp_node *node = data;
    struct snapshots *snapshots = &node->snapshots;
    CHECK(!snapshots->is_adopting);
    receiving_path(snapshots, snapshots->adopting_path);
    snapshots->adopt_error = snapshots->receiving_fd < 0
                                 ? HASP_ENOENT
                                 : snapshots->receive_error;
    snapshots->adopting_fd = snapshots->receiving_fd;
    snapshots->receiving_fd = -1;
    snapshots->receiving_turn++;
    if (snapshots->adopted.stream.data != NULL) {
        snapshot_file_unmap(&snapshots->adopted);
        snapshots->adopted = (struct snapshot_file){0};
    }
    snapshots->adopt_work.data = snapshots;
    snapshots->is_adopting = true;
    CHECK(uv_queue_work(&node->uv, &snapshots->adopt_work, adopt_run,
                        adopt_ended) == 0);
}

/* Waits until the table's thread has written what it was given; its error. */
static int wait_until_written(struct table *table)
{
    struct table_txn *txn;
    int rv = table_begin_read(table, &txn);
    if (rv == 0) {
        table_abort(txn);
        rv = table_begin_write(table, &txn);
    }
    if (rv == 0) {
        table_abort(txn);
    }
    return rv;
}

/* On a worker's thread: the core keeps off the table meanwhile. */
static void install_run(uv_work_t *work)
{
    struct snapshots *snapshots = work->data;
    struct hasp_node *node = snapshots->node;
    uint32_t place = disk_watch_begin("install a snapshot");
    int rv = recovery_fill_table(node->datadir, node->table,
                                 &snapshots->adopted);
    snapshots->install_error = rv != 0 ? rv : wait_until_written(node->table);
    disk_watch_end(place);
}

static void install_ended(uv_work_t *work, int status)
{
    struct snapshots *snapshots = work->data;
    struct hasp_node *node = snapshots->node;
    CHECK(status == 0 && snapshots->is_installing);
    snapshots->is_installing = false;
    snapshots->is_installed = true;
    snapshot_file_unmap(&snapshots->adopted);
    snapshots->adopted = (struct snapshot_file){0};
    if (snapshots->install_error != 0) {
        turn_fail(&node->turn, HASP_NODE_STORAGE,
                  "cannot load the received snapshot into the table: %s",
                  hasp_strerror(snapshots->install_error));
    }
    turn_wake(&node->turn);
}

void snapshots_install(struct snapshots *snapshots)
{
    CHECK(snapshots->adopted.stream.data != NULL);
    CHECK(!snapshots->is_installing && !snapshots->is_installed);
    snapshots->install_work.data = snapshots;
    snapshots->is_installing = true;
    CHECK(uv_queue_work(&snapshots->node->uv, &snapshots->install_work,
                        install_run, install_ended) == 0);
}

void snapshots_report(struct snapshots *snapshots)
{
    struct hasp_node *node = snapshots->node;
    if (snapshots->is_installed && !node->journal.is_resetting) {
        snapshots->is_installed = false;
        core_snapshot_installed(node->core, turn_now());
    }
}
