/* SPDX-License-Identifier: MIT */

/* The cost of one operation as the state grows: it may grow only
 * logarithmically.
 *
 *     costs [SIZE,SIZE,...] [PART-OF-A-NAME ...]
 *     costs limits [PART-OF-A-NAME]      see limits.c
 *
 * Each line is one kind of operation, the dimension that grows, and its size:
 * the average CPU time of an operation in microseconds, and the longest entry
 * of one. No network, log or disk is involved. If one operation covers the
 * whole size, its longest entry matters: nobody else is served during it. */

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/check.h"
#include "base/memory.h"
#include "core/state.h"
#include "lease/timers.h"
#include "lockfsm/entry.h"
#include "tests/bench/costs/costs.h"

#define OPERATIONS 2000
#define SIZES_MAX 8

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void note(struct bench *bench, uint64_t began_ns)
{
    uint64_t took_ns = now_ns() - began_ns;
    bench->total_ns += took_ns;
    bench->worst_ns = took_ns > bench->worst_ns ? took_ns : bench->worst_ns;
}

/* Applies the entry in 'command'; returns the code of the result. */
enum result_code bench_apply_as(struct bench *bench, uint64_t user)
{
    if (user != 0) {
        encode_user(&bench->command, user);
    }
    uint64_t began_ns = now_ns();
    int error = lockfsm_apply(bench->fsm, ++bench->log_index, 1,
                              buffer_bytes(&bench->command), &bench->effects);
    note(bench, began_ns);
    CHECK(error == 0);
    enum result_code code = bench->effects.effect[0].result.code;
    effects_clear(&bench->effects);
    buffer_clear(&bench->command);
    return code;
}

static void apply(struct bench *bench)
{
    enum result_code code = bench_apply_as(bench, bench->user);
    CHECK(bench->may_be_refused || code == RESULT_OK || code == RESULT_QUEUED ||
          code == RESULT_NOT_HELD);
}

void bench_sweep_all(struct bench *bench)
{
    struct sweep_command sweep;
    while (lockfsm_has_left_over(bench->fsm, &sweep.places)) {
        encode_sweep(&bench->command, &sweep);
        (void)bench_apply_as(bench, 0);
    }
}

struct bytes bench_numbered(struct bench *bench, const char *prefix,
                            uint64_t number)
{
    int size = snprintf(bench->name, sizeof bench->name, "%s%" PRIu64, prefix,
                        number);
    return bytes_of(bench->name, (size_t)size);
}

uint64_t bench_open_session(struct bench *bench, bool is_durable)
{
    encode_open(&bench->command,
                &(struct open_command){.proof = {1},
                                       .ttl_ms = is_durable ? 0 : 60000,
                                       .is_durable = is_durable,
                                       .name = BYTES_LITERAL("bench")});
    apply(bench);
    return lockfsm_token_base(bench->fsm) + bench->log_index;
}

static void close_session(struct bench *bench, uint64_t session)
{
    encode_close(&bench->command,
                 &(struct close_command){.origin = {.session = session}});
    apply(bench);
}

void bench_acquire(struct bench *bench, uint64_t session, struct bytes name,
                   enum lock_mode mode, bool is_waiting)
{
    encode_acquire(&bench->command,
                   &(struct acquire_command){.origin = {.session = session},
                                             .names = &name,
                                             .name_count = 1,
                                             .mode = mode,
                                             .wait_ms = is_waiting ? 60000 : 0,
                                             .is_waiting = is_waiting});
    apply(bench);
}

void bench_release(struct bench *bench, uint64_t session, struct bytes name)
{
    encode_release(&bench->command,
                   &(struct release_command){.origin = {.session = session},
                                             .names = &name,
                                             .name_count = 1});
    apply(bench);
}

static void cancel(struct bench *bench, uint64_t session, struct bytes name)
{
    encode_cancel(
        &bench->command,
        &(struct cancel_command){.origin = {.session = session}, .name = name});
    apply(bench);
}

void bench_fill_sessions(struct bench *bench, bool is_durable)
{
    bench->sessions = memory_new(bench->size * sizeof *bench->sessions);
    for (uint64_t i = 0; i < bench->size; i++) {
        bench->sessions[i] = bench_open_session(bench, is_durable);
    }
}

/* --- Kinds ---------------------------------------------------------------- */

static void fill_locks(struct bench *bench)
{
    uint64_t session = 0;
    for (uint64_t i = 0; i < bench->size; i++) {
        session = i % 1000 == 0 ? bench_open_session(bench, false) : session;
        bench_acquire(bench, session, bench_numbered(bench, "lock/", i),
                      LOCK_EXCLUSIVE, false);
    }
}

static void cycle(struct bench *bench, uint64_t i)
{
    bench_acquire(bench, bench->session, bench_numbered(bench, "mine/", i),
                  LOCK_EXCLUSIVE, false);
    bench_release(bench, bench->session, bench_numbered(bench, "mine/", i));
}

static void fill_holds(struct bench *bench)
{
    for (uint64_t i = 0; i < bench->size; i++) {
        bench_acquire(bench, bench->session, bench_numbered(bench, "lock/", i),
                      LOCK_EXCLUSIVE, false);
    }
}

static void fill_holds_and_busy(struct bench *bench)
{
    bench_acquire(bench, bench_open_session(bench, false),
                  BYTES_LITERAL("busy"), LOCK_EXCLUSIVE, false);
    fill_holds(bench);
}

static void wait_and_cancel(struct bench *bench, uint64_t i)
{
    (void)i;
    bench_acquire(bench, bench->session, BYTES_LITERAL("busy"), LOCK_EXCLUSIVE,
                  true);
    cancel(bench, bench->session, BYTES_LITERAL("busy"));
}

static void fill_waits_of_one(struct bench *bench)
{
    uint64_t other = bench_open_session(bench, false);
    bench_acquire(bench, other, BYTES_LITERAL("busy"), LOCK_EXCLUSIVE, false);
    for (uint64_t i = 0; i < bench->size; i++) {
        char owner[NAME_SIZE];
        struct bytes name = bench_numbered(bench, "busy/", i);
        snprintf(owner, sizeof owner, "%s", bench->name);
        bench_acquire(bench, other, name, LOCK_EXCLUSIVE, false);
        encode_acquire(
            &bench->command,
            &(struct acquire_command){.origin = {.session = bench->session,
                                                 .owner = bytes_of_text(owner)},
                                      .names = &name,
                                      .name_count = 1,
                                      .is_waiting = true,
                                      .wait_ms = 60000});
        apply(bench);
    }
}

static void fill_queue(struct bench *bench)
{
    bench_acquire(bench, bench_open_session(bench, false),
                  BYTES_LITERAL("busy"), LOCK_EXCLUSIVE, false);
    bench_fill_sessions(bench, false);
    for (uint64_t i = 0; i < bench->size; i++) {
        bench_acquire(bench, bench->sessions[i], BYTES_LITERAL("busy"),
                      LOCK_EXCLUSIVE, true);
    }
}

static void fill_handover(struct bench *bench)
{
    bench_fill_sessions(bench, false);
    for (uint64_t i = 0; i < bench->size; i++) {
        bench_acquire(bench, bench->sessions[i], BYTES_LITERAL("busy"),
                      LOCK_EXCLUSIVE, true);
    }
}

static void hand_over(struct bench *bench, uint64_t i)
{
    uint64_t session = bench->sessions[i % bench->size];
    bench_release(bench, session, BYTES_LITERAL("busy"));
    bench_acquire(bench, session, BYTES_LITERAL("busy"), LOCK_EXCLUSIVE, true);
}

static void fill_readers(struct bench *bench)
{
    bench_fill_sessions(bench, false);
    for (uint64_t i = 0; i < bench->size; i++) {
        bench_acquire(bench, bench->sessions[i], BYTES_LITERAL("busy"),
                      LOCK_SHARED, false);
    }
}

static void read_and_release(struct bench *bench, uint64_t i)
{
    (void)i;
    bench_acquire(bench, bench->session, BYTES_LITERAL("busy"), LOCK_SHARED,
                  false);
    bench_release(bench, bench->session, BYTES_LITERAL("busy"));
}

static void fill_plain_sessions(struct bench *bench)
{
    bench_fill_sessions(bench, false);
}

static void fill_durable_sessions(struct bench *bench)
{
    bench_fill_sessions(bench, true);
}

static void open_and_close(struct bench *bench, uint64_t i)
{
    (void)i;
    close_session(bench, bench_open_session(bench, false));
}

static void open_and_close_durable(struct bench *bench, uint64_t i)
{
    (void)i;
    close_session(bench, bench_open_session(bench, true));
}

static void fill_fences(struct bench *bench)
{
    for (uint64_t i = 0; i < bench->size; i++) {
        encode_fence_admit(
            &bench->command,
            &(struct fence_admit_command){
                .resource = bench_numbered(bench, "fence/", i), .token = 7});
        apply(bench);
    }
}

static void admit(struct bench *bench, uint64_t i)
{
    encode_fence_admit(
        &bench->command,
        &(struct fence_admit_command){
            .resource = bench_numbered(bench, "fence/", i), .token = 8 + i});
    apply(bench);
}

void bench_set_role_to(struct bench *bench, uint32_t verbs, struct bytes prefix)
{
    struct grant grant = {.verbs = verbs, .name = prefix, .is_prefix = true};
    const struct role *role = lockfsm_role(bench->fsm, BYTES_LITERAL("some"));
    encode_role_set(&bench->command,
                    &(struct role_set_command){
                        .name = BYTES_LITERAL("some"),
                        .grants = &grant,
                        .grant_count = 1,
                        .if_changed = role != NULL ? role->changed : 0});
    apply(bench);
}

static void set_role(struct bench *bench, uint64_t i)
{
    bench_set_role_to(bench, 1u << VERB_LOCK | (uint32_t)(i % 2) << VERB_READ,
                      BYTES_LITERAL("lock/"));
}

void bench_set_user(struct bench *bench, uint64_t i, bool is_disabled)
{
    struct role_name role = {BYTES_LITERAL("some")};
    struct bytes name = bench_numbered(bench, "user", i);
    const struct user *user = lockfsm_user_named(bench->fsm, name);
    uint64_t bounds[QUOTA_COUNT];
    for (int key = 0; key < QUOTA_COUNT; key++) {
        bounds[key] = quota_rules[key].max;
    }
    encode_user_set(&bench->command,
                    &(struct user_set_command){
                        .name = name,
                        .roles = &role,
                        .role_count = 1,
                        .is_disabled = is_disabled,
                        .bounds = bounds,
                        .bound_count = QUOTA_COUNT,
                        .if_changed = user != NULL ? user->changed : 0});
    apply(bench);
}

static void fill_users(struct bench *bench)
{
    bench->user = USER_LOCAL;
    set_role(bench, 0);
    for (uint64_t i = 0; i < bench->size; i++) {
        bench_set_user(bench, i, false);
    }
}

static void change_user(struct bench *bench, uint64_t i)
{
    bench_set_user(bench, i / 2 % bench->size, i % 2 == 0);
}

void bench_blacklist(struct bench *bench, uint64_t session, struct bytes client,
                     bool is_removed)
{
    if (is_removed) {
        encode_blacklist_remove(&bench->command,
                                &(struct blacklist_remove_command){
                                    .session = session, .client = client});
    } else {
        encode_blacklist_add(&bench->command,
                             &(struct blacklist_add_command){.session = session,
                                                             .client = client});
    }
    apply(bench);
}

static void fill_blacklist(struct bench *bench)
{
    bench_fill_sessions(bench, false);
    for (uint64_t i = 0; i < bench->size; i++) {
        bench_blacklist(bench, bench->sessions[i], (struct bytes){NULL, 0},
                        false);
    }
}

static void blacklist_one(struct bench *bench, uint64_t i)
{
    (void)i;
    bench_blacklist(bench, bench->session, (struct bytes){NULL, 0}, false);
    bench_blacklist(bench, bench->session, (struct bytes){NULL, 0}, true);
}

static void blacklist_many(struct bench *bench, uint64_t i)
{
    bench_blacklist(bench, 0, BYTES_LITERAL("be*"), i % 2 == 1);
    bench_sweep_all(bench);
}

static void close_all(struct bench *bench, uint64_t i)
{
    if (i == 0) {
        close_session(bench, bench->session);
        bench_sweep_all(bench);
        CHECK(lockfsm_hold_count(bench->fsm) <= 1 + bench->size);
    }
}

static void fill_readers_behind(struct bench *bench)
{
    bench_acquire(bench, bench->session, BYTES_LITERAL("busy"), LOCK_EXCLUSIVE,
                  false);
    bench_fill_sessions(bench, false);
    for (uint64_t i = 0; i < bench->size; i++) {
        bench_acquire(bench, bench->sessions[i], BYTES_LITERAL("busy"),
                      LOCK_SHARED, true);
    }
}

static void let_in(struct bench *bench, uint64_t i)
{
    if (i == 0) {
        bench_release(bench, bench->session, BYTES_LITERAL("busy"));
        bench_sweep_all(bench);
        CHECK(lockfsm_hold_count(bench->fsm) == bench->size);
    }
}

void bench_acquire_two(struct bench *bench, uint64_t session, uint64_t owner,
                       enum lock_mode mode)
{
    struct bytes names[] = {BYTES_LITERAL("first"), BYTES_LITERAL("busy")};
    encode_acquire(
        &bench->command,
        &(struct acquire_command){
            .origin = {.session = session,
                       .owner = bench_numbered(bench, "owner", owner)},
            .names = names,
            .name_count = 2,
            .mode = mode,
            .slots = mode == LOCK_SLOTS ? UINT32_MAX : 0,
            .is_waiting = true,
            .wait_ms = 60000});
    apply(bench);
}

/* All of them wait for two locks, one of which is free. */
static void fill_crowd_of(struct bench *bench, enum lock_mode mode)
{
    bench_acquire(bench, bench->session, BYTES_LITERAL("busy"), LOCK_EXCLUSIVE,
                  false);
    bench_fill_sessions(bench, false);
    for (uint64_t i = 0; i < bench->size; i++) {
        bench_acquire_two(bench, bench->sessions[i], i, mode);
    }
}

static void fill_crowd(struct bench *bench)
{
    fill_crowd_of(bench, LOCK_SHARED);
}

static void fill_crowd_for_slots(struct bench *bench)
{
    fill_crowd_of(bench, LOCK_SLOTS);
}

/* Acquires and releases the free lock, and has the rest of the slices done. */
static void pass_crowd(struct bench *bench, uint64_t i)
{
    (void)i;
    uint64_t session = bench->sessions[0];
    bench_acquire(bench, session, BYTES_LITERAL("first"), LOCK_SHARED, true);
    cancel(bench, session, BYTES_LITERAL("first"));
    bench_release(bench, session, BYTES_LITERAL("first"));
    bench_sweep_all(bench);
}

static void pass_slots(struct bench *bench, uint64_t i)
{
    bench_acquire_two(bench, bench->session, i, LOCK_SLOTS);
    struct bytes owner = bench_numbered(bench, "owner", i);
    encode_cancel(&bench->command,
                  &(struct cancel_command){
                      .origin = {.session = bench->session, .owner = owner},
                      .name = BYTES_LITERAL("first")});
    apply(bench);
    bench_sweep_all(bench);
}

/* Makes the user, and 'session_count' sessions of that user; returns the user's
 * number. */
static uint64_t fill_user(struct bench *bench, uint64_t session_count)
{
    bench->user = USER_LOCAL;
    set_role(bench, 0);
    bench_set_user(bench, 0, false);
    const struct user *user = lockfsm_user_named(bench->fsm,
                                                 BYTES_LITERAL("user0"));
    bench->sessions = memory_new(session_count * sizeof *bench->sessions);
    bench->user = user->number;
    for (uint64_t i = 0; i < session_count; i++) {
        bench->sessions[i] = bench_open_session(bench, false);
    }
    return user->number;
}

/* One more session waits for a lock that another has, as a separate owner. */
void bench_wait_behind(struct bench *bench, uint64_t other, uint64_t user,
                       uint64_t session, struct bytes name)
{
    bench->user = USER_ANYONE;
    bench_acquire(bench, other, name, LOCK_EXCLUSIVE, false);
    bench->user = user;
    encode_acquire(
        &bench->command,
        &(struct acquire_command){.origin = {.session = session, .owner = name},
                                  .names = &name,
                                  .name_count = 1,
                                  .is_waiting = true,
                                  .wait_ms = 60000});
    apply(bench);
    bench->user = USER_LOCAL;
}

/* The waits of one user, in a thousand sessions. */
static void fill_disabled(struct bench *bench)
{
    uint64_t user = fill_user(bench, 1000);
    for (uint64_t i = 0; i < bench->size; i++) {
        bench_wait_behind(bench, bench->session, user,
                          bench->sessions[i % 1000],
                          bench_numbered(bench, "lock/", i));
    }
}

static void ask_readers(struct bench *bench, uint64_t i)
{
    (void)i;
    encode_please(&bench->command,
                  &(struct please_command){.name = BYTES_LITERAL("busy")});
    apply(bench);
}

static void make_and_remove_role(struct bench *bench, uint64_t i)
{
    (void)i;
    struct bytes name = BYTES_LITERAL("other");
    encode_role_set(&bench->command, &(struct role_set_command){.name = name});
    apply(bench);
    encode_role_remove(&bench->command,
                       &(struct role_remove_command){.name = name});
    apply(bench);
}

/* One wait of each of the user's sessions. */
static void fill_disabled_sessions(struct bench *bench)
{
    uint64_t user = fill_user(bench, bench->size);
    for (uint64_t i = 0; i < bench->size; i++) {
        bench_wait_behind(bench, bench->session, user, bench->sessions[i],
                          bench_numbered(bench, "lock/", i));
    }
}

/* Waits of one session, the second half of which loses its right. */
static void fill_withdrawn(struct bench *bench)
{
    uint64_t user = fill_user(bench, 1);
    for (uint64_t i = 0; i < bench->size; i++) {
        bench_wait_behind(
            bench, bench->session, user, bench->sessions[0],
            bench_numbered(bench, i < bench->size / 2 ? "lock/kept/" : "lock/",
                           i));
    }
}

static void disable(struct bench *bench, uint64_t i)
{
    if (i == 0) {
        bench_set_user(bench, 0, true);
        bench_sweep_all(bench);
    }
}

static void withdraw(struct bench *bench, uint64_t i)
{
    if (i == 0) {
        bench_set_role_to(bench, 1u << VERB_LOCK, BYTES_LITERAL("lock/kept/"));
        bench_sweep_all(bench);
    }
}

/* --- Timers --------------------------------------------------------------- */

/* Marks the sessions, as each leader does. */
static void begin_again(struct bench *bench)
{
    encode_begin(&bench->command, &(struct begin_command){.node = 1});
    (void)bench_apply_as(bench, 0);
}

static void fill_reign(struct bench *bench)
{
    bench_fill_sessions(bench, false);
    begin_again(bench);
}

static bool take_nothing(void *data, const struct entry *entry)
{
    (void)data;
    (void)entry;
    return true;
}

static void begin_reign(struct bench *bench, uint64_t i)
{
    if (i == 0) {
        struct timers *timers = timers_new();
        uint64_t began_ns = now_ns();
        timers_begin(timers, bench->fsm, 1000000);
        while (!timers_inherit(timers, bench->fsm, 4096)) {
            note(bench, began_ns);
            began_ns = now_ns();
        }
        note(bench, began_ns);
        began_ns = now_ns();
        timers_due(timers, 2000000, 2000000, 256, 32, take_nothing, NULL);
        note(bench, began_ns);
        timers_free(timers);
    }
}

/* --- Watches -------------------------------------------------------------- */

/* Idle: no event's name has these prefixes. Sizes from 8 to 72. */
static void fill_watches(struct bench *bench)
{
    bench->core = memory_new(sizeof *bench->core);
    bench->core->fsm = bench->fsm;
    watches_init(bench->core);
    bench->conn_count = (uint32_t)(bench->size / 1000 + 1);
    bench->conns = memory_new(bench->conn_count * sizeof(struct conn *));
    for (uint32_t i = 0; i < bench->conn_count; i++) {
        bench->conns[i] = memory_new(sizeof **bench->conns);
        list_init(&bench->conns[i]->watches);
        list_init(&bench->conns[i]->sessions);
        bench->conns[i]->user = USER_LOCAL;
        bench->conns[i]->address = "local";
    }
    for (uint64_t i = 0; i < bench->size; i++) {
        char text[128];
        int size = snprintf(text, sizeof text, "idle%06" PRIu64 "/%.*s", i,
                            (int)(i % 61),
                            "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwx"
                            "yzabcdefghijkl");
        const char *why;
        CHECK(watch_add(bench->core, bench->conns[i / 1000], WATCH_PREFIX,
                        bytes_of(text, (size_t)size), &why) == WORD_NONE);
    }
}

static void hit(struct core *core, const struct watch *watch, void *data)
{
    (void)core;
    (void)watch;
    *(uint64_t *)data += 1;
}

static void tell(struct bench *bench, uint64_t i)
{
    uint64_t count = 0;
    struct bytes name = bench_numbered(
        bench, "orders/of/a/customer/with/a/name/of/usual/length/", i);
    uint64_t began_ns = now_ns();
    watches_hit(bench->core, name, hit, &count);
    note(bench, began_ns);
    watches_turn(bench->core);
    CHECK(count == 0);
}

static void free_watches(struct bench *bench)
{
    for (uint32_t i = 0; i < bench->conn_count; i++) {
        watches_remove(bench->core, bench->conns[i]);
        free(bench->conns[i]);
    }
    free(bench->conns);
    free(bench->core);
}

/* --- All of them ---------------------------------------------------------- */

/* 'is_once': one operation covers the whole size. 'size_max': a default limit,
 * or a size that takes too long to fill; 0: none. */
static const struct kind {
    const char *name;
    void (*fill)(struct bench *bench);
    void (*run)(struct bench *bench, uint64_t i);
    bool is_once;
    uint64_t size_max;
} kinds[] = {
    {"acquire+release, locks held by others", fill_locks, cycle, false, 0},
    {"acquire+release, holds of the same session", fill_holds, cycle, false, 0},
    {"wait+cancel, holds of the same owner", fill_holds_and_busy,
     wait_and_cancel, false, 0},
    {"wait+cancel, waits at the lock", fill_queue, wait_and_cancel, false, 0},
    {"release+grant+wait, waits at the lock", fill_handover, hand_over, false,
     0},
    {"acquire+release shared, readers of the lock", fill_readers,
     read_and_release, false, 0},
    {"open+close, sessions", fill_plain_sessions, open_and_close, false, 0},
    {"open+close durable, durable sessions", fill_durable_sessions,
     open_and_close_durable, false, 0},
    {"admit, fences", fill_fences, admit, false, 0},
    {"change a user, users", fill_users, change_user, false, 10000},
    {"change a role, users who have it", fill_users, set_role, false, 10000},
    {"make+remove a role, users", fill_users, make_and_remove_role, false,
     99000},
    {"ask for a lock, readers of the lock", fill_readers, ask_readers, false,
     0},
    {"blacklist+unblock a session, blacklisted sessions", fill_blacklist,
     blacklist_one, false, 100000},
    {"open+close, blacklisted sessions", fill_blacklist, open_and_close, false,
     100000},
    {"an event, idle watches", fill_watches, tell, false, 100000},
    {"close, holds of the session", fill_holds, close_all, true, 0},
    {"close, waits of the session", fill_waits_of_one, close_all, true, 0},
    {"release, readers who wait", fill_readers_behind, let_in, true, 0},
    {"come and go, waits for it and another", fill_crowd, pass_crowd, false, 0},
    {"come and go, waits for a slot of it and another", fill_crowd_for_slots,
     pass_slots, false, 0},
    {"disable a user, its waits", fill_disabled, disable, true, 0},
    {"disable a user, its sessions, each waits", fill_disabled_sessions,
     disable, true, 0},
    {"withdraw a right, sessions, each waits", fill_disabled_sessions, withdraw,
     true, 0},
    {"withdraw a right, waits of a session", fill_withdrawn, withdraw, true, 0},
    {"blacklist a pattern, sessions", fill_plain_sessions, blacklist_many,
     false, 100000},
    {"a leader takes over, sessions", fill_reign, begin_reign, true, 0},
};

void bench_begin(struct bench *bench)
{
    uint8_t id[16] = {1};
    struct lockfsm_limits limits = lockfsm_default_limits;
    limits.of[LIMIT_SESSIONS] = limits.of[LIMIT_LOCKS] = 10000000;
    limits.of[LIMIT_HOLDS_PER_SESSION] = limits.of[LIMIT_WAITS] = 10000000;
    limits.of[LIMIT_WAITS_PER_LOCK] = limits.of[LIMIT_FENCES] = 10000000;
    limits.of[LIMIT_WAITS_PER_SESSION] = 10000000;
    limits.of[LIMIT_OWNERS_PER_SESSION] = 10000000;
    limits.of[LIMIT_BLACKLIST] = 10000;
    limits.of[LIMIT_STATE_SIZE] = UINT64_C(1) << 36;
    bench->fsm = lockfsm_new();
    bench->user = USER_ANYONE;
    encode_begin(&bench->command,
                 &(struct begin_command){.node = 1,
                                         .cluster_id = bytes_of(id, sizeof id),
                                         .token_base = TOKEN_BASE_MIN,
                                         .limits = limits.of,
                                         .limit_count = LIMIT_COUNT});
    (void)bench_apply_as(bench, 0);
    bench->session = bench_open_session(bench, false);
}

void bench_end(struct bench *bench)
{
    lockfsm_free(bench->fsm);
    effects_done(&bench->effects);
    buffer_done(&bench->command);
    free(bench->sessions);
}

static void measure(const struct kind *kind, uint64_t size)
{
    struct bench bench = {.size = size};
    uint64_t count = kind->is_once ? 1 : OPERATIONS;
    bench_begin(&bench);
    kind->fill(&bench);
    bench.total_ns = bench.worst_ns = 0;
    uint64_t done = 0;
    while (done < count && bench.total_ns < UINT64_C(2000000000)) {
        kind->run(&bench, done++);
    }
    printf("%-50s %8" PRIu64 " %10.2f us, the longest entry %10.2f us\n",
           kind->name, size, (double)bench.total_ns / 1000 / (double)done,
           (double)bench.worst_ns / 1000);
    fflush(stdout);
    if (bench.core != NULL) {
        free_watches(&bench);
    }
    bench_end(&bench);
}

static bool is_wanted(const struct kind *kind, int argc, char **argv)
{
    for (int i = 2; i < argc; i++) {
        if (strstr(kind->name, argv[i]) != NULL) {
            return true;
        }
    }
    return argc <= 2;
}

int main(int argc, char **argv)
{
    const char *at = argc > 1 ? argv[1] : "1000,10000,100000";
    if (strcmp(at, "limits") == 0) {
        return limits_run(argc > 2 ? argv[2] : "");
    }
    uint64_t sizes[SIZES_MAX];
    uint32_t count = 0;
    while (*at != '\0' && count < SIZES_MAX) {
        char *end;
        sizes[count++] = strtoull(at, &end, 10);
        at = *end == ',' ? end + 1 : end;
        CHECK(*end == ',' || *end == '\0');
    }
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        for (uint32_t i = 0; i < count && is_wanted(&kinds[k], argc, argv);
             i++) {
            if (kinds[k].size_max == 0 || sizes[i] <= kinds[k].size_max) {
                measure(&kinds[k], sizes[i]);
            }
        }
    }
    return 0;
}
