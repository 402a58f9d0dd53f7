/* SPDX-License-Identifier: MIT */

/* Spans begin with an entry and end after a time: one heap of their ends, and
 * one table by their subjects. */

#include "lease/spans.h"

#include <stdlib.h>

#include "base/check.h"
#include "base/memory.h"
#include "base/minmax.h"
#include "base/units.h"
#include "lease/rules.h"
#include "lockfsm/entry.h"

/* The prolongation of an inherited span, since the first TIME after its
 * beginning can count time before it (rule 10). A limited hold gets one more
 * step: clients rely on it, see spans_hold_left(). */
#define SLACK_MS CLOCK_STEP_MS_MAX
#define HOLD_SLACK_MS (UINT64_C(2) * CLOCK_STEP_MS_MAX)

enum span_kind {
    SPAN_WAIT,
    SPAN_DELAY,
    SPAN_HOLD,
    SPAN_BREAK,
    SPAN_BLACKLISTING,
    SPAN_QUARANTINE
};

/* The subject of a span. Fields that do not identify a span of its kind are 0:
 * a wait is its index and owner, a delay its lock, a hold and its break their
 * lock, session and owner, a blacklisting its index. */
struct span_key {
    enum span_kind kind;
    /* The index of a wait or a blacklisting, or the session of a hold or break.
     */
    uint64_t number;
    struct bytes lock;
    struct bytes owner;
};

struct span {
    UT_hash_handle hh;
    struct heap_node due; /* In no heap when its command has been proposed. */
    enum span_kind kind;
    uint64_t number;
    uint64_t session; /* The session of a WAIT. */
    /* asked_index of a WAIT, since_index of a DELAY or BREAK, token of a HOLD.
     */
    uint64_t instance;
    uint64_t end_ns;
    uint64_t hold_ms;  /* The whole length of a HOLD; 0 for the others. */
    uint64_t clock_ms; /* The log's clock when a HOLD began. */
    struct bytes lock;
    struct bytes owner;
    uint32_t key_size;
    uint8_t key[];
};

static struct bytes spans_make_key(struct spans *spans,
                                   const struct span_key *key)
{
    buffer_clear(&spans->key);
    buffer_put_u8(&spans->key, (uint8_t)key->kind);
    buffer_put_u64(&spans->key, key->number);
    buffer_put_run(&spans->key, key->lock);
    buffer_put_run(&spans->key, key->owner);
    return buffer_bytes(&spans->key);
}

static struct span *spans_find(struct spans *spans, const struct span_key *key)
{
    struct span *span = NULL;
    if (spans->by_key == NULL) { /* Usual: locks without any limit. */
        return NULL;
    }
    struct bytes bytes = spans_make_key(spans, key);
    HASH_FIND(hh, spans->by_key, bytes.data, bytes.size, span);
    return span;
}

static void spans_drop(struct spans *spans, struct span *span)
{
    heap_remove(&spans->due, &span->due);
    HASH_DEL(spans->by_key, span);
    pool_give(&spans->pool, span, sizeof *span + span->key_size);
}

static void drop_key(struct spans *spans, const struct span_key *key)
{
    struct span *span = spans_find(spans, key);
    if (span != NULL) {
        spans_drop(spans, span);
    }
}

static struct span *spans_obtain(struct spans *spans,
                                 const struct span_key *key)
{
    struct span *span = spans_find(spans, key);
    if (span != NULL) {
        return span;
    }
    struct bytes bytes = spans_make_key(spans, key);
    span = pool_take(&spans->pool, sizeof *span + bytes.size);
    span->key_size = (uint32_t)bytes.size;
    span->kind = key->kind;
    span->number = key->number;
    memcpy(span->key, bytes.data, bytes.size);
    /* The key ends with the two strings, each after its length. */
    const uint8_t *end = span->key + bytes.size;
    span->owner = bytes_of(end - key->owner.size, key->owner.size);
    end = span->owner.data - sizeof(uint32_t);
    span->lock = bytes_of(end - key->lock.size, key->lock.size);
    HASH_ADD_KEYPTR(hh, spans->by_key, span->key, bytes.size, span);
    return span;
}

/* The end of a span that began under another leader. */
static uint64_t inherited_end(const struct lockfsm *fsm, uint64_t span_ms,
                              uint64_t clock_ms, uint64_t slack_ms,
                              uint64_t now_ns)
{
    CHECK(clock_ms <= lockfsm_clock(fsm));
    uint64_t passed_ms = rules_left(lockfsm_clock(fsm) - clock_ms, slack_ms);
    return now_ns + rules_left(span_ms, passed_ms) * NS_PER_MS;
}

static struct span *spans_start(struct spans *spans, const struct span_key *key,
                                uint64_t instance, uint64_t end_ns)
{
    struct span *span = spans_obtain(spans, key);
    CHECK(span->due.slot == 0 || span->due.key == span->end_ns);
    span->instance = instance;
    span->end_ns = end_ns;
    heap_set(&spans->due, &span->due, end_ns);
    return span;
}

/* Starts the span of a hold. A downgrade is reported as a grant of the same
 * token, and does not prolong it. */
static void start_hold(struct spans *spans, const struct span_key *key,
                       uint64_t token, uint64_t hold_ms, uint64_t clock_ms,
                       uint64_t end_ns)
{
    struct span *span = spans_find(spans, key);
    if (span == NULL || span->instance != token || span->hold_ms != hold_ms) {
        span = spans_start(spans, key, token, end_ns);
        span->hold_ms = hold_ms;
        span->clock_ms = clock_ms;
    }
}

void spans_clear(struct spans *spans)
{
    HASH_CLEAR(hh, spans->by_key);
    pool_done(&spans->pool);
    heap_done(&spans->due);
}

void spans_done(struct spans *spans)
{
    spans_clear(spans);
    buffer_done(&spans->key);
}

void spans_inherit_lock(struct spans *spans, const struct lockfsm *fsm,
                        const struct lock *lock, uint64_t now_ns)
{
    if (lock->delay_ms > 0) {
        struct span_key key = {.kind = SPAN_DELAY, .lock = lock->name};
        spans_start(spans, &key, lock->delay_index,
                    inherited_end(fsm, lock->delay_ms, lock->delay_clock_ms,
                                  SLACK_MS, now_ns));
    }
    LIST_FOR (const struct hold, hold, &lock->holds, in_lock) {
        struct span_key key = {SPAN_HOLD, hold->session->id, lock->name,
                               hold->owner};
        /* Rule 10: one step more than the others, since clients rely on it. */
        if (hold->hold_ms > 0) {
            start_hold(spans, &key, hold->token, hold->hold_ms,
                       hold->hold_clock_ms,
                       inherited_end(fsm, hold->hold_ms, hold->hold_clock_ms,
                                     HOLD_SLACK_MS, now_ns));
        }
        if (hold->break_count > 0) {
            key.kind = SPAN_BREAK;
            spans_start(spans, &key, hold->breaks->since_index,
                        inherited_end(fsm, hold->breaks->after_ms,
                                      hold->breaks->clock_ms, SLACK_MS,
                                      now_ns));
        }
    }
    LIST_FOR (const struct wait, wait, &lock->queue, in_lock) {
        struct span_key key = {.kind = SPAN_WAIT,
                               .number = wait->wait_index,
                               .owner = wait->owner};
        if (wait->wait_ms > 0) {
            spans_start(spans, &key, wait->asked_index,
                        inherited_end(fsm, wait->wait_ms, wait->wait_clock_ms,
                                      SLACK_MS, now_ns))
                ->session = wait->session->id;
        }
    }
}

void spans_inherit(struct spans *spans, const struct lockfsm *fsm,
                   uint64_t now_ns)
{
    LIST_FOR (const struct blacklisting, entry, lockfsm_blacklist(fsm),
              in_order) {
        struct span_key key = {.kind = SPAN_BLACKLISTING,
                               .number = entry->since_index};
        if (entry->for_ms > 0) {
            spans_start(spans, &key, 0,
                        inherited_end(fsm, entry->for_ms, entry->clock_ms,
                                      SLACK_MS, now_ns));
        }
    }
    /* The quarantine begins with the BEGIN of a restored cluster.
     * spans_follow() does not see its effect, because the leader does not serve
     * yet. */
    uint64_t quarantine_ms;
    struct span_key key = {.kind = SPAN_QUARANTINE,
                           .number = lockfsm_quarantine(fsm, &quarantine_ms)};
    if (key.number != 0) {
        spans_start(spans, &key, 0,
                    inherited_end(fsm, quarantine_ms,
                                  lockfsm_quarantine_clock(fsm), SLACK_MS,
                                  now_ns));
    }
}

void spans_follow(struct spans *spans, const struct lockfsm *fsm,
                  const struct effect *effect, uint64_t now_ns)
{
    /* Rule 10: the leader that applied the beginning counts the whole length.
     */
    uint64_t end_ns = now_ns + effect->time_ms * NS_PER_MS;
    struct span_key wait = {.kind = SPAN_WAIT,
                            .number = effect->wait_index,
                            .owner = effect->owner};
    struct span_key hold = {SPAN_HOLD, effect->session, effect->lock,
                            effect->owner};
    struct span_key breaking = {SPAN_BREAK, effect->session, effect->lock,
                                effect->owner};
    struct span_key delay = {.kind = SPAN_DELAY, .lock = effect->lock};
    struct span_key blacklisting = {.kind = SPAN_BLACKLISTING,
                                    .number = effect->log_index};
    switch (effect->type) {
    case EFFECT_QUEUED:
        if (effect->time_ms > 0) {
            spans_start(spans, &wait, effect->asked_index, end_ns)
                ->session = effect->session;
        } else {
            drop_key(spans, &wait);
        }
        break;
    case EFFECT_WAIT_ENDED:
        drop_key(spans, &wait);
        break;
    case EFFECT_GRANTED:
        drop_key(spans, &wait);
        if (effect->hold_ms > 0) {
            start_hold(spans, &hold, effect->token, effect->hold_ms,
                       lockfsm_clock(fsm),
                       now_ns + effect->hold_ms * NS_PER_MS);
        } else {
            drop_key(spans, &hold);
        }
        break;
    case EFFECT_RELEASED:
    case EFFECT_HOLD_EXPIRED:
        drop_key(spans, &hold);
        drop_key(spans, &breaking);
        break;
    case EFFECT_BREAKING:
        spans_start(spans, &breaking, effect->log_index, end_ns);
        break;
    case EFFECT_OBJECTED:
        drop_key(spans, &breaking);
        break;
    case EFFECT_DELAYED:
        spans_start(spans, &delay, effect->log_index, end_ns);
        break;
    case EFFECT_DELAY_OVER:
        drop_key(spans, &delay);
        break;
    case EFFECT_BLACKLISTED:
        if (effect->time_ms > 0) {
            spans_start(spans, &blacklisting, 0, end_ns);
        }
        break;
    default:
        break;
    }
}

uint64_t spans_next(const struct spans *spans)
{
    const struct heap_node *first = heap_first(&spans->due);
    return first == NULL ? UINT64_MAX : first->key;
}

static uint64_t spans_left(const struct span *span, uint64_t now_ns)
{
    return span != NULL ? rules_left(span->end_ns, now_ns) : 0;
}

uint64_t spans_break_left(struct spans *spans, struct bytes lock,
                          uint64_t session, struct bytes owner, uint64_t now_ns)
{
    struct span_key key = {SPAN_BREAK, session, lock, owner};
    return spans_left(spans_find(spans, &key), now_ns);
}

uint64_t spans_delay_left(struct spans *spans, struct bytes lock,
                          uint64_t now_ns)
{
    struct span_key key = {.kind = SPAN_DELAY, .lock = lock};
    return spans_left(spans_find(spans, &key), now_ns);
}

/* A successor ends it at length - (its clock - the clock at the grant - two
 * steps) from its BEGIN on. Its clock is at most 'clock_ms', plus a step that
 * began earlier, plus the time from now on. */
uint64_t spans_hold_left(struct spans *spans, struct bytes lock,
                         uint64_t session, struct bytes owner,
                         uint64_t clock_ms, uint64_t now_ns)
{
    struct span_key key = {
        .kind = SPAN_HOLD, .number = session, .lock = lock, .owner = owner};
    const struct span *span = spans_find(spans, &key);
    if (span == NULL) {
        return 0;
    }
    CHECK(span->clock_ms <= clock_ms);
    uint64_t passed_ms = rules_left(clock_ms - span->clock_ms, SLACK_MS);
    uint64_t left_ns = rules_left(span->hold_ms, passed_ms) * NS_PER_MS;
    uint64_t own_ns = spans_left(span, now_ns);
    return u64_min(own_ns, left_ns);
}

uint64_t spans_quarantine_left(struct spans *spans, uint64_t since_index,
                               uint64_t now_ns)
{
    struct span_key key = {.kind = SPAN_QUARANTINE, .number = since_index};
    return spans_left(spans_find(spans, &key), now_ns);
}

bool spans_are_none(const struct spans *spans)
{
    return spans->by_key == NULL;
}

/* Proposes the entry that ends the span. It names the instance of what it ends,
 * so that it cannot end a later wait or hold of the same lock. */
static bool propose_over(const struct span *span, timers_propose_fn *propose,
                         void *data)
{
    struct entry entry = {.op = OP_NONE};
    struct wait_timeout_command wait = {.session = span->session,
                                        .owner = span->owner,
                                        .wait_index = span->number,
                                        .asked_index = span->instance};
    struct delay_over_command delay = {.name = span->lock,
                                       .since_index = span->instance};
    struct hold_over_command hold = {.name = span->lock,
                                     .session = span->number,
                                     .owner = span->owner,
                                     .token = span->instance};
    struct break_over_command brk = {.name = span->lock,
                                     .session = span->number,
                                     .owner = span->owner,
                                     .since_index = span->instance};
    struct blacklist_over_command listed = {.since_index = span->number};
    struct quarantine_over_command quarantine = {.since_index = span->number};
    switch (span->kind) {
    case SPAN_WAIT:
        entry = entry_of_wait_timeout(&wait);
        break;
    case SPAN_DELAY:
        entry = entry_of_delay_over(&delay);
        break;
    case SPAN_HOLD:
        entry = entry_of_hold_over(&hold);
        break;
    case SPAN_BREAK:
        entry = entry_of_break_over(&brk);
        break;
    case SPAN_BLACKLISTING:
        entry = entry_of_blacklist_over(&listed);
        break;
    case SPAN_QUARANTINE:
        entry = entry_of_quarantine_over(&quarantine);
        break;
    }
    return propose(data, &entry);
}

uint32_t spans_due(struct spans *spans, uint64_t now_ns, uint32_t command_max,
                   timers_propose_fn *propose, void *data, bool *ret_taken)
{
    *ret_taken = true;
    uint32_t count = 0;
    while (count < command_max && spans_next(spans) <= now_ns) {
        struct span *span = LIST_ENTRY(heap_first(&spans->due), struct span,
                                       due);
        if (!propose_over(span, propose, data)) {
            *ret_taken = false;
            return count;
        }
        count++;
        if (span->kind == SPAN_BLACKLISTING || span->kind == SPAN_QUARANTINE) {
            /* No effect names this span when it ends. */
            spans_drop(spans, span);
        } else {
            heap_remove(&spans->due, &span->due);
        }
    }
    return count;
}
