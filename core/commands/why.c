/* SPDX-License-Identifier: MIT */

/* LOCK.WHY: explains in sentences why a lock is not free: who holds it, what
 * the holder itself waits for, who waits, and when it could pass on at the
 * earliest, with each term of that sum.
 *
 * The sentences are made here, so that the tool and the page show the same.
 * Clients choose the names, so any byte that is not plain text is shown as
 * "\xHH". */

#include <inttypes.h>

#include "base/check.h"
#include "base/duration.h"
#include "core/authorize.h"
#include "core/commands/rows.h"
#include "core/commands/show.h"
#include "core/read_index.h"
#include "core/scripts.h"
#include "core/state.h"

/* How many holders, waiters and waits of a holder are described in sentences,
 * ... */
#define HOLDERS_SHOWN 10
#define WAITERS_SHOWN 10
#define WAITS_SHOWN 10
/* ... and how many of each are shown as maps. */
#define SHOWN_MAX 100
/* How far a chain of holders that wait is followed. */
#define CHAIN_MAX 64

#define DURATION(time_ms) \
    duration_format((time_ms), (char[DURATION_TEXT_SIZE]){0})

/* The bytes of the sentences about holders, about the queue, and about when the
 * lock could pass on. */
#define HOLDERS_SIZE_MAX ((size_t)64 << 10)
#define QUEUE_SIZE_MAX ((size_t)16 << 10)
#define END_SIZE_MAX ((size_t)8 << 10)

/* Lines, as rows of the answer. */
struct lines {
    struct rows rows;
    struct buffer line;
};

/* Once a section is full, its further lines are left out. */
static void why_end_line(struct lines *lines)
{
    if (rows_have_room(&lines->rows)) {
        resp_bulk(&lines->rows.writer, buffer_bytes(&lines->line));
        (void)rows_keep(&lines->rows);
    }
    buffer_clear(&lines->line);
}

#define PUT(lines, ...) buffer_printf(&(lines)->line, __VA_ARGS__)
#define LINE(lines, ...) (PUT(lines, __VA_ARGS__), why_end_line(lines))

static void why_put_text(struct lines *lines, struct bytes text)
{
    for (size_t i = 0; i < text.size;) {
        struct bytes rest = bytes_of(text.data + i, text.size - i);
        size_t size = bytes_printable(rest);
        if (size == 0) {
            PUT(lines, "\\x%02x", text.data[i++]);
        } else {
            buffer_put(&lines->line, rest.data, size);
            i += size;
        }
    }
}

static void why_put_name(struct lines *lines, struct bytes name)
{
    PUT(lines, "'");
    why_put_text(lines, name);
    PUT(lines, "'");
}

static void why_put_client(struct lines *lines, const struct session *session)
{
    if (session->name.size > 0) {
        why_put_text(lines, session->name);
    } else {
        PUT(lines, "a client without a name");
    }
    PUT(lines, " (session %" PRIu64, session->id);
    if (session->user_number != USER_ANYONE) {
        PUT(lines, ", user ");
        why_put_name(lines, session->user->name);
    }
}

/* Each section has bytes of its own, so that long values of holders do not push
 * out when the lock could pass on. */
static void why_begin_section(struct lines *lines, size_t size)
{
    struct rows *rows = &lines->rows;
    bool is_cut = rows->is_full;
    rows->is_full = false;
    rows->size_max = rows->size + size;
    if (is_cut) {
        LINE(lines, "... more is left out, to keep the answer small");
    }
}

/* --- What a holder waits for ---------------------------------------------- */

static const struct wait *first_wait(const struct hold *hold)
{
    LIST_FOR (const struct wait, wait, &hold->session->waits, in_session) {
        if (show_waits(wait, hold)) {
            return wait;
        }
    }
    return NULL;
}

/* The first hold, other than the holder's own, at a lock that the holder waits
 * for. */
static const struct hold *next_in_chain(const struct hold *hold)
{
    const struct wait *wait = first_wait(hold);
    if (wait == NULL) {
        return NULL;
    }
    LIST_FOR (const struct hold, one, &wait->lock->holds, in_lock) {
        if (one->session != hold->session || !show_waits(wait, one)) {
            return one;
        }
    }
    return NULL;
}

/* Describes the end of the chain, unless an earlier line has done so. */
static void put_chain(struct lines *lines, struct core *core,
                      const struct request *request, const struct hold *from)
{
    const struct hold *at = next_in_chain(from);
    /* The chain can be a cycle that does not contain its first hold. */
    for (uint32_t i = 0; i < CHAIN_MAX && at != NULL; i++) {
        const struct hold *next = next_in_chain(at);
        read_index_spend(core, at->session->wait_count);
        if (at->session == from->session && show_waits(first_wait(from), at)) {
            LINE(lines,
                 "  which is held by the first holder: they wait for each "
                 "other");
            return;
        }
        if (next == NULL && i > 0 &&
            authorize_reads(core, request, at->lock->name)) {
            PUT(lines, "  at the end of that chain ");
            why_put_name(lines, at->lock->name);
            PUT(lines, " is held by ");
            why_put_client(lines, at->session);
            LINE(lines, ")");
        }
        at = next;
    }
}

static void why_put_waits(struct lines *lines, struct core *core,
                          const struct request *request,
                          const struct hold *hold)
{
    uint32_t shown = 0;
    read_index_spend(core, hold->session->wait_count);
    LIST_FOR (const struct wait, wait, &hold->session->waits, in_session) {
        if (!show_waits(wait, hold)) {
            continue;
        }
        if (shown++ == WAITS_SHOWN) {
            LINE(lines, "  ... and for more");
            break;
        }
        /* The right to read this lock is not one to the names of others. */
        if (!authorize_reads(core, request, wait->lock->name)) {
            LINE(lines, "  it waits for a lock that you may not read");
            continue;
        }
        PUT(lines, "  it waits for ");
        why_put_name(lines, wait->lock->name);
        PUT(lines, "; see: hasp why ");
        why_put_text(lines, wait->lock->name);
        why_end_line(lines);
    }
    put_chain(lines, core, request, hold);
}

/* --- Holders and waiters -------------------------------------------------- */

/* Describes what ends a hold without a lease. The wall clock may have been set
 * back since the session was opened. */
static void why_put_durable(struct lines *lines, struct core *core,
                            const struct hold *hold)
{
    uint64_t opened_ms = hold->session->opened_ms;
    uint64_t wall_ms = core->port.wall_ms(core->port.data);
    struct bytes reason = show_reason(hold->session);
    PUT(lines, "  it has no lease: it stays until it is released or broken");
    if (opened_ms != 0 && wall_ms > opened_ms) {
        PUT(lines, "; its session was opened %s ago",
            DURATION(wall_ms - opened_ms));
    }
    why_end_line(lines);
    if (reason.size > 0) {
        PUT(lines, "  reason: ");
        why_put_text(lines, reason);
        why_end_line(lines);
    }
    if (hold->break_count > 0) {
        PUT(lines, "  ");
        why_put_text(lines, hold->breaks->by);
        PUT(lines, " breaks it in %s, unless its holder objects",
            DURATION(show_break_ms(core, hold)));
        if (hold->breaks->reason.size > 0) {
            PUT(lines, ": ");
            why_put_text(lines, hold->breaks->reason);
        }
        why_end_line(lines);
    }
}

static void put_lease(struct lines *lines, struct core *core,
                      const struct session *session)
{
    const struct blacklisting *refusal = lockfsm_listed(core->fsm, session);
    PUT(lines, "  its lease of %s has %s left", DURATION(session->ttl_ms),
        DURATION(timers_lease_left(core->timers, session->id, core->now_ns) /
                 NS_PER_MS));
    if (session->linger_ms != 0) {
        PUT(lines, ", %s once its connections are closed",
            DURATION(session->linger_ms));
    }
    if (session_has_will(session)) {
        PUT(lines, ", and ends at once if its process is reported dead");
    }
    if (refusal != NULL) {
        PUT(lines, "; it is blacklisted, so nothing renews it");
        if (refusal->reason.size > 0) {
            PUT(lines, ": ");
            why_put_text(lines, refusal->reason);
        }
        why_end_line(lines);
    } else if (session_is_refused(core->fsm, session)) {
        LINE(lines, "; its user is disabled, so nothing renews it");
    } else {
        LINE(lines, "; each heartbeat renews it");
    }
}

/* A line with the trace of the request, if it had one. */
static void why_put_trace(struct lines *lines, const char *indent,
                          const uint8_t trace[TRACE_SIZE])
{
    char text[TRACE_TEXT_SIZE];
    traceparent_format(trace, text);
    if (text[0] != '\0') {
        LINE(lines, "%strace: %s", indent, text);
    }
}

static void why_put_holder(struct lines *lines, struct core *core,
                           const struct request *request,
                           const struct hold *hold)
{
    const struct session *session = hold->session;
    why_put_name(lines, hold->lock->name);
    PUT(lines, " is held, %s, by ", lock_mode_name(hold->mode));
    why_put_client(lines, session);
    if (session->address.size > 0 &&
        authorize_sees(core, request, session->user_number)) {
        PUT(lines, ", ");
        why_put_text(lines, session->address);
    }
    if (hold->owner.size > 0) {
        PUT(lines, ", owner ");
        why_put_name(lines, hold->owner);
    }
    LINE(lines, ") for %s with token %" PRIu64,
         DURATION(age_ms(core, hold->granted_index)), hold->token);
    if (hold->value.size > 0) {
        PUT(lines, "  value: ");
        why_put_text(lines, hold->value);
        why_end_line(lines);
    }
    why_put_trace(lines, "  ", hold->trace);
    if (session->is_durable) {
        why_put_durable(lines, core, hold);
    } else {
        put_lease(lines, core, session);
    }
    why_put_waits(lines, core, request, hold);
}

static void why_put_holders(struct lines *lines, struct core *core,
                            const struct request *request,
                            const struct lock *lock)
{
    uint32_t shown = 0;
    LIST_FOR (const struct hold, hold, &lock->holds, in_lock) {
        if (shown++ == HOLDERS_SHOWN) {
            LINE(lines, "... and %u more hold it",
                 lock->hold_count - HOLDERS_SHOWN);
            return;
        }
        why_put_holder(lines, core, request, hold);
    }
}

static void why_put_queue(struct lines *lines, struct core *core,
                          const struct lock *lock)
{
    uint32_t shown = 0;
    CHECK(list_is_empty(&lock->queue) == (lock->wait_count == 0));
    if (lock->wait_count == 0) {
        return;
    }
    why_end_line(lines);
    LINE(lines, "%u waiting", lock->wait_count);
    LIST_FOR (const struct wait, wait, &lock->queue, in_lock) {
        if (shown++ == WAITERS_SHOWN) {
            LINE(lines, "  ...");
            return;
        }
        PUT(lines, "  %u. ", shown);
        why_put_client(lines, wait->session);
        LINE(lines, "), %s, for %s", lock_mode_name(wait->mode),
             DURATION(age_ms(core, wait->wait_index)));
        why_put_trace(lines, "     ", wait->trace);
    }
}

/* Explains why a writer may wait although the oldest holder does not block
 * it. */
static void put_barging(struct lines *lines, const struct lock *lock)
{
    uint32_t count = 0;
    LIST_FOR (const struct hold, hold, &lock->holds, in_lock) {
        count += hold->has_barged;
    }
    CHECK(count <= lock->hold_count);
    if (count == 0 || lock->wait_count == 0) {
        return;
    }
    why_end_line(lines);
    PUT(lines, "%u of %u holder%s passed the queue (BARGE)", count,
        lock->hold_count, lock->hold_count == 1 ? "" : "s");
    LINE(lines, "%s",
         count == lock->hold_count
             ? "; the waiters are next, and no request can pass them again"
             : "; readers that barge keep the waiters waiting as long as an "
               "older holder stays");
}

/* --- When it could pass on ------------------------------------------------ */

static void why_put_terms(struct lines *lines, struct core *core,
                          const struct hold *hold, uint64_t earliest_ms)
{
    static const char *const by[] = {
        [SHOW_LEASE] = "left of the lease",
        [SHOW_LINGER] = "of linger, once its connections are closed",
        [SHOW_MAX_HOLD] = "left of the hold's maximum",
        [SHOW_BREAK] = "until it is broken"};
    struct show_end end = show_hold_end(core, hold);
    /* The caller excludes a hold that never ends, which has no earliest
     * moment. */
    CHECK((size_t)end.by < sizeof by / sizeof by[0] && by[end.by] != NULL);
    LINE(lines,
         "unless it is released earlier, it can pass on in %s at the earliest:",
         DURATION(earliest_ms));
    LINE(lines, "  %s %s", DURATION(end.end_ms), by[end.by]);
    if (hold->delay_ms > 0) {
        LINE(lines, "+ %s of lock delay after it", DURATION(hold->delay_ms));
    }
}

/* Explains why an unheld lock cannot be acquired. */
static void why_put_disk(struct lines *lines, const struct core *core)
{
    if (core->run.disk == CORE_DISK_FULL) {
        LINE(lines, "the leader's disk is nearly full: requests for locks are "
                    "refused (LIMIT) until there is space");
    } else if (core->run.disk == CORE_DISK_SLOW) {
        LINE(lines,
             "the leader's disk is too slow: requests for locks are refused "
             "(BUSY) until it recovers or another node leads");
    }
}

static void why_put_earliest(struct lines *lines, struct core *core,
                             const struct lock *lock)
{
    const struct hold *hold = NULL;
    uint64_t quarantine_ms = show_quarantine(core);
    uint64_t earliest_ms = lock != NULL ? show_earliest(core, lock, &hold) : 0;
    why_end_line(lines);
    why_put_disk(lines, core);
    if (quarantine_ms > earliest_ms) {
        LINE(lines,
             "quarantine after a restore: nothing is granted for another %s",
             DURATION(quarantine_ms));
    } else if (earliest_ms == 0 && core->run.disk != CORE_DISK_OK) {
        /* why_put_disk() has named the reason. */
        return;
    } else if (earliest_ms == 0) {
        LINE(lines, "it could pass on now");
    } else if (earliest_ms == SHOW_NEVER_MS) {
        LINE(lines, "it does not end by itself: it must be released or broken");
    } else if (hold == NULL) {
        LINE(lines,
             "it stays closed after an unclean end and can pass on in %s",
             DURATION(earliest_ms));
    } else {
        why_put_terms(lines, core, hold, earliest_ms);
    }
}

static void why_explain(struct lines *lines, struct core *core,
                        const struct request *request, const struct lock *lock,
                        struct bytes name)
{
    const char *refusal = NULL;
    if (lock == NULL || lock->hold_count == 0) {
        why_put_name(lines, name);
        LINE(lines, " is not held");
    } else {
        why_put_holders(lines, core, request, lock);
        refusal = scripts_refusal(&core->scripts, lock->last_token);
    }
    if (refusal != NULL) {
        PUT(lines,
            "  its client sent a script that hasp refused, perhaps to release "
            "it: ");
        why_put_text(lines, bytes_of_text(refusal));
        why_end_line(lines);
    }
    why_begin_section(lines, QUEUE_SIZE_MAX);
    if (lock != NULL) {
        why_put_queue(lines, core, lock);
        put_barging(lines, lock);
    }
    why_begin_section(lines, END_SIZE_MAX);
    why_put_earliest(lines, core, lock);
}

void lock_why_read(struct core *core, struct request *request)
{
    const struct call *call = request->call;
    const struct lock *lock = lockfsm_lock(core->fsm, call->name);
    const struct showing showing = {.holders_max = SHOWN_MAX,
                                    .waiters_max = SHOWN_MAX,
                                    .size_max = ROWS_SIZE_MAX / 2,
                                    .explains = true,
                                    .more = 3};
    struct lines lines = {.line = {0}};
    struct resp_writer *writer = request_reply(core, request);
    rows_begin(&lines.rows, request, UINT32_MAX, HOLDERS_SIZE_MAX);
    show_lock(core, request, lock, call->name, &showing, writer);
    resp_key_integer(writer, "hold_count", lock != NULL ? lock->hold_count : 0);
    resp_key_integer(writer, "wait_count", lock != NULL ? lock->wait_count : 0);
    why_explain(&lines, core, request, lock, call->name);
    resp_text(writer, "why");
    rows_put(core, &lines.rows, writer);
    buffer_done(&lines.line);
    request_done(core, request);
}
