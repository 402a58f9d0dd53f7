/* SPDX-License-Identifier: MIT */

/* Commands of Redis on keys, as one run of a command or a script sees them: on
 * the state as it is applied here, and on what the run itself has written.
 * Nothing is changed: the run ends as a REDIS entry, which says of each key
 * what it was and what is to come of it (lockfsm/entry.def). The commands stand
 * in key_any.c, key_text.c and so on, over views.h.
 *
 * A key is a value that a client of Redis has set, or free; anything else (held
 * by sessions or other users, waited for, closed by a delay, about to expire)
 * is there, has another value than anybody's, and cannot be written. Every
 * value that a run leaves behind has a time to live, or is durable, if
 * 'may_endure' (redis.no_ttl = durable).
 *
 * A value may be a hash, a list, a set or a sorted set (collection.h). As long
 * as its fields are the same its holder is, and keeps his token.
 *
 * TIME is the cluster's, not a wall clock's: see redis_time.h.
 *
 * What a run publishes is told when the entry is applied.
 *
 * A key whose value was not looked at in the run is not deleted, and its value
 * not replaced, unless 'may_delete' (redis.del = allow): that is what a lock
 * client does by mistake. */

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
    const struct user *user; /* Who asks. */
    uint64_t now_ns;
    struct arena *arena;
    bool may_delete;
    bool may_endure;
    bool is_script; /* SET NX of the value that is there: nil, as in Redis. For
                       a command of its own it is a repetition, and OK. */
    /* Those that the request names, which its user may see; NULL: any. What a
     * script names itself the user must be allowed to lock or to read. */
    const struct bytes *declared;
    uint32_t declared_count;
    uint64_t time_ms; /* As TIME tells it. */

    struct redis_view {
        struct redis_key key;
        const struct hold *hold; /* Of REDIS_VALUE, until it is deleted. */
        bool is_there;
        bool is_looked_at;
        bool is_replaced; /* Whoever holds it now is somebody else. */
        bool is_timed;    /* Its time was set, to px_ms. */
        bool lacks_ttl;   /* Written, and without a time so far. */
        uint64_t px_ms;
        enum key_type type;
        struct bytes value; /* As it is stored; of what has members that may
                               have changed, once it is finished. */
        bool has_members;   /* They were read, or there are new ones. */
        struct collection members;
    } view[MULTI_COUNT_MAX];
    uint32_t count;
    struct redis_message message[REDIS_MESSAGES_MAX];
    uint32_t message_count;
    bool asked_time; /* Its points in time are those of time_ms. */
    uint32_t steps;  /* What the commands took: counted with the script's. */
    /* What was wrong; room for the text of an error. */
    char error[160];
};

/* What a command does; a script_call_fn on a struct redis_keys. */
bool redis_keys_call(void *keys, const struct bytes *argument, uint32_t count,
                     struct value *ret);
/* A script_known_fn. */
bool redis_keys_know(struct bytes command);

/* What tells the states of a key apart, from one grant to the next; that it is
 * renewed makes no difference. From now on it counts as looked at. False with
 * keys->error. */
bool redis_keys_watch(struct redis_keys *keys, struct bytes name,
                      uint64_t *ret_version);

/* Sums the run up in keys->view[].key. False with keys->error: it leaves a
 * value without a time to live that may not be, or one that is too long, or
 * takes both kinds. */
bool redis_keys_finish(struct redis_keys *keys);
/* True if something is to be changed. */
bool redis_keys_change(const struct redis_keys *keys);
/* True if a free key is to be taken. */
bool redis_keys_take(const struct redis_keys *keys);

#endif /* HASP_CORE_REDIS_KEYS_H */
