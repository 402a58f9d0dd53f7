/* SPDX-License-Identifier: MIT */

/* storage/datadir.h: a data directory in a temporary folder. */

#include "storage/datadir.h"
#include "storage/port.h"
#include "storage/vote_saver.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/memory.h"

#define NODE 3
#define INCARNATION UINT64_C(0xfedcba9876543210)
#define VOTE_PLACE 4096
#define VOTE_FILE_SIZE (3 * VOTE_PLACE + 36)

/* --- Fixture -------------------------------------------------------------- */

struct fixture {
    char base[64];
    char path[80];
    struct datadir *datadir;
    char why[HASP_WHY_SIZE];
};

static void open_again(struct fixture *f)
{
    bool is_new = true;
    datadir_close(f->datadir);
    f->datadir = NULL;
    if (datadir_open(f->path, NODE, 1, &f->datadir, &is_new, f->why) != 0) {
        fail_msg("%s", f->why);
    }
    assert_false(is_new);
}

static int open_fails(struct fixture *f, uint64_t node_id)
{
    struct datadir *datadir = NULL;
    bool is_new = false;
    datadir_close(f->datadir);
    f->datadir = NULL;
    return datadir_open(f->path, node_id, 1, &datadir, &is_new, f->why);
}

static int set_up(void **state)
{
    struct fixture *f = memory_new(sizeof *f);
    const char *base = getenv("TMPDIR");
    bool is_new = false;
    snprintf(f->base, sizeof f->base, "%.40s/hasp-datadir-XXXXXX",
             base != NULL ? base : "/tmp");
    assert_non_null(mkdtemp(f->base));
    snprintf(f->path, sizeof f->path, "%s/n3", f->base);
    if (datadir_open(f->path, NODE, INCARNATION, &f->datadir, &is_new,
                     f->why) != 0) {
        fail_msg("%s", f->why);
    }
    assert_true(is_new);
    *state = f;
    return 0;
}

static void remove_at(struct fixture *f, const char *name)
{
    char path[160];
    snprintf(path, sizeof path, "%s/%s", f->path, name);
    remove(path);
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    static const char *const names[] = {"LOCK",
                                        "identity",
                                        "identity.new",
                                        "vote",
                                        "trust",
                                        "trust.new",
                                        "table/data",
                                        "table/lock",
                                        "wal/segment",
                                        "wal",
                                        "snapshot",
                                        "table",
                                        ""};
    datadir_close(f->datadir);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        remove_at(f, names[i]);
    }
    assert_int_equal(rmdir(f->base), 0);
    free(f);
    return 0;
}

static int open_file(struct fixture *f, const char *name, int flags)
{
    char path[160];
    snprintf(path, sizeof path, "%s/%s", f->path, name);
    int fd = open(path, flags, 0600);
    assert_true(fd >= 0);
    return fd;
}

static void write_file(struct fixture *f, const char *name, const void *data,
                       size_t size, off_t offset)
{
    int fd = open_file(f, name, O_WRONLY | O_CREAT);
    assert_int_equal(pwrite(fd, data, size, offset), size);
    close(fd);
}

static void flip(struct fixture *f, const char *name, off_t offset)
{
    uint8_t byte = 0;
    int fd = open_file(f, name, O_RDWR);
    assert_int_equal(pread(fd, &byte, 1, offset), 1);
    byte ^= 0x10;
    assert_int_equal(pwrite(fd, &byte, 1, offset), 1);
    close(fd);
}

static bool exists(struct fixture *f, const char *name)
{
    char path[160];
    snprintf(path, sizeof path, "%s/%s", f->path, name);
    return access(path, F_OK) == 0;
}

static void assert_vote(struct fixture *f, uint64_t term, uint64_t voted_for)
{
    uint64_t found_term = 99;
    uint64_t found_voted_for = 99;
    if (datadir_load_vote(f->datadir, &found_term, &found_voted_for, f->why) !=
        0) {
        fail_msg("%s", f->why);
    }
    assert_int_equal(found_term, term);
    assert_int_equal(found_voted_for, voted_for);
}

/* --- Tests ---------------------------------------------------------------- */

static void a_new_directory_gets_its_folders_and_identity(void **state)
{
    struct fixture *f = *state;
    static const char *const folders[] = {"", "wal", "snapshot", "table"};
    for (int i = 0; i < 4; i++) {
        struct stat status;
        char path[160];
        snprintf(path, sizeof path, "%s/%s", f->path, folders[i]);
        assert_int_equal(stat(path, &status), 0);
        assert_int_equal(status.st_mode & 07777, 0700);
    }
    struct stat status;
    char path[160];
    snprintf(path, sizeof path, "%s/vote", f->path);
    assert_int_equal(stat(path, &status), 0);
    assert_int_equal(status.st_mode & 07777, 0600);
    snprintf(path, sizeof path, "%s/wal", f->path);
    assert_string_equal(datadir_wal_path(f->datadir), path);
    snprintf(path, sizeof path, "%s/table", f->path);
    assert_string_equal(datadir_table_path(f->datadir), path);
    snprintf(path, sizeof path, "%s/snapshot", f->path);
    assert_string_equal(datadir_snapshot_path(f->datadir), path);

    const struct datadir_identity *identity = datadir_identity(f->datadir);
    static const uint8_t none[CLUSTER_ID_SIZE] = {0};
    assert_int_equal(identity->node_id, NODE);
    assert_true(identity->incarnation == INCARNATION);
    assert_memory_equal(identity->cluster_id, none, CLUSTER_ID_SIZE);
}

static void the_identity_is_kept(void **state)
{
    struct fixture *f = *state;
    uint8_t cluster[CLUSTER_ID_SIZE];
    for (int i = 0; i < CLUSTER_ID_SIZE; i++) {
        cluster[i] = (uint8_t)(240 + i);
    }
    assert_int_equal(datadir_set_cluster(f->datadir, cluster), 0);
    open_again(f);
    const struct datadir_identity *identity = datadir_identity(f->datadir);
    assert_true(identity->incarnation == INCARNATION);
    assert_memory_equal(identity->cluster_id, cluster, CLUSTER_ID_SIZE);
}

static void a_second_open_is_refused(void **state)
{
    struct fixture *f = *state;
    struct datadir *second = NULL;
    bool is_new = false;
    char pid[32];
    assert_int_equal(datadir_open(f->path, NODE, 1, &second, &is_new, f->why),
                     HASP_EBUSY);
    snprintf(pid, sizeof pid, "process %ld", (long)getpid());
    assert_non_null(strstr(f->why, pid));
    assert_non_null(strstr(f->why, f->path));
    open_again(f);
}

static void the_lock_ends_with_its_process(void **state)
{
    struct fixture *f = *state;
    int ready[2];
    char byte = 0;
    datadir_close(f->datadir);
    f->datadir = NULL;
    assert_int_equal(pipe(ready), 0);
    pid_t child = fork();
    if (child == 0) {
        bool is_new = false;
        struct datadir *held = NULL;
        int error = datadir_open(f->path, NODE, 1, &held, &is_new, f->why);
        if (error != 0 || write(ready[1], &byte, 1) != 1) {
            _exit(1);
        }
        alarm(20);
        pause();
        _exit(0);
    }
    close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    assert_int_equal(open_fails(f, NODE), HASP_EBUSY);
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, NULL, 0), child);
    open_again(f);
}

static void another_node_is_refused(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(open_fails(f, NODE + 1), HASP_EINVALID);
    assert_non_null(strstr(f->why, "belongs to node 3"));
    open_again(f);
}

static void what_is_there_is_opened_whoever_it_belongs_to(void **state)
{
    struct fixture *f = *state;
    struct datadir *second;
    char other[600];
    assert_int_equal(datadir_open_existing(f->path, &second, f->why),
                     HASP_EBUSY);
    datadir_close(f->datadir);
    f->datadir = NULL;
    assert_int_equal(datadir_open_existing(f->path, &second, f->why), 0);
    assert_int_equal(datadir_identity(second)->node_id, NODE);
    datadir_close(second);
    /* Nothing is created in an empty place. */
    snprintf(other, sizeof other, "%s/none", f->path);
    assert_int_equal(datadir_open_existing(other, &second, f->why), HASP_EIO);
    assert_int_equal(access(other, F_OK), -1);
    snprintf(other, sizeof other, "%s/wal", f->path);
    assert_int_equal(datadir_open_existing(other, &second, f->why),
                     HASP_ENOENT);
    snprintf(other, sizeof other, "%s/wal/LOCK", f->path);
    assert_int_equal(access(other, F_OK), -1);
}

static void a_damaged_identity_is_refused(void **state)
{
    struct fixture *f = *state;
    struct stat status;
    char path[160];
    snprintf(path, sizeof path, "%s/identity", f->path);
    assert_int_equal(stat(path, &status), 0);
    for (off_t at = 0; at < status.st_size; at++) {
        flip(f, "identity", at);
        assert_int_equal(open_fails(f, NODE), HASP_ECORRUPT);
        assert_non_null(strstr(f->why, "identity"));
        flip(f, "identity", at);
    }
    open_again(f);
    assert_int_equal(truncate(path, status.st_size - 1), 0);
    assert_int_equal(open_fails(f, NODE), HASP_ECORRUPT);
}

static void a_missing_folder_above_is_told(void **state)
{
    struct fixture *f = *state;
    struct datadir *datadir = NULL;
    bool is_new = false;
    char path[160];
    snprintf(path, sizeof path, "%s/no/such", f->base);
    assert_int_equal(datadir_open(path, NODE, 1, &datadir, &is_new, f->why),
                     HASP_EIO);
    assert_non_null(strstr(f->why, path));
}

static void a_lost_identity_does_not_make_a_new_node(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(datadir_save_vote(f->datadir, 4, 2), 0);
    remove_at(f, "identity");
    assert_int_equal(open_fails(f, NODE), HASP_ECORRUPT);
    assert_non_null(strstr(f->why, "is missing"));
}

static void a_log_without_identity_does_not_make_a_new_node(void **state)
{
    struct fixture *f = *state;
    write_file(f, "wal/segment", "x", 1, 0);
    remove_at(f, "identity");
    assert_int_equal(open_fails(f, NODE), HASP_ECORRUPT);
}

static void a_birth_cut_short_is_begun_again(void **state)
{
    struct fixture *f = *state;
    bool is_new = false;
    remove_at(f, "identity");
    datadir_close(f->datadir);
    f->datadir = NULL;
    assert_int_equal(
        datadir_open(f->path, NODE, 5, &f->datadir, &is_new, f->why), 0);
    assert_true(is_new);
    assert_int_equal(datadir_identity(f->datadir)->incarnation, 5);
    assert_vote(f, 0, 0);
}

static void the_vote_is_zero_at_first_and_then_kept(void **state)
{
    struct fixture *f = *state;
    assert_vote(f, 0, 0);
    for (uint64_t term = 1; term <= 9; term++) {
        assert_int_equal(datadir_save_vote(f->datadir, term, term % 3), 0);
        assert_vote(f, term, term % 3);
        open_again(f);
        assert_vote(f, term, term % 3);
    }
}

/* In one term the vote follows the term; whichever places each of the two has,
 * the later one counts. */
static void a_vote_counts_in_whichever_place_it_is(void **state)
{
    struct fixture *f = *state;
    for (uint64_t term = 1; term < 20; term++) {
        uint64_t found_term, found_vote;
        assert_int_equal(datadir_save_vote(f->datadir, term, 0), 0);
        if (term % 3 == 0) {
            continue; /* So that both orders of places occur. */
        }
        assert_int_equal(datadir_save_vote(f->datadir, term, 7), 0);
        open_again(f);
        assert_int_equal(
            datadir_load_vote(f->datadir, &found_term, &found_vote, f->why), 0);
        assert_int_equal(found_term, term);
        assert_int_equal(found_vote, 7);
    }
}

static void a_vote_may_be_saved_before_one_is_loaded(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(datadir_save_vote(f->datadir, 7, 1), 0);
    open_again(f);
    assert_int_equal(datadir_save_vote(f->datadir, 8, 2), 0);
    open_again(f);
    assert_vote(f, 8, 2);
}

static void read_votes(struct fixture *f, uint8_t votes[VOTE_FILE_SIZE])
{
    int fd = open_file(f, "vote", O_RDONLY);
    assert_int_equal(pread(fd, votes, VOTE_FILE_SIZE, 0), VOTE_FILE_SIZE);
    close(fd);
}

/* The first of the two places that have 'term'. */
static off_t vote_place(struct fixture *f, uint64_t term)
{
    uint8_t votes[VOTE_FILE_SIZE];
    read_votes(f, votes);
    off_t place = load_u64(votes + 16) == term ? 0 : VOTE_PLACE;
    assert_int_equal(load_u64(votes + place + 16), term);
    assert_int_equal(load_u64(votes + place + 2 * VOTE_PLACE + 16), term);
    return place;
}

/* No later save needs room on the disk: all four places exist from the start.
 */
static void a_new_vote_file_has_all_its_places(void **state)
{
    struct fixture *f = *state;
    uint8_t votes[VOTE_FILE_SIZE];
    read_votes(f, votes);
    for (int i = 0; i < 4; i++) {
        assert_memory_equal(votes + (ptrdiff_t)i * VOTE_PLACE, "haspvote", 8);
    }
}

/* A start writes the newest vote again, into its own places: until that is
 * flushed, the previous save can be the only one on the disk. */
static void a_start_does_not_write_over_the_previous_vote(void **state)
{
    struct fixture *f = *state;
    uint8_t before[VOTE_FILE_SIZE], after[VOTE_FILE_SIZE];
    for (uint64_t term = 1; term <= 4; term++) {
        assert_int_equal(datadir_save_vote(f->datadir, term, 1), 0);
        read_votes(f, before);
        open_again(f);
        assert_vote(f, term, 1);
        read_votes(f, after);
        assert_memory_equal(before, after, sizeof before);
    }
}

/* If a lost identity leaves a vote that cannot be read, it is unknown whether
 * this node has voted. */
static void an_unreadable_vote_does_not_make_a_new_node(void **state)
{
    struct fixture *f = *state;
    char path[160];
    snprintf(path, sizeof path, "%s/vote", f->path);
    remove_at(f, "vote");
    assert_int_equal(mkdir(path, 0700), 0); /* It opens; reading it fails. */
    remove_at(f, "identity");
    assert_int_equal(open_fails(f, NODE), HASP_ECORRUPT);
    remove_at(f, "vote");
    assert_int_equal(symlink("vote", path), 0); /* It cannot be opened. */
    assert_int_equal(open_fails(f, NODE), HASP_ECORRUPT);
}

/* A save writes two of the four places, which need not reach the disk in
 * order. */
static void a_save_cut_at_any_byte_gives_the_old_or_the_new_vote(void **state)
{
    struct fixture *f = *state;
    uint8_t old[VOTE_FILE_SIZE];
    uint8_t new[VOTE_FILE_SIZE];
    for (uint64_t term = 4; term <= 6; term++) {
        assert_int_equal(datadir_save_vote(f->datadir, term, 1), 0);
    }
    read_votes(f, old);
    assert_int_equal(datadir_save_vote(f->datadir, 7, 2), 0);
    read_votes(f, new);
    off_t first = vote_place(f, 7);
    for (size_t i = 0; i < 37 * 4; i++) {
        size_t cut = i / 4;
        bool is_other_whole = i % 2 != 0;
        off_t torn = first + (off_t)(i / 2 % 2 * 2 * VOTE_PLACE);
        off_t other = 2 * first + 2 * VOTE_PLACE - torn;
        write_file(f, "vote", old, sizeof old, 0);
        write_file(f, "vote", new + torn, cut, torn);
        if (is_other_whole) {
            write_file(f, "vote", new + other, 36, other);
        }
        bool is_new = is_other_whole || cut == 36;
        open_again(f);
        assert_vote(f, is_new ? 7 : 6, is_new ? 2 : 1);
        open_again(f);
        assert_vote(f, is_new ? 7 : 6, is_new ? 2 : 1);
    }
}

static void one_rotten_vote_record_does_not_bring_an_old_vote_back(void **state)
{
    struct fixture *f = *state;
    for (uint64_t term = 1; term <= 4; term++) {
        assert_int_equal(datadir_save_vote(f->datadir, term, 1), 0);
        for (off_t at = 0; at < 36; at++) {
            /* It is written again: then the next one may decay. */
            for (int i = 0; i < 4; i++) {
                off_t place = vote_place(f, term) + i % 2 * 2 * VOTE_PLACE;
                flip(f, "vote", place + at);
                open_again(f);
                assert_vote(f, term, 1);
            }
        }
    }
}

static void a_lost_vote_is_refused(void **state)
{
    struct fixture *f = *state;
    uint64_t term = 0;
    uint64_t voted_for = 0;
    assert_int_equal(datadir_save_vote(f->datadir, 4, 2), 0);
    for (int i = 0; i < 4; i++) {
        flip(f, "vote", i * VOTE_PLACE + 20);
    }
    open_again(f);
    assert_int_equal(datadir_load_vote(f->datadir, &term, &voted_for, f->why),
                     HASP_ECORRUPT);
    assert_non_null(strstr(f->why, "vote"));
    assert_int_equal(datadir_save_vote(f->datadir, 5, 1), HASP_ECORRUPT);
    remove_at(f, "vote");
    open_again(f);
    assert_int_equal(datadir_load_vote(f->datadir, &term, &voted_for, f->why),
                     HASP_ECORRUPT);
    assert_non_null(strstr(f->why, "is missing"));
}

static void
a_table_is_trusted_on_the_same_boot_or_after_a_clean_close(void **state)
{
    struct fixture *f = *state;
    assert_false(datadir_table_is_trusted(f->datadir));
    assert_int_equal(datadir_table_opened(f->datadir), 0);
    open_again(f);
    assert_true(datadir_table_is_trusted(f->datadir));

    /* Another boot: any digit of the id is another one. */
    flip(f, "trust", 10);
    assert_false(datadir_table_is_trusted(f->datadir));

    assert_int_equal(datadir_table_closed(f->datadir), 0);
    open_again(f);
    assert_true(datadir_table_is_trusted(f->datadir));
    assert_int_equal(datadir_table_opened(f->datadir), 0);
    flip(f, "trust", 10);
    assert_false(datadir_table_is_trusted(f->datadir));
}

static void a_half_restored_table_is_not_trusted(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(datadir_table_opened(f->datadir), 0);
    assert_int_equal(datadir_table_restoring(f->datadir, true), 0);
    open_again(f);
    assert_false(datadir_table_is_trusted(f->datadir));
    assert_int_equal(datadir_table_restoring(f->datadir, false), 0);
    assert_true(datadir_table_is_trusted(f->datadir));
}

static void name_no_boot(int folder_fd, char ret_id[STORAGE_BOOT_ID_SIZE])
{
    (void)folder_fd;
    ret_id[0] = '\0';
}

/* Where a boot has no id, only a table that was closed is trusted. */
static void without_a_boot_id_an_open_table_is_not_trusted(void **state)
{
    struct fixture *f = *state;
    struct storage_port port = *storage_port;
    port.boot_id = name_no_boot;
    storage_port = &port;
    open_again(f);
    assert_int_equal(datadir_table_opened(f->datadir), 0);
    assert_false(datadir_table_is_trusted(f->datadir));
    open_again(f);
    assert_false(datadir_table_is_trusted(f->datadir));
    assert_int_equal(datadir_table_closed(f->datadir), 0);
    open_again(f);
    assert_true(datadir_table_is_trusted(f->datadir));
    storage_port = &storage_port_system;
}

static int flushes_that_fail;

static int fail_some_flushes(int fd)
{
    if (flushes_that_fail == 0) {
        return fdatasync(fd);
    }
    flushes_that_fail--;
    errno = EIO;
    return -1;
}

/* The result of the next save that ends. */
static int end_of_save(struct vote_saver *saver)
{
    struct pollfd end = {.fd = vote_saver_fd(saver), .events = POLLIN};
    struct vote_saved saved;
    assert_int_equal(poll(&end, 1, 10000), 1);
    return vote_saver_take(saver, &saved);
}

/* After a flush that failed, the next one may succeed without the pages. */
static void a_vote_that_was_not_flushed_is_the_last(void **state)
{
    struct fixture *f = *state;
    struct storage_port port = *storage_port;
    struct vote_saver *saver;
    struct vote_saved saved;
    port.fdatasync = fail_some_flushes;
    storage_port = &port;
    flushes_that_fail = 0;
    assert_int_equal(vote_saver_new(f->datadir, &saver), 0);
    vote_saver_save(saver, 4, 2);
    assert_int_equal(end_of_save(saver), 0);
    flushes_that_fail = 1;
    vote_saver_save(saver, 5, 1);
    assert_int_equal(end_of_save(saver), HASP_EIO);
    vote_saver_save(saver, 6, 3);
    struct pollfd end = {.fd = vote_saver_fd(saver), .events = POLLIN};
    assert_int_equal(poll(&end, 1, 100), 0); /* It is not begun. */
    assert_int_equal(vote_saver_take(saver, &saved), HASP_EIO);
    vote_saver_free(saver);
    assert_int_equal(flushes_that_fail, 0);
    storage_port = &storage_port_system;
    open_again(f);
    uint64_t term = 0, voted_for = 0;
    assert_int_equal(datadir_load_vote(f->datadir, &term, &voted_for, f->why),
                     0);
    assert_in_range(term, 4, 5);
}

static void an_installation_is_marked_until_it_ends(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(datadir_install_end(f->datadir), 0);
    assert_int_equal(datadir_install_begin(f->datadir, 70, 3), 0);
    assert_int_equal(datadir_install_begin(f->datadir, 90, 4), 0);
    open_again(f);
    assert_true(datadir_is_installing(f->datadir, 90, 4));
    assert_false(datadir_is_installing(f->datadir, 70, 3));
    assert_false(datadir_is_installing(f->datadir, 90, 3));
    assert_false(datadir_is_installing(f->datadir, 9, 4));
    assert_int_equal(datadir_install_end(f->datadir), 0);
    open_again(f);
    assert_false(datadir_is_installing(f->datadir, 90, 4));
    assert_false(exists(f, "installing"));
}

static void a_removed_table_is_gone_and_not_trusted(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(datadir_table_opened(f->datadir), 0);
    write_file(f, "table/data", "x", 1, 0);
    write_file(f, "table/lock", "x", 1, 0);
    assert_int_equal(datadir_table_remove(f->datadir), 0);
    assert_false(datadir_table_is_trusted(f->datadir));
    assert_false(exists(f, "table/data"));
    assert_false(exists(f, "table/lock"));
    assert_true(exists(f, "table"));
    assert_int_equal(datadir_table_remove(f->datadir), 0);
}

static void the_free_space_is_told(void **state)
{
    struct fixture *f = *state;
    uint64_t free_size = 0;
    assert_int_equal(datadir_space(f->datadir, &free_size), 0);
    assert_true(free_size > 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_new_directory_gets_its_folders_and_identity),
        TEST(the_identity_is_kept),
        TEST(a_second_open_is_refused),
        TEST(the_lock_ends_with_its_process),
        TEST(another_node_is_refused),
        TEST(what_is_there_is_opened_whoever_it_belongs_to),
        TEST(a_damaged_identity_is_refused),
        TEST(a_missing_folder_above_is_told),
        TEST(a_lost_identity_does_not_make_a_new_node),
        TEST(a_log_without_identity_does_not_make_a_new_node),
        TEST(a_birth_cut_short_is_begun_again),
        TEST(the_vote_is_zero_at_first_and_then_kept),
        TEST(a_vote_counts_in_whichever_place_it_is),
        TEST(a_vote_may_be_saved_before_one_is_loaded),
        TEST(a_new_vote_file_has_all_its_places),
        TEST(a_start_does_not_write_over_the_previous_vote),
        TEST(an_unreadable_vote_does_not_make_a_new_node),
        TEST(a_save_cut_at_any_byte_gives_the_old_or_the_new_vote),
        TEST(one_rotten_vote_record_does_not_bring_an_old_vote_back),
        TEST(a_lost_vote_is_refused),
        TEST(a_vote_that_was_not_flushed_is_the_last),
        TEST(an_installation_is_marked_until_it_ends),
        TEST(a_table_is_trusted_on_the_same_boot_or_after_a_clean_close),
        TEST(a_half_restored_table_is_not_trusted),
        TEST(without_a_boot_id_an_open_table_is_not_trusted),
        TEST(a_removed_table_is_gone_and_not_trusted),
        TEST(the_free_space_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
