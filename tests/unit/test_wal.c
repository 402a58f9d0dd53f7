/* SPDX-License-Identifier: MIT */

/* storage/wal.h: the entries it keeps, the errors it reports, the input it
 * refuses. Segments are of four blocks, so that they roll. Crashes:
 * test_wal_crash.c. */

#include "storage/wal.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/mount.h>
#include <sys/resource.h>

#include <cmocka.h>

#include "tests/unit/wal_fixture.h"

/* --- Assertions ----------------------------------------------------------- */

/* The log holds entries 'first' to 'last' of one term, and still does when it
 * is opened again. */
static void assert_log(struct fixture *f, uint64_t first, uint64_t last,
                       uint64_t term)
{
    assert_int_equal(wal_first(f->wal), first);
    assert_int_equal(wal_last(f->wal), last);
    reopen(f);
    assert_int_equal(f->loaded.first, first);
    assert_int_equal(f->loaded.next, last + 1);
    for (uint64_t i = first; i <= last; i++) {
        assert_int_equal(f->loaded.term[i], term);
    }
}

static void assert_refused(struct fixture *f, const char *text)
{
    struct wal *wal = NULL;
    assert_int_equal(try_open(f, f->copy, &wal), HASP_ECORRUPT);
    if (strstr(f->why, text) == NULL) {
        fail_msg("'%s' is not in: %s", text, f->why);
    }
}

/* --- Keeping -------------------------------------------------------------- */

static void the_way_of_writing_is_the_one_asked_for(void **state)
{
    struct fixture *f = *state;
    if (f->options.without_direct) {
        assert_string_equal(wal_mode(f->wal), "buffered");
    } else if (strcmp(wal_mode(f->wal), "direct") != 0) {
        print_message("skipped: no O_DIRECT here\n");
        skip();
    }
}

static void a_new_log_is_empty(void **state)
{
    struct fixture *f = *state;
    uint64_t term = 9;
    uint64_t log_index = 9;
    assert_int_equal(wal_first(f->wal), 1);
    assert_int_equal(wal_last(f->wal), 0);
    assert_int_equal(wal_complete(f->wal, &term, &log_index), 0);
    assert_int_equal(term, 0);
    assert_int_equal(log_index, 0);
    assert_false(wal_is_busy(f->wal));
    assert_log(f, 1, 0, 0);
}

static void entries_come_back(void **state)
{
    struct fixture *f = *state;
    append_singly(f, 3, 20);
    assert_int_equal(f->durable_term, 3);
    assert_int_equal(f->durable_index, 20);
    assert_log(f, 1, 20, 3);
    append_singly(f, 3, 5);
    assert_log(f, 1, 25, 3);
}

static void many_entries_in_one_go_come_back(void **state)
{
    struct fixture *f = *state;
    append(f, 1, 2000);
    assert_true(wal_is_busy(f->wal));
    assert_int_equal(wal_last(f->wal), 2000);
    flush(f);
    assert_int_equal(f->durable_index, 2000);
    assert_log(f, 1, 2000, 1);
}

static void what_gathers_during_a_write_is_the_next_one(void **state)
{
    struct fixture *f = *state;
    append(f, 1, 1);
    assert_int_equal(wal_start(f->wal), 0);
    append(f, 1, 30);
    /* The log's thread may report an event, too. */
    while (f->durable_index == 0) {
        assert_int_equal(turn(f), 0);
    }
    assert_int_equal(f->durable_index, 1);
    assert_true(wal_is_busy(f->wal));
    flush(f);
    assert_int_equal(f->durable_index, 31);
    assert_log(f, 1, 31, 1);
}

static void a_body_bigger_than_a_segment_comes_back(void **state)
{
    struct fixture *f = *state;
    static uint8_t big[300000];
    struct wal_entry entry = {.term = 1, .log_index = 2, .type = 1};
    memset(big, 'b', sizeof big);
    append_singly(f, 1, 1);
    entry.body = bytes_of(big, sizeof big);
    wal_append(f->wal, &entry, 1);
    flush(f);
    assert_int_equal(f->durable_index, 2);
    append_singly(f, 1, 40);
    /* The fixture does not expect it: remove it before loading. */
    close_log(f);
    struct folder_image *image = take_image(f->path);
    bool is_found = false;
    for (size_t i = 0; i < image->count; i++) {
        is_found = is_found ||
                   memmem(image->files[i].data, image->files[i].size, big,
                          sizeof big) != NULL;
    }
    free_image(image);
    assert_true(is_found);
}

static void what_was_only_queued_is_dropped_at_close(void **state)
{
    struct fixture *f = *state;
    append_singly(f, 1, 3);
    append(f, 1, 4);
    close_log(f);
    reopen(f);
    assert_log(f, 1, 3, 1);
}

static void a_write_in_flight_is_awaited_at_close(void **state)
{
    struct fixture *f = *state;
    append(f, 1, 3);
    assert_int_equal(wal_start(f->wal), 0);
    close_log(f);
    reopen(f);
    assert_log(f, 1, 3, 1);
}

/* --- Truncating ----------------------------------------------------------- */

static void a_truncated_suffix_is_gone(void **state)
{
    struct fixture *f = *state;
    append_singly(f, 1, 10);
    wal_truncate(f->wal, 8);
    assert_int_equal(wal_last(f->wal), 7);
    flush(f);
    assert_int_equal(f->durable_term, 1);
    assert_int_equal(f->durable_index, 7);
    assert_log(f, 1, 7, 1);
    wal_truncate(f->wal, 8);
    assert_false(wal_is_busy(f->wal));
}

static void truncation_tells_the_term_before_it(void **state)
{
    struct fixture *f = *state;
    append(f, 1, 3);
    append(f, 4, 3);
    append(f, 6, 3);
    wal_truncate(f->wal, 6);
    flush(f);
    assert_int_equal(f->durable_term, 4);
    assert_int_equal(f->durable_index, 5);
    reopen(f);
    wal_truncate(f->wal, 3);
    flush(f);
    assert_int_equal(f->durable_term, 1);
    assert_int_equal(f->durable_index, 2);
    wal_truncate(f->wal, 1);
    flush(f);
    assert_int_equal(f->durable_term, 0);
    assert_int_equal(f->durable_index, 0);
    assert_log(f, 1, 0, 0);
}

static void other_entries_take_the_place_of_truncated_ones(void **state)
{
    struct fixture *f = *state;
    append(f, 1, 50);
    wal_truncate(f->wal, 11);
    append(f, 2, 3);
    wal_truncate(f->wal, 12);
    append(f, 3, 1);
    flush(f);
    assert_int_equal(f->durable_term, 3);
    assert_int_equal(f->durable_index, 12);
    reopen(f);
    assert_int_equal(f->loaded.next, 13);
    assert_int_equal(f->loaded.term[10], 1);
    assert_int_equal(f->loaded.term[11], 2);
    assert_int_equal(f->loaded.term[12], 3);
}

static void an_empty_log_may_begin_anywhere(void **state)
{
    struct fixture *f = *state;
    struct wal_entry entry = entry_of(2, 500);
    wal_append(f->wal, &entry, 1);
    flush(f);
    assert_log(f, 500, 500, 2);
    wal_truncate(f->wal, 500);
    entry = entry_of(2, 40);
    wal_append(f->wal, &entry, 1);
    flush(f);
    assert_log(f, 40, 40, 2);
}

/* --- Trimming and resetting ----------------------------------------------- */

static void whole_segments_are_trimmed(void **state)
{
    struct fixture *f = *state;
    append_singly(f, 1, 300);
    uint64_t before = wal_disk_size(f->wal);
    assert_int_equal(wal_trim(f->wal, 0), 0);
    assert_int_equal(wal_first(f->wal), 1);
    assert_int_equal(wal_trim(f->wal, 200), 0);
    uint64_t first = wal_first(f->wal);
    assert_true(first > 1 && first <= 201);
    assert_true(wal_disk_size(f->wal) < before);
    assert_log(f, first, 300, 1);
    /* The active segment stays. */
    assert_int_equal(wal_trim(f->wal, 300), 0);
    first = wal_first(f->wal);
    assert_true(first > 200 && first <= 300);
    append_singly(f, 1, 100);
    assert_log(f, first, 400, 1);
    close_log(f);
    struct folder_image *image = take_image(f->path);
    assert_null(find_file(image, "segment-0000000000000001"));
    free_image(image);
}

static void segments_of_truncated_entries_are_trimmed(void **state)
{
    struct fixture *f = *state;
    append_singly(f, 1, 200);
    wal_truncate(f->wal, 150);
    flush(f);
    append_singly(f, 2, 300);
    struct folder_image *image = take_image(f->path);
    /* The segments that held 150 to 200 of term 1 are empty now, and the one
     * with the truncation begins with 150. */
    assert_int_equal(wal_trim(f->wal, 149), 0);
    assert_int_equal(wal_first(f->wal), 150);
    reopen(f);
    assert_int_equal(f->loaded.first, 150);
    assert_int_equal(f->loaded.next, 450);
    assert_int_equal(f->loaded.term[150], 2);
    /* The same if all this was read from the disk. */
    close_log(f);
    put_image(f->path, image);
    free_image(image);
    reopen(f);
    assert_int_equal(wal_first(f->wal), 1);
    assert_int_equal(wal_trim(f->wal, 149), 0);
    assert_int_equal(wal_first(f->wal), 150);
    reopen(f);
    assert_int_equal(f->loaded.first, 150);
    assert_int_equal(f->loaded.next, 450);
}

/* Whole segments go, and nothing above 'up_to', wherever segments end. */
static void no_trim_removes_more_than_was_asked_for(void **state)
{
    struct fixture *f = *state;
    append_singly(f, 1, 300);
    uint64_t removed = 0;
    for (uint64_t up_to = 0; up_to <= 300; up_to++) {
        assert_int_equal(wal_trim(f->wal, up_to), 0);
        assert_true(wal_first(f->wal) <= up_to + 1);
        assert_int_equal(wal_last(f->wal), 300);
        removed = wal_first(f->wal) - 1;
    }
    assert_true(removed > 100);
    assert_log(f, removed + 1, 300, 1);
}

/* The number of segments on disk. */
static size_t count_segments(const char *folder)
{
    struct folder_image *image = take_image(folder);
    size_t count = 0;
    for (size_t i = 0; i < image->count; i++) {
        uint64_t number;
        count += wal_file_number(image->files[i].name, &number);
    }
    free_image(image);
    return count;
}

static void a_reset_leaves_no_segment_of_before(void **state)
{
    struct fixture *f = *state;
    append_singly(f, 1, 300);
    assert_true(count_segments(f->path) > 3);
    assert_int_equal(wal_reset(f->wal, 1000), 0);
    close_log(f); /* The keeper has removed them by then. */
    /* The active one and the next. */
    assert_true(count_segments(f->path) <= 2);
}

static void a_reset_empties_the_log(void **state)
{
    struct fixture *f = *state;
    append_singly(f, 1, 200);
    append(f, 1, 5);
    assert_int_equal(wal_start(f->wal), 0);
    append(f, 1, 5);
    assert_int_equal(wal_reset(f->wal, 1000), 0);
    assert_int_equal(wal_first(f->wal), 1000);
    assert_int_equal(wal_last(f->wal), 999);
    assert_false(wal_is_busy(f->wal));
    assert_int_equal(wal_complete(f->wal, &f->durable_term, &f->durable_index),
                     0);
    assert_int_equal(f->durable_index, 0);
    assert_log(f, 1000, 999, 0);
    append_singly(f, 7, 20);
    assert_log(f, 1000, 1019, 7);
    /* Also backwards, when a node is given an older state. */
    assert_int_equal(wal_reset(f->wal, 10), 0);
    append_singly(f, 8, 20);
    assert_log(f, 10, 29, 8);
}

static void a_reset_needs_no_segment_to_be_gone(void **state)
{
    struct fixture *f = *state;
    append_singly(f, 1, 200);
    struct folder_image *before = take_image(f->path);
    assert_int_equal(wal_reset(f->wal, 1000), 0);
    close_log(f);
    /* As after a crash before the removal. */
    struct folder_image *after = take_image(f->path);
    put_image(f->copy, before);
    for (size_t i = 0; i < after->count; i++) {
        put_file(f->copy, &after->files[i]);
    }
    struct wal *wal = NULL;
    assert_int_equal(try_open(f, f->copy, &wal), 0);
    assert_int_equal(f->loaded.first, 1000);
    assert_int_equal(f->loaded.next, 1000);
    wal_close(wal);
    free_image(before);
    free_image(after);
}

/* --- Damage --------------------------------------------------------------- */

/* Opens the copy with one byte of a segment changed. */
static int open_flipped(struct fixture *f, struct folder_image *image,
                        uint64_t number, uint64_t offset, struct wal **ret_wal)
{
    struct file_image *file = find_segment(image, number);
    file->data[offset] ^= 0x20;
    put_image(f->copy, image);
    file->data[offset] ^= 0x20;
    return try_open(f, f->copy, ret_wal);
}

static void a_flipped_byte_before_the_end_is_told_with_its_place(void **state)
{
    struct fixture *f = *state;
    append_singly(f, 1, 8);
    struct folder_image *before = take_image(f->path);
    size_t last = used_size(find_segment(before, 1)) & ~(size_t)7;
    append_singly(f, 1, 1);
    close_log(f);
    struct folder_image *image = take_image(f->path);
    for (uint64_t at = WAL_BLOCK_SIZE; at < last; at += 3) {
        struct wal *wal = NULL;
        uint64_t told = 0;
        assert_int_equal(open_flipped(f, image, 1, at, &wal), HASP_ECORRUPT);
        const char *place = strstr(f->why, "corrupt at offset ");
        assert_non_null(place);
        assert_int_equal(sscanf(place, "corrupt at offset %lu", &told), 1);
        assert_true(told <= at && at - told < 10000);
        assert_non_null(strstr(f->why, "segment-0000000000000001"));
    }
    free_image(before);
    free_image(image);
}

static void a_damaged_segment_header_is_told(void **state)
{
    struct fixture *f = *state;
    append_singly(f, 1, 200);
    assert_int_equal(wal_trim(f->wal, 60), 0);
    close_log(f);
    struct folder_image *image = take_image(f->path);
    uint64_t first = 0;
    uint64_t last = 0;
    for (size_t i = 0; i < image->count; i++) {
        uint64_t number = 0;
        if (wal_file_number(image->files[i].name, &number) &&
            used_size(&image->files[i]) > 0) {
            first = first == 0 ? number : first;
            last = number;
        }
    }
    assert_true(first > 1 && last > first + 1);
    struct wal *wal = NULL;
    for (uint64_t at = 0; at < 60; at++) {
        assert_int_equal(open_flipped(f, image, first, at, &wal),
                         HASP_ECORRUPT);
        assert_non_null(strstr(f->why, "header has a wrong checksum"));
        assert_int_equal(open_flipped(f, image, first + 1, at, &wal),
                         HASP_ECORRUPT);
        assert_non_null(strstr(f->why, "header has a wrong checksum"));
    }
    free_image(image);
}

static void a_missing_or_short_segment_is_told(void **state)
{
    struct fixture *f = *state;
    append_singly(f, 1, 200);
    close_log(f);
    struct folder_image *image = take_image(f->path);
    struct file_image *file = find_segment(image, 2);
    put_image(f->copy, image);
    char path[200];
    snprintf(path, sizeof path, "%s/%s", f->copy, file->name);
    unlink(path);
    assert_refused(f, "missing before 'segment-0000000000000003'");

    put_image(f->copy, image);
    assert_int_equal(truncate(path, 2 * WAL_BLOCK_SIZE), 0);
    assert_refused(f, "segment-0000000000000002' is corrupt at offset 0");

    /* A segment of zeros in the middle. */
    memset(file->data, 0, file->size);
    put_image(f->copy, image);
    assert_refused(f, "missing");
    free_image(image);
}

static void a_log_that_ends_before_its_mark_has_lost_entries(void **state)
{
    struct fixture *f = *state;
    append_singly(f, 1, 10);
    struct folder_image *before = take_image(f->path);
    append_singly(f, 2, 1);
    close_log(f);
    struct folder_image *after = take_image(f->path);
    /* The old log under the new mark. */
    put_image(f->copy, before);
    put_file(f->copy, find_file(after, WAL_MARK_NAME));
    assert_refused(f, "has lost entries");
    assert_non_null(strstr(f->why, "ends with index 10"));
    assert_non_null(strstr(f->why, "index 11 of term 2"));
    /* All segments gone. */
    empty_folder(f->copy);
    put_file(f->copy, find_file(after, WAL_MARK_NAME));
    assert_refused(f, "has lost entries");
    /* A batch that was durable is not taken for a torn one. */
    struct file_image *file = find_segment(after, 1);
    size_t end = used_size(file);
    file->data[end - 1] ^= 1;
    put_image(f->copy, after);
    assert_refused(f, "has lost entries");
    free_image(before);
    free_image(after);
}

static void a_truncation_is_no_loss(void **state)
{
    struct fixture *f = *state;
    append_singly(f, 5, 10);
    reopen(f);
    wal_truncate(f->wal, 2);
    flush(f);
    assert_log(f, 1, 1, 5);
}

static void a_mark_that_is_missing_or_damaged_is_told(void **state)
{
    struct fixture *f = *state;
    append_singly(f, 1, 10);
    close_log(f);
    struct folder_image *image = take_image(f->path);
    struct file_image *mark = find_file(image, WAL_MARK_NAME);
    put_image(f->copy, image);
    char path[200];
    snprintf(path, sizeof path, "%s/%s", f->copy, WAL_MARK_NAME);
    unlink(path);
    assert_refused(f, "/mark' is missing");
    /* Unreadable data may be intact: no error advises to delete it. */
    struct wal *wal = NULL;
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(try_open(f, f->copy, &wal), HASP_EIO);
    assert_non_null(strstr(f->why, "/mark': Is a directory"));
    assert_null(strstr(f->why, "empty data directory"));
    assert_int_equal(rmdir(path), 0);
    mark->data[20] ^= 1;
    mark->data[WAL_BLOCK_SIZE + 20] ^= 1;
    put_image(f->copy, image);
    assert_refused(f, "/mark' is damaged");
    /* One record alone is good enough. */
    mark->data[20] ^= 1;
    put_image(f->copy, image);
    assert_int_equal(try_open(f, f->copy, &wal), 0);
    assert_int_equal(f->loaded.next, 11);
    wal_close(wal);
    free_image(image);
}

static void the_newest_mark_counts(void **state)
{
    struct fixture *f = *state;
    int fd = open(f->path, O_RDONLY | O_DIRECTORY);
    assert_int_equal(wal_mark_create(fd, 5), 0);
    struct wal_mark mark;
    assert_int_equal(wal_mark_load(fd, &mark), 0);
    assert_int_equal(mark.sequence, 0);
    for (uint64_t i = 1; i <= 5; i++) {
        mark.count++;
        mark.sequence = i * 10;
        mark.term = i;
        mark.log_index = i * 5;
        assert_int_equal(wal_mark_save(fd, &mark), 0);
        struct wal_mark again;
        assert_int_equal(wal_mark_load(fd, &again), 0);
        assert_memory_equal(&again, &mark, sizeof mark);
    }
    close(fd);
}

static void the_mark_is_written_while_the_log_is_open(void **state)
{
    struct fixture *f = *state;
    append_singly(f, 3, 4);
    /* Bounded by the mark's interval, and many times that. */
    for (int i = 0; i < 1000; i++) {
        struct wal_mark mark;
        int fd = open(f->path, O_RDONLY | O_DIRECTORY);
        assert_int_equal(wal_mark_load(fd, &mark), 0);
        close(fd);
        if (mark.sequence == 4) {
            assert_int_equal(mark.term, 3);
            assert_int_equal(mark.log_index, 4);
            return;
        }
        usleep(10000);
    }
    fail_msg("the mark was not written");
}

static void bad_options_are_refused(void **state)
{
    struct fixture *f = *state;
    struct wal *wal = NULL;
    f->options.segment_size = 4096;
    assert_int_equal(try_open(f, f->copy, &wal), HASP_EINVALID);
    f->options.segment_size = 8193;
    assert_int_equal(try_open(f, f->copy, &wal), HASP_EINVALID);
    f->options.segment_size = 0;
    f->options.body_size_max = UINT64_C(1) << 33;
    assert_int_equal(try_open(f, f->copy, &wal), HASP_EINVALID);
}

/* --- Failing writes ------------------------------------------------------- */

/* A limit on the size of files fails a write as a full disk does. */
static void limit_file_size(uint64_t size)
{
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = size;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

/* Too many open files is not an error of the disk: queued entries wait for the
 * next segment, and the mark for its file. */
static void without_descriptors_the_log_waits(void **state)
{
    struct fixture *f = *state;
    struct rlimit before, none;
    int waits = 0, taken[64], taken_count = 0;
    append_singly(f, 1, 3);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = (struct rlimit){64, before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    uint64_t last = wal_last(f->wal);
    for (int i = 0; i < 3000 && waits < 100; i++) {
        uint64_t term, log_index;
        int fd = 0;
        /* Descriptors that the log frees when it moves to the next segment,
         * too. */
        while (taken_count < 64 && (fd = dup(wal_fd(f->wal))) >= 0) {
            taken[taken_count++] = fd;
        }
        if (!wal_is_busy(f->wal)) {
            append(f, 1, 1);
        }
        assert_int_equal(wal_start(f->wal), 0);
        usleep(2000);
        assert_int_equal(wal_complete(f->wal, &term, &log_index), 0);
        waits = wal_is_busy(f->wal) && !wal_is_writing(f->wal) ? waits + 1 : 0;
    }
    assert_int_equal(waits, 100);
    assert_true(wal_is_starved(f->wal));
    while (taken_count > 0) {
        close(taken[--taken_count]);
    }
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    flush(f);
    assert_false(wal_is_starved(f->wal));
    assert_true(wal_last(f->wal) > last);
    reopen(f);
    assert_true(wal_last(f->wal) > last);
}

static void a_failed_write_is_fatal_and_told(void **state)
{
    struct fixture *f = *state;
    uint64_t term = 77;
    uint64_t log_index = 77;
    sigaction(SIGXFSZ, &(struct sigaction){.sa_handler = SIG_IGN}, NULL);
    append_singly(f, 1, 3);
    limit_file_size(WAL_BLOCK_SIZE);
    append(f, 1, 1);
    int error = flush_or_fail(f);
    limit_file_size(RLIM_INFINITY);
    assert_int_equal(error, HASP_ENOSPC);
    assert_non_null(strstr(wal_why(f->wal), "cannot write"));
    assert_non_null(strstr(wal_why(f->wal), "segment-0000000000000001"));
    assert_non_null(strstr(wal_why(f->wal), f->path));
    /* Nothing is retried, although it would work now. */
    append(f, 1, 1);
    assert_int_equal(wal_start(f->wal), HASP_ENOSPC);
    assert_int_equal(wal_complete(f->wal, &term, &log_index), HASP_ENOSPC);
    assert_int_equal(wal_trim(f->wal, 1), HASP_ENOSPC);
    assert_int_equal(wal_reset(f->wal, 1), HASP_ENOSPC);
    assert_int_equal(log_index, 77);
    close_log(f);
    reopen(f);
    assert_log(f, 1, 3, 1);
}

static void a_full_disk_is_told_and_loses_nothing(void **state)
{
    struct fixture *f = *state;
    close_log(f);
    empty_folder(f->path);
    if (mount("tmpfs", f->path, "tmpfs", 0, "size=256k") != 0) {
        print_message("skipped: cannot mount a small file system here\n");
        skip();
    }
    reopen(f);
    int error = 0;
    uint64_t acknowledged = 0;
    for (int i = 0; i < 5000 && error == 0; i++) {
        acknowledged = f->durable_index;
        append(f, 1, 1);
        error = flush_or_fail(f);
    }
    int code = error;
    bool is_told = strstr(wal_why(f->wal), "No space left") != NULL;
    close_log(f);
    /* With more room it continues. */
    bool is_grown = mount("tmpfs", f->path, "tmpfs", MS_REMOUNT, "size=2m") ==
                    0;
    reopen(f);
    uint64_t next = f->loaded.next;
    append_singly(f, 1, 50);
    reopen(f);
    uint64_t later = f->loaded.next;
    close_log(f);
    assert_int_equal(umount(f->path), 0);
    assert_int_equal(code, HASP_ENOSPC);
    assert_true(is_told);
    assert_true(is_grown);
    assert_true(acknowledged > 20);
    assert_true(next > acknowledged);
    assert_int_equal(later, next + 50);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BOTH(the_way_of_writing_is_the_one_asked_for),
        BOTH(a_new_log_is_empty),
        BOTH(entries_come_back),
        BOTH(many_entries_in_one_go_come_back),
        BOTH(what_gathers_during_a_write_is_the_next_one),
        BOTH(a_body_bigger_than_a_segment_comes_back),
        BOTH(what_was_only_queued_is_dropped_at_close),
        BOTH(a_write_in_flight_is_awaited_at_close),
        BOTH(a_truncated_suffix_is_gone),
        BOTH(truncation_tells_the_term_before_it),
        BOTH(other_entries_take_the_place_of_truncated_ones),
        BOTH(an_empty_log_may_begin_anywhere),
        BOTH(whole_segments_are_trimmed),
        BOTH(segments_of_truncated_entries_are_trimmed),
        BOTH(no_trim_removes_more_than_was_asked_for),
        BOTH(a_reset_leaves_no_segment_of_before),
        BOTH(a_reset_empties_the_log),
        BOTH(a_reset_needs_no_segment_to_be_gone),
        BUFFERED(a_flipped_byte_before_the_end_is_told_with_its_place),
        BUFFERED(a_damaged_segment_header_is_told),
        BUFFERED(a_missing_or_short_segment_is_told),
        BOTH(a_log_that_ends_before_its_mark_has_lost_entries),
        BOTH(a_truncation_is_no_loss),
        BUFFERED(a_mark_that_is_missing_or_damaged_is_told),
        BUFFERED(the_newest_mark_counts),
        BUFFERED(the_mark_is_written_while_the_log_is_open),
        BUFFERED(bad_options_are_refused),
        BOTH(without_descriptors_the_log_waits),
        BOTH(a_failed_write_is_fatal_and_told),
        BOTH(a_full_disk_is_told_and_loses_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
