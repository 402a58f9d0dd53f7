/* SPDX-License-Identifier: MIT */

/* Snapshot files of a running node: a worker writes and checks them; the core
 * sends and receives them in chunks. */

#include "node/snapshot_store.h"

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

void snapshot_store_init(struct snapshot_store *snapshot_store,
                         struct hasp_node *node)
{
    *snapshot_store = (struct snapshot_store){
        .node = node, .receiving_fd = -1, .adopting_fd = -1};
    for (int i = 0; i < SNAPSHOT_OPEN_MAX; i++) {
        snapshot_store->open[i].fd = -1;
    }
}

void snapshot_store_done(struct snapshot_store *snapshot_store)
{
    CHECK(!snapshot_store_is_busy(snapshot_store));
    for (int i = 0; i < SNAPSHOT_OPEN_MAX; i++) {
        if (snapshot_store->open[i].fd >= 0) {
            storage_port->close(snapshot_store->open[i].fd);
        }
    }
    if (snapshot_store->receiving_fd >= 0) {
        storage_port->close(snapshot_store->receiving_fd);
    }
    if (snapshot_store->adopted.stream.data != NULL) {
        snapshot_file_unmap(&snapshot_store->adopted);
    }
    free((void *)(uintptr_t)snapshot_store->header.configuration.data);
    *snapshot_store = (struct snapshot_store){.receiving_fd = -1,
                                              .adopting_fd = -1};
}

bool snapshot_store_is_busy(const struct snapshot_store *snapshot_store)
{
    return snapshot_store->is_taking || snapshot_store->is_adopting ||
           snapshot_store->install_state == INSTALL_FILLING ||
           snapshot_store->install_state == INSTALL_UNMARKING;
}

/* Closes idle files: a removed file occupies disk space as long as it is
 * open. */
static void close_idle(struct snapshot_store *snapshot_store)
{
    uint64_t now_ns = turn_now();
    for (int i = 0; i < SNAPSHOT_OPEN_MAX; i++) {
        struct snapshot_open *open = &snapshot_store->open[i];
        if (open->fd >= 0 && now_ns - open->read_ns > SNAPSHOT_OPEN_NS) {
            storage_port->close(open->fd);
            open->fd = -1;
        }
    }
}

void snapshot_store_set_newest(struct snapshot_store *snapshot_store,
                               uint64_t log_index, uint64_t term, uint64_t size)
{
    /* Zeros would mean that there is no snapshot. */
    CHECK(log_index > 0 && term > 0 && size > 0);
    snapshot_store->newest_index = log_index;
    snapshot_store->newest_term = term;
    snapshot_store->newest_size = size;
    close_idle(snapshot_store);
}

/* Runs on a worker's thread; uses only the file, the transaction and the
 * results. */
static void take_run(uv_work_t *work)
{
    struct snapshot_store *snapshot_store = work->data;
    if (snapshot_store->take_error != 0) {
        return;
    }
    snapshot_store->take_error = snapshot_file_write(
        datadir_snapshot_path(snapshot_store->node->datadir),
        &snapshot_store->header, snapshot_store->txn,
        &snapshot_store->taken_size, snapshot_store->take_why);
    table_abort(snapshot_store->txn);
}

static void take_ended(uv_work_t *work, int status)
{
    struct snapshot_store *snapshot_store = work->data;
    struct hasp_node *node = snapshot_store->node;
    uint64_t log_index = snapshot_store->header.last_index;
    CHECK(status == 0 && snapshot_store->is_taking);
    snapshot_store->is_taking = false;
    snapshot_store->txn = NULL;
    if (snapshot_store->take_error != 0) {
        snapshot_store->failed_count++;
        LOG_WARN("cannot take a snapshot", "index=%" PRIu64 " error=%s",
                 log_index, log_quote(snapshot_store->take_why));
    } else {
        snapshot_store->taken_count++;
        LOG_INFO("snapshot taken", "index=%" PRIu64 " size=%" PRIu64, log_index,
                 snapshot_store->taken_size);
        /* A snapshot that was received meanwhile can be newer. */
        if (log_index > snapshot_store->newest_index) {
            snapshot_store_set_newest(snapshot_store, log_index,
                                      snapshot_store->header.last_term,
                                      snapshot_store->taken_size);
        }
    }
    if (!turn_is_over(&node->turn)) {
        core_snapshot_taken(node->core, log_index, snapshot_store->take_error,
                            turn_now());
        turn_wake(&node->turn);
    }
}

void snapshot_store_port_take(void *data, const struct snapshot_header *header)
{
    struct hasp_node *node = data;
    struct snapshot_store *snapshot_store = &node->snapshot_store;
    CHECK(!snapshot_store->is_taking);
    free((void *)(uintptr_t)snapshot_store->header.configuration.data);
    snapshot_store->header = *header;
    snapshot_store->header.configuration.data = memory_copy(
        header->configuration.data, header->configuration.size);
    snapshot_store->take_error = table_begin_read(node->table,
                                                  &snapshot_store->txn);
    snapshot_store->take_work.data = snapshot_store;
    snapshot_store->is_taking = true;
    CHECK(uv_queue_work(&node->uv, &snapshot_store->take_work, take_run,
                        take_ended) == 0);
}

bool snapshot_store_port_stat(void *data, uint64_t *ret_index,
                              uint64_t *ret_term, uint64_t *ret_size)
{
    struct hasp_node *node = data;
    const struct snapshot_store *snapshot_store = &node->snapshot_store;
    if (snapshot_store->newest_index == 0) {
        return false;
    }
    *ret_index = snapshot_store->newest_index;
    *ret_term = snapshot_store->newest_term;
    *ret_size = snapshot_store->newest_size;
    return true;
}

/* Opens a snapshot, or returns its open file, which stays readable after a
 * newer snapshot has replaced it. If all places are used, the least recently
 * read one is closed. */
static struct snapshot_open *
open_snapshot(struct snapshot_store *snapshot_store, uint64_t log_index,
              uint64_t term)
{
    struct snapshot_open *victim = &snapshot_store->open[0];
    char path[4096];
    uint64_t now_ns = turn_now();
    for (int i = 0; i < SNAPSHOT_OPEN_MAX; i++) {
        struct snapshot_open *open = &snapshot_store->open[i];
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
             datadir_snapshot_path(snapshot_store->node->datadir), log_index,
             term);
    int fd = storage_port->openat(AT_FDCWD, path, O_RDONLY);
    if (fd < 0) {
        return NULL;
    }
    /* The victim is closed only now, so that a failed open costs no reader its
     * file. */
    if (victim->fd >= 0) {
        storage_port->close(victim->fd);
    }
    *victim = (struct snapshot_open){fd, log_index, term, now_ns};
    return victim;
}

bool snapshot_store_port_read(void *data, uint64_t log_index, uint64_t term,
                              uint64_t offset, size_t size, struct buffer *out)
{
    struct hasp_node *node = data;
    struct snapshot_open *open = open_snapshot(&node->snapshot_store, log_index,
                                               term);
    if (open == NULL) {
        return false;
    }
    if (offset > INT64_MAX - size) {
        /* A client can ask for any offset; beyond the end there is nothing. */
        return true;
    }
    size_t done = 0;
    int system_error = disk_read(open->fd, buffer_reserve(out, size), size,
                                 offset, &done);
    if (system_error != 0) {
        const char *text = strerror(system_error);
        node->snapshot_store.failed_count++;
        LOG_WARN("cannot read a snapshot", "index=%" PRIu64 " error=%s",
                 log_index, log_quote(text));
        return false;
    }
    out->size += done;
    return true;
}

uint64_t snapshot_store_port_room(void *data)
{
    const struct hasp_node *node = data;
    return journal_room(&node->journal);
}

static void receiving_path(const struct snapshot_store *snapshot_store,
                           char out[4096])
{
    snprintf(out, 4096, "%s/received-%u.tmp",
             datadir_snapshot_path(snapshot_store->node->datadir),
             (unsigned)(snapshot_store->receiving_turn % 2));
}

/* Creates the file. Its lock protects it from the removal of leftover files. */
static void
snapshot_store_begin_receiving(struct snapshot_store *snapshot_store)
{
    char path[4096];
    /* A sender that was abandoned leaves a partial file. */
    if (snapshot_store->receiving_fd >= 0) {
        storage_port->close(snapshot_store->receiving_fd);
    }
    receiving_path(snapshot_store, path);
    snapshot_store->received_size = 0;
    snapshot_store->receive_error = 0;
    snapshot_store->receiving_fd = storage_port->openat(
        AT_FDCWD, path, O_RDWR | O_CREAT | O_TRUNC);
    if (snapshot_store->receiving_fd < 0 ||
        storage_port->lock(snapshot_store->receiving_fd) != 0) {
        int system_error = errno;
        snapshot_store->receive_error = disk_error(system_error);
        snapshot_store->failed_count++;
        LOG_WARN("cannot receive a snapshot", "path=%s error=%s",
                 log_quote(path), log_quote(strerror(system_error)));
    }
}

void snapshot_store_port_write(void *data, uint64_t offset, struct bytes chunk)
{
    struct hasp_node *node = data;
    struct snapshot_store *snapshot_store = &node->snapshot_store;
    /* An empty chunk would make no progress, and the core would wait for
     * ever. */
    CHECK(chunk.size > 0);
    if (offset == 0) {
        snapshot_store_begin_receiving(snapshot_store);
    }
    if (snapshot_store->receive_error != 0) {
        return;
    }
    if (offset != snapshot_store->received_size) {
        snapshot_store->receive_error = HASP_EPROTO;
        return;
    }
    int system_error = disk_write_cached(snapshot_store->receiving_fd, chunk,
                                         offset);
    if (system_error != 0) {
        snapshot_store->receive_error = disk_error(system_error);
    }
    snapshot_store->received_size += chunk.size;
}

/* Marks the installation, then gives the file its name. The order matters: from
 * then on a start finds a snapshot that is newer than the log, and accepts that
 * only because of the mark (rule 23). */
static int give_name(struct snapshot_store *snapshot_store,
                     const struct snapshot_header *header)
{
    struct datadir *datadir = snapshot_store->node->datadir;
    int rv = datadir_install_begin(datadir, header->last_index,
                                   header->last_term);
    if (rv != 0) {
        snprintf(snapshot_store->adopt_why, sizeof snapshot_store->adopt_why,
                 "cannot mark its installation: %s", hasp_strerror(rv));
        return rv;
    }
    return snapshot_file_adopt(datadir_snapshot_path(datadir),
                               snapshot_store->adopting_path,
                               snapshot_store->adopt_why);
}

/* Runs on a worker's thread. The file is mapped before it gets its name: the
 * mapping stays valid, so the content that was checked is the content that will
 * be loaded. */
static void adopt_run(uv_work_t *work)
{
    struct snapshot_store *snapshot_store = work->data;
    struct snapshot_file file;
    if (snapshot_store->adopt_error != 0) {
        snprintf(snapshot_store->adopt_why, sizeof snapshot_store->adopt_why,
                 "%s", hasp_strerror(snapshot_store->adopt_error));
        return;
    }
    int rv = snapshot_file_map(snapshot_store->adopting_path, &file,
                               snapshot_store->adopt_why);
    if (rv == 0) {
        /* Only a checked file gets the name that a start trusts. */
        rv = give_name(snapshot_store, &file.header);
        if (rv == 0) {
            snapshot_store->adopted = file;
        } else {
            snapshot_file_unmap(&file);
        }
    }
    snapshot_store->adopt_error = rv;
}

static void adopt_ended(uv_work_t *work, int status)
{
    struct snapshot_store *snapshot_store = work->data;
    struct hasp_node *node = snapshot_store->node;
    struct snapshot_header header = {0};
    CHECK(status == 0 && snapshot_store->is_adopting);
    snapshot_store->is_adopting = false;
    if (snapshot_store->adopting_fd >= 0) {
        storage_port->close(snapshot_store->adopting_fd);
        snapshot_store->adopting_fd = -1;
    }
    if (snapshot_store->adopt_error != 0) {
        snapshot_store->failed_count++;
        LOG_WARN("received snapshot refused", "error=%s",
                 log_quote(snapshot_store->adopt_why));
        /* The leader sends the snapshot again. */
        storage_port->unlinkat(AT_FDCWD, snapshot_store->adopting_path);
    } else {
        header = snapshot_store->adopted.header;
        LOG_INFO("snapshot received", "index=%" PRIu64 " size=%zu",
                 header.last_index, snapshot_store->adopted.stream.size);
        snapshot_store_set_newest(snapshot_store, header.last_index,
                                  header.last_term,
                                  snapshot_store->adopted.stream.size);
    }
    if (!turn_is_over(&node->turn)) {
        core_snapshot_received(node->core, &header, snapshot_store->adopt_error,
                               turn_now());
        turn_wake(&node->turn);
    }
}

void snapshot_store_port_adopt(void *data)
{
    struct hasp_node *node = data;
    struct snapshot_store *snapshot_store = &node->snapshot_store;
    CHECK(!snapshot_store->is_adopting);
    receiving_path(snapshot_store, snapshot_store->adopting_path);
    snapshot_store->adopt_error = snapshot_store->receiving_fd < 0
                                      ? HASP_ENOENT
                                      : snapshot_store->receive_error;
    snapshot_store->adopting_fd = snapshot_store->receiving_fd;
    snapshot_store->receiving_fd = -1;
    /* The worker owns the old file from here: the next snapshot is received
     * into another one. */
    snapshot_store->receiving_turn++;
    if (snapshot_store->adopted.stream.data != NULL) {
        snapshot_file_unmap(&snapshot_store->adopted);
        snapshot_store->adopted = (struct snapshot_file){0};
    }
    snapshot_store->adopt_work.data = snapshot_store;
    snapshot_store->is_adopting = true;
    CHECK(uv_queue_work(&node->uv, &snapshot_store->adopt_work, adopt_run,
                        adopt_ended) == 0);
}

/* Waits until the table's thread has written everything; returns its error. */
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

/* Runs on a worker's thread; the core does not use the table meanwhile. */
static void install_run(uv_work_t *work)
{
    struct snapshot_store *snapshot_store = work->data;
    struct hasp_node *node = snapshot_store->node;
    uint32_t place = disk_watch_begin("install a snapshot");
    int rv = recovery_fill_table(node->datadir, node->table,
                                 &snapshot_store->adopted);
    snapshot_store->install_error = rv ?: wait_until_written(node->table);
    disk_watch_end(place);
}

static void install_ended(uv_work_t *work, int status)
{
    struct snapshot_store *snapshot_store = work->data;
    struct hasp_node *node = snapshot_store->node;
    CHECK(status == 0 && snapshot_store->install_state == INSTALL_FILLING);
    snapshot_store->install_state = snapshot_store->install_error == 0
                                        ? INSTALL_FILLED
                                        : INSTALL_NONE;
    snapshot_file_unmap(&snapshot_store->adopted);
    snapshot_store->adopted = (struct snapshot_file){0};
    if (snapshot_store->install_error != 0) {
        turn_fail(&node->turn, HASP_NODE_STORAGE,
                  "cannot load the received snapshot into the table: %s",
                  hasp_strerror(snapshot_store->install_error));
    }
    turn_wake(&node->turn);
}

void snapshot_store_install(struct snapshot_store *snapshot_store)
{
    CHECK(snapshot_store->adopted.stream.data != NULL);
    CHECK(snapshot_store->install_state == INSTALL_NONE);
    snapshot_store->install_work.data = snapshot_store;
    snapshot_store->install_state = INSTALL_FILLING;
    CHECK(uv_queue_work(&snapshot_store->node->uv,
                        &snapshot_store->install_work, install_run,
                        install_ended) == 0);
}

/* Runs on a worker's thread. */
static void unmark_run(uv_work_t *work)
{
    struct snapshot_store *snapshot_store = work->data;
    snapshot_store->install_error = datadir_install_end(
        snapshot_store->node->datadir);
}

static void unmark_ended(uv_work_t *work, int status)
{
    struct snapshot_store *snapshot_store = work->data;
    struct hasp_node *node = snapshot_store->node;
    CHECK(status == 0 && snapshot_store->install_state == INSTALL_UNMARKING);
    snapshot_store->install_state = snapshot_store->install_error == 0
                                        ? INSTALL_DONE
                                        : INSTALL_NONE;
    if (snapshot_store->install_error != 0) {
        turn_fail(&node->turn, HASP_NODE_STORAGE,
                  "cannot remove the mark of an installation: %s",
                  hasp_strerror(snapshot_store->install_error));
    }
    turn_wake(&node->turn);
}

void snapshot_store_report(struct snapshot_store *snapshot_store)
{
    struct hasp_node *node = snapshot_store->node;
    if (snapshot_store->install_state == INSTALL_FILLED &&
        !node->journal.durable.is_resetting) {
        snapshot_store->install_state = INSTALL_UNMARKING;
        CHECK(uv_queue_work(&node->uv, &snapshot_store->install_work,
                            unmark_run, unmark_ended) == 0);
    } else if (snapshot_store->install_state == INSTALL_DONE) {
        snapshot_store->install_state = INSTALL_NONE;
        core_snapshot_installed(node->core, turn_now());
    }
}
