/* SPDX-License-Identifier: MIT */

/* Keys of Redis. The leader decides a client's command or script and puts the
 * state that it found at each key, and the change of each, into the entry.
 * Applying compares the states and makes all changes, or none.
 *
 * The keys that one entry sets belong to a session of their own, whose lease is
 * the value's time to live, or which is durable if the value has none. The
 * session holds these locks exclusively, stores the values with the holds, and
 * ends with the last of them. */

#include "base/minmax.h"
#include "lockfsm/lock/lock.h"
#include "lockfsm/session/session.h"
#include "lockfsm/user/user.h"

enum redis_state lockfsm_redis(const struct lockfsm *fsm,
                               const struct user *user, struct bytes name,
                               const struct hold **ret_hold)
{
    const struct lock *lock = lock_find(fsm, name);
    *ret_hold = NULL;
    if (lock != NULL && lock->hold_count == 1) {
        struct hold *hold = LIST_FIRST(&lock->holds, struct hold, in_lock);
        bool is_his = hold->session->is_redis && hold->session->user == user;
        *ret_hold = is_his ? hold : NULL;
    }
    if (*ret_hold != NULL) {
        return REDIS_VALUE;
    }
    return lock_is_free(fsm, lock, LOCK_EXCLUSIVE, 0) ? REDIS_FREE
                                                      : REDIS_OTHER;
}

uint64_t lockfsm_redis_time(const struct lockfsm *fsm)
{
    return fsm->redis_time_ms;
}

static struct hold *find_value(struct lockfsm *fsm, struct bytes name)
{
    const struct hold *hold;
    (void)lockfsm_redis(fsm, fsm->entry.user, name, &hold);
    return (struct hold *)hold;
}

static bool redis_is_taken(const struct redis_key *key)
{
    return key->change == REDIS_SET && key->was == REDIS_FREE;
}

/* False for a change that no leader proposes. */
static bool is_sound(const struct redis_key *key)
{
    bool has_no_ttl = key->ttl_ms == 0 && key->px_ms == 0;
    bool has_ttl = !key->is_durable && key->ttl_ms > 0 &&
                   key->ttl_ms <= SESSION_TTL_MS_MAX && key->px_ms > 0 &&
                   key->px_ms <= TIME_MS_MAX;
    if (key->keeps_grant &&
        (key->change != REDIS_SET || key->was != REDIS_VALUE)) {
        return false;
    }
    switch (key->change) {
    case REDIS_KEEP:
        return key->was <= REDIS_OTHER && has_no_ttl && !key->is_durable;
    case REDIS_SET:
        return ((key->was == REDIS_FREE &&
                 (has_ttl || (has_no_ttl && key->is_durable))) ||
                (key->was == REDIS_VALUE && (has_ttl || has_no_ttl))) &&
               key->new_value.size <= VALUE_SIZE_MAX;
    case REDIS_RENEW:
        return key->was == REDIS_VALUE &&
               (has_ttl || (has_no_ttl && key->is_durable));
    case REDIS_DELETE:
        return key->was == REDIS_VALUE && has_no_ttl && !key->is_durable;
    }
    return false;
}

/* True if the keys are still in the states that the decision assumed; false
 * with the refusal. */
static bool check_keys(struct lockfsm *fsm, const struct redis_command *message,
                       struct result *result)
{
    if (message->key_count == 0 || message->key_count > MULTI_COUNT_MAX ||
        message->message_count > REDIS_MESSAGES_MAX) {
        entry_refuse(result, RESULT_BAD_ARGUMENT, "keys");
        return false;
    }
    for (uint32_t i = 0; i < message->key_count; i++) {
        const struct redis_key *key = &message->keys[i];
        /* Entries come from a leader, but a damaged or foreign one must be
         * refused alike by all nodes. */
        bool is_good = name_is_valid(key->name) && is_sound(key);
        for (uint32_t j = 0; j < i; j++) {
            is_good &= !bytes_equal(message->keys[j].name, key->name);
        }
        if (!is_good) {
            entry_refuse(result, RESULT_BAD_ARGUMENT, "key");
            return false;
        }
        if (ttl_is_over_limit(fsm, key->px_ms, result)) {
            return false;
        }
    }
    return true;
}

static bool are_as_found(struct lockfsm *fsm,
                         const struct redis_command *message)
{
    for (uint32_t i = 0; i < message->key_count; i++) {
        const struct redis_key *key = &message->keys[i];
        const struct hold *hold;
        if (lockfsm_redis(fsm, fsm->entry.user, key->name, &hold) != key->was ||
            (hold != NULL && !bytes_equal(hold->value, key->value))) {
            return false;
        }
    }
    return true;
}

/* How many bytes the new value is larger than the one it replaces, if any. */
static uint64_t bytes_of_set(const struct redis_key *key,
                             const struct hold *hold)
{
    struct bytes none = {NULL, 0};
    uint64_t old = hold != NULL ? place_bytes(key->name, none, hold->value) : 0;
    uint64_t new = place_bytes(key->name, none, key->new_value);
    return new > old ? new - old : 0;
}

/* True, with the refusal, if a session to be renewed is blacklisted, or a limit
 * leaves no room for a value. */
static bool is_refused(struct lockfsm *fsm, const struct redis_command *message,
                       struct result *result)
{
    uint64_t locks = 0; /* New locks. */
    uint64_t records = 0;
    uint64_t text = message->client.size + message->address.size;
    struct quota more = {{0}};
    for (uint32_t i = 0; i < message->key_count; i++) {
        const struct redis_key *key = &message->keys[i];
        struct hold *hold = find_value(fsm, key->name);
        if ((key->change == REDIS_SET || key->change == REDIS_RENEW) &&
            hold != NULL && blacklist_refuses(fsm, hold->session, result)) {
            return true;
        }
        if (key->change == REDIS_SET) {
            locks += lock_find(fsm, key->name) == NULL;
            records += 3;
            text += key->name.size + key->new_value.size;
            more.of[QUOTA_HOLDS] += redis_is_taken(key);
            more.of[QUOTA_BYTES] += bytes_of_set(key, hold);
        }
    }
    if (records == 0) {
        return false;
    }
    if (locks > 0 &&
        HASH_CNT(by_name, fsm->locks) + locks > fsm->limits.of[LIMIT_LOCKS]) {
        entry_refuse(result, RESULT_LIMIT, "locks");
        return true;
    }
    /* The new values get a session of their own: see session_open(). */
    return growth_is_refused(fsm, records, text, result) ||
           user_growth_is_refused(fsm, &more, result);
}

/* Opens the session for the keys that are set. Its lease is the longest one
 * requested; it is durable if one of the keys is. NULL if no key is set, or it
 * is refused. */
static struct session *open_for(struct lockfsm *fsm,
                                const struct redis_command *message,
                                struct result *result)
{
    struct session_terms terms = {.name = message->client,
                                  .address = message->address,
                                  .wall_ms = message->wall_ms};
    uint32_t count = 0;
    for (uint32_t i = 0; i < message->key_count; i++) {
        const struct redis_key *key = &message->keys[i];
        if (!redis_is_taken(key)) {
            continue;
        }
        count++;
        terms.is_durable |= key->is_durable;
        if (key->px_ms > terms.asked_ms) {
            terms.asked_ms = key->px_ms;
            terms.ttl_ms = key->ttl_ms;
        }
    }
    if (count > fsm->limits.of[LIMIT_HOLDS_PER_SESSION]) {
        entry_refuse(result, RESULT_LIMIT, "holds_per_session");
        return NULL;
    }
    if (count == 0) {
        return NULL;
    }
    /* One session holds all keys of the entry, so one durable key makes it
     * durable (rule 18). */
    if (terms.is_durable) {
        terms.asked_ms = 0;
        terms.ttl_ms = 0;
    }
    struct session *session = session_open(fsm, &terms, result);
    if (session != NULL) {
        session->is_redis = true;
        session->px_ms = terms.asked_ms;
    }
    return session;
}

static bool is_longer(const struct redis_key *key,
                      const struct session *session)
{
    return !session->is_durable &&
           (key->is_durable || key->ttl_ms > session->ttl_ms);
}

/* Renews the session: each success is a heartbeat in the log, which removes a
 * mark. If the session has several keys, its lease is only prolonged, so none
 * gets less than it was promised. */
static void redis_renew(struct lockfsm *fsm, struct session *session,
                        const struct redis_key *key, uint64_t wall_ms)
{
    session_heard(fsm, session);
    if (session->hold_count == 1 || is_longer(key, session)) {
        session->ttl_ms = key->ttl_ms;
        session->px_ms = key->px_ms;
        session_set_durable(fsm, session, key->is_durable, wall_ms);
    }
    session_tell_changed(fsm, session, "renewed", (struct bytes){NULL, 0});
}

static void delete_key(struct lockfsm *fsm, struct hold *hold)
{
    if (hold->session->hold_count == 1) {
        session_end(fsm, hold->session, SESSION_DELETED);
    } else {
        hold_end(fsm, hold, "deleted", true);
    }
}

static void redis_change_value(struct lockfsm *fsm, const struct redis_key *key,
                               struct session *session, uint64_t wall_ms)
{
    struct hold *hold = find_value(fsm, key->name);
    if (redis_is_taken(key)) {
        CHECK(session != NULL && hold == NULL);
        struct hold_terms terms = {.value = key->new_value,
                                   .mode = LOCK_EXCLUSIVE};
        hold_grant(fsm, lock_obtain(fsm, key->name), session, &terms, 0);
        return;
    }
    /* check_keys() has found the value. */
    CHECK(hold != NULL || key->change == REDIS_KEEP);
    if (key->change == REDIS_DELETE) {
        delete_key(fsm, hold);
        return;
    }
    if (key->change == REDIS_KEEP) {
        return;
    }
    (void)hold_object(fsm, hold, (struct bytes){NULL, 0});
    if (key->change == REDIS_SET && key->keeps_grant) {
        hold_edit(fsm, hold, key->new_value);
    } else if (key->change == REDIS_SET &&
               !bytes_equal(hold->value, key->new_value)) {
        hold_replace(fsm, hold, key->new_value);
    }
    if (key->ttl_ms > 0 || key->is_durable) {
        redis_renew(fsm, hold->session, key, wall_ms);
    }
}

static void redis_tell(struct lockfsm *fsm, const struct redis_command *message)
{
    /* Messages always have a user; the leader sends none of its own. */
    CHECK(fsm->entry.user != NULL);
    for (uint32_t i = 0; i < message->message_count; i++) {
        struct effect *effect = effect_add(fsm, EFFECT_MESSAGE);
        effect->count = fsm->entry.user->number;
        effect->lock = effect_copy(fsm, message->messages[i].channel);
        effect->text = effect_copy(fsm, message->messages[i].text);
    }
}

void apply_redis(struct lockfsm *fsm, const struct entry *command,
                 struct result *result)
{
    const struct redis_command *message = command->redis;
    if (!check_keys(fsm, message, result) || !are_as_found(fsm, message) ||
        is_refused(fsm, message, result)) {
        return;
    }
    struct session *session = open_for(fsm, message, result);
    if (result->code != RESULT_OK) {
        return;
    }
    for (uint32_t i = 0; i < message->key_count; i++) {
        redis_change_value(fsm, &message->keys[i], session, message->wall_ms);
    }
    redis_tell(fsm, message);
    fsm->redis_time_ms = u64_max(fsm->redis_time_ms, message->time_ms);
    result->count = 1;
}
