/* SPDX-License-Identifier: MIT */

/* Several clusters that give each other prefixes, at random: no name belongs to
 * two of them or is held in two, its tokens only grow, and no fence admits a
 * token of a former owner after one of the present. Receipts are used again at
 * any time, anywhere; clients ask any cell. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "base/prng.h"
#include "lockfsm/cells.h"
#include "lockfsm/entry.h"
#include "lockfsm/lockfsm.h"
#include "lockfsm/user/access.h"
#include "storage/table.h"

#define CELLS 4
#define RECEIPTS 512
#define WORLDS 300
#define STEPS 1500

static const char *const names[] = {"a",   "a/b", "a/b/c", "a/d",
                                    "b/x", "ab",  "c"};
static const char *const prefixes[] = {"", "a", "a/", "a/b", "a/b/", "b", "c"};
#define NAMES (sizeof names / sizeof *names)
#define PREFIXES (sizeof prefixes / sizeof *prefixes)

struct cluster {
    struct lockfsm *fsm;
    struct table *table;
    uint64_t index;
    uint64_t session;
};

struct cells_world {
    struct cluster cluster[CELLS];
    struct effects effects;
    struct buffer command;
    struct prng prng;
    struct cells_command receipt[RECEIPTS];
    uint64_t receipt_count;
    /* For each name: */
    uint64_t held[NAMES]; /* The cell plus 1; 0: free. */
    uint64_t token[NAMES];
    uint64_t admitted[NAMES];
    uint64_t admitted_by[NAMES];
};

/* Counts over all worlds: they show that the test is not empty. */
static uint64_t taken, given, granted, refused, admitted;

static uint32_t pick(struct cells_world *world, uint64_t count)
{
    return (uint32_t)prng_below(&world->prng, count);
}

static const struct result *cells_apply(struct cells_world *world, uint32_t at,
                                        uint64_t user)
{
    struct cluster *cluster = &world->cluster[at];
    if (user != 0) {
        encode_user(&world->command, user);
    }
    effects_clear(&world->effects);
    assert_int_equal(lockfsm_apply(cluster->fsm, ++cluster->index, 1,
                                   buffer_bytes(&world->command),
                                   &world->effects),
                     0);
    buffer_clear(&world->command);
    return &world->effects.effect[0].result;
}

/* Each is founded after the one before. */
static void cluster_begin(struct cells_world *world, uint32_t at)
{
    struct cluster *cluster = &world->cluster[at];
    uint8_t id[CLUSTER_ID_SIZE] = {(uint8_t)(at + 1)};
    *cluster = (struct cluster){.fsm = lockfsm_new(),
                                .table = table_new_memory()};
    encode_begin(&world->command, &(struct begin_command){
                                      .node = 1,
                                      .cluster_id = bytes_of(id, sizeof id),
                                      .token_base = TOKEN_BASE_MIN * (at + 1)});
    cells_apply(world, at, 0);
    encode_open(&world->command, &(struct open_command){.ttl_ms = 60000});
    cluster->session = cells_apply(world, at, USER_ANYONE)->token;
    if (at > 0) {
        encode_cells(&world->command,
                     &(struct cells_command){.kind = CELLS_JOIN,
                                             .endpoints = BYTES_LITERAL("h")});
        assert_int_equal(cells_apply(world, at, USER_LOCAL)->code, RESULT_OK);
    }
}

/* --- Clients ------------------------------------------------------------- */

static void step_acquire(struct cells_world *world, uint32_t at)
{
    uint32_t first = pick(world, NAMES), count = 1 + pick(world, 2);
    struct bytes named[2];
    for (uint32_t i = 0; i < count; i++) {
        named[i] = bytes_of_text(names[(first + i) % NAMES]);
    }
    encode_acquire(&world->command,
                   &(struct acquire_command){
                       .origin = {.session = world->cluster[at].session},
                       .names = named,
                       .name_count = count});
    const struct result *result = cells_apply(world, at, USER_ANYONE);
    refused += result->code == RESULT_FOREIGN;
    for (uint32_t i = 0; result->code == RESULT_OK && i < count; i++) {
        uint32_t name = (first + i) % (uint32_t)NAMES;
        if (world->held[name] == at + 1) {
            continue; /* Again. */
        }
        assert_int_equal(world->held[name], 0);
        assert_true(result->tokens[i] > world->token[name]);
        world->held[name] = at + 1;
        world->token[name] = result->tokens[i];
        granted++;
    }
}

static void step_release(struct cells_world *world, uint32_t at)
{
    struct bytes name[NAMES];
    uint64_t tokens[NAMES];
    uint32_t count = 0;
    for (uint32_t i = 0; i < NAMES; i++) {
        if (world->held[i] == at + 1) {
            name[count] = bytes_of_text(names[i]);
            tokens[count++] = world->token[i];
            world->held[i] = 0;
        }
    }
    for (uint32_t i = 0; i < count; i++) {
        enum result_code code;
        do { /* It may have been entered several times. */
            encode_release(
                &world->command,
                &(struct release_command){
                    .origin = {.session = world->cluster[at].session},
                    .names = &name[i],
                    .name_count = 1,
                    .tokens = &tokens[i],
                    .token_count = 1});
            code = cells_apply(world, at, USER_ANYONE)->code;
        } while (code == RESULT_OK);
        assert_int_equal(code, RESULT_NOT_HELD);
    }
}

static void step_fence(struct cells_world *world, uint32_t at)
{
    uint32_t name = pick(world, NAMES);
    struct bytes resource = bytes_of_text(names[name]);
    uint64_t token = pick(world, 2) == 0 ? world->token[name]
                                         : world->admitted[name];
    if (pick(world, 2) == 0) {
        encode_fence_remove(&world->command, &(struct fence_remove_command){
                                                 .resource = resource});
        cells_apply(world, at, USER_LOCAL);
        return;
    }
    encode_fence_admit(
        &world->command,
        &(struct fence_admit_command){.resource = resource, .token = token});
    const struct result *result = cells_apply(world, at, USER_ANYONE);
    if (result->code != RESULT_OK || result->count != 1 ||
        token < TOKEN_BASE_MIN) {
        return;
    }
    /* A fence that was removed can admit less, but only at the same cell. */
    assert_true(token >= world->admitted[name] ||
                world->admitted_by[name] == at);
    world->admitted[name] = token;
    world->admitted_by[name] = at;
    admitted++;
}

/* --- Operators ------------------------------------------------------------ */

static void step_give(struct cells_world *world, uint32_t at)
{
    uint32_t taker = (at + 1 + pick(world, CELLS - 1)) % CELLS;
    struct cells_command give = {
        .kind = CELLS_GIVE,
        .prefix = bytes_of_text(prefixes[pick(world, PREFIXES)]),
        .endpoints = BYTES_LITERAL("h"),
        .taker = {(uint8_t)(taker + 1)}};
    encode_cells(&world->command, &give);
    if (cells_apply(world, at, USER_LOCAL)->code != RESULT_OK ||
        world->receipt_count == RECEIPTS) {
        return;
    }
    LIST_FOR (const struct cell, cell, lockfsm_cells(world->cluster[at].fsm),
              in_order) {
        if (bytes_equal(cell->prefix, give.prefix)) {
            give.kind = CELLS_TAKE;
            give.giver[0] = (uint8_t)(at + 1);
            give.epoch = cell->epoch;
            give.token = cell->token;
            world->receipt[world->receipt_count++] = give;
            given++;
        }
    }
}

/* Uses the newest receipt, or any, sometimes at a cell that it does not name.
 */
static void step_take(struct cells_world *world, uint32_t at)
{
    if (world->receipt_count == 0) {
        return;
    }
    uint64_t number = pick(world, 2) == 0 ? world->receipt_count - 1
                                          : pick(world, world->receipt_count);
    const struct cells_command *receipt = &world->receipt[number];
    at = pick(world, 4) != 0 ? receipt->taker[0] - 1u : at;
    encode_cells(&world->command, receipt);
    taken += cells_apply(world, at, USER_LOCAL)->code == RESULT_OK;
}

static void step_point(struct cells_world *world, uint32_t at)
{
    encode_cells(&world->command,
                 &(struct cells_command){
                     .kind = CELLS_POINT,
                     .prefix = bytes_of_text(prefixes[pick(world, PREFIXES)]),
                     .endpoints = BYTES_LITERAL("h2")});
    cells_apply(world, at, USER_LOCAL);
}

static void step_restart(struct cells_world *world, uint32_t at)
{
    struct cluster *cluster = &world->cluster[at];
    char why[HASP_WHY_SIZE] = "";
    assert_int_equal(lockfsm_flush(cluster->fsm, cluster->table), 0);
    uint64_t hash = lockfsm_hash(cluster->fsm);
    lockfsm_free(cluster->fsm);
    cluster->fsm = lockfsm_new();
    assert_int_equal(lockfsm_load(cluster->fsm, cluster->table, why), 0);
    assert_true(lockfsm_hash(cluster->fsm) == hash);
}

static void check_owners(struct cells_world *world)
{
    for (uint32_t i = 0; i < NAMES; i++) {
        uint32_t owners = 0;
        for (uint32_t at = 0; at < CELLS; at++) {
            const struct cell *cell = lockfsm_cell_of(world->cluster[at].fsm,
                                                      bytes_of_text(names[i]));
            owners += cell == NULL || cell->is_own;
        }
        assert_true(owners <= 1);
    }
}

static void step(struct cells_world *world)
{
    static void (*const steps[])(struct cells_world *, uint32_t) = {
        step_acquire, step_acquire, step_acquire, step_release, step_release,
        step_release, step_fence,   step_fence,   step_give,    step_give,
        step_take,    step_take,    step_point};
    uint32_t at = pick(world, CELLS);
    if (pick(world, 100) == 0) {
        step_restart(world, at);
    } else {
        steps[pick(world, sizeof steps / sizeof *steps)](world, at);
    }
    check_owners(world);
    if (pick(world, 16) == 0) {
        assert_null(lockfsm_check_basic(world->cluster[at].fsm));
    }
}

static void no_name_is_granted_in_two_cells(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= WORLDS; seed++) {
        struct cells_world world = {.prng = {seed}};
        for (uint32_t at = 0; at < CELLS; at++) {
            cluster_begin(&world, at);
        }
        for (uint32_t i = 0; i < STEPS; i++) {
            step(&world);
        }
        for (uint32_t at = 0; at < CELLS; at++) {
            lockfsm_free(world.cluster[at].fsm);
            table_close(world.cluster[at].table);
        }
        effects_done(&world.effects);
        buffer_done(&world.command);
    }
    printf("given %llu, taken %llu, granted %llu, refused %llu, admitted "
           "%llu\n",
           (unsigned long long)given, (unsigned long long)taken,
           (unsigned long long)granted, (unsigned long long)refused,
           (unsigned long long)admitted);
    assert_true(given > 2 * WORLDS && taken > 2 * WORLDS);
    assert_true(granted > 0 && refused > 0 && admitted > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_name_is_granted_in_two_cells),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
