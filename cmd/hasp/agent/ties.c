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

struct tied_session {
    UT_hash_handle by_key;
    struct tie_key key;
    struct list in_process;       /* Or in ties.deaths. */
    struct tied_process *process; /* NULL: dead. */
    uint64_t ttl_ms;
    uint64_t until_ns; /* A death is dropped after this time. */
};

struct ties {
    struct list processes;
    struct tied_session *by_key;
    struct list deaths; /* The first 'batch' of them are being reported. */
    uint32_t batch;
    uint32_t process_max;
    struct tie_counts counts;
};

struct ties *ties_new(uint32_t process_max)
{
    struct ties *ties = memory_new(sizeof *ties);
    ties->process_max = process_max;
    list_init(&ties->processes);
    list_init(&ties->deaths);
    return ties;
}

static void tied_session_free(struct ties *ties, struct tied_session *tie)
{
    HASH_DELETE(by_key, ties->by_key, tie);
    list_remove(&tie->in_process);
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
    uint32_t of_user = 0;
    CHECK_SLOW(ties_find(ties, pid, start) == NULL);
    LIST_FOR (const struct tied_process, process, &ties->processes, in_ties) {
        of_user += process->uid == uid;
    }
    uint64_t share = u64_max(ties->process_max / TIE_USER_PART, TIE_USER_LEAST);
    if (ties->counts.processes >= ties->process_max || of_user >= share) {
        return NULL;
    }
    struct tied_process *process = memory_new(sizeof *process);
    process->pid = pid;
    process->start = start;
    process->uid = uid;
    list_init(&process->ties);
    list_push_back(&ties->processes, &process->in_ties);
    ties->counts.processes++;
    return process;
}

void ties_remove(struct ties *ties, struct tied_process *process)
{
    CHECK(process->count == 0);
    list_remove(&process->in_ties);
    ties->counts.processes--;
    free(process);
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
    tie = memory_new(sizeof *tie);
    tie->key = key_of(session, word);
    tie->process = process;
    tie->ttl_ms = ttl_ms;
    HASH_ADD(by_key, ties->by_key, key, sizeof tie->key, tie);
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

void ties_died(struct ties *ties, struct tied_process *process, uint64_t now_ns)
{
    LIST_FOR_SAFE (struct tied_session, tie, &process->ties, in_process) {
        list_remove(&tie->in_process);
        list_push_back(&ties->deaths, &tie->in_process);
        tie->process = NULL;
        tie->until_ns = now_ns + TIE_TTL_FACTOR * tie->ttl_ms * NS_PER_MS;
        ties->counts.ties--;
        ties->counts.pending++;
        ties->counts.died++;
    }
    process->count = 0;
    ties_remove(ties, process);
}

void ties_hear(struct ties *ties, uint64_t session,
               const char word[TIE_WORD_SIZE], uint64_t now_ns)
{
    struct tied_session *tie = tied_session_find(ties, session, word);
    if (tie != NULL && tie->process == NULL) {
        return; /* It is known. */
    }
    if (tie != NULL) {
        list_remove(&tie->in_process);
        tie->process->count--;
        ties->counts.ties--;
    } else {
        tie = memory_new(sizeof *tie);
        tie->key = key_of(session, word);
        tie->ttl_ms = TIE_TTL_DEFAULT_MS;
        HASH_ADD(by_key, ties->by_key, key, sizeof tie->key, tie);
    }
    list_push_back(&ties->deaths, &tie->in_process);
    tie->process = NULL;
    tie->until_ns = now_ns + TIE_TTL_FACTOR * tie->ttl_ms * NS_PER_MS;
    ties->counts.pending++;
    ties->counts.died++;
}

uint32_t ties_batch(struct ties *ties, uint64_t now_ns,
                    struct tie_death ret_deaths[TIE_BATCH_MAX])
{
    if (ties->batch != 0) {
        return 0;
    }
    LIST_FOR_SAFE (struct tied_session, tie, &ties->deaths, in_process) {
        if (ties->batch == TIE_BATCH_MAX) {
            break;
        }
        if (now_ns >= tie->until_ns) {
            tied_session_free(ties, tie);
            ties->counts.pending--;
            ties->counts.too_late++;
            continue;
        }
        struct tie_death *death = &ret_deaths[ties->batch++];
        death->session = tie->key.session;
        memcpy(death->word, tie->key.word, TIE_WORD_SIZE);
    }
    return ties->batch;
}

void ties_batch_end(struct ties *ties, bool is_answered)
{
    CHECK(ties->batch != 0);
    for (; is_answered && ties->batch > 0; ties->batch--) {
        CHECK(!list_is_empty(&ties->deaths));
        tied_session_free(
            ties, LIST_FIRST(&ties->deaths, struct tied_session, in_process));
        ties->counts.pending--;
        ties->counts.reported++;
    }
    ties->batch = 0;
}

struct tie_counts ties_counts(const struct ties *ties)
{
    return ties->counts;
}
