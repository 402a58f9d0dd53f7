/* SPDX-License-Identifier: MIT */

/* Segments and the mark as files: names, zeroing, opening, removing. */

#include "storage/wal_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/memory.h"
#include "base/minmax.h"
#include "storage/crc32c.h"
#include "storage/disk.h"
#include "storage/port.h"
#include "storage/wal_format.h"

#define NAME_PREFIX "segment-"
#define NAME_DIGITS 16u
#define ZERO_SLICE_SIZE ((uint64_t)256 * 1024)

#define MARK_MAGIC "haspmark"
#define MARK_SIZE 52u
#define MARK_FILE_SIZE (2 * WAL_BLOCK_SIZE)

void wal_file_name(uint64_t number, char ret_name[WAL_FILE_NAME_SIZE])
{
    snprintf(ret_name, WAL_FILE_NAME_SIZE, NAME_PREFIX "%016" PRIx64, number);
}

bool wal_file_number(const char *name, uint64_t *ret_number)
{
    const char *digits = name + strlen(NAME_PREFIX);
    if (strncmp(name, NAME_PREFIX, strlen(NAME_PREFIX)) != 0 ||
        strlen(digits) != NAME_DIGITS ||
        strspn(digits, "0123456789abcdef") != NAME_DIGITS) {
        return false;
    }
    *ret_number = strtoull(digits, NULL, 16);
    return true;
}

static uint64_t whole_blocks(off_t size)
{
    return (uint64_t)size & ~(uint64_t)(WAL_BLOCK_SIZE - 1);
}

static int fill_with_zeros(int fd, uint64_t from, uint64_t size,
                           wal_file_stop_fn *stop, void *data)
{
    AUTO(auto_free) uint8_t *zeros = NULL;
    zeros = aligned_alloc(WAL_BLOCK_SIZE, ZERO_SLICE_SIZE);
    CHECK(zeros != NULL);
    memset(zeros, 0, ZERO_SLICE_SIZE);
    while (from < size) {
        uint64_t left = size - from;
        uint64_t slice = u64_min(left, ZERO_SLICE_SIZE);
        if (stop != NULL && stop(data)) {
            return ECANCELED;
        }
        ssize_t n = storage_port->pwrite(fd, zeros, slice, (off_t)from);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        /* A short write means a full disk, and O_DIRECT could not continue at
         * an unaligned offset. */
        if (n <= 0 || n % WAL_BLOCK_SIZE != 0) {
            return n < 0 ? errno : ENOSPC;
        }
        from += (uint64_t)n;
    }
    return 0;
}

int wal_file_prepare(int folder_fd, uint64_t number, uint64_t size,
                     bool is_direct, wal_file_stop_fn *stop, void *data)
{
    char name[WAL_FILE_NAME_SIZE];
    CHECK(size % WAL_BLOCK_SIZE == 0);
    wal_file_name(number, name);
    int flags = O_WRONLY | O_CREAT | (is_direct ? O_DIRECT : 0);
    int fd = storage_port->openat(folder_fd, name, flags);
    if (fd < 0) {
        return errno;
    }
    off_t found = storage_port->size(fd);
    int error = found >= 0 ? 0 : errno;
    uint64_t old_size = error == 0 ? whole_blocks(found) : 0;
    if (error == 0 && old_size < size) {
        /* Detect a full disk before writing. The size stays the same, so it
         * always is the end of the zeros. Not all file systems support this. */
        if (storage_port->reserve(fd, (off_t)old_size,
                                  (off_t)(size - old_size)) != 0 &&
            disk_error(errno) == HASP_ENOSPC) {
            error = errno;
        }
        if (error == 0) {
            error = fill_with_zeros(fd, old_size, size, stop, data);
        }
    }
    if (error == 0 && storage_port->fsync(fd) != 0) {
        error = errno;
    }
    if (error == 0 && storage_port->fsync(folder_fd) != 0) {
        error = errno;
    }
    if (storage_port->close(fd) != 0 && error == 0) {
        error = errno;
    }
    if (error != 0) {
        storage_port->unlinkat(folder_fd, name);
    }
    return error;
}

int wal_file_open(int folder_fd, uint64_t number, bool is_direct, int *ret_fd,
                  uint64_t *ret_size)
{
    char name[WAL_FILE_NAME_SIZE];
    wal_file_name(number, name);
    int flags = O_RDWR | (is_direct ? O_DIRECT : 0);
    int fd = storage_port->openat(folder_fd, name, flags);
    if (fd < 0) {
        return errno;
    }
    off_t size = storage_port->size(fd);
    if (size < 0) {
        int error = errno;
        storage_port->close(fd);
        return error;
    }
    *ret_fd = fd;
    *ret_size = whole_blocks(size);
    return 0;
}

int wal_file_remove(int folder_fd, uint64_t number)
{
    char name[WAL_FILE_NAME_SIZE];
    wal_file_name(number, name);
    if (storage_port->unlinkat(folder_fd, name) != 0 && errno != ENOENT) {
        return errno;
    }
    return storage_port->fsync(folder_fd) == 0 ? 0 : errno;
}

int wal_file_read(int folder_fd, uint64_t number, uint8_t **ret_data,
                  uint64_t *ret_size)
{
    int fd = -1;
    uint64_t size = 0;
    /* O_DIRECT reads the disk. The page cache can differ from it after a failed
     * flush. */
    int error = wal_file_open(folder_fd, number, true, &fd, &size);
    if (error == EINVAL) {
        error = wal_file_open(folder_fd, number, false, &fd, &size);
    }
    if (error != 0) {
        return error;
    }
    uint8_t *data = aligned_alloc(WAL_BLOCK_SIZE, size + WAL_BLOCK_SIZE);
    CHECK(data != NULL);
    size_t done = 0;
    error = disk_read(fd, data, size, 0, &done);
    storage_port->close(fd);
    if (error == 0 && done != size) {
        error = EIO;
    }
    if (error != 0) {
        free(data);
        return error;
    }
    *ret_data = data;
    *ret_size = size;
    return 0;
}

static void encode_mark(const struct wal_mark *mark, uint8_t ret[MARK_SIZE])
{
    memcpy(ret, MARK_MAGIC, 8);
    store_u64(ret + 8, mark->log_id);
    store_u64(ret + 16, mark->count);
    store_u64(ret + 24, mark->sequence);
    store_u64(ret + 32, mark->term);
    store_u64(ret + 40, mark->log_index);
    store_u32(ret + 48, crc32c(0, ret, MARK_SIZE - 4));
}

int wal_mark_create(int folder_fd, uint64_t log_id)
{
    uint8_t file[MARK_FILE_SIZE] = {0};
    struct wal_mark mark = {.log_id = log_id};
    encode_mark(&mark, file);
    mark.count = 1;
    encode_mark(&mark, file + WAL_BLOCK_SIZE);
    return disk_replace(folder_fd, WAL_MARK_NAME, bytes_of(file, sizeof file));
}

static bool decode_mark(const uint8_t *at, struct wal_mark *ret_mark)
{
    if (memcmp(at, MARK_MAGIC, 8) != 0 ||
        load_u32(at + 48) != crc32c(0, at, MARK_SIZE - 4)) {
        return false;
    }
    *ret_mark = (struct wal_mark){.log_id = load_u64(at + 8),
                                  .count = load_u64(at + 16),
                                  .sequence = load_u64(at + 24),
                                  .term = load_u64(at + 32),
                                  .log_index = load_u64(at + 40)};
    return true;
}

int wal_mark_load(int folder_fd, struct wal_mark *ret_mark)
{
    uint8_t file[MARK_FILE_SIZE] = {0};
    size_t size = 0;
    int fd = storage_port->openat(folder_fd, WAL_MARK_NAME, O_RDONLY);
    if (fd < 0) {
        return errno == ENOENT ? HASP_ENOENT : HASP_EIO;
    }
    int error = disk_read(fd, file, sizeof file, 0, &size);
    storage_port->close(fd);
    if (error != 0) {
        errno = error;
        return HASP_EIO;
    }
    struct wal_mark mark[2];
    bool is_good[2];
    for (int i = 0; i < 2; i++) {
        is_good[i] = decode_mark(file + i * WAL_BLOCK_SIZE, &mark[i]) &&
                     mark[i].count % 2 == (uint64_t)i;
    }
    if (!is_good[0] && !is_good[1]) {
        return HASP_ECORRUPT;
    }
    /* If one record is torn, the other is sound, only older. */
    int newest = is_good[1] && (!is_good[0] || mark[1].count > mark[0].count);
    *ret_mark = mark[newest];
    return 0;
}

int wal_mark_save(int folder_fd, const struct wal_mark *mark)
{
    uint8_t record[MARK_SIZE];
    encode_mark(mark, record);
    int fd = storage_port->openat(folder_fd, WAL_MARK_NAME, O_WRONLY);
    if (fd < 0) {
        return errno;
    }
    int error = disk_write(fd, bytes_of(record, sizeof record),
                           mark->count % 2 * WAL_BLOCK_SIZE);
    if (storage_port->close(fd) != 0 && error == 0) {
        error = errno;
    }
    return error;
}
