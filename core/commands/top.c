/* SPDX-License-Identifier: MIT */

/* LOCK.TOP: the locks that are granted most often, and the longest waits.
 *
 * Grants are counted from the newest events (core/events/event_log.h), so
 * nothing is stored for this. The cost is bounded: it reads a fixed number of
 * events, waits and locks, the newest events and the oldest waits and locks. A
 * lock that is neither hot nor waited for nor old is not listed. */

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/hash.h"
#include "base/memory.h"
#include "base/minmax.h"
#include "core/commands/rows.h"
#include "core/commands/show.h"
#include "core/events/event_log.h"
#include "core/read_index.h"
#include "core/state.h"

#define WINDOW_MS 10000
#define EVENTS_SEEN_MAX 8192
#define WAITS_SEEN_MAX 2000
#define LOCKS_SEEN_MAX 1000
#define ROWS_DEFAULT 20

/* A lock that may be listed. */
struct hot {
    UT_hash_handle by_name;
    struct bytes name;       /* Borrowed from an event, or from the lock. */
    const struct lock *lock; /* NULL if the lock no longer exists. */
    uint64_t grants;
};

struct top {
    struct hot *known; /* The locks by name; they are in 'room'. */
    struct hot *room;
    uint32_t count;
    uint64_t grants;
    uint64_t window_ms; /* The time in which the grants were counted. */
    uint64_t looked_at;
};

/* The entry of the lock 'name'; 'lock' is NULL if there is no such lock now. */
static struct hot *hot_of(struct top *top, const struct lock *lock,
                          struct bytes name)
{
    struct hot *hot;
    HASH_FIND(by_name, top->known, name.data, name.size, hot);
    if (hot == NULL) {
        CHECK(top->count < EVENTS_SEEN_MAX + WAITS_SEEN_MAX + LOCKS_SEEN_MAX);
        hot = &top->room[top->count++];
        *hot = (struct hot){.name = name, .lock = lock};
        HASH_ADD_KEYPTR(by_name, top->known, hot->name.data, hot->name.size,
                        hot);
    }
    return hot;
}

/* Counts from the newest event back to WINDOW_MS ago, or to the oldest
 * event. */
static void count_grants(struct top *top, struct core *core,
                         struct bytes prefix)
{
    const struct event_log *event_log = &core->event_log;
    uint64_t seen = 0;
    top->window_ms = WINDOW_MS;
    for (uint64_t i = event_log->next; i > event_log->first; i--) {
        const struct event_log_event *event = event_log_event(event_log, i - 1);
        uint64_t old_ms = age_ms(core, event->index);
        if (old_ms >= WINDOW_MS) {
            break;
        }
        struct bytes name = event_log_name(event_log, event);
        if (strcmp(event->kind, "granted") == 0 &&
            bytes_has_prefix(name, prefix)) {
            hot_of(top, lockfsm_lock(core->fsm, name), name)->grants++;
            top->grants++;
        }
        bool is_last = i - 1 == event_log->first && event_log->first > 0;
        if (++seen == EVENTS_SEEN_MAX || is_last) {
            /* A started millisecond counts as a whole one. */
            top->window_ms = old_ms + 1;
            break;
        }
    }
    uint64_t up_ms = (core->now_ns - core->run.started_ns) / NS_PER_MS + 1;
    top->window_ms = u64_min(up_ms, top->window_ms);
    top->looked_at += seen;
}

/* Adds the locks of the oldest waits. The bound, like the one of add_locks(),
 * holds however large the state is. */
static void add_waited(struct top *top, const struct core *core,
                       struct bytes prefix)
{
    uint32_t seen = 0;
    LIST_FOR (const struct wait, wait, lockfsm_waits(core->fsm), in_state) {
        if (seen == WAITS_SEEN_MAX) {
            break;
        }
        seen++;
        if (bytes_has_prefix(wait->lock->name, prefix)) {
            hot_of(top, wait->lock, wait->lock->name);
        }
    }
    top->looked_at += seen;
}

static void add_locks(struct top *top, const struct core *core,
                      struct bytes prefix)
{
    uint32_t seen = 0;
    for (const struct lock *lock = lockfsm_locks(core->fsm);
         lock != NULL && seen < LOCKS_SEEN_MAX; lock = lock->by_name.next) {
        seen++;
        if (bytes_has_prefix(lock->name, prefix)) {
            hot_of(top, lock, lock->name);
        }
    }
    top->looked_at += seen;
}

static int by_heat(const void *a, const void *b)
{
    const struct hot *x = *(const struct hot *const *)a;
    const struct hot *y = *(const struct hot *const *)b;
    uint32_t n = x->lock != NULL ? x->lock->wait_count : 0;
    uint32_t m = y->lock != NULL ? y->lock->wait_count : 0;
    if (x->grants != y->grants) {
        return x->grants > y->grants ? -1 : 1;
    }
    return n != m ? (n > m ? -1 : 1) : bytes_compare(x->name, y->name);
}

static const struct hold *first_hold(const struct lock *lock)
{
    return lock != NULL && lock->hold_count > 0
               ? LIST_FIRST(&lock->holds, struct hold, in_lock)
               : NULL;
}

static void put_first_holder(const struct hold *hold,
                             struct resp_writer *writer)
{
    resp_key_bulk(writer, "holder",
                  hold != NULL ? hold->session->name : BYTES_LITERAL(""));
    resp_key_integer(writer, "holder_session",
                     hold != NULL ? (int64_t)hold->session->id : 0);
    resp_key_bulk(writer, "holder_user",
                  hold != NULL ? hold->session->user->name : BYTES_LITERAL(""));
}

static void put_hot(const struct core *core, const struct hot *hot,
                    struct resp_writer *writer)
{
    const struct hold *hold = first_hold(hot->lock);
    resp_map(writer, 9);
    resp_key_bulk(writer, "name", hot->name);
    resp_key_number(writer, "grants", hot->grants);
    resp_key_text(writer, "mode",
                  hold != NULL ? lock_mode_name(hot->lock->mode) : "free");
    resp_key_integer(writer, "holders",
                     hot->lock != NULL ? hot->lock->hold_count : 0);
    resp_key_integer(writer, "queue",
                     hot->lock != NULL ? hot->lock->wait_count : 0);
    put_first_holder(hold, writer);
    resp_key_integer(writer, "since_ms",
                     hold != NULL ? (int64_t)age_ms(core, hold->granted_index)
                                  : 0);
}

static void put_locks(struct top *top, struct core *core, struct rows *rows)
{
    CHECK(top->count == HASH_CNT(by_name, top->known));
    struct hot **sorted = memory_new(((size_t)top->count + 1) * sizeof *sorted);
    for (uint32_t i = 0; i < top->count; i++) {
        sorted[i] = &top->room[i];
    }
    qsort(sorted, top->count, sizeof *sorted, by_heat);
    read_index_spend(core, top->looked_at);
    for (uint32_t i = 0; i < top->count && rows_have_room(rows); i++) {
        put_hot(core, sorted[i], &rows->writer);
        (void)rows_keep(rows);
    }
    free(sorted);
}

static void put_wait(const struct core *core, const struct wait *wait,
                     struct resp_writer *writer)
{
    resp_map(writer, 10);
    resp_key_bulk(writer, "name", wait->lock->name);
    resp_key_number(writer, "waiting_ms", age_ms(core, wait->wait_index));
    resp_key_bulk(writer, "client", wait->session->name);
    resp_key_number(writer, "session", wait->session->id);
    resp_key_bulk(writer, "user", wait->session->user->name);
    resp_key_bulk(writer, "owner", wait->owner);
    resp_key_text(writer, "mode", lock_mode_name(wait->mode));
    put_first_holder(first_hold(wait->lock), writer);
}

static void top_put_waits(const struct core *core, struct bytes prefix,
                          struct rows *rows)
{
    uint32_t seen = 0;
    LIST_FOR (const struct wait, wait, lockfsm_waits(core->fsm), in_state) {
        if (seen++ == WAITS_SEEN_MAX || !rows_have_room(rows)) {
            break;
        }
        if (bytes_has_prefix(wait->lock->name, prefix)) {
            put_wait(core, wait, &rows->writer);
            (void)rows_keep(rows);
        }
    }
}

void lock_top_read(struct core *core, struct request *request)
{
    const struct call *call = request->call;
    struct bytes prefix = call_text(call, OPTION_PREFIX);
    uint32_t count = call_has(call, OPTION_COUNT) ? call_page(call)
                                                  : ROWS_DEFAULT;
    struct top top = {0};
    struct rows locks, waits;
    top.room = memory_new((EVENTS_SEEN_MAX + WAITS_SEEN_MAX + LOCKS_SEEN_MAX) *
                          sizeof *top.room);
    count_grants(&top, core, prefix);
    add_waited(&top, core, prefix);
    add_locks(&top, core, prefix);
    rows_begin(&locks, request, count, ROWS_SIZE_MAX / 2);
    put_locks(&top, core, &locks);
    rows_begin(&waits, request, count, ROWS_SIZE_MAX / 2);
    top_put_waits(core, prefix, &waits);
    struct resp_writer *writer = request_reply(core, request);
    resp_map(writer, 9);
    resp_key_number(writer, "window_ms", top.window_ms);
    resp_key_number(writer, "grants", top.grants);
    resp_key_integer(writer, "lock_count",
                     HASH_CNT(by_name, lockfsm_locks(core->fsm)));
    resp_key_integer(writer, "session_count",
                     HASH_CNT(by_id, lockfsm_sessions(core->fsm)));
    resp_key_number(writer, "hold_count", lockfsm_hold_count(core->fsm));
    resp_key_number(writer, "wait_count", lockfsm_wait_count(core->fsm));
    resp_key_bool(writer, "is_cut", locks.is_full || waits.is_full);
    resp_text(writer, "locks");
    rows_put(core, &locks, writer);
    resp_text(writer, "waits");
    rows_put(core, &waits, writer);
    HASH_CLEAR(by_name, top.known);
    free(top.room);
    request_done(core, request);
}
