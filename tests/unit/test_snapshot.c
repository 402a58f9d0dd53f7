/* SPDX-License-Identifier: MIT */

/* storage/snapshot.h: the stream and the files. */

#include "storage/snapshot.h"

#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/memory.h"
#include "base/prng.h"

/* --- Fixture -------------------------------------------------------------- */

struct fixture {
    char folder[64];
    struct table *table;
};

static const struct snapshot_header header = {
    .last_index = 1234,
    .last_term = 5,
    .configuration_index = 77,
    .configuration = {(const uint8_t *)"members", 7},
};

static int set_up(void **state)
{
    struct fixture *f = memory_new(sizeof *f);
    const char *base = getenv("TMPDIR");
    snprintf(f->folder, sizeof f->folder, "%.36s/hasp-snapshot-XXXXXX",
             base != NULL ? base : "/tmp");
    assert_non_null(mkdtemp(f->folder));
    f->table = table_new_memory();
    *state = f;
    return 0;
}

static void path_of(struct fixture *f, const char *name, char path[128])
{
    snprintf(path, 128, "%s/%s", f->folder, name);
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    DIR *stream = opendir(f->folder);
    const struct dirent *entry;
    while ((entry = readdir(stream)) != NULL) {
        char path[400];
        snprintf(path, sizeof path, "%s/%s", f->folder, entry->d_name);
        unlink(path);
    }
    closedir(stream);
    assert_int_equal(rmdir(f->folder), 0);
    table_close(f->table);
    free(f);
    return 0;
}

static void put(struct table *table, enum table_map map, const char *key,
                const char *value)
{
    struct table_txn *txn;
    assert_int_equal(table_begin_write(table, &txn), 0);
    assert_int_equal(
        table_put(txn, map, bytes_of_text(key), bytes_of_text(value)), 0);
    assert_int_equal(table_commit(txn), 0);
}

static int append_piece(void *data, struct bytes piece)
{
    buffer_put_bytes(data, piece);
    return 0;
}

static struct buffer encode(struct table *table,
                            const struct snapshot_header *with)
{
    struct buffer stream = {0};
    struct table_txn *txn;
    assert_int_equal(table_begin_read(table, &txn), 0);
    assert_int_equal(snapshot_encode(with, txn, append_piece, &stream), 0);
    table_abort(txn);
    return stream;
}

static void fill(struct table *table)
{
    put(table, TABLE_META, "applied", "sixteen bytes...");
    put(table, TABLE_META, "token_base", "12");
    put(table, TABLE_SESSIONS, "s1", "one");
    put(table, TABLE_LOCKS, "a", "lock a");
    put(table, TABLE_LOCKS, "b", "");
    put(table, TABLE_MEMBERS, "1", "127.0.0.1:7421");
}

static void write_file(const char *path, struct bytes content)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(content.data, 1, content.size, file), content.size);
    assert_int_equal(fclose(file), 0);
}

/* Takes a snapshot of the table as the entry 'index'. */
static void take(struct fixture *f, uint64_t index)
{
    struct snapshot_header with = header;
    struct table_txn *txn;
    uint64_t size;
    char why[HASP_WHY_SIZE] = "";
    with.last_index = index;
    with.configuration_index = index < 77 ? index : 77;
    assert_int_equal(table_begin_read(f->table, &txn), 0);
    if (snapshot_file_write(f->folder, &with, txn, &size, why) != 0) {
        fail_msg("%s", why);
    }
    table_abort(txn);
    assert_true(size > 0);
}

static int count_files(struct fixture *f)
{
    int count = 0;
    DIR *stream = opendir(f->folder);
    const struct dirent *entry;
    while ((entry = readdir(stream)) != NULL) {
        count += entry->d_name[0] != '.';
    }
    closedir(stream);
    return count;
}

static uint64_t newest_index(struct fixture *f, char why[HASP_WHY_SIZE])
{
    struct snapshot_file file;
    assert_int_equal(snapshot_file_newest(f->folder, &file, why), 0);
    uint64_t index = file.header.last_index;
    snapshot_file_unmap(&file);
    return index;
}

/* --- The stream ----------------------------------------------------------- */

static void a_decoded_stream_gives_the_same_bytes_again(void **state)
{
    struct fixture *f = *state;
    char why[HASP_WHY_SIZE];
    struct snapshot_header found;
    struct table_txn *txn;
    struct bytes value;
    fill(f->table);
    struct buffer stream = encode(f->table, &header);
    assert_int_equal(snapshot_check(buffer_bytes(&stream), &found, why), 0);
    assert_int_equal(found.last_index, 1234);
    assert_int_equal(found.last_term, 5);
    assert_int_equal(found.configuration_index, 77);
    assert_true(bytes_equal(found.configuration, header.configuration));

    struct table *other = table_new_memory();
    put(other, TABLE_WAITS, "left over", "from before");
    assert_int_equal(table_begin_write(other, &txn), 0);
    assert_int_equal(snapshot_decode(buffer_bytes(&stream), txn), 0);
    assert_int_equal(
        table_get(txn, TABLE_META, BYTES_LITERAL("applied"), &value), 0);
    assert_int_equal(value.size, 16);
    assert_int_equal(load_u64_be(value.data), 1234);
    assert_int_equal(load_u64_be(value.data + 8), 5);
    assert_int_equal(
        table_get(txn, TABLE_WAITS, BYTES_LITERAL("left over"), &value),
        HASP_ENOENT);
    assert_int_equal(table_commit(txn), 0);
    struct buffer again = encode(other, &header);
    assert_true(bytes_equal(buffer_bytes(&stream), buffer_bytes(&again)));
    buffer_done(&stream);
    buffer_done(&again);
    table_close(other);
}

/* On two nodes the same state was reached in different ways, in different
 * tables, and on one of them the applied index of the table is less than the
 * header's. */
static void equal_state_is_equal_bytes_whatever_its_history(void **state)
{
    struct fixture *f = *state;
    char why[HASP_WHY_SIZE], path[128];
    struct table *lmdb;
    struct table_txn *txn;
    path_of(f, "table", path);
    assert_int_equal(table_open_lmdb(path, 16 << 20, &lmdb, why), 0);
    fill(f->table);
    put(lmdb, TABLE_MEMBERS, "1", "127.0.0.1:7421");
    put(lmdb, TABLE_LOCKS, "b", "changed later");
    put(lmdb, TABLE_LOCKS, "a", "lock a");
    put(lmdb, TABLE_LOCKS, "gone", "deleted later");
    put(lmdb, TABLE_SESSIONS, "s1", "one");
    put(lmdb, TABLE_META, "token_base", "12");
    put(lmdb, TABLE_META, "applied", "sixteen others..");
    put(lmdb, TABLE_LOCKS, "b", "");
    assert_int_equal(table_begin_write(lmdb, &txn), 0);
    assert_int_equal(table_delete(txn, TABLE_LOCKS, BYTES_LITERAL("gone")), 0);
    assert_int_equal(table_commit(txn), 0);

    struct buffer one = encode(f->table, &header);
    struct buffer two = encode(lmdb, &header);
    uint8_t checksum_one[DIGEST_SIZE], checksum_two[DIGEST_SIZE];
    assert_true(bytes_equal(buffer_bytes(&one), buffer_bytes(&two)));
    snapshot_checksum(buffer_bytes(&one), checksum_one);
    put(f->table, TABLE_FENCES, "r", "1");
    buffer_done(&two);
    two = encode(f->table, &header);
    snapshot_checksum(buffer_bytes(&two), checksum_two);
    assert_memory_not_equal(checksum_one, checksum_two, DIGEST_SIZE);
    buffer_done(&one);
    buffer_done(&two);
    table_close(lmdb);
    snprintf(path, sizeof path, "%s/table/data.mdb", f->folder);
    unlink(path);
    snprintf(path, sizeof path, "%s/table/lock.mdb", f->folder);
    unlink(path);
    path_of(f, "table", path);
    assert_int_equal(rmdir(path), 0);
}

static void the_bytes_of_the_format_do_not_change(void **state)
{
    struct fixture *f = *state;
    static const char expected[] = "HASPSNAP\1\0\0\0"
                                   "\xd2\4\0\0\0\0\0\0"
                                   "\5\0\0\0\0\0\0\0"
                                   "M\0\0\0\0\0\0\0"
                                   "\7\0\0\0members"
                                   "\3\1\0\0\0a\2\0\0\0vv"
                                   "\0\1\0\0\0\0\0\0\0";
    put(f->table, TABLE_LOCKS, "a", "vv");
    struct buffer stream = encode(f->table, &header);
    assert_int_equal(stream.size, sizeof expected - 1 + DIGEST_SIZE);
    assert_memory_equal(stream.data, expected, sizeof expected - 1);
    /* The checksum, too, is part of the format. */
    static const uint8_t checksum[DIGEST_SIZE] = {
        0x25, 0x25, 0x1b, 0x98, 0xfd, 0xdd, 0x62, 0xe5,
        0xd1, 0x6a, 0x8d, 0x28, 0xf7, 0x8e, 0x5b, 0x65,
    };
    assert_memory_equal(stream.data + sizeof expected - 1, checksum,
                        DIGEST_SIZE);
    buffer_done(&stream);
}

static void every_flipped_bit_is_refused(void **state)
{
    struct fixture *f = *state;
    struct snapshot_header found;
    fill(f->table);
    struct buffer stream = encode(f->table, &header);
    for (size_t i = 0; i < stream.size; i++) {
        for (int bit = 0; bit < 8; bit++) {
            char why[HASP_WHY_SIZE] = "";
            stream.data[i] ^= (uint8_t)(1 << bit);
            assert_int_equal(snapshot_check(buffer_bytes(&stream), &found, why),
                             HASP_ECORRUPT);
            assert_true(why[0] != '\0');
            stream.data[i] ^= (uint8_t)(1 << bit);
        }
    }
    char why[HASP_WHY_SIZE];
    assert_int_equal(snapshot_check(buffer_bytes(&stream), &found, why), 0);
    buffer_done(&stream);
}

static void every_shorter_length_is_refused(void **state)
{
    struct fixture *f = *state;
    struct snapshot_header found;
    char why[HASP_WHY_SIZE];
    fill(f->table);
    struct buffer stream = encode(f->table, &header);
    for (size_t size = 0; size < stream.size; size++) {
        /* A copy of exactly that size, so that a sanitizer detects a read
         * beyond it. */
        uint8_t *copy = memory_copy(stream.data, size);
        assert_int_equal(snapshot_check(bytes_of(copy, size), &found, why),
                         HASP_ECORRUPT);
        free(copy);
    }
    buffer_put_u8(&stream, 0);
    assert_int_equal(snapshot_check(buffer_bytes(&stream), &found, why),
                     HASP_ECORRUPT);
    buffer_done(&stream);
}

static void damage_is_told_with_its_place(void **state)
{
    struct fixture *f = *state;
    struct snapshot_header found;
    char why[HASP_WHY_SIZE], expected[64];
    put(f->table, TABLE_FENCES, "first", "v");
    put(f->table, TABLE_FENCES, "second", "v");
    struct buffer stream = encode(f->table, &header);
    /* The key of a record comes after its map and its own size. */
    uint8_t *key = memmem(stream.data, stream.size, "second", 6);
    size_t at = (size_t)(key - stream.data) - 5;
    key[-1] = 0xff;
    assert_int_equal(snapshot_check(buffer_bytes(&stream), &found, why),
                     HASP_ECORRUPT);
    snprintf(expected, sizeof expected, "record 1: cut off, at offset %zu", at);
    assert_non_null(strstr(why, expected));
    key[-1] = 0;
    key[0] = 'z';
    assert_int_equal(snapshot_check(buffer_bytes(&stream), &found, why),
                     HASP_ECORRUPT);
    assert_non_null(strstr(why, "within its records"));
    buffer_done(&stream);
}

/* A start that found such a file named snapshot-0...-0... ended at a CHECK. */
static void the_header_of_no_state_is_refused(void **state)
{
    struct fixture *f = *state;
    struct snapshot_header found, with[3] = {header, header, header};
    char why[HASP_WHY_SIZE];
    with[0].last_index = with[0].configuration_index = 0;
    with[1].last_term = 0;
    with[2].configuration_index = with[2].last_index + 1;
    for (int i = 0; i < 3; i++) {
        struct buffer stream = encode(f->table, &with[i]);
        assert_int_equal(snapshot_check(buffer_bytes(&stream), &found, why),
                         HASP_ECORRUPT);
        assert_non_null(strstr(why, "not describe a state"));
        buffer_done(&stream);
    }
}

static void a_file_may_be_saved_anywhere_and_replaced(void **state)
{
    struct fixture *f = *state;
    struct table_txn *txn;
    struct snapshot_file file;
    char path[128], part[128], why[HASP_WHY_SIZE] = "";
    uint64_t size = 0;
    path_of(f, "backup", path);
    for (int i = 0; i < 2; i++) {
        put(f->table, TABLE_FENCES, i == 0 ? "one" : "two", "v");
        assert_int_equal(table_begin_read(f->table, &txn), 0);
        assert_int_equal(snapshot_file_save(path, &header, txn, &size, why), 0);
        table_abort(txn);
        assert_int_equal(snapshot_file_map(path, &file, why), 0);
        assert_int_equal(file.stream.size, size);
        assert_int_equal(file.header.last_index, header.last_index);
        assert_true((memmem(file.stream.data, size, "two", 3) != NULL) ==
                    (i == 1));
        snapshot_file_unmap(&file);
        path_of(f, "backup.part", part);
        assert_int_equal(access(part, F_OK), -1);
    }
    /* A folder that is not there, and one that has the name. */
    assert_int_equal(table_begin_read(f->table, &txn), 0);
    path_of(f, "none/backup", path);
    assert_int_equal(snapshot_file_save(path, &header, txn, &size, why),
                     HASP_EIO);
    assert_non_null(strstr(why, "none/backup"));
    path_of(f, "folder", path);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(snapshot_file_save(path, &header, txn, &size, why),
                     HASP_EIO);
    assert_int_equal(rmdir(path), 0);
    path_of(f, "folder.part", part);
    assert_int_equal(access(part, F_OK), -1);
    table_abort(txn);
}

static void seal(struct buffer *stream)
{
    uint8_t checksum[DIGEST_SIZE];
    digest_of(buffer_bytes(stream), checksum);
    buffer_put(stream, checksum, DIGEST_SIZE);
}

static struct buffer begin_stream(void)
{
    struct buffer stream = {0};
    buffer_put_text(&stream, "HASPSNAP");
    buffer_put_u32(&stream, 1);
    buffer_put_u64(&stream, 9);
    buffer_put_u64(&stream, 1);
    buffer_put_u64(&stream, 1);
    buffer_put_run(&stream, bytes_of(NULL, 0));
    return stream;
}

static void add_record(struct buffer *stream, uint8_t map, struct bytes key)
{
    buffer_put_u8(stream, map);
    buffer_put_run(stream, key);
    buffer_put_run(stream, BYTES_LITERAL("v"));
}

static void assert_sealed(struct buffer *stream, uint64_t count, int expected,
                          const char *word)
{
    struct snapshot_header found;
    char why[HASP_WHY_SIZE] = "";
    buffer_put_u8(stream, 0);
    buffer_put_u64(stream, count);
    seal(stream);
    assert_int_equal(snapshot_check(buffer_bytes(stream), &found, why),
                     expected);
    assert_non_null(strstr(why, word));
    buffer_done(stream);
}

/* A right checksum over wrong content: a bug or a forger, not a bad disk. */
static void only_the_canonical_encoding_is_accepted(void **state)
{
    (void)state;
    static const uint8_t long_key[TABLE_KEY_SIZE_MAX + 1];
    struct buffer s = begin_stream();
    add_record(&s, 1, BYTES_LITERAL("a"));
    add_record(&s, 1, BYTES_LITERAL("b"));
    add_record(&s, 3, BYTES_LITERAL("a"));
    assert_sealed(&s, 3, 0, "");

    s = begin_stream();
    add_record(&s, 1, BYTES_LITERAL("b"));
    add_record(&s, 1, BYTES_LITERAL("a"));
    assert_sealed(&s, 2, HASP_ECORRUPT, "record 1: out of order");
    s = begin_stream();
    add_record(&s, 1, BYTES_LITERAL("a"));
    add_record(&s, 1, BYTES_LITERAL("a"));
    assert_sealed(&s, 2, HASP_ECORRUPT, "record 1: out of order");
    s = begin_stream();
    add_record(&s, 3, BYTES_LITERAL("a"));
    add_record(&s, 1, BYTES_LITERAL("b"));
    assert_sealed(&s, 2, HASP_ECORRUPT, "record 1: out of order");
    s = begin_stream();
    add_record(&s, 1, BYTES_LITERAL("applied"));
    assert_sealed(&s, 1, HASP_ECORRUPT, "out of order");
    s = begin_stream();
    add_record(&s, TABLE_MAP_COUNT + 1, BYTES_LITERAL("a"));
    assert_sealed(&s, 1, HASP_ECORRUPT, "not known");
    s = begin_stream();
    add_record(&s, 1, bytes_of(long_key, sizeof long_key));
    assert_sealed(&s, 1, HASP_ECORRUPT, "a key of 512");
    s = begin_stream();
    add_record(&s, 1, bytes_of(NULL, 0));
    assert_sealed(&s, 1, HASP_ECORRUPT, "a key of 0");
    s = begin_stream();
    assert_sealed(&s, 1, HASP_ECORRUPT, "trailer");
    s = begin_stream();
    s.data[8] = 2;
    assert_sealed(&s, 0, HASP_ECORRUPT, "format 2 is not known");
}

static int refuse_second_piece(void *data, struct bytes piece)
{
    int *count = data;
    (void)piece;
    return ++*count == 2 ? HASP_ENOSPC : 0;
}

static void an_error_of_the_sink_ends_the_encoding(void **state)
{
    struct fixture *f = *state;
    struct table_txn *txn;
    char key[16], value[4001];
    int count = 0;
    memset(value, 'x', sizeof value - 1);
    value[sizeof value - 1] = '\0';
    for (int i = 0; i < 100; i++) {
        snprintf(key, sizeof key, "%d", i);
        put(f->table, TABLE_LOCKS, key, value);
    }
    assert_int_equal(table_begin_read(f->table, &txn), 0);
    assert_int_equal(snapshot_encode(&header, txn, refuse_second_piece, &count),
                     HASP_ENOSPC);
    assert_int_equal(count, 2);
    table_abort(txn);
}

/* --- Files ---------------------------------------------------------------- */

static void the_newest_two_files_are_kept(void **state)
{
    struct fixture *f = *state;
    char why[HASP_WHY_SIZE], path[128];
    fill(f->table);
    take(f, 10);
    take(f, 255);
    take(f, 256);
    assert_int_equal(count_files(f), 2);
    assert_int_equal(newest_index(f, why), 256);
    assert_string_equal(why, "");
    path_of(f, "snapshot-00000000000000ff-0000000000000005", path);
    assert_int_equal(access(path, R_OK), 0);
    /* The same again: it replaces the first. */
    take(f, 256);
    assert_int_equal(count_files(f), 2);
}

static void a_file_holds_the_stream(void **state)
{
    struct fixture *f = *state;
    char why[HASP_WHY_SIZE];
    struct snapshot_file file;
    fill(f->table);
    take(f, header.last_index);
    struct buffer stream = encode(f->table, &header);
    assert_int_equal(snapshot_file_newest(f->folder, &file, why), 0);
    assert_true(bytes_equal(file.stream, buffer_bytes(&stream)));
    assert_int_equal(file.header.last_index, header.last_index);
    snapshot_file_unmap(&file);
    buffer_done(&stream);
}

static void a_bad_newest_file_is_named_and_the_older_one_used(void **state)
{
    struct fixture *f = *state;
    char why[HASP_WHY_SIZE], path[128];
    fill(f->table);
    take(f, 10);
    take(f, 20);
    path_of(f, "snapshot-0000000000000014-0000000000000005", path);
    FILE *file = fopen(path, "r+");
    assert_non_null(file);
    fseek(file, 60, SEEK_SET);
    fputc('?', file);
    fclose(file);
    assert_int_equal(newest_index(f, why), 10);
    assert_non_null(strstr(why, "snapshot-0000000000000014"));
    assert_non_null(strstr(why, "checksum"));

    struct snapshot_file mapped;
    path_of(f, "snapshot-000000000000000a-0000000000000005", path);
    assert_int_equal(truncate(path, 0), 0);
    assert_int_equal(snapshot_file_newest(f->folder, &mapped, why),
                     HASP_ECORRUPT);
    assert_non_null(strstr(why, "snapshot-0000000000000014"));
}

static void a_file_under_another_ones_name_is_not_used(void **state)
{
    /* The index or the term is greater or smaller than in the file. */
    static const char *const names[] = {
        "snapshot-00000000000000aa-0000000000000005",
        "snapshot-0000000000000009-0000000000000005",
        "snapshot-000000000000000a-0000000000000006",
        "snapshot-000000000000000a-0000000000000004"};
    struct fixture *f = *state;
    char why[HASP_WHY_SIZE], from[128], to[128];
    struct snapshot_file file;
    fill(f->table);
    take(f, 10);
    path_of(f, "snapshot-000000000000000a-0000000000000005", from);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        path_of(f, names[i], to);
        assert_int_equal(rename(from, to), 0);
        assert_int_equal(snapshot_file_newest(f->folder, &file, why),
                         HASP_ECORRUPT);
        assert_non_null(strstr(why, "a different index"));
        memcpy(from, to, sizeof from);
    }
}

static void an_empty_folder_has_no_snapshot(void **state)
{
    struct fixture *f = *state;
    char why[HASP_WHY_SIZE], path[128];
    struct snapshot_file file;
    assert_int_equal(snapshot_file_newest(f->folder, &file, why), HASP_ENOENT);
    path_of(f, "nowhere", path);
    assert_int_equal(snapshot_file_newest(path, &file, why), HASP_EIO);
    assert_non_null(strstr(why, "nowhere"));
    assert_int_equal(snapshot_file_map(path, &file, why), HASP_ENOENT);
}

static void leftover_temporaries_are_removed_but_not_one_in_use(void **state)
{
    struct fixture *f = *state;
    char why[HASP_WHY_SIZE], dead[128], used[128], other[128];
    fill(f->table);
    path_of(f, "snapshot-0000000000000014-0000000000000005.1.tmp", dead);
    path_of(f, "received.tmp", used);
    path_of(f, "notes", other);
    write_file(dead, BYTES_LITERAL("half"));
    write_file(used, BYTES_LITERAL("half"));
    write_file(other, BYTES_LITERAL("not ours"));
    int fd = open(used, O_RDWR);
    assert_int_equal(flock(fd, LOCK_EX), 0);
    take(f, 10);
    assert_int_equal(access(dead, F_OK), 0);
    assert_int_equal(newest_index(f, why), 10);
    assert_int_equal(access(dead, F_OK), -1);
    assert_int_equal(access(used, F_OK), 0);
    assert_int_equal(access(other, F_OK), 0);
    close(fd);
    assert_int_equal(newest_index(f, why), 10);
    assert_int_equal(access(used, F_OK), -1);
}

static void a_received_file_is_adopted_only_if_it_is_good(void **state)
{
    struct fixture *f = *state;
    char why[HASP_WHY_SIZE], path[128];
    fill(f->table);
    take(f, 10);
    struct buffer stream = encode(f->table, &header);
    path_of(f, "received", path);
    write_file(path, bytes_of(stream.data, stream.size - 1));
    assert_int_equal(snapshot_file_adopt(f->folder, path, why), HASP_ECORRUPT);
    assert_non_null(strstr(why, "received"));
    assert_int_equal(newest_index(f, why), 10);
    write_file(path, buffer_bytes(&stream));
    assert_int_equal(snapshot_file_adopt(f->folder, path, why), 0);
    assert_int_equal(newest_index(f, why), 1234);
    assert_int_equal(access(path, F_OK), -1);
    buffer_done(&stream);
}

/* A file that cannot grow stands for a full disk. */
static void a_failed_write_leaves_nothing_behind(void **state)
{
    struct fixture *f = *state;
    char why[HASP_WHY_SIZE];
    fill(f->table);
    take(f, 10);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct rlimit limit = {64, 64};
        struct sigaction ignore = {.sa_handler = SIG_IGN};
        struct table_txn *txn;
        uint64_t size;
        sigaction(SIGXFSZ, &ignore, NULL);
        if (setrlimit(RLIMIT_FSIZE, &limit) != 0 ||
            table_begin_read(f->table, &txn) != 0) {
            _exit(1);
        }
        int error = snapshot_file_write(f->folder, &header, txn, &size, why);
        _exit(error == HASP_ENOSPC && strstr(why, "File too large") ? 0 : 2);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_int_equal(count_files(f), 1);
    assert_int_equal(newest_index(f, why), 10);
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_decoded_stream_gives_the_same_bytes_again),
        TEST(equal_state_is_equal_bytes_whatever_its_history),
        TEST(the_bytes_of_the_format_do_not_change),
        TEST(every_flipped_bit_is_refused),
        TEST(every_shorter_length_is_refused),
        TEST(damage_is_told_with_its_place),
        TEST(the_header_of_no_state_is_refused),
        TEST(a_file_may_be_saved_anywhere_and_replaced),
        TEST(only_the_canonical_encoding_is_accepted),
        TEST(an_error_of_the_sink_ends_the_encoding),
        TEST(the_newest_two_files_are_kept),
        TEST(a_file_holds_the_stream),
        TEST(a_bad_newest_file_is_named_and_the_older_one_used),
        TEST(a_file_under_another_ones_name_is_not_used),
        TEST(an_empty_folder_has_no_snapshot),
        TEST(leftover_temporaries_are_removed_but_not_one_in_use),
        TEST(a_received_file_is_adopted_only_if_it_is_good),
        TEST(a_failed_write_leaves_nothing_behind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
