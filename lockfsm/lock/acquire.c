/* SPDX-License-Identifier: MIT */

/* ACQUIRE and MACQUIRE: one lock or several, all or nothing; CANCEL.
 *
 * The checks, in order: the request is valid; the session may acquire; the
 * owner holds all of it already (re-entry); the same request waits already (it
 * keeps its place); all of it is free; it is to wait. Nothing changes before
 * all checks are done. */

#include "lockfsm/lock/lock.h"
#include "lockfsm/session/session.h"
#include "lockfsm/store/store.h"
#include "lockfsm/user/user.h"

struct acquisition {
    const struct acquire_command *message;
    struct session *session;
    struct wait_terms terms;
    uint32_t count;
    struct bytes names[MULTI_COUNT_MAX];
    struct lock *locks[MULTI_COUNT_MAX]; /* NULL if the lock does not exist. */
    /* The owner's hold, or NULL. */
    struct hold *own[MULTI_COUNT_MAX];
    uint32_t own_count;
    uint32_t new_lock_count;
};

static const char *acquire_what_is_wrong(const struct lockfsm *fsm,
                                         const struct acquire_command *message)
{
    if (message->name_count == 0 || message->name_count > MULTI_COUNT_MAX) {
        return "number of names";
    }
    for (size_t i = 0; i < message->name_count; i++) {
        if (!name_is_valid(message->names[i])) {
            return "name";
        }
    }
    if (fsm->entry.origin.owner.size > OWNER_SIZE_MAX) {
        return "owner";
    }
    if (message->mode != LOCK_EXCLUSIVE && message->mode != LOCK_SHARED &&
        message->mode != LOCK_SLOTS) {
        return "mode";
    }
    if ((message->mode == LOCK_SLOTS) != (message->slots > 0)) {
        return "slots";
    }
    if (message->value.size > VALUE_SIZE_MAX) {
        return "value";
    }
    if (message->wait_ms > TIME_MS_MAX || message->delay_ms > TIME_MS_MAX ||
        message->hold_ms > TIME_MS_MAX) {
        return "time";
    }
    return NULL;
}

static bool has_name_twice(const struct acquisition *a)
{
    for (uint32_t i = 1; i < a->count; i++) {
        for (uint32_t j = 0; j < i; j++) {
            if (bytes_equal(a->names[i], a->names[j])) {
                return true;
            }
        }
    }
    return false;
}

/* Finds the locks and holds of the names; false, with the refusal, if the
 * request contradicts them. */
static bool acquire_look_up(struct lockfsm *fsm, struct acquisition *a,
                            struct result *result)
{
    const struct acquire_command *message = a->message;
    a->count = (uint32_t)message->name_count;
    for (uint32_t i = 0; i < a->count; i++) {
        a->names[i] = message->names[i];
    }
    /* A name that is listed twice would be granted twice, with two holds of one
     * owner (rule 17). */
    if (has_name_twice(a)) {
        entry_refuse(result, RESULT_BAD_ARGUMENT, "duplicate name");
        return false;
    }
    for (uint32_t i = 0; i < a->count; i++) {
        struct lock *lock = lock_find(fsm, a->names[i]);
        a->locks[i] = lock;
        a->new_lock_count += lock == NULL;
        a->own[i] = hold_find(fsm, lock, a->session->id,
                              fsm->entry.origin.owner);
        if (lock != NULL && a->terms.hold.mode == LOCK_SLOTS &&
            lock->slots != 0 && lock->slots != a->terms.hold.slots) {
            entry_refuse(result, RESULT_BAD_ARGUMENT,
                         "SLOTS differs from the lock's value, which can "
                         "change once the lock is free");
            return false;
        }
        if (a->own[i] == NULL) {
            continue;
        }
        if (!hold_covers(a->own[i], a->terms.hold.mode)) {
            entry_refuse(
                result, RESULT_DEADLOCK,
                "this owner holds the lock in another mode: use LOCK.CONVERT");
            return false;
        }
        if (a->own[i]->count == UINT32_MAX) {
            entry_refuse(result, RESULT_LIMIT, "count");
            return false;
        }
        a->own_count++;
    }
    return true;
}

static void answer_tokens(struct lockfsm *fsm, const uint64_t *tokens,
                          uint32_t count, struct result *result)
{
    size_t size = count * sizeof(uint64_t);
    CHECK(count > 0); /* A request without a lock was refused. */
    uint64_t *copy = effect_take(fsm, size);
    memcpy(copy, tokens, size);
    result->code = RESULT_OK;
    result->token = tokens[0];
    result->tokens = copy;
    result->token_count = count;
}

/* Grants all locks of a request. */
static void acquire_grant(struct lockfsm *fsm, struct acquisition *a,
                          struct result *result)
{
    uint64_t tokens[MULTI_COUNT_MAX];
    for (uint32_t i = 0; i < a->count; i++) {
        if (a->own[i] != NULL) {
            hold_enter_again(fsm, a->own[i]);
            tokens[i] = a->own[i]->token;
        } else {
            struct lock *lock = a->locks[i] != NULL
                                    ? a->locks[i]
                                    : lock_obtain(fsm, a->names[i]);
            struct hold_terms terms = a->terms.hold;
            /* Before the grant: after it the lock is no longer free. */
            terms.has_barged = !lock_is_free(fsm, lock, terms.mode,
                                             terms.slots);
            tokens[i] = hold_grant(fsm, lock, a->session, &terms, 0)->token;
        }
    }
    answer_tokens(fsm, tokens, a->count, result);
}

/* The owner's wait at one of the locks, or NULL. A request for locks that the
 * owner holds already is a re-entry, whatever else waits. */
static struct wait *find_standing(struct lockfsm *fsm,
                                  const struct acquisition *a)
{
    if (a->own_count == a->count) {
        return NULL;
    }
    for (uint32_t i = 0; i < a->count; i++) {
        struct wait *wait = wait_find(fsm, a->locks[i], a->session->id,
                                      fsm->entry.origin.owner);
        if (wait != NULL) {
            return wait;
        }
    }
    return NULL;
}

/* True if 'wait' belongs to the same request as 'a': the same locks in the same
 * order, which is that of the tokens, and the same mode. Its terms may differ.
 */
static bool is_same_request(struct wait *wait, const struct acquisition *a)
{
    if (wait->is_upgrade || wait->mode != a->terms.hold.mode ||
        wait->slots != a->terms.hold.slots || request_count(wait) != a->count) {
        return false;
    }
    struct wait *member = request_first(wait);
    for (uint32_t i = 0; i < a->count; i++) {
        if (member->lock != a->locks[i]) {
            return false;
        }
        member = REQUEST_NEXT(member);
    }
    return true;
}

static bool acquire_is_free(struct lockfsm *fsm, const struct acquisition *a)
{
    for (uint32_t i = 0; i < a->count; i++) {
        if (a->own[i] == NULL &&
            !lock_is_free(fsm, a->locks[i], a->terms.hold.mode,
                          a->terms.hold.slots)) {
            return false;
        }
    }
    return true;
}

/* BARGE ignores the queue, never the holders: readers pass a writer as long as
 * it waits for a reader that was there before it. It is not allowed to an owner
 * that waits elsewhere: the waiters here could then wait for each other without
 * a search. */
static bool may_barge(struct lockfsm *fsm, const struct acquisition *a)
{
    const struct waiter *waiter = waiter_find(fsm, a->session->id,
                                              fsm->entry.origin.owner);
    if (!a->message->is_barging || is_quarantined(fsm) ||
        (waiter != NULL && waiter->wait_count > 0)) {
        return false;
    }
    for (uint32_t i = 0; i < a->count; i++) {
        const struct lock *lock = a->locks[i];
        if (a->own[i] != NULL || lock == NULL) {
            continue;
        }
        /* Never the holders (rule 19). */
        if (!holders_allow(lock, a->terms.hold.mode, a->terms.hold.slots) ||
            !may_pass_queue(fsm, lock, a->terms.hold.mode)) {
            return false;
        }
    }
    return true;
}

/* The text that new holds or waits, and new locks, add to the state. */
static uint64_t text_of_new(const struct lockfsm *fsm,
                            const struct acquisition *a)
{
    uint64_t text = 0;
    for (uint32_t i = 0; i < a->count; i++) {
        if (a->own[i] == NULL) {
            text += fsm->entry.origin.owner.size + a->message->value.size;
            text += a->locks[i] == NULL ? a->names[i].size : 0;
        }
    }
    return text;
}

/* The bytes that the request's new holds or waits add to those of its user. */
static uint64_t bytes_of_new(const struct lockfsm *fsm,
                             const struct acquisition *a)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < a->count; i++) {
        if (a->own[i] == NULL) {
            bytes += place_bytes(a->names[i], fsm->entry.origin.owner,
                                 a->message->value);
        }
    }
    return bytes;
}

/* True, with the refusal, if granting or queueing would exceed a limit. */
static bool is_over_limit(struct lockfsm *fsm, const struct acquisition *a,
                          struct result *result)
{
    const uint64_t *limit = fsm->limits.of;
    uint32_t new_count = a->count - a->own_count;
    uint64_t places = (uint64_t)a->session->hold_count +
                      a->session->wait_count + new_count;
    uint64_t locks = (uint64_t)HASH_CNT(by_name, fsm->locks) +
                     a->new_lock_count;
    if (new_count > 0 && places > limit[LIMIT_HOLDS_PER_SESSION]) {
        entry_refuse(result, RESULT_LIMIT, "holds of the session");
        return true;
    }
    if (a->new_lock_count > 0 && locks > limit[LIMIT_LOCKS]) {
        entry_refuse(result, RESULT_LIMIT, "locks");
        return true;
    }
    struct quota more = {
        {[QUOTA_HOLDS] = new_count, [QUOTA_BYTES] = bytes_of_new(fsm, a)}};
    /* A re-entry takes no new place and is never refused: its owner has to be
     * able to continue until it releases. */
    return new_count > 0 &&
           (growth_is_refused(fsm, new_count + a->new_lock_count,
                              text_of_new(fsm, a), result) ||
            user_growth_is_refused(fsm, &more, result));
}

bool waiting_is_over_limit(struct lockfsm *fsm, const struct session *session,
                           const struct lock *lock, uint32_t count,
                           struct result *result)
{
    const uint64_t *limit = fsm->limits.of;
    uint64_t waits = (uint64_t)session->wait_count + count;
    if (session->hold_count + waits > limit[LIMIT_HOLDS_PER_SESSION]) {
        entry_refuse(result, RESULT_LIMIT, "holds of the session");
    } else if (waits > limit[LIMIT_WAITS_PER_SESSION]) {
        entry_refuse(result, RESULT_LIMIT, "waits of the session");
    } else if (fsm->uses.waits + count > limit[LIMIT_WAITS]) {
        entry_refuse(result, RESULT_LIMIT, "waits");
    } else if (lock != NULL &&
               lock->wait_count >= limit[LIMIT_WAITS_PER_LOCK]) {
        entry_refuse(result, RESULT_LIMIT, "waits of the lock");
    } else if (session->asker_count >= limit[LIMIT_OWNERS_PER_SESSION] &&
               waiter_find(fsm, session->id, fsm->entry.origin.owner) == NULL) {
        entry_refuse(result, RESULT_LIMIT, "owners of the session");
    } else {
        /* Each wait has a copy of the owner's tag, and so has the waiter. */
        uint64_t text = (count + 1) * fsm->entry.origin.owner.size;
        struct quota more = {{[QUOTA_HOLDS] = count,
                              [QUOTA_WAITS] = count,
                              [QUOTA_BYTES] = count * RECORD_SIZE + text}};
        return growth_is_refused(fsm, count, text, result) ||
               user_growth_is_refused(fsm, &more, result);
    }
    return true;
}

bool wait_is_endless(const struct session *session, bool is_waiting,
                     uint64_t wait_ms, struct result *result)
{
    if (!session->is_durable || !is_waiting || wait_ms != 0) {
        return false;
    }
    entry_refuse(
        result, RESULT_BAD_ARGUMENT,
        "a durable session needs a limited wait: no lease would end the wait "
        "of a client that has died");
    return true;
}

/* True, with the refusal, if a repeated request brings a longer value for which
 * there is no room; the wait is unchanged. */
static bool value_is_too_long(struct lockfsm *fsm, const struct acquisition *a,
                              const struct wait *standing,
                              struct result *result)
{
    uint64_t size = a->message->value.size;
    struct quota more = {
        {[QUOTA_BYTES] = (size - standing->value.size) * a->count}};
    return a->message->is_waiting && size > standing->value.size &&
           (growth_is_refused(fsm, 0, more.of[QUOTA_BYTES], result) ||
            user_growth_is_refused(fsm, &more, result));
}

static void acquire_queue(struct lockfsm *fsm, struct acquisition *a,
                          struct result *result)
{
    for (uint32_t i = 0; i < a->count; i++) {
        if (waiting_is_over_limit(fsm, a->session, a->locks[i], a->count,
                                  result)) {
            return;
        }
    }
    struct wait *first = NULL;
    for (uint32_t i = 0; i < a->count; i++) {
        struct lock *lock = lock_obtain(fsm, a->names[i]);
        struct wait *wait = wait_queue(fsm, lock, a->session, &a->terms);
        first = first != NULL ? first : wait;
    }
    CHECK(request_count(first) == a->count); /* They end together. */
    queue_or_deadlock(fsm, first, result);
}

void queue_or_deadlock(struct lockfsm *fsm, struct wait *first,
                       struct result *result)
{
    struct bytes cycle;
    CHECK(fsm->entry.queued_index == first->wait_index);
    /* A cycle is closed by its newest wait, so only a newcomer has to be
     * checked, once all of its waits are queued. */
    if (deadlock_of_newcomer(fsm, first->waiter, &cycle)) {
        request_free(fsm, first);
        fsm->entry.queued_index = 0;
        result->code = RESULT_DEADLOCK;
        result->text = cycle;
        return;
    }
    struct wait *member = first;
    do {
        if (member->slots != member->lock->slots && member->slots != 0) {
            member->lock->slots = member->slots;
            record_changed(fsm, &member->lock->stored);
        }
        wait_tell_queued(fsm, member, false);
        member = REQUEST_NEXT(member);
    } while (member != first);
    result->code = RESULT_QUEUED;
}

static struct wait_terms terms_of(const struct lockfsm *fsm,
                                  const struct acquire_command *message)
{
    return (struct wait_terms){.hold = {.owner = fsm->entry.origin.owner,
                                        .value = message->value,
                                        .trace = message->trace,
                                        .mode = (enum lock_mode)message->mode,
                                        .slots = message->slots,
                                        .delay_ms = message->delay_ms,
                                        .hold_ms = message->hold_ms},
                               .wait_ms = message->wait_ms};
}

void apply_acquire(struct lockfsm *fsm, const struct entry *command,
                   struct result *result)
{
    const struct acquire_command *message = command->acquire;
    if (is_wrong(result, acquire_what_is_wrong(fsm, message))) {
        return;
    }
    struct acquisition a;
    a.message = message;
    a.own_count = 0;
    a.new_lock_count = 0;
    a.terms = terms_of(fsm, message);
    if (!session_find_asking(fsm, &a.session, result) ||
        blacklist_refuses(fsm, a.session, result) ||
        session_is_value(a.session, result) ||
        wait_is_endless(a.session, message->is_waiting, message->wait_ms,
                        result) ||
        !acquire_look_up(fsm, &a, result)) {
        return;
    }
    struct wait *standing = find_standing(fsm, &a);
    if (standing != NULL && is_same_request(standing, &a)) {
        if (value_is_too_long(fsm, &a, standing, result)) {
            return;
        }
        wait_ask_again(fsm, standing, &a.terms, message->is_waiting, result);
    } else if (standing != NULL) {
        entry_refuse(result, RESULT_BAD_ARGUMENT,
                     "another request of this owner waits for the lock");
    } else if (is_over_limit(fsm, &a, result)) {
        return;
    } else if (acquire_is_free(fsm, &a) || may_barge(fsm, &a)) {
        /* Limits come before: a grant and a wait both need a place. */
        acquire_grant(fsm, &a, result);
    } else if (!message->is_waiting) {
        result->code = not_acquired(fsm);
    } else {
        acquire_queue(fsm, &a, result);
    }
}

void apply_cancel(struct lockfsm *fsm, const struct entry *command,
                  struct result *result)
{
    struct bytes name = command->cancel->name;
    struct session *session;
    if (!name_is_valid(name)) {
        entry_refuse(result, RESULT_BAD_ARGUMENT, "name");
        return;
    }
    if (!session_find_asking(fsm, &session, result)) {
        return;
    }
    struct lock *lock = lock_find(fsm, name);
    struct wait *wait = wait_find(fsm, lock, session->id,
                                  fsm->entry.origin.owner);
    if (wait != NULL) {
        struct result nothing = {.code = RESULT_NOT_ACQUIRED};
        wait_end(fsm, wait, "cancelled", &nothing);
        result->count = 1;
        return;
    }
    /* The wait was granted meanwhile, or has ended: the token shows which. */
    struct hold *hold = hold_find(fsm, lock, session->id,
                                  fsm->entry.origin.owner);
    result->token = hold != NULL ? hold->token : 0;
}
