/* SPDX-License-Identifier: MIT */

/* Entries that give locks back, and entries that report the end of a time. An
 * entry that names an instance (a wait, a delay, a hold with its token) is void
 * if that instance no longer exists, even if a later one is similar. */

#include "lockfsm/lock/lock.h"
#include "lockfsm/session/session.h"
#include "lockfsm/store/store.h"
#include "lockfsm/user/user.h"

/* Counts a hold down; true if there was one, with the remaining count. */
static bool release_one(struct lockfsm *fsm, const struct session *session,
                        struct bytes name, uint64_t token, uint64_t *ret_left)
{
    struct hold *hold = hold_find_meant(fsm, lock_find(fsm, name), session,
                                        token);
    if (hold == NULL) {
        return false;
    }
    *ret_left = hold->count - 1;
    if (hold->count > 1) {
        hold->count--;
        record_changed(fsm, &hold->stored);
    } else {
        hold_end(fsm, hold, "released", true);
    }
    return true;
}

void apply_release(struct lockfsm *fsm, const struct entry *command,
                   struct result *result)
{
    const struct release_command *message = command->release;
    if (message->name_count == 0 || message->name_count > MULTI_COUNT_MAX) {
        entry_refuse(result, RESULT_BAD_ARGUMENT, "number of names");
        return;
    }
    if (message->token_count != 0 &&
        message->token_count != message->name_count) {
        entry_refuse(result, RESULT_BAD_ARGUMENT, "number of tokens");
        return;
    }
    for (size_t i = 0; i < message->name_count; i++) {
        if (!name_is_valid(message->names[i])) {
            entry_refuse(result, RESULT_BAD_ARGUMENT, "name");
            return;
        }
    }
    struct session *session;
    if (!session_find_asking(fsm, &session, result)) {
        return;
    }
    uint64_t left = 0;
    uint64_t released = 0;
    for (size_t i = 0; i < message->name_count; i++) {
        uint64_t token = message->token_count > 0 ? message->tokens[i] : 0;
        /* All names were checked above: a bad one refuses the whole request. */
        released += release_one(fsm, session, message->names[i], token, &left);
    }
    if (message->name_count > 1 || message->is_counting) {
        result->count = released;
    } else if (released == 0) {
        result->code = RESULT_NOT_HELD;
    } else {
        result->count = left;
    }
}

/* The user whose holds may be released: the requester or, with the right to
 * take locks from others, any (NULL). */
static const struct user *release_whose(const struct lockfsm *fsm,
                                        const struct lock *lock)
{
    return lockfsm_may(fsm, fsm->entry.user, VERB_KICK, lock->name, EXTENT_NAME,
                       NULL)
               ? NULL
               : fsm->entry.user;
}

static bool release_sees(const struct lockfsm *fsm, const struct hold *hold)
{
    return hold->session->user == fsm->entry.user ||
           release_whose(fsm, hold->lock) == NULL;
}

void apply_release_if(struct lockfsm *fsm, const struct entry *command,
                      struct result *result)
{
    const struct release_if_command *message = command->release_if;
    struct bytes name = message->name;
    struct bytes owner = message->owner;
    if (is_wrong(result, !name_is_valid(name)          ? "name"
                         : owner.size > OWNER_SIZE_MAX ? "owner"
                         : owner.size == 0 && message->token == 0
                             ? "an empty owner needs a token"
                             : NULL)) {
        return;
    }
    struct lock *lock = lock_find(fsm, name);
    if (lock == NULL) {
        return;
    }
    bool has_many = false;
    struct hold *hold = message->session != 0
                            ? hold_find(fsm, lock, message->session, owner)
                            : claim_find(fsm, lock, release_whose(fsm, lock),
                                         owner, message->token, &has_many);
    if (has_many) {
        entry_refuse(result, RESULT_BAD_ARGUMENT,
                     "several holds have this owner: name the session");
        return;
    }
    if (hold == NULL || !release_sees(fsm, hold) ||
        (message->token != 0 && message->token != hold->token)) {
        return;
    }
    /* Releasing another user's hold is an act; in an open cluster there is only
     * one user. */
    trail_is_for_log(fsm, hold->session->user == fsm->entry.user &&
                              fsm->entry.user != &fsm->access.anyone);
    session_note_ended(fsm, hold, LOSS_RELEASE_IF);
    hold_end(fsm, hold, hold_loss_name(LOSS_RELEASE_IF), true);
    result->count = 1;
}

/* True, with the refusal, if there is no room for a note of that size. A note
 * counts for the user that leaves it, even if it replaces another user's. */
static bool note_is_over_limit(struct lockfsm *fsm, const struct lock *lock,
                               uint64_t size, struct result *result)
{
    bool is_own = lock->note_user == fsm->entry.user->number;
    uint64_t old = is_own ? left_bytes(lock->name, lock->note.size) : 0;
    uint64_t new = left_bytes(lock->name, size);
    struct quota more = {{[QUOTA_BYTES] = new > old ? new - old : 0}};
    if (size == 0) {
        return false;
    }
    return (size > lock->note.size &&
            growth_is_refused(fsm, 0, size - lock->note.size, result)) ||
           user_growth_is_refused(fsm, &more, result);
}

void apply_note(struct lockfsm *fsm, const struct entry *command,
                struct result *result)
{
    const struct note_command *message = command->note;
    struct session *session;
    if (text_is_wrong(message->name, message->text, "note", result) ||
        !session_find_asking(fsm, &session, result)) {
        return;
    }
    struct lock *lock = lock_find(fsm, message->name);
    struct hold *hold = hold_find_meant(fsm, lock, session, message->token);
    if (hold == NULL || message->token == 0) {
        result->code = RESULT_NOT_HELD;
        return;
    }
    if (note_is_over_limit(fsm, lock, message->text.size, result)) {
        return;
    }
    /* The old note is credited to its own author, which can be another user. */
    payers_count(fsm, &lock->stored, lock->name, user_gives);
    pool_drop(&fsm->pool, &lock->note);
    lock->note = pool_copy(&fsm->pool, message->text);
    lock->note_user = lock->note.size > 0 ? session->user_number : 0;
    payers_count(fsm, &lock->stored, lock->name, user_takes);
    record_changed(fsm, &lock->stored);
    (void)hold_object(fsm, hold, message->text);
}

void apply_please(struct lockfsm *fsm, const struct entry *command,
                  struct result *result)
{
    const struct please_command *message = command->please;
    struct bytes name = message->name;
    if (text_is_wrong(name, message->message, "message", result)) {
        return;
    }
    struct lock *lock = lock_find(fsm, name);
    if (lock == NULL) {
        return;
    }
    struct bytes copy = effect_copy(fsm, lock->name);
    struct bytes text = effect_copy(fsm, message->message);
    LIST_FOR (const struct hold, hold, &lock->holds, in_lock) {
        if (result->count == PLEASE_COUNT_MAX) {
            return; /* Keeps entries small. */
        }
        struct bytes owner = effect_copy(fsm, hold->owner);
        struct effect *effect = effect_add(fsm, EFFECT_PLEASE);
        effect->session = hold->session->id;
        effect->lock = copy;
        effect->owner = owner;
        effect->token = hold->token;
        effect->text = text;
        result->count++;
    }
}

void apply_wait_timeout(struct lockfsm *fsm, const struct entry *command,
                        struct result *result)
{
    const struct wait_timeout_command *message = command->wait_timeout;
    struct wait *wait = request_find(fsm, message->wait_index, message->session,
                                     message->owner);
    if (wait == NULL || (message->asked_index != 0 &&
                         message->asked_index != wait->asked_index)) {
        return;
    }
    struct result nothing = {.code = RESULT_NOT_ACQUIRED};
    wait_end(fsm, wait, "timeout", &nothing);
    result->count = 1;
}

void apply_delay_over(struct lockfsm *fsm, const struct entry *command,
                      struct result *result)
{
    const struct delay_over_command *message = command->delay_over;
    struct lock *lock = lock_find(fsm, message->name);
    if (lock == NULL || lock->delay_ms == 0 ||
        lock->delay_index != message->since_index) {
        return;
    }
    lock_delay_drop(fsm, lock);
    struct effect *effect = effect_add(fsm, EFFECT_DELAY_OVER);
    effect->lock = effect_copy(fsm, lock->name);
    effect->wait_index = message->since_index;
    lock_touch(fsm, lock);
    result->count = 1;
}

void apply_hold_over(struct lockfsm *fsm, const struct entry *command,
                     struct result *result)
{
    const struct hold_over_command *message = command->hold_over;
    struct hold *hold = hold_find(fsm, lock_find(fsm, message->name),
                                  message->session, message->owner);
    if (hold == NULL || hold->token != message->token) {
        return;
    }
    session_note_ended(fsm, hold, LOSS_MAX_HOLD);
    hold_end(fsm, hold, hold_loss_name(LOSS_MAX_HOLD), false);
    result->count = 1;
}
