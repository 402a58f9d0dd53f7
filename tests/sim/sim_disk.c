/* SPDX-License-Identifier: MIT */

#include "tests/sim/sim_disk.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/memory.h"
#include "node/data_loss_marker.h"
#include "storage/datadir.h"
#include "storage/disk.h"
#include "storage/vote_saver.h"
#include "storage/wal.h"
#include "tests/sim/sim_check.h"
#include "tests/sim/sim_net.h"
#include "tests/sim/sim_node.h"
#include "tests/sim/sim_silence.h"

/* Calls on files that unfinished work may still make when a process dies. */
#define LAST_CALLS_MAX 6

static struct sim_host *host_of(const struct sim_disk *disk)
{
    return sim_node_host(disk->node);
}

static uint64_t latency(struct sim_disk *disk)
{
    struct sim *sim = disk->sim;
    uint64_t ns = disk->latency_ns + prng_below(&sim->prng, disk->latency_ns);
    ns += disk->flush_ns;
    if (disk->slow_until_ns > sim->now_ns) {
        ns += sim_between(sim, 10, 1500) * SIM_MS;
    } else if (sim_chance(sim, 0.002)) {
        ns += sim_between(sim, 1, 100) * SIM_MS;
    }
    return ns;
}

static struct sim_news *tell(struct sim_disk *disk, enum news_kind kind)
{
    struct sim_host *host = host_of(disk);
    struct sim_news *news = memory_new(sizeof *news);
    news->kind = kind;
    list_push_back(&host->inbox, &news->in_inbox);
    sim_host_poke(disk->sim, host);
    return news;
}

/* True if the process has died in the calls just made. */
static bool has_died(struct sim_disk *disk)
{
    if (!files_is_dead(disk->files)) {
        return false;
    }
    sim_node_dies(disk->node);
    return true;
}

/* --- Workers -------------------------------------------------------------- */

static uint64_t now_of(struct tasks *tasks)
{
    struct sim_disk *disk = LIST_ENTRY(tasks, struct sim_disk, tasks);
    return sim_host_now(disk->sim, host_of(disk));
}

static void run_worker(struct sim *sim, struct sim_event *event)
{
    struct task *task = LIST_ENTRY(event, struct task, event);
    struct sim_disk *disk = LIST_ENTRY(task->tasks, struct sim_disk, tasks);
    (void)sim;
    tasks_step(task);
    (void)has_died(disk);
}

/* A step takes as long as the disk does; a later due time is waited for. */
static void worker_due(struct tasks *tasks, struct task *task)
{
    struct sim_disk *disk = LIST_ENTRY(tasks, struct sim_disk, tasks);
    struct sim *sim = disk->sim;
    uint64_t at_ns = sim->now_ns;
    task->event.run = run_worker;
    if (task->when_ns > now_of(tasks)) {
        at_ns = sim_clock_when(&host_of(disk)->clock, task->when_ns);
    } else {
        at_ns += latency(disk);
    }
    sim_at_latest(sim, &task->event, at_ns);
}

static void worker_stepped(struct tasks *tasks, struct task *task)
{
    struct sim_disk *disk = LIST_ENTRY(tasks, struct sim_disk, tasks);
    (void)task;
    if (!disk->has_news && host_of(disk)->is_running) {
        disk->has_news = true;
        tell(disk, NEWS_DISK);
    }
}

static void worker_ended(struct tasks *tasks, struct task *task)
{
    struct sim_disk *disk = LIST_ENTRY(tasks, struct sim_disk, tasks);
    sim_cancel(disk->sim, &task->event);
}

/* --- Log and vote --------------------------------------------------------- */

/* The disk of the node 'data', if the node still acts. For calls of its
 * port. */
static struct sim_disk *acting(void *data, const char *what, uint64_t a,
                               uint64_t b, uint64_t c)
{
    struct sim_disk *disk = sim_node_disk(data);
    if (!sim_node_acts(data)) {
        return NULL;
    }
    sim_note(disk->sim, host_of(disk), what, a, b, c);
    return disk;
}

void sim_disk_port_save_vote(void *data, uint64_t term, uint64_t voted_for)
{
    struct sim_disk *disk = acting(data, "votes", term, voted_for, 0);
    if (disk == NULL) {
        return;
    }
    durable_save_vote(&disk->durable, term, voted_for, disk->sim->now_ns);
}

void sim_disk_port_log_truncate(void *data, uint64_t from_index)
{
    struct sim_disk *disk = acting(data, "truncates", from_index, 0, 0);
    if (disk != NULL) {
        wal_truncate(disk->durable.wal, from_index);
    }
}

void sim_disk_port_log_append(void *data, const struct replica_entry *entries,
                              uint32_t count)
{
    struct sim_disk *disk = acting(data, "appends", entries[0].log_index, count,
                                   entries[0].term);
    if (disk != NULL) {
        if (!sim_node_is_former(disk->node)) {
            sim_silence_appended(sim_check_silence(disk->sim), disk->node,
                                 entries, count);
        }
        durable_append(&disk->durable, entries, count);
    }
}

void sim_disk_port_log_trim(void *data, uint64_t up_to_index)
{
    struct sim_disk *disk = acting(data, "trims", up_to_index, 0, 0);
    if (disk != NULL) {
        CHECK(disk->newest.log_index >= up_to_index);
        sim_node_disk_fails(disk->node,
                            wal_trim(disk->durable.wal, up_to_index));
        disk->trimmed = up_to_index;
    }
}

int sim_disk_start(struct sim_disk *disk)
{
    return durable_start(&disk->durable, disk->sim->now_ns);
}

static int collect_vote(struct sim_disk *disk, struct core *core,
                        uint64_t now_ns)
{
    struct vote_saved saved;
    uint64_t took_ns = disk->sim->now_ns - disk->durable.votes.began_ns;
    int error = durable_take_vote(&disk->durable, disk->sim->now_ns, &saved);
    if (error != 0) {
        return error == HASP_EBUSY ? 0 : error;
    }
    sim_note(disk->sim, host_of(disk), "vote saved", saved.term,
             saved.voted_for, 0);
    disk->saved_term = saved.term;
    core_vote_saved(core, saved.term, saved.voted_for, took_ns, now_ns);
    return 0;
}

static int collect_log(struct sim_disk *disk, struct core *core,
                       uint64_t now_ns)
{
    uint64_t term = 0, log_index = 0;
    int error = durable_take_log(&disk->durable, disk->sim->now_ns, &term,
                                 &log_index);
    if (error != 0) {
        return error;
    }
    if (term > disk->saved_term) {
        sim_fail(disk->sim, ORACLE_NODES,
                 "no entry is on disk before its term: %s has %" PRIu64
                 " of term %" PRIu64 " and has saved term %" PRIu64,
                 host_of(disk)->name, log_index, term, disk->saved_term);
    }
    if (log_index != 0 &&
        (log_index != disk->durable_index || term != disk->durable_term)) {
        sim_note(disk->sim, host_of(disk), "written", log_index, term, 0);
        core_persisted(core, term, log_index, disk->durable.writes.took_ns,
                       now_ns);
    }
    disk->durable_index = log_index;
    disk->durable_term = term;
    return 0;
}

static void unmark(struct sim *sim, struct sim_event *event)
{
    struct sim_disk *disk = LIST_ENTRY(event, struct sim_disk, installing);
    int error = datadir_install_end(disk->datadir);
    (void)sim;
    if (!has_died(disk)) {
        disk->is_unmarked = error == 0;
        tell(disk, NEWS_DISK)->error = error;
    }
}

int sim_disk_collect(struct sim_disk *disk, struct core *core, uint64_t now_ns)
{
    disk->has_news = false;
    int error = collect_vote(disk, core, now_ns);
    if (error == 0) {
        error = collect_log(disk, core, now_ns);
    }
    if (error == 0 && disk->is_installed && !disk->durable.is_resetting) {
        disk->is_installed = false;
        disk->installing.run = unmark;
        sim_at(disk->sim, &disk->installing, disk->sim->now_ns + latency(disk));
    }
    if (error == 0 && disk->is_unmarked) {
        disk->is_unmarked = false;
        sim_note(disk->sim, host_of(disk), "has installed",
                 disk->newest.log_index, 0, 0);
        core_snapshot_installed(core, now_ns);
    }
    return error;
}

/* --- Snapshots ------------------------------------------------------------ */

static char *snapshot_path(const struct sim_disk *disk, uint64_t log_index,
                           uint64_t term, char path[128])
{
    snprintf(path, 128, "%s/snapshot-%016" PRIx64 "-%016" PRIx64,
             datadir_snapshot_path(disk->datadir), log_index, term);
    return path;
}

static char *receiving_path(const struct sim_disk *disk, char path[128])
{
    snprintf(path, 128, "%s/received.tmp",
             datadir_snapshot_path(disk->datadir));
    return path;
}

static void keep_newest(struct sim_disk *disk,
                        const struct snapshot_header *header, uint64_t size)
{
    if (header->last_index > disk->newest.log_index) {
        disk->newest = (struct disk_snapshot){.log_index = header->last_index,
                                              .term = header->last_term,
                                              .size = size};
    }
}

/* Sometimes there is no room for it, which is not a reason to stop. */
static void take(struct sim *sim, struct sim_event *event)
{
    struct sim_disk *disk = LIST_ENTRY(event, struct sim_disk, taking);
    char why[HASP_WHY_SIZE];
    uint64_t size = 0;
    bool is_full = sim->phase == SIM_CHAOS && sim_chance(sim, 0.05);
    if (is_full && !disk->is_full) {
        files_set_room(disk->files, sim_between(sim, 0, 20000));
    }
    int error = disk->take_error;
    if (error == 0) {
        error = snapshot_file_write(datadir_snapshot_path(disk->datadir),
                                    &disk->taken, disk->txn, &size, why);
    }
    table_abort(disk->txn);
    disk->txn = NULL;
    if (is_full && !disk->is_full) {
        files_set_room(disk->files, UINT64_MAX);
    }
    if (has_died(disk)) {
        return;
    }
    if (error == 0) {
        sim->stats.snapshots++;
        keep_newest(disk, &disk->taken, size);
        sim_note(sim, host_of(disk), "has taken", disk->taken.last_index, 0, 0);
    }
    struct sim_news *news = tell(disk, NEWS_SNAPSHOT_TAKEN);
    news->log_index = disk->taken.last_index;
    news->error = error;
}

void sim_disk_port_snapshot_take(void *data,
                                 const struct snapshot_header *header)
{
    struct sim_disk *disk = acting(data, "snapshots", header->last_index,
                                   header->last_term, 0);
    if (disk == NULL) {
        return;
    }
    CHECK(disk->txn == NULL);
    disk->take_error = table_begin_read(disk->table, &disk->txn);
    free((void *)(uintptr_t)disk->taken.configuration.data);
    disk->taken = *header;
    disk->taken.configuration.data = memory_copy(header->configuration.data,
                                                 header->configuration.size);
    disk->taking.run = take;
    uint64_t writes_ns = 3 * latency(disk);
    uint64_t reads_ns = prng_below(&disk->sim->prng, 20) * SIM_MS;
    sim_at(disk->sim, &disk->taking, disk->sim->now_ns + writes_ns + reads_ns);
}

bool sim_disk_port_snapshot_stat(void *data, uint64_t *ret_index,
                                 uint64_t *ret_term, uint64_t *ret_size)
{
    const struct disk_snapshot *newest = &sim_node_disk(data)->newest;
    if (newest->log_index == 0) {
        return false;
    }
    *ret_index = newest->log_index;
    *ret_term = newest->term;
    *ret_size = newest->size;
    return true;
}

uint64_t sim_disk_port_snapshot_room(void *data)
{
    (void)data;
    return UINT64_MAX;
}

bool sim_disk_port_snapshot_read(void *data, uint64_t log_index, uint64_t term,
                                 uint64_t offset, size_t size,
                                 struct buffer *out)
{
    const struct sim_disk *disk = sim_node_disk(data);
    char path[128];
    size_t done = 0;
    int fd = storage_port->openat(
        AT_FDCWD, snapshot_path(disk, log_index, term, path), O_RDONLY);
    if (fd < 0) {
        return false;
    }
    int error = disk_read(fd, buffer_reserve(out, size), size, offset, &done);
    storage_port->close(fd);
    out->size += error == 0 ? done : 0;
    return error == 0;
}

static void close_receiving(struct sim_disk *disk)
{
    if (disk->receiving_fd >= 0) {
        storage_port->close(disk->receiving_fd);
        disk->receiving_fd = -1;
    }
}

static void unmap_adopted(struct sim_disk *disk)
{
    if (disk->adopted.stream.data != NULL) {
        snapshot_file_unmap(&disk->adopted);
        disk->adopted = (struct snapshot_file){0};
    }
}

void sim_disk_port_snapshot_write(void *data, uint64_t offset,
                                  struct bytes chunk)
{
    struct sim_disk *disk = sim_node_disk(data);
    if (!sim_node_acts(data)) {
        return;
    }
    char path[128];
    if (offset == 0) {
        close_receiving(disk);
        disk->received_size = 0;
        disk->receiving_fd = storage_port->openat(
            AT_FDCWD, receiving_path(disk, path), O_RDWR | O_CREAT | O_TRUNC);
        disk->receive_error = disk->receiving_fd < 0 ||
                                      storage_port->lock(disk->receiving_fd) !=
                                          0
                                  ? HASP_EIO
                                  : 0;
    }
    CHECK(offset == disk->received_size);
    disk->received_size += chunk.size;
    if (disk->receive_error == 0) {
        int error = disk_write_cached(disk->receiving_fd, chunk, offset);
        disk->receive_error = error != 0 ? disk_error(error) : 0;
    }
}

static void adopt(struct sim *sim, struct sim_event *event)
{
    struct sim_disk *disk = LIST_ENTRY(event, struct sim_disk, adopting);
    char path[128], why[HASP_WHY_SIZE];
    int error = disk->receive_error;
    receiving_path(disk, path);
    if (error == 0) {
        error = snapshot_file_map(path, &disk->adopted, why);
    }
    if (error == 0) {
        const struct snapshot_header *header = &disk->adopted.header;
        error = datadir_install_begin(disk->datadir, header->last_index,
                                      header->last_term);
    }
    if (error == 0) {
        error = snapshot_file_adopt(datadir_snapshot_path(disk->datadir), path,
                                    why);
    }
    close_receiving(disk);
    if (has_died(disk)) {
        return;
    }
    if (error != 0) {
        unmap_adopted(disk);
        storage_port->unlinkat(AT_FDCWD, path);
    } else {
        const struct snapshot_header *header = &disk->adopted.header;
        sim->stats.installs++;
        keep_newest(disk, header, disk->adopted.stream.size);
        sim_note(sim, host_of(disk), "has adopted", header->last_index,
                 header->last_term, 0);
    }
    tell(disk, NEWS_SNAPSHOT_RECEIVED)->error = error;
}

void sim_disk_port_snapshot_adopt(void *data)
{
    struct sim_disk *disk = acting(data, "adopts", 0, 0, 0);
    if (disk == NULL) {
        return;
    }
    unmap_adopted(disk);
    disk->adopting.run = adopt;
    sim_at(disk->sim, &disk->adopting, disk->sim->now_ns + 3 * latency(disk));
}

/* Waits until the table's worker has written its changes; returns the worker's
 * error. */
static int wait_until_written(struct table *table)
{
    struct table_txn *txn;
    int error = table_begin_read(table, &txn);
    if (error == 0) {
        table_abort(txn);
        error = table_begin_write(table, &txn);
    }
    if (error == 0) {
        table_abort(txn);
    }
    return error;
}

static void install(struct sim *sim, struct sim_event *event)
{
    struct sim_disk *disk = LIST_ENTRY(event, struct sim_disk, installing);
    int error = recovery_fill_table(disk->datadir, disk->table, &disk->adopted);
    if (error == 0) {
        error = wait_until_written(disk->table);
    }
    (void)sim;
    if (has_died(disk)) {
        return;
    }
    unmap_adopted(disk);
    disk->is_installed = error == 0;
    tell(disk, NEWS_DISK)->error = error;
}

void sim_disk_port_snapshot_install(void *data, uint64_t next_index)
{
    struct sim_disk *disk = acting(data, "installs", next_index, 0, 0);
    if (disk == NULL) {
        return;
    }
    CHECK(disk->adopted.stream.data != NULL && !disk->is_installed);
    durable_reset(&disk->durable, next_index);
    disk->installing.run = install;
    uint64_t count = sim_between(disk->sim, 1, 30);
    uint64_t write_ns = latency(disk);
    sim_at(disk->sim, &disk->installing, disk->sim->now_ns + count * write_ns);
}

/* --- The cluster's id ----------------------------------------------------- */

static void name_cluster(struct sim *sim, struct sim_event *event)
{
    struct sim_disk *disk = LIST_ENTRY(event, struct sim_disk, naming);
    char why[HASP_WHY_SIZE];
    int error = datadir_save_identity(disk->datadir,
                                      datadir_identity(disk->datadir), why);
    (void)sim;
    if (!has_died(disk) && error != 0) {
        tell(disk, NEWS_DISK)->error = error;
    }
}

void sim_disk_know_cluster(struct sim_disk *disk,
                           const uint8_t cluster_id[CLUSTER_ID_SIZE])
{
    const struct datadir_identity *identity = datadir_identity(disk->datadir);
    if (!cluster_id_equal(identity->cluster_id, cluster_id)) {
        datadir_know_cluster(disk->datadir, cluster_id);
        disk->naming.run = name_cluster;
        sim_at(disk->sim, &disk->naming, disk->sim->now_ns + latency(disk));
    }
}

/* --- What it has lost ----------------------------------------------------- */

static void check_old(const struct sim_disk *disk, const char *why)
{
    if (!disk->is_old) {
        sim_fail(disk->sim, ORACLE_NODES,
                 "no disk has lost what was flushed: %s: %s",
                 host_of(disk)->name, why);
    }
}

void sim_disk_port_bar(void *data, const struct core_accusation *accusation,
                       const char *why)
{
    char failed[HASP_WHY_SIZE];
    struct sim_disk *disk = acting(data, "is barred", accusation->term,
                                   accusation->last_index, 0);
    if (disk != NULL) {
        check_old(disk, why);
        sim_node_disk_fails(
            disk->node,
            data_loss_marker_bar(disk->path, accusation, why, failed));
    }
}

void sim_disk_port_unbar(void *data)
{
    char failed[HASP_WHY_SIZE];
    struct sim_disk *disk = acting(data, "is not barred", 0, 0, 0);
    if (disk != NULL) {
        sim_node_disk_fails(disk->node,
                            data_loss_marker_unbar(disk->path, failed));
    }
}

void sim_disk_port_data_lost(void *data, const char *why)
{
    char failed[HASP_WHY_SIZE];
    struct sim_disk *disk = acting(data, "is condemned", 0, 0, 0);
    if (disk != NULL) {
        check_old(disk, why);
        sim_node_disk_fails(disk->node,
                            data_loss_marker_write(disk->path, why, failed));
        disk->is_condemned = true;
        sim_node_dies(disk->node);
    }
}

/* --- Life ----------------------------------------------------------------- */

void sim_disk_full(struct sim_disk *disk, bool is_full)
{
    disk->is_full = is_full;
    files_set_room(disk->files,
                   is_full ? sim_between(disk->sim, 0, 100000) : UINT64_MAX);
}

void sim_disk_init(struct sim_disk *disk, struct sim *sim,
                   struct sim_node *node)
{
    *disk = (struct sim_disk){.sim = sim, .node = node, .receiving_fd = -1};
    const char *name = host_of(disk)->name;
    tasks_use();
    tasks_init(&disk->tasks);
    disk->tasks.now_ns = now_of;
    disk->tasks.due = worker_due;
    disk->tasks.stepped = worker_stepped;
    disk->tasks.ended = worker_ended;
    disk->files = files_new(name, prng_next(&sim->prng));
    snprintf(disk->path, sizeof disk->path, "/%s/data", name);
    disk->segment_size = UINT64_C(16384) << prng_below(&sim->prng, 4);
    sim_table_init(&disk->lmdb, sim);
    disk->latency_ns = sim_between(sim, 50, 3000) * SIM_US;
}

void sim_disk_done(struct sim_disk *disk)
{
    CHECK(disk->datadir == NULL);
    sim_table_done(&disk->lmdb);
    files_free(disk->files);
}

static int open_table(void *data, const char *path, struct table **ret_table,
                      char why[HASP_WHY_SIZE])
{
    struct sim_disk *disk = data;
    return sim_table_open(&disk->lmdb, path, ret_table, why);
}

static int open_directory(struct sim_disk *disk, char why[HASP_WHY_SIZE])
{
    struct sim *sim = disk->sim;
    bool is_new = false;
    int error = datadir_open(disk->path, sim_node_id(disk->node),
                             sim_node_new_incarnation(disk->node),
                             &disk->datadir, &is_new, why);
    if (error != 0) {
        return error;
    }
    error = data_loss_marker_check(disk->path, why);
    if (error == 0) {
        error = data_loss_marker_load_bar(disk->path, &disk->accused, why);
    }
    if (error != 0) {
        return error;
    }
    struct recovery_disk found = {
        .datadir = disk->datadir,
        .wal_options = {.segment_size = disk->segment_size,
                        .log_id = prng_next(&sim->prng) | 1},
        .open_table = open_table,
        .data = disk};
    error = recovery_run(&disk->recovery, &found, why);
    disk->durable.wal = found.wal;
    disk->table = found.table;
    if (error == 0 && disk->recovery.has_snapshot) {
        keep_newest(disk, &disk->recovery.snapshot.header,
                    disk->recovery.snapshot.stream.size);
    }
    return error;
}

/* As write_beginning() of node/startup.c. */
static int write_beginning(struct sim_disk *disk,
                           const struct replica_entry *first)
{
    uint64_t term = 0, log_index = 0;
    int error = datadir_save_vote(disk->datadir, 1, 0);
    if (error == 0) {
        durable_append(&disk->durable, first, 1);
        error = durable_start(&disk->durable, disk->sim->now_ns);
    }
    while (error == 0 && wal_is_busy(disk->durable.wal)) {
        LIST_EACH (node, &disk->tasks.workers) {
            tasks_step(LIST_ENTRY(node, struct task, in_tasks));
        }
        error = durable_take_log(&disk->durable, disk->sim->now_ns, &term,
                                 &log_index);
    }
    return error;
}

static int begin_cluster(struct sim_disk *disk, struct bytes members,
                         struct replica_start *start, char why[HASP_WHY_SIZE])
{
    disk->first = (struct replica_entry){
        .term = 1, .log_index = 1, .type = ENTRY_CHANGE, .body = members};
    int error = write_beginning(disk, &disk->first);
    disk->saved_term = 1;
    if (error != 0) {
        snprintf(why, HASP_WHY_SIZE, "the first entry cannot be written");
        return error;
    }
    *start = (struct replica_start){
        .term = 1, .entries = &disk->first, .entry_count = 1};
    return 0;
}

int sim_disk_open(struct sim_disk *disk, struct bytes members,
                  struct replica_start *ret_start, char why[HASP_WHY_SIZE])
{
    files_start(disk->files);
    tasks_enter(&disk->tasks);
    disk->newest = (struct disk_snapshot){0};
    disk->durable = (struct durable){0};
    int error = open_directory(disk, why);
    if (error == 0) {
        wal_await(disk->durable.wal, false);
        *ret_start = disk->recovery.start;
        disk->saved_term = ret_start->term;
    }
    if (error == 0 && disk->recovery.is_empty && members.size > 0) {
        error = begin_cluster(disk, members, ret_start, why);
    }
    struct table *deferred = NULL;
    if (error == 0) {
        error = table_new_deferred(disk->table, &deferred);
        disk->table = deferred;
    }
    if (error == 0) {
        error = vote_saver_new(disk->datadir, &disk->durable.saver);
    }
    return error;
}

int sim_disk_begun(struct sim_disk *disk)
{
    recovery_done(&disk->recovery);
    return datadir_table_opened(disk->datadir);
}

/* Part of the work that the disk had been given is carried out. */
static void last_steps(struct sim_disk *disk)
{
    struct sim *sim = disk->sim;
    uint64_t now_ns = now_of(&disk->tasks);
    if (files_is_dead(disk->files) || sim_chance(sim, 0.5)) {
        return;
    }
    files_die_within(disk->files,
                     (uint32_t)sim_between(sim, 1, LAST_CALLS_MAX));
    LIST_EACH (node, &disk->tasks.workers) {
        struct task *task = LIST_ENTRY(node, struct task, in_tasks);
        if (task->when_ns <= now_ns) {
            tasks_step(task);
        }
    }
}

static void cancel_all(struct sim_disk *disk)
{
    struct sim_event *events[] = {&disk->taking, &disk->adopting,
                                  &disk->installing, &disk->naming};
    for (size_t i = 0; i < sizeof events / sizeof *events; i++) {
        sim_cancel(disk->sim, events[i]);
    }
    disk->has_news = false;
    disk->is_installed = disk->is_unmarked = false;
    disk->durable_index = 0;
    disk->durable_term = 0;
}

/* The process is gone: nothing of this reaches the disk. */
static void close_files(struct sim_disk *disk)
{
    table_abort(disk->txn);
    disk->txn = NULL;
    free((void *)(uintptr_t)disk->taken.configuration.data);
    disk->taken = (struct snapshot_header){0};
    close_receiving(disk);
    unmap_adopted(disk);
    recovery_done(&disk->recovery);
    vote_saver_free(disk->durable.saver);
    disk->durable.saver = NULL;
    wal_close(disk->durable.wal);
    disk->durable.wal = NULL;
    table_close(disk->table);
    disk->table = NULL;
    datadir_close(disk->datadir);
    disk->datadir = NULL;
}

int sim_disk_stop(struct sim_disk *disk)
{
    tasks_enter(&disk->tasks);
    cancel_all(disk);
    table_abort(disk->txn);
    disk->txn = NULL;
    int error = table_sync(disk->table);
    if (error == 0) {
        table_close(disk->table);
        disk->table = NULL;
        error = datadir_table_closed(disk->datadir);
    }
    close_files(disk);
    return error;
}

void sim_disk_close(struct sim_disk *disk, bool is_os_down)
{
    if (disk->datadir != NULL) {
        tasks_enter(&disk->tasks);
        last_steps(disk);
    }
    files_die(disk->files);
    close_files(disk);
    cancel_all(disk);
    if (is_os_down) {
        files_lose_power(disk->files);
        sim_table_lose_power(&disk->lmdb);
    }
}
