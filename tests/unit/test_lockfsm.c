/* SPDX-License-Identifier: MIT */

/* The state machine's bounds, hostile input, flushing and loading. The
 * transcripts (test_fsm.c) test the meaning of the operations, tests/property
 * the invariants under any order of operations. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "base/memory.h"
#include "lockfsm/entry.h"
#include "lockfsm/lockfsm.h"
#include "lockfsm/user/access.h"
#include "storage/table.h"
#include "tests/unit/lockfsm_delta.h"
/* --- Fixture -------------------------------------------------------------- */

struct world {
    struct lockfsm *fsm;
    struct table *table;
    struct effects effects;
    struct buffer command;
    uint64_t index;
};

static int world_open(void **state)
{
    struct world *world = memory_new(sizeof *world);
    world->fsm = lockfsm_new();
    world->table = table_new_memory();
    *state = world;
    return 0;
}

static int world_close(void **state)
{
    struct world *world = *state;
    lockfsm_free(world->fsm);
    table_close(world->table);
    effects_done(&world->effects);
    buffer_done(&world->command);
    free(world);
    return 0;
}

/* --- Helpers -------------------------------------------------------------- */

/* Applies the encoded command; its result is borrowed until the next. */
static const struct result *apply_as(struct world *world, uint64_t user)
{
    encode_user(&world->command, user);
    effects_clear(&world->effects);
    world->index++;
    assert_int_equal(lockfsm_apply(world->fsm, world->index, 1,
                                   buffer_bytes(&world->command),
                                   &world->effects),
                     0);
    buffer_clear(&world->command);
    const char *wrong = lockfsm_check_basic(world->fsm);
    if (wrong != NULL) {
        fail_msg("%s", wrong);
    }
    assert_true(world->effects.count > 0);
    assert_int_equal(world->effects.effect[0].type, EFFECT_RESULT);
    return &world->effects.effect[0].result;
}

static const struct result *apply(struct world *world)
{
    return apply_as(world, USER_ANYONE);
}

static const struct result *apply_message(struct world *world,
                                          const struct entry *command)
{
    buffer_clear(&world->command);
    entry_put(&world->command, command);
    return apply(world);
}

static uint64_t open_session(struct world *world)
{
    struct open_command c = {.ttl_ms = 10000};
    encode_open(&world->command, &c);
    const struct result *result = apply(world);
    assert_int_equal(result->code, RESULT_OK);
    return result->token;
}

struct asked {
    uint64_t session;
    const char *owner;
    const char *name;
    uint64_t req;
    bool is_waiting;
};

static const struct result *acquire(struct world *world, struct asked asked)
{
    struct bytes name = bytes_of_text(asked.name);
    struct acquire_command c = {
        .origin = {.session = asked.session, .req = asked.req},
        .names = &name,
        .name_count = 1,
        .is_waiting = asked.is_waiting};
    if (asked.owner != NULL) {
        c.origin.owner = bytes_of_text(asked.owner);
    }
    encode_acquire(&world->command, &c);
    return apply(world);
}

static const struct result *release(struct world *world, uint64_t session,
                                    const char *text)
{
    struct bytes name = bytes_of_text(text);
    struct release_command c = {
        .origin = {.session = session}, .names = &name, .name_count = 1};
    encode_release(&world->command, &c);
    return apply(world);
}

static void expire(struct world *world, uint64_t session)
{
    encode_expire(
        &world->command,
        &(struct expire_command){.sessions = &session, .session_count = 1});
    apply(world);
}

static void flush(struct world *world)
{
    assert_int_equal(lockfsm_flush(world->fsm, world->table), 0);
}

static int count_visit(void *data, struct bytes key, struct bytes value)
{
    (void)key;
    (void)value;
    (*(uint32_t *)data)++;
    return 0;
}

static uint32_t record_count(struct world *world, enum table_map map)
{
    struct table_txn *txn;
    uint32_t count = 0;
    assert_int_equal(table_begin_read(world->table, &txn), 0);
    assert_int_equal(
        table_walk(txn, map, (struct bytes){NULL, 0}, count_visit, &count), 0);
    table_abort(txn);
    return count;
}

/* --- Entries -------------------------------------------------------------- */

static void assert_corrupt(struct world *world, const void *data, size_t size)
{
    uint64_t hash = lockfsm_hash(world->fsm);
    assert_int_equal(lockfsm_apply(world->fsm, world->index + 1, 1,
                                   bytes_of(data, size), &world->effects),
                     HASP_ECORRUPT);
    assert_true(lockfsm_hash(world->fsm) == hash);
}

static void damaged_commands_are_corruption(void **state)
{
    struct world *world = *state;
    assert_corrupt(world, "", 0);
    assert_corrupt(world, "\xff\xff\xff", 3);
    open_session(world);
    struct asked asked = {.session = world->index, .name = "a"};
    struct bytes name = bytes_of_text(asked.name);
    struct acquire_command c = {
        .origin = {.session = asked.session}, .names = &name, .name_count = 1};
    encode_acquire(&world->command, &c);
    for (size_t size = 1; size < world->command.size; size++) {
        assert_corrupt(world, world->command.data, size);
    }
}

static void skipping_moves_only_the_applied_index(void **state)
{
    struct world *world = *state;
    open_session(world);
    lockfsm_skip(world->fsm, 2, 3);
    assert_int_equal(lockfsm_applied_index(world->fsm), 2);
    assert_int_equal(lockfsm_applied_term(world->fsm), 3);
    world->index = 6;
    assert_int_equal(open_session(world), 7);
}

/* Only the newest ones. */
static void removed_members_are_remembered(void **state)
{
    struct world *world = *state;
    struct removal removal;
    for (uint64_t node = 2; node < REMOVED_COUNT_MAX + 4; node++) {
        struct lockfsm_member named[] = {{1, 11}, {node, 100 + node}};
        uint64_t index = lockfsm_applied_index(world->fsm) + 1;
        lockfsm_change(world->fsm, index, 1, named, 2);
        assert_false(lockfsm_removal(world->fsm, node, &removal));
    }
    assert_false(lockfsm_removal(world->fsm, 2, &removal));
    assert_false(lockfsm_removal(world->fsm, 1, &removal));
    assert_true(lockfsm_removal(world->fsm, 3, &removal));
    assert_int_equal(removal.log_index, 3);
    assert_true(lockfsm_removal(world->fsm, REMOVED_COUNT_MAX + 2, &removal));
    assert_int_equal(removal.incarnation, 102 + REMOVED_COUNT_MAX);
    assert_null(lockfsm_check_basic(world->fsm));
}

static void who_comes_back_leaves_room_for_others_removed(void **state)
{
    struct world *world = *state;
    struct removal removal;
    uint64_t index = lockfsm_applied_index(world->fsm);
    for (uint32_t i = 0; i <= REMOVED_COUNT_MAX; i++) {
        struct lockfsm_member named[] = {{1, 11}, {2, 200 + i}};
        lockfsm_change(world->fsm, ++index, 1, named, 2);
        /* The former removal remains known. */
        assert_int_equal(lockfsm_removal(world->fsm, 2, &removal), i > 0);
        lockfsm_change(world->fsm, ++index, 1, named, 1);
        assert_true(lockfsm_removal(world->fsm, 2, &removal));
        assert_int_equal(removal.log_index, index);
        assert_int_equal(removal.incarnation, 200 + i);
        assert_null(lockfsm_check_basic(world->fsm));
    }
}

/* Each field that a proposer should have checked, wrong by one. */
static void wrong_sizes_are_bad_arguments(void **state)
{
    struct world *world = *state;
    static char long_text[VALUE_SIZE_MAX + 2];
    memset(long_text, 'x', sizeof long_text - 1);
    uint64_t session = open_session(world);
    struct bytes name = BYTES_LITERAL("a");
    struct acquire_command good = {
        .origin = {.session = session}, .names = &name, .name_count = 1};
    struct bytes long_name = bytes_of(long_text, LOCK_NAME_SIZE_MAX + 1);
    struct bytes no_name = {NULL, 0};
    struct acquire_command bad[10];
    for (size_t i = 0; i < 10; i++) {
        bad[i] = good;
    }
    bad[0].names = &long_name;
    bad[1].names = &no_name;
    bad[2].name_count = 0;
    bad[3].origin.owner = bytes_of(long_text, OWNER_SIZE_MAX + 1);
    bad[4].value = bytes_of(long_text, VALUE_SIZE_MAX + 1);
    bad[5].mode = LOCK_SLOTS;
    bad[6].slots = 1;
    bad[7].mode = (enum lock_mode)3;
    bad[8].delay_ms = TIME_MS_MAX + 1;
    bad[9].wait_ms = UINT64_MAX;
    for (size_t i = 0; i < 10; i++) {
        encode_acquire(&world->command, &bad[i]);
        assert_int_equal(apply(world)->code, RESULT_BAD_ARGUMENT);
    }
    encode_acquire(&world->command, &good);
    assert_int_equal(apply(world)->code, RESULT_OK);
}

static void sessions_with_wrong_parts_are_refused(void **state)
{
    struct world *world = *state;
    static char text[CLIENT_NAME_SIZE_MAX + 1];
    struct label labels[LABEL_COUNT_MAX + 1] = {{.key = {NULL, 0}}};
    struct open_command open = {.ttl_ms = 1000, .labels = labels};
    struct entry command = {.op = OP_OPEN, .open = &open};
    open.name = bytes_of(text, sizeof text);
    assert_int_equal(apply_message(world, &command)->code, RESULT_BAD_ARGUMENT);
    open.name.size = CLIENT_NAME_SIZE_MAX;
    open.label_count = 1;
    assert_int_equal(apply_message(world, &command)->code, RESULT_BAD_ARGUMENT);
    for (size_t i = 0; i <= LABEL_COUNT_MAX; i++) {
        labels[i].key = bytes_of(text, LABEL_SIZE_MAX);
    }
    open.label_count = LABEL_COUNT_MAX + 1;
    assert_int_equal(apply_message(world, &command)->code, RESULT_BAD_ARGUMENT);
    open.label_count = LABEL_COUNT_MAX;
    assert_int_equal(apply_message(world, &command)->code, RESULT_OK);
}

/* Every command without any of its parts: an answer, never a crash. */
static void empty_commands_are_answered(void **state)
{
    struct world *world = *state;
    for (uint8_t number = 1; number <= 28; number++) {
        if (number == 5 || number == 14 || number == 25 ||
            (number >= 20 && number <= 24 && number != 21)) {
            continue; /* Reserved. */
        }
        /* Field 'number', length-delimited, empty. */
        uint32_t tag = (uint32_t)number << 3 | 2;
        if (tag < 128) {
            buffer_put_u8(&world->command, (uint8_t)tag);
        } else {
            buffer_put_u8(&world->command, (uint8_t)(tag | 0x80));
            buffer_put_u8(&world->command, (uint8_t)(tag >> 7));
        }
        buffer_put_u8(&world->command, 0);
        apply(world);
    }
    assert_null(lockfsm_sessions(world->fsm));
    assert_null(lockfsm_locks(world->fsm));
}

static void effects_outlive_what_they_tell_of(void **state)
{
    struct world *world = *state;
    uint64_t session = open_session(world);
    acquire(world, (struct asked){.session = session,
                                  .owner = "thread-17",
                                  .name = "a-lock-with-a-name"});
    expire(world, session);
    assert_null(lockfsm_lock(world->fsm, BYTES_LITERAL("a-lock-with-a-name")));
    const struct effect *effect = &world->effects.effect[1];
    assert_int_equal(effect->type, EFFECT_HOLD_EXPIRED);
    assert_true(bytes_equal(effect->lock, BYTES_LITERAL("a-lock-with-a-name")));
    assert_true(bytes_equal(effect->owner, BYTES_LITERAL("thread-17")));
}

/* --- Bounds --------------------------------------------------------------- */

static void what_is_not_told_is_seen_to_be_missing(void **state)
{
    struct world *world = *state;
    uint64_t session = open_session(world);
    uint64_t numbers[ENDED_COUNT_MAX + 3];
    for (uint32_t i = 0; i < ENDED_COUNT_MAX + 3; i++) {
        char name[16];
        snprintf(name, sizeof name, "lock%" PRIu32, i);
        uint64_t token = acquire(world, (struct asked){.session = session,
                                                       .name = name})
                             ->token;
        struct release_if_command c = {.name = bytes_of_text(name),
                                       .token = token};
        encode_release_if(&world->command, &c);
        assert_int_equal(apply(world)->count, 1);
        numbers[i] = lockfsm_newest_token(world->fsm);
    }
    const struct session *found = lockfsm_session(world->fsm, session);
    assert_int_equal(found->ended_count, ENDED_COUNT_MAX);
    const struct ended_hold *first = LIST_FIRST(&found->ended,
                                                struct ended_hold, in_session);
    assert_true(bytes_equal(first->lock, BYTES_LITERAL("lock3")));
    assert_int_equal(first->number, numbers[3]);
    assert_int_equal(found->dropped_number, numbers[2]);
}

static void several_locks_at_once_have_a_bound(void **state)
{
    struct world *world = *state;
    uint64_t session = open_session(world);
    struct bytes names[MULTI_COUNT_MAX + 1];
    struct acquire_command message = {.origin.session = session,
                                      .names = names};
    struct entry command = {.op = OP_ACQUIRE, .acquire = &message};
    char text[MULTI_COUNT_MAX + 1][8];
    for (uint32_t i = 0; i <= MULTI_COUNT_MAX; i++) {
        int size = snprintf(text[i], sizeof text[i], "n%" PRIu32, i);
        names[i] = bytes_of(text[i], (size_t)size);
    }
    message.name_count = MULTI_COUNT_MAX + 1;
    assert_int_equal(apply_message(world, &command)->code, RESULT_BAD_ARGUMENT);
    message.name_count = MULTI_COUNT_MAX;
    const struct result *result = apply_message(world, &command);
    assert_int_equal(result->code, RESULT_OK);
    assert_int_equal(result->token_count, MULTI_COUNT_MAX);
    assert_int_equal(result->tokens[MULTI_COUNT_MAX - 1], result->token);
}

static void a_release_names_a_lock_and_not_too_many(void **state)
{
    struct world *world = *state;
    struct bytes names[MULTI_COUNT_MAX + 1];
    for (uint32_t i = 0; i <= MULTI_COUNT_MAX; i++) {
        names[i] = BYTES_LITERAL("a");
    }
    struct release_command message = {.origin.session = open_session(world),
                                      .names = names};
    struct entry command = {.op = OP_RELEASE, .release = &message};
    assert_int_equal(apply_message(world, &command)->code, RESULT_BAD_ARGUMENT);
    message.name_count = MULTI_COUNT_MAX + 1;
    assert_int_equal(apply_message(world, &command)->code, RESULT_BAD_ARGUMENT);
    message.name_count = MULTI_COUNT_MAX;
    assert_int_equal(apply_message(world, &command)->code, RESULT_OK);
}

/* A queue of 'length' others between the newcomer and the one that waits for
 * it. Returns the newcomer's answer. */
static enum result_code close_long_cycle(struct world *world, uint32_t length)
{
    uint64_t holder = open_session(world);
    uint64_t newcomer = open_session(world);
    uint64_t head = open_session(world);
    acquire(world, (struct asked){.session = holder, .name = "hot"});
    acquire(world, (struct asked){.session = newcomer, .name = "mine"});
    struct asked asked = {.session = head, .name = "hot", .is_waiting = true};
    acquire(world, asked);
    asked.name = "mine";
    assert_int_equal(acquire(world, asked)->code, RESULT_QUEUED);
    uint64_t crowd = open_session(world);
    for (uint32_t i = 0; i < length; i++) {
        char owner[16];
        snprintf(owner, sizeof owner, "%" PRIu32, i);
        struct bytes name = BYTES_LITERAL("hot");
        struct acquire_command c = {
            .origin = {.session = crowd, .owner = bytes_of_text(owner)},
            .names = &name,
            .name_count = 1,
            .is_waiting = true};
        encode_acquire(&world->command, &c);
        encode_user(&world->command, USER_ANYONE);
        effects_clear(&world->effects);
        assert_int_equal(lockfsm_apply(world->fsm, ++world->index, 1,
                                       buffer_bytes(&world->command),
                                       &world->effects),
                         0);
        buffer_clear(&world->command);
    }
    asked.session = newcomer;
    asked.name = "hot";
    return acquire(world, asked)->code;
}

/* Each but the last waits for the next one's lock; the last closes the cycle.
 * Its text is cut at the end, and begins with the newcomer's blocker. */
static void a_long_cycle_is_told_from_its_beginning(void **state)
{
    enum { COUNT = 120 };
    struct world *world = *state;
    uint64_t session[COUNT];
    char name[COUNT][16];
    for (int i = 0; i < COUNT; i++) {
        session[i] = open_session(world);
        snprintf(name[i], sizeof name[i], "%d", i);
        acquire(world, (struct asked){.session = session[i], .name = name[i]});
    }
    for (int i = 0; i < COUNT - 1; i++) {
        struct asked next = {
            .session = session[i], .name = name[i + 1], .is_waiting = true};
        assert_int_equal(acquire(world, next)->code, RESULT_QUEUED);
    }
    struct asked closing = {
        .session = session[COUNT - 1], .name = name[0], .is_waiting = true};
    const struct result *result = acquire(world, closing);
    assert_int_equal(result->code, RESULT_DEADLOCK);
    char start[100];
    snprintf(start, sizeof start,
             "%" PRIu64 " -> 0 -> %" PRIu64 " -> 1 -> %" PRIu64 " -> ",
             session[COUNT - 1], session[0], session[1]);
    assert_true(result->text.size <= 400 && result->text.size > strlen(start));
    assert_memory_equal(result->text.data, start, strlen(start));
}

static void a_deadlock_through_a_long_queue_is_found(void **state)
{
    struct world *world = *state;
    const struct effects *effects = &world->effects;
    assert_int_equal(close_long_cycle(world, DEADLOCK_STEP_MAX / 3),
                     RESULT_DEADLOCK);
    for (uint32_t i = 0; i < effects->count; i++) {
        assert_int_not_equal(effects->effect[i].type, EFFECT_SEARCH_GIVEN_UP);
    }
}

static void past_its_bound_the_search_grants_the_place(void **state)
{
    struct world *world = *state;
    const struct effects *effects = &world->effects;
    uint32_t told = 0;
    assert_int_equal(close_long_cycle(world, DEADLOCK_STEP_MAX + 1),
                     RESULT_QUEUED);
    for (uint32_t i = 0; i < effects->count; i++) {
        const struct effect *effect = &effects->effect[i];
        if (effect->type == EFFECT_SEARCH_GIVEN_UP) {
            assert_true(bytes_equal(effect->lock, bytes_of_text("hot")));
            assert_int_equal(effect->wait_index, world->index);
            told++;
        }
    }
    assert_int_equal(told, 1);
}

static void a_cycle_with_strange_names_is_plain_text(void **state)
{
    struct world *world = *state;
    uint64_t a = open_session(world);
    uint64_t b = open_session(world);
    static char strange[LOCK_NAME_SIZE_MAX + 1];
    memset(strange, '\r', LOCK_NAME_SIZE_MAX);
    acquire(world, (struct asked){.session = a, .name = strange});
    acquire(world, (struct asked){.session = b, .name = "b"});
    acquire(world,
            (struct asked){.session = a, .name = "b", .is_waiting = true});
    const struct result *result = acquire(
        world,
        (struct asked){.session = b, .name = strange, .is_waiting = true});
    assert_int_equal(result->code, RESULT_DEADLOCK);
    for (size_t i = 0; i < result->text.size; i++) {
        assert_in_range(result->text.data[i], ' ', '~');
    }
    assert_in_range(result->text.size, 10, 120);
}

/* --- Flushing and loading ------------------------------------------------- */

static void what_came_and_went_costs_the_table_nothing(void **state)
{
    struct world *world = *state;
    uint64_t session = open_session(world);
    flush(world);
    assert_int_equal(lockfsm_dirty_count(world->fsm), 0);
    acquire(world, (struct asked){.session = session, .name = "a"});
    assert_int_equal(lockfsm_dirty_count(world->fsm), 2);
    release(world, session, "a");
    assert_int_equal(lockfsm_dirty_count(world->fsm), 0);

    acquire(world, (struct asked){.session = session, .name = "a"});
    flush(world);
    assert_int_equal(record_count(world, TABLE_HOLDS), 1);
    release(world, session, "a");
    assert_int_equal(lockfsm_dirty_count(world->fsm), 2);
    acquire(world, (struct asked){.session = session, .name = "a"});
    flush(world);
    assert_int_equal(record_count(world, TABLE_LOCKS), 1);
    assert_int_equal(record_count(world, TABLE_HOLDS), 1);
    release(world, session, "a");
    expire(world, session);
    flush(world);
    assert_int_equal(record_count(world, TABLE_LOCKS), 0);
    assert_int_equal(record_count(world, TABLE_HOLDS), 0);
    assert_int_equal(record_count(world, TABLE_SESSIONS), 0);
    assert_int_equal(lockfsm_flushed_index(world->fsm), world->index);
}

static void begin_life(struct world *world)
{
    uint8_t id[16] = {7};
    struct begin_command begin = {
        .node = 1, .cluster_id = bytes_of(id, sizeof id), .token_base = 100};
    encode_begin(&world->command, &begin);
    apply(world);
}

static void a_new_life_leaves_fences_and_patterns_only(void **state)
{
    struct world *world = *state;
    begin_life(world);
    uint64_t session = open_session(world);
    uint64_t other = open_session(world);
    acquire(world, (struct asked){.session = session, .name = "a", .req = 1});
    acquire(world,
            (struct asked){.session = other, .name = "a", .is_waiting = true});
    struct origin nobody = {0};
    encode_fence_admit(
        &world->command,
        &(struct fence_admit_command){
            .origin = nobody, .resource = BYTES_LITERAL("disk"), .token = 101});
    apply(world);
    struct blacklist_add_command c = {.client = BYTES_LITERAL("x*")};
    encode_blacklist_add(&world->command, &c);
    apply(world);
    c = (struct blacklist_add_command){.session = other};
    encode_blacklist_add(&world->command, &c);
    apply(world);
    flush(world);
    lockfsm_new_life(world->fsm, 1000);
    flush(world);
    const enum table_map empty[] = {TABLE_SESSIONS, TABLE_LOCKS,
                                    TABLE_HOLDS,    TABLE_WAITS,
                                    TABLE_RESULTS,  TABLE_MEMBERS};
    for (size_t i = 0; i < sizeof empty / sizeof empty[0]; i++) {
        assert_int_equal(record_count(world, empty[i]), 0);
    }
    assert_int_equal(record_count(world, TABLE_FENCES), 1);
    assert_int_equal(record_count(world, TABLE_BLACKLIST), 1);
    assert_null(lockfsm_check_basic(world->fsm));
}

/* A state with an entry in every map. */
static void fill(struct world *world)
{
    begin_life(world);
    uint64_t session = open_session(world);
    uint64_t other = open_session(world);
    acquire(world, (struct asked){.session = session, .name = "a", .req = 1});
    struct bytes names[] = {BYTES_LITERAL("a"), BYTES_LITERAL("b")};
    struct acquire_command c = {
        .origin = {.session = other, .req = 2, .acked = 1},
        .names = names,
        .name_count = 2,
        .is_waiting = true};
    encode_acquire(&world->command, &c);
    apply(world);
    struct fence_admit_command admit = {.resource = BYTES_LITERAL("disk"),
                                        .token = 101};
    encode_fence_admit(&world->command, &admit);
    apply(world);
    struct blacklist_add_command listing = {.client = BYTES_LITERAL("x*")};
    encode_blacklist_add(&world->command, &listing);
    apply(world);
    struct cert_revoke_command revoke = {.fingerprint = {7}};
    encode_cert_revoke(&world->command, &revoke);
    apply_as(world, USER_LOCAL);
    encode_cells(&world->command, &(struct cells_command){.kind = CELLS_VOUCH});
    apply_as(world, USER_LOCAL);
    lockfsm_change(world->fsm, ++world->index, 1,
                   &(struct lockfsm_member){1, 11}, 1);
}

struct copied {
    struct buffer key;
    struct buffer value;
};

static int copy_first(void *data, struct bytes key, struct bytes value)
{
    struct copied *copied = data;
    buffer_put_bytes(&copied->key, key);
    buffer_put_bytes(&copied->value, value);
    return HASP_EEXIST; /* Ends the walk. */
}

static void damaged_records_are_corruption(void **state)
{
    struct world *world = *state;
    fill(world);
    flush(world);
    for (int map = 0; map < TABLE_MAP_COUNT; map++) {
        struct copied copied = {0};
        struct table_txn *txn;
        char why[HASP_WHY_SIZE] = "";
        assert_int_equal(table_begin_write(world->table, &txn), 0);
        /* For TABLE_META the first is "applied". */
        assert_int_equal(table_walk(txn, (enum table_map)map,
                                    (struct bytes){NULL, 0}, copy_first,
                                    &copied),
                         HASP_EEXIST);
        struct bytes key = buffer_bytes(&copied.key);
        assert_int_equal(
            table_put(txn, (enum table_map)map, key, BYTES_LITERAL("\xff\xff")),
            0);
        assert_int_equal(table_commit(txn), 0);
        struct lockfsm *fsm = lockfsm_new();
        assert_int_equal(lockfsm_load(fsm, world->table, why), HASP_ECORRUPT);
        assert_true(strlen(why) > 0);
        assert_int_equal(lockfsm_applied_index(fsm), 0);

        assert_int_equal(table_begin_write(world->table, &txn), 0);
        assert_int_equal(table_put(txn, (enum table_map)map, key,
                                   buffer_bytes(&copied.value)),
                         0);
        assert_int_equal(table_commit(txn), 0);
        assert_int_equal(lockfsm_load(fsm, world->table, why), 0);
        assert_true(lockfsm_hash(fsm) == lockfsm_hash(world->fsm));
        lockfsm_free(fsm);
        buffer_done(&copied.key);
        buffer_done(&copied.value);
    }
}

static void put_long_field(struct buffer *value, uint8_t number)
{
    const uint8_t head[] = {(uint8_t)(number << 3 | 2), 0xa8, 0x46};
    buffer_put(value, head, sizeof head);
    memset(buffer_reserve(value, 9000), 'x', 9000);
    value->size += 9000;
}

/* Whole records with a larger field than any operation can write. */
static void fields_that_are_too_long_are_corruption(void **state)
{
    static const struct {
        enum table_map map;
        uint8_t number;
        uint8_t inner; /* Not 0: of the message in the field. */
    } fields[] = {{TABLE_SESSIONS, 5, 0},  {TABLE_SESSIONS, 6, 0},
                  {TABLE_SESSIONS, 7, 1},  {TABLE_SESSIONS, 7, 2},
                  {TABLE_SESSIONS, 11, 1}, {TABLE_SESSIONS, 11, 2},
                  {TABLE_HOLDS, 1, 0},     {TABLE_WAITS, 3, 0},
                  {TABLE_RESULTS, 7, 0},   {TABLE_BLACKLIST, 2, 0}};
    struct world *world = *state;
    fill(world);
    flush(world);
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        struct copied copied = {0};
        struct buffer longer = {0};
        struct table_txn *txn;
        char why[HASP_WHY_SIZE] = "";
        assert_int_equal(table_begin_write(world->table, &txn), 0);
        assert_int_equal(table_walk(txn, fields[i].map, (struct bytes){NULL, 0},
                                    copy_first, &copied),
                         HASP_EEXIST);
        buffer_put_bytes(&longer, buffer_bytes(&copied.value));
        if (fields[i].inner != 0) {
            const uint8_t head[] = {(uint8_t)(fields[i].number << 3 | 2), 0xab,
                                    0x46};
            buffer_put(&longer, head, sizeof head);
            put_long_field(&longer, fields[i].inner);
        } else {
            put_long_field(&longer, fields[i].number);
        }
        assert_int_equal(table_put(txn, fields[i].map,
                                   buffer_bytes(&copied.key),
                                   buffer_bytes(&longer)),
                         0);
        assert_int_equal(table_commit(txn), 0);
        struct lockfsm *fsm = lockfsm_new();
        assert_int_equal(lockfsm_load(fsm, world->table, why), HASP_ECORRUPT);
        assert_null(strstr(why, "digest")); /* Detected without it, too. */
        lockfsm_free(fsm);
        assert_int_equal(table_begin_write(world->table, &txn), 0);
        assert_int_equal(table_put(txn, fields[i].map,
                                   buffer_bytes(&copied.key),
                                   buffer_bytes(&copied.value)),
                         0);
        assert_int_equal(table_commit(txn), 0);
        buffer_done(&copied.key);
        buffer_done(&copied.value);
        buffer_done(&longer);
    }
}

/* Whole records that together are not a whole state. */
static void missing_records_are_corruption(void **state)
{
    struct world *world = *state;
    const enum table_map needed[] = {TABLE_SESSIONS, TABLE_LOCKS, TABLE_HOLDS,
                                     TABLE_WAITS};
    fill(world);
    flush(world);
    for (size_t i = 0; i < sizeof needed / sizeof needed[0]; i++) {
        struct copied copied = {0};
        struct table_txn *txn;
        char why[HASP_WHY_SIZE] = "";
        assert_int_equal(table_begin_write(world->table, &txn), 0);
        assert_int_equal(table_walk(txn, needed[i], (struct bytes){NULL, 0},
                                    copy_first, &copied),
                         HASP_EEXIST);
        assert_int_equal(
            table_delete(txn, needed[i], buffer_bytes(&copied.key)), 0);
        assert_int_equal(table_commit(txn), 0);
        struct lockfsm *fsm = lockfsm_new();
        assert_int_equal(lockfsm_load(fsm, world->table, why), HASP_ECORRUPT);
        assert_null(strstr(why, "digest")); /* Detected without it, too. */
        lockfsm_free(fsm);
        assert_int_equal(table_begin_write(world->table, &txn), 0);
        assert_int_equal(table_put(txn, needed[i], buffer_bytes(&copied.key),
                                   buffer_bytes(&copied.value)),
                         0);
        assert_int_equal(table_commit(txn), 0);
        buffer_done(&copied.key);
        buffer_done(&copied.value);
    }
}

/* The waiting request of session 103 is recorded under session 102. */
static void a_result_of_anothers_wait_is_corruption(void **state)
{
    static const uint8_t waiting[16] = {[7] = 103, [15] = 2};
    static const uint8_t held[16] = {[7] = 102, [15] = 1};
    struct world *world = *state;
    struct buffer copied = {0};
    struct bytes value;
    struct table_txn *txn;
    char why[HASP_WHY_SIZE] = "";
    fill(world);
    flush(world);
    assert_int_equal(table_begin_write(world->table, &txn), 0);
    assert_int_equal(
        table_get(txn, TABLE_RESULTS, bytes_of(waiting, 16), &value), 0);
    buffer_put_bytes(&copied, value);
    assert_int_equal(table_get(txn, TABLE_RESULTS, bytes_of(held, 16), &value),
                     0);
    assert_int_equal(table_delete(txn, TABLE_RESULTS, bytes_of(waiting, 16)),
                     0);
    assert_int_equal(table_put(txn, TABLE_RESULTS, bytes_of(held, 16),
                               buffer_bytes(&copied)),
                     0);
    assert_int_equal(table_commit(txn), 0);
    struct lockfsm *fsm = lockfsm_new();
    assert_int_equal(lockfsm_load(fsm, world->table, why), HASP_ECORRUPT);
    assert_non_null(strstr(why, "waiting request without a wait"));
    lockfsm_free(fsm);
    buffer_done(&copied);
}

static void a_session_without_a_number_is_corruption(void **state)
{
    static const uint8_t nobody[8] = {0};
    struct world *world = *state;
    struct copied copied = {0};
    struct table_txn *txn;
    char why[HASP_WHY_SIZE] = "";
    fill(world);
    flush(world);
    assert_int_equal(table_begin_write(world->table, &txn), 0);
    assert_int_equal(table_walk(txn, TABLE_SESSIONS, (struct bytes){NULL, 0},
                                copy_first, &copied),
                     HASP_EEXIST);
    assert_int_equal(table_put(txn, TABLE_SESSIONS, bytes_of(nobody, 8),
                               buffer_bytes(&copied.value)),
                     0);
    assert_int_equal(table_commit(txn), 0);
    struct lockfsm *fsm = lockfsm_new();
    assert_int_equal(lockfsm_load(fsm, world->table, why), HASP_ECORRUPT);
    assert_non_null(strstr(why, "the key of a record"));
    lockfsm_free(fsm);
    buffer_done(&copied.key);
    buffer_done(&copied.value);
}

static void loading_replaces_what_was_there(void **state)
{
    struct world *world = *state;
    char why[HASP_WHY_SIZE];
    fill(world);
    flush(world);
    uint64_t hash = lockfsm_hash(world->fsm);
    acquire(world, (struct asked){.session = 102, .name = "later"});
    assert_true(lockfsm_hash(world->fsm) != hash);
    assert_int_equal(lockfsm_load(world->fsm, world->table, why), 0);
    assert_true(lockfsm_hash(world->fsm) == hash);
    assert_int_equal(lockfsm_dirty_count(world->fsm), 0);
    assert_null(lockfsm_lock(world->fsm, BYTES_LITERAL("later")));

    struct table *empty = table_new_memory();
    assert_int_equal(lockfsm_load(world->fsm, empty, why), 0);
    assert_int_equal(lockfsm_applied_index(world->fsm), 0);
    assert_null(lockfsm_sessions(world->fsm));
    table_close(empty);
}

/* The checker must detect damage: here, a state that was modified by hand. */
static void the_checkers_see_a_bent_state(void **state)
{
    struct world *world = *state;
    fill(world);
    struct lock *lock = (struct lock *)lockfsm_lock(world->fsm,
                                                    BYTES_LITERAL("a"));
    struct hold *hold = LIST_FIRST(&lock->holds, struct hold, in_lock);
    struct wait *wait = LIST_FIRST(&lock->queue, struct wait, in_lock);
    assert_null(lockfsm_check_basic(world->fsm));
    hold->mode = LOCK_SHARED;
    assert_non_null(lockfsm_check_basic(world->fsm));
    hold->mode = LOCK_EXCLUSIVE;
    lock->hold_count++;
    assert_non_null(lockfsm_check_basic(world->fsm));
    lock->hold_count--;
    wait->mode = LOCK_SHARED;
    assert_non_null(lockfsm_check_basic(world->fsm));
    wait->mode = LOCK_EXCLUSIVE;
    hold->token++;
    assert_non_null(lockfsm_check_basic(world->fsm));
    hold->token--;
    lock->last_token += 1000000; /* The next grant's would be below it. */
    assert_non_null(lockfsm_check_basic(world->fsm));
    lock->last_token -= 1000000;
    wait->session->blacklist_index = 1;
    assert_non_null(lockfsm_check_basic(world->fsm));
    wait->session->blacklist_index = 0;
    assert_null(lockfsm_check_basic(world->fsm));

    struct lockfsm_delta *delta = lockfsm_delta_new();
    assert_null(lockfsm_delta_check(delta, world->fsm));
    lock->last_token--;
    assert_non_null(lockfsm_delta_check(delta, world->fsm));
    lock->last_token++;
    uint64_t hash = lockfsm_hash(world->fsm);
    hold->count++;
    assert_true(lockfsm_hash(world->fsm) != hash);
    hold->count--;
    assert_true(lockfsm_hash(world->fsm) == hash);
    lockfsm_delta_free(delta);
}

static uint64_t applied_in(struct table *table)
{
    char why[HASP_WHY_SIZE] = "";
    struct lockfsm *fsm = lockfsm_new();
    if (lockfsm_load(fsm, table, why) != 0) {
        fail_msg("%s", why);
    }
    uint64_t applied = lockfsm_applied_index(fsm);
    lockfsm_free(fsm);
    return applied;
}

/* A flush that found no room marks nothing as written, and the next one is
 * complete, whatever changed in between. */
static void a_flush_into_a_full_table_is_done_again(void **state)
{
    struct world *world = *state;
    struct table *table;
    char folder[64], path[128], why[HASP_WHY_SIZE] = "";
    static char value[VALUE_SIZE_MAX];
    const char *base = getenv("TMPDIR");
    memset(value, 'v', sizeof value);
    snprintf(folder, sizeof folder, "%.40s/hasp-fsm-XXXXXX",
             base != NULL ? base : "/tmp");
    assert_non_null(mkdtemp(folder));
    assert_int_equal(table_open_lmdb(folder, 1 << 20, &table, why), 0);
    uint64_t session = open_session(world);
    int full_count = 0;
    for (int i = 0; i < 1000; i++) {
        char name[16];
        snprintf(name, sizeof name, "l%d", i);
        struct bytes text = bytes_of_text(name);
        struct acquire_command c = {.origin = {.session = session},
                                    .names = &text,
                                    .name_count = 1,
                                    .value = bytes_of(value, sizeof value)};
        encode_acquire(&world->command, &c);
        apply(world);
        if (i % 3 == 0) {
            release(world, session, name);
        }
        if (i % 170 != 0) {
            continue;
        }
        uint64_t flushed = lockfsm_flushed_index(world->fsm);
        uint32_t dirty = lockfsm_dirty_count(world->fsm);
        int error = lockfsm_flush(world->fsm, table);
        if (error == HASP_EFULL) {
            full_count++;
            assert_int_equal(lockfsm_flushed_index(world->fsm), flushed);
            assert_int_equal(lockfsm_dirty_count(world->fsm), dirty);
            assert_true(applied_in(table) == flushed);
            release(world, session, name);
            release(world, session, i > 400 ? "l400" : "l1");
            assert_int_equal(table_grow(table), 0);
            assert_int_equal(table_grow(table), 0);
            error = lockfsm_flush(world->fsm, table);
        }
        assert_int_equal(error, 0);
        struct lockfsm *other = lockfsm_new();
        if (lockfsm_load(other, table, why) != 0) {
            fail_msg("%s", why);
        }
        assert_true(lockfsm_hash(other) == lockfsm_hash(world->fsm));
        lockfsm_free(other);
    }
    assert_in_range(full_count, 1, 3);
    table_close(table);
    snprintf(path, sizeof path, "%s/data.mdb", folder);
    assert_int_equal(unlink(path), 0);
    snprintf(path, sizeof path, "%s/lock.mdb", folder);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(folder), 0);
}

#define TEST(name) \
    cmocka_unit_test_setup_teardown(name, world_open, world_close)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(damaged_commands_are_corruption),
        TEST(skipping_moves_only_the_applied_index),
        TEST(removed_members_are_remembered),
        TEST(who_comes_back_leaves_room_for_others_removed),
        TEST(a_flush_into_a_full_table_is_done_again),
        TEST(wrong_sizes_are_bad_arguments),
        TEST(sessions_with_wrong_parts_are_refused),
        TEST(empty_commands_are_answered),
        TEST(effects_outlive_what_they_tell_of),
        TEST(what_is_not_told_is_seen_to_be_missing),
        TEST(several_locks_at_once_have_a_bound),
        TEST(a_release_names_a_lock_and_not_too_many),
        TEST(a_long_cycle_is_told_from_its_beginning),
        TEST(a_deadlock_through_a_long_queue_is_found),
        TEST(past_its_bound_the_search_grants_the_place),
        TEST(a_cycle_with_strange_names_is_plain_text),
        TEST(what_came_and_went_costs_the_table_nothing),
        TEST(a_new_life_leaves_fences_and_patterns_only),
        TEST(damaged_records_are_corruption),
        TEST(fields_that_are_too_long_are_corruption),
        TEST(missing_records_are_corruption),
        TEST(a_result_of_anothers_wait_is_corruption),
        TEST(a_session_without_a_number_is_corruption),
        TEST(loading_replaces_what_was_there),
        TEST(the_checkers_see_a_bent_state),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
