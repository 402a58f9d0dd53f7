/* SPDX-License-Identifier: MIT */

/* A file of LMDB that is cut short: none of it is served, whether it is cut
 * before it is opened or while it is mapped. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/log.h"
#include "base/memory.h"
#include "base/prng.h"
#include "storage/table.h"

#define RECORD_COUNT 2000
#define PAGE_SIZE 4096

struct fixture {
    struct table *table;
    char folder[64];
    char file[80];
};

static int logged_cuts;

static void count_cuts(void *data, enum log_level level, const char *event,
                       const char *fields)
{
    (void)data;
    (void)level;
    logged_cuts += strstr(event, "cut short") != NULL &&
                   strstr(fields, "data.mdb") != NULL;
}

static int try_open(struct fixture *f, char why[HASP_WHY_SIZE])
{
    return table_open_lmdb(f->folder, 64 << 20, &f->table, why);
}

static void open_whole(struct fixture *f)
{
    char why[HASP_WHY_SIZE] = "";
    if (try_open(f, why) != 0) {
        fail_msg("%s", why);
    }
}

static struct bytes key_of(uint32_t number, char text[32])
{
    return bytes_of(text, (size_t)snprintf(text, 32, "key %08u", number));
}

static void put(struct table_txn *txn, uint32_t number, size_t size)
{
    static const char value[16384] = "value";
    char text[32];
    assert_true(size <= sizeof value);
    assert_int_equal(table_put(txn, TABLE_LOCKS, key_of(number, text),
                               bytes_of(value, size)),
                     0);
}

static struct table_txn *begin_write(struct fixture *f)
{
    struct table_txn *txn;
    assert_int_equal(table_begin_write(f->table, &txn), 0);
    return txn;
}

static off_t length_of(struct fixture *f)
{
    struct stat status;
    assert_int_equal(stat(f->file, &status), 0);
    return status.st_size;
}

static off_t needed_of(struct fixture *f)
{
    uint64_t used, room;
    table_size(f->table, &used, &room);
    return (off_t)used;
}

static int set_up(void **state)
{
    struct fixture *f = memory_new(sizeof *f);
    const char *base = getenv("TMPDIR");
    snprintf(f->folder, sizeof f->folder, "%.40s/hasp-cut-XXXXXX",
             base != NULL ? base : "/tmp");
    assert_non_null(mkdtemp(f->folder));
    snprintf(f->file, sizeof f->file, "%s/data.mdb", f->folder);
    open_whole(f);
    struct table_txn *txn = begin_write(f);
    for (uint32_t i = 0; i < RECORD_COUNT; i++) {
        put(txn, i, 100);
    }
    assert_int_equal(table_commit(txn), 0);
    logged_cuts = 0;
    log_set_sink(count_cuts, NULL);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    char lock[96];
    log_set_sink(NULL, NULL);
    table_close(f->table);
    snprintf(lock, sizeof lock, "%s/lock.mdb", f->folder);
    unlink(lock);
    unlink(f->file);
    assert_int_equal(rmdir(f->folder), 0);
    free(f);
    return 0;
}

static void one_that_was_cut_is_refused_at_each_length(void **state)
{
    struct fixture *f = *state;
    char why[HASP_WHY_SIZE];
    off_t needed = needed_of(f);
    table_close(f->table);
    assert_true(length_of(f) >= needed && needed > 50 * PAGE_SIZE);
    for (off_t length = needed - 1; length >= 0;
         length = length > PAGE_SIZE ? length - PAGE_SIZE : length - 1) {
        assert_int_equal(truncate(f->file, length), 0);
        f->table = NULL;
        assert_int_equal(try_open(f, why), HASP_EMORE);
        assert_non_null(strstr(why, f->file));
        assert_null(f->table);
        assert_int_equal(length_of(f), length);
        if (length < 100) {
            break;
        }
    }
    assert_int_equal(truncate(f->file, 0), 0);
    assert_int_equal(try_open(f, why), HASP_EMORE);
}

static void one_that_is_cut_while_it_is_open_serves_nothing(void **state)
{
    struct fixture *f = *state;
    struct table_txn *txn;
    off_t needed = needed_of(f);
    assert_int_equal(truncate(f->file, 0), 0);
    assert_int_equal(needed_of(f), needed);
    assert_int_equal(table_begin_read(f->table, &txn), HASP_ECORRUPT);
    assert_int_equal(table_begin_write(f->table, &txn), HASP_ECORRUPT);
    assert_int_equal(logged_cuts, 1);
}

static void a_commit_gives_it_no_length_back(void **state)
{
    struct fixture *f = *state;
    off_t cut = needed_of(f) / 2 / PAGE_SIZE * PAGE_SIZE;
    struct table_txn *txn = begin_write(f);
    put(txn, RECORD_COUNT, 100);
    assert_int_equal(truncate(f->file, cut), 0);
    assert_int_equal(table_commit(txn), HASP_ECORRUPT);
    assert_int_equal(length_of(f), cut);
    assert_int_equal(logged_cuts, 1);
    assert_int_not_equal(table_sync(f->table), 0);
}

/* LMDB does not write pages that it took and returned in one transaction, so
 * intact files can be shorter than its count of pages. */
static void one_that_nobody_cut_is_never_taken_for_one(void **state)
{
    struct fixture *f = *state;
    struct prng prng = {7};
    for (int round = 0; round < 300; round++) {
        struct table_txn *txn = begin_write(f);
        uint32_t count = (uint32_t)prng_below(&prng, 200);
        uint32_t first = (uint32_t)prng_below(&prng, 3 * RECORD_COUNT);
        for (uint32_t i = 0; i < count; i++) {
            put(txn, first + i, prng_below(&prng, i % 8 == 0 ? 16384 : 300));
        }
        uint32_t kept = (uint32_t)prng_below(&prng, count + 1);
        for (uint32_t i = kept; i < count; i++) {
            char text[32];
            assert_int_equal(
                table_delete(txn, TABLE_LOCKS, key_of(first + i, text)), 0);
        }
        assert_int_equal(table_commit(txn), 0);
        assert_true(length_of(f) >= needed_of(f));
        if (round % 10 == 0) {
            table_close(f->table);
            open_whole(f);
        }
    }
    assert_int_equal(logged_cuts, 0);
}

#define CUT_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CUT_TEST(one_that_was_cut_is_refused_at_each_length),
        CUT_TEST(one_that_is_cut_while_it_is_open_serves_nothing),
        CUT_TEST(a_commit_gives_it_no_length_back),
        CUT_TEST(one_that_nobody_cut_is_never_taken_for_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
