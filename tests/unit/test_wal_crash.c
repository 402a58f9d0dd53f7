/* SPDX-License-Identifier: MIT */

/* storage/wal.h against crashes: random appends, truncations, trims, resets and
 * reopens beside a plain array, with the files copied at random moments, mixed
 * sector by sector from before and after a write, or cut at any byte; and a
 * process that is killed while it writes.
 *
 * WAL_SEED=n repeats one run, WAL_ROUNDS=n makes them longer. */

#include "storage/wal.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "tests/unit/wal_fixture.h"

#define SECTOR_SIZE 512u

/* The recovered log must be the state after some of the operations, in
 * order. */
static void assert_some_state(const struct model *model,
                              const struct contents *found, const char *how)
{
    static struct contents state;
    state = model->base;
    for (uint32_t i = 0;; i++) {
        if (model_is_same(found, &state)) {
            return;
        }
        if (i == model->op_count) {
            break;
        }
        model_apply(&state, &model->ops[i]);
    }
    fail_msg("%s: found %lu to %lu, had %lu to %lu and %u operations", how,
             (unsigned long)found->first, (unsigned long)found->next - 1,
             (unsigned long)model->base.first,
             (unsigned long)model->base.next - 1, model->op_count);
}

/* --- Random operations ---------------------------------------------------- */

static void append_some(struct fixture *f, struct model *model, uint64_t count)
{
    for (uint64_t i = 0; i < count && wal_last(f->wal) + 2 < INDEX_MAX; i++) {
        uint64_t log_index = wal_last(f->wal) + 1;
        struct wal_entry entry = entry_of(model->term, log_index);
        wal_append(f->wal, &entry, 1);
        model_add(model, OP_APPEND, log_index);
    }
}

/* A new leader: the term grows, and a suffix goes. */
static void truncate_some(struct fixture *f, struct model *model,
                          struct prng *prng)
{
    uint64_t count = wal_last(f->wal) + 1 - wal_first(f->wal);
    uint64_t back = prng_below(prng, prng_chance(prng, 0.2) ? count + 1 : 8);
    uint64_t from = wal_last(f->wal) + 1 - (back < count ? back : count);
    model->term++;
    wal_truncate(f->wal, from);
    model_add(model, OP_TRUNCATE, from);
}

static void reset_log(struct fixture *f, struct model *model, struct prng *prng)
{
    uint64_t next = 1 + prng_below(prng, INDEX_MAX / 2);
    assert_int_equal(wal_reset(f->wal, next), 0);
    /* Queued operations are dropped; those in flight precede it. */
    model->op_count = 0;
    model->term++;
    model_add(model, OP_RESET, next);
    model_settle(model);
}

static void trim_log(struct fixture *f, struct model *model, struct prng *prng)
{
    /* Only durable entries may be in a snapshot. */
    uint64_t count = model->base.next - model->base.first;
    uint64_t up_to = model->base.first + prng_below(prng, count + 1);
    assert_false(wal_is_busy(f->wal));
    uint64_t last = wal_last(f->wal);
    assert_int_equal(wal_trim(f->wal, up_to), 0);
    assert_true(wal_first(f->wal) <= up_to + 1 || count == 0);
    assert_int_equal(wal_last(f->wal), last);
    model->base.first = wal_first(f->wal);
}

static void check_copy(struct fixture *f, const struct model *model,
                       const char *how)
{
    struct wal *wal = NULL;
    bool without_direct = f->options.without_direct;
    /* Recovery is the same for both, and the thread closes faster. */
    f->options.without_direct = true;
    if (try_open(f, f->copy, &wal) != 0) {
        fail_msg("%s: %s", how, f->why);
    }
    assert_some_state(model, &f->loaded, how);
    f->options.without_direct = without_direct;
    wal_close(wal);
}

/* A crash now: with some writes in flight and the thread at work. */
static void crash_now(struct fixture *f, const struct model *model)
{
    struct folder_image *image = take_image(f->path);
    put_image(f->copy, image);
    free_image(image);
    check_copy(f, model, "copied");
}

static void reopen_log(struct fixture *f, struct model *model)
{
    bool was_busy = wal_is_busy(f->wal);
    reopen(f);
    assert_some_state(model, &f->loaded, "reopened");
    if (!was_busy) {
        model_settle(model);
        assert_some_state(model, &f->loaded, "reopened at rest");
    }
    model->op_count = 0;
    model->base = f->loaded;
    model->term++;
}

static void take_step(struct fixture *f, struct model *model, struct prng *prng)
{
    uint64_t dice = prng_below(prng, 100);
    if (dice < 60) {
        append_some(f, model, 1 + prng_below(prng, 5));
    } else if (dice < 68) {
        append_some(f, model, prng_below(prng, 120));
    } else if (dice < 80) {
        truncate_some(f, model, prng);
        append_some(f, model, prng_below(prng, 4));
    } else if (dice < 81) {
        reset_log(f, model, prng);
    } else if (dice < 84) {
        reopen_log(f, model);
    } else if (dice < 94) {
        assert_int_equal(wal_start(f->wal), 0);
        crash_now(f, model);
    } else {
        flush(f);
        model_settle(model);
        trim_log(f, model, prng);
    }
    assert_int_equal(wal_start(f->wal), 0);
    if (prng_chance(prng, 0.5) || model->op_count > OP_COUNT_MAX / 2) {
        flush(f);
        model_settle(model);
    }
    if (wal_last(f->wal) + 200 > INDEX_MAX) {
        reset_log(f, model, prng);
    }
}

static void a_log_is_what_the_array_says_after_any_crash(void **state)
{
    struct fixture *f = *state;
    uint64_t seed = seed_of_run();
    struct prng prng = {seed};
    struct model *model = memory_new(sizeof *model);
    model->base = f->loaded;
    model->term = 1;
    print_message("reproduce: WAL_SEED=%lu\n", (unsigned long)seed);
    for (uint64_t i = rounds_of_run(250); i > 0; i--) {
        take_step(f, model, &prng);
    }
    free(model);
}

/* --- Torn writes ---------------------------------------------------------- */

/* The sectors in which a write has changed a folder's files. */
struct change {
    struct folder_image *before;
    struct folder_image *after;
};

/* Makes 'ret_mixed' of 'before', with each changed sector taken from 'after' by
 * the toss of a coin. */
static struct folder_image *mix(const struct change *change, struct prng *prng)
{
    struct folder_image *mixed = memory_new(sizeof *mixed);
    double chance = (double)prng_below(prng, 101) / 100;
    for (size_t i = 0; i < change->before->count; i++) {
        struct file_image *old = &change->before->files[i];
        struct file_image *new = find_file(change->after, old->name);
        struct file_image *file = &mixed->files[mixed->count++];
        *file = *old;
        file->data = memory_copy(old->data, old->size + 1);
        /* The mark is older than what is torn. */
        if (new == NULL || strcmp(old->name, WAL_MARK_NAME) == 0) {
            continue;
        }
        for (size_t at = 0; at + SECTOR_SIZE <= old->size; at += SECTOR_SIZE) {
            if (new->size >= old->size && prng_chance(prng, chance)) {
                memcpy(file->data + at, new->data + at, SECTOR_SIZE);
            }
        }
    }
    return mixed;
}

/* True if there was one write only, and not a second one to the next
 * segment. */
static bool is_one_write(const struct change *change)
{
    int count = 0;
    for (size_t i = 0; i < change->before->count; i++) {
        const struct file_image *old = &change->before->files[i];
        const struct file_image *new = find_file(change->after, old->name);
        count += strcmp(old->name, WAL_MARK_NAME) != 0 &&
                 new !=
                     NULL &&new->size >=
                         old->size &&memcmp(old->data, new->data, old->size) !=
                     0;
    }
    return count == 1;
}

/* A crash during one write gives the state before it or after it. */
static void tear(struct fixture *f, const struct change *change,
                 const struct model *model, struct prng *prng)
{
    struct folder_image *mixed = mix(change, prng);
    put_image(f->copy, mixed);
    free_image(mixed);
    check_copy(f, model, "torn");
}

/* Opens the torn copy, appends something shorter and crashes again at each of
 * its sectors: the remains of the first torn write must not return. */
static void tear_twice(struct fixture *f, const struct change *change,
                       const struct model *model, struct prng *prng)
{
    struct folder_image *mixed = mix(change, prng);
    put_image(f->copy, mixed);
    free_image(mixed);
    struct fixture *again = memory_new(sizeof *again);
    *again = *f;
    again->wal = NULL;
    snprintf(again->path, sizeof again->path, "%s", f->copy);
    snprintf(again->copy, sizeof again->copy, "%s/copy2", f->base);
    again->options.without_direct = true;
    reopen(again);
    assert_some_state(model, &again->loaded, "torn");

    struct model *later = memory_new(sizeof *later);
    later->base = again->loaded;
    later->term = model->term + 50;
    for (int i = 0; i < 6; i++) {
        struct change next = {.before = take_image(again->path)};
        if (i == 2) {
            truncate_some(again, later, prng);
        }
        append_some(again, later, 1);
        flush(again);
        next.after = take_image(again->path);
        if (is_one_write(&next)) {
            tear(again, &next, later, prng);
            tear(again, &next, later, prng);
        }
        model_settle(later);
        free_image(next.before);
        free_image(next.after);
    }
    close_log(again);
    empty_folder(again->copy);
    rmdir(again->copy);
    free(later);
    free(again);
}

static void a_torn_write_never_brings_old_records_back(void **state)
{
    struct fixture *f = *state;
    uint64_t seed = seed_of_run();
    struct prng prng = {seed * 7919};
    struct model *model = memory_new(sizeof *model);
    model->base = f->loaded;
    model->term = 1;
    uint64_t tear_count = 0;
    print_message("reproduce: WAL_SEED=%lu\n", (unsigned long)seed);
    for (uint64_t i = rounds_of_run(24); i > 0; i--) {
        struct change change = {.before = take_image(f->path)};
        if (prng_chance(&prng, 0.3)) {
            truncate_some(f, model, &prng);
        }
        append_some(f, model, 1 + prng_below(&prng, 30));
        flush(f);
        change.after = take_image(f->path);
        if (is_one_write(&change)) {
            tear_count++;
            tear(f, &change, model, &prng);
            tear(f, &change, model, &prng);
            tear_twice(f, &change, model, &prng);
        }
        model_settle(model);
        free_image(change.before);
        free_image(change.after);
        if (model->base.next > 400) {
            reset_log(f, model, &prng);
        }
    }
    assert_true(tear_count > 0);
    free(model);
}

static void a_last_write_cut_at_any_byte_is_gone_or_whole(void **state)
{
    struct fixture *f = *state;
    struct model *model = memory_new(sizeof *model);
    model->term = 1;
    append_some(f, model, 5);
    flush(f);
    model->base = (struct contents){.first = 1, .next = 1};
    model_settle(model);
    struct folder_image *before = take_image(f->path);
    append_some(f, model, 3);
    flush(f);
    struct folder_image *after = take_image(f->path);
    struct file_image *old = find_segment(before, 1);
    struct file_image *new = find_segment(after, 1);
    size_t end = used_size(new);
    size_t old_end = used_size(old);
    for (size_t cut = old_end & ~(size_t)7; cut <= end; cut++) {
        memcpy(old->data, new->data, cut);
        put_image(f->copy, before);
        check_copy(f, model, "cut");
        assert_int_equal(f->loaded.next, cut == end ? 9 : 6);
        /* Truncated bytes do not remain after the end. */
        struct folder_image *mended = take_image(f->copy);
        size_t left = used_size(find_segment(mended, 1));
        assert_int_equal(left, cut == end ? end : old_end);
        free_image(mended);
    }
    free_image(before);
    free_image(after);
    free(model);
}

static void the_first_write_of_a_segment_may_be_torn(void **state)
{
    struct fixture *f = *state;
    struct prng prng = {seed_of_run() * 104729};
    struct model *model = memory_new(sizeof *model);
    model->term = 1;
    model->base = f->loaded;
    int roll_count = 0;
    for (int i = 0; i < 400 && roll_count < 4; i++) {
        struct change change = {.before = take_image(f->path)};
        append_some(f, model, 1);
        flush(f);
        change.after = take_image(f->path);
        /* A new segment is one whose header was zero. */
        for (size_t k = 0; k < change.before->count; k++) {
            struct file_image *old = &change.before->files[k];
            struct file_image *new = find_file(change.after, old->name);
            if (used_size(old) == 0 && used_size(new) > 0) {
                roll_count++;
                for (int n = 0; n < 20; n++) {
                    tear(f, &change, model, &prng);
                }
            }
        }
        model_settle(model);
        free_image(change.before);
        free_image(change.after);
    }
    assert_true(roll_count >= 2);
    free(model);
}

static void a_crash_at_birth_leaves_a_new_log(void **state)
{
    struct fixture *f = *state;
    struct wal *wal = NULL;
    close_log(f);
    struct folder_image *image = take_image(f->path);
    /* The mark alone, and with segments that were not finished. */
    empty_folder(f->copy);
    mkdir(f->copy, 0700);
    put_file(f->copy, find_file(image, WAL_MARK_NAME));
    for (size_t size = 0; size <= 4 * WAL_BLOCK_SIZE; size += 1500) {
        assert_int_equal(try_open(f, f->copy, &wal), 0);
        assert_int_equal(f->loaded.next, 1);
        wal_close(wal);
        empty_folder(f->copy);
        put_file(f->copy, find_file(image, WAL_MARK_NAME));
        struct file_image part = *find_segment(image, 1);
        part.size = size;
        put_file(f->copy, &part);
    }
    free_image(image);
}

/* --- Killed processes ----------------------------------------------------- */

/* Appends and reports each durable index, until it is killed. */
_Noreturn static void write_until_killed(struct fixture *f, int out)
{
    struct prng prng = {seed_of_run()};
    f->wal = NULL;
    alarm(60);
    if (try_open(f, f->path, &f->wal) != 0) {
        _exit(1);
    }
    uint64_t told = 0;
    while (wal_last(f->wal) + 50 < INDEX_MAX) {
        append(f, 1, 1 + prng_below(&prng, 40));
        if (wal_start(f->wal) != 0 || turn(f) != 0) {
            _exit(1);
        }
        if (f->durable_index != told) {
            told = f->durable_index;
            if (write(out, &told, sizeof told) != sizeof told) {
                _exit(1);
            }
        }
    }
    pause();
    _exit(1);
}

static void what_was_told_durable_survives_a_kill(void **state)
{
    struct fixture *f = *state;
    struct prng prng = {seed_of_run() * 31};
    for (int round = 0; round < 12; round++) {
        int ends[2];
        uint64_t told = 0;
        uint64_t number = 0;
        close_log(f);
        assert_int_equal(pipe(ends), 0);
        pid_t child = fork();
        if (child == 0) {
            write_until_killed(f, ends[1]);
        }
        close(ends[1]);
        /* Long enough to have started, then any moment. */
        assert_int_equal(read(ends[0], &number, sizeof number), sizeof number);
        told = number;
        usleep((useconds_t)prng_below(&prng, 20000));
        kill(child, SIGKILL);
        int status = 0;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        while (read(ends[0], &number, sizeof number) == sizeof number) {
            told = number;
        }
        close(ends[0]);
        reopen(f);
        assert_true(f->loaded.next > told);
        if (f->loaded.next > INDEX_MAX / 2) {
            assert_int_equal(wal_reset(f->wal, 1), 0);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BOTH(a_log_is_what_the_array_says_after_any_crash),
        BOTH(a_torn_write_never_brings_old_records_back),
        BUFFERED(a_last_write_cut_at_any_byte_is_gone_or_whole),
        BUFFERED(the_first_write_of_a_segment_may_be_torn),
        BUFFERED(a_crash_at_birth_leaves_a_new_log),
        BOTH(what_was_told_durable_survives_a_kill),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
