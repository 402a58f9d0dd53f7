/* SPDX-License-Identifier: MIT */

/* Snapshot files of a running node: a worker writes and checks them, the
 * core sends and receives them in chunks. */

#include "node/archive.h"

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

void archive_init(struct archive *archive, struct hasp_node *node)
{
    *archive = (struct archive){
        .node = node, .receiving_fd = -1, .adopting_fd = -1};
    for (int i = 0; i < SNAPSHOT_OPEN_MAX; i++) {
        archive->open[i].fd = -1;
    }
}

void archive_done(struct archive *archive)
{
    CHECK(!archive_is_busy(archive));
    for (int i = 0; i < SNAPSHOT_OPEN_MAX; i++) {
        if (archive->open[i].fd >= 0) {
            storage_port->close(archive->open[i].fd);
        }
    }
    if (archive->receiving_fd >= 0) {
        storage_port->close(archive->receiving_fd);
    }
    if (archive->adopted.stream.data != NULL) {
        snapshot_file_unmap(&archive->adopted);
    }
    free((void *)(uintptr_t)archive->header.configuration.data);
    *archive = (struct archive){.receiving_fd = -1, .adopting_fd = -1};
}

bool archive_is_busy(const struct archive *archive)
{
    return archive->is_taking || archive->is_adopting ||
           archive->install_state == INSTALL_FILLING ||
           archive->install_state == INSTALL_UNMARKING;
}

/* A file without a name takes room on the disk as long as it is open. */
static void close_idle(struct archive *archive)
{
    uint64_t now_ns = turn_now();
    for (int i = 0; i < SNAPSHOT_OPEN_MAX; i++) {
        struct snapshot_open *open = &archive->open[i];
        if (open->fd >= 0 && now_ns - open->read_ns > SNAPSHOT_OPEN_NS) {
            storage_port->close(open->fd);
            open->fd = -1;
        }
    }
}

void archive_set_newest(struct archive *archive, uint64_t log_index,
                        uint64_t term, uint64_t size)
{
    /* Zeros would mean that there is none. */
    CHECK(log_index > 0 && term > 0 && size > 0);
    archive->newest_index = log_index;
    archive->newest_term = term;
    archive->newest_size = size;
    close_idle(archive);
}

/* Runs on a worker's thread, and touches only the file, the transaction and the
 * results. */
static void take_run(uv_work_t *work)
{
    struct archive *archive = work->data;
    if (archive->take_error != 0) {
        return;
    }
    archive->take_error = snapshot_file_write(
        datadir_snapshot_path(archive->node->datadir), &archive->header,
        archive->txn, &archive->taken_size, archive->take_why);
    table_abort(archive->txn);
}

static void take_ended(uv_work_t *work, int status)
{
    struct archive *archive = work->data;
    struct hasp_node *node = archive->node;
    uint64_t log_index = archive->header.last_index;
    CHECK(status == 0 && archive->is_taking);
    archive->is_taking = false;
    archive->txn = NULL;
    if (archive->take_error != 0) {
        archive->failed_count++;
        LOG_WARN("cannot take a snapshot", "index=%" PRIu64 " error=%s",
                 log_index, log_quote(archive->take_why));
    } else {
        archive->taken_count++;
        LOG_INFO("snapshot taken", "index=%" PRIu64 " size=%" PRIu64, log_index,
                 archive->taken_size);
        /* A snapshot that was received meanwhile may be newer. */
        if (log_index > archive->newest_index) {
            archive_set_newest(archive, log_index, archive->header.last_term,
                               archive->taken_size);
        }
    }
    if (!turn_is_over(&node->turn)) {
        core_snapshot_taken(node->core, log_index, archive->take_error,
                            turn_now());
        turn_wake(&node->turn);
    }
}

void archive_port_take(void *data, const struct snapshot_header *header)
{
    struct hasp_node *node = data;
    struct archive *archive = &node->archive;
    CHECK(!archive->is_taking);
    free((void *)(uintptr_t)archive->header.configuration.data);
    archive->header = *header;
    archive->header.configuration.data = memory_copy(
        header->configuration.data, header->configuration.size);
    archive->take_error = table_begin_read(node->table, &archive->txn);
    archive->take_work.data = archive;
    archive->is_taking = true;
    CHECK(uv_queue_work(&node->uv, &archive->take_work, take_run, take_ended) ==
          0);
}

bool archive_port_stat(void *data, uint64_t *ret_index, uint64_t *ret_term,
                       uint64_t *ret_size)
{
    struct hasp_node *node = data;
    const struct archive *archive = &node->archive;
    if (archive->newest_index == 0) {
        return false;
    }
    *ret_index = archive->newest_index;
    *ret_term = archive->newest_term;
    *ret_size = archive->newest_size;
    return true;
}

/* An open file stays readable when a newer snapshot has made its name go. The
 * one that was not read for longest makes room. */
static struct snapshot_open *open_snapshot(struct archive *archive,
                                           uint64_t log_index, uint64_t term)
{
    struct snapshot_open *victim = &archive->open[0];
    char path[4096];
    uint64_t now_ns = turn_now();
    for (int i = 0; i < SNAPSHOT_OPEN_MAX; i++) {
        struct snapshot_open *open = &archive->open[i];
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
             datadir_snapshot_path(archive->node->datadir), log_index, term);
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

bool archive_port_read(void *data, uint64_t log_index, uint64_t term,
                       uint64_t offset, size_t size, struct buffer *out)
{
    struct hasp_node *node = data;
    struct snapshot_open *open = open_snapshot(&node->archive, log_index, term);
    if (open == NULL) {
        return false;
    }
    if (offset > INT64_MAX - size) {
        return true; /* A client may ask for a place far behind the end. */
    }
    size_t done = 0;
    int system_error = disk_read(open->fd, buffer_reserve(out, size), size,
                                 offset, &done);
    if (system_error != 0) {
        const char *text = strerror(system_error);
        node->archive.failed_count++;
        LOG_WARN("cannot read a snapshot", "index=%" PRIu64 " error=%s",
                 log_index, log_quote(text));
        return false;
    }
    out->size += done;
    return true;
}

uint64_t archive_port_room(void *data)
{
    const struct hasp_node *node = data;
    return journal_room(&node->journal);
}

static void receiving_path(const struct archive *archive, char out[4096])
{
    snprintf(out, 4096, "%s/received-%u.tmp",
             datadir_snapshot_path(archive->node->datadir),
             (unsigned)(archive->receiving_turn % 2));
}

/* The lock tells whoever clears away left-over files that this one is in
 * use. */
static void begin_receiving(struct archive *archive)
{
    char path[4096];
    if (archive->receiving_fd >= 0) {
        storage_port->close(archive->receiving_fd);
    }
    receiving_path(archive, path);
    archive->received_size = 0;
    archive->receive_error = 0;
    archive->receiving_fd = storage_port->openat(AT_FDCWD, path,
                                                 O_RDWR | O_CREAT | O_TRUNC);
    if (archive->receiving_fd < 0 ||
        storage_port->lock(archive->receiving_fd) != 0) {
        int system_error = errno;
        archive->receive_error = disk_error(system_error);
        archive->failed_count++;
        LOG_WARN("cannot receive a snapshot", "path=%s error=%s",
                 log_quote(path), log_quote(strerror(system_error)));
    }
}

void archive_port_write(void *data, uint64_t offset, struct bytes chunk)
{
    struct hasp_node *node = data;
    struct archive *archive = &node->archive;
    /* Otherwise the core would wait for the rest for ever. */
    CHECK(chunk.size > 0);
    if (offset == 0) {
        begin_receiving(archive);
    }
    if (archive->receive_error != 0) {
        return;
    }
    if (offset != archive->received_size) {
        archive->receive_error = HASP_EPROTO;
        return;
    }
    int system_error = disk_write_cached(archive->receiving_fd, chunk, offset);
    if (system_error != 0) {
        archive->receive_error = disk_error(system_error);
    }
    archive->received_size += chunk.size;
}

/* From here on a start finds a snapshot that is newer than the log, and the
 * mark by which it knows why. */
static int give_name(struct archive *archive,
                     const struct snapshot_header *header)
{
    struct datadir *datadir = archive->node->datadir;
    int rv = datadir_install_begin(datadir, header->last_index,
                                   header->last_term);
    if (rv != 0) {
        snprintf(archive->adopt_why, sizeof archive->adopt_why,
                 "cannot mark its installation: %s", hasp_strerror(rv));
        return rv;
    }
    return snapshot_file_adopt(datadir_snapshot_path(datadir),
                               archive->adopting_path, archive->adopt_why);
}

/* Runs on a worker's thread. The file is mapped before it gets its name: the
 * mapping stays valid, and what was checked is what will be loaded. */
static void adopt_run(uv_work_t *work)
{
    struct archive *archive = work->data;
    struct snapshot_file file;
    if (archive->adopt_error != 0) {
        snprintf(archive->adopt_why, sizeof archive->adopt_why, "%s",
                 hasp_strerror(archive->adopt_error));
        return;
    }
    int rv = snapshot_file_map(archive->adopting_path, &file,
                               archive->adopt_why);
    if (rv == 0) {
        rv = give_name(archive, &file.header);
        if (rv == 0) {
            archive->adopted = file;
        } else {
            snapshot_file_unmap(&file);
        }
    }
    archive->adopt_error = rv;
}

static void adopt_ended(uv_work_t *work, int status)
{
    struct archive *archive = work->data;
    struct hasp_node *node = archive->node;
    struct snapshot_header header = {0};
    CHECK(status == 0 && archive->is_adopting);
    archive->is_adopting = false;
    if (archive->adopting_fd >= 0) {
        storage_port->close(archive->adopting_fd);
        archive->adopting_fd = -1;
    }
    if (archive->adopt_error != 0) {
        archive->failed_count++;
        LOG_WARN("received snapshot refused", "error=%s",
                 log_quote(archive->adopt_why));
        storage_port->unlinkat(AT_FDCWD, archive->adopting_path);
    } else {
        header = archive->adopted.header;
        LOG_INFO("snapshot received", "index=%" PRIu64 " size=%zu",
                 header.last_index, archive->adopted.stream.size);
        archive_set_newest(archive, header.last_index, header.last_term,
                           archive->adopted.stream.size);
    }
    if (!turn_is_over(&node->turn)) {
        core_snapshot_received(node->core, &header, archive->adopt_error,
                               turn_now());
        turn_wake(&node->turn);
    }
}

void archive_port_adopt(void *data)
{
    struct hasp_node *node = data;
    struct archive *archive = &node->archive;
    CHECK(!archive->is_adopting);
    receiving_path(archive, archive->adopting_path);
    archive->adopt_error = archive->receiving_fd < 0 ? HASP_ENOENT
                                                     : archive->receive_error;
    archive->adopting_fd = archive->receiving_fd;
    archive->receiving_fd = -1;
    archive->receiving_turn++;
    if (archive->adopted.stream.data != NULL) {
        snapshot_file_unmap(&archive->adopted);
        archive->adopted = (struct snapshot_file){0};
    }
    archive->adopt_work.data = archive;
    archive->is_adopting = true;
    CHECK(uv_queue_work(&node->uv, &archive->adopt_work, adopt_run,
                        adopt_ended) == 0);
}

/* Waits until the table's thread has written all it was given; returns the
 * error of that. */
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

/* Runs on a worker's thread, while the core keeps off the table. */
static void install_run(uv_work_t *work)
{
    struct archive *archive = work->data;
    struct hasp_node *node = archive->node;
    uint32_t place = disk_watch_begin("install a snapshot");
    int rv = recovery_fill_table(node->datadir, node->table, &archive->adopted);
    archive->install_error = rv ?: wait_until_written(node->table);
    disk_watch_end(place);
}

static void install_ended(uv_work_t *work, int status)
{
    struct archive *archive = work->data;
    struct hasp_node *node = archive->node;
    CHECK(status == 0 && archive->install_state == INSTALL_FILLING);
    archive->install_state = archive->install_error == 0 ? INSTALL_FILLED
                                                         : INSTALL_NONE;
    snapshot_file_unmap(&archive->adopted);
    archive->adopted = (struct snapshot_file){0};
    if (archive->install_error != 0) {
        turn_fail(&node->turn, HASP_NODE_STORAGE,
                  "cannot load the received snapshot into the table: %s",
                  hasp_strerror(archive->install_error));
    }
    turn_wake(&node->turn);
}

void archive_install(struct archive *archive)
{
    CHECK(archive->adopted.stream.data != NULL);
    CHECK(archive->install_state == INSTALL_NONE);
    archive->install_work.data = archive;
    archive->install_state = INSTALL_FILLING;
    CHECK(uv_queue_work(&archive->node->uv, &archive->install_work, install_run,
                        install_ended) == 0);
}

/* Runs on a worker's thread. */
static void unmark_run(uv_work_t *work)
{
    struct archive *archive = work->data;
    archive->install_error = datadir_install_end(archive->node->datadir);
}

static void unmark_ended(uv_work_t *work, int status)
{
    struct archive *archive = work->data;
    struct hasp_node *node = archive->node;
    CHECK(status == 0 && archive->install_state == INSTALL_UNMARKING);
    archive->install_state = archive->install_error == 0 ? INSTALL_DONE
                                                         : INSTALL_NONE;
    if (archive->install_error != 0) {
        turn_fail(&node->turn, HASP_NODE_STORAGE,
                  "cannot remove the mark of an installation: %s",
                  hasp_strerror(archive->install_error));
    }
    turn_wake(&node->turn);
}

void archive_report(struct archive *archive)
{
    struct hasp_node *node = archive->node;
    if (archive->install_state == INSTALL_FILLED &&
        !node->journal.durable.is_resetting) {
        archive->install_state = INSTALL_UNMARKING;
        CHECK(uv_queue_work(&node->uv, &archive->install_work, unmark_run,
                            unmark_ended) == 0);
    } else if (archive->install_state == INSTALL_DONE) {
        archive->install_state = INSTALL_NONE;
        core_snapshot_installed(node->core, turn_now());
    }
}
