/* SPDX-License-Identifier: MIT */

/* Shared by the files of this folder: a state, and entries that are applied to
 * it and timed. */

#ifndef HASP_TESTS_BENCH_COSTS_COSTS_H
#define HASP_TESTS_BENCH_COSTS_COSTS_H

#include "core/state.h"
#include "lockfsm/entry.h"

#define NAME_SIZE 64

struct bench {
    struct lockfsm *fsm;
    struct core *core; /* For watches only. */
    struct conn **conns;
    uint32_t conn_count;
    uint64_t log_index;
    uint64_t size;
    uint64_t user;      /* The user of the entries. */
    uint64_t *sessions; /* Sessions with which the state was filled. */
    uint64_t session;   /* Session of the operations. */
    uint64_t head;      /* The holder at the head of a queue. */
    uint64_t total_ns, worst_ns;
    bool may_be_refused; /* Entries need not succeed. */
    struct effects effects;
    struct buffer command;
    char name[NAME_SIZE];
};

/* An empty cluster with distant limits. */
void bench_begin(struct bench *bench);
void bench_end(struct bench *bench);
/* Applies the entry in 'command', as the user's or (0) the leader's own. */
enum result_code bench_apply_as(struct bench *bench, uint64_t user);
/* SWEEP until nothing is left. */
void bench_sweep_all(struct bench *bench);
/* "prefix7", until the next call. */
struct bytes bench_numbered(struct bench *bench, const char *prefix,
                            uint64_t number);
uint64_t bench_open_session(struct bench *bench, bool is_durable);
/* As many as the size. */
void bench_fill_sessions(struct bench *bench, bool is_durable);
void bench_acquire(struct bench *bench, uint64_t session, struct bytes name,
                   enum lock_mode mode, bool is_waiting);
/* "first" and "busy" at once, as the owner of that number. */
void bench_acquire_two(struct bench *bench, uint64_t session, uint64_t owner,
                       enum lock_mode mode);
void bench_release(struct bench *bench, uint64_t session, struct bytes name);
/* One more session waits for a lock that another has, as a separate owner. */
void bench_wait_behind(struct bench *bench, uint64_t other, uint64_t user,
                       uint64_t session, struct bytes name);
void bench_set_role_to(struct bench *bench, uint32_t verbs,
                       struct bytes prefix);
void bench_set_user(struct bench *bench, uint64_t i, bool is_disabled);
void bench_blacklist(struct bench *bench, uint64_t session, struct bytes client,
                     bool is_removed);

/* Every entry against every dimension of the state at its default limit.
 * Returns the number of entries that take too long. */
int limits_run(const char *part);

#endif /* HASP_TESTS_BENCH_COSTS_COSTS_H */
