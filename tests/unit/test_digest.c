/* SPDX-License-Identifier: MIT */

/* The digest of the state and the scrub (lockfsm/store/digest.c): damage in
 * memory or in the table is detected, and changes by entries are not mistaken
 * for damage. tests/property compares the digest with the hash of the whole
 * state after random operations. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "lockfsm/entry.h"
#include "lockfsm/lockfsm.h"
#include "lockfsm/user/access.h"
#include "storage/table.h"

#define LOCK_COUNT 20

struct world {
    struct lockfsm *fsm;
    struct table *table;
    struct effects effects;
    struct buffer command;
    uint64_t index;
    uint64_t session;
};

static void apply(struct world *world)
{
    encode_user(&world->command, USER_ANYONE);
    effects_clear(&world->effects);
    world->index++;
    assert_int_equal(lockfsm_apply(world->fsm, world->index, 1,
                                   buffer_bytes(&world->command),
                                   &world->effects),
                     0);
    buffer_clear(&world->command);
}

static void acquire(struct world *world, uint8_t number)
{
    struct bytes name = bytes_of(&number, 1);
    encode_acquire(&world->command, &(struct acquire_command){
                                        .origin = {.session = world->session},
                                        .names = &name,
                                        .name_count = 1});
    apply(world);
}

static void release(struct world *world, uint8_t number)
{
    struct bytes name = bytes_of(&number, 1);
    encode_release(&world->command, &(struct release_command){
                                        .origin = {.session = world->session},
                                        .names = &name,
                                        .name_count = 1});
    apply(world);
}

static void flush(struct world *world)
{
    assert_int_equal(lockfsm_flush(world->fsm, world->table), 0);
}

static int set_up(void **state)
{
    struct world *world = memory_new(sizeof *world);
    world->fsm = lockfsm_new();
    world->table = table_new_memory();
    encode_open(&world->command,
                &(struct open_command){.ttl_ms = 10000,
                                       .name = BYTES_LITERAL("client")});
    apply(world);
    world->session = world->effects.effect[0].result.token;
    for (uint8_t i = 1; i <= LOCK_COUNT; i++) {
        acquire(world, i);
    }
    flush(world);
    *state = world;
    return 0;
}

static int tear_down(void **state)
{
    struct world *world = *state;
    lockfsm_free(world->fsm);
    table_close(world->table);
    effects_done(&world->effects);
    buffer_done(&world->command);
    free(world);
    return 0;
}

static struct lock *lock_of(struct world *world, uint8_t number)
{
    return (struct lock *)lockfsm_lock(world->fsm, bytes_of(&number, 1));
}

/* The result of the scrub in 'steps' steps of ten records. */
static const char *scrub(struct world *world, int steps)
{
    const char *wrong = NULL;
    uint64_t looked_at = 0;
    for (int i = 0; i < steps && wrong == NULL; i++) {
        wrong = lockfsm_scrub(world->fsm, world->table, 10, &looked_at);
    }
    return wrong;
}

static void a_sound_state_is_not_complained_of(void **state)
{
    struct world *world = *state;
    for (int round = 0; round < 50; round++) {
        assert_null(scrub(world, 3));
        acquire(world, (uint8_t)(100 + round));
        assert_null(scrub(world, 3));
        release(world, (uint8_t)(1 + round % LOCK_COUNT));
        assert_true(lockfsm_digest(world->fsm) == lockfsm_hash(world->fsm));
        if (round % 7 == 0) {
            flush(world);
        }
    }
}

static void the_digest_is_that_of_what_was_loaded(void **state)
{
    struct world *world = *state;
    char why[HASP_WHY_SIZE];
    uint64_t digest = lockfsm_digest(world->fsm);
    struct lockfsm *other = lockfsm_new();
    assert_int_equal(lockfsm_load(other, world->table, why), 0);
    assert_true(lockfsm_digest(other) == digest);
    assert_true(lockfsm_hash(other) == digest);
    lockfsm_free(other);
}

static void every_entry_changes_it(void **state)
{
    struct world *world = *state;
    uint64_t before = lockfsm_digest(world->fsm);
    acquire(world, 200);
    uint64_t held = lockfsm_digest(world->fsm);
    assert_true(held != before);
    release(world, 200);
    assert_true(lockfsm_digest(world->fsm) != held);
    /* Entries that came and went leave their index and their serials. */
    assert_true(lockfsm_digest(world->fsm) != before);
    assert_true(lockfsm_digest(world->fsm) == lockfsm_hash(world->fsm));
}

/* Each bit of a number that decides about holds. */
static void a_flipped_bit_in_memory_is_found(void **state)
{
    struct world *world = *state;
    for (int bit = 0; bit < 52; bit++) {
        struct lock *lock = lock_of(world, (uint8_t)(1 + bit % LOCK_COUNT));
        struct hold *hold = LIST_FIRST(&lock->holds, struct hold, in_lock);
        hold->token ^= UINT64_C(1) << bit;
        assert_non_null(strstr(scrub(world, 10), "memory"));
        hold->token ^= UINT64_C(1) << bit;
        assert_null(scrub(world, 20));
    }
}

static void a_flipped_bit_in_a_name_is_found(void **state)
{
    struct world *world = *state;
    struct session *session = (struct session *)lockfsm_session(world->fsm,
                                                                world->session);
    ((uint8_t *)session->name.data)[3] ^= 0x10;
    assert_non_null(strstr(scrub(world, 10), "memory"));
}

/* It is in the list of what the next flush writes, with its share taken. */
static void damage_is_not_flushed(void **state)
{
    struct world *world = *state;
    acquire(world, 200);
    lockfsm_digest(world->fsm);
    lock_of(world, 200)->last_token ^= 4;
    assert_int_equal(lockfsm_flush(world->fsm, world->table), HASP_ECORRUPT);
}

static int flip_in_first(void *data, struct bytes key, struct bytes value)
{
    struct buffer *copies = data;
    buffer_put_bytes(&copies[0], key);
    buffer_put_bytes(&copies[1], value);
    return HASP_EEXIST; /* Ends the walk. */
}

/* In the byte at this distance from the end of the first record. */
static void flip_in_table(struct world *world, enum table_map map,
                          size_t from_end)
{
    struct buffer copies[2] = {{0}, {0}};
    struct table_txn *txn;
    assert_int_equal(table_begin_write(world->table, &txn), 0);
    assert_int_equal(
        table_walk(txn, map, (struct bytes){NULL, 0}, flip_in_first, copies),
        HASP_EEXIST);
    copies[1].data[copies[1].size - from_end] ^= 1;
    assert_int_equal(
        table_put(txn, map, buffer_bytes(&copies[0]), buffer_bytes(&copies[1])),
        0);
    assert_int_equal(table_commit(txn), 0);
    buffer_done(&copies[0]);
    buffer_done(&copies[1]);
}

static void a_flipped_bit_in_the_table_is_found(void **state)
{
    struct world *world = *state;
    assert_null(scrub(world, 10));
    flip_in_table(world, TABLE_HOLDS, 1);
    assert_non_null(strstr(scrub(world, 10), "table"));
}

/* The number before the user of a session's record, its newest heartbeat, may
 * have any value: only the sum detects a change. */
static void a_table_that_does_not_add_up_is_not_loaded(void **state)
{
    struct world *world = *state;
    char why[HASP_WHY_SIZE];
    struct lockfsm *other = lockfsm_new();
    flip_in_table(world, TABLE_SESSIONS, 3);
    assert_int_equal(lockfsm_load(other, world->table, why), HASP_ECORRUPT);
    assert_non_null(strstr(why, "digest"));
    lockfsm_free(other);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_sound_state_is_not_complained_of),
        TEST(the_digest_is_that_of_what_was_loaded),
        TEST(every_entry_changes_it),
        TEST(a_flipped_bit_in_memory_is_found),
        TEST(a_flipped_bit_in_a_name_is_found),
        TEST(damage_is_not_flushed),
        TEST(a_flipped_bit_in_the_table_is_found),
        TEST(a_table_that_does_not_add_up_is_not_loaded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
