/* SPDX-License-Identifier: MIT */

/* The mark of a fence: it never decreases, is on the disk before it counts, and
 * is exact between threads and processes. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/fence_file.h"
#include "include/hasp/hasp.h"

static atomic_int flush_count;

/* What a power cut would leave: of the newest flushed file its bytes, and the
 * file that had the name when the folder was flushed. */
static struct {
    char path[80]; /* The watched name; "": none is watched. */
    ino_t named;   /* 0: the name does not exist. */
    ino_t folder;  /* That was flushed last. */
    ino_t inode;
    uint8_t bytes[FENCE_FILE_SIZE];
} disk;
static bool flushes_fail;
/* Called once, before the next fsync(). */
static void (*before_flush)(void);

static void disk_note(int fd)
{
    struct stat info, file;
    assert_int_equal(fstat(fd, &info), 0);
    if (S_ISDIR(info.st_mode)) {
        disk.named = stat(disk.path, &file) == 0 ? file.st_ino : 0;
        disk.folder = info.st_ino;
    } else {
        memset(disk.bytes, 0, sizeof disk.bytes);
        disk.inode = info.st_ino;
        assert_true(pread(fd, disk.bytes, sizeof disk.bytes, 0) >= 0);
    }
}

static int flush(int fd, long call)
{
    if (flushes_fail) {
        errno = EIO;
        return -1;
    }
    if (disk.path[0] != '\0') {
        disk_note(fd);
    }
    return (int)syscall(call, fd);
}

/* Both replace those of the C library. */
int fdatasync(int fd)
{
    atomic_fetch_add(&flush_count, 1);
    return flush(fd, SYS_fdatasync);
}

int fsync(int fd)
{
    void (*call)(void) = before_flush;
    before_flush = NULL;
    if (call != NULL) {
        call();
    }
    return flush(fd, SYS_fsync);
}

/* The mark after a power cut now; UINT64_MAX: the fence does not exist, or is
 * damaged. */
static uint64_t mark_after_power_cut(void)
{
    struct fence_slot slot, newest = {.mark = UINT64_MAX};
    bool is_found = false;
    for (size_t at = 0; at < FENCE_FILE_SIZE; at += FENCE_SLOT_SIZE) {
        if (disk.named != 0 && disk.named == disk.inode &&
            fence_slot_decode(disk.bytes + at, &slot) == 0 &&
            (!is_found || slot.sequence > newest.sequence)) {
            newest = slot;
            is_found = true;
        }
    }
    return newest.mark;
}

struct fixture {
    char folder[64];
    char path[80];
    struct hasp_fence *fence;
};

static int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    const char *base = getenv("TMPDIR");
    snprintf(f->folder, sizeof f->folder, "%.36s/hasp-fence-XXXXXX",
             base != NULL ? base : "/tmp");
    assert_non_null(mkdtemp(f->folder));
    snprintf(f->path, sizeof f->path, "%s/mark", f->folder);
    assert_int_equal(hasp_fence_open(f->path, &f->fence), 0);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    hasp_fence_close(f->fence);
    unlink(f->path);
    assert_int_equal(rmdir(f->folder), 0); /* Nothing else remained there. */
    free(f);
    return 0;
}

static uint64_t mark_of(struct hasp_fence *fence)
{
    uint64_t mark = 12345;
    assert_int_equal(hasp_fence_mark(fence, &mark), 0);
    return mark;
}

static void reopen(struct fixture *f)
{
    hasp_fence_close(f->fence);
    f->fence = NULL;
    assert_int_equal(hasp_fence_open(f->path, &f->fence), 0);
}

static void overwrite(struct fixture *f, off_t at, const void *bytes,
                      size_t size)
{
    int fd = open(f->path, O_RDWR);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, bytes, size, at), (ssize_t)size);
    close(fd);
}

static void a_lower_token_is_stale_an_equal_one_is_not(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(mark_of(f->fence), 0);
    assert_int_equal(hasp_fence_admit(f->fence, 33), 0);
    assert_int_equal(hasp_fence_admit(f->fence, 33), 0);
    assert_int_equal(hasp_fence_admit(f->fence, 34), 0);
    assert_int_equal(hasp_fence_admit(f->fence, 33), HASP_ESTALE);
    assert_int_equal(mark_of(f->fence), 34);
}

static void the_mark_outlives_the_program(void **state)
{
    struct fixture *f = *state;
    for (uint64_t token = 1; token <= 5; token++) {
        assert_int_equal(hasp_fence_admit(f->fence, token * 10), 0);
        reopen(f);
        assert_int_equal(mark_of(f->fence), token * 10);
        assert_int_equal(hasp_fence_admit(f->fence, token * 10 - 1),
                         HASP_ESTALE);
    }
}

/* Another process has written a mark and was killed before its flush: the token
 * counts only when it is on the disk. */
static void a_mark_that_another_one_wrote_is_flushed_once(void **state)
{
    struct fixture *f = *state;
    uint8_t bytes[FENCE_SLOT_SIZE];
    const struct fence_slot slot = {.sequence = 3, .mark = 70};
    assert_int_equal(hasp_fence_admit(f->fence, 60), 0);
    int before = atomic_load(&flush_count);
    assert_int_equal(hasp_fence_admit(f->fence, 60), 0);
    assert_int_equal(atomic_load(&flush_count), before);
    fence_slot_encode(&slot, bytes);
    overwrite(f, 0, bytes, sizeof bytes);
    assert_int_equal(hasp_fence_admit(f->fence, 70), 0);
    assert_int_equal(atomic_load(&flush_count), before + 1);
    assert_int_equal(hasp_fence_admit(f->fence, 70), 0);
    assert_int_equal(atomic_load(&flush_count), before + 1);
    reopen(f);
    assert_int_equal(hasp_fence_admit(f->fence, 70), 0);
    assert_int_equal(atomic_load(&flush_count), before + 2);
}

static void tokens_out_of_range_are_invalid(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(hasp_fence_admit(f->fence, 0), HASP_EINVALID);
    assert_int_equal(hasp_fence_admit(f->fence, UINT64_C(1) << 53),
                     HASP_EINVALID);
    assert_int_equal(hasp_fence_admit(NULL, 1), HASP_EINVALID);
    assert_int_equal(hasp_fence_open("", &f->fence), HASP_EINVALID);
    /* A refused request has locked nothing. */
    assert_int_equal(hasp_fence_admit(f->fence, (UINT64_C(1) << 53) - 1), 0);
}

/* A power loss during a write leaves any prefix of the new slot. */
static void a_torn_write_leaves_the_mark_before(void **state)
{
    struct fixture *f = *state;
    for (uint64_t round = 1; round <= 2; round++) {
        uint8_t before[FENCE_FILE_SIZE], after[FENCE_FILE_SIZE];
        assert_int_equal(hasp_fence_admit(f->fence, 100 * round), 0);
        int fd = open(f->path, O_RDONLY);
        assert_int_equal(pread(fd, before, sizeof before, 0), FENCE_FILE_SIZE);
        assert_int_equal(hasp_fence_admit(f->fence, 100 * round + 1), 0);
        assert_int_equal(pread(fd, after, sizeof after, 0), FENCE_FILE_SIZE);
        close(fd);
        size_t at = memcmp(before, after, FENCE_SLOT_SIZE) != 0
                        ? 0
                        : FENCE_SLOT_SIZE;
        assert_memory_equal(before + FENCE_SLOT_SIZE - at,
                            after + FENCE_SLOT_SIZE - at, FENCE_SLOT_SIZE);
        for (size_t cut = 0; cut <= 40; cut++) {
            overwrite(f, 0, before, sizeof before);
            overwrite(f, (off_t)at, after + at, cut);
            reopen(f);
            bool is_whole = memcmp(before + at + cut, after + at + cut,
                                   FENCE_SLOT_SIZE - cut) == 0;
            assert_int_equal(mark_of(f->fence), 100 * round + is_whole);
        }
        /* And it continues from there. */
        assert_int_equal(hasp_fence_admit(f->fence, 100 * round + 2), 0);
        reopen(f);
        assert_int_equal(mark_of(f->fence), 100 * round + 2);
    }
}

static void a_damaged_or_foreign_file_is_refused(void **state)
{
    struct fixture *f = *state;
    struct hasp_fence *other = NULL;
    uint8_t rubbish[FENCE_FILE_SIZE];
    assert_int_equal(hasp_fence_admit(f->fence, 7), 0);
    memset(rubbish, 'x', sizeof rubbish);
    overwrite(f, 0, rubbish, sizeof rubbish);
    assert_int_equal(hasp_fence_open(f->path, &other), HASP_ECORRUPT);
    assert_int_equal(hasp_fence_admit(f->fence, 8), HASP_ECORRUPT);
    /* An empty file is not a new one: a mark has been lost. */
    assert_int_equal(truncate(f->path, 0), 0);
    assert_int_equal(hasp_fence_open(f->path, &other), HASP_ECORRUPT);
    assert_null(other);
}

static void a_file_of_another_size_is_refused(void **state)
{
    /* The longer ones first: those have both slots. */
    static const off_t sizes[] = {2 * FENCE_FILE_SIZE, FENCE_FILE_SIZE + 1,
                                  FENCE_FILE_SIZE - 1, FENCE_SLOT_SIZE,
                                  FENCE_SLOT_SIZE - 1, 1};
    struct fixture *f = *state;
    struct hasp_fence *other = NULL;
    assert_int_equal(hasp_fence_admit(f->fence, 7), 0);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        assert_int_equal(truncate(f->path, sizes[i]), 0);
        assert_int_equal(hasp_fence_open(f->path, &other), HASP_ECORRUPT);
        assert_null(other);
    }
}

/* Whichever slot has the newest mark, the next mark goes into the other one, so
 * a torn write costs only the mark that was being written. */
static void the_slot_of_the_newest_mark_is_not_written(void **state)
{
    struct fixture *f = *state;
    for (uint64_t sequence = 4; sequence < 8; sequence++) {
        uint8_t before[FENCE_FILE_SIZE], after[FENCE_FILE_SIZE];
        const struct fence_slot newest = {.sequence = sequence, .mark = 50};
        const struct fence_slot older = {.sequence = sequence - 1, .mark = 40};
        /* An odd sequence is in the first slot. */
        bool is_first = sequence % 2 == 1;
        fence_slot_encode(is_first ? &newest : &older, before);
        fence_slot_encode(is_first ? &older : &newest,
                          before + FENCE_SLOT_SIZE);
        overwrite(f, 0, before, sizeof before);
        reopen(f);
        assert_int_equal(hasp_fence_admit(f->fence, 49), HASP_ESTALE);
        assert_int_equal(hasp_fence_admit(f->fence, 60), 0);
        int fd = open(f->path, O_RDONLY);
        assert_int_equal(read(fd, after, sizeof after), sizeof after);
        close(fd);
        size_t at = is_first ? 0 : FENCE_SLOT_SIZE;
        assert_memory_equal(before + at, after + at, FENCE_SLOT_SIZE);
    }
}

static void every_bit_of_a_slot_is_guarded(void **state)
{
    uint8_t bytes[FENCE_SLOT_SIZE];
    struct fence_slot slot = {.sequence = 77, .mark = 123456789}, read;
    (void)state;
    fence_slot_encode(&slot, bytes);
    assert_int_equal(fence_slot_decode(bytes, &read), 0);
    assert_int_equal(read.sequence, 77);
    assert_int_equal(read.mark, 123456789);
    for (unsigned bit = 0; bit < 40 * 8; bit++) {
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_int_equal(fence_slot_decode(bytes, &read), HASP_ECORRUPT);
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
}

/* Starts with no file, and watches its name. */
static void begin_anew(struct fixture *f)
{
    hasp_fence_close(f->fence);
    f->fence = NULL;
    assert_int_equal(unlink(f->path), 0);
    memset(&disk, 0, sizeof disk);
    snprintf(disk.path, sizeof disk.path, "%s", f->path);
}

/* A token counts only when its mark, and the name of the file, survive a power
 * cut. */
static void a_power_cut_takes_no_mark_back(void **state)
{
    static const uint64_t tokens[] = {1, 2, 2, 7, 90, 91};
    struct fixture *f = *state;
    begin_anew(f);
    assert_int_equal(hasp_fence_open(f->path, &f->fence), 0);
    assert_int_equal(mark_after_power_cut(), 0);
    for (size_t i = 0; i < sizeof tokens / sizeof tokens[0]; i++) {
        assert_int_equal(hasp_fence_enter(f->fence, tokens[i]), 0);
        assert_int_equal(mark_after_power_cut(), tokens[i]);
        hasp_fence_leave(f->fence);
    }
    disk.path[0] = '\0';
}

/* The folder that has the name is the one that is flushed, however the path is
 * written. */
static void the_folder_of_the_name_is_flushed(void **state)
{
    static const char *const paths[] = {"mark", "./mark", "../%s/mark",
                                        ".//mark"};
    struct fixture *f = *state;
    char path[80], here[256];
    struct stat info, folder;
    assert_non_null(getcwd(here, sizeof here));
    assert_int_equal(stat(f->folder, &folder), 0);
    assert_int_equal(chdir(f->folder), 0);
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        begin_anew(f);
        const char *name = strrchr(f->folder, '/') + 1;
        const char *mark = strstr(paths[i], "%s");
        snprintf(path, sizeof path, "%.*s%s%s",
                 (int)(mark != NULL ? mark - paths[i] : 0), paths[i],
                 mark != NULL ? name : paths[i], mark != NULL ? mark + 2 : "");
        assert_int_equal(hasp_fence_open(path, &f->fence), 0);
        assert_int_equal(stat(f->path, &info), 0);
        assert_int_equal(disk.folder, folder.st_ino);
        assert_int_equal(mark_after_power_cut(), 0);
    }
    assert_int_equal(chdir(here), 0);
    disk.path[0] = '\0';
}

/* After a failed flush it is unknown what the disk has, and the next flush can
 * succeed without writing anything. */
static void after_a_failed_flush_nothing_is_admitted(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(hasp_fence_admit(f->fence, 5), 0);
    flushes_fail = true;
    assert_int_equal(hasp_fence_admit(f->fence, 6), HASP_EIO);
    flushes_fail = false;
    assert_int_equal(hasp_fence_admit(f->fence, 6), HASP_EIO);
    assert_int_equal(hasp_fence_admit(f->fence, 7), HASP_EIO);
    reopen(f);
    assert_int_equal(hasp_fence_admit(f->fence, 7), 0);
}

static void a_new_file_that_cannot_be_flushed_is_not_opened(void **state)
{
    struct fixture *f = *state;
    begin_anew(f);
    disk.path[0] = '\0';
    flushes_fail = true;
    assert_int_equal(hasp_fence_open(f->path, &f->fence), HASP_EIO);
    flushes_fail = false;
    assert_int_equal(hasp_fence_open(f->path, &f->fence), 0);
}

static void another_process_makes_it(void)
{
    struct hasp_fence *fence;
    assert_int_equal(hasp_fence_open(disk.path, &fence), 0);
    assert_int_equal(hasp_fence_admit(fence, 50), 0);
    hasp_fence_close(fence);
}

static void the_file_of_a_faster_process_stays(void **state)
{
    struct fixture *f = *state;
    begin_anew(f);
    before_flush = another_process_makes_it;
    assert_int_equal(hasp_fence_open(f->path, &f->fence), 0);
    assert_int_equal(mark_of(f->fence), 50);
    assert_int_equal(hasp_fence_admit(f->fence, 49), HASP_ESTALE);
    disk.path[0] = '\0';
}

/* A failed write is refused, and so are all later ones, since it is unknown
 * what reached the disk. */
static void after_a_failed_write_nothing_is_admitted(void **state)
{
    struct fixture *f = *state;
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        struct hasp_fence *fence;
        struct rlimit none = {0, 0};
        struct sigaction ignore = {.sa_handler = SIG_IGN};
        sigaction(SIGXFSZ, &ignore, NULL);
        if (hasp_fence_open(f->path, &fence) != 0 ||
            hasp_fence_admit(fence, 5) != 0 ||
            setrlimit(RLIMIT_FSIZE, &none) != 0) {
            _exit(1);
        }
        if (hasp_fence_admit(fence, 6) != HASP_EIO) {
            _exit(2);
        }
        /* Even one that needs no write. */
        _exit(hasp_fence_admit(fence, 5) == HASP_EIO ? 0 : 3);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_int_equal(mark_of(f->fence), 5);
    assert_int_equal(hasp_fence_admit(f->fence, 6), 0);
}

static void a_child_must_open_its_own(void **state)
{
    struct fixture *f = *state;
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        struct hasp_fence *own;
        int inherited = hasp_fence_admit(f->fence, 9);
        hasp_fence_close(f->fence);
        int error = hasp_fence_open(f->path, &own);
        error = error == 0 ? hasp_fence_admit(own, 9) : error;
        _exit(inherited == HASP_EFORKED && error == 0 ? 0 : 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_int_equal(mark_of(f->fence), 9);
}

static void misuse_of_enter_and_leave_does_no_harm(void **state)
{
    struct fixture *f = *state;
    uint64_t mark;
    hasp_fence_leave(f->fence);
    hasp_fence_leave(NULL);
    assert_int_equal(hasp_fence_enter(f->fence, 5), 0);
    assert_int_equal(hasp_fence_enter(f->fence, 6), HASP_EINVALID);
    assert_int_equal(hasp_fence_mark(f->fence, &mark), HASP_EINVALID);
    hasp_fence_leave(f->fence);
    hasp_fence_leave(f->fence);
    assert_int_equal(hasp_fence_admit(f->fence, 6), 0);
    assert_int_equal(mark_of(f->fence), 6);
}

/* --- Order of concurrent writers ------------------------------------------ */

#define WRITERS 4
#define ROUNDS 40

struct writer {
    struct hasp_fence *fence;
    atomic_ulong *next;
    atomic_int *inside;
    unsigned long last; /* The last token accepted from this one. */
    unsigned admitted;
    bool is_wrong;
};

static atomic_ulong newest;

static void *write_often(void *data)
{
    struct writer *writer = data;
    for (int i = 0; i < ROUNDS; i++) {
        unsigned long token = atomic_fetch_add(writer->next, 1);
        if (hasp_fence_enter(writer->fence, token) != 0) {
            continue;
        }
        if (atomic_fetch_add(writer->inside, 1) != 0 ||
            atomic_exchange(&newest, token) > token) {
            writer->is_wrong = true;
        }
        atomic_fetch_sub(writer->inside, 1);
        writer->admitted++;
        hasp_fence_leave(writer->fence);
    }
    return NULL;
}

/* Two of them share a fence, the others have opened the file themselves, as
 * other processes would. */
static void inside_is_one_at_a_time_and_never_a_lower_token(void **state)
{
    struct fixture *f = *state;
    pthread_t threads[WRITERS];
    struct writer writers[WRITERS];
    struct hasp_fence *others[2];
    atomic_ulong next = 1;
    atomic_int inside = 0;
    unsigned admitted = 0;
    atomic_store(&newest, 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(hasp_fence_open(f->path, &others[i]), 0);
    }
    for (int i = 0; i < WRITERS; i++) {
        writers[i] = (struct writer){.fence = i < 2 ? f->fence : others[i - 2],
                                     .next = &next,
                                     .inside = &inside};
        assert_int_equal(
            pthread_create(&threads[i], NULL, write_often, &writers[i]), 0);
    }
    for (int i = 0; i < WRITERS; i++) {
        pthread_join(threads[i], NULL);
        assert_false(writers[i].is_wrong);
        admitted += writers[i].admitted;
    }
    assert_true(admitted > 0);
    assert_int_equal(mark_of(f->fence), atomic_load(&newest));
    hasp_fence_close(others[0]);
    hasp_fence_close(others[1]);
}

/* Eight processes create the same file at the same moment. */
static void made_by_many_it_is_one(void **state)
{
    struct fixture *f = *state;
    int status, failed = 0;
    hasp_fence_close(f->fence);
    f->fence = NULL;
    assert_int_equal(unlink(f->path), 0);
    for (uint64_t i = 1; i <= 8; i++) {
        if (fork() == 0) {
            struct hasp_fence *own;
            int error = hasp_fence_open(f->path, &own);
            error = error == 0 ? hasp_fence_admit(own, i) : error;
            _exit(error == 0 || error == HASP_ESTALE ? 0 : 1);
        }
    }
    for (int i = 0; i < 8; i++) {
        assert_true(wait(&status) > 0);
        failed += status != 0;
    }
    assert_int_equal(failed, 0);
    assert_int_equal(hasp_fence_open(f->path, &f->fence), 0);
    assert_int_equal(mark_of(f->fence), 8);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_lower_token_is_stale_an_equal_one_is_not),
        CASE(the_mark_outlives_the_program),
        CASE(a_mark_that_another_one_wrote_is_flushed_once),
        CASE(tokens_out_of_range_are_invalid),
        CASE(a_torn_write_leaves_the_mark_before),
        CASE(a_damaged_or_foreign_file_is_refused),
        CASE(a_file_of_another_size_is_refused),
        CASE(the_slot_of_the_newest_mark_is_not_written),
        CASE(every_bit_of_a_slot_is_guarded),
        CASE(a_power_cut_takes_no_mark_back),
        CASE(the_folder_of_the_name_is_flushed),
        CASE(after_a_failed_flush_nothing_is_admitted),
        CASE(a_new_file_that_cannot_be_flushed_is_not_opened),
        CASE(the_file_of_a_faster_process_stays),
        CASE(after_a_failed_write_nothing_is_admitted),
        CASE(a_child_must_open_its_own),
        CASE(misuse_of_enter_and_leave_does_no_harm),
        CASE(inside_is_one_at_a_time_and_never_a_lower_token),
        CASE(made_by_many_it_is_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
