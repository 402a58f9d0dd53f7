/* SPDX-License-Identifier: MIT */

/* The log, the vote and the free space: threads access the disk for the core,
 * and report back through the loop. */

#include "node/journal.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>

#include "base/check.h"
#include "base/log.h"
#include "base/minmax.h"
#include "node/node.h"
#include "storage/disk_watch.h"
#include "storage/vote_saver.h"
#include "storage/wal.h"

/* Time between log lines about files that cannot be opened. */
#define STARVED_LOG_NS (60 * NS_PER_S)

static void journal_fail(struct hasp_node *node, const char *what, int error)
{
    if (error == HASP_ENOSPC) {
        turn_fail(&node->turn, HASP_NODE_STORAGE,
                  "cannot %s in '%s': no space left on the device; make room "
                  "and start the node again",
                  what, node->options.directory);
    } else {
        turn_fail(&node->turn, HASP_NODE_STORAGE,
                  "cannot %s in '%s': %s; check the disk and the kernel's log, "
                  "then start the node again (it recovers from the disk)",
                  what, node->options.directory, hasp_strerror(error));
    }
}

static void take_completions(struct journal *journal)
{
    struct hasp_node *node = journal->node;
    uint64_t term = 0, log_index = 0;
    uint64_t now = turn_at_work(&node->turn);
    int rv = durable_take_log(&journal->durable, now, &term, &log_index);
    if (rv != 0) {
        journal_fail(node, "write the log", rv);
        return;
    }
    if (log_index != 0 && node->has_begun && !node->turn.is_over) {
        core_persisted(node->core, term, log_index,
                       journal->durable.writes.took_ns, now);
    }
    turn_wake(&node->turn);
}

static void on_readable(uv_poll_t *poll, int status, int events)
{
    struct journal *journal = poll->data;
    (void)events;
    CHECK(status == 0);
    if (!journal->node->turn.has_failed) {
        take_completions(journal);
    }
}

/* Updates 'is_full' from the free space. The two thresholds differ, so that it
 * does not flap. */
static void look_at_space(struct journal *journal)
{
    uint64_t reserve = journal->node->options.limits.disk_reserve;
    if (journal->space_error != 0) {
        /* The last known value stays in force: an error says nothing about the
         * space. */
        LOG_WARN("cannot read the free disk space", "dir=%s",
                 journal->node->options.directory);
        return;
    }
    journal->free_size = journal->space_found;
    if (!journal->is_full && journal->free_size < reserve) {
        journal->is_full = true;
        LOG_ERROR("disk is nearly full",
                  "free=%" PRIu64 " reserve=%" PRIu64
                  " effect=\"changes are refused until twice the reserve is "
                  "free\"",
                  journal->free_size, reserve);
    } else if (journal->is_full && journal->free_size >= 2 * reserve) {
        journal->is_full = false;
        LOG_INFO("disk has room again", "free=%" PRIu64, journal->free_size);
    }
}

/* Runs on the thread that watches the disk. */
static void tell_hang(void *data, const char *what, uint64_t age_ns,
                      bool is_over)
{
    double seconds = (double)age_ns / (double)NS_PER_S;
    (void)data;
    if (is_over) {
        LOG_WARN("disk responds again", "after_s=%.1f what=\"%s\"", seconds,
                 what);
    } else {
        LOG_ERROR("disk hangs", "since_s=%.1f what=\"%s\"", seconds, what);
    }
}

void journal_watch(struct journal *journal)
{
    struct hasp_node *node = journal->node;
    uint64_t election_ns = node->options.election_ms * NS_PER_MS;
    CHECK(journal->durable.wal != NULL && !journal->is_polling);
    journal->durable.writes.slow_ns = 2 * election_ns < DISK_HANGS_NS
                                          ? 2 * election_ns
                                          : DISK_HANGS_NS;
    /* Long after the leadership was handed over: the exit is only for a disk
     * that will not respond again. */
    journal->durable.writes.hangs_ns = 10 * election_ns;
    journal->durable.votes = journal->durable.writes;
    journal->space_work.data = journal;
    journal->space_error = datadir_space(node->datadir, &journal->space_found);
    look_at_space(journal);
    if (disk_watch_start(tell_hang, NULL) != 0) {
        turn_fail(&node->turn, HASP_NODE_STORAGE,
                  "cannot start a thread that watches the disk");
    }
    CHECK(uv_poll_init(&node->uv, &journal->poll,
                       wal_fd(journal->durable.wal)) == 0);
    journal->poll.data = journal;
    CHECK(uv_poll_start(&journal->poll, UV_READABLE, on_readable) == 0);
    journal->is_polling = true;
}

void journal_await(struct journal *journal, bool is_awaited)
{
    if (wal_await(journal->durable.wal, is_awaited) &&
        !journal->node->turn.has_failed) {
        take_completions(journal);
    }
}

static void on_vote_saved(uv_poll_t *poll, int status, int events)
{
    struct journal *journal = poll->data;
    struct hasp_node *node = journal->node;
    struct vote_saved saved;
    (void)events;
    CHECK(status == 0);
    if (node->turn.has_failed) {
        return;
    }
    /* The core may answer a vote request only after this: a vote must be
     * durable before it is sent (Raft, figure 2). */
    int rv = durable_take_vote(&journal->durable, turn_now(), &saved);
    if (rv == HASP_EBUSY) {
        return;
    }
    if (rv != 0) {
        journal_fail(node, "write the vote", rv);
        return;
    }
    if (!turn_is_over(&node->turn)) {
        core_vote_saved(node->core, saved.term, saved.voted_for, saved.flush_ns,
                        turn_now());
    }
    turn_wake(&node->turn);
}

void journal_begin(struct journal *journal)
{
    struct hasp_node *node = journal->node;
    /* Two savers could write votes out of order. */
    CHECK(journal->durable.saver == NULL && journal->is_polling);
    int rv = vote_saver_new(node->datadir, &journal->durable.saver);
    if (rv != 0) {
        turn_fail(&node->turn, HASP_NODE_STORAGE,
                  "cannot start a thread for the votes");
        return;
    }
    CHECK(uv_poll_init(&node->uv, &journal->saver_poll,
                       vote_saver_fd(journal->durable.saver)) == 0);
    journal->saver_poll.data = journal;
    CHECK(uv_poll_start(&journal->saver_poll, UV_READABLE, on_vote_saved) == 0);
}

void journal_unwatch(struct journal *journal)
{
    if (journal->is_polling) {
        journal->is_polling = false;
        uv_close((uv_handle_t *)&journal->poll, NULL);
        if (journal->durable.saver != NULL) {
            uv_close((uv_handle_t *)&journal->saver_poll, NULL);
        }
    }
}

void journal_done(struct journal *journal)
{
    /* The poll would use a closed descriptor. */
    CHECK(!journal->is_polling);
    disk_watch_stop();
    vote_saver_free(journal->durable.saver);
    journal->durable.saver = NULL;
}

void journal_start(struct journal *journal)
{
    int rv = durable_start(&journal->durable, turn_now());
    if (rv != 0) {
        journal_fail(journal->node, "write the log", rv);
    }
}

/* Runs on a worker's thread. */
static void space_run(uv_work_t *work)
{
    struct journal *journal = work->data;
    uint32_t place = disk_watch_begin("ask for the free space");
    journal->space_error = datadir_space(journal->node->datadir,
                                         &journal->space_found);
    disk_watch_end(place);
}

enum core_disk journal_disk(const struct journal *journal)
{
    return journal->is_full                  ? CORE_DISK_FULL
           : journal->durable.writes.is_slow ? CORE_DISK_SLOW
                                             : CORE_DISK_OK;
}

static void journal_tell_core(struct journal *journal, uint64_t now_ns)
{
    struct hasp_node *node = journal->node;
    enum core_disk disk = journal_disk(journal);
    if (disk != journal->reported && node->has_begun &&
        !node->turn.has_failed) {
        journal->reported = disk;
        core_disk_is(node->core, disk, now_ns);
        turn_wake(&node->turn);
    }
}

static void space_ended(uv_work_t *work, int status)
{
    struct journal *journal = work->data;
    CHECK(status == 0 && journal->is_asking);
    journal->is_asking = false;
    if (!turn_is_over(&journal->node->turn)) {
        look_at_space(journal);
        journal_tell_core(journal, turn_now());
    }
}

static void ask_for_space(struct journal *journal)
{
    if (!journal->is_asking) {
        journal->is_asking = true;
        CHECK(uv_queue_work(&journal->node->uv, &journal->space_work, space_run,
                            space_ended) == 0);
    }
}

/* Logs that there is no descriptor for the next segment. That is not a fault of
 * the disk, and the log continues when there is one. */
static void look_at_files(struct journal *journal, uint64_t now_ns)
{
    bool is_starved = wal_is_starved(journal->durable.wal);
    if (is_starved && (journal->starved_logged_ns == 0 ||
                       now_ns - journal->starved_logged_ns >= STARVED_LOG_NS)) {
        LOG_ERROR("too many open files",
                  "what=\"the next segment of the log\" effect=\"writes wait "
                  "for it\" hint=\"raise the limit of open files "
                  "(LimitNOFILE, ulimit -n)\"");
        journal->starved_logged_ns = now_ns;
    } else if (!is_starved && journal->starved_logged_ns != 0) {
        LOG_INFO("files can be opened again", "dir=%s",
                 journal->node->options.directory);
        journal->starved_logged_ns = 0;
    }
}

void journal_tick(struct journal *journal, uint64_t now_ns)
{
    ask_for_space(journal);
    journal_look(journal, now_ns);
    look_at_files(journal, now_ns);
}

static void look_at_hang(struct hasp_node *node,
                         const struct write_latency *writes, uint64_t since_ns,
                         const char *what)
{
    if (write_latency_hang(writes, since_ns)) {
        turn_fail(&node->turn, HASP_NODE_STORAGE,
                  "a write to the %s in '%s' has not ended for %" PRIu64
                  " ms: the disk hangs",
                  what, node->options.directory, since_ns / NS_PER_MS);
    }
}

/* Checks the write in flight. Only the time up to 'read_ns' counts, up to which
 * all input has been read: while the process was stopped, the write may have
 * ended unnoticed. */
static void look_at_write(struct journal *journal, uint64_t read_ns)
{
    struct hasp_node *node = journal->node;
    struct write_latency *writes = &journal->durable.writes;
    bool was_slow = writes->is_slow;
    uint64_t since_ns = write_latency_look(writes, read_ns);
    /* A log without a descriptor waits for a segment, not for the disk. */
    if (!wal_is_starved(journal->durable.wal)) {
        look_at_hang(node, writes, since_ns, "log");
    }
    if (node->turn.has_failed) {
        return;
    }
    if (writes->is_slow && !was_slow) {
        LOG_ERROR("disk is slow",
                  "write_ms=%" PRIu64 " effect=\"leadership is handed over\"",
                  since_ns / NS_PER_MS);
    } else if (!writes->is_slow && was_slow) {
        LOG_INFO("disk writes again", "dir=%s", node->options.directory);
    }
}

void journal_look(struct journal *journal, uint64_t now_ns)
{
    struct hasp_node *node = journal->node;
    uint64_t read_ns = turn_read(&node->turn, now_ns);
    look_at_hang(node, &journal->durable.votes,
                 write_latency_look(&journal->durable.votes, read_ns), "vote");
    look_at_write(journal, read_ns);
    journal_tell_core(journal, now_ns);
}

uint64_t journal_next(const struct journal *journal)
{
    uint64_t write_ns = write_latency_next(&journal->durable.writes);
    uint64_t vote_ns = write_latency_next(&journal->durable.votes);
    return u64_min(write_ns, vote_ns);
}

uint64_t journal_room(const struct journal *journal)
{
    uint64_t reserve = journal->node->options.limits.disk_reserve;
    return journal->free_size > reserve ? journal->free_size - reserve : 0;
}

int journal_write_now(struct journal *journal,
                      const struct replica_entry *entries, uint32_t count)
{
    uint64_t term = 0, log_index = 0;
    /* This would block the loop of a running node. */
    CHECK(!journal->node->has_begun);
    journal_port_log_append(journal->node, entries, count);
    int rv = wal_start(journal->durable.wal);
    while (rv == 0 && wal_is_busy(journal->durable.wal)) {
        struct pollfd waiting = {.fd = wal_fd(journal->durable.wal),
                                 .events = POLLIN};
        if (!wal_await(journal->durable.wal, true) &&
            poll(&waiting, 1, -1) < 0 && errno != EINTR) {
            return HASP_EIO;
        }
        rv = wal_complete(journal->durable.wal, &term, &log_index);
    }
    return rv;
}

void journal_port_save_vote(void *data, uint64_t term, uint64_t voted_for)
{
    struct hasp_node *node = data;
    if (node->turn.has_failed) {
        return;
    }
    durable_save_vote(&node->journal.durable, term, voted_for, turn_now());
}

void journal_port_log_truncate(void *data, uint64_t from_index)
{
    struct hasp_node *node = data;
    if (!node->turn.has_failed) {
        wal_truncate(node->journal.durable.wal, from_index);
    }
}

void journal_port_log_append(void *data, const struct replica_entry *entries,
                             uint32_t count)
{
    struct hasp_node *node = data;
    if (!node->turn.has_failed) {
        durable_append(&node->journal.durable, entries, count);
    }
}

void journal_port_log_trim(void *data, uint64_t up_to_index)
{
    struct hasp_node *node = data;
    if (node->turn.has_failed) {
        return;
    }
    int rv = wal_trim(node->journal.durable.wal, up_to_index);
    if (rv != 0) {
        journal_fail(node, "trim the log", rv);
    }
}

void journal_reset(struct journal *journal, uint64_t next_index)
{
    if (!journal->node->turn.has_failed) {
        durable_reset(&journal->durable, next_index);
    }
}
