/* SPDX-License-Identifier: MIT */

/* Hand-overs to very many waiters. No entry checks more of them than a few
 * slices; the remainder continues, whatever comes in between; and the final
 * state is the same as after one entry. The cut is the same on a node that has
 * loaded the state. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "lockfsm/entry.h"
#include "lockfsm/lockfsm.h"
#include "lockfsm/user/access.h"
#include "storage/table.h"
#include "tests/unit/drawn.h"

#define CROWD 30000
#define ROUNDS 1000
#define LOCKS 4
#define OWNERS 24

struct machine {
    struct lockfsm *fsm;
    struct effects effects;
    uint64_t index;
    uint64_t session;
    uint64_t most; /* Steps of an entry. */
};

static const struct result *apply(struct machine *machine,
                                  struct buffer *command)
{
    effects_clear(&machine->effects);
    assert_int_equal(lockfsm_apply(machine->fsm, ++machine->index, 1,
                                   buffer_bytes(command), &machine->effects),
                     0);
    uint64_t steps = lockfsm_steps(machine->fsm);
    machine->most = steps > machine->most ? steps : machine->most;
    buffer_done(command);
    *command = (struct buffer){0};
    return &machine->effects.effect[0].result;
}

static const struct result *apply_by(struct machine *machine,
                                     struct buffer *command)
{
    encode_user(command, USER_ANYONE);
    return apply(machine, command);
}

static void begin(struct machine *machine, uint32_t slice)
{
    struct buffer command = {0};
    uint8_t id[CLUSTER_ID_SIZE] = {1};
    *machine = (struct machine){.fsm = lockfsm_new()};
    lockfsm_set_slice(machine->fsm, slice);
    encode_begin(&command,
                 &(struct begin_command){.node = 1,

                                         .cluster_id = bytes_of(id, sizeof id),
                                         .token_base = TOKEN_BASE_MIN});
    apply(machine, &command);
    encode_open(&command, &(struct open_command){.ttl_ms = 60000});
    machine->session = apply_by(machine, &command)->token;
}

static void end(struct machine *machine)
{
    assert_null(lockfsm_check_basic(machine->fsm));
    lockfsm_free(machine->fsm);
    effects_done(&machine->effects);
}

static struct bytes owner_of(uint32_t number)
{
    static char text[16];
    return bytes_of(text,
                    (size_t)snprintf(text, sizeof text, "o%" PRIu32, number));
}

static enum result_code acquire(struct machine *machine, uint32_t owner,
                                const char *names, enum lock_mode mode,
                                bool is_waiting)
{
    struct buffer command = {0};
    struct bytes name[LOCKS];
    size_t count = strlen(names);
    for (size_t i = 0; i < count; i++) {
        name[i] = bytes_of(&names[i], 1);
    }
    encode_acquire(&command, &(struct acquire_command){
                                 .origin = {.session = machine->session,
                                            .owner = owner_of(owner)},
                                 .names = name,
                                 .name_count = count,
                                 .mode = mode,
                                 .slots = mode == LOCK_SLOTS ? OWNERS / 3 : 0,
                                 .is_waiting = is_waiting});
    return apply_by(machine, &command)->code;
}

static enum result_code release(struct machine *machine, uint32_t owner,
                                const char *names)
{
    struct buffer command = {0};
    struct bytes name[LOCKS];
    size_t count = strlen(names);
    for (size_t i = 0; i < count; i++) {
        name[i] = bytes_of(&names[i], 1);
    }
    encode_release(&command, &(struct release_command){
                                 .origin = {.session = machine->session,
                                            .owner = owner_of(owner)},
                                 .names = name,
                                 .name_count = count});
    return apply_by(machine, &command)->code;
}

static void cancel(struct machine *machine, uint32_t owner, const char *name)
{
    struct buffer command = {0};
    encode_cancel(&command, &(struct cancel_command){
                                .origin = {.session = machine->session,
                                           .owner = owner_of(owner)},
                                .name = bytes_of_text(name)});
    apply_by(machine, &command);
}

static void upgrade(struct machine *machine, uint32_t owner, const char *name)
{
    struct buffer command = {0};
    encode_convert(&command, &(struct convert_command){
                                 .origin = {.session = machine->session,
                                            .owner = owner_of(owner)},
                                 .name = bytes_of_text(name),
                                 .to = LOCK_EXCLUSIVE,
                                 .is_waiting = true});
    apply_by(machine, &command);
}

/* Ends the hold uncleanly, which may close the lock, or opens the lock again.
 */
static void time_is_over(struct machine *machine, uint32_t owner,
                         const char *name, bool of_delay)
{
    struct buffer command = {0};
    const struct lock *lock = lockfsm_lock(machine->fsm, bytes_of_text(name));
    const struct hold *hold = lockfsm_hold(machine->fsm, lock, machine->session,
                                           owner_of(owner));
    if (lock != NULL && of_delay) {
        encode_delay_over(&command, &(struct delay_over_command){
                                        .name = bytes_of_text(name),
                                        .since_index = lock->delay_index});
        apply(machine, &command);
    } else if (hold != NULL) {
        encode_hold_over(
            &command, &(struct hold_over_command){.name = bytes_of_text(name),
                                                  .session = machine->session,
                                                  .owner = owner_of(owner),
                                                  .token = hold->token});
        apply(machine, &command);
    }
}

/* False if no work remains. */
static bool sweep(struct machine *machine)
{
    struct buffer command = {0};
    struct sweep_command message;
    if (!lockfsm_has_left_over(machine->fsm, &message.places)) {
        return false;
    }
    encode_sweep(&command, &message);
    apply(machine, &command);
    return true;
}

static uint32_t holds_of(struct machine *machine, const char *name)
{
    const struct lock *lock = lockfsm_lock(machine->fsm, bytes_of_text(name));
    return lock == NULL ? 0 : lock->hold_count;
}

/* --- A crowd that waits for another lock ---------------------------------- */

static void wait_in_crowd(struct machine *machine, uint32_t count)
{
    begin(machine, SLICE_DEFAULT);
    assert_int_equal(acquire(machine, CROWD, "b", LOCK_EXCLUSIVE, false),
                     RESULT_OK);
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(acquire(machine, i, "ab", LOCK_SHARED, true),
                         RESULT_QUEUED);
    }
    assert_false(sweep(machine));
    machine->most = 0;
}

/* While a session comes and goes at one of its locks, and SWEEP is rare, the
 * round of SWEEP still ends. */
static void a_crowd_costs_no_entry_more_than_its_turn(void **state)
{
    struct machine machine;
    (void)state;
    wait_in_crowd(&machine, CROWD);
    const struct lock *lock = lockfsm_lock(machine.fsm, BYTES_LITERAL("a"));
    uint64_t rounds = 0, last = 0;
    for (uint32_t i = 0; i < ROUNDS; i++) {
        bool is_cut = lock->cut_serial != 0;
        enum result_code code = acquire(&machine, CROWD + 1, "a", LOCK_SHARED,
                                        true);
        /* A session that comes during a hand-over is after the earlier
         * waiters. */
        assert_int_equal(code, is_cut ? RESULT_QUEUED : RESULT_OK);
        if (is_cut) {
            cancel(&machine, CROWD + 1, "a");
        } else {
            release(&machine, CROWD + 1, "a");
        }
        if (i % 3 == 0) {
            sweep(&machine);
        }
        rounds += lock->cut_serial != last;
        last = lock->cut_serial;
    }
    assert_true(rounds >= 8);
    while (sweep(&machine)) {
    }
    assert_int_equal(acquire(&machine, CROWD + 1, "a", LOCK_SHARED, false),
                     RESULT_OK);
    release(&machine, CROWD, "b");
    while (sweep(&machine)) {
    }
    assert_int_equal(holds_of(&machine, "b"), CROWD);
    assert_int_equal(holds_of(&machine, "a"), CROWD + 1);
    assert_true(machine.most <= lockfsm_step_max(machine.fsm));
    end(&machine);
}

/* The waiters at the end are let in although others come and go at the head as
 * often as SWEEP comes. */
static void a_stream_at_the_head_keeps_nobody_out(void **state)
{
    struct machine machine;
    (void)state;
    wait_in_crowd(&machine, CROWD / 6);
    assert_int_equal(acquire(&machine, CROWD + 2, "c", LOCK_EXCLUSIVE, false),
                     RESULT_OK);
    assert_int_equal(acquire(&machine, CROWD + 1, "ac", LOCK_SHARED, true),
                     RESULT_QUEUED);
    /* One round is under way, and has not reached the last one. */
    cancel(&machine, 0, "a");
    assert_true(sweep(&machine));
    release(&machine, CROWD + 2, "c"); /* It is granted at c's queue. */
    assert_int_equal(holds_of(&machine, "c"), 1);
    assert_int_equal(acquire(&machine, CROWD + 3, "a", LOCK_SHARED, true),
                     RESULT_QUEUED);
    for (uint32_t i = 1; holds_of(&machine, "a") == 1; i++) {
        assert_true(i < 100);
        cancel(&machine, i, "a");
        assert_true(sweep(&machine));
    }
    end(&machine);
}

/* Both locks were checked in part, the second while an upgrade was ahead of all
 * at the first: those that were passed get their turn once it has gone. */
static void who_was_passed_is_looked_at_again(void **state)
{
    struct machine machine;
    (void)state;
    begin(&machine, 1);
    assert_int_equal(acquire(&machine, 100, "b", LOCK_EXCLUSIVE, false),
                     RESULT_OK);
    assert_int_equal(acquire(&machine, 3, "a", LOCK_SHARED, false), RESULT_OK);
    assert_int_equal(acquire(&machine, 4, "a", LOCK_SHARED, false), RESULT_OK);
    for (uint32_t i = 0; i < 20; i++) {
        assert_int_equal(acquire(&machine, 10 + i, "ab", LOCK_SHARED, true),
                         RESULT_QUEUED);
    }
    cancel(&machine, 10, "a");
    uint32_t places;
    assert_true(lockfsm_has_left_over(machine.fsm, &places));
    upgrade(&machine, 3, "a");
    release(&machine, 100, "b");
    cancel(&machine, 3, "a");
    assert_null(lockfsm_check_basic(machine.fsm));
    while (sweep(&machine)) {
        assert_null(lockfsm_check_basic(machine.fsm));
    }
    assert_int_equal(holds_of(&machine, "a"), 2 + 19);
    assert_int_equal(holds_of(&machine, "b"), 19);
    end(&machine);
}

/* --- Against a machine that never cuts ------------------------------------ */

static void write_list(const struct list *list, bool is_waiting,
                       struct buffer *out)
{
    LIST_EACH (node, list) {
        const struct wait *wait = LIST_ENTRY(node, struct wait, in_lock);
        const struct hold *hold = LIST_ENTRY(node, struct hold, in_lock);
        struct bytes owner = is_waiting ? wait->owner : hold->owner;
        buffer_put_bytes(out, owner);
        buffer_put_u8(out, (uint8_t)(is_waiting ? wait->mode : hold->mode));
    }
}

/* Waiters, in order, and holders: sorted, since those that share a lock may
 * have come in another order from different queues. */
static void write_state(struct machine *machine, struct buffer *out)
{
    for (char name = 'a'; name < 'a' + LOCKS; name++) {
        const struct lock *lock = lockfsm_lock(machine->fsm,
                                               bytes_of(&name, 1));
        if (lock == NULL) {
            continue;
        }
        buffer_put_u8(out, (uint8_t)name);
        for (uint32_t i = 0; i < OWNERS; i++) {
            const struct hold *hold = lockfsm_hold(
                machine->fsm, lock, machine->session, owner_of(i));
            buffer_put_u8(out, hold == NULL ? 0 : (uint8_t)(1 + hold->mode));
        }
        write_list(&lock->queue, true, out);
    }
}

/* Does one random operation. */
static void do_one(struct machine *machine, struct drawn *drawn)
{
    static const char *const names[] = {"a",  "b",  "c",  "d",   "ab",  "bc",
                                        "ac", "bd", "cd", "abc", "bcd", "abcd"};
    uint32_t owner = drawn_below(drawn, OWNERS);
    const char *name = names[drawn_below(drawn, 12)];
    uint32_t what = drawn_below(drawn, 14);
    const char *one = names[drawn_below(drawn, 4)];
    /* Those with slots have locks of their own. */
    enum lock_mode mode = strpbrk(name, "d") != NULL   ? LOCK_SLOTS
                          : drawn_below(drawn, 3) == 0 ? LOCK_EXCLUSIVE
                                                       : LOCK_SHARED;
    if (what < 6) {
        acquire(machine, owner, name, mode, true);
    } else if (what < 9) {
        release(machine, owner, name);
    } else if (what < 10) {
        cancel(machine, owner, name);
    } else if (what < 11) {
        upgrade(machine, owner, one);
    } else {
        time_is_over(machine, owner, one, what < 13);
    }
}

/* Loads the records that the machine would write, and compares: the digest
 * covers the record of a lock, which contains the cut. */
static void compare_with_loaded(struct machine *machine)
{
    struct table *table = table_new_memory();
    char why[HASP_WHY_SIZE];
    struct lockfsm *other = lockfsm_new();
    assert_int_equal(lockfsm_flush(machine->fsm, table), 0);
    assert_int_equal(lockfsm_load(other, table, why), 0);
    assert_true(lockfsm_hash(other) == lockfsm_hash(machine->fsm));
    lockfsm_free(other);
    table_close(table);
}

/* Replaces the machine's state by that of a node that starts now. */
static void reload(struct machine *machine, struct table *table)
{
    char why[HASP_WHY_SIZE];
    assert_int_equal(lockfsm_flush(machine->fsm, table), 0);
    assert_int_equal(lockfsm_load(machine->fsm, table, why), 0);
}

static void cut_or_not_it_all_comes_the_same(void **state)
{
    (void)state;
    for (uint32_t seed = 1; seed <= 16; seed++) {
        struct machine plain, cut;
        struct drawn first = {seed}, second = {seed};
        begin(&plain, 1000000);
        begin(&cut, 1 + seed % 3);
        for (int i = 0; i < 400; i++) {
            struct buffer is = {0}, should_be = {0};
            do_one(&plain, &first);
            do_one(&cut, &second);
            while (sweep(&cut)) {
            }
            assert_false(sweep(&plain));
            write_state(&plain, &should_be);
            write_state(&cut, &is);
            if (!bytes_equal(buffer_bytes(&is), buffer_bytes(&should_be))) {
                fail_msg("seed %" PRIu32 ", step %d", seed, i);
            }
            buffer_done(&is);
            buffer_done(&should_be);
        }
        end(&plain);
        end(&cut);
    }
}

/* One node never restarts, the other loads its state repeatedly; SWEEP comes
 * late, so much is cut. */
static void a_node_that_loads_cuts_at_the_same_place(void **state)
{
    uint32_t cuts = 0;
    (void)state;
    for (uint32_t seed = 1; seed <= 16; seed++) {
        struct machine stays, loads;
        struct drawn first = {seed}, second = {seed}, when = {seed + 1000};
        struct table *table = table_new_memory();
        begin(&stays, 1 + seed % 2);
        begin(&loads, 1 + seed % 2);
        for (int i = 0; i < 400; i++) {
            if (drawn_below(&when, 3) == 0) {
                assert_int_equal(sweep(&stays), sweep(&loads));
            } else {
                do_one(&stays, &first);
                do_one(&loads, &second);
            }
            if (drawn_below(&when, 4) == 0) {
                reload(&loads, table);
            }
            uint32_t places;
            cuts += lockfsm_has_left_over(stays.fsm, &places);
            assert_null(lockfsm_check_basic(loads.fsm));
            if (lockfsm_hash(stays.fsm) != lockfsm_hash(loads.fsm)) {
                fail_msg("seed %" PRIu32 ", step %d", seed, i);
            }
        }
        compare_with_loaded(&stays);
        end(&stays);
        end(&loads);
        table_close(table);
    }
    assert_true(cuts > 400);
}

/* Of ten lives, each restored from the one before, the newest eight are known,
 * also in a loaded state. */
static void a_life_knows_of_which_it_was_restored(void **state)
{
    struct machine machine;
    struct table *table = table_new_memory();
    struct buffer command = {0};
    uint8_t id[CLUSTER_ID_SIZE] = {1}, former[CLUSTER_ID_SIZE];
    (void)state;
    begin(&machine, 1000000);
    for (uint8_t life = 2; life <= FORMER_ID_MAX + 2; life++) {
        lockfsm_new_life(machine.fsm, 0);
        lockfsm_new_life(machine.fsm, 0); /* A life that never began. */
        id[0] = life;
        encode_begin(&command, &(struct begin_command){
                                   .node = 1,
                                   .cluster_id = bytes_of(id, sizeof id),
                                   .token_base = TOKEN_BASE_MIN});
        apply(&machine, &command);
        lockfsm_cluster_id(machine.fsm, former);
        assert_memory_equal(former, id, sizeof id);
    }
    reload(&machine, table);
    for (uint8_t i = 0; i < FORMER_ID_MAX; i++) {
        assert_true(lockfsm_former_id(machine.fsm, i, former));
        assert_int_equal(former[0], FORMER_ID_MAX + 1 - i);
    }
    assert_false(lockfsm_former_id(machine.fsm, FORMER_ID_MAX, former));
    end(&machine);
    table_close(table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cut_or_not_it_all_comes_the_same),
        cmocka_unit_test(a_node_that_loads_cuts_at_the_same_place),
        cmocka_unit_test(a_crowd_costs_no_entry_more_than_its_turn),
        cmocka_unit_test(a_stream_at_the_head_keeps_nobody_out),
        cmocka_unit_test(who_was_passed_is_looked_at_again),
        cmocka_unit_test(a_life_knows_of_which_it_was_restored),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
