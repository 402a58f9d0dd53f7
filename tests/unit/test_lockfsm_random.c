/* SPDX-License-Identifier: MIT */

/* Random operations on few sessions, owners and locks, so that they meet.
 *
 * After every entry:
 *
 *     1. lockfsm_check_basic() and lockfsm_delta_check() hold.
 *     2. No deadlock stands, and none was refused that would not be one: by a
 *        reduction of the whole wait-for graph, written here from its
 *        definition and without the machine's search.
 *     3. A second machine, flushed and loaded at random places, tells the same
 *        and has the same hash.
 *
 * And after each run: a third machine under another hash seed has the same
 * hash. A failing run is repeated with SEED=<n> SEEDS=1. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/hash.h"
#include "base/memory.h"
#include "base/prng.h"
#include "lockfsm/entry.h"
#include "lockfsm/lockfsm.h"
#include "storage/table.h"
#include "tests/unit/lockfsm_delta.h"

#define SESSION_COUNT 5
#define ENTRY_COUNT 400
#define ASKER_MAX 256

struct random_world {
    uint64_t seed;
    struct prng prng;
    struct lockfsm *plain;
    struct lockfsm *reloaded;
    struct lockfsm_delta *delta;
    struct table *table;
    struct effects effects;
    struct effects other_effects;
    struct buffer command;
    struct buffer log; /* All commands, each as a run. */
    uint64_t index;
    uint64_t session[SESSION_COUNT];
    uint64_t req[SESSION_COUNT];
    struct acquire_command asked; /* If the entry is an ACQUIRE. */
    struct bytes asked_names[3];
    bool has_gone_hold; /* A hold that a waiting MACQUIRE counted on. */
    uint32_t code_count[16];
    uint32_t refused_count; /* For cycles that were checked. */
};

static const struct lockfsm_limits small_limits = {
    {[LIMIT_SESSIONS] = 8,
     [LIMIT_LOCKS] = 8,
     [LIMIT_HOLDS_PER_SESSION] = 8,
     [LIMIT_WAITS_PER_LOCK] = 6,
     [LIMIT_WAITS_PER_SESSION] = 6,
     [LIMIT_OWNERS_PER_SESSION] = 4,
     [LIMIT_FENCES] = 3,
     [LIMIT_BLACKLIST] = 3}};

/* --- Random commands ------------------------------------------------------ */

static uint32_t below(struct random_world *world, uint32_t bound)
{
    return (uint32_t)prng_below(&world->prng, bound);
}

static bool one_in(struct random_world *world, uint32_t bound)
{
    return below(world, bound) == 0;
}

static struct bytes random_name(struct random_world *world)
{
    static const char *const names[] = {"a", "b", "c", "d", "e"};
    return bytes_of_text(names[below(world, 5)]);
}

static struct bytes random_owner(struct random_world *world)
{
    static const char *const owners[] = {"", "", "x", "y"};
    return bytes_of_text(owners[below(world, 4)]);
}

static uint64_t recent_index(struct random_world *world)
{
    uint64_t back = below(world, 30);
    return world->index > back ? world->index - back : 1;
}

static struct origin random_origin(struct random_world *world)
{
    uint32_t who = below(world, SESSION_COUNT);
    struct origin origin = {.session = world->session[who],
                            .owner = random_owner(world)};
    if (one_in(world, 3)) {
        origin.req = one_in(world, 3) ? 1 + below(world, 12)
                                      : ++world->req[who];
        origin.acked = one_in(world, 2) && origin.req > 4 ? origin.req - 4 : 0;
    }
    return origin;
}

static uint32_t random_names(struct random_world *world, struct bytes *names)
{
    uint32_t count = one_in(world, 4) ? 2 + below(world, 2) : 1;
    for (uint32_t i = 0; i < count; i++) {
        names[i] = random_name(world);
    }
    return count;
}

static enum lock_mode random_mode(struct random_world *world)
{
    static const enum lock_mode modes[] = {
        LOCK_EXCLUSIVE, LOCK_EXCLUSIVE, LOCK_SHARED, LOCK_SHARED, LOCK_SLOTS};
    return modes[below(world, 5)];
}

static void random_acquire(struct random_world *world, struct buffer *out)
{
    struct bytes *names = world->asked_names;
    struct acquire_command c = {.origin = random_origin(world),
                                .names = names,
                                .name_count = random_names(world, names),
                                .mode = random_mode(world),
                                .is_waiting = !one_in(world, 4),
                                .wait_ms = 100 * below(world, 3),
                                .is_barging = one_in(world, 8),
                                .delay_ms = one_in(world, 5) ? 50 : 0,
                                .hold_ms = one_in(world, 5) ? 700 : 0};
    c.slots = c.mode == LOCK_SLOTS ? 2 + one_in(world, 10) : 0;
    world->asked = c;
    encode_acquire(out, &c);
}

static void random_release(struct random_world *world, struct buffer *out)
{
    struct bytes names[3];
    struct release_command c = {.origin = random_origin(world),
                                .names = names,
                                .name_count = random_names(world, names)};
    c.token = one_in(world, 5) ? recent_index(world) : 0;
    encode_release(out, &c);
}

static void random_convert(struct random_world *world, struct buffer *out)
{
    struct convert_command c = {.origin = random_origin(world),
                                .name = random_name(world),
                                .to = one_in(world, 2) ? LOCK_SHARED
                                                       : LOCK_EXCLUSIVE,
                                .is_waiting = !one_in(world, 3)};
    encode_convert(out, &c);
}

/* A hold or wait that exists, so that what names an instance may hit. */
static const struct lock *random_lock(struct random_world *world)
{
    return lockfsm_lock(world->plain, random_name(world));
}

static void random_ending(struct random_world *world, struct buffer *out)
{
    const struct lock *lock = random_lock(world);
    const struct hold *hold = lock != NULL ? LIST_FIRST(&lock->holds,
                                                        struct hold, in_lock)
                                           : NULL;
    const struct wait *wait = lock != NULL ? LIST_FIRST(&lock->queue,
                                                        struct wait, in_lock)
                                           : NULL;
    uint32_t kind = below(world, 4);
    if (kind == 0 && lock != NULL) {
        encode_delay_over(
            out, &(struct delay_over_command){
                     .name = lock->name, .since_index = lock->delay_index});
    } else if (kind == 1 && wait != NULL) {
        encode_wait_timeout(out, &(struct wait_timeout_command){
                                     .session = wait->session->id,
                                     .owner = wait->owner,
                                     .wait_index = wait->wait_index});
    } else if (hold != NULL) {
        struct hold_over_command key = {lock->name, hold->session->id,
                                        hold->owner, hold->token};
        struct release_if_command c = {
            .name = lock->name, .owner = hold->owner, .token = hold->token};
        if (kind == 2) {
            encode_hold_over(out, &key);
        } else {
            encode_release_if(out, &c);
        }
    } else {
        encode_wait_timeout(out, &(struct wait_timeout_command){
                                     .session = world->session[0],
                                     .owner = random_owner(world),
                                     .wait_index = recent_index(world)});
    }
}

static void random_blacklist(struct random_world *world, struct buffer *out)
{
    static const char *const patterns[] = {"c*", "c1", "*2", "none"};
    struct blacklist_add_command c = {.reason = BYTES_LITERAL("why")};
    if (one_in(world, 2)) {
        c.session = world->session[below(world, SESSION_COUNT)];
    } else {
        c.client = bytes_of_text(patterns[below(world, 4)]);
    }
    if (one_in(world, 3)) {
        encode_blacklist_add(out, &c);
    } else if (one_in(world, 2)) {
        encode_blacklist_remove(
            out, &(struct blacklist_remove_command){.session = c.session,
                                                    .client = c.client});
    } else {
        const struct blacklisting *entry = LIST_FIRST(
            lockfsm_blacklist(world->plain), struct blacklisting, in_order);
        encode_blacklist_over(
            out, &(struct blacklist_over_command){
                     .since_index = entry != NULL ? entry->since_index : 1});
    }
}

static void random_redis(struct random_world *world, struct buffer *out)
{
    struct bytes value = one_in(world, 2) ? BYTES_LITERAL("v")
                                          : BYTES_LITERAL("w");
    struct redis_set_command set = {.name = random_name(world),
                                    .value = value,
                                    .ttl_ms = 130,
                                    .px_ms = 100,
                                    .client = BYTES_LITERAL("redis")};
    struct redis_expire_command expire = {.name = random_name(world),
                                          .value = value,
                                          .ttl_ms = 255,
                                          .px_ms = 200};
    switch (below(world, 4)) {
    case 0:
        encode_redis_expire(out, &expire);
        break;
    case 1:
        encode_redis_delete(out, &(struct redis_delete_command){
                                     .name = set.name, .value = value});
        break;
    default:
        encode_redis_set(out, &set);
        break;
    }
}

static void random_open(struct random_world *world, struct buffer *out)
{
    static const char *const clients[] = {"c1", "c2", "d"};
    uint32_t who = below(world, SESSION_COUNT);
    struct open_command c = {.ttl_ms = 1000,
                             .name = bytes_of_text(clients[below(world, 3)])};
    if (lockfsm_session(world->plain, world->session[who]) == NULL) {
        world->session[who] = lockfsm_token_base(world->plain) + world->index +
                              1;
        world->req[who] = 0;
    }
    encode_open(out, &c);
}

static void random_expire(struct random_world *world, struct buffer *out)
{
    uint64_t sessions[2] = {world->session[below(world, SESSION_COUNT)],
                            world->session[below(world, SESSION_COUNT)]};
    const struct session *any = lockfsm_sessions(world->plain);
    if (any != NULL && any->is_redis && one_in(world, 2)) {
        sessions[0] = any->id;
    }
    encode_expire(
        out, &(struct expire_command){.sessions = sessions,
                                      .session_count = 1 + below(world, 2)});
}

static void random_time(struct random_world *world, uint64_t session,
                        struct buffer *out)
{
    uint64_t newest = lockfsm_clock_index(world->plain);
    uint64_t base = one_in(world, 4) ? recent_index(world) : newest;
    struct session_mark mark = {session, 100 * below(world, 200)};
    if (one_in(world, 3)) {
        struct begin_command begin = {.node = 1 + below(world, 3),
                                      .base_index = base,
                                      .elapsed_ms = below(world, 1200)};
        encode_begin(out, &begin);
        return;
    }
    encode_time(out, &(struct time_command){.base_index = base,
                                            .elapsed_ms = below(world, 1200),
                                            .marks = &mark,
                                            .mark_count = below(world, 2)});
}

static void random_other(struct random_world *world, struct buffer *out)
{
    struct origin origin = random_origin(world);
    switch (below(world, 8)) {
    case 4:
        encode_set_limit(out,
                         &(struct set_limit_command){
                             .origin = origin,
                             .key = (enum limit_key)below(world, LIMIT_COUNT),
                             .value = below(world, 9)});
        break;
    case 0:
        random_time(world, origin.session, out);
        break;
    case 6:
        encode_heard(out, &(struct heard_command){.sessions = &origin.session,
                                                  .session_count = 1});
        break;
    case 1:
        encode_please(out,
                      &(struct please_command){.origin = origin,
                                               .name = random_name(world),
                                               .message = BYTES_LITERAL("hi")});
        break;
    case 2:
        encode_close(out, &(struct close_command){.origin = origin});
        break;
    case 3:
        encode_register_node(out, &(struct register_node_command){
                                      .node = below(world, 3),
                                      .incarnation = below(world, 3),
                                      .added_index = recent_index(world)});
        break;
    default:
        encode_fence_admit(out, &(struct fence_admit_command){
                                    .origin = origin,
                                    .resource = random_name(world),
                                    .token = lockfsm_token_base(world->plain) +
                                             recent_index(world)});
        break;
    }
}

static void random_command(struct random_world *world)
{
    struct buffer *out = &world->command;
    struct origin origin = random_origin(world);
    uint32_t kind = below(world, 100);
    buffer_clear(out);
    world->asked.name_count = 0;
    if (kind < 40) {
        random_acquire(world, out);
    } else if (kind < 58) {
        random_release(world, out);
    } else if (kind < 66) {
        random_convert(world, out);
    } else if (kind < 70) {
        encode_cancel(out, &(struct cancel_command){
                               .origin = origin, .name = random_name(world)});
    } else if (kind < 78) {
        random_ending(world, out);
    } else if (kind < 81) {
        random_blacklist(world, out);
    } else if (kind < 87) {
        random_redis(world, out);
    } else if (kind < 92) {
        random_open(world, out);
    } else if (kind < 95) {
        random_expire(world, out);
    } else {
        random_other(world, out);
    }
}

/* --- No deadlock stands --------------------------------------------------- */

struct node {
    uint64_t session;
    struct bytes owner;
    bool can_end;
};

struct graph {
    struct node node[ASKER_MAX];
    uint32_t count;
};

static struct node *find_node(struct graph *graph, uint64_t session,
                              struct bytes owner)
{
    for (uint32_t i = 0; i < graph->count; i++) {
        if (graph->node[i].session == session &&
            bytes_equal(graph->node[i].owner, owner)) {
            return &graph->node[i];
        }
    }
    return NULL;
}

static bool is_stuck(struct graph *graph, uint64_t session, struct bytes owner)
{
    const struct node *node = find_node(graph, session, owner);
    return node != NULL && !node->can_end;
}

static bool are_compatible(enum lock_mode a, enum lock_mode b)
{
    return a == b && a != LOCK_EXCLUSIVE;
}

/* What a request waits for at one lock. */
struct place_asked {
    const struct lock *lock;
    const struct list *behind; /* Who stands before this node is ahead. */
    uint64_t session;
    struct bytes owner;
    enum lock_mode mode;
    uint32_t slots;
    bool is_upgrade;
};

/* True if it would be granted once all that can end have ended. */
static bool place_can_end(struct graph *graph, const struct place_asked *asked)
{
    uint64_t stuck_slots = 0;
    LIST_EACH (node, &asked->lock->holds) {
        const struct hold *hold = LIST_ENTRY(node, struct hold, in_lock);
        bool is_own = hold->session->id == asked->session &&
                      bytes_equal(hold->owner, asked->owner);
        if (is_own && !asked->is_upgrade) {
            return true;
        }
        if (is_own || !is_stuck(graph, hold->session->id, hold->owner)) {
            continue;
        }
        if (!are_compatible(asked->mode, hold->mode)) {
            return false;
        }
        stuck_slots += hold->mode == LOCK_SLOTS;
    }
    for (const struct list *at = asked->behind->prev; at != &asked->lock->queue;
         at = at->prev) {
        const struct wait *ahead = LIST_ENTRY(at, struct wait, in_lock);
        if (!is_stuck(graph, ahead->session->id, ahead->owner)) {
            continue;
        }
        if (!are_compatible(asked->mode, ahead->mode)) {
            return false;
        }
        stuck_slots += ahead->mode == LOCK_SLOTS;
    }
    return asked->mode != LOCK_SLOTS || stuck_slots < asked->slots;
}

/* The places that 'newcomer' would have taken at the ends. */
static bool new_places_can_end(struct graph *graph, const struct lockfsm *fsm,
                               const struct acquire_command *newcomer)
{
    for (uint32_t i = 0; i < newcomer->name_count; i++) {
        const struct lock *lock = lockfsm_lock(fsm, newcomer->names[i]);
        if (lock == NULL) {
            continue;
        }
        struct place_asked asked = {.lock = lock,
                                    .behind = &lock->queue,
                                    .session = newcomer->origin.session,
                                    .owner = newcomer->origin.owner,
                                    .mode = newcomer->mode,
                                    .slots = newcomer->slots};
        if (!place_can_end(graph, &asked)) {
            return false;
        }
    }
    return true;
}

static bool node_can_end(struct graph *graph, const struct lockfsm *fsm,
                         const struct node *node,
                         const struct acquire_command *newcomer)
{
    const struct session *session = lockfsm_session(fsm, node->session);
    LIST_EACH (at, &session->waits) {
        const struct wait *wait = LIST_ENTRY(at, struct wait, in_session);
        struct place_asked asked = {.lock = wait->lock,
                                    .behind = &wait->in_lock,
                                    .session = session->id,
                                    .owner = wait->owner,
                                    .mode = wait->mode,
                                    .slots = wait->slots,
                                    .is_upgrade = wait->is_upgrade};
        if (bytes_equal(wait->owner, node->owner) &&
            !place_can_end(graph, &asked)) {
            return false;
        }
    }
    return newcomer == NULL || newcomer->origin.session != node->session ||
           !bytes_equal(newcomer->origin.owner, node->owner) ||
           new_places_can_end(graph, fsm, newcomer);
}

static void add_node(struct graph *graph, uint64_t session, struct bytes owner)
{
    if (find_node(graph, session, owner) == NULL) {
        CHECK(graph->count < ASKER_MAX);
        graph->node[graph->count++] = (struct node){session, owner, false};
    }
}

/* True if some owner can never go on; with 'newcomer', if that one could
 * not. */
static bool deadlock_stands(const struct lockfsm *fsm,
                            const struct acquire_command *newcomer)
{
    struct graph graph = {.count = 0};
    if (newcomer != NULL) {
        add_node(&graph, newcomer->origin.session, newcomer->origin.owner);
    }
    for (const struct session *session = lockfsm_sessions(fsm); session != NULL;
         session = session->by_id.next) {
        LIST_EACH (at, &session->waits) {
            add_node(&graph, session->id,
                     LIST_ENTRY(at, struct wait, in_session)->owner);
        }
    }
    uint32_t left = graph.count;
    bool has_changed = true;
    while (has_changed) {
        has_changed = false;
        for (uint32_t i = 0; i < graph.count; i++) {
            if (!graph.node[i].can_end &&
                node_can_end(&graph, fsm, &graph.node[i], newcomer)) {
                graph.node[i].can_end = true;
                has_changed = true;
                left--;
            }
        }
    }
    return newcomer != NULL ? !graph.node[0].can_end : left > 0;
}

/* A MACQUIRE that waits, by an owner that holds one of its locks: should that
 * hold go first, it waits for this lock, too, and nobody has searched. Such
 * runs say nothing about deadlocks (lockfsm/README.md, "Odd cases"). */
static bool counts_on_a_hold(const struct lockfsm *fsm)
{
    for (const struct lock *lock = lockfsm_locks(fsm); lock != NULL;
         lock = lock->by_name.next) {
        LIST_EACH (node, &lock->queue) {
            const struct wait *wait = LIST_ENTRY(node, struct wait, in_lock);
            if (!wait->is_upgrade &&
                lockfsm_hold(fsm, lock, wait->session->id, wait->owner)) {
                return true;
            }
        }
    }
    return false;
}

/* --- A run ---------------------------------------------------------------- */

static void print_state(const struct lockfsm *fsm)
{
    for (const struct lock *lock = lockfsm_locks(fsm); lock != NULL;
         lock = lock->by_name.next) {
        print_message("lock %.*s slots=%" PRIu32 " delay=%" PRIu64 "\n",
                      (int)lock->name.size, (const char *)lock->name.data,
                      lock->slots, lock->delay_ms);
        LIST_EACH (node, &lock->holds) {
            const struct hold *hold = LIST_ENTRY(node, struct hold, in_lock);
            print_message("  hold %" PRIu64 "/%.*s %s token=%" PRIu64 "\n",
                          hold->session->id, (int)hold->owner.size,
                          (const char *)hold->owner.data,
                          lock_mode_name(hold->mode), hold->token);
        }
        LIST_EACH (node, &lock->queue) {
            const struct wait *wait = LIST_ENTRY(node, struct wait, in_lock);
            print_message("  wait %" PRIu64 "/%.*s %s place=%" PRIu64 "%s\n",
                          wait->session->id, (int)wait->owner.size,
                          (const char *)wait->owner.data,
                          lock_mode_name(wait->mode), wait->wait_index,
                          wait->is_upgrade ? " upgrade" : "");
        }
    }
}

static _Noreturn void fail_run(const struct random_world *world,
                               const char *what)
{
    print_state(world->plain);
    fail_msg("seed %" PRIu64 ", entry %" PRIu64 ": %s\n"
             "reproduce: SEED=%" PRIu64 " SEEDS=1 test_lockfsm_random",
             world->seed, world->index, what, world->seed);
    abort();
}

static void check_after(struct random_world *world)
{
    const char *wrong = lockfsm_check_basic(world->plain);
    if (wrong == NULL) {
        wrong = lockfsm_delta_check(world->delta, world->plain);
    }
    if (wrong != NULL) {
        fail_run(world, wrong);
    }
    world->has_gone_hold |= counts_on_a_hold(world->plain);
    if (!world->has_gone_hold && deadlock_stands(world->plain, NULL)) {
        fail_run(world, "a deadlock stands");
    }
    const struct result *result = &world->effects.effect[0].result;
    if (world->asked.name_count > 0 && world->asked.origin.req == 0 &&
        result->code == RESULT_DEADLOCK &&
        memchr(result->text.data, '>', result->text.size) != NULL) {
        world->refused_count++;
        if (!deadlock_stands(world->plain, &world->asked)) {
            fail_run(world, "refused for a deadlock that is none");
        }
    }
}

/* Equal in all that is told; pointers are compared by what they point to. */
static bool effects_are_equal(const struct effects *a, const struct effects *b)
{
    if (a->count != b->count) {
        return false;
    }
    for (uint32_t i = 0; i < a->count; i++) {
        const struct effect *x = &a->effect[i];
        const struct effect *y = &b->effect[i];
        const struct result *p = &x->result;
        const struct result *q = &y->result;
        if (x->type != y->type || x->session != y->session ||
            x->token != y->token || x->wait_index != y->wait_index ||
            x->asked_index != y->asked_index || x->time_ms != y->time_ms ||
            x->hold_ms != y->hold_ms || x->count != y->count ||
            !bytes_equal(x->lock, y->lock) ||
            !bytes_equal(x->owner, y->owner) ||
            !bytes_equal(x->text, y->text) || p->code != q->code ||
            p->token != q->token || p->count != q->count ||
            p->token_count != q->token_count ||
            !bytes_equal(p->text, q->text) ||
            (p->token_count > 0 &&
             memcmp(p->tokens, q->tokens, p->token_count * 8) != 0)) {
            return false;
        }
    }
    return true;
}

static void maybe_reload(struct random_world *world)
{
    char why[HASP_WHY_SIZE];
    if (one_in(world, 7)) {
        assert_int_equal(lockfsm_flush(world->reloaded, world->table), 0);
    } else if (one_in(world, 15)) {
        assert_int_equal(lockfsm_flush(world->reloaded, world->table), 0);
        lockfsm_free(world->reloaded);
        world->reloaded = lockfsm_new();
        if (lockfsm_load(world->reloaded, world->table, why) != 0) {
            fail_run(world, why);
        }
    }
    if (lockfsm_hash(world->plain) != lockfsm_hash(world->reloaded)) {
        fail_run(world, "a reloaded state has another hash");
    }
    if (one_in(world, 3) &&
        (lockfsm_digest(world->plain) != lockfsm_hash(world->plain) ||
         lockfsm_digest(world->reloaded) != lockfsm_hash(world->plain))) {
        fail_run(world, "the digest that is kept up is not that of the state");
    }
}

static void apply_both(struct random_world *world)
{
    struct bytes command = buffer_bytes(&world->command);
    world->index++;
    effects_clear(&world->effects);
    effects_clear(&world->other_effects);
    assert_int_equal(
        lockfsm_apply(world->plain, world->index, 1, command, &world->effects),
        0);
    assert_int_equal(lockfsm_apply(world->reloaded, world->index, 1, command,
                                   &world->other_effects),
                     0);
    if (!effects_are_equal(&world->effects, &world->other_effects)) {
        fail_run(world, "a reloaded state tells otherwise");
    }
    for (uint32_t i = 0; i < world->effects.count; i++) {
        const struct effect *effect = &world->effects.effect[i];
        if (effect->type == EFFECT_RESULT) {
            world->code_count[effect->result.code]++;
        }
    }
    buffer_put_run(&world->log, command);
}

/* The same log under another seed of the hash tables. */
static void check_other_seed(struct random_world *world)
{
    uint64_t hash = lockfsm_hash(world->plain);
    struct reader reader = reader_of(buffer_bytes(&world->log));
    lockfsm_free(world->plain);
    lockfsm_free(world->reloaded);
    lockfsm_delta_free(world->delta);
    world->reloaded = NULL;
    world->delta = NULL;
    hash_seed_set(world->seed * 77 + 1);
    world->plain = lockfsm_new();
    for (uint64_t i = 1; i <= world->index; i++) {
        effects_clear(&world->effects);
        assert_int_equal(lockfsm_apply(world->plain, i, 1, reader_run(&reader),
                                       &world->effects),
                         0);
    }
    if (lockfsm_hash(world->plain) != hash) {
        fail_run(world, "another hash seed gives another state");
    }
}

static void run_seed(uint64_t seed, uint32_t *code_count)
{
    struct random_world world = {.seed = seed, .table = table_new_memory()};
    hash_seed_set(seed);
    world.prng.state = seed;
    world.plain = lockfsm_new();
    world.reloaded = lockfsm_new();
    world.delta = lockfsm_delta_new();
    for (uint32_t i = 0; i < ENTRY_COUNT; i++) {
        if (i == 0) {
            struct begin_command begin = {.node = 1,
                                          .limits = small_limits.of,
                                          .limit_count = LIMIT_COUNT};
            encode_begin(&world.command, &begin);
        } else if (i <= SESSION_COUNT) {
            buffer_clear(&world.command);
            random_open(&world, &world.command);
        } else {
            random_command(&world);
        }
        apply_both(&world);
        check_after(&world);
        maybe_reload(&world);
    }
    check_other_seed(&world);
    for (uint32_t i = 0; i < 16; i++) {
        code_count[i] += world.code_count[i];
    }
    code_count[15] += world.refused_count;
    lockfsm_free(world.plain);
    table_close(world.table);
    effects_done(&world.effects);
    effects_done(&world.other_effects);
    buffer_done(&world.command);
    buffer_done(&world.log);
}

static uint64_t number_from(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text != NULL ? strtoull(text, NULL, 10) : otherwise;
}

static void any_order_of_operations_keeps_the_invariants(void **state)
{
    (void)state;
    uint64_t first = number_from("SEED", 1);
    uint64_t count = number_from("SEEDS", 300);
    uint32_t code_count[16] = {0};
    for (uint64_t seed = first; seed < first + count; seed++) {
        run_seed(seed, code_count);
    }
    if (count >= 100) {
        /* The runs would prove little if some answer never came. */
        for (int code = RESULT_OK; code <= RESULT_BAD_ARGUMENT; code++) {
            if (code != RESULT_NO_SESSION && code_count[code] < 50) {
                fail_msg("result %d came %" PRIu32 " times only", code,
                         code_count[code]);
            }
        }
        assert_in_range(code_count[15], 50, UINT32_MAX);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_order_of_operations_keeps_the_invariants),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
