/* SPDX-License-Identifier: MIT */

/* Commands of Redis on keys, as one run of a command or a script sees them: on
 * the state as it is applied here, and on what the run itself has written.
 * Nothing is changed: the run ends as a REDIS entry, which says for each key
 * what it was and what it is to become (lockfsm/entry.def). The commands are in
 * key_any.c, key_text.c and so on, built on views.h.
 *
 * A key is a value that a Redis client has set, or free. Any other lock (held
 * by sessions or other users, waited for, closed by a delay, about to expire)
 * exists, has a value that equals no other, and cannot be written. Every value
 * that a run leaves has a time to live, or is durable if 'may_endure'
 * (redis.no_ttl = durable) or if SET has said DURABLE.
 *
 * A value may be a hash, a list, a set or a sorted set (collection.h). As long
 * as its fields are the same it has the same holder, who keeps the token.
 *
 * TIME is the cluster's, not a wall clock's: see core/scripts.h.
 *
 * What a run publishes is sent when the entry is applied.
 *
 * A key whose value the run has not read is not deleted, and its value not
 * replaced, unless 'may_delete' (redis.del = allow): a lock client does that by
 * mistake. */

#ifndef HASP_CORE_REDIS_KEYS_H
#define HASP_CORE_REDIS_KEYS_H

#include "core/redis/collection.h"
#include "core/redis/script.h"
#include "lockfsm/entry.h"
#include "lockfsm/lockfsm.h"

struct timers;

struct redis_keys {
    /* Set by the caller. */
    const struct lockfsm *fsm;
    const struct timers *timers;
    const struct user *user; /* The requester. */
    uint64_t now_ns;
    struct arena *arena;
    bool may_delete;
    bool may_endure;
    bool may_repeat; /* redis.same_value = renew */
    bool is_script;  /* SET NX of the present value is never a repetition. */
    /* The keys that the request declares, which its user may see; NULL: any.
     * The user needs the right to lock or read any other key that a script
     * names. */
    const struct bytes *declared;
    uint32_t declared_count;
    uint64_t time_ms; /* The value of TIME. */

    struct redis_view {
        struct redis_key key;
        /* The hold of a REDIS_VALUE, until it is deleted. */
        const struct hold *hold;
        bool is_there;
        bool is_looked_at;
        bool is_replaced; /* Its holder is now another one. */
        bool is_timed;    /* Its time was set to px_ms. */
        bool lacks_ttl;   /* Written, without a time so far. */
        bool may_endure;  /* Written by SET with DURABLE. */
        uint64_t px_ms;
        enum key_type type;
        /* As stored; for a collection that may have changed, once the run is
         * finished. */
        struct bytes value;
        bool has_members; /* Its members were read, or are new. */
        struct collection members;
    } view[MULTI_COUNT_MAX];
    uint32_t count;
    struct redis_message message[REDIS_MESSAGES_MAX];
    uint32_t message_count;
    bool asked_time; /* Its points in time relate to time_ms. */
    /* SET did nothing, since its key has its value already. */
    bool is_as_if_done;
    uint32_t steps; /* Steps of the commands, counted with the script's. */
    /* The text of an error. */
    char error[160];
};

/* Executes a command; a script_call_fn on a struct redis_keys. */
bool redis_keys_call(void *keys, const struct bytes *argument, uint32_t count,
                     struct value *ret);
/* A script_known_fn. */
bool redis_keys_know(struct bytes command);

/* Identifies the state of a key from one grant to the next; a renewal makes no
 * difference. From now on the key counts as read. False with keys->error. */
bool redis_keys_watch(struct redis_keys *keys, struct bytes name,
                      uint64_t *ret_version);

/* Puts the result of the run into keys->view[].key. False with keys->error: it
 * leaves a value without a time to live that needs one, or with one that is too
 * long, or it sets values of both kinds. */
bool redis_keys_finish(struct redis_keys *keys);
/* True if the run changes something. */
bool redis_keys_change(const struct redis_keys *keys);
/* True if the run acquires a free key. */
bool redis_keys_take(const struct redis_keys *keys);

#endif /* HASP_CORE_REDIS_KEYS_H */
