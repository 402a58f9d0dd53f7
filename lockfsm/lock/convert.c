/* SPDX-License-Identifier: MIT */

/* CONVERT between shared and exclusive.
 *
 * A downgrade is done at once and keeps the token. An upgrade must be the only
 * holder. It waits ahead of the queue, since the queue waits for its shared
 * hold, and gets a new token. Two upgrades would wait for each other's shared
 * hold for ever, so the second is refused. */

#include "lockfsm/lock/lock.h"
#include "lockfsm/session/session.h"
#include "lockfsm/store/store.h"
#include "lockfsm/user/user.h"

static void convert_down(struct lockfsm *fsm, struct hold *hold,
                         struct result *result)
{
    CHECK(hold->mode == LOCK_EXCLUSIVE && hold->lock->hold_count == 1);
    if (wait_find(fsm, hold->lock, hold->session->id, hold->owner) != NULL) {
        /* The other request, a MACQUIRE, counts on the exclusive hold and would
         * then wait for its own owner. */
        entry_refuse(result, RESULT_BAD_ARGUMENT,
                     "another request of this owner waits for the lock");
        return;
    }
    hold->mode = LOCK_SHARED;
    hold->lock->mode = LOCK_SHARED;
    claims_add(fsm, hold);
    record_changed(fsm, &hold->stored);
    record_changed(fsm, &hold->lock->stored);
    hold_tell(fsm, hold, 0, "downgraded");
    lock_touch(fsm, hold->lock);
    result->token = hold->token;
}

static void queue_upgrade(struct lockfsm *fsm, struct hold *hold,
                          const struct wait_terms *terms, struct result *result)
{
    const struct lock *lock = hold->lock;
    const struct session *session = hold->session;
    if (waiting_is_over_limit(fsm, session, lock, 1, result)) {
        return;
    }
    queue_or_deadlock(fsm, wait_queue(fsm, hold->lock, hold->session, terms),
                      result);
}

/* Readers that wait here, because of another lock of their requests, did not
 * wait for this holder while it was a reader itself. Now they do, and if it
 * waits elsewhere for one of them, that closes a cycle: so the graph is
 * searched as if the holder queued. */
static void upgrade_now(struct lockfsm *fsm, struct hold *hold,
                        const struct wait_terms *terms, struct result *result)
{
    const struct waiter *waiter = waiter_find(fsm, hold->session->id,
                                              hold->owner);
    if (hold->lock->wait_count > 0 && waiter != NULL &&
        waiter->wait_count > 0) {
        struct wait *wait = wait_queue(fsm, hold->lock, hold->session, terms);
        struct bytes cycle;
        bool is_deadlock = deadlock_of_newcomer(fsm, wait->waiter, &cycle);
        /* The wait was queued only for the search. */
        wait_free(fsm, wait);
        fsm->entry.queued_index = 0;
        if (is_deadlock) {
            result->code = RESULT_DEADLOCK;
            result->text = cycle;
            return;
        }
    }
    hold_upgrade(fsm, hold, 0);
    result->token = hold->token;
}

static void convert_up(struct lockfsm *fsm, struct hold *hold,
                       const struct convert_command *message,
                       struct result *result)
{
    struct lock *lock = hold->lock;
    CHECK(hold->mode == LOCK_SHARED && lock->mode == LOCK_SHARED);
    struct wait_terms terms = {.hold = {.owner = hold->owner,
                                        .value = hold->value,
                                        .trace = hold->trace,
                                        .mode = LOCK_EXCLUSIVE,
                                        .delay_ms = hold->delay_ms,
                                        .hold_ms = hold->hold_ms},
                               .wait_ms = message->wait_ms,
                               .is_upgrade = true};
    struct wait *standing = wait_find(fsm, lock, hold->session->id,
                                      hold->owner);
    if (standing != NULL && standing->is_upgrade) {
        wait_ask_again(fsm, standing, &terms, message->is_waiting, result);
        return;
    }
    if (standing != NULL) {
        entry_refuse(result, RESULT_BAD_ARGUMENT,
                     "another request of this owner waits for the lock");
        return;
    }
    if (lock_is_free_for_upgrade(fsm, lock)) {
        upgrade_now(fsm, hold, &terms, result);
        return;
    }
    const struct wait *first = LIST_FIRST(&lock->queue, struct wait, in_lock);
    /* Each of two upgrading readers would wait until the other has released. */
    if (first != NULL && first->is_upgrade) {
        entry_refuse(result, RESULT_DEADLOCK,
                     "another holder waits to upgrade");
    } else if (!message->is_waiting) {
        result->code = not_acquired(fsm);
    } else {
        queue_upgrade(fsm, hold, &terms, result);
    }
}

void apply_convert(struct lockfsm *fsm, const struct entry *command,
                   struct result *result)
{
    const struct convert_command *message = command->convert;
    struct bytes name = message->name;
    bool is_up = message->to == LOCK_EXCLUSIVE;
    struct session *session;
    if (is_wrong(result, !name_is_valid(name)                   ? "name"
                         : !is_up && message->to != LOCK_SHARED ? "mode"
                         : message->wait_ms > TIME_MS_MAX       ? "time"
                                                                : NULL) ||
        !session_find_asking(fsm, &session, result) ||
        (is_up && blacklist_refuses(fsm, session, result)) ||
        session_is_value(session, result) ||
        wait_is_endless(session, message->is_waiting, message->wait_ms,
                        result)) {
        return;
    }
    struct hold *hold = hold_find_meant(fsm, lock_find(fsm, name), session,
                                        message->token);
    if (hold == NULL) {
        result->code = RESULT_NOT_HELD;
        return;
    }
    if (hold->mode == LOCK_SLOTS) {
        entry_refuse(result, RESULT_BAD_ARGUMENT, "a slot cannot be converted");
        return;
    }
    /* The holder has acted, so a break that is pending is dropped; a refused
     * request does not count. */
    (void)hold_object(fsm, hold, (struct bytes){NULL, 0});
    if ((hold->mode == LOCK_EXCLUSIVE) == is_up) {
        result->token = hold->token;
    } else if (is_up) {
        convert_up(fsm, hold, message, result);
    } else {
        convert_down(fsm, hold, result);
    }
}
