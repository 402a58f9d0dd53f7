/* SPDX-License-Identifier: MIT */

#include "lockfsm/spans.h"

#include <stdlib.h>

#include "base/check.h"
#include "base/memory.h"
#include "base/units.h"
#include "lockfsm/encode.h"

enum span_kind {
    SPAN_WAIT,
    SPAN_DELAY,
    SPAN_HOLD,
    SPAN_BLACKLISTING,
    SPAN_QUARANTINE
};

/* What a span belongs to. Fields that are no part of the identity of its kind
 * are 0: a wait is its index, a delay its lock, a hold its lock, session and
 * owner, a blacklisting its index. */
struct span_key {
    enum span_kind kind;
    uint64_t number; /* Wait index, session of a hold, since_index. */
    struct bytes lock;
    struct bytes owner;
};

struct span {
    UT_hash_handle hh;
    struct heap_node due; /* In no heap: its command has been proposed. */
    enum span_kind kind;
    uint64_t number;
    uint64_t session;  /* WAIT. */
    uint64_t instance; /* WAIT: asked_index; DELAY: since_index; HOLD: token. */
    uint64_t end_ns;
    uint64_t hold_ns; /* HOLD: the whole; 0 for the others. */
    uint64_t aged_ns; /* HOLD: newest age that was proposed. */
    struct bytes lock;
    struct bytes owner;
    size_t key_size;
    uint8_t key[];
};

static struct bytes make_key(struct spans *spans, const struct span_key *key)
{
    buffer_clear(&spans->key);
    buffer_put_u8(&spans->key, (uint8_t)key->kind);
    buffer_put_u64(&spans->key, key->number);
    buffer_put_run(&spans->key, key->lock);
    buffer_put_run(&spans->key, key->owner);
    return buffer_bytes(&spans->key);
}

static struct span *find(struct spans *spans, const struct span_key *key)
{
    struct bytes bytes = make_key(spans, key);
    struct span *span = NULL;
    HASH_FIND(hh, spans->by_key, bytes.data, bytes.size, span);
    return span;
}

static void drop(struct spans *spans, struct span *span)
{
    heap_remove(&spans->due, &span->due);
    HASH_DEL(spans->by_key, span);
    free(span);
}

static void drop_key(struct spans *spans, const struct span_key *key)
{
    struct span *span = find(spans, key);
    if (span != NULL) {
        drop(spans, span);
    }
}

/* Finds or makes the span of 'key'. The wait's owner is part of what its
 * command says though not of its key, so it comes apart. */
static struct span *obtain(struct spans *spans, const struct span_key *key,
                           struct bytes owner)
{
    struct span *span = find(spans, key);
    if (span != NULL && bytes_equal(span->owner, owner)) {
        return span;
    }
    if (span != NULL) {
        drop(spans, span);
    }
    struct bytes bytes = make_key(spans, key);
    span = memory_new(sizeof *span + bytes.size + key->lock.size + owner.size);
    span->kind = key->kind;
    span->number = key->number;
    span->key_size = bytes.size;
    memcpy(span->key, bytes.data, bytes.size);
    uint8_t *text = span->key + bytes.size;
    if (key->lock.size > 0) {
        memcpy(text, key->lock.data, key->lock.size);
    }
    span->lock = bytes_of(text, key->lock.size);
    text += key->lock.size;
    if (owner.size > 0) {
        memcpy(text, owner.data, owner.size);
    }
    span->owner = bytes_of(text, owner.size);
    HASH_ADD_KEYPTR(hh, spans->by_key, span->key, span->key_size, span);
    return span;
}

/* When 'span' needs a command next: the end, or for a hold the next of 1/2 and
 * 3/4 that has not been logged. */
static uint64_t next_command(const struct span *span)
{
    uint64_t half_ns = span->hold_ns / 2;
    uint64_t quarter_ns = span->hold_ns / 4;
    uint64_t left_ns = 0;
    if (span->aged_ns < half_ns) {
        left_ns = span->hold_ns - half_ns;
    } else if (span->aged_ns < half_ns + quarter_ns) {
        left_ns = span->hold_ns - half_ns - quarter_ns;
    }
    return span->end_ns > left_ns ? span->end_ns - left_ns : 0;
}

static void schedule(struct spans *spans, struct span *span)
{
    heap_set(&spans->due, &span->due, next_command(span));
}

static void start_wait(struct spans *spans, const struct wait_key *wait,
                       uint64_t end_ns)
{
    struct span_key key = {.kind = SPAN_WAIT, .number = wait->wait_index};
    struct span *span = obtain(spans, &key, wait->owner);
    span->session = wait->session;
    span->instance = wait->asked_index;
    span->end_ns = end_ns;
    schedule(spans, span);
}

static void start_delay(struct spans *spans, struct bytes lock,
                        uint64_t since_index, uint64_t end_ns)
{
    struct span_key key = {.kind = SPAN_DELAY, .lock = lock};
    struct span *span = obtain(spans, &key, (struct bytes){NULL, 0});
    span->instance = since_index;
    span->end_ns = end_ns;
    schedule(spans, span);
}

/* A downgrade is told as a grant of the same token, and does not prolong. */
static void start_hold(struct spans *spans, const struct span_key *key,
                       uint64_t token, uint64_t hold_ns, uint64_t aged_ns,
                       uint64_t now_ns)
{
    struct span *span = obtain(spans, key, key->owner);
    if (span->instance == token && span->hold_ns == hold_ns) {
        return;
    }
    span->instance = token;
    span->hold_ns = hold_ns;
    span->aged_ns = aged_ns;
    span->end_ns = now_ns + (hold_ns > aged_ns ? hold_ns - aged_ns : 0);
    schedule(spans, span);
}

/* A span that is nothing but an index: a blacklisting, the quarantine. */
static void start_numbered(struct spans *spans, enum span_kind kind,
                           uint64_t since_index, uint64_t end_ns)
{
    struct span_key key = {.kind = kind, .number = since_index};
    struct span *span = obtain(spans, &key, (struct bytes){NULL, 0});
    span->end_ns = end_ns;
    schedule(spans, span);
}

void spans_clear(struct spans *spans)
{
    struct span *span;
    struct span *next;
    HASH_ITER (hh, spans->by_key, span, next) {
        HASH_DEL(spans->by_key, span);
        free(span);
    }
    heap_done(&spans->due);
}

void spans_done(struct spans *spans)
{
    spans_clear(spans);
    buffer_done(&spans->key);
    buffer_done(&spans->command);
}

static void inherit_lock(struct spans *spans, const struct lock *lock,
                         uint64_t now_ns)
{
    if (lock->delay_ms > 0) {
        start_delay(spans, lock->name, lock->delay_index,
                    now_ns + lock->delay_ms * NS_PER_MS);
    }
    LIST_EACH (node, &lock->holds) {
        const struct hold *hold = LIST_ENTRY(node, struct hold, in_lock);
        if (hold->hold_ms > 0) {
            struct span_key key = {.kind = SPAN_HOLD,
                                   .number = hold->session->id,
                                   .lock = lock->name,
                                   .owner = hold->owner};
            start_hold(spans, &key, hold->token, hold->hold_ms * NS_PER_MS,
                       hold->hold_age_ms * NS_PER_MS, now_ns);
        }
    }
    LIST_EACH (node, &lock->queue) {
        const struct wait *wait = LIST_ENTRY(node, struct wait, in_lock);
        if (wait->wait_ms > 0) {
            struct wait_key key = {.session = wait->session->id,
                                   .owner = wait->owner,
                                   .wait_index = wait->wait_index,
                                   .asked_index = wait->asked_index};
            start_wait(spans, &key, now_ns + wait->wait_ms * NS_PER_MS);
        }
    }
}

void spans_inherit(struct spans *spans, const struct lockfsm *fsm,
                   uint64_t now_ns)
{
    for (const struct lock *lock = lockfsm_locks(fsm); lock != NULL;
         lock = lock->by_name.next) {
        inherit_lock(spans, lock, now_ns);
    }
    LIST_EACH (node, lockfsm_blacklist(fsm)) {
        const struct blacklisting *entry = LIST_ENTRY(node, struct blacklisting,
                                                      in_order);
        if (entry->for_ms > 0) {
            start_numbered(spans, SPAN_BLACKLISTING, entry->since_index,
                           now_ns + entry->for_ms * NS_PER_MS);
        }
    }
    /* It begins with the BEGIN of the new life, which no leader follows: by
     * then it has not served. */
    uint64_t quarantine_ms;
    uint64_t since_index = lockfsm_quarantine(fsm, &quarantine_ms);
    if (since_index != 0) {
        start_numbered(spans, SPAN_QUARANTINE, since_index,
                       now_ns + quarantine_ms * NS_PER_MS);
    }
}

static void follow_grant(struct spans *spans, const struct effect *effect,
                         uint64_t now_ns)
{
    if (effect->wait_index != 0) {
        drop_key(spans, &(struct span_key){.kind = SPAN_WAIT,
                                           .number = effect->wait_index});
    }
    struct span_key key = {.kind = SPAN_HOLD,
                           .number = effect->session,
                           .lock = effect->lock,
                           .owner = effect->owner};
    if (effect->hold_ms > 0) {
        start_hold(spans, &key, effect->token, effect->hold_ms * NS_PER_MS, 0,
                   now_ns);
    } else {
        drop_key(spans, &key);
    }
}

void spans_follow(struct spans *spans, const struct effect *effect,
                  uint64_t now_ns)
{
    uint64_t end_ns = now_ns + effect->time_ms * NS_PER_MS;
    switch (effect->type) {
    case EFFECT_QUEUED:
        if (effect->time_ms > 0) {
            struct wait_key key = {.session = effect->session,
                                   .owner = effect->owner,
                                   .wait_index = effect->wait_index,
                                   .asked_index = effect->asked_index};
            start_wait(spans, &key, end_ns);
        } else {
            drop_key(spans, &(struct span_key){.kind = SPAN_WAIT,
                                               .number = effect->wait_index});
        }
        break;
    case EFFECT_WAIT_ENDED:
        drop_key(spans, &(struct span_key){.kind = SPAN_WAIT,
                                           .number = effect->wait_index});
        break;
    case EFFECT_GRANTED:
        follow_grant(spans, effect, now_ns);
        break;
    case EFFECT_RELEASED:
    case EFFECT_HOLD_EXPIRED:
        drop_key(spans, &(struct span_key){.kind = SPAN_HOLD,
                                           .number = effect->session,
                                           .lock = effect->lock,
                                           .owner = effect->owner});
        break;
    case EFFECT_DELAYED:
        start_delay(spans, effect->lock, effect->log_index, end_ns);
        break;
    case EFFECT_DELAY_OVER:
        drop_key(spans,
                 &(struct span_key){.kind = SPAN_DELAY, .lock = effect->lock});
        break;
    case EFFECT_BLACKLISTED:
        if (effect->time_ms > 0) {
            start_numbered(spans, SPAN_BLACKLISTING, effect->log_index, end_ns);
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

static uint64_t left(const struct span *span, uint64_t now_ns)
{
    return span != NULL && span->end_ns > now_ns ? span->end_ns - now_ns : 0;
}

uint64_t spans_delay_left(struct spans *spans, struct bytes lock,
                          uint64_t now_ns)
{
    struct span_key key = {.kind = SPAN_DELAY, .lock = lock};
    return left(find(spans, &key), now_ns);
}

uint64_t spans_hold_left(struct spans *spans, struct bytes lock,
                         uint64_t session, struct bytes owner, uint64_t now_ns)
{
    struct span_key key = {
        .kind = SPAN_HOLD, .number = session, .lock = lock, .owner = owner};
    return left(find(spans, &key), now_ns);
}

uint64_t spans_quarantine_left(struct spans *spans, uint64_t since_index,
                               uint64_t now_ns)
{
    struct span_key key = {.kind = SPAN_QUARANTINE, .number = since_index};
    return left(find(spans, &key), now_ns);
}

/* Encodes what is due of 'span' and returns true if that is its end. */
static bool encode_due(struct buffer *out, const struct span *span,
                       uint64_t now_ns)
{
    struct hold_key hold = {.name = span->lock,
                            .session = span->number,
                            .owner = span->owner,
                            .token = span->instance};
    buffer_clear(out);
    if (now_ns < span->end_ns) {
        CHECK(span->kind == SPAN_HOLD);
        uint64_t left_ns = span->end_ns - now_ns;
        encode_hold_age(out, &hold, (span->hold_ns - left_ns) / NS_PER_MS);
        return false;
    }
    switch (span->kind) {
    case SPAN_WAIT:
        encode_wait_over(out,
                         &(struct wait_key){.session = span->session,
                                            .owner = span->owner,
                                            .wait_index = span->number,
                                            .asked_index = span->instance});
        break;
    case SPAN_DELAY:
        encode_delay_over(out, span->lock, span->instance);
        break;
    case SPAN_HOLD:
        encode_hold_over(out, &hold);
        break;
    case SPAN_BLACKLISTING:
        encode_blacklist_over(out, span->number);
        break;
    case SPAN_QUARANTINE:
        encode_quarantine_over(out, span->number);
        break;
    }
    return true;
}

uint32_t spans_due(struct spans *spans, uint64_t now_ns, uint32_t command_max,
                   timers_propose_fn *propose, void *data, bool *ret_taken)
{
    *ret_taken = true;
    uint32_t count = 0;
    while (count < command_max && spans_next(spans) <= now_ns) {
        struct span *span = LIST_ENTRY(heap_first(&spans->due), struct span,
                                       due);
        bool is_over = encode_due(&spans->command, span, now_ns);
        if (!propose(data, buffer_bytes(&spans->command))) {
            *ret_taken = false;
            return count;
        }
        count++;
        if (!is_over) {
            span->aged_ns = span->hold_ns - (span->end_ns - now_ns);
            schedule(spans, span);
        } else if (span->kind == SPAN_BLACKLISTING ||
                   span->kind == SPAN_QUARANTINE) {
            /* Its end is told by no effect that names it. */
            drop(spans, span);
        } else {
            heap_remove(&spans->due, &span->due);
        }
    }
    return count;
}
