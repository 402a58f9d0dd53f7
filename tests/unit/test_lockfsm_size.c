/* SPDX-License-Identifier: MIT */

/* LIMIT_STATE_SIZE: from four fifths of it on new objects are refused, releases
 * never are, and no request makes the state grow beyond it. */

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
#include "lockfsm/user/audit.h"

#define SIZE (64 * 1024)
#define GROWS_TO (SIZE - SIZE / 5)

struct world {
    struct lockfsm *fsm;
    struct effects effects;
    struct buffer command;
    uint64_t index;
};

static const struct result *apply_as(struct world *world, uint64_t user)
{
    encode_user(&world->command, user);
    effects_clear(&world->effects);
    assert_int_equal(lockfsm_apply(world->fsm, ++world->index, 1,
                                   buffer_bytes(&world->command),
                                   &world->effects),
                     0);
    buffer_clear(&world->command);
    const char *wrong = lockfsm_check_basic(world->fsm);
    if (wrong != NULL) {
        fail_msg("after entry %" PRIu64 ": %s", world->index, wrong);
    }
    return &world->effects.effect[0].result;
}

static const struct result *apply(struct world *world)
{
    return apply_as(world, USER_ANYONE);
}

static uint64_t size_now(const struct world *world)
{
    return lockfsm_limit_use(world->fsm, LIMIT_STATE_SIZE);
}

static int set_up(void **state)
{
    struct world *world = memory_new(sizeof *world);
    struct lockfsm_limits limits = lockfsm_default_limits;
    struct begin_command begin = {
        .node = 1, .limits = limits.of, .limit_count = LIMIT_COUNT};
    limits.of[LIMIT_STATE_SIZE] = SIZE;
    world->fsm = lockfsm_new();
    encode_begin(&world->command, &begin);
    apply(world);
    assert_in_range(size_now(world), 0, RECORD_SIZE); /* The member. */
    *state = world;
    return 0;
}

static int tear_down(void **state)
{
    struct world *world = *state;
    lockfsm_free(world->fsm);
    effects_done(&world->effects);
    buffer_done(&world->command);
    free(world);
    return 0;
}

static uint64_t open_session(struct world *world)
{
    struct open_command c = {.ttl_ms = 10000, .name = BYTES_LITERAL("me")};
    encode_open(&world->command, &c);
    const struct result *result = apply(world);
    return result->code == RESULT_OK ? result->token : 0;
}

static char value[2000];

static enum result_code acquire(struct world *world, struct origin origin,
                                int lock, bool is_waiting)
{
    char name[16];
    snprintf(name, sizeof name, "l%d", lock);
    struct bytes text = bytes_of_text(name);
    struct acquire_command c = {.origin = origin,
                                .names = &text,
                                .name_count = 1,
                                .is_waiting = is_waiting,
                                .value = bytes_of(value, sizeof value)};
    encode_acquire(&world->command, &c);
    return apply(world)->code;
}

static enum result_code release(struct world *world, struct origin origin,
                                int lock)
{
    char name[16];
    snprintf(name, sizeof name, "l%d", lock);
    struct bytes text = bytes_of_text(name);
    struct release_command c = {
        .origin = origin, .names = &text, .name_count = 1};
    encode_release(&world->command, &c);
    return apply(world)->code;
}

/* Takes locks until there is no room; returns how many. */
static int fill(struct world *world, uint64_t session)
{
    int count = 0;
    struct origin origin = {.session = session};
    while (acquire(world, origin, count, false) == RESULT_OK) {
        count++;
        assert_true(count < 1000);
    }
    assert_in_range(size_now(world), GROWS_TO - 2300, GROWS_TO);
    return count;
}

/* To the last byte that may grow. */
static void fill_up(struct world *world)
{
    for (size_t size = 511; size > 0; size--) {
        encode_fence_admit(
            &world->command,
            &(struct fence_admit_command){.origin = (struct origin){0},
                                          .resource = bytes_of(value, size),
                                          .token = 1});
        apply(world);
    }
    assert_in_range(size_now(world), GROWS_TO - RECORD_SIZE, GROWS_TO);
}

static void what_is_new_is_refused_and_what_gives_back_is_not(void **state)
{
    struct world *world = *state;
    uint64_t session = open_session(world);
    uint64_t other = open_session(world);
    struct origin me = {.session = session};
    struct origin him = {.session = other};
    struct bytes long_one = bytes_of(value, 500);
    assert_int_equal(acquire(world, him, 1000, false), RESULT_OK);
    int count = fill(world, session);
    assert_in_range(count, 20, 30);

    assert_int_equal(acquire(world, me, count, true), RESULT_LIMIT);
    assert_int_equal(acquire(world, him, 0, true), RESULT_LIMIT);
    while (size_now(world) < GROWS_TO - 600) {
        encode_fence_admit(&world->command, &(struct fence_admit_command){
                                                .origin = (struct origin){0},
                                                .resource = long_one,
                                                .token = 1});
        assert_int_equal(apply(world)->code, RESULT_OK);
        long_one.size--;
    }
    for (size_t size = 99; size_now(world) < GROWS_TO - 500; size--) {
        encode_fence_admit(
            &world->command,
            &(struct fence_admit_command){.origin = (struct origin){0},
                                          .resource = bytes_of(value, size),
                                          .token = 1});
        assert_int_equal(apply(world)->code, RESULT_OK);
    }
    encode_fence_admit(
        &world->command,
        &(struct fence_admit_command){
            .origin = me, .resource = bytes_of(value, 511), .token = 2});
    assert_int_equal(apply(world)->code, RESULT_LIMIT);
    struct redis_key set = {.name = BYTES_LITERAL("r"),
                            .change = REDIS_SET,
                            .new_value = bytes_of(value, 600),
                            .ttl_ms = 1255,
                            .px_ms = 1000};
    encode_redis(&world->command,
                 &(struct redis_command){.keys = &set, .key_count = 1});
    const struct result *result = apply(world);
    assert_int_equal(result->code, RESULT_LIMIT);
    assert_non_null(strstr((const char *)result->text.data, "state_size: "));

    /* Re-entry, and all releases. */
    assert_int_equal(acquire(world, me, 3, false), RESULT_OK);
    assert_int_equal(release(world, me, 3), RESULT_OK);
    assert_int_equal(release(world, me, 3), RESULT_OK);
    encode_set_limit(&world->command, &(struct set_limit_command){
                                          .key = LIMIT_LOCKS, .value = 5});
    assert_int_equal(apply_as(world, USER_LOCAL)->code, RESULT_OK);
    struct blacklist_add_command list = {.client = BYTES_LITERAL("x"),
                                         .reason = bytes_of(value, 1000)};
    encode_blacklist_add(&world->command, &list);
    assert_int_equal(apply(world)->code, RESULT_OK);
    encode_close(&world->command, &(struct close_command){.origin = him});
    assert_int_equal(apply(world)->code, RESULT_OK);
    encode_close(&world->command, &(struct close_command){.origin = me});
    assert_int_equal(apply(world)->code, RESULT_OK);
    assert_int_not_equal(open_session(world), 0);
}

/* With a number, whose result is stored, although the session that lost its
 * hold gets a note of it. */
static void releaseif_gives_back_in_a_full_state(void **state)
{
    struct world *world = *state;
    uint64_t session = open_session(world);
    struct origin him = {.session = open_session(world)};
    int count = fill(world, session);
    fill_up(world);
    for (int i = 0; i < count; i++) {
        char name[16];
        snprintf(name, sizeof name, "l%d", i);
        him.req++;
        struct bytes text = bytes_of_text(name);
        const struct lock *lock = lockfsm_lock(world->fsm, text);
        assert_non_null(lock);
        struct release_if_command c = {.origin = him,
                                       .name = text,
                                       .session = session,
                                       .token = lock->last_token};
        encode_release_if(&world->command, &c);
        uint64_t before = size_now(world);
        const struct result *result = apply(world);
        assert_int_equal(result->code, RESULT_OK);
        assert_int_equal(result->count, 1);
        assert_true(size_now(world) < before);
    }
}

/* A limit below the current size: nothing ends, and the state can shrink. */
static void a_limit_below_the_size_ends_nothing(void **state)
{
    struct world *world = *state;
    struct origin nobody = {0};
    encode_set_limit(&world->command,
                     &(struct set_limit_command){.origin = nobody,
                                                 .key = LIMIT_STATE_SIZE,
                                                 .value = 10 * SIZE});
    apply_as(world, USER_LOCAL);
    uint64_t session = open_session(world);
    struct origin me = {.session = session};
    for (int i = 0; i < 100; i++) {
        assert_int_equal(acquire(world, me, i, false), RESULT_OK);
    }
    encode_set_limit(&world->command,
                     &(struct set_limit_command){.origin = nobody,
                                                 .key = LIMIT_STATE_SIZE,
                                                 .value = SIZE});
    assert_int_equal(apply_as(world, USER_LOCAL)->code, RESULT_OK);
    assert_true(size_now(world) > 2 * SIZE);
    assert_int_equal(acquire(world, me, 100, false), RESULT_LIMIT);
    assert_int_equal(acquire(world, me, 7, false), RESULT_OK);
    for (int i = 0; i < 100; i++) {
        me.req = (uint64_t)i + 1;
        assert_int_equal(release(world, me, i), RESULT_OK);
    }
    me.req = 101;
    assert_int_equal(acquire(world, me, 100, false), RESULT_OK);
}

/* Refusals under numbers, releases of nothing under numbers, values that grow
 * while they wait. */
static void no_way_of_asking_passes_the_limit(void **state)
{
    struct world *world = *state;
    uint64_t session[20];
    for (int i = 0; i < 20; i++) {
        session[i] = open_session(world);
    }
    int count = fill(world, session[0]);
    uint64_t most = 0;
    for (uint64_t req = 1; req < 2000; req++) {
        struct origin origin = {.session = session[req % 20], .req = req};
        enum result_code code = req % 3 == 0
                                    ? acquire(world, origin, 9000, req % 2 == 0)
                                    : release(world, origin, 9000);
        assert_int_equal(code, req % 3 == 0 ? RESULT_LIMIT : RESULT_NOT_HELD);
        most = size_now(world) > most ? size_now(world) : most;
    }
    assert_true(most <= GROWS_TO + 3 * RECORD_SIZE);
    struct origin me = {.session = session[0]};
    for (int i = 0; i < count; i++) {
        me.req = (uint64_t)i + 1;
        assert_int_equal(release(world, me, i), RESULT_OK);
        assert_true(size_now(world) <= GROWS_TO + 3 * RECORD_SIZE);
    }
}

static void a_refused_request_may_be_repeated_when_there_is_room(void **state)
{
    struct world *world = *state;
    uint64_t session = open_session(world);
    struct origin other = {.session = open_session(world), .req = 1};
    struct origin me = {.session = session};
    fill(world, session);
    fill_up(world);
    assert_int_equal(acquire(world, other, 9000, false), RESULT_LIMIT);
    release(world, me, 0);
    release(world, me, 1);
    assert_int_equal(acquire(world, other, 9000, false), RESULT_OK);
    assert_int_equal(
        release(world, (struct origin){.session = other.session}, 9000),
        RESULT_OK);
    /* From now on this is the result of its number. */
    assert_int_equal(acquire(world, other, 9000, false), RESULT_OK);
    assert_null(lockfsm_lock(world->fsm, BYTES_LITERAL("l9000")));
}

/* Acts have a bound of their own: the oldest are dropped, and they leave the
 * room to others. */
static void the_newest_acts_are_kept(void **state)
{
    struct world *world = *state;
    uint64_t before = size_now(world);
    uint64_t first = lockfsm_last_act(world->fsm);
    for (uint64_t i = 1; i <= ACT_COUNT_MAX + 5; i++) {
        encode_set_limit(
            &world->command,
            &(struct set_limit_command){.key = LIMIT_BLACKLIST, .value = i});
        encode_user(&world->command, USER_LOCAL);
        entry_put(&world->command,
                  &(struct entry){.from = BYTES_LITERAL("10.0.0.1:5"),
                                  .by = BYTES_LITERAL("root"),
                                  .wall_ms = i});
        effects_clear(&world->effects);
        assert_int_equal(lockfsm_apply(world->fsm, ++world->index, 1,
                                       buffer_bytes(&world->command),
                                       &world->effects),
                         0);
        buffer_clear(&world->command);
    }
    const struct act *oldest = LIST_FIRST(lockfsm_acts(world->fsm), struct act,
                                          in_order);
    assert_null(lockfsm_check_basic(world->fsm));
    assert_int_equal(lockfsm_act_count(world->fsm), ACT_COUNT_MAX);
    assert_int_equal(lockfsm_last_act(world->fsm), first + ACT_COUNT_MAX + 5);
    assert_int_equal(oldest->number, first + 6);
    assert_int_equal(oldest->wall_ms, 6);
    assert_true(
        bytes_equal(oldest->what, BYTES_LITERAL("limit=blacklist value=6")));
    assert_int_equal(size_now(world), before);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(what_is_new_is_refused_and_what_gives_back_is_not),
        TEST(releaseif_gives_back_in_a_full_state),
        TEST(a_limit_below_the_size_ends_nothing),
        TEST(no_way_of_asking_passes_the_limit),
        TEST(the_newest_acts_are_kept),
        TEST(a_refused_request_may_be_repeated_when_there_is_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
