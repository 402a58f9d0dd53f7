/* SPDX-License-Identifier: MIT */

/* storage/datadir.h and snapshot files on a disk that loses unflushed writes
 * (tests/sim/sim_files.h): lives that end cleanly, by a kill inside any call,
 * by a call that fails, and by power cuts. Each life finds the identity, the
 * vote and the snapshots that the former was sure of, or those that it had
 * requested, trusts no table that died with the machine or was set aside, and
 * finds the mark of an installation from its beginning to its end.
 *
 * POWER_SEED=n begins with another seed, POWER_ROUNDS=n runs that many. */

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"
#include "storage/datadir.h"
#include "storage/disk.h"
#include "storage/snapshot.h"
#include "tests/sim/sim_files.h"
#include "tests/sim/sim_tasks.h"

#define LIFE_COUNT 16
#define PATH "/m/data"
#define NODE_ID 3
#define PAGES PATH "/table/pages"

struct vote {
    uint64_t term;
    uint64_t voted_for;
};

struct run {
    struct prng prng;
    uint64_t seed;
    struct files_machine *machine;
    struct tasks tasks;
    struct datadir *datadir;
    bool was_open;          /* The directory has been opened with success. */
    uint64_t incarnation;   /* Then: its own. */
    struct vote sure;       /* Reported durable, or found. */
    struct vote asked;      /* The last one requested. */
    uint64_t sure_snapshot; /* Index; 0: none. */
    uint64_t asked_snapshot;
    bool is_table_good;    /* All of its pages are there. */
    bool is_table_dirty;   /* Some of them in the cache alone. */
    uint64_t installing;   /* Index of the newest mark of an installation. */
    bool is_mark_sure;     /* It is there for certain ... */
    bool is_unmarked_sure; /* ... or certainly not. */
};

static uint64_t now_of(struct tasks *tasks)
{
    (void)tasks;
    return 1;
}

static uint64_t dice(struct run *run, uint64_t bound)
{
    return prng_below(&run->prng, bound);
}

static bool is_over(const struct run *run)
{
    return files_is_dead(run->machine) || files_has_failed(run->machine);
}

#define fail_run(run, ...)                                          \
    do {                                                            \
        print_message("reproduce: POWER_SEED=%lu POWER_ROUNDS=1\n", \
                      (unsigned long)(run)->seed);                  \
        fail_msg(__VA_ARGS__);                                      \
    } while (0)

static bool is_same(struct vote a, struct vote b)
{
    return a.term == b.term && a.voted_for == b.voted_for;
}

/* --- Checks --------------------------------------------------------------- */

static void check_identity(struct run *run)
{
    const struct datadir_identity *identity = datadir_identity(run->datadir);
    if (run->was_open && identity->incarnation != run->incarnation) {
        fail_run(run, "the identity is another one");
    }
    run->was_open = true;
    run->incarnation = identity->incarnation;
}

/* A found value has been read: it counts from now on. */
static bool check_vote(struct run *run)
{
    struct vote found;
    char why[HASP_WHY_SIZE];
    int error = datadir_load_vote(run->datadir, &found.term, &found.voted_for,
                                  why);
    if (error != 0) {
        if (!is_over(run)) {
            fail_run(run, "the vote cannot be read: %s", why);
        }
        return false;
    }
    if (!is_same(found, run->sure) && !is_same(found, run->asked)) {
        fail_run(run,
                 "the vote is (%lu, %lu), was (%lu, %lu), and (%lu, %lu) was "
                 "asked for",
                 (unsigned long)found.term, (unsigned long)found.voted_for,
                 (unsigned long)run->sure.term,
                 (unsigned long)run->sure.voted_for,
                 (unsigned long)run->asked.term,
                 (unsigned long)run->asked.voted_for);
    }
    run->sure = run->asked = found;
    return true;
}

static bool check_snapshot(struct run *run)
{
    struct snapshot_file file;
    char why[HASP_WHY_SIZE];
    int error = snapshot_file_newest(datadir_snapshot_path(run->datadir), &file,
                                     why);
    uint64_t found = error == 0 ? file.header.last_index : 0;
    if (error == 0) {
        snapshot_file_unmap(&file);
    }
    if (is_over(run)) {
        return false;
    }
    if (error != 0 && error != HASP_ENOENT) {
        fail_run(run, "snapshots cannot be read: %s", why);
    }
    if (found < run->sure_snapshot || found > run->asked_snapshot) {
        fail_run(run, "the newest snapshot is %lu, was %lu, and %lu was taken",
                 (unsigned long)found, (unsigned long)run->sure_snapshot,
                 (unsigned long)run->asked_snapshot);
    }
    run->sure_snapshot = found; /* A log may be trimmed by it. */
    return true;
}

/* Makes the file that stands for a table's pages; it is flushed, with its
 * name. */
static bool make_pages(void)
{
    int fd = storage_port->openat(AT_FDCWD, PAGES, O_RDWR | O_CREAT);
    bool is_made = fd >= 0 && storage_port->fsync(fd) == 0;
    if (fd >= 0) {
        storage_port->close(fd);
    }
    fd = storage_port->openat(AT_FDCWD, PATH "/table", O_RDONLY | O_DIRECTORY);
    is_made = is_made && fd >= 0 && storage_port->fsync(fd) == 0;
    if (fd >= 0) {
        storage_port->close(fd);
    }
    return is_made;
}

static bool check_table(struct run *run)
{
    if (datadir_table_is_trusted(run->datadir)) {
        if (!run->is_table_good) {
            fail_run(run, "a table that died with the machine is trusted");
        }
        if (storage_port->exists(AT_FDCWD, PAGES) != 0 && !is_over(run)) {
            fail_run(run, "a table that was removed or set aside is trusted");
        }
    } else if (datadir_table_remove(run->datadir) != 0 || !make_pages()) {
        return false;
    }
    run->is_table_good = true; /* A new one, or the old one. */
    run->is_table_dirty = datadir_table_opened(run->datadir) == 0;
    return run->is_table_dirty;
}

/* A mark is there from the end of begin() to the end of end(). */
static void check_mark(struct run *run)
{
    bool is_there = datadir_is_installing(run->datadir, run->installing, 1);
    if (is_over(run)) {
        return;
    }
    if (is_there ? run->is_unmarked_sure : run->is_mark_sure) {
        fail_run(run, "the mark of installation %lu is %s",
                 (unsigned long)run->installing, is_there ? "back" : "gone");
    }
    if (datadir_is_installing(run->datadir, run->installing + 1, 1) ||
        datadir_is_installing(run->datadir, run->installing, 2)) {
        fail_run(run, "the mark is that of another installation");
    }
}

/* --- Actions -------------------------------------------------------------- */

static bool save_vote(struct run *run)
{
    run->asked.term += dice(run, 3);
    if (run->asked.term == 0 || run->asked.term > run->sure.term) {
        run->asked.term += run->asked.term == 0;
        run->asked.voted_for = dice(run, 4);
    }
    if (datadir_save_vote(run->datadir, run->asked.term,
                          run->asked.voted_for) != 0) {
        return false;
    }
    run->sure = run->asked;
    return true;
}

/* snapshot_sink_fn. */
static int append_piece(void *data, struct bytes piece)
{
    buffer_put_bytes(data, piece);
    return 0;
}

/* As from another node: written without a flush, then adopted. */
static int receive(struct run *run, const struct snapshot_header *header,
                   struct table_txn *txn, char why[HASP_WHY_SIZE])
{
    static const char path[] = PATH "/snapshot/received.tmp";
    struct buffer stream = {0};
    assert_int_equal(snapshot_encode(header, txn, append_piece, &stream), 0);
    int fd = storage_port->openat(AT_FDCWD, path, O_RDWR | O_CREAT | O_TRUNC);
    int error = fd < 0 ? EIO : disk_write_cached(fd, buffer_bytes(&stream), 0);
    buffer_done(&stream);
    if (error == 0) {
        error = snapshot_file_adopt(datadir_snapshot_path(run->datadir), path,
                                    why);
    }
    if (fd >= 0) {
        storage_port->close(fd);
    }
    return error;
}

/* Taken, or received. */
static bool take_snapshot(struct run *run)
{
    struct snapshot_header header = {.last_index = run->asked_snapshot + 1,
                                     .last_term = 1,
                                     .configuration_index = 1,
                                     .configuration = bytes_of_text("members")};
    struct table *table = table_new_memory();
    struct table_txn *txn;
    char why[HASP_WHY_SIZE], key[16] = "key", value[3000];
    uint64_t size;
    memset(value, 'v', sizeof value);
    assert_int_equal(table_begin_write(table, &txn), 0);
    assert_int_equal(table_put(txn, TABLE_META,
                               BYTES_LITERAL(SNAPSHOT_META_APPLIED),
                               bytes_of(value, 16)),
                     0);
    for (int i = 0; i < 3; i++) {
        key[3] = (char)('0' + i);
        assert_int_equal(table_put(txn, TABLE_LOCKS, bytes_of_text(key),
                                   bytes_of(value, sizeof value)),
                         0);
    }
    assert_int_equal(table_commit(txn), 0);
    assert_int_equal(table_begin_read(table, &txn), 0);
    run->asked_snapshot++;
    int error = dice(run, 2) == 0
                    ? receive(run, &header, txn, why)
                    : snapshot_file_write(datadir_snapshot_path(run->datadir),
                                          &header, txn, &size, why);
    table_abort(txn);
    table_close(table);
    if (error == 0) {
        run->sure_snapshot = run->asked_snapshot;
    }
    return error == 0;
}

static bool close_table(struct run *run)
{
    run->is_table_dirty = false; /* LMDB has flushed it. */
    return datadir_table_closed(run->datadir) == 0;
}

/* The table is damaged: it is set aside, and another one is made. */
static bool replace_table(struct run *run)
{
    int number = 0;
    int error = datadir_table_set_aside(run->datadir, &number);
    if (error == HASP_EFULL) {
        return true;
    }
    if (error != 0 || !make_pages()) {
        return false;
    }
    return datadir_table_opened(run->datadir) == 0;
}

/* The table cannot be used: another one is made. */
static bool remove_table(struct run *run)
{
    return datadir_table_remove(run->datadir) == 0 && !is_over(run) &&
           make_pages() && datadir_table_opened(run->datadir) == 0;
}

static bool mark_installation(struct run *run)
{
    run->installing++;
    run->is_mark_sure = run->is_unmarked_sure = false;
    run->is_mark_sure = datadir_install_begin(run->datadir, run->installing,
                                              1) == 0;
    return run->is_mark_sure;
}

static bool end_installation(struct run *run)
{
    run->is_mark_sure = false;
    run->is_unmarked_sure = datadir_install_end(run->datadir) == 0;
    return run->is_unmarked_sure;
}

static bool act(struct run *run)
{
    static bool (*const acts[])(struct run *) = {
        save_vote,     save_vote,         save_vote,       save_vote,
        take_snapshot, take_snapshot,     take_snapshot,   replace_table,
        remove_table,  mark_installation, end_installation};
    uint64_t what = dice(run, sizeof acts / sizeof *acts);
    bool goes_on = acts[what](run);
    return goes_on && !is_over(run);
}

static void choose_faults(struct run *run)
{
    uint64_t what = dice(run, 10);
    uint32_t calls = 1 + (uint32_t)dice(run, dice(run, 2) == 0 ? 20 : 200);
    if (what < 4) {
        files_die_within(run->machine, calls);
    } else if (what < 7) {
        files_fail_within(run->machine, calls);
    }
}

static void live(struct run *run)
{
    char why[HASP_WHY_SIZE];
    bool is_new = false;
    files_start(run->machine);
    choose_faults(run);
    int error = datadir_open(PATH, NODE_ID, prng_next(&run->prng) | 1,
                             &run->datadir, &is_new, why);
    if (error != 0) {
        if (!is_over(run)) {
            fail_run(run, "a directory that was cut off does not open: %s",
                     why);
        }
        run->datadir = NULL;
    } else if (!is_over(run)) {
        check_identity(run);
        check_mark(run);
        if (check_vote(run) && check_snapshot(run) && check_table(run)) {
            uint64_t count = dice(run, 8);
            while (count-- > 0 && act(run)) {
            }
            if (dice(run, 3) == 0 && !is_over(run)) {
                (void)close_table(run);
            }
        }
    }
    files_die(run->machine);
    datadir_close(run->datadir);
    run->datadir = NULL;
    if (dice(run, 2) == 0) {
        files_lose_power(run->machine);
        run->is_table_good = run->is_table_good && !run->is_table_dirty;
    }
}

static void what_was_promised_survives(void **state)
{
    const char *text = getenv("POWER_SEED");
    uint64_t seed = text != NULL ? strtoull(text, NULL, 10) : 1;
    text = getenv("POWER_ROUNDS");
    uint64_t rounds = text != NULL ? strtoull(text, NULL, 10) : 4000;
    struct run *run = memory_new(sizeof *run);
    (void)state;
    for (; rounds > 0; rounds--, seed++) {
        *run = (struct run){.prng = {seed}, .seed = seed};
        run->machine = files_new("m", seed);
        tasks_init(&run->tasks);
        run->tasks.now_ns = now_of;
        tasks_enter(&run->tasks);
        for (int life = 0; life < LIFE_COUNT; life++) {
            live(run);
        }
        files_free(run->machine);
    }
    free(run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_promised_survives),
    };
    tasks_use();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
