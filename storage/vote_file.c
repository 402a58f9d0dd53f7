/* SPDX-License-Identifier: MIT */

/* The file of the vote: four places of which a crash can spoil two, read
 * and written. */

#include "storage/vote_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

#include "base/check.h"
#include "storage/crc32c.h"
#include "storage/disk.h"
#include "storage/port.h"

#define MAGIC "haspvote"
#define RECORD_SIZE 36u
#define FILE_SIZE \
    ((VOTE_FILE_PLACE_COUNT - 1) * VOTE_FILE_PLACE_SIZE + RECORD_SIZE)

static int write_record(const struct vote_file *file, uint64_t pair)
{
    uint8_t record[RECORD_SIZE];
    memcpy(record, MAGIC, 8);
    store_u64(record + 8, file->count);
    store_u64(record + 16, file->term);
    store_u64(record + 24, file->voted_for);
    store_u32(record + 32, crc32c(0, record, RECORD_SIZE - 4));
    struct bytes bytes = bytes_of(record, sizeof record);
    uint64_t first = pair * VOTE_FILE_PLACE_SIZE;
    return disk_write_two(file->fd, bytes, first,
                          first + UINT64_C(2) * VOTE_FILE_PLACE_SIZE);
}

int vote_file_create(int folder_fd, struct vote_file *ret_file)
{
    struct vote_file file = {0};
    file.fd = storage_port->openat(folder_fd, VOTE_FILE_NAME,
                                   O_RDWR | O_CREAT | O_TRUNC);
    if (file.fd < 0) {
        return errno;
    }
    /* Both places are written, so that no later save needs room on the disk. */
    int error = write_record(&file, 0) ?: write_record(&file, 1);
    if (error != 0) {
        storage_port->close(file.fd);
        return error;
    }
    *ret_file = file;
    return 0;
}

static bool vote_file_decode(const uint8_t *at, struct vote_file *ret_record)
{
    if (memcmp(at, MAGIC, 8) != 0 ||
        load_u32(at + 32) != crc32c(0, at, RECORD_SIZE - 4)) {
        return false;
    }
    *ret_record = (struct vote_file){.fd = -1,
                                     .count = load_u64(at + 8),
                                     .term = load_u64(at + 16),
                                     .voted_for = load_u64(at + 24)};
    return true;
}

/* Reads the newest valid record; 'ret_is_found' is false if there is none. */
static int read_newest(int fd, struct vote_file *ret_newest, bool *ret_is_found)
{
    uint8_t bytes[FILE_SIZE] = {0};
    struct vote_file newest = {0};
    bool is_found = false;
    size_t size = 0;
    int error = disk_read(fd, bytes, sizeof bytes, 0, &size);
    if (error != 0) {
        return error;
    }
    for (uint32_t i = 0; i < VOTE_FILE_PLACE_COUNT; i++) {
        struct vote_file record = {0};
        /* Two saves in a row share no place, so a crash during the newest
         * leaves the previous one intact. */
        if (vote_file_decode(bytes + (size_t)i * VOTE_FILE_PLACE_SIZE,
                             &record) &&
            (!is_found || record.count > newest.count)) {
            newest = record;
            is_found = true;
        }
    }
    *ret_newest = newest;
    *ret_is_found = is_found;
    return 0;
}

int vote_file_open(int folder_fd, const char *folder,
                   struct vote_file *ret_file, char why[HASP_WHY_SIZE])
{
    struct vote_file newest = {0};
    bool is_found = false;
    int fd = storage_port->openat(folder_fd, VOTE_FILE_NAME, O_RDWR);
    if (fd < 0 && errno == ENOENT) {
        snprintf(why, HASP_WHY_SIZE, "'%.300s/%s' is missing" DISK_LOSS_ADVICE,
                 folder, VOTE_FILE_NAME);
        return HASP_ECORRUPT;
    }
    int error = fd < 0 ? errno : read_newest(fd, &newest, &is_found);
    if (error != 0) {
        error = disk_fail(why, error, "read", folder, VOTE_FILE_NAME);
    } else if (!is_found) {
        snprintf(why, HASP_WHY_SIZE, "'%.300s/%s' is damaged" DISK_LOSS_ADVICE,
                 folder, VOTE_FILE_NAME);
        error = HASP_ECORRUPT;
    } else {
        /* The record may never have been flushed; or its flush failed, and only
         * the page cache has it; or its copy has rotted. From now on it counts,
         * so it must be on disk, and twice. It is written to its own places:
         * until it is flushed, the previous save may be the only one on disk.
         */
        newest.fd = fd;
        error = write_record(&newest, newest.count % 2);
        if (error != 0) {
            error = disk_fail(why, error, "write", folder, VOTE_FILE_NAME);
        }
    }
    if (error != 0) {
        if (fd >= 0) {
            storage_port->close(fd);
        }
        return error;
    }
    newest.fd = fd;
    *ret_file = newest;
    return 0;
}

void vote_file_close(struct vote_file *file)
{
    if (file->fd >= 0) {
        storage_port->close(file->fd);
        file->fd = -1;
    }
}

int vote_file_save(struct vote_file *file, uint64_t term, uint64_t voted_for)
{
    /* A term has one vote, which is never taken back. */
    CHECK(term >= file->term);
    CHECK(term > file->term || file->voted_for == 0 ||
          file->voted_for == voted_for);
    file->count++;
    file->term = term;
    file->voted_for = voted_for;
    return write_record(file, file->count % 2);
}

bool vote_file_is_used(int folder_fd)
{
    struct vote_file newest = {0};
    bool is_found = false;
    int fd = storage_port->openat(folder_fd, VOTE_FILE_NAME, O_RDONLY);
    if (fd < 0) {
        return errno != ENOENT;
    }
    int error = read_newest(fd, &newest, &is_found);
    storage_port->close(fd);
    return error != 0 || (is_found && newest.count > 0);
}
