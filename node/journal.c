/* SPDX-License-Identifier: MIT */

/* The log, the vote and the free space: what the core asks of the disk,
 * carried out by threads and reported back through the loop. */

#include "node/journal.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>

#include "base/check.h"
#include "base/log.h"
#include "node/node.h"
#include "storage/disk_watch.h"
#include "storage/vote_saver.h"
#include "storage/wal.h"

/* Entries that are handed to the log in one call. */
#define APPEND_BATCH 128
/* That files cannot be opened is told so often. */
#define STARVED_TOLD_NS (60 * NS_PER_S)

/* What waits for a vote is not in flight; what waits for a segment is. */
static bool is_writing(const struct journal *journal)
{
    return journal->is_saving ? wal_is_writing(journal->wal)
                              : wal_is_busy(journal->wal);
}

static void fail(struct hasp_node *node, const char *what, int error)
{
    if (error == HASP_ENOSPC) {
        turn_fail(&node->turn, HASP_NODE_STORAGE,
                  "cannot %s in '%s': no space left on the device; make room "
                  "and start the node again",
                  what, node->options.directory);
    } else {
        turn_fail(
            &node->turn, HASP_NODE_STORAGE,
            "cannot %s in '%s': %s; look at the disk and the kernel's "
            "log, then start the node again (it reads back what is there)",
            what, node->options.directory, hasp_strerror(error));
    }
}

static void take_completions(struct journal *journal)
{
    struct hasp_node *node = journal->node;
    uint64_t term = 0, log_index = 0;
    int rv = wal_complete(journal->wal, &term, &log_index);
    if (rv != 0) {
        fail(node, "write the log", rv);
        return;
    }
    uint64_t now = turn_now();
    writes_ended(&journal->writes, now);
    if (is_writing(journal)) {
        /* wal_complete() has started the next one. */
        writes_began(&journal->writes, now);
    }
    if (!wal_is_busy(journal->wal)) {
        journal->is_resetting = false;
    }
    if (log_index != 0 && node->has_begun && !node->turn.is_over) {
        core_persisted(node->core, term, log_index, journal->writes.took_ns,
                       now);
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

/* With some distance between the two marks, so that it does not flutter. */
static void look_at_space(struct journal *journal)
{
    uint64_t reserve = journal->node->options.limits.disk_reserve;
    if (journal->space_error != 0) {
        LOG_WARN("cannot ask for the free space", "dir=%s",
                 journal->node->options.directory);
        return;
    }
    journal->free_size = journal->space_found;
    if (!journal->is_full && journal->free_size < reserve) {
        journal->is_full = true;
        LOG_ERROR("disk is nearly full",
                  "free=%" PRIu64 " reserve=%" PRIu64
                  " effect=\"changes are refused until there is room\"",
                  journal->free_size, reserve);
    } else if (journal->is_full && journal->free_size >= 2 * reserve) {
        journal->is_full = false;
        LOG_INFO("disk has room again", "free=%" PRIu64, journal->free_size);
    }
}

/* By the thread that watches the disk. */
static void tell_hang(void *data, const char *what, uint64_t age_ns,
                      bool is_over)
{
    double seconds = (double)age_ns / (double)NS_PER_S;
    (void)data;
    if (is_over) {
        LOG_WARN("disk goes on", "after_s=%.1f what=\"%s\"", seconds, what);
    } else {
        LOG_ERROR("disk hangs", "since_s=%.1f what=\"%s\"", seconds, what);
    }
}

void journal_watch(struct journal *journal)
{
    struct hasp_node *node = journal->node;
    uint64_t election_ns = node->options.election_ms * NS_PER_MS;
    CHECK(journal->wal != NULL && !journal->is_polling);
    journal->writes.slow_ns = 2 * election_ns < DISK_HANGS_NS ? 2 * election_ns
                                                              : DISK_HANGS_NS;
    journal->writes.hangs_ns = 10 * election_ns;
    journal->votes = journal->writes;
    journal->space_work.data = journal;
    journal->space_error = datadir_space(node->datadir, &journal->space_found);
    look_at_space(journal);
    if (disk_watch_start(tell_hang, NULL) != 0) {
        turn_fail(&node->turn, HASP_NODE_STORAGE,
                  "cannot start a thread that watches the disk");
    }
    CHECK(uv_poll_init(&node->uv, &journal->poll, wal_fd(journal->wal)) == 0);
    journal->poll.data = journal;
    CHECK(uv_poll_start(&journal->poll, UV_READABLE, on_readable) == 0);
    journal->is_polling = true;
}

void journal_await(struct journal *journal, bool is_awaited)
{
    if (wal_await(journal->wal, is_awaited) &&
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
    int rv = vote_saver_take(journal->saver, &saved);
    if (rv == HASP_EBUSY) {
        return;
    }
    if (rv != 0) {
        fail(node, "write the vote", rv);
        return;
    }
    CHECK(saved.term <= journal->asked_term); /* Nobody else asks. */
    if (saved.term == journal->asked_term &&
        saved.voted_for == journal->asked_vote) {
        journal->is_saving = false;
        writes_ended(&journal->votes, turn_now());
        wal_hold(journal->wal, false);
        journal_start(journal);
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
    /* A second saver would write the vote beside the first. */
    CHECK(journal->saver == NULL && journal->is_polling);
    int rv = vote_saver_new(node->datadir, &journal->saver);
    if (rv != 0) {
        turn_fail(&node->turn, HASP_NODE_STORAGE,
                  "cannot start a thread for the votes");
        return;
    }
    CHECK(uv_poll_init(&node->uv, &journal->saver_poll,
                       vote_saver_fd(journal->saver)) == 0);
    journal->saver_poll.data = journal;
    CHECK(uv_poll_start(&journal->saver_poll, UV_READABLE, on_vote_saved) == 0);
}

void journal_unwatch(struct journal *journal)
{
    if (journal->is_polling) {
        journal->is_polling = false;
        uv_close((uv_handle_t *)&journal->poll, NULL);
        if (journal->saver != NULL) {
            uv_close((uv_handle_t *)&journal->saver_poll, NULL);
        }
    }
}

void journal_done(struct journal *journal)
{
    CHECK(!journal->is_polling); /* It would read a descriptor that is gone. */
    disk_watch_stop();
    vote_saver_free(journal->saver);
    journal->saver = NULL;
}

void journal_start(struct journal *journal)
{
    int rv = wal_start(journal->wal);
    if (rv != 0) {
        fail(journal->node, "write the log", rv);
        return;
    }
    if (is_writing(journal)) {
        writes_began(&journal->writes, turn_now());
    } else {
        writes_ended(&journal->writes, turn_now());
    }
}

/* On a worker's thread. */
static void space_run(uv_work_t *work)
{
    struct journal *journal = work->data;
    uint32_t place = disk_watch_begin("ask for the free space");
    journal->space_error = datadir_space(journal->node->datadir,
                                         &journal->space_found);
    disk_watch_end(place);
}

static void tell_core(struct journal *journal, uint64_t now_ns)
{
    struct hasp_node *node = journal->node;
    bool is_scarce = journal->is_full || journal->writes.is_slow;
    if (is_scarce != journal->is_told_scarce && node->has_begun &&
        !node->turn.has_failed) {
        journal->is_told_scarce = is_scarce;
        core_disk_scarce(node->core, is_scarce, now_ns);
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
        tell_core(journal, turn_now());
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

/* Not the disk's fault: it goes on once there is a descriptor. */
static void look_at_files(struct journal *journal, uint64_t now_ns)
{
    bool is_starved = wal_is_starved(journal->wal);
    if (is_starved && (journal->starved_told_ns == 0 ||
                       now_ns - journal->starved_told_ns >= STARVED_TOLD_NS)) {
        LOG_ERROR("too many open files",
                  "what=\"the next segment of the log\" effect=\"writes wait "
                  "for it\" hint=\"raise the limit of open files "
                  "(LimitNOFILE, ulimit -n)\"");
        journal->starved_told_ns = now_ns;
    } else if (!is_starved && journal->starved_told_ns != 0) {
        LOG_INFO("files can be opened again", "dir=%s",
                 journal->node->options.directory);
        journal->starved_told_ns = 0;
    }
}

void journal_tick(struct journal *journal, uint64_t now_ns)
{
    ask_for_space(journal);
    journal_look(journal, now_ns);
    look_at_files(journal, now_ns);
}

static void look_at_hang(struct hasp_node *node, const struct writes *writes,
                         uint64_t since_ns, const char *what)
{
    if (writes_hang(writes, since_ns)) {
        turn_fail(&node->turn, HASP_NODE_STORAGE,
                  "a write to the %s in '%s' has not ended for %" PRIu64
                  " ms: the disk hangs",
                  what, node->options.directory, since_ns / NS_PER_MS);
    }
}

/* Only the time up to 'read_ns' counts, by which all input had been read: while
 * the process was stopped, a write may have ended unseen. */
static void look_at_write(struct journal *journal, uint64_t read_ns)
{
    struct hasp_node *node = journal->node;
    struct writes *writes = &journal->writes;
    bool was_slow = writes->is_slow;
    uint64_t since_ns = writes_look(writes, read_ns);
    if (!wal_is_starved(journal->wal)) { /* Else it waits for a segment. */
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
    look_at_hang(node, &journal->votes, writes_look(&journal->votes, read_ns),
                 "vote");
    look_at_write(journal, read_ns);
    tell_core(journal, now_ns);
}

uint64_t journal_next(const struct journal *journal)
{
    uint64_t write_ns = writes_next(&journal->writes);
    uint64_t vote_ns = writes_next(&journal->votes);
    return write_ns < vote_ns ? write_ns : vote_ns;
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
    CHECK(!journal->node->has_begun); /* It would block the loop. */
    journal_port_log_append(journal->node, entries, count);
    int rv = wal_start(journal->wal);
    while (rv == 0 && wal_is_busy(journal->wal)) {
        struct pollfd waiting = {.fd = wal_fd(journal->wal), .events = POLLIN};
        if (!wal_await(journal->wal, true) && poll(&waiting, 1, -1) < 0 &&
            errno != EINTR) {
            return HASP_EIO;
        }
        rv = wal_complete(journal->wal, &term, &log_index);
    }
    return rv;
}

void journal_port_save_vote(void *data, uint64_t term, uint64_t voted_for)
{
    struct hasp_node *node = data;
    if (node->turn.has_failed) {
        return;
    }
    /* A term has one vote, which is never taken back. */
    CHECK(node->journal.saver != NULL && term >= node->journal.asked_term);
    CHECK(term > node->journal.asked_term || node->journal.asked_vote == 0 ||
          node->journal.asked_vote == voted_for);
    node->journal.asked_term = term;
    node->journal.asked_vote = voted_for;
    node->journal.is_saving = true;
    wal_hold(node->journal.wal, true);
    writes_began(&node->journal.votes, turn_now());
    vote_saver_save(node->journal.saver, term, voted_for);
}

void journal_port_log_truncate(void *data, uint64_t from_index)
{
    struct hasp_node *node = data;
    if (!node->turn.has_failed) {
        wal_truncate(node->journal.wal, from_index);
    }
}

void journal_port_log_append(void *data, const struct replica_entry *entries,
                             uint32_t count)
{
    struct hasp_node *node = data;
    struct wal_entry batch[APPEND_BATCH];
    if (node->turn.has_failed) {
        return;
    }
    for (uint32_t i = 0; i < count;) {
        uint32_t size = 0;
        for (; size < APPEND_BATCH && i < count; size++, i++) {
            batch[size] = (struct wal_entry){.term = entries[i].term,
                                             .log_index = entries[i].log_index,
                                             .type = (uint8_t)entries[i].type,
                                             .body = entries[i].body};
        }
        wal_append(node->journal.wal, batch, size);
    }
}

void journal_port_log_trim(void *data, uint64_t up_to_index)
{
    struct hasp_node *node = data;
    if (node->turn.has_failed) {
        return;
    }
    int rv = wal_trim(node->journal.wal, up_to_index);
    if (rv != 0) {
        fail(node, "trim the log", rv);
    }
}

void journal_reset(struct journal *journal, uint64_t next_index)
{
    CHECK(!journal->is_resetting);
    if (!journal->node->turn.has_failed) {
        journal->is_resetting = true;
        wal_reset_start(journal->wal, next_index);
    }
}
