/* SPDX-License-Identifier: MIT */

/* storage/table.h: every case runs against both implementations. */

#include "storage/table.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/memory.h"
#include "base/prng.h"
#include "storage/table_ops.h"

/* --- Fixture -------------------------------------------------------------- */

struct fixture {
    struct table *table;
    struct table *inner; /* The one beneath a deferred one. */
    bool is_deferred;
    char folder[64]; /* Folder of LMDB; empty for the table in memory. */
};

static void open_table(struct fixture *f)
{
    char why[HASP_WHY_SIZE] = "";
    if (f->folder[0] == '\0') {
        f->table = table_new_memory();
    } else if (table_open_lmdb(f->folder, 64 << 20, &f->table, why) != 0) {
        fail_msg("%s", why);
    }
    if (f->is_deferred) {
        f->inner = f->table;
        assert_int_equal(table_new_deferred(f->inner, &f->table), 0);
    }
}

static int set_up_memory(void **state)
{
    struct fixture *f = memory_new(sizeof *f);
    open_table(f);
    *state = f;
    return 0;
}

static int set_up_lmdb(void **state)
{
    struct fixture *f = memory_new(sizeof *f);
    const char *base = getenv("TMPDIR");
    snprintf(f->folder, sizeof f->folder, "%.40s/hasp-table-XXXXXX",
             base != NULL ? base : "/tmp");
    assert_non_null(mkdtemp(f->folder));
    open_table(f);
    *state = f;
    return 0;
}

static int set_up_deferred(void **state)
{
    (void)set_up_lmdb(state);
    struct fixture *f = *state;
    f->is_deferred = true;
    f->inner = f->table;
    return table_new_deferred(f->inner, &f->table);
}

static void remove_file(const char *folder, const char *name)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    unlink(path);
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    table_close(f->table);
    if (f->folder[0] != '\0') {
        remove_file(f->folder, "data.mdb");
        remove_file(f->folder, "lock.mdb");
        assert_int_equal(rmdir(f->folder), 0);
    }
    free(f);
    return 0;
}

static struct table_txn *begin_write(struct fixture *f)
{
    struct table_txn *txn;
    assert_int_equal(table_begin_write(f->table, &txn), 0);
    return txn;
}

static struct table_txn *begin_read(struct fixture *f)
{
    struct table_txn *txn;
    assert_int_equal(table_begin_read(f->table, &txn), 0);
    return txn;
}

static void put(struct table_txn *txn, enum table_map map, const char *key,
                const char *value)
{
    assert_int_equal(
        table_put(txn, map, bytes_of_text(key), bytes_of_text(value)), 0);
}

static void assert_value(struct table_txn *txn, enum table_map map,
                         const char *key, const char *expected)
{
    struct bytes value;
    int error = table_get(txn, map, bytes_of_text(key), &value);
    if (expected == NULL) {
        assert_int_equal(error, HASP_ENOENT);
        return;
    }
    assert_int_equal(error, 0);
    assert_true(bytes_equal(value, bytes_of_text(expected)));
}

struct collected {
    struct buffer text;
    int stop_after; /* 0: never. */
    int count;
};

static int collect(void *data, struct bytes key, struct bytes value)
{
    struct collected *collected = data;
    buffer_put_bytes(&collected->text, key);
    buffer_put_u8(&collected->text, '=');
    buffer_put_bytes(&collected->text, value);
    buffer_put_u8(&collected->text, ' ');
    collected->count++;
    return collected->count == collected->stop_after ? 77 : 0;
}

static void assert_walk(struct table_txn *txn, enum table_map map,
                        const char *from, const char *expected)
{
    struct collected collected = {0};
    assert_int_equal(
        table_walk(txn, map, bytes_of_text(from), collect, &collected), 0);
    buffer_put_u8(&collected.text, '\0');
    assert_string_equal((char *)collected.text.data, expected);
    buffer_done(&collected.text);
}

/* --- Tests ---------------------------------------------------------------- */

static void what_was_put_is_found(void **state)
{
    struct table_txn *txn = begin_write(*state);
    put(txn, TABLE_LOCKS, "a", "1");
    put(txn, TABLE_LOCKS, "a", "2");
    put(txn, TABLE_HOLDS, "a", "");
    assert_value(txn, TABLE_LOCKS, "a", "2");
    assert_int_equal(table_commit(txn), 0);
    txn = begin_read(*state);
    assert_value(txn, TABLE_LOCKS, "a", "2");
    assert_value(txn, TABLE_HOLDS, "a", "");
    assert_value(txn, TABLE_WAITS, "a", NULL);
    assert_value(txn, TABLE_LOCKS, "aa", NULL);
    table_abort(txn);
}

static void deleting_what_is_not_there_is_no_error(void **state)
{
    struct table_txn *txn = begin_write(*state);
    put(txn, TABLE_LOCKS, "a", "1");
    assert_int_equal(table_delete(txn, TABLE_LOCKS, BYTES_LITERAL("a")), 0);
    assert_int_equal(table_delete(txn, TABLE_LOCKS, BYTES_LITERAL("a")), 0);
    assert_value(txn, TABLE_LOCKS, "a", NULL);
    assert_int_equal(table_commit(txn), 0);
}

static void a_walk_is_ordered_as_memcmp_orders(void **state)
{
    struct table_txn *txn = begin_write(*state);
    put(txn, TABLE_LOCKS, "b", "3");
    put(txn, TABLE_LOCKS, "\xff", "5");
    put(txn, TABLE_LOCKS, "ab", "2");
    put(txn, TABLE_LOCKS, "a", "1");
    put(txn, TABLE_LOCKS, "ba", "4");
    put(txn, TABLE_FENCES, "aa", "other");
    assert_walk(txn, TABLE_LOCKS, "", "a=1 ab=2 b=3 ba=4 \xff=5 ");
    assert_walk(txn, TABLE_LOCKS, "ab", "ab=2 b=3 ba=4 \xff=5 ");
    assert_walk(txn, TABLE_LOCKS, "aba", "b=3 ba=4 \xff=5 ");
    assert_walk(txn, TABLE_LOCKS, "\xff\x01", "");
    assert_walk(txn, TABLE_WAITS, "", "");
    table_abort(txn);
}

static void a_walk_ends_when_its_visitor_says_so(void **state)
{
    struct table_txn *txn = begin_write(*state);
    struct collected collected = {.stop_after = 2};
    put(txn, TABLE_LOCKS, "a", "1");
    put(txn, TABLE_LOCKS, "b", "2");
    put(txn, TABLE_LOCKS, "c", "3");
    assert_int_equal(
        table_walk(txn, TABLE_LOCKS, bytes_of(NULL, 0), collect, &collected),
        77);
    assert_int_equal(collected.count, 2);
    buffer_done(&collected.text);
    table_abort(txn);
}

static void an_aborted_write_leaves_nothing(void **state)
{
    struct table_txn *txn = begin_write(*state);
    put(txn, TABLE_LOCKS, "kept", "1");
    assert_int_equal(table_commit(txn), 0);
    txn = begin_write(*state);
    put(txn, TABLE_LOCKS, "dropped", "1");
    put(txn, TABLE_LOCKS, "kept", "2");
    table_abort(txn);
    txn = begin_read(*state);
    assert_walk(txn, TABLE_LOCKS, "", "kept=1 ");
    table_abort(txn);
}

static void a_reader_sees_the_state_of_its_beginning(void **state)
{
    struct table_txn *write = begin_write(*state);
    put(write, TABLE_LOCKS, "a", "1");
    put(write, TABLE_LOCKS, "b", "1");
    assert_int_equal(table_commit(write), 0);

    struct table_txn *before = begin_read(*state);
    write = begin_write(*state);
    put(write, TABLE_LOCKS, "a", "2");
    put(write, TABLE_LOCKS, "c", "2");
    assert_int_equal(table_delete(write, TABLE_LOCKS, BYTES_LITERAL("b")), 0);
    struct table_txn *during = begin_read(*state);
    assert_int_equal(table_commit(write), 0);
    struct table_txn *after = begin_read(*state);

    assert_walk(before, TABLE_LOCKS, "", "a=1 b=1 ");
    assert_walk(during, TABLE_LOCKS, "", "a=1 b=1 ");
    assert_walk(after, TABLE_LOCKS, "", "a=2 c=2 ");
    table_abort(during);
    table_abort(before);
    assert_int_equal(table_commit(after), 0);
}

static void clearing_empties_every_map(void **state)
{
    struct table_txn *txn = begin_write(*state);
    for (int map = 0; map < TABLE_MAP_COUNT; map++) {
        put(txn, (enum table_map)map, "k", "v");
    }
    assert_int_equal(table_commit(txn), 0);
    txn = begin_write(*state);
    assert_int_equal(table_clear(txn), 0);
    put(txn, TABLE_META, "again", "1");
    assert_int_equal(table_commit(txn), 0);
    txn = begin_read(*state);
    assert_walk(txn, TABLE_META, "", "again=1 ");
    for (int map = 1; map < TABLE_MAP_COUNT; map++) {
        assert_walk(txn, (enum table_map)map, "", "");
    }
    table_abort(txn);
}

static void sizes_beyond_the_limits_are_refused(void **state)
{
    static uint8_t big[TABLE_VALUE_SIZE_MAX + 1];
    struct bytes value;
    struct table_txn *txn = begin_write(*state);
    struct bytes longest = bytes_of(big, TABLE_KEY_SIZE_MAX);
    struct bytes too_long = bytes_of(big, TABLE_KEY_SIZE_MAX + 1);
    struct bytes none = bytes_of(big, 0);
    assert_int_equal(table_put(txn, TABLE_LOCKS, none, none), HASP_EINVALID);
    assert_int_equal(table_put(txn, TABLE_LOCKS, too_long, none),
                     HASP_EINVALID);
    assert_int_equal(table_delete(txn, TABLE_LOCKS, too_long), HASP_EINVALID);
    assert_int_equal(table_get(txn, TABLE_LOCKS, too_long, &value),
                     HASP_EINVALID);
    assert_int_equal(
        table_put(txn, TABLE_LOCKS, longest, bytes_of(big, sizeof big)),
        HASP_EINVALID);
    assert_int_equal(table_put(txn, TABLE_LOCKS, longest,
                               bytes_of(big, TABLE_VALUE_SIZE_MAX)),
                     0);
    assert_int_equal(table_commit(txn), 0);
    txn = begin_read(*state);
    assert_int_equal(table_get(txn, TABLE_LOCKS, longest, &value), 0);
    assert_int_equal(value.size, TABLE_VALUE_SIZE_MAX);
    table_abort(txn);
}

static void *read_and_end(void *data)
{
    struct table_txn *txn = data;
    struct collected collected = {0};
    if (table_walk(txn, TABLE_LOCKS, bytes_of(NULL, 0), collect, &collected) !=
        0) {
        collected.count = -1;
    }
    buffer_done(&collected.text);
    table_abort(txn);
    return (void *)(intptr_t)collected.count;
}

/* The snapshot worker does the same, while the loop continues to write. */
static void a_read_may_be_used_and_ended_on_another_thread(void **state)
{
    char key[16];
    struct table_txn *write = begin_write(*state);
    for (int i = 0; i < 500; i++) {
        snprintf(key, sizeof key, "%d", i);
        put(write, TABLE_LOCKS, key, "1");
    }
    assert_int_equal(table_commit(write), 0);

    pthread_t thread;
    void *count;
    struct table_txn *read = begin_read(*state);
    assert_int_equal(pthread_create(&thread, NULL, read_and_end, read), 0);
    for (int i = 0; i < 500; i += 3) {
        snprintf(key, sizeof key, "%d", i);
        write = begin_write(*state);
        assert_int_equal(table_delete(write, TABLE_LOCKS, bytes_of_text(key)),
                         0);
        put(write, TABLE_LOCKS, "new", "2");
        assert_int_equal(table_commit(write), 0);
    }
    assert_int_equal(pthread_join(thread, &count), 0);
    assert_int_equal((intptr_t)count, 500);
}

/* --- Against a model ------------------------------------------------------ */

#define MODEL_KEYS 64

/* A map from key number to value number, 0 being none, and as many frozen
 * copies of it as there are readers. */
struct model {
    uint32_t value[TABLE_MAP_COUNT][MODEL_KEYS];
};

struct reader_of_model {
    struct table_txn *txn;
    struct model model;
};

static struct bytes model_key(uint32_t number, char text[32])
{
    /* Lengths differ, so that some keys are prefixes of others. */
    snprintf(text, 32, "%.*s%02u", (int)(number % 3), "zz", number);
    return bytes_of_text(text);
}

static struct bytes model_value(uint32_t number, uint8_t value[3000])
{
    size_t size = 4 + number % 2996; /* Some need overflow pages. */
    memset(value, (int)(number % 251), size);
    store_u32(value, number);
    return bytes_of(value, size);
}

struct comparison {
    const uint32_t *value;
    uint32_t seen;
    char last[32];
};

static int compare_record(void *data, struct bytes key, struct bytes value)
{
    struct comparison *comparison = data;
    char text[32];
    uint8_t bytes[3000];
    struct bytes last = bytes_of_text(comparison->last);
    assert_true(bytes_compare(last, key) < 0);
    memcpy(comparison->last, key.data, key.size);
    comparison->last[key.size] = '\0';
    for (uint32_t i = 0; i < MODEL_KEYS; i++) {
        if (bytes_equal(model_key(i, text), key)) {
            assert_int_not_equal(comparison->value[i], 0);
            assert_true(
                bytes_equal(value, model_value(comparison->value[i], bytes)));
            comparison->seen++;
            return 0;
        }
    }
    fail_msg("a key that nobody put");
    return 1;
}

static void assert_model(struct table_txn *txn, const struct model *model)
{
    for (int map = 0; map < TABLE_MAP_COUNT; map++) {
        struct comparison comparison = {.value = model->value[map]};
        uint32_t expected = 0;
        for (uint32_t i = 0; i < MODEL_KEYS; i++) {
            char text[32];
            struct bytes value;
            expected += model->value[map][i] != 0;
            assert_int_equal(
                table_get(txn, (enum table_map)map, model_key(i, text), &value),
                model->value[map][i] != 0 ? 0 : HASP_ENOENT);
        }
        assert_int_equal(table_walk(txn, (enum table_map)map, bytes_of(NULL, 0),
                                    compare_record, &comparison),
                         0);
        assert_int_equal(comparison.seen, expected);
    }
}

static void change(struct prng *prng, struct table_txn *txn,
                   struct model *model)
{
    char text[32];
    uint8_t bytes[3000];
    uint32_t map = (uint32_t)prng_below(prng, TABLE_MAP_COUNT);
    uint32_t key = (uint32_t)prng_below(prng, MODEL_KEYS);
    uint32_t value = 1 + (uint32_t)prng_below(prng, 1000000);
    if (prng_chance(prng, 0.002)) {
        assert_int_equal(table_clear(txn), 0);
        *model = (struct model){0};
    } else if (prng_chance(prng, 0.45)) {
        assert_int_equal(
            table_delete(txn, (enum table_map)map, model_key(key, text)), 0);
        model->value[map][key] = 0;
    } else {
        assert_int_equal(table_put(txn, (enum table_map)map,
                                   model_key(key, text),
                                   model_value(value, bytes)),
                         0);
        model->value[map][key] = value;
    }
}

static void random_operations_agree_with_a_model(void **state)
{
    struct fixture *f = *state;
    const char *seed = getenv("SEED");
    struct prng prng = {seed != NULL ? strtoull(seed, NULL, 10) : 1};
    struct model model = {0};
    struct reader_of_model readers[4] = {0};
    print_message("repeat with SEED=%llu\n", (unsigned long long)prng.state);
    for (int turn = 0; turn < 300; turn++) {
        struct model next = model;
        struct table_txn *txn = begin_write(f);
        for (uint64_t n = prng_below(&prng, 60); n > 0; n--) {
            change(&prng, txn, &next);
        }
        if (turn % 16 == 0) {
            assert_model(txn, &next);
        }
        if (prng_chance(&prng, 0.2)) {
            table_abort(txn);
        } else {
            assert_int_equal(table_commit(txn), 0);
            model = next;
        }
        struct reader_of_model *reader = &readers[prng_below(&prng, 4)];
        if (reader->txn != NULL) {
            assert_model(reader->txn, &reader->model);
            table_abort(reader->txn);
            reader->txn = NULL;
        } else {
            reader->txn = begin_read(f);
            reader->model = model;
        }
    }
    for (int i = 0; i < 4; i++) {
        table_abort(readers[i].txn);
    }
}

/* --- LMDB alone ----------------------------------------------------------- */

static void the_table_outlives_its_process(void **state)
{
    struct fixture *f = *state;
    table_close(f->table);
    f->table = NULL;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct table_txn *txn;
        char why[HASP_WHY_SIZE];
        int error = table_open_lmdb(f->folder, 64 << 20, &f->table, why) != 0 ||
                    table_begin_write(f->table, &txn) != 0 ||
                    table_put(txn, TABLE_LOCKS, BYTES_LITERAL("a"),
                              BYTES_LITERAL("1")) != 0 ||
                    table_commit(txn) != 0 ||
                    /* This one is under way when the process dies. */
                    table_begin_write(f->table, &txn) != 0 ||
                    table_put(txn, TABLE_LOCKS, BYTES_LITERAL("b"),
                              BYTES_LITERAL("1")) != 0;
        if (error == 0) {
            raise(SIGKILL);
        }
        _exit(1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    open_table(f);
    struct table_txn *txn = begin_read(f);
    assert_walk(txn, TABLE_LOCKS, "", "a=1 ");
    table_abort(txn);
}

static void a_second_open_in_the_process_is_refused(void **state)
{
    struct fixture *f = *state;
    struct table *second;
    char why[HASP_WHY_SIZE];
    assert_int_equal(table_open_lmdb(f->folder, 64 << 20, &second, why),
                     HASP_EBUSY);
    assert_non_null(strstr(why, f->folder));
    /* And the attempt does not harm the first one. */
    struct table_txn *txn = begin_write(f);
    put(txn, TABLE_LOCKS, "a", "1");
    assert_int_equal(table_commit(txn), 0);
    assert_int_equal(table_sync(f->table), 0);
}

static void a_file_that_is_no_table_is_refused_with_its_name(void **state)
{
    struct fixture *f = *state;
    char path[128], why[HASP_WHY_SIZE];
    table_close(f->table);
    f->table = NULL;
    snprintf(path, sizeof path, "%s/data.mdb", f->folder);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    for (int i = 0; i < 4096; i++) {
        fputs("no table ", file);
    }
    fclose(file);
    assert_int_equal(table_open_lmdb(f->folder, 64 << 20, &f->table, why),
                     HASP_ECORRUPT);
    assert_non_null(strstr(why, f->folder));
}

/* After an error of a write the next commit could succeed with pages missing
 * (LMDB clears its dirty list): there must not be a next one. */
static void no_write_begins_after_a_failed_one(void **state)
{
    struct fixture *f = *state;
    struct table_txn *txn;
    static uint8_t value[32 * 1024];
    char why[HASP_WHY_SIZE], key[16];
    int error = 0;
    table_close(f->table);
    assert_int_equal(table_open_lmdb(f->folder, 1 << 20, &f->table, why), 0);
    txn = begin_write(f);
    put(txn, TABLE_LOCKS, "a", "1");
    assert_int_equal(table_commit(txn), 0);
    txn = begin_write(f);
    for (int i = 0; i < 100 && error == 0; i++) {
        snprintf(key, sizeof key, "%d", i);
        error = table_put(txn, TABLE_LOCKS, bytes_of_text(key),
                          bytes_of(value, sizeof value));
    }
    assert_int_equal(error, HASP_EFULL);
    /* It should have been aborted. */
    assert_int_equal(table_commit(txn), HASP_EIO);
    assert_int_equal(table_begin_write(f->table, &txn), HASP_EIO);
    assert_int_equal(table_sync(f->table), HASP_EIO);
    txn = begin_read(f);
    assert_walk(txn, TABLE_LOCKS, "", "a=1 ");
    table_abort(txn);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
/* In a child: exit code 0 if everything is correct. */
static void use_little_address_space(const char *folder)
{
    struct rlimit limit = {512 << 20, 512 << 20};
    struct table *table;
    struct table_txn *txn;
    char why[HASP_WHY_SIZE];
    uint64_t used, room;
    int error = 0;
    if (setrlimit(RLIMIT_AS, &limit) != 0 ||
        table_open_lmdb(folder, UINT64_C(16) << 30, &table, why) != 0) {
        _exit(1);
    }
    while (error == 0) {
        error = table_grow(table);
    }
    table_size(table, &used, &room);
    if (error != HASP_ENOMEM || room > 512 << 20) {
        _exit(2);
    }
    if (table_begin_write(table, &txn) != 0 ||
        table_put(txn, TABLE_LOCKS, BYTES_LITERAL("a"), BYTES_LITERAL("1")) !=
            0 ||
        table_commit(txn) != 0) {
        _exit(3);
    }
    _exit(0);
}

static void a_table_takes_the_address_space_that_there_is(void **state)
{
    struct fixture *f = *state;
    table_close(f->table);
    f->table = NULL;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        use_little_address_space(f->folder);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}
#endif

/* One transaction of 'count' values; returns success or the first error. */
static int put_many(struct fixture *f, int first, int count, size_t size)
{
    static uint8_t value[32 * 1024];
    char key[16];
    struct table_txn *txn = begin_write(f);
    for (int i = first; i < first + count; i++) {
        snprintf(key, sizeof key, "%06d", i);
        memset(value, i, size);
        int error = table_put(txn, TABLE_LOCKS, bytes_of_text(key),
                              bytes_of(value, size));
        if (error != 0) {
            table_abort(txn);
            return error;
        }
    }
    return table_commit(txn);
}

/* Wherever in a transaction the room ends: it is repeated. */
static void a_full_table_grows_and_keeps_what_it_had(void **state)
{
    struct fixture *f = *state;
    struct table_txn *reader;
    char why[HASP_WHY_SIZE], key[16];
    struct bytes value;
    uint64_t used, room;
    uint32_t grown = 0;
    table_close(f->table);
    assert_int_equal(table_open_lmdb(f->folder, 1 << 20, &f->table, why), 0);
    int at = 0;
    for (int round = 0; round < 60; round++) {
        int count = 1 + round * 7 % 40;
        size_t size = 100 + (size_t)round * 7919 % 20000;
        int error = put_many(f, at, count, size);
        while (error != 0) {
            assert_int_equal(error, HASP_EFULL);
            reader = begin_read(f);
            assert_int_equal(table_grow(f->table), HASP_EBUSY);
            table_abort(reader);
            table_size(f->table, &used, &room);
            assert_true(used <= room);
            assert_int_equal(table_grow(f->table), 0);
            table_size(f->table, &used, &value.size);
            assert_true(value.size == 2 * room);
            grown++;
            error = put_many(f, at, count, size);
        }
        at += count;
    }
    assert_in_range(grown, 3, 6);
    /* Opened with less room than it has taken. */
    table_close(f->table);
    assert_int_equal(table_open_lmdb(f->folder, 1 << 20, &f->table, why), 0);
    reader = begin_read(f);
    for (int i = 0; i < at; i++) {
        snprintf(key, sizeof key, "%06d", i);
        assert_int_equal(
            table_get(reader, TABLE_LOCKS, bytes_of_text(key), &value), 0);
        assert_int_equal(value.data[value.size - 1], (uint8_t)i);
    }
    table_abort(reader);
    assert_int_equal(put_many(f, at, 100, 32000), HASP_EFULL);
    assert_int_equal(table_grow(f->table), 0);
    assert_int_equal(put_many(f, at, 100, 32000), 0);
}

static void a_failed_commit_is_the_last_one(void **state)
{
    struct fixture *f = *state;
    static uint8_t value[256 * 1024];
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        /* The child opens a table of its own: none may pass through fork(). */
        struct table *table;
        struct table_txn *txn;
        char folder[128], why[HASP_WHY_SIZE];
        snprintf(folder, sizeof folder, "%s/small", f->folder);
        struct rlimit limit = {128 * 1024, 128 * 1024};
        struct sigaction ignore = {.sa_handler = SIG_IGN};
        sigaction(SIGXFSZ, &ignore, NULL);
        if (table_open_lmdb(folder, 16 << 20, &table, why) != 0 ||
            setrlimit(RLIMIT_FSIZE, &limit) != 0 ||
            table_begin_write(table, &txn) != 0 ||
            table_put(txn, TABLE_LOCKS, BYTES_LITERAL("a"),
                      bytes_of(value, sizeof value)) != 0) {
            _exit(1);
        }
        int commit = table_commit(txn);
        int next = table_begin_write(table, &txn);
        _exit(commit == HASP_EIO && next == HASP_EIO ? 0 : 2);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    remove_file(f->folder, "small/data.mdb");
    remove_file(f->folder, "small/lock.mdb");
    char small[128];
    snprintf(small, sizeof small, "%s/small", f->folder);
    assert_int_equal(rmdir(small), 0);
}

/* Meanwhile a write to the table beneath makes no progress. */
static void a_deferred_commit_waits_for_nobody(void **state)
{
    struct fixture *f = *state;
    struct table_txn *hung, *write, *early, *late;
    struct bytes key = BYTES_LITERAL("k"), value;
    assert_false(table_is_busy(f->table));
    /* Not by table_begin_write(): that belongs to the table's own thread. */
    assert_int_equal(f->inner->ops->begin(f->inner, true, &hung), 0);
    assert_int_equal(table_begin_read(f->table, &early), 0);
    assert_int_equal(table_begin_write(f->table, &write), 0);
    assert_int_equal(table_put(write, TABLE_META, key, BYTES_LITERAL("first")),
                     0);
    assert_int_equal(table_commit(write), 0);
    assert_true(table_is_busy(f->table));
    assert_int_equal(table_begin_read(f->table, &late), 0);
    assert_int_equal(table_begin_write(f->table, &write), 0);
    assert_int_equal(table_put(write, TABLE_META, key, BYTES_LITERAL("second")),
                     0);
    assert_int_equal(table_commit(write), 0);
    assert_int_equal(table_get(early, TABLE_META, key, &value), HASP_ENOENT);
    table_abort(early);
    f->inner->ops->abort(hung);
    assert_int_equal(table_get(late, TABLE_META, key, &value), 0);
    assert_true(bytes_equal(value, BYTES_LITERAL("first")));
    table_abort(late);
    assert_int_equal(table_sync(f->table), 0);
    assert_false(table_is_busy(f->table));
    assert_int_equal(table_begin_read(f->table, &late), 0);
    assert_int_equal(table_get(late, TABLE_META, key, &value), 0);
    assert_true(bytes_equal(value, BYTES_LITERAL("second")));
    table_abort(late);
}

/* It grows by itself when there are no readers. */
static void a_full_deferred_table_grows(void **state)
{
    struct fixture *f = *state;
    static uint8_t large[500000];
    uint64_t used, room, room_before;
    struct table_txn *read, *write;
    table_size(f->table, &used, &room_before);
    assert_int_equal(table_begin_read(f->table, &read), 0);
    for (uint32_t i = 0; i < 2 * room_before / sizeof large; i++) {
        uint8_t key[4];
        store_u32(key, i);
        assert_int_equal(table_begin_write(f->table, &write), 0);
        assert_int_equal(table_put(write, TABLE_META, bytes_of(key, 4),
                                   bytes_of(large, sizeof large)),
                         0);
        assert_int_equal(table_commit(write), 0);
    }
    assert_true(table_is_busy(f->table));
    table_abort(read);
    assert_int_equal(table_sync(f->table), 0);
    table_size(f->table, &used, &room);
    assert_true(room > room_before);
}

#define MEMORY(test)                                          \
    {                                                         \
        "memory_" #test, test, set_up_memory, tear_down, NULL \
    }
#define LMDB(test)                                        \
    {                                                     \
        "lmdb_" #test, test, set_up_lmdb, tear_down, NULL \
    }
#define DEFERRED(test)                                            \
    {                                                             \
        "deferred_" #test, test, set_up_deferred, tear_down, NULL \
    }
#define BOTH(test) MEMORY(test), LMDB(test)

int main(void)
{
    const struct CMUnitTest tests[] = {
        BOTH(what_was_put_is_found),
        BOTH(deleting_what_is_not_there_is_no_error),
        BOTH(a_walk_is_ordered_as_memcmp_orders),
        BOTH(a_walk_ends_when_its_visitor_says_so),
        BOTH(an_aborted_write_leaves_nothing),
        BOTH(a_reader_sees_the_state_of_its_beginning),
        BOTH(clearing_empties_every_map),
        BOTH(sizes_beyond_the_limits_are_refused),
        BOTH(a_read_may_be_used_and_ended_on_another_thread),
        BOTH(random_operations_agree_with_a_model),
        DEFERRED(an_aborted_write_leaves_nothing),
        DEFERRED(a_reader_sees_the_state_of_its_beginning),
        DEFERRED(clearing_empties_every_map),
        DEFERRED(a_read_may_be_used_and_ended_on_another_thread),
        DEFERRED(a_deferred_commit_waits_for_nobody),
        DEFERRED(a_full_deferred_table_grows),
        LMDB(the_table_outlives_its_process),
        LMDB(a_second_open_in_the_process_is_refused),
        LMDB(a_file_that_is_no_table_is_refused_with_its_name),
        LMDB(no_write_begins_after_a_failed_one),
        LMDB(a_full_table_grows_and_keeps_what_it_had),
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
        LMDB(a_table_takes_the_address_space_that_there_is),
#endif
        LMDB(a_failed_commit_is_the_last_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
