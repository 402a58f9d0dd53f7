/* SPDX-License-Identifier: MIT */

/* Every entry of lockfsm/entry.def (one without an operation here does not
 * link) against every dimension in which a state grows, at its default limit
 * (or CAP, for the memory of the machine). While an entry is applied no node
 * serves anybody, so none may take longer than LONGEST_NS.
 *
 * An operation applies the entries that prepare its entry, the entry, and those
 * that undo it; all of them count. The rest is swept. The time is CPU time. A
 * busy machine makes single entries longer, so a measurement that was too long
 * is repeated. */

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/memory.h"
#include "lockfsm/cells.h"
#include "lockfsm/user/access.h"
#include "tests/bench/costs/costs.h"

#define LONGEST_NS 1000000
#define CAP 200000
#define TIMES 40
#define TRIES 5
/* Most items that a leader names (core/propose.c, lease/timers.c,
 * core/session/lease.c). */
#define NAMED_MAX 1024
#define EXPIRED_MAX 256

#define BUSY BYTES_LITERAL("busy")

typedef void op_fn(struct bench *bench, uint64_t i);

/* --- Operations ----------------------------------------------------------- */

static void as_leader(struct bench *bench)
{
    (void)bench_apply_as(bench, 0);
}

static void as_user(struct bench *bench)
{
    (void)bench_apply_as(bench, USER_LOCAL);
}

static uint64_t newest_token(const struct bench *bench)
{
    return lockfsm_token_base(bench->fsm) + bench->log_index;
}

static struct origin own(const struct bench *bench)
{
    return (struct origin){.session = bench->session,
                           .owner = BYTES_LITERAL("op")};
}

static void ask(struct bench *bench, struct bytes name, enum lock_mode mode,
                bool is_waiting, bool is_barging)
{
    encode_acquire(&bench->command,
                   &(struct acquire_command){.origin = own(bench),
                                             .names = &name,
                                             .name_count = 1,
                                             .mode = mode,
                                             .is_waiting = is_waiting,
                                             .is_barging = is_barging,
                                             .wait_ms = 60000});
    as_user(bench);
}

static void give_back(struct bench *bench, struct bytes name)
{
    encode_release(&bench->command,
                   &(struct release_command){
                       .origin = own(bench), .names = &name, .name_count = 1});
    as_user(bench);
}

static void op_cancel(struct bench *bench, uint64_t i)
{
    (void)i;
    encode_cancel(&bench->command,
                  &(struct cancel_command){.origin = own(bench), .name = BUSY});
    as_user(bench);
}

static void op_begin(struct bench *bench, uint64_t i)
{
    (void)i;
    encode_begin(&bench->command, &(struct begin_command){.node = 1});
    as_leader(bench);
}

static void op_set_feature(struct bench *bench, uint64_t i)
{
    (void)i;
    encode_set_feature(&bench->command,
                       &(struct set_feature_command){.level = 1});
    as_leader(bench);
}

#ifdef HASP_FEATURE_LEVEL_EXTRA
static void op_trial(struct bench *bench, uint64_t i)
{
    encode_trial(&bench->command, &(struct trial_command){.step = i});
    as_user(bench);
}
#endif

static void op_set_limit(struct bench *bench, uint64_t i)
{
    encode_set_limit(
        &bench->command,
        &(struct set_limit_command){.key = LIMIT_TTL_MAX, .value = 60000 + i});
    as_user(bench);
}

static void op_quarantine_over(struct bench *bench, uint64_t i)
{
    (void)i;
    encode_quarantine_over(&bench->command,
                           &(struct quarantine_over_command){.since_index = 1});
    as_leader(bench);
}

/* Refused: the dimensions have locks under each prefix, which it counts. */
static void op_cells(struct bench *bench, uint64_t i)
{
    (void)i;
    encode_cells(&bench->command,
                 &(struct cells_command){.kind = CELLS_GIVE,
                                         .endpoints = BYTES_LITERAL("a:1"),
                                         .taker = {1}});
    as_user(bench);
}

static void op_act(struct bench *bench, uint64_t i)
{
    encode_act(&bench->command, &(struct act_command){.kind = (uint32_t)i % 2});
    as_user(bench);
}

static void op_open(struct bench *bench, uint64_t i)
{
    encode_close(
        &bench->command,
        &(struct close_command){
            .origin = {.session = bench_open_session(bench, i % 2 == 0)}});
    as_user(bench);
}

/* As many sessions as one entry can end, each with a hold. */
static void op_died(struct bench *bench, uint64_t i)
{
    struct testimony dead[TESTIMONY_COUNT_MAX];
    for (size_t n = 0; n < TESTIMONY_COUNT_MAX; n++) {
        encode_open(
            &bench->command,
            &(struct open_command){.proof = {1}, .will = {2}, .ttl_ms = 60000});
        as_user(bench);
        dead[n] = (struct testimony){.session = newest_token(bench),
                                     .will = {2}};
        bench_acquire(bench, dead[n].session,
                      bench_numbered(bench, "dead/", 100 * i + n),
                      LOCK_EXCLUSIVE, false);
    }
    encode_died(&bench->command,
                &(struct died_command){.testimonies = dead,
                                       .testimony_count = TESTIMONY_COUNT_MAX});
    as_user(bench);
}

static void op_close(struct bench *bench, uint64_t i)
{
    uint64_t session = bench_open_session(bench, false);
    bench_acquire(bench, session, bench_numbered(bench, "closed/", i),
                  LOCK_EXCLUSIVE, false);
    bench_acquire(bench, session, BUSY, LOCK_EXCLUSIVE, true);
    encode_close(&bench->command,
                 &(struct close_command){.origin = {.session = session}});
    as_user(bench);
}

/* Ended and durable sessions are skipped. */
static void op_expire(struct bench *bench, uint64_t i)
{
    uint64_t sessions[EXPIRED_MAX];
    if (i >= TIMES / 4) {
        return;
    }
    for (int k = 0; k < EXPIRED_MAX; k++) {
        sessions[k] = bench_open_session(bench, false);
        bench_acquire(bench, sessions[k], BUSY, LOCK_SHARED, true);
    }
    encode_expire(&bench->command,
                  &(struct expire_command){.sessions = sessions,
                                           .session_count = EXPIRED_MAX});
    as_leader(bench);
}

static void op_sweep(struct bench *bench, uint64_t i)
{
    (void)i;
    encode_sweep(&bench->command,
                 &(struct sweep_command){.places = SLICE_DEFAULT});
    as_leader(bench);
}

static uint64_t named(struct bench *bench, uint64_t sessions[NAMED_MAX],
                      uint64_t i)
{
    uint64_t count = bench->sessions != NULL ? bench->size : 0;
    count = count > NAMED_MAX ? NAMED_MAX : count;
    for (uint64_t k = 0; k < count; k++) {
        sessions[k] = bench->sessions[(i * NAMED_MAX + k * 17) % bench->size];
    }
    return count;
}

static void op_time(struct bench *bench, uint64_t i)
{
    uint64_t sessions[NAMED_MAX];
    struct session_mark marks[NAMED_MAX];
    uint64_t count = named(bench, sessions, i);
    for (uint64_t k = 0; k < count; k++) {
        marks[k] = (struct session_mark){.session = sessions[k],
                                         .quiet_ms = 15000};
    }
    encode_time(&bench->command, &(struct time_command){.elapsed_ms = 800,
                                                        .marks = marks,
                                                        .mark_count = count});
    as_leader(bench);
}

static void op_heard(struct bench *bench, uint64_t i)
{
    uint64_t sessions[NAMED_MAX];
    uint64_t count = named(bench, sessions, i);
    encode_heard(
        &bench->command,
        &(struct heard_command){.sessions = sessions, .session_count = count});
    as_leader(bench);
}

static void op_acquire(struct bench *bench, uint64_t i)
{
    ask(bench, BUSY, i % 2 == 0 ? LOCK_SHARED : LOCK_EXCLUSIVE, true, i % 3);
    op_cancel(bench, i);
    give_back(bench, BUSY);
    ask(bench, bench_numbered(bench, "op/", i), LOCK_EXCLUSIVE, true, false);
    give_back(bench, bench_numbered(bench, "op/", i));
}

static void op_release(struct bench *bench, uint64_t i)
{
    struct bytes names[MULTI_COUNT_MAX];
    char text[MULTI_COUNT_MAX][NAME_SIZE];
    for (uint64_t k = 0; k < MULTI_COUNT_MAX; k++) {
        int size = snprintf(text[k], NAME_SIZE, "many/%" PRIu64 "/%" PRIu64, i,
                            k);
        names[k] = bytes_of(text[k], (size_t)size);
    }
    encode_acquire(&bench->command,
                   &(struct acquire_command){.origin = own(bench),
                                             .names = names,
                                             .name_count = MULTI_COUNT_MAX,
                                             .is_waiting = true});
    as_user(bench);
    encode_release(&bench->command,
                   &(struct release_command){.origin = own(bench),
                                             .names = names,
                                             .name_count = MULTI_COUNT_MAX});
    as_user(bench);
    ask(bench, BYTES_LITERAL("first"), LOCK_SHARED, true, false);
    give_back(bench, BYTES_LITERAL("first"));
}

static void op_release_if(struct bench *bench, uint64_t i)
{
    encode_release_if(
        &bench->command,
        &(struct release_if_command){
            .name = BUSY,
            .owner = i % 2 == 0 ? BYTES_LITERAL("nobody") : BYTES_LITERAL(""),
            .token = i % 2 == 0 ? 0 : 1});
    as_user(bench);
}

static void op_convert(struct bench *bench, uint64_t i)
{
    struct bytes name = bench_numbered(bench, "convert/", i);
    ask(bench, name, LOCK_SHARED, true, false);
    for (int k = 0; k < 2; k++) {
        encode_convert(&bench->command,
                       &(struct convert_command){.origin = own(bench),
                                                 .name = name,
                                                 .to = k == 0 ? LOCK_EXCLUSIVE
                                                              : LOCK_SHARED,
                                                 .is_waiting = true,
                                                 .wait_ms = 1000});
        as_user(bench);
    }
    give_back(bench, name);
}

static void op_please(struct bench *bench, uint64_t i)
{
    (void)i;
    encode_please(&bench->command, &(struct please_command){.name = BUSY});
    as_user(bench);
}

static void op_note(struct bench *bench, uint64_t i)
{
    static uint8_t text[VALUE_SIZE_MAX];
    struct bytes name = bench_numbered(bench, "note/", i);
    ask(bench, name, LOCK_EXCLUSIVE, true, false);
    encode_note(&bench->command,
                &(struct note_command){.origin = own(bench),
                                       .name = name,
                                       .token = newest_token(bench),
                                       .text = bytes_of(text, sizeof text)});
    as_user(bench);
    give_back(bench, name);
}

static void op_break_holds(struct bench *bench, uint64_t i)
{
    encode_break_holds(
        &bench->command,
        &(struct break_holds_command){.name = BUSY, .after_ms = 1000 + i});
    as_user(bench);
}

static void op_object(struct bench *bench, uint64_t i)
{
    (void)i;
    encode_object(&bench->command,
                  &(struct object_command){.origin = own(bench), .name = BUSY});
    as_user(bench);
}

static void op_wait_timeout(struct bench *bench, uint64_t i)
{
    (void)i;
    ask(bench, BUSY, LOCK_EXCLUSIVE, true, false);
    encode_wait_timeout(&bench->command, &(struct wait_timeout_command){
                                             .session = bench->session,
                                             .owner = BYTES_LITERAL("op"),
                                             .wait_index = bench->log_index});
    as_leader(bench);
    op_cancel(bench, i);
    give_back(bench, BUSY);
}

/* Ends a hold uncleanly, so that the lock is closed, and opens it. */
static void op_hold_over(struct bench *bench, uint64_t i)
{
    struct bytes name = bench_numbered(bench, "over/", i);
    encode_acquire(&bench->command,
                   &(struct acquire_command){.origin = own(bench),
                                             .names = &name,
                                             .name_count = 1,
                                             .hold_ms = 1000,
                                             .delay_ms = 1000});
    as_user(bench);
    encode_hold_over(&bench->command,
                     &(struct hold_over_command){.name = name,
                                                 .session = bench->session,
                                                 .owner = BYTES_LITERAL("op"),
                                                 .token = newest_token(bench)});
    as_leader(bench);
    encode_delay_over(&bench->command,
                      &(struct delay_over_command){
                          .name = name, .since_index = bench->log_index});
    as_leader(bench);
}

static void op_delay_over(struct bench *bench, uint64_t i)
{
    op_hold_over(bench, TIMES + i);
}

static void op_break_over(struct bench *bench, uint64_t i)
{
    (void)i;
    encode_break_over(&bench->command, &(struct break_over_command){
                                           .name = BUSY,
                                           .session = bench->session,
                                           .owner = BYTES_LITERAL("op")});
    as_leader(bench);
}

static void op_blacklist_add(struct bench *bench, uint64_t i)
{
    encode_blacklist_add(
        &bench->command,
        &(struct blacklist_add_command){
            .client = bench_numbered(bench, "nobody*", i), .for_ms = 1000});
    as_user(bench);
}

static void op_blacklist_remove(struct bench *bench, uint64_t i)
{
    op_blacklist_add(bench, i);
    encode_blacklist_remove(&bench->command,
                            &(struct blacklist_remove_command){
                                .client = bench_numbered(bench, "nobody*", i)});
    as_user(bench);
}

static void op_blacklist_over(struct bench *bench, uint64_t i)
{
    op_blacklist_add(bench, i);
    encode_blacklist_over(
        &bench->command,
        &(struct blacklist_over_command){.since_index = bench->log_index});
    as_leader(bench);
}

static void op_fence_admit(struct bench *bench, uint64_t i)
{
    uint64_t base = lockfsm_token_base(bench->fsm);
    const uint64_t tokens[] = {7 + i, TOKEN_BASE_MIN + 1, base - 1, base + 1};
    encode_fence_admit(&bench->command,
                       &(struct fence_admit_command){
                           .resource = bench_numbered(bench, "disk/", i / 4),
                           .token = tokens[i % 4]});
    as_user(bench);
}

static void op_fence_remove(struct bench *bench, uint64_t i)
{
    encode_fence_remove(&bench->command,
                        &(struct fence_remove_command){
                            .resource = bench_numbered(bench, "disk/", i / 4)});
    as_user(bench);
}

static void op_user_set(struct bench *bench, uint64_t i)
{
    bench->user = USER_LOCAL;
    bench_set_user(bench, 1000000 + i, i % 2 == 0);
}

static void op_user_remove(struct bench *bench, uint64_t i)
{
    struct bytes name = bench_numbered(bench, "user", 2000000 + i);
    struct user_set_command set = {.name = name, .is_disabled = true};
    encode_user_set(&bench->command, &set);
    as_user(bench);
    encode_user_remove(&bench->command,
                       &(struct user_remove_command){.name = name});
    as_user(bench);
}

static void op_secret_add(struct bench *bench, uint64_t i)
{
    uint8_t hash[PROOF_SIZE] = {(uint8_t)i, (uint8_t)(i >> 8), 1};
    struct secret_add_command add = {.name = BYTES_LITERAL("user0")};
    memcpy(add.hash, hash, sizeof hash);
    encode_secret_add(&bench->command, &add);
    as_user(bench);
    encode_secret_remove(&bench->command, &(struct secret_remove_command){
                                              .name = BYTES_LITERAL("user0"),
                                              .number = newest_token(bench)});
    as_user(bench);
}

static void op_secret_remove(struct bench *bench, uint64_t i)
{
    op_secret_add(bench, TIMES + i);
}

static void op_role_set(struct bench *bench, uint64_t i)
{
    bench->user = USER_LOCAL;
    bench_set_role_to(bench, 1u << VERB_LOCK | (uint32_t)(i % 2) << VERB_READ,
                      BYTES_LITERAL(""));
}

static void op_role_remove(struct bench *bench, uint64_t i)
{
    (void)i;
    struct bytes name = BYTES_LITERAL("other");
    encode_role_set(&bench->command, &(struct role_set_command){.name = name});
    as_user(bench);
    encode_role_remove(&bench->command,
                       &(struct role_remove_command){.name = name});
    as_user(bench);
}

static void op_access_set(struct bench *bench, uint64_t i)
{
    encode_access_set(&bench->command,
                      &(struct access_set_command){.is_required = i % 2 == 0,
                                                   .is_forced = true});
    as_user(bench);
}

static void op_cert_revoke(struct bench *bench, uint64_t i)
{
    struct cert_revoke_command revoke = {.subject = BYTES_LITERAL("somebody")};
    memcpy(revoke.fingerprint, &i, sizeof i);
    encode_cert_revoke(&bench->command, &revoke);
    as_user(bench);
}

static void op_redis(struct bench *bench, uint64_t i)
{
    struct redis_key keys[MULTI_COUNT_MAX];
    char text[MULTI_COUNT_MAX][NAME_SIZE];
    for (int is_over = 0; is_over < 2; is_over++) {
        for (uint64_t k = 0; k < MULTI_COUNT_MAX; k++) {
            int size = snprintf(text[k], NAME_SIZE,
                                "redis/%" PRIu64 "/%" PRIu64, i, k);
            keys[k] = (struct redis_key){
                .name = bytes_of(text[k], (size_t)size),
                .was = is_over ? REDIS_VALUE : REDIS_FREE,
                .change = is_over ? REDIS_DELETE : REDIS_SET,
                .ttl_ms = is_over ? 0 : 1255,
                .px_ms = is_over ? 0 : 1000};
        }
        encode_redis(&bench->command,
                     &(struct redis_command){.keys = keys,
                                             .key_count = MULTI_COUNT_MAX});
        as_user(bench);
    }
}

/* --- Dimensions ----------------------------------------------------------- */

static void fill_nothing(struct bench *bench)
{
    (void)bench;
}

static void fill_locks(struct bench *bench)
{
    uint64_t session = 0;
    for (uint64_t i = 0; i < bench->size; i++) {
        session = i % 1000 == 0 ? bench_open_session(bench, false) : session;
        bench_acquire(bench, session, bench_numbered(bench, "lock/", i),
                      LOCK_EXCLUSIVE, false);
    }
}

static void fill_holds(struct bench *bench)
{
    bench_acquire(bench, bench_open_session(bench, false), BUSY, LOCK_EXCLUSIVE,
                  false);
    for (uint64_t i = 0; i < bench->size; i++) {
        bench_acquire(bench, bench->session, bench_numbered(bench, "lock/", i),
                      LOCK_EXCLUSIVE, false);
    }
}

static void fill_sessions(struct bench *bench)
{
    bench_fill_sessions(bench, false);
}

static void fill_queue_of(struct bench *bench, enum lock_mode held,
                          enum lock_mode wanted, bool is_waiting,
                          bool is_durable)
{
    if (is_waiting) {
        bench_acquire(bench, bench_open_session(bench, false), BUSY, held,
                      false);
    }
    bench_fill_sessions(bench, is_durable);
    for (uint64_t i = 0; i < bench->size; i++) {
        bench_acquire(bench, bench->sessions[i], BUSY, wanted, is_waiting);
    }
}

static void fill_writers(struct bench *bench)
{
    fill_queue_of(bench, LOCK_EXCLUSIVE, LOCK_EXCLUSIVE, true, false);
}

static void fill_waiting_readers(struct bench *bench)
{
    fill_queue_of(bench, LOCK_EXCLUSIVE, LOCK_SHARED, true, false);
}

static void fill_readers(struct bench *bench)
{
    fill_queue_of(bench, LOCK_SHARED, LOCK_SHARED, false, false);
}

static void fill_durable_readers(struct bench *bench)
{
    fill_queue_of(bench, LOCK_SHARED, LOCK_SHARED, false, true);
}

static void fill_crowd_of(struct bench *bench, enum lock_mode mode)
{
    bench_acquire(bench, bench_open_session(bench, false), BUSY, LOCK_EXCLUSIVE,
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

static void fill_owners(struct bench *bench)
{
    uint64_t other = bench_open_session(bench, false);
    for (uint64_t i = 0; i < bench->size; i++) {
        struct bytes name = bench_numbered(bench, "lock/", i);
        bench_acquire(bench, other, name, LOCK_EXCLUSIVE, false);
        encode_acquire(&bench->command,
                       &(struct acquire_command){
                           .origin = {.session = bench->session, .owner = name},
                           .names = &name,
                           .name_count = 1,
                           .is_waiting = true});
        as_user(bench);
    }
}

static void fill_fences(struct bench *bench)
{
    for (uint64_t i = 0; i < bench->size; i++) {
        encode_fence_admit(
            &bench->command,
            &(struct fence_admit_command){
                .resource = bench_numbered(bench, "fence/", i), .token = 7});
        as_user(bench);
    }
}

static void fill_patterns(struct bench *bench)
{
    for (uint64_t i = 0; i < bench->size; i++) {
        bench_blacklist(bench, 0, bench_numbered(bench, "*worker-*-of-*-", i),
                        false);
    }
}

static void fill_users(struct bench *bench)
{
    bench_set_role_to(bench, 1u << VERB_LOCK, BYTES_LITERAL(""));
    for (uint64_t i = 0; i < bench->size; i++) {
        bench_set_user(bench, i, false);
    }
}

static void begin_new_life(struct bench *bench, uint64_t quarantine_ms)
{
    uint8_t id[CLUSTER_ID_SIZE] = {2};
    lockfsm_new_life(bench->fsm, quarantine_ms);
    encode_begin(&bench->command,
                 &(struct begin_command){.node = 1,
                                         .cluster_id = bytes_of(id, sizeof id),
                                         .token_base = TOKEN_BASE_MIN});
    as_leader(bench);
}

/* The state that a restore keeps. */
static void fill_kept(struct bench *bench)
{
    fill_durable_readers(bench);
    begin_new_life(bench, 0);
    bench->session = bench_open_session(bench, false);
}

#define OF_LIMIT(key) .limit = LIMIT_##key, .has_limit = true

static const struct dimension {
    const char *name;
    void (*fill)(struct bench *bench);
    uint64_t size; /* If there is no such limit. */
    bool has_limit;
    enum limit_key limit;
} dimensions[] = {
    {"an empty state", fill_nothing, 1, false, 0},
    {"locks", fill_locks, OF_LIMIT(LOCKS)},
    {"holds of the session", fill_holds, OF_LIMIT(HOLDS_PER_SESSION)},
    {"sessions", fill_sessions, OF_LIMIT(SESSIONS)},
    {"writers who wait", fill_writers, OF_LIMIT(WAITS_PER_LOCK)},
    {"readers who wait", fill_waiting_readers, OF_LIMIT(WAITS_PER_LOCK)},
    {"waits for it and another", fill_crowd, OF_LIMIT(WAITS_PER_LOCK)},
    {"waits for a slot of it and another", fill_crowd_for_slots,
     OF_LIMIT(WAITS_PER_LOCK)},
    {"owners of the session, each waits", fill_owners,
     OF_LIMIT(OWNERS_PER_SESSION)},
    {"readers", fill_readers, 100000, false, 0},
    {"durable readers", fill_durable_readers, 100000, false, 0},
    {"durable readers of a former life", fill_kept, 100000, false, 0},
    {"fences", fill_fences, OF_LIMIT(FENCES)},
    {"patterns of the blacklist", fill_patterns, 10000, false, 0},
    {"users", fill_users, 99000, false, 0},
};

/* --- All of them ---------------------------------------------------------- */

static const struct {
    const char *name;
    op_fn *run;
} ops[] = {
#define ENTRY(number, NAME, name, ...) {#NAME, op_##name},
#include "lockfsm/entry.def"
};

static uint64_t size_of(const struct dimension *dimension)
{
    uint64_t size = dimension->has_limit
                        ? lockfsm_default_limits.of[dimension->limit]
                        : dimension->size;
    return size < CAP ? size : CAP;
}

/* The longest entry; the minimum of several tries. */
static uint64_t longest_of(struct bench *bench, op_fn *run, uint64_t *at)
{
    uint64_t least = UINT64_MAX;
    for (int try = 0; try < TRIES && least > LONGEST_NS; try++) {
        bench->worst_ns = 0;
        for (uint64_t i = 0; i < TIMES; i++) {
            bench->user = USER_LOCAL;
            run(bench, (*at)++);
            bench_sweep_all(bench);
        }
        least = bench->worst_ns < least ? bench->worst_ns : least;
    }
    return least;
}

static int measure(const struct dimension *dimension)
{
    struct bench bench = {.size = size_of(dimension)};
    uint64_t longest = 0, at = 0;
    const char *name = "";
    int bad = 0;
    bench_begin(&bench);
    bench.user = USER_LOCAL;
    bench.session = bench_open_session(&bench, false);
    dimension->fill(&bench);
    bench_sweep_all(&bench);
    bench.may_be_refused = true;
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++) {
        uint64_t took = longest_of(&bench, ops[i].run, &at);
        if (took > LONGEST_NS) {
            printf("too long: %s, %s %" PRIu64 ": %.2f ms\n", ops[i].name,
                   dimension->name, bench.size, (double)took / 1e6);
            bad++;
        }
        if (took > longest) {
            longest = took;
            name = ops[i].name;
        }
    }
    printf("%-40s %8" PRIu64 "   the longest entry %6.3f ms (%s)\n",
           dimension->name, bench.size, (double)longest / 1e6, name);
    fflush(stdout);
    bench_end(&bench);
    return bad;
}

/* The end of a quarantine with a wait for each lock. It ends once, so each try
 * has a new state. */
static int measure_quarantine(void)
{
    uint64_t least = UINT64_MAX;
    uint64_t size = CAP;
    for (int try = 0; try < TRIES && least > LONGEST_NS; try++) {
        struct bench bench = {.size = size};
        bench_begin(&bench);
        bench.user = USER_LOCAL;
        begin_new_life(&bench, 60000);
        uint64_t began = bench.log_index;
        bench.session = bench_open_session(&bench, false);
        for (uint64_t i = 0; i < size; i++) {
            if (i % 1000 == 0) {
                bench.session = bench_open_session(&bench, false);
            }
            bench_acquire(&bench, bench.session,
                          bench_numbered(&bench, "lock/", i), LOCK_EXCLUSIVE,
                          true);
        }
        CHECK(lockfsm_wait_count(bench.fsm) == size);
        bench.worst_ns = 0;
        encode_quarantine_over(
            &bench.command,
            &(struct quarantine_over_command){.since_index = began});
        as_leader(&bench);
        bench_sweep_all(&bench);
        CHECK(lockfsm_wait_count(bench.fsm) == 0);
        least = bench.worst_ns < least ? bench.worst_ns : least;
        bench_end(&bench);
    }
    printf("%-40s %8" PRIu64 "   the longest entry %6.3f ms\n",
           "locks waited for in a quarantine", size, (double)least / 1e6);
    return least > LONGEST_NS;
}

int limits_run(const char *part)
{
    int bad = strstr("quarantine", part) != NULL ? measure_quarantine() : 0;
    for (size_t i = 0; i < sizeof dimensions / sizeof dimensions[0]; i++) {
        if (strstr(dimensions[i].name, part) != NULL) {
            bad += measure(&dimensions[i]);
        }
    }
    printf("costs: %d entries of more than %.1f ms\n", bad, LONGEST_NS / 1e6);
    return bad;
}
