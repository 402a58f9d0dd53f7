/* SPDX-License-Identifier: MIT */

/* Values of Redis lock clients: SET k v NX PX, compare and delete, compare and
 * expire. Each (key, value) is a session of its own whose lease is the value's
 * time to live; it holds the lock exclusively, the value stored with the hold,
 * and ends with it. */

#include "lockfsm/state.h"

/* The hold of the asking user's Redis value under this name, or NULL. */
static struct hold *find_value(const struct lockfsm *fsm,
                               const struct lock *lock)
{
    if (lock == NULL || lock->hold_count != 1) {
        return NULL;
    }
    struct hold *hold = LIST_FIRST(&lock->holds, struct hold, in_lock);
    return hold->session->is_redis && hold->session->user == fsm->user ? hold
                                                                       : NULL;
}

/* Each success is a heartbeat that stands in the log: it ends a mark. */
static void renew(struct lockfsm *fsm, struct session *session, uint32_t ttl_ms,
                  uint64_t px_ms)
{
    session->ttl_ms = ttl_ms;
    session->px_ms = px_ms;
    session_heard(fsm, session);
    session_tell_changed(fsm, session, "renewed", (struct bytes){NULL, 0});
}

static bool ttl_is_valid(uint32_t ttl_ms, uint64_t px_ms)
{
    return ttl_ms > 0 && ttl_ms <= SESSION_TTL_MS_MAX && px_ms > 0 &&
           px_ms <= TIME_MS_MAX;
}

static void set_new(struct lockfsm *fsm,
                    const struct redis_set_command *message, struct lock *lock,
                    struct result *result)
{
    if (lock == NULL &&
        HASH_CNT(by_name, fsm->locks) >= fsm->limits.of[LIMIT_LOCKS]) {
        refuse(result, RESULT_LIMIT, "locks");
        return;
    }
    struct session_terms terms = {.ttl_ms = message->ttl_ms,
                                  .asked_ms = message->px_ms,
                                  .name = message->client,
                                  .address = message->address};
    if (growth_is_refused(fsm, 3,
                          message->name.size + message->value.size +
                              message->client.size + message->address.size,
                          result)) {
        return;
    }
    struct session *session = session_open(fsm, &terms, result);
    if (session == NULL) {
        return;
    }
    session->is_redis = true;
    session->px_ms = message->px_ms;
    struct hold_terms hold = {.value = message->value, .mode = LOCK_EXCLUSIVE};
    hold_grant(fsm, lock_obtain(fsm, message->name), session, &hold, 0);
}

void apply_redis_set(struct lockfsm *fsm, const struct entry *command,
                     struct result *result)
{
    const struct redis_set_command *message = command->redis_set;
    struct bytes name = message->name;
    if (!name_is_valid(name)) {
        refuse(result, RESULT_BAD_ARGUMENT, "name");
        return;
    }
    if (message->value.size > VALUE_SIZE_MAX) {
        refuse(result, RESULT_BAD_ARGUMENT, "value");
        return;
    }
    if (!ttl_is_valid(message->ttl_ms, message->px_ms)) {
        refuse(result, RESULT_BAD_ARGUMENT, "ttl");
        return;
    }
    if (ttl_is_over_limit(fsm, message->px_ms, result)) {
        return;
    }
    struct lock *lock = lock_find(fsm, name);
    struct hold *hold = find_value(fsm, lock);
    if (hold != NULL && !message->is_fresh &&
        bytes_equal(hold->value, message->value)) {
        if (!blacklist_refuses(fsm, hold->session, result)) {
            renew(fsm, hold->session, message->ttl_ms, message->px_ms);
            result->token = hold->token;
        }
        return;
    }
    if (!lock_is_free(fsm, lock, LOCK_EXCLUSIVE, 0)) {
        result->code = RESULT_NOT_ACQUIRED;
        return;
    }
    set_new(fsm, message, lock, result);
}

void apply_redis_delete(struct lockfsm *fsm, const struct entry *command,
                        struct result *result)
{
    const struct redis_delete_command *message = command->redis_delete;
    struct lock *lock = lock_find(fsm, message->name);
    struct hold *hold = find_value(fsm, lock);
    if (lock == NULL || lock->hold_count == 0) {
        result->code = RESULT_NOT_HELD;
        return;
    }
    if (hold != NULL && bytes_equal(hold->value, message->value)) {
        session_end(fsm, hold->session, "deleted", true);
        result->count = 1;
    }
}

void apply_redis_expire(struct lockfsm *fsm, const struct entry *command,
                        struct result *result)
{
    const struct redis_expire_command *message = command->redis_expire;
    if (!ttl_is_valid(message->ttl_ms, message->px_ms)) {
        refuse(result, RESULT_BAD_ARGUMENT, "ttl");
        return;
    }
    if (ttl_is_over_limit(fsm, message->px_ms, result)) {
        return;
    }
    struct lock *lock = lock_find(fsm, message->name);
    struct hold *hold = find_value(fsm, lock);
    if (lock == NULL || lock->hold_count == 0) {
        result->code = RESULT_NOT_HELD;
        return;
    }
    if (hold == NULL ||
        (!message->any_value && !bytes_equal(hold->value, message->value)) ||
        blacklist_refuses(fsm, hold->session, result)) {
        return;
    }
    renew(fsm, hold->session, message->ttl_ms, message->px_ms);
    result->token = hold->token;
    result->count = 1;
}
