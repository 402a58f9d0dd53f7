/* SPDX-License-Identifier: MIT */

/* storage/wal.h on a disk that loses unflushed writes (tests/sim/sim_files.h):
 * random appends, truncations, trims and resets beside a plain array, through
 * lives that end cleanly, by a kill inside any call, by a call that fails, and
 * by power cuts that tear the writes under way. Everything reported durable is
 * there afterwards, and nothing that was not written.
 *
 * WAL_SEED=n begins with another seed, WAL_ROUNDS=n runs that many. */

#include "storage/wal.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "tests/sim/sim_files.h"
#include "tests/sim/sim_tasks.h"
#include "tests/unit/wal_fixture.h"

#define LIFE_COUNT 12
#define PATH "/m/wal"

struct run {
    struct prng prng;
    uint64_t seed;
    struct files_machine *machine;
    struct tasks tasks;
    uint64_t now_ns;
    struct fixture log;
    struct model model;
    uint32_t sure; /* Number of operations that were reported durable. */
    /* A reset was under way when the life ended: it may have happened. */
    bool has_reset;
    uint64_t reset_to;
};

static uint64_t now_of(struct tasks *tasks)
{
    return LIST_ENTRY(tasks, struct run, tasks)->now_ns;
}

static uint64_t dice(struct run *run, uint64_t bound)
{
    return prng_below(&run->prng, bound);
}

#define fail_run(run, ...)                                      \
    do {                                                        \
        print_message("reproduce: WAL_SEED=%lu WAL_ROUNDS=1\n", \
                      (unsigned long)(run)->seed);              \
        fail_msg(__VA_ARGS__);                                  \
    } while (0)

/* --- The model ------------------------------------------------------------ */

static uint64_t last_term(const struct contents *state)
{
    return state->first < state->next ? state->term[state->next - 1] : 0;
}

/* The log says that it is durable up to here: the first state that matches, not
 * before its last report, is the minimum that must exist. */
static void note_durable(struct run *run, uint64_t term, uint64_t log_index)
{
    static struct contents state;
    struct model *model = &run->model;
    state = model->base;
    for (uint32_t i = 0; i <= model->op_count; i++) {
        bool is_empty = state.first == state.next;
        if (i >= run->sure && (is_empty ? log_index == 0
                                        : log_index == state.next - 1 &&
                                              term == last_term(&state))) {
            run->sure = i;
            return;
        }
        if (i < model->op_count) {
            model_apply(&state, &model->ops[i]);
        }
    }
    fail_run(run, "index %lu of term %lu is reported durable, which never was",
             (unsigned long)log_index, (unsigned long)term);
}

static void note_all_durable(struct run *run)
{
    model_settle(&run->model);
    run->sure = 0;
}

/* A life begins with everything that the former was sure of, or more. */
static void check_found(struct run *run)
{
    static struct contents state;
    struct model *model = &run->model;
    const struct contents *found = &run->log.loaded;
    bool is_known = false;
    state = model->base;
    for (uint32_t i = 0; i <= model->op_count && !is_known; i++) {
        is_known = i >= run->sure && model_is_same(found, &state);
        if (i < model->op_count) {
            model_apply(&state, &model->ops[i]);
        }
    }
    if (run->has_reset && !is_known) {
        is_known = found->first == run->reset_to &&
                   found->next == run->reset_to;
    }
    if (!is_known) {
        fail_run(run,
                 "found %lu to %lu; had %lu to %lu and %u operations, %u "
                 "of them durable",
                 (unsigned long)found->first, (unsigned long)found->next - 1,
                 (unsigned long)model->base.first,
                 (unsigned long)model->base.next - 1, model->op_count,
                 run->sure);
    }
    model->base = *found;
    model->op_count = 0;
    model->term++;
    run->sure = 0;
    run->has_reset = false;
}

/* --- A life --------------------------------------------------------------- */

/* The process is dead, or has to end. */
static bool is_over(const struct run *run)
{
    return files_is_dead(run->machine) || files_has_failed(run->machine);
}

/* One of the workers that are due, at random, takes a step. */
static void step_one(struct run *run)
{
    uint32_t count = 0;
    LIST_EACH (node, &run->tasks.workers) {
        count += LIST_ENTRY(node, struct task, in_tasks)->when_ns <=
                 run->now_ns;
    }
    uint64_t chosen = dice(run, count);
    LIST_EACH (node, &run->tasks.workers) {
        struct task *task = LIST_ENTRY(node, struct task, in_tasks);
        if (task->when_ns <= run->now_ns && chosen-- == 0) {
            tasks_step(task);
            return;
        }
    }
}

/* False if the log has failed. */
static bool turn_log(struct run *run)
{
    struct fixture *f = &run->log;
    run->now_ns += dice(run, 100000000);
    for (uint64_t i = dice(run, 6); i > 0; i--) {
        step_one(run);
    }
    int error = wal_start(f->wal);
    if (error == 0) {
        error = wal_complete(f->wal, &f->durable_term, &f->durable_index);
    }
    if (error != 0) {
        if (!is_over(run) && error != HASP_ENOSPC) {
            fail_run(run, "the log fails by itself: %s", wal_why(f->wal));
        }
        return false;
    }
    if (!wal_is_busy(f->wal)) {
        note_all_durable(run);
    }
    note_durable(run, f->durable_term, f->durable_index);
    return true;
}

static void add_entries(struct run *run, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        uint64_t log_index = wal_last(run->log.wal) + 1;
        struct wal_entry entry = entry_of(run->model.term, log_index);
        wal_append(run->log.wal, &entry, 1);
        model_add(&run->model, OP_APPEND, log_index);
    }
}

static void cut_entries(struct run *run)
{
    struct wal *wal = run->log.wal;
    uint64_t count = wal_last(wal) + 1 - wal_first(wal);
    uint64_t back = dice(run, dice(run, 5) == 0 ? count + 1 : 8);
    uint64_t from = wal_last(wal) + 1 - (back < count ? back : count);
    if (from <= wal_last(wal)) {
        wal_truncate(wal, from);
        model_add(&run->model, OP_TRUNCATE, from);
    }
    run->model.term++;
}

static bool reset_log(struct run *run)
{
    run->reset_to = 1 + dice(run, INDEX_MAX / 2);
    run->has_reset = true;
    if (wal_reset(run->log.wal, run->reset_to) != 0) {
        return false;
    }
    run->has_reset = false;
    run->model.op_count = 0;
    run->model.term++;
    model_add(&run->model, OP_RESET, run->reset_to);
    note_all_durable(run);
    return true;
}

static bool trim_log(struct run *run)
{
    struct contents *base = &run->model.base;
    if (wal_is_busy(run->log.wal)) {
        return true;
    }
    uint64_t up_to = base->first + dice(run, base->next - base->first + 1);
    if (wal_trim(run->log.wal, up_to) != 0) {
        return false;
    }
    base->first = wal_first(run->log.wal);
    return true;
}

/* False if the process has to end. */
static bool act(struct run *run)
{
    bool goes_on = true;
    uint64_t what = dice(run, 100);
    if (run->model.op_count > OP_COUNT_MAX / 2 ||
        wal_last(run->log.wal) + 200 > INDEX_MAX) {
        goes_on = reset_log(run);
    } else if (what < 60) {
        add_entries(run, 1 + dice(run, 5));
    } else if (what < 66) {
        add_entries(run, dice(run, 100));
    } else if (what < 80) {
        cut_entries(run);
        add_entries(run, dice(run, 4));
    } else if (what < 82) {
        goes_on = reset_log(run);
    } else {
        goes_on = trim_log(run);
    }
    return goes_on && turn_log(run) && !is_over(run);
}

/* A write under way may be complete, partial, or lost. */
static void die(struct run *run)
{
    if (!files_is_dead(run->machine) && dice(run, 2) == 0) {
        files_die_within(run->machine, 1 + (uint32_t)dice(run, 4));
        for (int i = 0; i < 3; i++) {
            step_one(run);
        }
    }
    files_die(run->machine);
}

/* Faults of the next life. */
static void choose_faults(struct run *run)
{
    uint64_t what = dice(run, 10);
    uint32_t calls = 1 + (uint32_t)dice(run, dice(run, 3) == 0 ? 20 : 400);
    if (what < 3) {
        files_die_within(run->machine, calls);
    } else if (what < 5) {
        files_fail_within(run->machine, calls);
    }
    files_set_room(run->machine,
                   what == 9 ? dice(run, UINT64_C(1) << 18) : UINT64_MAX);
}

static void live(struct run *run)
{
    struct fixture *f = &run->log;
    files_start(run->machine);
    choose_faults(run);
    f->options.without_direct = dice(run, 3) == 0;
    int error = try_open(f, PATH, &f->wal);
    if (error != 0) {
        if (!is_over(run) && error != HASP_ENOSPC) {
            fail_run(run, "a log that was cut off does not open: %s", f->why);
        }
        f->wal = NULL;
    } else {
        check_found(run);
        uint64_t count = dice(run, 60);
        while (count-- > 0 && act(run)) {
        }
        if (dice(run, 3) > 0) {
            die(run);
        }
        wal_close(f->wal);
        f->wal = NULL;
    }
    files_die(run->machine);
    if (dice(run, 2) == 0) {
        files_lose_power(run->machine);
    }
}

static void begin_run(struct run *run, uint64_t seed)
{
    *run = (struct run){.prng = {seed}, .seed = seed, .now_ns = NS_PER_S};
    run->machine = files_new("m", seed);
    if (seed % 10 == 9) {
        files_refuse_dsync(run->machine);
    }
    tasks_init(&run->tasks);
    run->tasks.now_ns = now_of;
    tasks_enter(&run->tasks);
    run->log.options.segment_size = 8192 << dice(run, 5);
    run->model.base.first = run->model.base.next = 1;
    run->model.term = 1;
}

static void what_is_durable_survives_and_nothing_else_appears(void **state)
{
    struct run *run = memory_new(sizeof *run);
    uint64_t seed = seed_of_run();
    (void)state;
    for (uint64_t i = rounds_of_run(600); i > 0; i--, seed++) {
        begin_run(run, seed);
        for (int life = 0; life < LIFE_COUNT; life++) {
            live(run);
        }
        files_free(run->machine);
    }
    free(run);
}

/* --- Rot ------------------------------------------------------------------ */

/* Damage to a closed log: it is refused, or its contents are unchanged. */
static void a_bit_that_rots_is_refused_or_harmless(void **state)
{
    struct run *run = memory_new(sizeof *run);
    uint64_t seed = seed_of_run();
    uint32_t refused = 0;
    (void)state;
    for (uint64_t i = rounds_of_run(300); i > 0; i--, seed++) {
        begin_run(run, seed);
        struct fixture *f = &run->log;
        assert_int_equal(try_open(f, PATH, &f->wal), 0);
        check_found(run);
        for (uint64_t count = 1 + dice(run, 60); count > 0; count--) {
            assert_true(act(run));
        }
        while (wal_is_busy(f->wal)) {
            assert_true(turn_log(run));
        }
        note_all_durable(run);
        uint64_t segment = 1 + dice(run, 3);
        wal_close(f->wal);
        f->wal = NULL;
        char path[80];
        char name[WAL_FILE_NAME_SIZE] = WAL_MARK_NAME;
        if (dice(run, 4) > 0) {
            wal_file_name(segment, name);
        }
        snprintf(path, sizeof path, PATH "/%s", name);
        if (files_rot(run->machine, path)) {
            int error = try_open(f, PATH, &f->wal);
            refused += error != 0;
            if (error == 0) {
                check_found(run);
            } else if (error != HASP_ECORRUPT) {
                fail_run(run, "%s: %s", hasp_strerror(error), f->why);
            }
            wal_close(f->wal);
            f->wal = NULL;
        }
        files_free(run->machine);
    }
    free(run);
    assert_true(refused > 0 || rounds_of_run(300) < 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_durable_survives_and_nothing_else_appears),
        cmocka_unit_test(a_bit_that_rots_is_refused_or_harmless),
    };
    tasks_use();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
