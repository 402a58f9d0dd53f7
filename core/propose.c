/* SPDX-License-Identifier: MIT */

/* Makes one batch of a turn's commands, and records which request waits for
 * which entry: a ring by log index, because entries are applied in order. */

#include "core/propose.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/memory.h"
#include "base/minmax.h"
#include "core/audit_log.h"
#include "core/authorize.h"
#include "core/command.h"
#include "core/members/feature.h"
#include "core/state.h"
#include "lockfsm/feature.h"

#define RING_SIZE_FIRST 1024
/* A HEARD with this many sessions gets no further heartbeat, so that no entry
 * takes a millisecond to apply. */
#define HEARD_SESSION_MAX 1024

bool propose_is_open(const struct core *core)
{
    return is_serving(core) && !replica_is_transferring(core->replica);
}

/* Makes one entry of the bytes of the batch from 'start' on. */
static void propose_add_item(struct propose *propose, size_t start,
                             struct request *chain)
{
    CHECK(start < propose->batch.size); /* An empty entry is no command. */
    if (propose->item_count == propose->item_capacity) {
        ROOM(propose->items, propose->item_capacity, propose->item_count + 1);
        propose->commands = memory_resize(propose->commands,
                                          propose->item_capacity *
                                              sizeof *propose->commands);
    }
    propose->items[propose->item_count++] = (struct batch_item){
        start, propose->batch.size - start, chain};
}

/* Another node may lead and have raised the level, so leadership must be
 * confirmed before the request is refused (rule 13). */
static void refuse_level(struct core *core, struct request *request,
                         const char *what)
{
    if (request->is_confirmed) {
        feature_refuse(core, request, what);
    } else {
        request->must_be_refused = true;
        read_index_enqueue(core, request);
    }
}

/* True if the request may not have this entry: it has been refused, or waits.
 */
static bool propose_refuses(struct core *core, struct request *request,
                            const struct entry *entry)
{
    struct codec_level needed;
    if (authorize_refuses_entry(core, request, entry)) {
        return true;
    }
    if (!entry_check(entry, &needed)) {
        /* Every node would stop at such an entry, now and after each
         * restart. */
        request_refuse(core, request, WORD_BADARG,
                       "the entry for this request would be too large for the "
                       "nodes to read");
        return true;
    }
    if (!feature_allows(core, needed.level)) {
        refuse_level(core, request, needed.what);
        return true;
    }
    return false;
}

#ifdef HASP_CHECK_SLOW
/* True if applying will find what was checked here: the bytes say the same. */
static bool is_read_back(struct bytes command, const struct entry *entry)
{
    struct arena arena = {0};
    struct buffer again = {0};
    struct entry decoded;
    struct codec_level level, needed;
    bool is_same = entry_get(command, &arena, &decoded, &level) &&
                   entry_check(entry, &needed) && decoded.op == entry->op &&
                   level.level == needed.level && level.what == needed.what;
    if (is_same) {
        entry_put(&again, &decoded);
        is_same = bytes_equal(buffer_bytes(&again), command);
    }
    buffer_done(&again);
    arena_done(&arena);
    return is_same;
}
#endif

/* Encodes an entry into the batch. */
static void propose_add(struct propose *propose, const struct entry *entry,
                        struct request *chain)
{
    size_t start = propose->batch.size;
    entry_put(&propose->batch, entry);
    CHECK_SLOW(is_read_back(
        bytes_of(propose->batch.data + start, propose->batch.size - start),
        entry));
    propose_add_item(propose, start, chain);
}

void propose_entry(struct core *core, struct request *request,
                   struct entry entry)
{
    CHECK(is_serving(core)); /* Only a leader that serves proposes (rule 12). */
    entry.user = request->user;
    if ((request->command->flags & COMMAND_TRAIL) != 0) {
        audit_log_sign(core, request, &entry);
    }
    if (propose_refuses(core, request, &entry)) {
        return;
    }
    request_move(core, request, REQUEST_LOGGED);
    request->next = NULL;
    propose_add(&core->leadership.propose, &entry, request);
    if ((request->command->flags & COMMAND_REDIS) == 0) {
        /* The result has everything that the answer needs. */
        request_release_call(core, request);
    }
}

bool propose_own(void *data, const struct entry *entry)
{
    struct core *core = data;
    struct codec_level needed;
    if (!propose_is_open(core) || core->leadership.propose.own_in_flight >=
                                      core->options.limits.own_in_flight) {
        return false;
    }
    bool is_readable = entry_check(entry, &needed);
    CHECK(is_readable && feature_allows(core, needed.level));
    propose_add(&core->leadership.propose, entry, NULL);
    core->leadership.propose.own_in_flight++;
    return true;
}

void propose_hearing(struct core *core, uint64_t session)
{
    struct propose *propose = &core->leadership.propose;
    CHECK(propose_is_open(core));
    ROOM(propose->hearing, propose->hearing_capacity,
         propose->hearing_count + 1);
    propose->hearing[propose->hearing_count++] = (struct hearing){session,
                                                                  NULL};
    timers_hearing(core->timers, session);
}

void propose_after_heard(struct core *core, struct request *request)
{
    struct propose *propose = &core->leadership.propose;
    CHECK(propose->hearing_count > 0);
    struct hearing *last = &propose->hearing[propose->hearing_count - 1];
    /* The request has named that session just now. */
    CHECK(last->request == NULL);
    request_move(core, request, REQUEST_LOGGED);
    last->request = request;
}

bool propose_has_work(const struct core *core)
{
    const struct propose *propose = &core->leadership.propose;
    return propose->item_count > 0 ||
           (propose->hearing_count > 0 && propose->heard_index == 0);
}

/* Adds only whole heartbeats, so that each is decided on when all its sessions
 * are in applied HEARDs. */
static void add_heard(struct propose *propose)
{
    struct request *chain = NULL;
    uint32_t count = 0;
    uint64_t *sessions = memory_new(propose->hearing_count * sizeof *sessions);
    while (count < propose->hearing_count) {
        struct request *request = propose->hearing[count].request;
        sessions[count] = propose->hearing[count].session;
        count++;
        if (request != NULL) {
            request->next = chain;
            chain = request;
            /* Checked only at the end of a heartbeat, so that none is split
             * between two entries. */
            if (count >= HEARD_SESSION_MAX) {
                break;
            }
        }
    }
    struct heard_command heard = {.sessions = sessions, .session_count = count};
    struct entry entry = entry_of_heard(&heard);
    propose_add(propose, &entry, chain);
    free(sessions);
    propose->hearing_count -= count;
    memmove(propose->hearing, propose->hearing + count,
            propose->hearing_count * sizeof *propose->hearing);
    propose->heard_item = propose->item_count;
}

static struct expected *expected_at(struct propose *propose, uint64_t log_index)
{
    return &propose->ring[log_index & (propose->ring_size - 1)];
}

/* Makes space for all indexes before 'end'. */
static void grow_ring(struct propose *propose, uint64_t end)
{
    struct propose old = *propose;
    if (propose->ring_size == 0) {
        propose->ring_size = RING_SIZE_FIRST;
    }
    while (end - propose->ring_first > propose->ring_size) {
        propose->ring_size *= 2;
    }
    if (propose->ring_size == old.ring_size) {
        return;
    }
    propose->ring = memory_new(propose->ring_size * sizeof *propose->ring);
    for (uint64_t i = old.ring_first; i < old.ring_end; i++) {
        *expected_at(propose, i) = *expected_at(&old, i);
    }
    free(old.ring);
}

/* Enters the batch into the ring, from index 'first' on. */
static void propose_enter(struct propose *propose, uint64_t first,
                          uint64_t now_ns)
{
    if (propose->ring_first == propose->ring_end) {
        propose->ring_first = propose->ring_end = first;
        propose->ring_committed = propose->ring_flushed = first;
    }
    /* Between two batches there may be entries that no request waits for (a
     * barrier, a change). */
    CHECK(first >= propose->ring_end);
    grow_ring(propose, first + propose->item_count);
    for (; propose->ring_end < first; propose->ring_end++) {
        *expected_at(propose, propose->ring_end) = (struct expected){0};
    }
    for (uint32_t i = 0; i < propose->item_count; i++, propose->ring_end++) {
        struct request *chain = propose->items[i].requests;
        if (i + 1 == propose->heard_item) {
            propose->heard_index = propose->ring_end;
        }
        *expected_at(propose, propose->ring_end) = (struct expected){
            .requests = chain, .is_own = chain == NULL, .proposed_ns = now_ns};
        for (struct request *r = chain; r != NULL; r = r->next) {
            r->index = propose->ring_end;
            request_mark_logged(r);
        }
    }
}

static void empty_batch(struct propose *propose)
{
    propose->item_count = 0;
    propose->heard_item = 0;
    buffer_clear(&propose->batch);
}

static void propose_refuse_item(struct core *core,
                                const struct batch_item *item, int error)
{
    struct request *next;
    for (struct request *r = item->requests; r != NULL; r = next) {
        next = r->next;
        if (error == HASP_ENOTLEADER) {
            request_return(core, r);
        } else {
            request_refuse(core, r, WORD_BUSY,
                           "too many entries are in flight");
        }
    }
}

/* Discards the batch, of which nothing was submitted. */
static void propose_refused(struct core *core, int error)
{
    struct propose *propose = &core->leadership.propose;
    for (uint32_t i = 0; i < propose->item_count; i++) {
        /* The modules that propose for the node itself rely on their entries:
         * one proposed while propose_is_open() is true, and within
         * own_in_flight, is never refused. */
        CHECK(propose->items[i].requests != NULL);
        propose_refuse_item(core, &propose->items[i], error);
    }
    empty_batch(propose);
}

/* The most entries of clients that are in the log and not committed. Releases
 * pass requests_in_flight, and have a quarter of it, and a few, besides. */
static uint64_t clients_in_flight_max(const struct core *core)
{
    uint64_t max = core->options.limits.requests_in_flight;
    return max + max / 4 + 16;
}

uint32_t propose_in_flight_max(const struct core *core)
{
    uint64_t own = core->options.limits.own_in_flight;
    return (uint32_t)(clients_in_flight_max(core) + own + own / 8 + 8);
}

static uint64_t clients_in_flight(struct propose *propose)
{
    uint64_t count = 0;
    for (uint64_t i = propose->ring_committed; i < propose->ring_end; i++) {
        count += !expected_at(propose, i)->is_own;
    }
    return count;
}

/* Refuses the last entries of clients if there are too many, because the
 * replica refuses a batch as a whole, with the entries of this node. */
static void propose_bound(struct core *core)
{
    struct propose *propose = &core->leadership.propose;
    uint64_t uncommitted = propose->ring_end - propose->ring_committed;
    uint64_t count, max = clients_in_flight_max(core);
    uint32_t kept = 0;
    if (uncommitted + propose->item_count <= max) {
        return; /* As good as always. */
    }
    count = clients_in_flight(propose);
    for (uint32_t i = 0; i < propose->item_count; i++) {
        struct batch_item item = propose->items[i];
        if (item.requests != NULL && count >= max) {
            propose_refuse_item(core, &item, HASP_EBUSY);
            continue;
        }
        count += item.requests != NULL;
        propose->items[kept++] = item;
    }
    propose->item_count = kept;
    if (kept == 0) {
        empty_batch(propose);
    }
}

void propose_submit(struct core *core)
{
    struct propose *propose = &core->leadership.propose;
    struct replica_update update;
    uint64_t first;
    propose_bound(core);
    /* One HEARD at a time: heartbeats that arrive meanwhile share the next,
     * however many they are (rule 9). */
    if (propose->hearing_count > 0 && propose->heard_index == 0) {
        add_heard(propose);
    }
    if (propose->item_count == 0) {
        return;
    }
    for (uint32_t i = 0; i < propose->item_count; i++) {
        propose->commands[i] = bytes_of(propose->batch.data +
                                            propose->items[i].start,
                                        propose->items[i].size);
    }
    int error = replica_submit(core->replica, propose->commands,
                               propose->item_count, core->now_ns / NS_PER_MS,
                               &first, &update);
    if (error != 0) {
        propose_refused(core, error);
        return;
    }
    propose_enter(propose, first, core->now_ns);
    empty_batch(propose);
    raft_output_carry_out(core, &update);
}

void propose_flushed(struct core *core, uint64_t log_index)
{
    struct propose *propose = &core->leadership.propose;
    uint64_t end = u64_min(log_index + 1, propose->ring_end);
    uint64_t at = u64_max(propose->ring_flushed, propose->ring_first);
    for (; core->options.slow_ms != 0 && at < end; at++) {
        expected_at(propose, at)->flushed_ns = core->now_ns;
    }
    propose->ring_flushed = u64_max(propose->ring_flushed, end);
}

void propose_replicated(struct core *core)
{
    struct propose *propose = &core->leadership.propose;
    uint64_t end = u64_min(replica_commit_index(core->replica) + 1,
                           propose->ring_end);
    uint64_t batch_ns = 0; /* When the last counted batch was proposed. */
    for (; propose->ring_committed < end; propose->ring_committed++) {
        struct expected *expected = expected_at(propose,
                                                propose->ring_committed);
        uint64_t proposed_ns = expected->proposed_ns;
        expected->committed_ns = core->now_ns;
        if (proposed_ns != 0 && proposed_ns != batch_ns) {
            histogram_note(&core->stats.counts.replicate,
                           core->now_ns - proposed_ns);
            batch_ns = proposed_ns;
        }
    }
}

struct request *propose_take(struct core *core, uint64_t log_index)
{
    struct propose *propose = &core->leadership.propose;
    if (log_index < propose->ring_first || log_index >= propose->ring_end) {
        return NULL;
    }
    CHECK(log_index == propose->ring_first);
    /* An entry is committed before it is applied. */
    CHECK(log_index < propose->ring_committed);
    propose->ring_first++;
    if (log_index == propose->heard_index) {
        propose->heard_index = 0;
    }
    const struct expected *expected = expected_at(propose, log_index);
    if (expected->is_own) {
        CHECK(expected->requests == NULL && propose->own_in_flight > 0);
        propose->own_in_flight--;
    }
    if (expected->proposed_ns != 0) {
        histogram_note(&core->stats.counts.commit,
                       core->now_ns - expected->proposed_ns);
    }
    slow_log_entry(core, expected);
    return expected->requests;
}

void propose_abandon(struct core *core)
{
    struct propose *propose = &core->leadership.propose;
    /* These requests are in requests.logged, and stepping down would treat them
     * as submitted. But they were not, so nothing was done. */
    for (uint32_t i = 0; i < propose->hearing_count; i++) {
        if (propose->hearing[i].request != NULL) {
            request_return(core, propose->hearing[i].request);
        }
    }
    propose->hearing_count = 0;
    for (uint32_t i = 0; i < propose->item_count; i++) {
        struct request *next;
        for (struct request *r = propose->items[i].requests; r != NULL;
             r = next) {
            next = r->next;
            request_return(core, r);
        }
    }
    empty_batch(propose);
}

void propose_done(struct propose *propose)
{
    buffer_done(&propose->batch);
    free(propose->items);
    free(propose->commands);
    free(propose->ring);
    free(propose->hearing);
}
