/* SPDX-License-Identifier: MIT */

/* tests/sim/sim_files.h: the disk in memory loses only the writes it may
 * lose. */

#include "tests/sim/sim_files.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define TRIES 200
#define SIZE (4 * FILES_SECTOR_SIZE)

static const struct storage_port *port = &files_port;
static uint8_t old_bytes[SIZE];
static uint8_t new_bytes[SIZE];
static uint8_t found[SIZE];

static int set_up(void **state)
{
    (void)state;
    memset(old_bytes, 'o', sizeof old_bytes);
    memset(new_bytes, 'n', sizeof new_bytes);
    return 0;
}

static int open_file(const char *path, int flags)
{
    return port->openat(AT_FDCWD, path, flags);
}

static void flush_folder(const char *path)
{
    int fd = open_file(path, O_RDONLY | O_DIRECTORY);
    assert_int_equal(port->fsync(fd), 0);
    port->close(fd);
}

static void put(int fd, const uint8_t *data)
{
    assert_int_equal(port->pwrite(fd, data, SIZE, 0), SIZE);
}

/* A machine with the file "/m/f", of old bytes, flushed. */
static struct files_machine *machine_with_file(uint64_t seed)
{
    struct files_machine *machine = files_new("m", seed);
    int fd = open_file("/m/f", O_RDWR | O_CREAT);
    put(fd, old_bytes);
    assert_int_equal(port->fsync(fd), 0);
    port->close(fd);
    flush_folder("/m");
    return machine;
}

static size_t read_file(const char *path)
{
    int fd = open_file(path, O_RDONLY);
    if (fd < 0) {
        return 0;
    }
    ssize_t size = port->pread(fd, found, SIZE, 0);
    port->close(fd);
    return size > 0 ? (size_t)size : 0;
}

static void what_was_flushed_survives(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < TRIES; seed++) {
        struct files_machine *machine = machine_with_file(seed);
        int fd = open_file("/m/f", O_RDWR);
        assert_int_equal(port->pwrite_dsync(fd, new_bytes, SIZE, 0), SIZE);
        port->close(fd);
        files_lose_power(machine);
        files_start(machine);
        assert_int_equal(read_file("/m/f"), SIZE);
        assert_memory_equal(found, new_bytes, SIZE);
        assert_false(files_was_torn(machine, "/m/f"));
        files_free(machine);
    }
}

/* Each of the ways occurs. */
static void what_was_not_flushed_is_lost_kept_or_mixed(void **state)
{
    uint32_t lost = 0, kept = 0, mixed = 0;
    (void)state;
    for (uint64_t seed = 0; seed < TRIES; seed++) {
        struct files_machine *machine = machine_with_file(seed);
        int fd = open_file("/m/f", O_RDWR);
        put(fd, new_bytes);
        port->close(fd);
        files_lose_power(machine);
        files_start(machine);
        assert_int_equal(read_file("/m/f"), SIZE);
        for (size_t i = 0; i < SIZE; i += FILES_SECTOR_SIZE) {
            const uint8_t *whole = found[i] == 'o' ? old_bytes : new_bytes;
            assert_memory_equal(found + i, whole, FILES_SECTOR_SIZE);
        }
        if (memcmp(found, old_bytes, SIZE) == 0) {
            lost++;
        } else if (memcmp(found, new_bytes, SIZE) == 0) {
            kept++;
        } else {
            mixed++;
        }
        files_free(machine);
    }
    assert_true(lost > 0 && kept > 0 && mixed > 0);
}

static void a_name_is_flushed_with_its_folder_only(void **state)
{
    uint32_t lost = 0, kept = 0;
    (void)state;
    for (uint64_t seed = 0; seed < TRIES; seed++) {
        struct files_machine *machine = files_new("m", seed);
        int fd = open_file("/m/f", O_RDWR | O_CREAT);
        put(fd, new_bytes);
        assert_int_equal(port->fsync(fd), 0);
        port->close(fd);
        files_lose_power(machine);
        files_start(machine);
        bool is_there = read_file("/m/f") == SIZE;
        assert_true(!is_there || memcmp(found, new_bytes, SIZE) == 0);
        lost += !is_there;
        kept += is_there;
        files_free(machine);
    }
    assert_true(lost > 0 && kept > 0);
}

static void a_rename_is_done_or_not(void **state)
{
    uint32_t old = 0, new = 0;
    (void)state;
    for (uint64_t seed = 0; seed < TRIES; seed++) {
        struct files_machine *machine = machine_with_file(seed);
        int fd = open_file("/m/g", O_RDWR | O_CREAT);
        put(fd, new_bytes);
        assert_int_equal(port->fsync(fd), 0);
        port->close(fd);
        flush_folder("/m");
        assert_int_equal(port->renameat(AT_FDCWD, "/m/g", AT_FDCWD, "/m/f"), 0);
        files_lose_power(machine);
        files_start(machine);
        assert_int_equal(read_file("/m/f"), SIZE);
        bool is_new = memcmp(found, new_bytes, SIZE) == 0;
        assert_int_equal(read_file("/m/g"), is_new ? 0 : SIZE);
        old += !is_new;
        new += is_new;
        files_free(machine);
    }
    assert_true(old > 0 && new > 0);
}

/* As kernels do it: the second flush succeeds, but the bytes are lost. */
static void a_failed_flush_is_not_made_good(void **state)
{
    (void)state;
    struct files_machine *machine = machine_with_file(1);
    int fd = open_file("/m/f", O_RDWR);
    put(fd, new_bytes);
    files_fail_within(machine, 1);
    assert_int_equal(port->fdatasync(fd), -1);
    assert_int_equal(errno, EIO);
    assert_true(files_has_failed(machine));
    assert_int_equal(port->fdatasync(fd), 0);
    port->close(fd);
    read_file("/m/f");
    assert_memory_equal(found, new_bytes, SIZE);
    fd = open_file("/m/f", O_RDONLY | O_DIRECT);
    assert_int_equal(port->pread(fd, found, SIZE, 0), SIZE);
    assert_memory_equal(found, old_bytes, SIZE);
    port->close(fd);
    files_lose_power(machine);
    files_start(machine);
    read_file("/m/f");
    assert_memory_equal(found, old_bytes, SIZE);
    files_free(machine);
}

static void a_killed_process_does_nothing_more(void **state)
{
    (void)state;
    struct files_machine *machine = machine_with_file(1);
    int fd = open_file("/m/f", O_RDWR);
    files_die_within(machine, 2);
    assert_int_equal(port->fsync(fd), 0);
    assert_int_equal(port->fsync(fd), -1);
    assert_true(files_is_dead(machine));
    assert_int_equal(port->pwrite(fd, new_bytes, SIZE, 0), -1);
    assert_int_equal(port->openat(AT_FDCWD, "/m/g", O_RDWR | O_CREAT), -1);
    port->close(fd);
    assert_int_equal(files_open_count(machine), 0);
    files_start(machine);
    assert_int_equal(read_file("/m/f"), SIZE);
    assert_memory_equal(found, old_bytes, SIZE);
    assert_int_equal(port->exists(AT_FDCWD, "/m/g"), -1);
    files_free(machine);
}

static void a_full_disk_takes_what_has_room(void **state)
{
    static uint8_t blocks[3 * 4096];
    (void)state;
    struct files_machine *machine = files_new("m", 1);
    int fd = open_file("/m/f", O_RDWR | O_CREAT);
    files_set_room(machine, 2 * 4096 + 100);
    assert_int_equal(port->reserve(fd, 0, sizeof blocks), -1);
    assert_int_equal(errno, ENOSPC);
    assert_int_equal(port->pwrite(fd, blocks, sizeof blocks, 0), 2 * 4096);
    assert_int_equal(port->pwrite(fd, blocks, 4096, 2 * 4096), -1);
    assert_int_equal(errno, ENOSPC);
    /* A file that exists can be written again. */
    assert_int_equal(port->pwrite(fd, blocks, 4096, 0), 4096);
    port->close(fd);
    files_free(machine);
}

static void an_old_copy_takes_the_place_of_a_disk(void **state)
{
    (void)state;
    struct files_machine *machine = machine_with_file(1);
    struct files_machine *copy = files_copy(machine, "copy");
    int fd = open_file("/m/f", O_RDWR);
    assert_int_equal(port->pwrite_dsync(fd, new_bytes, SIZE, 0), SIZE);
    port->close(fd);
    files_die(machine);
    files_restore(machine, copy);
    files_start(machine);
    assert_int_equal(read_file("/m/f"), SIZE);
    assert_memory_equal(found, old_bytes, SIZE);
    files_free(machine);
}

static void a_bit_rots_where_there_is_something(void **state)
{
    (void)state;
    struct files_machine *machine = machine_with_file(1);
    assert_false(files_rot(machine, "/m/g"));
    assert_true(files_rot(machine, "/m/f"));
    read_file("/m/f");
    uint32_t bits = 0;
    for (size_t i = 0; i < SIZE; i++) {
        bits += (uint32_t)__builtin_popcount(found[i] ^ old_bytes[i]);
    }
    assert_int_equal(bits, 1);
    files_free(machine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_flushed_survives),
        cmocka_unit_test(what_was_not_flushed_is_lost_kept_or_mixed),
        cmocka_unit_test(a_name_is_flushed_with_its_folder_only),
        cmocka_unit_test(a_rename_is_done_or_not),
        cmocka_unit_test(a_failed_flush_is_not_made_good),
        cmocka_unit_test(a_killed_process_does_nothing_more),
        cmocka_unit_test(a_full_disk_takes_what_has_room),
        cmocka_unit_test(an_old_copy_takes_the_place_of_a_disk),
        cmocka_unit_test(a_bit_rots_where_there_is_something),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
