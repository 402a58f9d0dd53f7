/* SPDX-License-Identifier: MIT */

#include "cmd/hasp/agent/ties.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/hash.h"
#include "base/memory.h"
#include "base/minmax.h"
#include "base/units.h"

/* The key of a tie: unused bytes are zero. */
struct tie_key {
    uint64_t session;
    char word[TIE_WORD_SIZE + 7];
};

struct tie_user {
    UT_hash_handle by_uid;
    uid_t uid;
    uint32_t connections;
    uint32_t processes;
    uint32_t ties;        /* With deaths. */
    struct list deaths;   /* Not reported; the oldest first. */
    struct list in_dying; /* If there are any. */
};

struct tied_session {
    UT_hash_handle by_key;
    struct tie_key key;
    struct tie_user *user;
    struct list in_process;       /* Or in its user's deaths, or the batch. */
    struct tied_process *process; /* NULL: dead. */
    uint64_t ttl_ms;
    uint64_t until_ns; /* A death is dropped after this time. */
};

struct ties {
    struct list processes;
    struct tied_session *by_key;
    struct tie_user *by_uid;
    struct list dying; /* Users with deaths; the next batch begins with the
                        * first. */
    struct list batch; /* Being reported. */
    uint32_t batch_count;
    uint32_t batch_max; /* Less than TIE_BATCH_MAX after a rejected one. */
    uint32_t process_max;
    uint32_t count; /* Of by_key. */
    struct tie_counts counts;
};

struct ties *ties_new(uint32_t process_max)
{
    struct ties *ties = memory_new(sizeof *ties);
    ties->process_max = process_max;
    list_init(&ties->processes);
    list_init(&ties->dying);
    list_init(&ties->batch);
    ties->batch_max = TIE_BATCH_MAX;
    return ties;
}

/* --- Users ---------------------------------------------------------------- */

static struct tie_user *tie_user_of(struct ties *ties, uid_t uid)
{
    struct tie_user *user;
    HASH_FIND(by_uid, ties->by_uid, &uid, sizeof uid, user);
    if (user == NULL) {
        user = memory_new(sizeof *user);
        user->uid = uid;
        list_init(&user->deaths);
        list_init(&user->in_dying);
        HASH_ADD(by_uid, ties->by_uid, uid, sizeof user->uid, user);
    }
    return user;
}

/* Frees a user that has nothing left. */
static void tie_user_drop(struct ties *ties, struct tie_user *user)
{
    if (user->connections == 0 && user->processes == 0 && user->ties == 0) {
        HASH_DELETE(by_uid, ties->by_uid, user);
        list_remove(&user->in_dying);
        free(user);
    }
}

static bool tie_user_has_room(const struct ties *ties,
                              const struct tie_user *user)
{
    return ties->count < TIE_MAX && user->ties < TIE_MAX / TIE_USER_PART;
}

static uint32_t tie_user_share(const struct ties *ties)
{
    return (uint32_t)u64_max(ties->process_max / TIE_USER_PART, TIE_USER_LEAST);
}

bool ties_admit(struct ties *ties, uid_t uid)
{
    struct tie_user *user = tie_user_of(ties, uid);
    if (ties->counts.connections >= ties->process_max ||
        user->connections >= tie_user_share(ties)) {
        tie_user_drop(ties, user);
        return false;
    }
    user->connections++;
    ties->counts.connections++;
    return true;
}

void ties_dismiss(struct ties *ties, uid_t uid)
{
    struct tie_user *user = tie_user_of(ties, uid);
    CHECK(user->connections > 0);
    user->connections--;
    ties->counts.connections--;
    tie_user_drop(ties, user);
}

/* --- Ties ----------------------------------------------------------------- */

static struct tied_session *tied_session_new(struct ties *ties,
                                             struct tie_user *user,
                                             const struct tie_key *key)
{
    struct tied_session *tie = memory_new(sizeof *tie);
    tie->key = *key;
    tie->user = user;
    list_init(&tie->in_process);
    HASH_ADD(by_key, ties->by_key, key, sizeof tie->key, tie);
    ties->count++;
    user->ties++;
    return tie;
}

/* The user stays, even without ties. */
static void tied_session_free(struct ties *ties, struct tied_session *tie)
{
    HASH_DELETE(by_key, ties->by_key, tie);
    list_remove(&tie->in_process);
    ties->count--;
    tie->user->ties--;
    free(tie);
}

void ties_free(struct ties *ties)
{
    struct tied_session *tie, *next;
    HASH_ITER (by_key, ties->by_key, tie, next) {
        tied_session_free(ties, tie);
    }
    LIST_FOR_SAFE (struct tied_process, process, &ties->processes, in_ties) {
        list_remove(&process->in_ties);
        free(process);
    }
    struct tie_user *user, *next_user;
    HASH_ITER (by_uid, ties->by_uid, user, next_user) {
        HASH_DELETE(by_uid, ties->by_uid, user);
        list_remove(&user->in_dying);
        free(user);
    }
    free(ties);
}

struct tied_process *ties_find(struct ties *ties, pid_t pid, uint64_t start)
{
    LIST_FOR (struct tied_process, process, &ties->processes, in_ties) {
        if (process->pid == pid && process->start == start) {
            return process;
        }
    }
    return NULL;
}

struct tied_process *ties_add(struct ties *ties, pid_t pid, uint64_t start,
                              uid_t uid)
{
    CHECK_SLOW(ties_find(ties, pid, start) == NULL);
    struct tie_user *user = tie_user_of(ties, uid);
    if (ties->counts.processes >= ties->process_max ||
        user->processes >= tie_user_share(ties)) {
        tie_user_drop(ties, user);
        return NULL;
    }
    struct tied_process *process = memory_new(sizeof *process);
    process->pid = pid;
    process->start = start;
    process->user = user;
    user->processes++;
    list_init(&process->ties);
    list_push_back(&ties->processes, &process->in_ties);
    ties->counts.processes++;
    return process;
}

static void tied_process_free(struct ties *ties, struct tied_process *process)
{
    struct tie_user *user = process->user;
    CHECK(process->count == 0);
    list_remove(&process->in_ties);
    ties->counts.processes--;
    user->processes--;
    free(process);
    tie_user_drop(ties, user);
}

void ties_join(struct tied_process *process)
{
    process->connections++;
}

bool ties_leave(struct ties *ties, struct tied_process *process)
{
    CHECK(process->connections > 0);
    process->connections--;
    if (process->connections > 0 || process->count > 0) {
        return false;
    }
    tied_process_free(ties, process);
    return true;
}

static struct tie_key key_of(uint64_t session, const char *word)
{
    struct tie_key key;
    memset(&key, 0, sizeof key); /* Padding as well. */
    key.session = session;
    memcpy(key.word, word, TIE_WORD_SIZE);
    return key;
}

static struct tied_session *
tied_session_find(struct ties *ties, uint64_t session, const char *word)
{
    struct tie_key key = key_of(session, word);
    struct tied_session *tie;
    HASH_FIND(by_key, ties->by_key, &key, sizeof key, tie);
    return tie;
}

enum tie_answer ties_tie(struct ties *ties, struct tied_process *process,
                         uint64_t session, const char word[TIE_WORD_SIZE],
                         uint64_t ttl_ms)
{
    struct tied_session *tie = tied_session_find(ties, session, word);
    if (tie != NULL) {
        return tie->process == process ? TIE_DONE : TIE_TAKEN;
    }
    if (process->count >= TIE_PER_PROCESS_MAX) {
        return TIE_TOO_MANY;
    }
    if (!tie_user_has_room(ties, process->user)) {
        return TIE_NO_ROOM;
    }
    struct tie_key key = key_of(session, word);
    tie = tied_session_new(ties, process->user, &key);
    tie->process = process;
    tie->ttl_ms = ttl_ms;
    list_push_back(&process->ties, &tie->in_process);
    process->count++;
    ties->counts.ties++;
    ties->counts.tied++;
    return TIE_DONE;
}

bool ties_untie(struct ties *ties, struct tied_process *process,
                uint64_t session, const char word[TIE_WORD_SIZE])
{
    struct tied_session *tie = tied_session_find(ties, session, word);
    if (tie == NULL || tie->process != process) {
        return false;
    }
    tied_session_free(ties, tie);
    process->count--;
    ties->counts.ties--;
    ties->counts.untied++;
    return true;
}

static void tied_session_die(struct ties *ties, struct tied_session *tie,
                             uint64_t now_ns)
{
    struct tie_user *user = tie->user;
    if (list_is_empty(&user->deaths)) {
        list_push_back(&ties->dying, &user->in_dying);
    }
    list_remove(&tie->in_process);
    list_push_back(&user->deaths, &tie->in_process);
    tie->process = NULL;
    tie->until_ns = now_ns + TIE_TTL_FACTOR * tie->ttl_ms * NS_PER_MS;
    ties->counts.pending++;
    ties->counts.died++;
}

void ties_died(struct ties *ties, struct tied_process *process, uint64_t now_ns)
{
    LIST_FOR_SAFE (struct tied_session, tie, &process->ties, in_process) {
        tied_session_die(ties, tie, now_ns);
        ties->counts.ties--;
    }
    process->count = 0;
    tied_process_free(ties, process);
}

bool ties_hear(struct ties *ties, uid_t uid, uint64_t session,
               const char word[TIE_WORD_SIZE], uint64_t now_ns)
{
    struct tied_session *tie = tied_session_find(ties, session, word);
    if (tie != NULL && tie->process == NULL) {
        return true; /* It is known. */
    }
    if (tie != NULL) {
        tie->process->count--;
        ties->counts.ties--;
    } else {
        struct tie_user *user = tie_user_of(ties, uid);
        if (!tie_user_has_room(ties, user)) {
            tie_user_drop(ties, user);
            return false;
        }
        struct tie_key key = key_of(session, word);
        tie = tied_session_new(ties, user, &key);
        tie->ttl_ms = TIE_TTL_DEFAULT_MS;
    }
    tied_session_die(ties, tie, now_ns);
    return true;
}

/* --- Reports -------------------------------------------------------------- */

/* The user's oldest death that is not too old; NULL: none. */
static struct tied_session *
tie_user_next(struct ties *ties, struct tie_user *user, uint64_t now_ns)
{
    LIST_FOR_SAFE (struct tied_session, tie, &user->deaths, in_process) {
        if (now_ns < tie->until_ns) {
            return tie;
        }
        tied_session_free(ties, tie);
        ties->counts.pending--;
        ties->counts.too_late++;
    }
    return NULL;
}

uint32_t ties_batch(struct ties *ties, uint64_t now_ns,
                    struct tie_death ret_deaths[TIE_BATCH_MAX])
{
    if (ties->batch_count != 0) {
        return 0;
    }
    /* One death of each user in turn. */
    while (ties->batch_count < ties->batch_max &&
           !list_is_empty(&ties->dying)) {
        struct tie_user *user = LIST_FIRST(&ties->dying, struct tie_user,
                                           in_dying);
        struct tied_session *tie = tie_user_next(ties, user, now_ns);
        list_remove(&user->in_dying);
        if (tie != NULL) {
            struct tie_death *death = &ret_deaths[ties->batch_count++];
            death->session = tie->key.session;
            memcpy(death->word, tie->key.word, TIE_WORD_SIZE);
            list_remove(&tie->in_process);
            list_push_back(&ties->batch, &tie->in_process);
        }
        if (!list_is_empty(&user->deaths)) {
            list_push_back(&ties->dying, &user->in_dying);
        }
        tie_user_drop(ties, user);
    }
    return ties->batch_count;
}

/* It is reported again: before the others of its user, unless it was refused
 * alone. */
static void tied_session_again(struct ties *ties, struct tied_session *tie,
                               bool is_last)
{
    struct tie_user *user = tie->user;
    if (list_is_empty(&user->deaths)) {
        list_push_back(&ties->dying, &user->in_dying);
    }
    list_remove(&tie->in_process);
    if (is_last) {
        list_push_back(&user->deaths, &tie->in_process);
    } else {
        list_push_front(&user->deaths, &tie->in_process);
    }
}

void ties_batch_end(struct ties *ties, enum tie_result result)
{
    bool is_alone = ties->batch_count == 1 && result == TIE_REJECTED;
    CHECK(ties->batch_count != 0);
    while (!list_is_empty(&ties->batch)) {
        struct tied_session *tie = LIST_ENTRY(ties->batch.prev,
                                              struct tied_session, in_process);
        struct tie_user *user = tie->user;
        if (result != TIE_REPORTED) {
            tied_session_again(ties, tie, is_alone);
            continue;
        }
        tied_session_free(ties, tie);
        tie_user_drop(ties, user);
        ties->counts.pending--;
        ties->counts.reported++;
    }
    if (result == TIE_REPORTED) {
        ties->batch_max = (uint32_t)u64_min(2 * ties->batch_max, TIE_BATCH_MAX);
    } else if (result == TIE_REJECTED) {
        ties->batch_max = (uint32_t)u64_max(ties->batch_count / 2, 1);
    }
    ties->batch_count = 0;
}

struct tie_counts ties_counts(const struct ties *ties)
{
    return ties->counts;
}
