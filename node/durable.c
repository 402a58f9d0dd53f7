/* SPDX-License-Identifier: MIT */

/* The order in which votes and log entries are written. */

#include "node/durable.h"

#include "base/check.h"
#include "storage/vote_saver.h"
#include "storage/wal.h"

/* Entries that are passed to the log in one call. */
#define APPEND_BATCH 128

/* True if a write of the log is in flight. A write that waits for a vote does
 * not count, one that waits for a segment does. */
static bool is_writing(const struct durable *durable)
{
    return durable->is_saving ? wal_is_writing(durable->wal)
                              : wal_is_busy(durable->wal);
}

void durable_save_vote(struct durable *durable, uint64_t term,
                       uint64_t voted_for, uint64_t now_ns)
{
    /* A term has one vote, which is never changed (Raft, section 5.2). */
    CHECK(durable->saver != NULL && term >= durable->asked_term);
    CHECK(term > durable->asked_term || durable->asked_vote == 0 ||
          durable->asked_vote == voted_for);
    durable->asked_term = term;
    durable->asked_vote = voted_for;
    durable->is_saving = true;
    wal_hold(durable->wal, true);
    write_latency_began(&durable->votes, now_ns);
    vote_saver_save(durable->saver, term, voted_for);
}

void durable_append(struct durable *durable,
                    const struct replica_entry *entries, uint32_t count)
{
    struct wal_entry batch[APPEND_BATCH];
    for (uint32_t i = 0; i < count;) {
        uint32_t size = 0;
        for (; size < APPEND_BATCH && i < count; size++, i++) {
            batch[size] = (struct wal_entry){.term = entries[i].term,
                                             .log_index = entries[i].log_index,
                                             .type = (uint8_t)entries[i].type,
                                             .body = entries[i].body};
        }
        wal_append(durable->wal, batch, size);
    }
}

void durable_reset(struct durable *durable, uint64_t next_index)
{
    CHECK(!durable->is_resetting);
    durable->is_resetting = true;
    wal_reset_start(durable->wal, next_index);
}

int durable_start(struct durable *durable, uint64_t now_ns)
{
    int error = wal_start(durable->wal);
    if (error != 0) {
        return error;
    }
    if (is_writing(durable)) {
        write_latency_began(&durable->writes, now_ns);
    } else {
        write_latency_ended(&durable->writes, now_ns);
    }
    return 0;
}

int durable_take_vote(struct durable *durable, uint64_t now_ns,
                      struct vote_saved *ret_saved)
{
    struct vote_saved saved;
    int error = vote_saver_take(durable->saver, &saved);
    if (error != 0) {
        return error;
    }
    /* Only votes that this node requested are saved. */
    CHECK(saved.term <= durable->asked_term);
    if (saved.term == durable->asked_term &&
        saved.voted_for == durable->asked_vote) {
        durable->is_saving = false;
        write_latency_ended(&durable->votes, now_ns);
        wal_hold(durable->wal, false);
        error = durable_start(durable, now_ns);
    }
    *ret_saved = saved;
    return error;
}

int durable_take_log(struct durable *durable, uint64_t now_ns,
                     uint64_t *ret_term, uint64_t *ret_index)
{
    uint64_t count = wal_write_count(durable->wal);
    int error = wal_complete(durable->wal, ret_term, ret_index);
    if (error != 0) {
        return error;
    }
    if (wal_write_count(durable->wal) != count || !is_writing(durable)) {
        write_latency_ended(&durable->writes, now_ns);
    }
    if (is_writing(durable)) {
        /* wal_complete() has started the next write. */
        write_latency_began(&durable->writes, now_ns);
    }
    if (!wal_is_busy(durable->wal)) {
        durable->is_resetting = false;
    }
    return 0;
}
