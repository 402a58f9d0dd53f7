/* SPDX-License-Identifier: MIT */

/* Loads the log at the start: torn tails are cut off, corruption is refused. */

#include "storage/wal_load.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

#include "base/check.h"
#include "base/memory.h"
#include "storage/disk.h"
#include "storage/port.h"

struct loader {
    struct wal_image *image;
    int folder_fd;
    const char *path;
    char *why;
    struct wal_image_segment *files; /* All segments, by their numbers. */
    size_t file_count;
    size_t used_count; /* Number of segments in use, from the first. */
    size_t at;         /* The segment that is being scanned. */
};

static int list_files(struct loader *loader);
static int wal_load_read_files(struct loader *loader);
static int begin_new(struct loader *loader, uint64_t log_id);
static int scan_files(struct loader *loader);
static int check_rest(struct loader *loader);
static int wal_load_check_mark(struct loader *loader);
static int wal_load_repair(struct loader *loader);

int wal_load(int folder_fd, const char *path, uint64_t log_id,
             struct wal_image *image, char why[HASP_WHY_SIZE])
{
    struct loader loader = {
        .image = image, .folder_fd = folder_fd, .path = path, .why = why};
    *image = (struct wal_image){.first = 1, .next = 1};
    storage_port->unlinkat(folder_fd, WAL_MARK_NAME DISK_TEMPORARY_SUFFIX);
    int error = list_files(&loader);
    if (error == 0) {
        error = wal_mark_load(folder_fd, &image->mark);
        if (error == HASP_ENOENT && loader.file_count == 0) {
            error = begin_new(&loader, log_id);
        } else if (error == HASP_EIO) {
            error = disk_fail(why, errno, "read", path, WAL_MARK_NAME);
        } else if (error != 0) {
            snprintf(why, HASP_WHY_SIZE, "'%.250s/%s' %s" DISK_LOSS_ADVICE,
                     path, WAL_MARK_NAME,
                     error == HASP_ENOENT ? "is missing" : "is damaged");
            error = HASP_ECORRUPT;
        }
    }
    if (error == 0) {
        image->chain = (struct wal_chain){.log_id = image->mark.log_id,
                                          .sequence = 1};
        error = wal_load_read_files(&loader);
    }
    /* The repair comes last, so that a log that is refused stays as it was
     * found. */
    error = error ?: scan_files(&loader);
    error = error ?: check_rest(&loader);
    error = error ?: wal_load_check_mark(&loader);
    error = error ?: wal_load_repair(&loader);
    for (size_t i = loader.used_count; i < loader.file_count; i++) {
        free(loader.files[i].data);
    }
    image->segments = loader.files;
    image->segment_count = loader.used_count;
    return error;
}

void wal_image_done(struct wal_image *image)
{
    for (size_t i = 0; i < image->segment_count; i++) {
        free(image->segments[i].data);
    }
    free(image->segments);
    free(image->entries);
    *image = (struct wal_image){0};
}

/* --- Reading -------------------------------------------------------------- */

__attribute__((format(printf, 4, 5))) static int
wal_load_corrupt(struct loader *loader, size_t file, uint64_t offset,
                 const char *format, ...)
{
    char name[WAL_FILE_NAME_SIZE];
    char reason[160];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(reason, sizeof reason, format, arguments);
    va_end(arguments);
    wal_file_name(loader->files[file].number, name);
    snprintf(loader->why, HASP_WHY_SIZE,
             "'%.160s/%s' is corrupt at offset %" PRIu64
             ": %s" DISK_LOSS_ADVICE,
             loader->path, name, offset, reason);
    return HASP_ECORRUPT;
}

static int compare_numbers(const void *a, const void *b)
{
    const struct wal_image_segment *x = a;
    const struct wal_image_segment *y = b;
    return x->number < y->number ? -1 : x->number > y->number;
}

/* A storage_name_fn that records each segment. */
static bool note_file(void *data, const char *name)
{
    struct loader *loader = data;
    uint64_t number = 0;
    if (wal_file_number(name, &number)) {
        loader->files = memory_resize(
            loader->files, (loader->file_count + 1) * sizeof(*loader->files));
        loader->files[loader->file_count++] = (struct wal_image_segment){
            .number = number};
    }
    return false;
}

static int list_files(struct loader *loader)
{
    if (storage_port->list(loader->folder_fd, note_file, loader) != 0) {
        return disk_fail(loader->why, errno, "read", loader->path, NULL);
    }
    if (loader->file_count > 0) {
        qsort(loader->files, loader->file_count, sizeof *loader->files,
              compare_numbers);
    }
    return 0;
}

static int wal_load_read_files(struct loader *loader)
{
    for (size_t i = 0; i < loader->file_count; i++) {
        struct wal_image_segment *file = &loader->files[i];
        char name[WAL_FILE_NAME_SIZE];
        wal_file_name(file->number, name);
        if (i > 0 && file->number != file[-1].number + 1) {
            snprintf(
                loader->why, HASP_WHY_SIZE,
                "'%.250s': a segment is missing before '%s'" DISK_LOSS_ADVICE,
                loader->path, name);
            return HASP_ECORRUPT;
        }
        int error = wal_file_read(loader->folder_fd, file->number, &file->data,
                                  &file->size);
        if (error != 0) {
            return disk_fail(loader->why, error, "read", loader->path, name);
        }
    }
    return 0;
}

static int begin_new(struct loader *loader, uint64_t log_id)
{
    if (log_id == 0 && getrandom(&log_id, sizeof log_id, 0) != sizeof log_id) {
        return disk_fail(loader->why, errno, "get random bytes for",
                         loader->path, NULL);
    }
    int error = wal_mark_create(loader->folder_fd, log_id);
    if (error != 0) {
        return disk_fail(loader->why, error, "write", loader->path,
                         WAL_MARK_NAME);
    }
    loader->image->mark = (struct wal_mark){.log_id = log_id, .count = 1};
    return 0;
}

/* --- Replaying ------------------------------------------------------------ */

/* Records that the segments so far have no live entry from 'from' on. */
static void lower_segments(struct loader *loader, uint64_t from)
{
    CHECK(from > 0 && loader->at < loader->file_count);
    for (size_t i = 0; i <= loader->at; i++) {
        struct wal_image_segment *segment = &loader->files[i];
        if (segment->high >= from) {
            segment->high = from - 1;
        }
    }
    if (loader->files[loader->at].low > from) {
        loader->files[loader->at].low = from;
    }
}

static void add_entry(struct loader *loader, const struct wal_record *record)
{
    struct wal_image *image = loader->image;
    if (image->entry_count == image->entry_capacity) {
        image->entry_capacity = image->entry_capacity * 2 + 64;
        image->entries = memory_resize(
            image->entries, image->entry_capacity * sizeof *image->entries);
    }
    image->entries[image->entry_count++] = (struct wal_entry){
        .term = record->term,
        .log_index = record->log_index,
        .type = record->type,
        .body = record->body};
    image->next = record->log_index + 1;
    loader->files[loader->at].high = record->log_index;
}

/* A wal_scan_fn; a record that makes no sense gives HASP_ECORRUPT. */
static int wal_load_replay(void *data, const struct wal_record *record)
{
    struct loader *loader = data;
    struct wal_image *image = loader->image;
    switch (record->kind) {
    case WAL_RECORD_ENTRY:
        if (image->entry_count == 0) {
            image->first = record->log_index;
            lower_segments(loader, record->log_index);
        } else if (record->log_index != image->next) {
            return HASP_ECORRUPT;
        }
        add_entry(loader, record);
        return 0;
    case WAL_RECORD_TRUNCATE:
        if (record->log_index > image->next) {
            return HASP_ECORRUPT;
        }
        /* The removed entries can be in segments that have been trimmed since.
         */
        if (record->log_index < image->first) {
            image->first = record->log_index;
        }
        image->next = record->log_index;
        CHECK(image->next - image->first <= image->entry_count);
        image->entry_count = (size_t)(image->next - image->first);
        lower_segments(loader, record->log_index);
        return 0;
    case WAL_RECORD_RESET:
        image->first = record->log_index;
        image->next = record->log_index;
        image->entry_count = 0;
        lower_segments(loader, record->log_index);
        return 0;
    }
    return HASP_ECORRUPT;
}

/* Checks that the header of a segment in use continues the log. */
static int check_header(struct loader *loader,
                        const struct wal_segment_header *header)
{
    struct wal_image *image = loader->image;
    const struct wal_image_segment *file = &loader->files[loader->at];
    if (header->chain.log_id != image->mark.log_id ||
        header->number != file->number) {
        return wal_load_corrupt(loader, loader->at, 0,
                                "it belongs to another log or place");
    }
    if (header->size != file->size) {
        return wal_load_corrupt(loader, loader->at, 0,
                                "it has %" PRIu64
                                " bytes and was made with %" PRIu64,
                                file->size, header->size);
    }
    /* Earlier segments have been trimmed, if there were any: the chain starts
     * with this header. */
    if (loader->at == 0) {
        image->chain = header->chain;
        image->first = header->next_index;
        image->next = header->next_index;
    }
    if (header->chain.sequence != image->chain.sequence ||
        header->chain.crc != image->chain.crc ||
        header->next_index != image->next) {
        return wal_load_corrupt(loader, loader->at, 0,
                                "it begins with batch %" PRIu64
                                ", and batch %" PRIu64 " is missing",
                                header->chain.sequence, image->chain.sequence);
    }
    return 0;
}

static int scan_file(struct loader *loader, enum wal_end *ret_end)
{
    struct wal_image *image = loader->image;
    struct wal_image_segment *file = &loader->files[loader->at];
    struct wal_scan_result result;
    file->low = image->next;
    file->high = image->next - 1;
    int error = wal_scan(&image->chain, bytes_of(file->data, file->size),
                         wal_load_replay, loader, &result);
    if (error != 0) {
        return wal_load_corrupt(loader, loader->at, result.offset,
                                "batch %" PRIu64
                                " does not follow from the log",
                                image->chain.sequence);
    }
    if (result.end == WAL_END_CORRUPT && result.proof_sequence == 0) {
        return wal_load_corrupt(loader, loader->at, result.offset,
                                "batch %" PRIu64 " has an invalid header",
                                image->chain.sequence);
    }
    if (result.end == WAL_END_CORRUPT) {
        return wal_load_corrupt(
            loader, loader->at, result.offset,
            "batch %" PRIu64 " has a wrong checksum, but batch %" PRIu64
            " follows it at offset %" PRIu64,
            image->chain.sequence, result.proof_sequence, result.proof_offset);
    }
    /* If a batch is torn here, a later file can still prove that it was
     * durable: check_rest(). */
    image->tail = result.offset;
    *ret_end = result.end;
    return 0;
}

/* Scans up to the end of the log. That is a torn batch, or a segment without a
 * header: unused, or with its first write torn. */
static int scan_files(struct loader *loader)
{
    struct wal_image *image = loader->image;
    for (; loader->at < loader->file_count; loader->at++) {
        struct wal_image_segment *file = &loader->files[loader->at];
        struct wal_segment_header header;
        if (!wal_segment_header_decode(bytes_of(file->data, file->size),
                                       &header)) {
            break;
        }
        enum wal_end end = WAL_END_CLEAN;
        int error = check_header(loader, &header) ?: scan_file(loader, &end);
        if (error != 0) {
            return error;
        }
        loader->used_count = loader->at + 1;
        if (end == WAL_END_TORN) {
            image->was_torn = true;
            break;
        }
    }
    /* Segment 1 can be unused or torn in a new log. A later one is the oldest
     * only because earlier ones were trimmed, so it was in use. */
    if (loader->used_count == 0 && loader->file_count > 0 &&
        loader->files[0].number != 1) {
        return wal_load_corrupt(loader, 0, 0,
                                "its header has a wrong checksum");
    }
    return 0;
}

/* Checks that no file after the end proves that the log once continued. */
static int check_rest(struct loader *loader)
{
    struct wal_image *image = loader->image;
    uint64_t lost = image->chain.sequence;
    for (size_t i = loader->used_count; i < loader->file_count; i++) {
        struct wal_image_segment *file = &loader->files[i];
        struct bytes bytes = bytes_of(file->data, file->size);
        struct wal_segment_header header;
        uint64_t offset = 0;
        uint64_t sequence = 0;
        /* A new segment is begun only after the last batch of the one before is
         * durable. */
        bool is_proof = wal_find_batch(image->chain.log_id,
                                       image->was_torn ? lost : lost + 1, bytes,
                                       0, &offset, &sequence) ||
                        (wal_segment_header_decode(bytes, &header) &&
                         (image->was_torn || header.chain.sequence > lost));
        if (!is_proof) {
            continue;
        }
        size_t bad = loader->used_count > 0 ? loader->used_count - 1 : 0;
        if (!image->was_torn && i == loader->used_count) {
            return wal_load_corrupt(
                loader, i, 0,
                "its header has a wrong checksum, but batch %" PRIu64
                " follows it at offset %" PRIu64,
                sequence, offset);
        }
        return wal_load_corrupt(
            loader, bad, image->tail,
            "batch %" PRIu64 " %s, but a later segment is in use", lost,
            image->was_torn ? "has a wrong checksum" : "is missing");
    }
    return 0;
}

static int wal_load_check_mark(struct loader *loader)
{
    struct wal_image *image = loader->image;
    if (image->chain.sequence > image->mark.sequence) {
        return 0;
    }
    snprintf(loader->why, HASP_WHY_SIZE,
             "'%.160s' has lost entries: it ends with index %" PRIu64
             " (batch %" PRIu64 "), and index %" PRIu64 " of term %" PRIu64
             " (batch %" PRIu64 ") was on disk once" DISK_LOSS_ADVICE,
             loader->path, image->next - 1, image->chain.sequence - 1,
             image->mark.log_index, image->mark.term, image->mark.sequence);
    return HASP_ECORRUPT;
}

/* --- Repairing ------------------------------------------------------------ */

/* Overwrites the rest of a torn write with zeros, and flushes everything that
 * was read: a process that died could have written it without a flush. */
static int repair_tail(struct loader *loader)
{
    struct wal_image *image = loader->image;
    if (loader->used_count == 0) {
        return 0;
    }
    struct wal_image_segment *file = &loader->files[loader->used_count - 1];
    uint64_t end = file->size;
    while (end > image->tail && file->data[end - 1] == 0) {
        end--;
    }
    int fd = -1;
    uint64_t size = 0;
    int error = wal_file_open(loader->folder_fd, file->number, false, &fd,
                              &size);
    /* The next batch can be shorter than the torn one, whose rest must not look
     * like a batch. */
    if (error == 0 && end > image->tail) {
        memset(file->data + image->tail, 0, end - image->tail);
        error = disk_write(
            fd, bytes_of(file->data + image->tail, end - image->tail),
            image->tail);
    }
    if (error == 0 && storage_port->fdatasync(fd) != 0) {
        error = errno;
    }
    if (fd >= 0) {
        storage_port->close(fd);
    }
    if (error == 0) {
        return 0;
    }
    char name[WAL_FILE_NAME_SIZE];
    wal_file_name(file->number, name);
    return disk_fail(loader->why, error, "repair the end of", loader->path,
                     name);
}

static int wal_load_repair(struct loader *loader)
{
    struct wal_image *image = loader->image;
    int error = repair_tail(loader);
    if (error != 0) {
        return error;
    }
    /* The last one is removed first, so that there is never a gap. */
    for (size_t i = loader->file_count; i-- > loader->used_count;) {
        struct wal_image_segment *file = &loader->files[i];
        if (i == loader->used_count &&
            wal_is_zero(bytes_of(file->data, file->size), 0)) {
            image->spare_size = file->size;
            continue;
        }
        error = wal_file_remove(loader->folder_fd, file->number);
        if (error != 0) {
            char name[WAL_FILE_NAME_SIZE];
            wal_file_name(file->number, name);
            return disk_fail(loader->why, error, "remove", loader->path, name);
        }
    }
    return 0;
}
