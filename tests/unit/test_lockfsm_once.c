/* SPDX-License-Identifier: MIT */

/* Exactly once: the stored results of numbered requests, their expiry, and
 * proof that no request takes effect twice. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/memory.h"
#include "lockfsm/entry.h"
#include "lockfsm/lockfsm.h"
#include "lockfsm/user/access.h"
#include "storage/table.h"

/* --- Fixture -------------------------------------------------------------- */

struct world {
    struct lockfsm *fsm;
    struct table *table;
    struct effects effects;
    struct buffer command;
    uint64_t index;
    uint64_t session;
    uint64_t also[2]; /* Acknowledged beside 'acked', if not 0. */
};

static const struct result *apply(struct world *world)
{
    encode_user(&world->command, USER_ANYONE);
    effects_clear(&world->effects);
    world->index++;
    assert_int_equal(lockfsm_apply(world->fsm, world->index, 1,
                                   buffer_bytes(&world->command),
                                   &world->effects),
                     0);
    buffer_clear(&world->command);
    return &world->effects.effect[0].result;
}

static void check(const struct world *world)
{
    const char *wrong = lockfsm_check_basic(world->fsm);
    if (wrong != NULL) {
        fail_msg("%s", wrong);
    }
}

static int world_open(void **state)
{
    struct world *world = memory_new(sizeof *world);
    struct open_command c = {.ttl_ms = 10000};
    world->fsm = lockfsm_new();
    world->table = table_new_memory();
    encode_open(&world->command, &c);
    world->session = apply(world)->token;
    *state = world;
    return 0;
}

static int world_close(void **state)
{
    struct world *world = *state;
    check(world);
    lockfsm_free(world->fsm);
    table_close(world->table);
    effects_done(&world->effects);
    buffer_done(&world->command);
    free(world);
    return 0;
}

struct asked {
    const char *name;
    const char *owner;
    uint64_t req;
    uint64_t acked;
    bool is_waiting;
};

static struct origin origin_of(const struct world *world, struct asked asked)
{
    return (struct origin){
        .session = world->session,
        .owner = bytes_of_text(asked.owner != NULL ? asked.owner : ""),
        .req = asked.req,
        .acked = asked.acked,
        .also_acked = world->also,
        .also_acked_count = world->also[0] != 0 ? 1 : 0};
}

static enum result_code acquire(struct world *world, struct asked asked)
{
    struct bytes name = bytes_of_text(asked.name);
    struct acquire_command c = {.origin = origin_of(world, asked),
                                .names = &name,
                                .name_count = 1,
                                .is_waiting = asked.is_waiting};
    encode_acquire(&world->command, &c);
    return apply(world)->code;
}

static enum result_code release(struct world *world, struct asked asked)
{
    struct bytes name = bytes_of_text(asked.name);
    struct release_command c = {
        .origin = origin_of(world, asked), .names = &name, .name_count = 1};
    encode_release(&world->command, &c);
    return apply(world)->code;
}

static uint32_t result_count(const struct world *world)
{
    return lockfsm_session(world->fsm, world->session)->result_count;
}

static int add_size(void *data, struct bytes key, struct bytes value)
{
    *(size_t *)data += key.size + value.size;
    return 0;
}

/* Bytes of all records, which are those of a snapshot. */
static size_t state_size(struct world *world)
{
    struct table_txn *txn;
    size_t size = 0;
    assert_int_equal(lockfsm_flush(world->fsm, world->table), 0);
    assert_int_equal(table_begin_read(world->table, &txn), 0);
    for (int map = 0; map < TABLE_MAP_COUNT; map++) {
        assert_int_equal(table_walk(txn, (enum table_map)map,
                                    (struct bytes){NULL, 0}, add_size, &size),
                         0);
    }
    table_abort(txn);
    return size;
}

/* --- Very many owners ----------------------------------------------------- */

#define OWNER_COUNT 200000

/* One owner takes a lock, releases it, and disappears. */
static void one_owner(struct world *world, uint64_t first, bool is_acking)
{
    char tag[32];
    snprintf(tag, sizeof tag, "job-%llu", (unsigned long long)first);
    world->also[0] = is_acking && first > 2 ? 2 : 0;
    world->also[1] = first - 1;
    struct asked asked = {.name = "a", .owner = tag, .req = first};
    assert_int_equal(acquire(world, asked), RESULT_OK);
    world->also[0] = is_acking ? 2 : 0;
    world->also[1] = first;
    asked.req++;
    assert_int_equal(release(world, asked), RESULT_OK);
}

/* Number 1 waits all the time: it does not block the others. */
static void many_owners(struct world *world, bool is_acking)
{
    struct asked holder = {.name = "long", .owner = "holder"};
    struct asked waiter = {
        .name = "long", .owner = "waiter", .req = 1, .is_waiting = true};
    assert_int_equal(acquire(world, holder), RESULT_OK);
    assert_int_equal(acquire(world, waiter), RESULT_QUEUED);
    size_t size = 0;
    for (uint64_t i = 0; i < OWNER_COUNT; i++) {
        one_owner(world, 2 + 2 * i, is_acking);
        if (i == 2000) {
            size = state_size(world);
        }
    }
    assert_in_range(state_size(world), size, size + size / 10 + 64);
    check(world);
    world->also[0] = 0;
    assert_int_equal(lockfsm_session(world->fsm, world->session)->asker_count,
                     1);
    /* The long wait is joined as before. */
    assert_int_equal(acquire(world, waiter), RESULT_QUEUED);
}

/* A repeated request has no second effect. */
static void old_numbers_are_forgotten(struct world *world)
{
    for (uint64_t i = 0; i < 500; i++) {
        uint64_t first = 2 + 2 * (i * 397 % (OWNER_COUNT - 1000));
        char tag[32];
        snprintf(tag, sizeof tag, "job-%llu", (unsigned long long)first);
        struct asked asked = {.name = "a", .owner = tag, .req = first};
        assert_int_equal(acquire(world, asked), RESULT_FORGOTTEN);
        asked.owner = "somebody else";
        assert_int_equal(acquire(world, asked), RESULT_FORGOTTEN);
        assert_null(lockfsm_lock(world->fsm, BYTES_LITERAL("a")));
    }
}

static void many_owners_that_acknowledge_leave_one_number(void **state)
{
    struct world *world = *state;
    many_owners(world, true);
    assert_int_equal(result_count(world), 2); /* The wait's and the last. */
    assert_true(state_size(world) < 1000);
    old_numbers_are_forgotten(world);
}

static void many_owners_that_do_not_leave_the_newest_results(void **state)
{
    struct world *world = *state;
    many_owners(world, false);
    assert_int_equal(result_count(world), ANSWERED_COUNT_MAX + 1);
    old_numbers_are_forgotten(world);
    struct asked asked = {.name = "a", .owner = "job-400000", .req = 400001};
    assert_int_equal(release(world, asked), RESULT_OK);
}

/* --- Bounds --------------------------------------------------------------- */

static void the_oldest_unacknowledged_result_is_forgotten(void **state)
{
    struct world *world = *state;
    struct asked asked = {.name = "a"};
    for (asked.req = 1; asked.req <= ANSWERED_COUNT_MAX; asked.req++) {
        assert_int_equal(acquire(world, asked), RESULT_OK);
    }
    asked.req = 1;
    assert_int_equal(acquire(world, asked), RESULT_OK); /* As reported. */
    asked.req = ANSWERED_COUNT_MAX + 1;
    assert_int_equal(acquire(world, asked), RESULT_OK);
    assert_int_equal(result_count(world), ANSWERED_COUNT_MAX);
    asked.req = 1;
    assert_int_equal(acquire(world, asked), RESULT_FORGOTTEN);
    asked.req = 2;
    assert_int_equal(acquire(world, asked), RESULT_OK);
    assert_int_equal(lockfsm_hold(world->fsm,
                                  lockfsm_lock(world->fsm, BYTES_LITERAL("a")),
                                  world->session, (struct bytes){NULL, 0})
                         ->count,
                     ANSWERED_COUNT_MAX + 1);
}

static void what_comes_late_is_new_while_its_gap_is_remembered(void **state)
{
    struct world *world = *state;
    /* Every second number is late: ranges 2, 4, 6 ... */
    struct asked asked = {.name = "a"};
    for (asked.req = 2; asked.req <= 2 * SPENT_RANGE_MAX; asked.req += 2) {
        assert_int_equal(acquire(world, asked), RESULT_OK);
    }
    asked.req = 3;
    assert_int_equal(acquire(world, asked), RESULT_OK);
    check(world);
    for (asked.req = 2 * SPENT_RANGE_MAX + 2;
         asked.req <= 2 * SPENT_RANGE_MAX + 8; asked.req += 2) {
        assert_int_equal(acquire(world, asked), RESULT_OK);
    }
    check(world);
    /* If there are more gaps the lowest are given up: 5, 7 and 9. */
    static const uint64_t gone[] = {5, 7, 9};
    for (size_t i = 0; i < 3; i++) {
        asked.req = gone[i];
        assert_int_equal(acquire(world, asked), RESULT_FORGOTTEN);
    }
    asked.req = 11;
    assert_int_equal(acquire(world, asked), RESULT_OK);
    asked.req = 1; /* Not a gap: it is below all of them. */
    assert_int_equal(acquire(world, asked), RESULT_OK);
}

static void too_many_numbers_that_wait_are_refused(void **state)
{
    struct world *world = *state;
    struct asked asked = {.name = "a", .owner = "holder"};
    assert_int_equal(acquire(world, asked), RESULT_OK);
    asked.owner = "waiter";
    asked.is_waiting = true;
    for (asked.req = 1; asked.req <= WAITING_COUNT_MAX; asked.req++) {
        assert_int_equal(acquire(world, asked), RESULT_QUEUED);
    }
    assert_int_equal(acquire(world, asked), RESULT_LIMIT);
    asked.owner = "holder";
    asked.req = 0;
    assert_int_equal(release(world, asked), RESULT_OK);
    /* All numbers at that place have its result. */
    struct result result;
    for (uint64_t req = 1; req <= WAITING_COUNT_MAX; req++) {
        assert_true(
            lockfsm_kept_result(world->fsm, world->session, req, &result));
        assert_int_equal(result.code, RESULT_OK);
    }
}

/* A waiting request is acknowledged by a client that has given it up: its
 * result is dropped as soon as it exists. */
static void what_waits_is_kept_until_it_is_answered(void **state)
{
    struct world *world = *state;
    struct asked holder = {.name = "a", .owner = "holder"};
    struct asked waiter = {
        .name = "a", .owner = "waiter", .req = 1, .is_waiting = true};
    acquire(world, holder);
    assert_int_equal(acquire(world, waiter), RESULT_QUEUED);
    struct asked other = {.name = "b", .owner = "x", .req = 2, .acked = 1};
    assert_int_equal(acquire(world, other), RESULT_OK);
    assert_int_equal(acquire(world, waiter), RESULT_QUEUED);
    assert_int_equal(release(world, holder), RESULT_OK);
    assert_int_equal(acquire(world, waiter), RESULT_OK);
    other.req = 3;
    assert_int_equal(release(world, other), RESULT_OK);
    assert_int_equal(acquire(world, waiter), RESULT_FORGOTTEN);
}

/* --- The table ------------------------------------------------------------ */

/* Another state machine with what the table has. */
static struct lockfsm *loaded(struct world *world)
{
    char why[HASP_WHY_SIZE];
    struct lockfsm *fsm = lockfsm_new();
    assert_int_equal(lockfsm_flush(world->fsm, world->table), 0);
    assert_int_equal(lockfsm_load(fsm, world->table, why), 0);
    assert_true(lockfsm_hash(fsm) == lockfsm_hash(world->fsm));
    return fsm;
}

/* The next entry to be forgotten is the same after a start. */
static void a_loaded_state_forgets_the_same(void **state)
{
    struct world *world = *state;
    struct asked holder = {.name = "a", .owner = "holder"};
    acquire(world, holder);
    /* They wait, and are answered in another order than they were asked in. */
    struct asked asked = {.is_waiting = true};
    for (asked.req = 1; asked.req <= 40; asked.req++) {
        asked.name = asked.req % 2 == 0 ? "a" : "b";
        asked.owner = asked.req % 3 == 0 ? "x" : "y";
        (void)acquire(world, asked);
    }
    release(world, holder);
    asked = (struct asked){.name = "c"};
    for (asked.req = 100; asked.req < 100 + ANSWERED_COUNT_MAX - 20;
         asked.req++) {
        (void)acquire(world, asked);
    }
    struct lockfsm *original = world->fsm;
    struct lockfsm *copy = loaded(world);
    uint64_t index = world->index;
    uint64_t req = asked.req;
    for (int i = 0; i < 60; i++, req++) {
        asked.req = req;
        world->index = index;
        enum result_code code = acquire(world, asked);
        world->fsm = copy;
        world->index = index++;
        assert_int_equal(acquire(world, asked), code);
        world->fsm = original;
        assert_true(lockfsm_hash(copy) == lockfsm_hash(original));
    }
    lockfsm_free(copy);
}

static void acknowledged_results_leave_the_table(void **state)
{
    struct world *world = *state;
    size_t empty = state_size(world);
    struct asked asked = {.name = "a", .req = 1};
    acquire(world, asked);
    size_t with_one = state_size(world);
    asked = (struct asked){.name = "a", .req = 2, .acked = 1};
    release(world, asked);
    assert_true(state_size(world) <= with_one);
    asked = (struct asked){.name = "a", .req = 3, .acked = 2};
    release(world, asked);
    /* One result, and one range of numbers. */
    assert_in_range(state_size(world), empty, empty + 80);
    lockfsm_free(loaded(world));
}

#define TEST(name) \
    cmocka_unit_test_setup_teardown(name, world_open, world_close)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(many_owners_that_acknowledge_leave_one_number),
        TEST(many_owners_that_do_not_leave_the_newest_results),
        TEST(the_oldest_unacknowledged_result_is_forgotten),
        TEST(what_comes_late_is_new_while_its_gap_is_remembered),
        TEST(too_many_numbers_that_wait_are_refused),
        TEST(what_waits_is_kept_until_it_is_answered),
        TEST(a_loaded_state_forgets_the_same),
        TEST(acknowledged_results_leave_the_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
