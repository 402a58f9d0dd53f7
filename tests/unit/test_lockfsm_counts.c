/* SPDX-License-Identifier: MIT */

/* Limits of the objects of administrators: they are exact, existing objects can
 * still be changed, and a removed one frees its place, except users, whose
 * numbers are never reused. Also counters that save a walk, and bounds that
 * keep entries small. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "lockfsm/entry.h"
#include "lockfsm/lockfsm.h"
#include "lockfsm/user/access.h"

struct world {
    struct lockfsm *fsm;
    struct effects effects;
    struct buffer command;
    uint64_t index;
};

static const struct result *apply(struct world *world)
{
    encode_user(&world->command, USER_LOCAL);
    effects_clear(&world->effects);
    assert_int_equal(lockfsm_apply(world->fsm, ++world->index, 1,
                                   buffer_bytes(&world->command),
                                   &world->effects),
                     0);
    buffer_clear(&world->command);
    return &world->effects.effect[0].result;
}

static int set_up(void **state)
{
    struct world *world = memory_new(sizeof *world);
    struct lockfsm_limits limits = lockfsm_default_limits;
    struct begin_command begin = {
        .node = 1, .limits = limits.of, .limit_count = LIMIT_COUNT};
    world->fsm = lockfsm_new();
    encode_begin(&world->command, &begin);
    apply(world);
    *state = world;
    return 0;
}

static int tear_down(void **state)
{
    struct world *world = *state;
    assert_null(lockfsm_check_basic(world->fsm));
    lockfsm_free(world->fsm);
    effects_done(&world->effects);
    buffer_done(&world->command);
    free(world);
    return 0;
}

/* Creates, changes or removes the one with that number. */
typedef const struct result *act_fn(struct world *world, uint32_t number);

static struct bytes name_of(uint32_t number)
{
    static char name[65];
    snprintf(name, sizeof name, "n%063" PRIu32, number);
    return bytes_of_text(name);
}

static const struct result *user_set(struct world *world, uint32_t number)
{
    struct user_set_command set = {.name = name_of(number),
                                   .is_disabled = true};
    encode_user_set(&world->command, &set);
    return apply(world);
}

static const struct result *user_remove(struct world *world, uint32_t number)
{
    struct user_remove_command remove = {.name = name_of(number)};
    encode_user_remove(&world->command, &remove);
    return apply(world);
}

static const struct result *role_set(struct world *world, uint32_t number)
{
    struct role_set_command set = {.name = name_of(number)};
    encode_role_set(&world->command, &set);
    return apply(world);
}

static const struct result *role_remove(struct world *world, uint32_t number)
{
    struct role_remove_command remove = {.name = name_of(number)};
    encode_role_remove(&world->command, &remove);
    return apply(world);
}

static const struct result *revoke(struct world *world, uint32_t number)
{
    struct cert_revoke_command revoke = {.subject = name_of(number)};
    memcpy(revoke.fingerprint, &number, sizeof number);
    revoke.fingerprint[FINGERPRINT_SIZE - 1] = 1;
    encode_cert_revoke(&world->command, &revoke);
    return apply(world);
}

static const struct result *secret_add(struct world *world, uint32_t number)
{
    struct secret_add_command add = {.name = name_of(0),
                                     .label = BYTES_LITERAL("label")};
    memcpy(add.hash, &number, sizeof number);
    add.hash[PROOF_SIZE - 1] = 1;
    encode_secret_add(&world->command, &add);
    return apply(world);
}

static void make_all(struct world *world, act_fn *make, uint32_t count,
                     const char *refusal)
{
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(make(world, i)->code, RESULT_OK);
    }
    const struct result *result = make(world, count);
    assert_int_equal(result->code, RESULT_LIMIT);
    assert_int_equal(result->text.size, strlen(refusal));
    assert_memory_equal(result->text.data, refusal, strlen(refusal));
    assert_int_equal(make(world, count - 1)->code, RESULT_OK); /* The same. */
}

static void users_are_counted_with_those_who_were_removed(void **state)
{
    struct world *world = *state;
    struct user_set_command again = {.is_reused = true};
    make_all(world, user_set, USER_COUNT_MAX, "users: at most 100000");
    assert_int_equal(user_remove(world, 5)->code, RESULT_OK);
    assert_int_equal(user_set(world, USER_COUNT_MAX + 1)->code, RESULT_LIMIT);
    again.name = name_of(5);
    encode_user_set(&world->command, &again);
    assert_int_equal(apply(world)->code, RESULT_OK);
}

static void a_removed_role_gives_its_place_back(void **state)
{
    struct world *world = *state;
    make_all(world, role_set, ROLE_COUNT_MAX, "roles: at most 1000");
    assert_int_equal(role_remove(world, 5)->code, RESULT_OK);
    assert_int_equal(role_set(world, ROLE_COUNT_MAX)->code, RESULT_OK);
    assert_int_equal(role_set(world, 5)->code, RESULT_LIMIT);
}

static void certificates_stay_revoked(void **state)
{
    struct world *world = *state;
    make_all(world, revoke, REVOKED_COUNT_MAX,
             "revoked certificates: at most 10000; create a new CA");
}

static void a_removed_secret_gives_its_place_back(void **state)
{
    struct world *world = *state;
    struct user_set_command set = {.name = name_of(0)};
    encode_user_set(&world->command, &set);
    assert_int_equal(apply(world)->code, RESULT_OK);
    uint64_t newest = 0;
    for (uint32_t i = 0; i < SECRET_COUNT_MAX; i++) {
        const struct result *result = secret_add(world, i);
        assert_int_equal(result->code, RESULT_OK);
        newest = result->token;
    }
    assert_int_equal(secret_add(world, 99)->code, RESULT_LIMIT);
    struct secret_remove_command remove = {.name = name_of(0),
                                           .number = newest};
    encode_secret_remove(&world->command, &remove);
    assert_int_equal(apply(world)->code, RESULT_OK);
    assert_int_equal(secret_add(world, 99)->code, RESULT_OK);
    assert_int_equal(secret_add(world, 100)->code, RESULT_LIMIT);
}

/* The first 'role_count' of the roles. */
static void give_roles(struct world *world, uint32_t user, uint32_t role_count)
{
    char names[USER_ROLE_COUNT_MAX][65];
    struct role_name roles[USER_ROLE_COUNT_MAX];
    const struct user *old = lockfsm_user_named(world->fsm, name_of(user));
    uint64_t changed = old != NULL ? old->changed : 0;
    for (uint32_t i = 0; i < role_count; i++) {
        memcpy(names[i], name_of(i).data, sizeof names[i]);
        roles[i].name = bytes_of_text(names[i]);
    }
    encode_user_set(&world->command,
                    &(struct user_set_command){.name = name_of(user),
                                               .is_disabled = true,
                                               .roles = roles,
                                               .role_count = role_count,
                                               .if_changed = changed});
    assert_int_equal(apply(world)->code, RESULT_OK);
}

static uint32_t have_role(const struct world *world, uint32_t role)
{
    return lockfsm_role(world->fsm, name_of(role))->user_count;
}

static void a_role_counts_who_have_it(void **state)
{
    struct world *world = *state;
    struct table *table = table_new_memory();
    char why[HASP_WHY_SIZE];
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(role_set(world, i)->code, RESULT_OK);
    }
    give_roles(world, 10, 3);
    give_roles(world, 11, 2);
    give_roles(world, 12, 3);
    assert_int_equal(have_role(world, 0), 3);
    assert_int_equal(have_role(world, 2), 2);
    give_roles(world, 12, 1);
    assert_int_equal(user_remove(world, 10)->code, RESULT_OK);
    for (int round = 0; round < 2; round++) {
        assert_int_equal(have_role(world, 0), 2);
        assert_int_equal(have_role(world, 1), 1);
        assert_int_equal(have_role(world, 2), 0);
        assert_null(lockfsm_check_basic(world->fsm));
        if (round == 0) {
            assert_int_equal(lockfsm_flush(world->fsm, table), 0);
            assert_int_equal(lockfsm_load(world->fsm, table, why), 0);
        }
    }
    const struct result *result = role_remove(world, 0);
    assert_int_equal(result->code, RESULT_BAD_ARGUMENT);
    assert_memory_equal(result->text.data, "the role is assigned to users: 2",
                        32);
    assert_int_equal(role_remove(world, 2)->code, RESULT_OK);
    assert_null(lockfsm_role(world->fsm, name_of(2)));
    table_close(table);
}

/* Nothing is left to SWEEP, unlike after a change to a role that very many
 * users may have. */
static void a_role_that_nobody_has_concerns_nobody(void **state)
{
    struct world *world = *state;
    uint32_t places;
    lockfsm_set_slice(world->fsm, 1);
    for (uint32_t i = 0; i < 20; i++) {
        give_roles(world, 10 + i, 0);
    }
    encode_open(&world->command, &(struct open_command){.ttl_ms = 10000});
    assert_int_equal(apply(world)->code, RESULT_OK);
    assert_int_equal(role_set(world, 0)->code, RESULT_OK);
    assert_false(lockfsm_has_left_over(world->fsm, &places));
    give_roles(world, 10, 1);
    struct role_set_command set = {
        .name = name_of(0),
        .grants = &(struct grant){.verbs = 1u << VERB_LOCK, .is_prefix = true},
        .grant_count = 1,
        .if_changed = lockfsm_role(world->fsm, name_of(0))->changed};
    encode_role_set(&world->command, &set);
    assert_int_equal(apply(world)->code, RESULT_OK);
    assert_true(lockfsm_has_left_over(world->fsm, &places));
}

/* The longest holders; one more entry asks the same ones. */
static void please_tells_so_many_at_most(void **state)
{
    struct world *world = *state;
    struct bytes name = BYTES_LITERAL("busy");
    struct please_command please = {.name = name};
    encode_open(&world->command, &(struct open_command){.ttl_ms = 10000});
    uint64_t session = apply(world)->token;
    for (uint32_t count = 1; count <= PLEASE_COUNT_MAX + 10; count++) {
        struct acquire_command acquire = {
            .origin = {.session = session, .owner = name_of(count)},
            .names = &name,
            .name_count = 1,
            .mode = LOCK_SHARED};
        encode_acquire(&world->command, &acquire);
        assert_int_equal(apply(world)->code, RESULT_OK);
        if (count < PLEASE_COUNT_MAX - 1) {
            continue;
        }
        encode_please(&world->command, &please);
        uint64_t told = count < PLEASE_COUNT_MAX ? count : PLEASE_COUNT_MAX;
        assert_int_equal(apply(world)->count, told);
        assert_int_equal(world->effects.count, 1 + told);
        struct bytes last = world->effects.effect[told].owner;
        assert_true(bytes_equal(last, name_of((uint32_t)told)));
    }
}

static uint64_t share(struct world *world, uint32_t owner)
{
    struct bytes name = BYTES_LITERAL("busy");
    encode_open(&world->command, &(struct open_command){.ttl_ms = 10000});
    uint64_t session = apply(world)->token;
    struct acquire_command acquire = {
        .origin = {.session = session, .owner = name_of(owner)},
        .names = &name,
        .name_count = 1,
        .mode = LOCK_SHARED};
    encode_acquire(&world->command, &acquire);
    return apply(world)->token;
}

static const struct result *release_if(struct world *world, uint32_t owner,
                                       uint64_t token)
{
    encode_release_if(&world->command, &(struct release_if_command){
                                           .name = BYTES_LITERAL("busy"),
                                           .owner = name_of(owner),
                                           .token = token});
    return apply(world);
}

/* For any number of readers. Beyond those checked, no session is reported as
 * not holding the lock. */
static void a_release_by_owner_looks_at_so_many(void **state)
{
    struct world *world = *state;
    uint64_t tokens[70];
    for (uint32_t i = 0; i < 5000; i++) {
        share(world, 100 + i);
    }
    for (uint32_t i = 0; i < 70; i++) {
        tokens[i] = share(world, 7);
    }
    assert_int_equal(release_if(world, 8, 0)->count, 0);
    assert_true(lockfsm_steps(world->fsm) < 10);
    assert_int_equal(release_if(world, 4000, 0)->count, 1);
    assert_int_equal(release_if(world, 7, 0)->code, RESULT_BAD_ARGUMENT);
    assert_true(lockfsm_steps(world->fsm) < 10);
    assert_int_equal(release_if(world, 7, tokens[5])->code,
                     RESULT_BAD_ARGUMENT);
    assert_int_equal(release_if(world, 7, tokens[69])->code,
                     RESULT_BAD_ARGUMENT);
    assert_true(lockfsm_steps(world->fsm) < 100);
    const struct lock *lock = lockfsm_lock(world->fsm, BYTES_LITERAL("busy"));
    for (uint32_t i = 10; i < 16; i++) {
        struct hold *hold = LIST_ENTRY(lock->holds.prev, struct hold, in_lock);
        encode_close(
            &world->command,
            &(struct close_command){.origin = {.session = hold->session->id}});
        apply(world);
    }
    assert_int_equal(release_if(world, 7, tokens[69])->count, 0);
    assert_int_equal(release_if(world, 7, tokens[63])->count, 1);
    assert_int_equal(release_if(world, 7, tokens[0])->count, 1);
    assert_int_equal(release_if(world, 7, tokens[0])->count, 0);
    assert_int_equal(lock->hold_count, 4999 + 62);
}

static uint64_t share_durably(struct world *world)
{
    struct bytes name = BYTES_LITERAL("busy");
    encode_open(&world->command, &(struct open_command){.is_durable = true});
    uint64_t session = apply(world)->token;
    struct acquire_command acquire = {.origin = {.session = session},
                                      .names = &name,
                                      .name_count = 1,
                                      .mode = LOCK_SHARED};
    encode_acquire(&world->command, &acquire);
    assert_int_equal(apply(world)->code, RESULT_OK);
    return session;
}

static const struct result *announce_break(struct world *world,
                                           uint64_t session)
{
    encode_break_holds(&world->command, &(struct break_holds_command){
                                            .name = BYTES_LITERAL("busy"),
                                            .after_ms = 1000,
                                            .session = session});
    return apply(world);
}

/* Beyond the limit, the request has to name a session. */
static void a_break_looks_at_so_many_holds(void **state)
{
    struct world *world = *state;
    uint64_t session = 0;
    for (uint32_t i = 0; i < BREAK_LOOK_MAX; i++) {
        session = share_durably(world);
    }
    assert_int_equal(announce_break(world, 0)->count, BREAK_LOOK_MAX);
    assert_int_equal(announce_break(world, session)->count, 1);
    share_durably(world);
    const struct result *result = announce_break(world, 0);
    assert_int_equal(result->code, RESULT_BAD_ARGUMENT);
    assert_true(lockfsm_steps(world->fsm) < 10);
    assert_int_equal(announce_break(world, session)->count, 1);
    assert_true(lockfsm_steps(world->fsm) < 10);
}

int main(void)
{
#define one(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        one(users_are_counted_with_those_who_were_removed),
        one(a_removed_role_gives_its_place_back),
        one(certificates_stay_revoked),
        one(a_removed_secret_gives_its_place_back),
        one(a_role_counts_who_have_it),
        one(a_role_that_nobody_has_concerns_nobody),
        one(please_tells_so_many_at_most),
        one(a_release_by_owner_looks_at_so_many),
        one(a_break_looks_at_so_many_holds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
