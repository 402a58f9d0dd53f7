/* SPDX-License-Identifier: MIT */

/* How an operator takes a hold that has no lease: the break is announced, the
 * holder can object, and the hold is taken when a time has passed without an
 * objection.
 *
 * Only holds of durable sessions are broken. A lease ends by itself when its
 * client is dead. If the client lives, it believes in its hold until its lease
 * has run out; the blacklist waits for that, a break would not. */

#include "lockfsm/lock/lock.h"
#include "lockfsm/session/session.h"
#include "lockfsm/store/records.h"
#include "lockfsm/store/store.h"

#include <inttypes.h>

const char *hold_loss_name(enum hold_loss loss)
{
    static const char *const names[] = {[LOSS_RELEASE_IF] = "releaseif",
                                        [LOSS_MAX_HOLD] = "max hold",
                                        [LOSS_BREAK] = "broken"};
    CHECK((size_t)loss < sizeof names / sizeof names[0]);
    return names[loss];
}

void hold_break_drop(struct lockfsm *fsm, struct hold *hold)
{
    if (hold->break_count > 0) {
        members_drop(&fsm->pool, hold_break_message(), hold->breaks);
        pool_give(&fsm->pool, hold->breaks, sizeof *hold->breaks);
        hold->breaks = NULL;
        hold->break_count = 0;
    }
}

static const char *
breaks_what_is_wrong(const struct break_holds_command *message)
{
    if (!name_is_valid(message->name)) {
        return "name";
    }
    if (message->after_ms == 0 || message->after_ms > TIME_MS_MAX) {
        return "time";
    }
    if (message->reason.size > VALUE_SIZE_MAX) {
        return "reason";
    }
    return message->by.size > CLIENT_NAME_SIZE_MAX ? "by" : NULL;
}

static bool is_meant(const struct hold *hold,
                     const struct break_holds_command *message)
{
    return hold->session->is_durable && hold->session->end == SESSION_LIVES &&
           (message->session == 0 || message->session == hold->session->id);
}

/* The author of a break. BY is only the client's own claim, so an authenticated
 * user's name replaces it. */
static struct bytes breaks_who(const struct lockfsm *fsm, struct bytes by)
{
    /* Every break has a user; the leader proposes none on its own. */
    CHECK(fsm->entry.user != NULL);
    bool is_proved = fsm->entry.user->number > USER_LOCAL;
    return by.size > 0 && !is_proved ? by : fsm->entry.user->name;
}

static void breaks_announce(struct lockfsm *fsm, struct hold *hold,
                            const struct break_holds_command *message)
{
    CHECK(hold->session->is_durable); /* A lease ends by itself. */
    hold_break_drop(fsm, hold);
    hold->breaks = pool_take(&fsm->pool, sizeof *hold->breaks);
    hold->break_count = 1;
    *hold->breaks = (struct hold_break){
        .since_index = fsm->entry.log_index,
        .after_ms = message->after_ms,
        .clock_ms = span_clock(fsm, message->after_ms),
        .by = pool_copy(&fsm->pool, breaks_who(fsm, message->by)),
        .reason = pool_copy(&fsm->pool, message->reason)};
    record_changed(fsm, &hold->stored);
    struct bytes text = effect_copy(fsm, message->reason);
    struct effect *effect = effect_add_at(fsm, EFFECT_BREAKING, hold->lock,
                                          hold->session, hold->owner);
    effect->token = hold->token;
    effect->time_ms = message->after_ms;
    effect->text = text;
}

/* The holds to break, in the order of their grants. */
struct meant {
    struct hold *holds[BREAK_LOOK_MAX];
    uint32_t count;
};

/* Finds them among the holds of the lock or of the named session, whichever are
 * fewer; false if those are too many. */
static bool find_meant(struct lockfsm *fsm, struct lock *lock,
                       const struct break_holds_command *message,
                       struct meant *ret_meant)
{
    struct session *session = session_find(fsm, message->session);
    bool is_by_session = session != NULL &&
                         session->hold_count < lock->hold_count;
    uint32_t count = is_by_session ? session->hold_count : lock->hold_count;
    ret_meant->count = 0;
    if (count > BREAK_LOOK_MAX) {
        return false;
    }
    /* The work of an entry is bounded and counted, since every node does it
     * while all its clients wait. */
    fsm->entry.steps += count;
    LIST_EACH (node, is_by_session ? &session->holds : &lock->holds) {
        struct hold *hold = is_by_session
                                ? LIST_ENTRY(node, struct hold, in_session)
                                : LIST_ENTRY(node, struct hold, in_lock);
        if (hold->lock == lock && is_meant(hold, message)) {
            ret_meant->holds[ret_meant->count++] = hold;
        }
    }
    return true;
}

void apply_break_holds(struct lockfsm *fsm, const struct entry *command,
                       struct result *result)
{
    const struct break_holds_command *message = command->break_holds;
    struct meant meant;
    if (is_wrong(result, breaks_what_is_wrong(message))) {
        return;
    }
    struct lock *lock = lock_find(fsm, message->name);
    if (lock == NULL || lock->hold_count == 0) {
        return;
    }
    if (!find_meant(fsm, lock, message, &meant)) {
        refuse_because(fsm, result, RESULT_BAD_ARGUMENT,
                       "the lock has %" PRIu32 " holds, and one BREAK checks "
                       "at most %d: name a session with fewer, or blacklist it",
                       lock->hold_count, BREAK_LOOK_MAX);
        return;
    }
    if (meant.count == 0) {
        entry_refuse(result, RESULT_BAD_ARGUMENT,
                     "no such hold is durable: a lease ends by itself, and a "
                     "blacklisted client's is not renewed");
        return;
    }
    uint64_t text = breaks_who(fsm, message->by).size + message->reason.size;
    /* Checked for all holds before any is announced: the entry does all or
     * nothing. */
    if (growth_is_refused(fsm, 0, meant.count * text, result)) {
        return;
    }
    for (uint32_t i = 0; i < meant.count; i++) {
        breaks_announce(fsm, meant.holds[i], message);
    }
    result->count = meant.count;
}

bool hold_object(struct lockfsm *fsm, struct hold *hold, struct bytes message)
{
    if (hold->break_count == 0) {
        return false;
    }
    hold_break_drop(fsm, hold);
    record_changed(fsm, &hold->stored);
    struct bytes text = effect_copy(fsm, message);
    struct effect *effect = effect_add_at(fsm, EFFECT_OBJECTED, hold->lock,
                                          hold->session, hold->owner);
    effect->token = hold->token;
    effect->text = text;
    return true;
}

void apply_object(struct lockfsm *fsm, const struct entry *command,
                  struct result *result)
{
    const struct object_command *message = command->object;
    struct session *session;
    if (text_is_wrong(message->name, message->message, "message", result) ||
        !session_find_asking(fsm, &session, result)) {
        return;
    }
    struct hold *hold = hold_find_meant(fsm, lock_find(fsm, message->name),
                                        session, message->token);
    if (hold == NULL) {
        result->code = RESULT_NOT_HELD;
        return;
    }
    result->count = hold_object(fsm, hold, message->message) ? 1 : 0;
}

void apply_break_over(struct lockfsm *fsm, const struct entry *command,
                      struct result *result)
{
    const struct break_over_command *message = command->break_over;
    struct hold *hold = hold_find(fsm, lock_find(fsm, message->name),
                                  message->session, message->owner);
    if (hold == NULL || hold->break_count == 0 ||
        hold->breaks->since_index != message->since_index) {
        return;
    }
    session_note_ended(fsm, hold, LOSS_BREAK);
    hold_end(fsm, hold, hold_loss_name(LOSS_BREAK), false);
    result->count = 1;
}
