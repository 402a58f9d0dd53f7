/* SPDX-License-Identifier: MIT */

/* Feature levels: a version never silently applies an entry that it does not
 * know, and refuses an entry that the cluster's level does not allow yet. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "lockfsm/entry.h"
#include "lockfsm/feature.h"
#include "lockfsm/lockfsm.h"
#include "lockfsm/user/access.h"
#include "storage/table.h"

/* Kinds of base/codec.c; numbers and tags in lockfsm/entry.def. */
enum { WIRE_VARINT = 0, WIRE_BYTES = 2 };
enum { OP_OF_TOMORROW = 4000 };
enum { FIELD_OF_TOMORROW = 3000 };

struct world {
    struct lockfsm *fsm;
    struct effects effects;
    struct buffer command;
    uint64_t index;
};

static int world_open(void **state)
{
    struct world *world = memory_new(sizeof *world);
    world->fsm = lockfsm_new();
    *state = world;
    return 0;
}

static int world_close(void **state)
{
    struct world *world = *state;
    lockfsm_free(world->fsm);
    effects_done(&world->effects);
    buffer_done(&world->command);
    free(world);
    return 0;
}

/* --- Helpers -------------------------------------------------------------- */

static void put_varint(struct buffer *out, uint64_t value)
{
    for (; value >= 0x80; value >>= 7) {
        buffer_put_u8(out, (uint8_t)(value | 0x80));
    }
    buffer_put_u8(out, (uint8_t)value);
}

static void put_number(struct buffer *out, uint32_t field, uint64_t value)
{
    put_varint(out, (uint64_t)field << 3 | WIRE_VARINT);
    put_varint(out, value);
}

/* A message that consists of 'body'; which is emptied. */
static void put_message(struct buffer *out, uint32_t field, struct buffer *body)
{
    put_varint(out, (uint64_t)field << 3 | WIRE_BYTES);
    put_varint(out, body->size);
    buffer_put_bytes(out, buffer_bytes(body));
    buffer_done(body);
    *body = (struct buffer){0};
}

static int apply_as_it_is(struct world *world)
{
    effects_clear(&world->effects);
    int error = lockfsm_apply(world->fsm, world->index + 1, 1,
                              buffer_bytes(&world->command), &world->effects);
    world->index += error == 0;
    buffer_clear(&world->command);
    assert_null(lockfsm_check_basic(world->fsm));
    return error;
}

static int apply(struct world *world)
{
    encode_user(&world->command, USER_ANYONE);
    return apply_as_it_is(world);
}

static const struct result *result(const struct world *world)
{
    return &world->effects.effect[0].result;
}

static const uint8_t cluster_id[CLUSTER_ID_SIZE] = {1, 2, 3};

static int begin(struct world *world, uint32_t level)
{
    struct begin_command c = {
        .node = 1,
        .cluster_id = bytes_of(cluster_id, sizeof cluster_id),
        .token_base = 5000,
        .feature_level = level};
    encode_begin(&world->command, &c);
    return apply(world);
}

/* The command is not applied by this version: nothing changes. */
static void expect_too_old(struct world *world)
{
    uint64_t hash = lockfsm_hash(world->fsm);
    uint64_t index = lockfsm_applied_index(world->fsm);
    assert_int_equal(apply_as_it_is(world), HASP_ETOOOLD);
    assert_int_equal(world->effects.count, 0);
    assert_true(lockfsm_hash(world->fsm) == hash);
    assert_int_equal(lockfsm_applied_index(world->fsm), index);
}

/* --- Tests ---------------------------------------------------------------- */

static void an_unknown_entry_is_not_applied(void **state)
{
    struct world *world = *state;
    struct buffer body = {0};
    put_number(&body, 1, 7);
    put_message(&world->command, OP_OF_TOMORROW, &body);
    expect_too_old(world);
}

static void an_unknown_field_of_an_entry_is_not_applied(void **state)
{
    struct world *world = *state;
    struct buffer body = {0};
    put_number(&body, 2, 10000); /* ttl_ms */
    put_number(&body, FIELD_OF_TOMORROW, 1);
    put_message(&world->command, OP_OPEN, &body);
    expect_too_old(world);

    /* Next to the entry. */
    struct open_command c = {.ttl_ms = 10000};
    encode_open(&world->command, &c);
    put_number(&world->command, FIELD_OF_TOMORROW, 1);
    expect_too_old(world);

    /* In a message of it, and in one of several. */
    struct buffer origin = {0};
    put_number(&origin, FIELD_OF_TOMORROW, 0);
    put_message(&body, 3, &origin);
    put_message(&world->command, OP_PLEASE, &body);
    expect_too_old(world);
    struct buffer mark = {0};
    put_number(&mark, 1, 4);
    put_message(&body, 3, &mark);
    put_number(&mark, FIELD_OF_TOMORROW, 4);
    put_message(&body, 3, &mark);
    put_message(&world->command, OP_TIME, &body);
    expect_too_old(world);

    encode_open(&world->command, &c);
    assert_int_equal(apply(world), 0);
    assert_int_equal(result(world)->code, RESULT_OK);
}

static void damage_is_told_from_novelty(void **state)
{
    struct world *world = *state;
    assert_int_equal(apply(world), HASP_ECORRUPT); /* Empty. */
    buffer_put_text(&world->command, "\x0a\x7f");
    assert_int_equal(apply(world), HASP_ECORRUPT);
}

static void a_level_above_its_own_stops_a_node(void **state)
{
    struct world *world = *state;
    assert_int_equal(lockfsm_feature_level(world->fsm), FEATURE_LEVEL_FIRST);
    encode_set_feature(&world->command, &(struct set_feature_command){
                                            .level = FEATURE_LEVEL + 1});
    expect_too_old(world);
    encode_set_feature(&world->command,
                       &(struct set_feature_command){.level = FEATURE_LEVEL});
    assert_int_equal(apply(world), 0);
    assert_int_equal(result(world)->count, FEATURE_LEVEL);

    assert_int_equal(begin(world, FEATURE_LEVEL + 1), HASP_ETOOOLD);
    lockfsm_set_node_level(world->fsm, FEATURE_LEVEL + 1);
    encode_set_feature(&world->command, &(struct set_feature_command){
                                            .level = FEATURE_LEVEL + 1});
    assert_int_equal(apply(world), 0);
    encode_set_feature(&world->command,
                       &(struct set_feature_command){.level = FEATURE_LEVEL});
    assert_int_equal(apply(world), 0);
    assert_int_equal(result(world)->count, FEATURE_LEVEL + 1);
}

static void a_cluster_begins_with_the_level_of_its_founders(void **state)
{
    struct world *world = *state;
    lockfsm_set_node_level(world->fsm, 9);
    assert_int_equal(begin(world, 4), 0);
    assert_int_equal(lockfsm_feature_level(world->fsm), 4);
    /* Later leaders' BEGINs begin no life, whatever their level. */
    lockfsm_set_node_level(world->fsm, 4);
    assert_int_equal(begin(world, 5), 0);
    assert_int_equal(lockfsm_feature_level(world->fsm), 4);
    /* Restoring a backup does not finalize anything. */
    lockfsm_new_life(world->fsm, 0);
    assert_int_equal(begin(world, 6), 0);
    assert_int_equal(lockfsm_feature_level(world->fsm), 4);
}

static void a_state_of_a_higher_level_is_not_loaded(void **state)
{
    struct world *world = *state;
    struct table *table = table_new_memory();
    char why[HASP_WHY_SIZE] = "";
    lockfsm_set_node_level(world->fsm, FEATURE_LEVEL + 1);
    assert_int_equal(begin(world, FEATURE_LEVEL + 1), 0);
    assert_int_equal(lockfsm_flush(world->fsm, table), 0);
    struct lockfsm *older = lockfsm_new();
    assert_int_equal(lockfsm_load(older, table, why), HASP_ETOOOLD);
    assert_non_null(strstr(why, "upgrade"));
    lockfsm_set_node_level(older, FEATURE_LEVEL + 1);
    assert_int_equal(lockfsm_load(older, table, why), 0);
    assert_int_equal(lockfsm_feature_level(older), FEATURE_LEVEL + 1);
    lockfsm_free(older);
    table_close(table);
}

static int append_field(void *data, struct bytes key, struct bytes value)
{
    struct buffer *record = data;
    (void)key;
    buffer_clear(record);
    buffer_put_bytes(record, value);
    put_number(record, FIELD_OF_TOMORROW, 1);
    return 0;
}

static void an_unknown_field_of_a_record_is_corruption(void **state)
{
    struct world *world = *state;
    struct table *table = table_new_memory();
    struct table_txn *txn;
    struct buffer record = {0};
    char why[HASP_WHY_SIZE] = "";
    assert_int_equal(begin(world, 0), 0);
    assert_int_equal(lockfsm_flush(world->fsm, table), 0);
    assert_int_equal(lockfsm_load(world->fsm, table, why), 0);
    const uint8_t node1[8] = {0, 0, 0, 0, 0, 0, 0, 1};
    assert_int_equal(table_begin_write(table, &txn), 0);
    assert_int_equal(table_walk(txn, TABLE_MEMBERS, (struct bytes){NULL, 0},
                                append_field, &record),
                     0);
    assert_int_equal(table_put(txn, TABLE_MEMBERS,
                               bytes_of(node1, sizeof node1),
                               buffer_bytes(&record)),
                     0);
    assert_int_equal(table_commit(txn), 0);
    assert_int_equal(lockfsm_load(world->fsm, table, why), HASP_ECORRUPT);
    buffer_done(&record);
    table_close(table);
}

#ifdef HASP_FEATURE_LEVEL_EXTRA

/* An entry of that level, or a field of that level in an existing one. */
static void put_trial(struct world *world, bool is_field)
{
    if (is_field) {
        encode_please(
            &world->command,
            &(struct please_command){.name = BYTES_LITERAL("a"), .trial = 1});
    } else {
        encode_trial(&world->command, &(struct trial_command){.step = 1});
    }
}

static void expect_level(struct world *world, uint32_t level, const char *named)
{
    struct arena arena = {0};
    struct entry entry;
    struct codec_level read, checked;
    assert_true(
        entry_get(buffer_bytes(&world->command), &arena, &entry, &read));
    assert_int_equal(read.level, level);
    assert_string_equal(read.what, named);
    assert_true(entry_check(&entry, &checked));
    assert_int_equal(checked.level, level);
    assert_string_equal(checked.what, named);
    arena_done(&arena);
}

static void what_the_level_forbids_is_refused(void **state)
{
    struct world *world = *state;
    for (int i = 0; i < 2; i++) {
        bool is_field = i == 1;
        put_trial(world, is_field);
        expect_level(world, 2,
                     is_field ? "RAFT.TRIAL with a name" : "RAFT.TRIAL");
        assert_int_equal(apply(world), 0);
        assert_int_equal(result(world)->code, RESULT_LEVEL);
        assert_int_equal(world->effects.count, 1);
    }
    struct origin nobody = {0};
    encode_please(
        &world->command,
        &(struct please_command){.origin = nobody, .name = BYTES_LITERAL("a")});
    expect_level(world, 1, "");
    assert_int_equal(apply(world), 0);
    assert_int_equal(result(world)->code, RESULT_OK);

    encode_set_feature(&world->command,
                       &(struct set_feature_command){.level = 2});
    assert_int_equal(apply(world), 0);
    put_trial(world, false);
    assert_int_equal(apply(world), 0);
    assert_int_equal(result(world)->count, 1);
    put_trial(world, true);
    assert_int_equal(apply(world), 0);
    assert_int_equal(result(world)->code, RESULT_OK);
}

static void a_node_of_the_old_level_does_not_apply_what_is_new(void **state)
{
    struct world *world = *state;
    lockfsm_set_node_level(world->fsm, 1);
    put_trial(world, false);
    expect_too_old(world);
    put_trial(world, true);
    expect_too_old(world);
}

#endif

#define TEST(name) \
    cmocka_unit_test_setup_teardown(name, world_open, world_close)

/* These numbers decide what entries do. If one changes after a release, it
 * needs a level of its own (lockfsm/feature.h): a node with another number
 * would have another state. */
static void the_numbers_of_level_1_stay(void **state)
{
    (void)state;
    assert_int_equal(SLICE_DEFAULT, 400);
    assert_int_equal(DEADLOCK_STEP_MAX, 10000);
    assert_int_equal(PLEASE_COUNT_MAX, 1000);
    assert_int_equal(BREAK_LOOK_MAX, 1000);
    assert_int_equal(ANSWERED_COUNT_MAX, 1024);
    assert_int_equal(SPENT_RANGE_MAX, 64);
    assert_int_equal(WAITING_COUNT_MAX, 64);
    assert_int_equal(ENDED_COUNT_MAX, 64);
    assert_int_equal(REMOVED_COUNT_MAX, 64);
    assert_int_equal(CLOCK_STEP_MS_MAX, 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(an_unknown_entry_is_not_applied),
        TEST(the_numbers_of_level_1_stay),
        TEST(an_unknown_field_of_an_entry_is_not_applied),
        TEST(damage_is_told_from_novelty),
        TEST(a_level_above_its_own_stops_a_node),
        TEST(a_cluster_begins_with_the_level_of_its_founders),
        TEST(a_state_of_a_higher_level_is_not_loaded),
        TEST(an_unknown_field_of_a_record_is_corruption),
#ifdef HASP_FEATURE_LEVEL_EXTRA
        TEST(what_the_level_forbids_is_refused),
        TEST(a_node_of_the_old_level_does_not_apply_what_is_new),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
