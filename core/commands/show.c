/* SPDX-License-Identifier: MIT */

/* Reading locks. Times are the leader's: leases and delays by its timers,
 * "since" by when it applied the entry. */

#include "core/commands/show.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/minmax.h"
#include "core/authorize.h"
#include "core/commands/listing.h"
#include "core/read_index.h"
#include "core/request.h"
#include "core/scripts.h"
#include "core/session/lease.h"
#include "core/state.h"
#include "lease/rules.h"

/* How many of the locks for which a holder waits are shown, and their bytes. */
#define SHOWN_WAITS_MAX 100
#define SHOWN_WAITS_SIZE_MAX ((size_t)8 << 10)
/* A lock with a queue shows at least this share of the bytes of it. */
#define QUEUE_SHARE 4
/* The cost, from a turn's budget, of showing a holder or waiter and of finding
 * when a hold ends. */
#define SHOWN_STEPS 8
#define HOLD_STEPS 2

static uint64_t to_ms(uint64_t ns)
{
    return (ns + NS_PER_MS - 1) / NS_PER_MS;
}

struct bytes show_reason(const struct session *session)
{
    for (uint32_t i = 0; i < session->label_count; i++) {
        if (bytes_equal(session->labels[i].key, BYTES_LITERAL("reason"))) {
            return session->labels[i].value;
        }
    }
    return BYTES_LITERAL("");
}

uint64_t show_break_ms(struct core *core, const struct hold *hold)
{
    CHECK(hold->break_count > 0);
    return to_ms(timers_break_left(core->timers, hold, core->now_ns));
}

static uint32_t durable_pairs(const struct hold *hold)
{
    return hold->session->is_durable ? 2 + 3 * hold->break_count : 0;
}

/* Shows what a durable session's hold has instead of a lease. */
static void show_put_durable(struct core *core, const struct hold *hold,
                             struct resp_writer *writer)
{
    if (!hold->session->is_durable) {
        return;
    }
    resp_key_number(writer, "opened_ms", hold->session->opened_ms);
    resp_key_bulk(writer, "reason", show_reason(hold->session));
    if (hold->break_count > 0) {
        resp_key_number(writer, "break_left_ms", show_break_ms(core, hold));
        resp_key_bulk(writer, "break_by", hold->breaks->by);
        resp_key_bulk(writer, "break_reason", hold->breaks->reason);
    }
}

bool show_waits(const struct wait *wait, const struct hold *hold)
{
    return bytes_equal(wait->owner, hold->owner);
}

/* Shows the state of the holder's session, and the locks for which the holder
 * waits. */
static void put_holder_state(struct core *core, const struct request *request,
                             const struct hold *hold,
                             struct resp_writer *writer)
{
    const struct session *session = hold->session;
    struct rows names;
    resp_text(writer, "ttl_ms");
    lease_put_time(writer, session, session->ttl_ms);
    resp_key_number(writer, "linger_ms", session->linger_ms);
    resp_key_bool(writer, "blacklisted",
                  session_is_refused(core->fsm, session));
    read_index_spend(core, session->wait_count);
    rows_begin(&names, request, SHOWN_WAITS_MAX, SHOWN_WAITS_SIZE_MAX);
    LIST_FOR (const struct wait, wait, &session->waits, in_session) {
        /* The right to read the lock asked for is not one to the names of
         * others. */
        if (rows_have_room(&names) && show_waits(wait, hold) &&
            authorize_reads(core, request, wait->lock->name)) {
            resp_bulk(&names.writer, wait->lock->name);
            (void)rows_keep(&names);
        }
    }
    resp_text(writer, "waits_for");
    rows_put(core, &names, writer);
}

/* The trace of the request, if it had one. */
static void show_put_trace(const uint8_t trace[TRACE_SIZE],
                           struct resp_writer *writer)
{
    char text[TRACE_TEXT_SIZE];
    traceparent_format(trace, text);
    if (text[0] != '\0') {
        resp_key_text(writer, "trace", text);
    }
}

static void show_put_holder(struct core *core, const struct request *request,
                            const struct hold *hold, bool explains,
                            struct resp_writer *writer)
{
    const struct session *session = hold->session;
    CHECK(hold->token != 0 && hold->count > 0);
    bool sees = authorize_sees(core, request, session->user_number);
    resp_map(writer, 11u + (hold->hold_ms != 0 ? 1 : 0) +
                         (hold->delay_ms != 0 ? 1 : 0) +
                         (hold->has_barged ? 1 : 0) + durable_pairs(hold) +
                         (traceparent_is_set(hold->trace) ? 1 : 0) +
                         (explains ? 4 : 0));
    resp_key_number(writer, "session", session->id);
    resp_key_bulk(writer, "client", session->name);
    resp_key_bulk(writer, "address",
                  sees ? session->address : BYTES_LITERAL(""));
    resp_key_bulk(writer, "owner", hold->owner);
    resp_key_bulk(writer, "value", hold->value);
    resp_key_number(writer, "token", hold->token);
    resp_key_text(writer, "mode", lock_mode_name(hold->mode));
    resp_key_number(writer, "count", hold->count);
    resp_key_number(writer, "since_ms", age_ms(core, hold->granted_index));
    resp_text(writer, "lease_left_ms");
    lease_put_time(writer, session,
                   timers_lease_left(core->timers, session->id, core->now_ns) /
                       NS_PER_MS);
    show_put_durable(core, hold, writer);
    if (hold->hold_ms != 0) {
        /* The client trusts 0.8 of this (rule 16), so it is rounded down. */
        resp_key_number(writer, "hold_left_ms",
                        timers_hold_left(core->timers, core->fsm,
                                         hold->lock->name, session->id,
                                         hold->owner, core->now_ns) /
                            NS_PER_MS);
    }
    if (hold->delay_ms != 0) {
        resp_key_number(writer, "delay_ms", hold->delay_ms);
    }
    if (hold->has_barged) {
        resp_key_number(writer, "barged", 1);
    }
    resp_key_bulk(writer, "user", session->user->name);
    show_put_trace(hold->trace, writer);
    if (explains) {
        put_holder_state(core, request, hold, writer);
    }
}

static void put_waiter(struct core *core, const struct wait *wait,
                       struct resp_writer *writer)
{
    CHECK(wait->wait_index <= lockfsm_applied_index(core->fsm));
    resp_map(writer, 7 + (traceparent_is_set(wait->trace) ? 1 : 0));
    resp_key_number(writer, "session", wait->session->id);
    resp_key_bulk(writer, "client", wait->session->name);
    resp_key_bulk(writer, "owner", wait->owner);
    resp_key_text(writer, "mode", lock_mode_name(wait->mode));
    resp_key_number(writer, "index", wait->wait_index);
    resp_key_number(writer, "waiting_ms", age_ms(core, wait->wait_index));
    resp_key_bulk(writer, "user", wait->session->user->name);
    show_put_trace(wait->trace, writer);
}

/* When the hold ends because of its session. */
static struct show_end show_session_end(struct core *core,
                                        const struct hold *hold)
{
    const struct session *session = hold->session;
    if (hold->break_count > 0) {
        return (struct show_end){show_break_ms(core, hold), SHOW_BREAK};
    }
    if (session->is_durable) {
        return (struct show_end){SHOW_NEVER_MS, SHOW_NEVER};
    }
    uint64_t lease_ms = to_ms(
        timers_lease_left(core->timers, session->id, core->now_ns));
    uint64_t linger_ms = rules_promised(lease_ms, session->linger_ms);
    return linger_ms < lease_ms ? (struct show_end){linger_ms, SHOW_LINGER}
                                : (struct show_end){lease_ms, SHOW_LEASE};
}

struct show_end show_hold_end(struct core *core, const struct hold *hold)
{
    struct show_end end = show_session_end(core, hold);
    if (hold->hold_ms != 0) {
        uint64_t hold_ms = to_ms(
            timers_hold_left(core->timers, core->fsm, hold->lock->name,
                             hold->session->id, hold->owner, core->now_ns));
        if (hold_ms < end.end_ms) {
            end = (struct show_end){hold_ms, SHOW_MAX_HOLD};
        }
    }
    return end;
}

uint64_t show_earliest(struct core *core, const struct lock *lock,
                       const struct hold **ret_hold)
{
    uint64_t delay_ms = to_ms(
        timers_delay_left(core->timers, lock->name, core->now_ns));
    *ret_hold = NULL;
    if (lock->hold_count == 0) {
        return delay_ms;
    }
    if (lock->mode == LOCK_SLOTS && lock->hold_count < lock->slots) {
        return delay_ms;
    }
    /* A full semaphore passes on with the first hold that ends; any other lock
     * only with the last. */
    bool is_first = lock->mode == LOCK_SLOTS;
    uint64_t best_ms = 0;
    CHECK(!list_is_empty(&lock->holds));
    LIST_FOR (struct hold, hold, &lock->holds, in_lock) {
        uint64_t end_ms = show_hold_end(core, hold).end_ms;
        end_ms += end_ms != SHOW_NEVER_MS ? hold->delay_ms : 0;
        if (*ret_hold == NULL ||
            (is_first ? end_ms < best_ms : end_ms > best_ms)) {
            best_ms = end_ms;
            *ret_hold = hold;
        }
    }
    return best_ms;
}

uint64_t show_quarantine(const struct core *core)
{
    return to_ms(timers_quarantine_left(core->timers, core->fsm, core->now_ns));
}

/* Which holders and waits of a lock are shown, and how many are omitted.
 * Serials grow along the list of holders (tokens may be equal: one entry grants
 * to many), and indexes along the queue, except for an upgrade, which is at its
 * head. */
struct page {
    struct rows holds;
    struct rows waits;
    uint32_t more_holds;
    uint32_t more_waits;
    uint64_t last_serial; /* Of the holds shown so far; and ... */
    uint64_t last_index;
};

static void page_holds(struct core *core, const struct request *request,
                       const struct lock *lock, const struct showing *showing,
                       struct page *page)
{
    page->last_serial = showing->after_serial;
    page->more_holds = lock->hold_count;
    LIST_FOR (const struct hold, hold, &lock->holds, in_lock) {
        if (hold->serial <= showing->after_serial) {
            page->more_holds--;
            continue;
        }
        if (!rows_have_room(&page->holds)) {
            break;
        }
        CHECK(hold->serial > page->last_serial);
        show_put_holder(core, request, hold, showing->explains,
                        &page->holds.writer);
        if (rows_keep(&page->holds)) {
            page->last_serial = hold->serial;
            page->more_holds--;
        }
    }
}

static void page_waits(struct core *core, const struct lock *lock,
                       const struct showing *showing, struct page *page)
{
    page->last_index = showing->after_index;
    page->more_waits = lock->wait_count;
    LIST_FOR (const struct wait, wait, &lock->queue, in_lock) {
        if (showing->after_index != 0 &&
            (wait->is_upgrade || wait->wait_index <= showing->after_index)) {
            page->more_waits--;
            continue;
        }
        if (!rows_have_room(&page->waits)) {
            break;
        }
        put_waiter(core, wait, &page->waits.writer);
        if (rows_keep(&page->waits)) {
            page->last_index = wait->is_upgrade ? page->last_index
                                                : wait->wait_index;
            page->more_waits--;
        }
    }
}

static void page_make(struct core *core, const struct request *request,
                      const struct lock *lock, const struct showing *showing,
                      struct page *page)
{
    bool has_queue = lock != NULL && lock->wait_count > 0;
    size_t queue_size = has_queue ? showing->size_max / QUEUE_SHARE : 0;
    *page = (struct page){0};
    rows_begin(&page->holds, request, showing->holders_max,
               showing->size_max - queue_size);
    if (lock != NULL) {
        page_holds(core, request, lock, showing, page);
    }
    rows_begin(&page->waits, request, showing->waiters_max,
               showing->size_max -
                   u64_min(page->holds.size, showing->size_max - queue_size));
    if (lock != NULL) {
        page_waits(core, lock, showing, page);
        /* Each hold is checked for when the lock could pass on, and each wait
         * may be skipped. */
        uint64_t shown = (uint64_t)page->holds.count + page->waits.count;
        read_index_spend(
            core, SHOWN_STEPS * (1 + shown) +
                      HOLD_STEPS * (uint64_t)lock->hold_count +
                      (showing->after_index != 0 ? lock->wait_count : 0));
    }
}

/* Shows how many are omitted, and the cursor of the rest: "=SERIAL/INDEX". */
static void show_put_more(const struct page *page, struct resp_writer *writer)
{
    char cursor[64];
    int size = snprintf(cursor, sizeof cursor, "=%" PRIu64 "/%" PRIu64,
                        page->last_serial, page->last_index);
    resp_key_number(writer, "more_holders", page->more_holds);
    resp_key_number(writer, "more_waiters", page->more_waits);
    resp_key_bulk(writer, "cursor", bytes_of(cursor, (size_t)size));
}

static void show_put_earliest(struct core *core, const struct lock *lock,
                              struct resp_writer *writer)
{
    const struct hold *last;
    uint64_t lock_ms = lock != NULL ? show_earliest(core, lock, &last) : 0;
    if (lock_ms == SHOW_NEVER_MS) {
        resp_text(writer, "earliest_ms");
        resp_null(writer);
    } else {
        resp_key_number(writer, "earliest_ms",
                        u64_max(lock_ms, show_quarantine(core)));
    }
}

void show_lock(struct core *core, const struct request *request,
               const struct lock *lock, struct bytes name,
               const struct showing *showing, struct resp_writer *writer)
{
    bool is_held = lock != NULL && lock->hold_count > 0;
    CHECK(lock == NULL || bytes_equal(lock->name, name));
    bool has_note = lock != NULL && lock->note.size > 0;
    const char *refusal = is_held ? scripts_refusal(&core->scripts,
                                                    lock->last_token)
                                  : NULL;
    struct page page;
    page_make(core, request, lock, showing, &page);
    bool is_cut = showing->is_page && page.more_holds + page.more_waits > 0;
    /* RESP puts the size of a map before its content, so each optional member
     * has a term here. */
    resp_map(writer, 7 + has_note + (refusal != NULL) + showing->more +
                         (is_cut ? 3 : 0));
    resp_key_bulk(writer, "name", name);
    if (has_note) {
        resp_key_bulk(writer, "note", lock->note);
    }
    if (refusal != NULL) {
        resp_key_text(writer, "refused_script", refusal);
    }
    resp_key_text(writer, "mode",
                  is_held ? lock_mode_name(lock->mode) : "free");
    resp_key_number(writer, "slots",
                    is_held && lock->mode == LOCK_SLOTS ? lock->slots : 0);
    resp_text(writer, "holders");
    rows_put(core, &page.holds, writer);
    resp_text(writer, "queue");
    rows_put(core, &page.waits, writer);
    resp_key_number(writer, "delay_left_ms",
                    lock != NULL ? to_ms(timers_delay_left(core->timers, name,
                                                           core->now_ns))
                                 : 0);
    show_put_earliest(core, lock, writer);
    if (is_cut) {
        show_put_more(&page, writer);
    }
}

static const struct showing in_full = {.holders_max = PAGE_COUNT_MAX,
                                       .waiters_max = PAGE_COUNT_MAX,
                                       .size_max = ROWS_SIZE_MAX,
                                       .is_page = true};

/* False if show_put_more() cannot have written it. */
static bool read_cursor(struct bytes text, struct showing *showing)
{
    const uint8_t *slash = text.size > 0 ? memchr(text.data, '/', text.size)
                                         : NULL;
    if (text.size == 0) {
        return true; /* Start from the beginning. */
    }
    if (text.data[0] != '=' || slash == NULL) {
        return false;
    }
    size_t size = (size_t)(slash - text.data);
    return bytes_to_u64(bytes_of(text.data + 1, size - 1),
                        &showing->after_serial) &&
           bytes_to_u64(bytes_of(slash + 1, text.size - size - 1),
                        &showing->after_index);
}

void lock_show_read(struct core *core, struct request *request)
{
    const struct call *call = request->call;
    struct showing showing = in_full;
    if (!read_cursor(call_text(call, OPTION_CURSOR), &showing)) {
        request_refuse(core, request, WORD_BADARG,
                       "CURSOR must be one that LOCK.SHOW returned");
        return;
    }
    show_lock(core, request, lockfsm_lock(core->fsm, call->name), call->name,
              &showing, request_reply(core, request));
    request_done(core, request);
}

static void lock_row(struct core *core, const struct request *request,
                     const struct treap_node *node, struct resp_writer *writer)
{
    const struct lock *lock = LIST_ENTRY(node, const struct lock, in_order);
    show_lock(core, request, lock, lock->name, &in_full, writer);
}

void lock_list_read(struct core *core, struct request *request)
{
    listing_answer(core, request, lockfsm_lock_order(core->fsm), false,
                   lock_row);
}

void lock_check_read(struct core *core, struct request *request)
{
    const struct call *call = request->call;
    const struct lock *lock = lockfsm_lock(core->fsm, call->name);
    uint64_t session = call_number(call, OPTION_SESSION, 0);
    bool is_held = false;
    if (lock != NULL) {
        LIST_FOR (const struct hold, hold, &lock->holds, in_lock) {
            is_held |= hold->token == call->token &&
                       (session == 0 || hold->session->id == session);
        }
    }
    resp_integer(request_reply(core, request), is_held);
    request_done(core, request);
}
