/* SPDX-License-Identifier: MIT */

/* Sessions as structures: created, found, freed, and the notices of holds that
 * were taken from a live session. session_lifecycle.c begins and ends them. */

#include <stdlib.h>

#include "base/memory.h"
#include "base/sorted.h"
#include "lockfsm/lock/lock.h"
#include "lockfsm/session/session.h"
#include "lockfsm/store/records.h"
#include "lockfsm/store/store.h"
#include "lockfsm/user/user.h"

const char *session_end_name(enum session_end end)
{
    switch (end) {
    case SESSION_CLOSED:
        return "closed";
    case SESSION_EXPIRED:
        return "expired";
    case SESSION_BLACKLISTED:
        return "blacklisted";
    case SESSION_DIED:
        return "died";
    case SESSION_DELETED:
        return "deleted";
    case SESSION_RELEASED:
        return "released";
    case SESSION_LIVES:
        break;
    }
    UNREACHABLE();
}

bool session_end_is_clean(enum session_end end)
{
    return end != SESSION_EXPIRED && end != SESSION_BLACKLISTED &&
           end != SESSION_DIED;
}

struct session *session_new(struct lockfsm *fsm, uint64_t id)
{
    CHECK(id != 0);
    struct session *session = pool_take(&fsm->pool, sizeof *session);
    session->id = id;
    list_init(&session->in_durable);
    list_init(&session->in_swept);
    list_init(&session->in_recheck);
    list_init(&session->holds);
    list_init(&session->waits);
    list_init(&session->ended);
    list_init(&session->waiters);
    stored_init(&session->stored, RECORD_SESSION);
    HASH_ADD(by_id, fsm->sessions, id, sizeof session->id, session);
    return session;
}

void session_belongs(struct lockfsm *fsm, struct session *session,
                     struct user *user)
{
    CHECK(user != NULL && session->user == NULL);
    session->user = user;
    session->user_number = user->number;
    user_takes(user, QUOTA_SESSIONS, 1);
    if (session->end != SESSION_LIVES) {
        return; /* An ended session is not listed. */
    }
    treap_add(&fsm->session_order, &session->in_order, session->name,
              session->id);
    treap_add(&user->sessions, &session->in_user, session->name, session->id);
}

void session_set_recheck(struct lockfsm *fsm, struct session *session,
                         bool is_left)
{
    bool was_left = session->recheck_serial != 0;
    if (is_left && !was_left) {
        session->recheck_serial = ++fsm->next_serial;
        list_push_back(&fsm->left.to_recheck, &session->in_recheck);
    } else if (!is_left) {
        session->recheck_serial = 0;
        list_remove(&session->in_recheck);
    }
    if (is_left || was_left) {
        session_recheck_from(
            fsm, session,
            is_left ? LIST_FIRST(&session->waits, struct wait, in_session)
                    : NULL);
    }
}

void session_recheck_from(struct lockfsm *fsm, struct session *session,
                          struct wait *wait)
{
    session->recheck_at = wait;
    session->recheck_from = wait != NULL ? wait->serial : 0;
    record_changed(fsm, &session->stored);
}

void session_pass(struct lockfsm *fsm, const struct session *session,
                  bool is_going)
{
    if (fsm->relist.at != session->id) {
        return;
    }
    const struct session *next = session->by_id.next;
    if (next == NULL && fsm->relist.again != 0) {
        fsm->relist.since = fsm->relist.again;
        fsm->relist.again = 0;
        next = is_going && fsm->sessions == session ? NULL : fsm->sessions;
    }
    fsm->relist.at = next != NULL ? next->id : 0;
    if (next == NULL) {
        fsm->relist.since = 0;
    }
}

void session_leave(struct lockfsm *fsm, struct session *session)
{
    CHECK(session->end != SESSION_LIVES && list_is_empty(&session->in_swept));
    session_pass(fsm, session, true);
    HASH_DELETE(by_id, fsm->sessions, session);
    HASH_ADD(by_id, fsm->left.swept, id, sizeof session->id, session);
    treap_remove(&fsm->session_order, &session->in_order);
    treap_remove(&session->user->sessions, &session->in_user);
    list_remove(&session->in_durable);
    session_set_recheck(fsm, session, false);
    list_push_back(&fsm->left.to_sweep, &session->in_swept);
    session->blacklist_index = 0;
    session->end_serial = ++fsm->next_serial;
    record_changed(fsm, &session->stored);
}

uint64_t session_sweep_serial(const struct session *session)
{
    return session->end != SESSION_LIVES ? session->end_serial
                                         : session->recheck_serial;
}

void session_link_swept(struct lockfsm *fsm, struct session *session)
{
    if (session->end == SESSION_LIVES) {
        list_push_back(&fsm->left.to_recheck, &session->in_recheck);
        return;
    }
    HASH_DELETE(by_id, fsm->sessions, session);
    HASH_ADD(by_id, fsm->left.swept, id, sizeof session->id, session);
    list_push_back(&fsm->left.to_sweep, &session->in_swept);
}

void session_array_add(struct session_array *array, struct session *session)
{
    ROOM(array->session, array->capacity, (uint64_t)array->count + 1);
    array->session[array->count++] = session;
}

void session_array_sort(struct session_array *array)
{
    struct sorted sorted = {0};
    for (uint32_t i = 0; i < array->count; i++) {
        sorted_add(&sorted, array->session[i]->id, array->session[i]);
    }
    sorted_sort(&sorted);
    for (uint32_t i = 0; i < array->count; i++) {
        array->session[i] = sorted.at[i].item;
    }
    sorted_done(&sorted);
}

void session_set_durable(struct lockfsm *fsm, struct session *session,
                         bool is_durable, uint64_t wall_ms)
{
    CHECK(is_durable == (session->ttl_ms == 0));
    CHECK(!is_durable || (session->linger_ms == 0 && session->mark_index == 0));
    if (session->is_durable == is_durable) {
        return;
    }
    LIST_FOR (const struct hold, hold, &session->holds, in_session) {
        /* The register of former tokens counts by the old kind of session here,
         * by the new one below. */
        former_gives(fsm, hold);
    }
    session->is_durable = is_durable;
    LIST_FOR (const struct hold, hold, &session->holds, in_session) {
        former_takes(fsm, hold);
    }
    session->opened_ms = is_durable ? wall_ms : 0;
    if (is_durable) {
        list_push_back(&fsm->durable, &session->in_durable);
    } else {
        list_remove(&session->in_durable);
    }
}

struct label *session_labels_new(struct lockfsm *fsm, struct session *session,
                                 uint32_t count)
{
    if (count > 0) {
        session->labels = pool_take(&fsm->pool, count * sizeof(struct label));
        session->label_count = count;
    }
    return session->labels;
}

static void free_ended(struct lockfsm *fsm, struct session *session,
                       struct ended_hold *ended)
{
    list_remove(&ended->in_session);
    session->ended_count--;
    user_gives(session->user, QUOTA_BYTES,
               members_size(ended_hold_message(), ended));
    members_drop(&fsm->pool, ended_hold_message(), ended);
    pool_give(&fsm->pool, ended, sizeof *ended);
}

static void free_first_ended(struct lockfsm *fsm, struct session *session)
{
    free_ended(fsm, session,
               LIST_FIRST(&session->ended, struct ended_hold, in_session));
}

void session_free(struct lockfsm *fsm, struct session *session)
{
    CHECK(session->hold_count == 0);
    CHECK(session->wait_count == 0);
    CHECK(list_is_empty(&session->waiters));
    /* Otherwise the end of this entry would end it again. */
    if (fsm->settle.emptied == session) {
        fsm->settle.emptied = NULL;
    }
    if (session->numbers != NULL) {
        request_ids_free(fsm, session->numbers);
    }
    while (!list_is_empty(&session->ended)) {
        free_first_ended(fsm, session);
    }
    user_gives(session->user, QUOTA_BYTES, session_bytes(session));
    user_gives(session->user, QUOTA_SESSIONS, 1);
    record_gone(fsm, &session->stored);
    list_remove(&session->in_recheck);
    if (list_is_empty(&session->in_swept)) {
        list_remove(&session->in_durable);
        treap_remove(&fsm->session_order, &session->in_order);
        treap_remove(&session->user->sessions, &session->in_user);
        session_pass(fsm, session, true);
        HASH_DELETE(by_id, fsm->sessions, session);
    } else {
        list_remove(&session->in_swept);
        HASH_DELETE(by_id, fsm->left.swept, session);
    }
    structure_free(fsm, &session->stored);
}

static struct ended_hold *ended_hold_add(struct lockfsm *fsm,
                                         struct session *session)
{
    struct ended_hold *ended = pool_take(&fsm->pool, sizeof *ended);
    list_push_back(&session->ended, &ended->in_session);
    session->ended_count++;
    return ended;
}

void session_note_ended(struct lockfsm *fsm, const struct hold *hold,
                        enum hold_loss loss)
{
    struct session *session = hold->session;
    if (session->end != SESSION_LIVES) {
        return; /* No client asks for it any longer. */
    }
    struct ended_hold *ended = ended_hold_add(fsm, session);
    ended->lock = pool_copy(&fsm->pool, hold->lock->name);
    ended->owner = pool_copy(&fsm->pool, hold->owner);
    ended->token = hold->token;
    ended->first_token = hold->first_token;
    ended->number = new_token(fsm);
    ended->loss = loss;
    user_takes(session->user, QUOTA_BYTES,
               ended->lock.size + ended->owner.size);
    if (session->ended_count > ENDED_COUNT_MAX) {
        /* A client that has not seen this notice then asks what it holds. */
        session->dropped_number = LIST_FIRST(&session->ended, struct ended_hold,
                                             in_session)
                                      ->number;
        free_first_ended(fsm, session);
    }
    CHECK(session->ended_count <= ENDED_COUNT_MAX);
    record_changed(fsm, &session->stored);
}

void session_drop_notices(struct lockfsm *fsm, struct session *session)
{
    while (!list_is_empty(&session->ended)) {
        free_first_ended(fsm, session);
    }
    session->dropped_number = new_token(fsm);
    record_changed(fsm, &session->stored);
}

void session_tell_changed(struct lockfsm *fsm, const struct session *session,
                          const char *reason, struct bytes text)
{
    struct effect *effect = effect_add(fsm, EFFECT_SESSION_CHANGED);
    effect->session = session->id;
    effect->time_ms = session->ttl_ms;
    effect->reason = reason;
    effect->text = text;
}

struct session *session_find(const struct lockfsm *fsm, uint64_t id)
{
    struct session *session = NULL;
    HASH_FIND(by_id, fsm->sessions, &id, sizeof id, session);
    return session;
}

struct session *session_find_any(const struct lockfsm *fsm, uint64_t id)
{
    struct session *session = session_find(fsm, id);
    if (session == NULL) {
        HASH_FIND(by_id, fsm->left.swept, &id, sizeof id, session);
    }
    return session;
}

enum result_code session_lost_code(const struct lockfsm *fsm, uint64_t id)
{
    return id > fsm->epoch.token_base && id <= new_token(fsm)
               ? RESULT_EXPIRED
               : RESULT_NO_SESSION;
}

bool session_find_asking(struct lockfsm *fsm, struct session **ret_session,
                         struct result *result)
{
    struct session *session = session_find(fsm, fsm->entry.origin.session);
    if (session == NULL) {
        result->code = session_lost_code(fsm, fsm->entry.origin.session);
        return false;
    }
    if (fsm->entry.origin.owner.size > OWNER_SIZE_MAX) {
        entry_refuse(result, RESULT_BAD_ARGUMENT, "owner");
        return false;
    }
    *ret_session = session;
    return true;
}

bool session_is_value(const struct session *session, struct result *result)
{
    if (session->is_redis) {
        entry_refuse(result, RESULT_BAD_ARGUMENT, "a session of a Redis value");
    }
    return session->is_redis;
}
