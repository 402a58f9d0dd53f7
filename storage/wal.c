/* SPDX-License-Identifier: MIT */

/* The write-ahead log: what is queued, in flight, durable; segments in use. */

#include "storage/wal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/check.h"
#include "base/memory.h"
#include "base/minmax.h"
#include "storage/disk.h"
#include "storage/port.h"
#include "storage/wal_format.h"
#include "storage/wal_keeper.h"
#include "storage/wal_load.h"
#include "storage/wal_writer.h"

#define SEGMENT_SIZE_DEFAULT ((uint64_t)16 << 20)
/* Zeroing this much for a new log takes a few milliseconds. */
#define SEGMENT_SIZE_FIRST ((uint64_t)1 << 20)
#define SEGMENT_SIZE_GROWTH 4
#define SEGMENT_SIZE_MIN (2 * (uint64_t)WAL_BLOCK_SIZE)
#define BODY_SIZE_DEFAULT ((uint64_t)16 << 20)
/* Bytes of records in one write, unless a single record is bigger. */
#define WRITE_SIZE_MAX ((uint64_t)1 << 20)
/* Buffers that have grown beyond this for one large entry are freed. */
#define BUFFER_SIZE_KEPT ((size_t)4 << 20)
#define BUFFER_SIZE_MIN ((size_t)64 << 10)

/* The contents of a log: indexes from 'first' to 'next' - 1. */
struct extent {
    uint64_t first;
    uint64_t next;
    uint64_t term; /* The last entry's term. */
};

struct segment {
    uint64_t number;
    uint64_t size;
    uint64_t low;  /* No entry in it or later has an index below. */
    uint64_t high; /* No living entry in it has an index above. */
};

/* A run of entries of one term: from 'first' to the next run. */
struct term_run {
    uint64_t first;
    uint64_t term;
};

/* The batch that is being written. */
struct flight {
    bool is_on;
    uint64_t sequence;
    size_t size;       /* The size with its header. */
    struct extent log; /* The log after this batch is durable. */
    uint64_t lowest;   /* The lowest index that was touched. */
    bool has_reset;    /* All segments before the active one can be removed. */
};

struct wal {
    char *path;
    int folder_fd;
    int event_fd;
    uint64_t segment_size;
    uint64_t body_size_max;
    struct wal_writer *writer;
    bool is_direct; /* Segments are opened with O_DIRECT. */
    struct wal_keeper *keeper;
    int error; /* The first error is final. */
    char why[HASP_WHY_SIZE];

    /* The log on disk: */
    struct segment *segments; /* The last is active. */
    size_t segment_count;
    int fd;                 /* The active segment's. */
    struct wal_chain chain; /* The end of the chain for the next batch. */
    struct extent durable;
    uint64_t write_count;
    /* Room was requested, since the queue cannot continue without it. */
    bool has_asked;
    bool is_held;
    bool is_awaited; /* The end of a write is signalled by the eventfd. */

    /* The blocks that the next write begins with: from 'base' on, 'fill' bytes
     * of them are those of batches that are durable, or a new segment's
     * header. */
    uint8_t *blocks;
    size_t blocks_capacity;
    uint64_t base;
    size_t fill;
    struct flight flight;

    /* The records that wait, from 'queue_at' on, and the log that they lead to.
     */
    struct buffer queue;
    size_t queue_at;
    struct extent queued;
    struct term_run *runs;
    size_t run_count;
    size_t run_capacity;
};

static int wal_open_log(struct wal *wal, const struct wal_options *options,
                        wal_load_fn *load, void *data);
static int wait_for_flight(struct wal *wal);
static void queue_record(struct wal *wal, const struct wal_record *record);
static uint64_t term_at(const struct wal *wal, uint64_t log_index);
static void drop_segments(struct wal *wal, size_t count);
static int wal_fail(struct wal *wal, int system_error, const char *verb);

int wal_open(const char *path, const struct wal_options *options,
             wal_load_fn *load, void *data, struct wal **ret_wal,
             char why[HASP_WHY_SIZE])
{
    struct wal *wal = memory_new(sizeof *wal);
    wal->path = memory_text(path);
    wal->folder_fd = -1;
    wal->event_fd = -1;
    wal->is_awaited = true;
    wal->fd = -1;
    wal->segment_size = options->segment_size != 0 ? options->segment_size
                                                   : SEGMENT_SIZE_DEFAULT;
    wal->body_size_max = options->body_size_max != 0 ? options->body_size_max
                                                     : BODY_SIZE_DEFAULT;
    int error = 0;
    if (wal->segment_size % WAL_BLOCK_SIZE != 0 ||
        wal->segment_size < SEGMENT_SIZE_MIN ||
        wal->body_size_max > WAL_PAYLOAD_SIZE_MAX - WAL_RECORD_HEADER_SIZE) {
        snprintf(wal->why, sizeof wal->why,
                 "the log's segment size must be a multiple of 4096 from 8192, "
                 "and its entries smaller than 4 GiB");
        error = HASP_EINVALID;
    }
    if (error == 0) {
        error = wal_open_log(wal, options, load, data);
    }
    if (error != 0) {
        /* wal_close() frees the message. */
        memcpy(why, wal->why, HASP_WHY_SIZE);
        wal_close(wal);
        return error;
    }
    *ret_wal = wal;
    return 0;
}

void wal_close(struct wal *wal)
{
    if (wal == NULL) {
        return;
    }
    /* A failure no longer matters: the write was not reported as durable, and
     * an older mark is still true. */
    if (wal->flight.is_on) {
        (void)!wait_for_flight(wal);
    }
    (void)!wal_keeper_free(wal->keeper);
    wal_writer_close(wal->writer);
    int fds[] = {wal->fd, wal->folder_fd};
    for (size_t i = 0; i < sizeof fds / sizeof *fds; i++) {
        if (fds[i] >= 0) {
            storage_port->close(fds[i]);
        }
    }
    if (wal->event_fd >= 0) {
        close(wal->event_fd);
    }
    buffer_done(&wal->queue);
    free(wal->blocks);
    free(wal->segments);
    free(wal->runs);
    free(wal->path);
    free(wal);
}

uint64_t wal_first(const struct wal *wal)
{
    return wal->queued.first;
}

uint64_t wal_last(const struct wal *wal)
{
    return wal->queued.next - 1;
}

void wal_append(struct wal *wal, const struct wal_entry *entries,
                uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        const struct wal_entry *entry = &entries[i];
        bool is_empty = wal->queued.first == wal->queued.next;
        CHECK(entry->log_index > 0);
        CHECK(is_empty || entry->log_index == wal->queued.next);
        CHECK(entry->body.size <= wal->body_size_max);
        queue_record(wal, &(struct wal_record){.kind = WAL_RECORD_ENTRY,
                                               .type = entry->type,
                                               .term = entry->term,
                                               .log_index = entry->log_index,
                                               .body = entry->body});
    }
}

void wal_truncate(struct wal *wal, uint64_t from_index)
{
    CHECK(from_index >= wal->queued.first);
    if (from_index >= wal->queued.next) {
        return;
    }
    uint64_t term = from_index > wal->queued.first
                        ? term_at(wal, from_index - 1)
                        : 0;
    queue_record(wal, &(struct wal_record){.kind = WAL_RECORD_TRUNCATE,
                                           .term = term,
                                           .log_index = from_index});
}

void wal_hold(struct wal *wal, bool is_held)
{
    wal->is_held = is_held;
}

int wal_fd(const struct wal *wal)
{
    return wal->event_fd;
}

const char *wal_why(const struct wal *wal)
{
    return wal->why;
}

const char *wal_mode(const struct wal *wal)
{
    return wal->is_direct ? "direct" : "buffered";
}

uint64_t wal_write_count(const struct wal *wal)
{
    return wal->write_count;
}

bool wal_is_writing(const struct wal *wal)
{
    return wal->flight.is_on;
}

bool wal_is_busy(const struct wal *wal)
{
    return wal->flight.is_on || wal->queue_at < wal->queue.size;
}

bool wal_is_starved(const struct wal *wal)
{
    return wal_keeper_is_starved(wal->keeper);
}

int wal_trim(struct wal *wal, uint64_t up_to_index)
{
    size_t count = 0;
    if (wal->error != 0) {
        return wal->error;
    }
    while (count + 1 < wal->segment_count &&
           wal->segments[count].high <= up_to_index) {
        count++;
    }
    drop_segments(wal, count);
    return 0;
}

uint64_t wal_disk_size(const struct wal *wal)
{
    uint64_t size = wal_keeper_spare_size(wal->keeper);
    for (size_t i = 0; i < wal->segment_count; i++) {
        size += wal->segments[i].size;
    }
    return size;
}

/* --- The log's contents --------------------------------------------------- */

static void extent_apply(struct extent *log, const struct wal_record *record)
{
    uint64_t log_index = record->log_index;
    switch (record->kind) {
    case WAL_RECORD_ENTRY:
        CHECK(log->first == log->next || log_index == log->next);
        log->first = log->first == log->next ? log_index : log->first;
        log->next = log_index + 1;
        break;
    case WAL_RECORD_TRUNCATE:
        CHECK(log_index <= log->next); /* Cutting leaves no hole. */
        log->first = u64_min(log_index, log->first);
        log->next = log_index;
        break;
    case WAL_RECORD_RESET:
        log->first = log_index;
        log->next = log_index;
        break;
    }
    log->term = record->term;
}

/* Removes the entries below 'low'. */
static void extent_trim(struct extent *log, uint64_t low)
{
    if (log->first < low) {
        log->first = u64_min(low, log->next);
    }
}

static void queue_record(struct wal *wal, const struct wal_record *record)
{
    wal_record_encode(record, &wal->queue);
    extent_apply(&wal->queued, record);
    /* The runs describe the log with the whole queue applied, so they change
     * here and not when the record becomes durable. */
    if (record->kind != WAL_RECORD_ENTRY) {
        while (wal->run_count > 0 &&
               (record->kind == WAL_RECORD_RESET ||
                wal->runs[wal->run_count - 1].first >= record->log_index)) {
            wal->run_count--;
        }
        return;
    }
    if (wal->run_count > 0 &&
        wal->runs[wal->run_count - 1].term == record->term) {
        return;
    }
    if (wal->run_count == wal->run_capacity) {
        wal->run_capacity = wal->run_capacity * 2 + 16;
        wal->runs = memory_resize(wal->runs,
                                  wal->run_capacity * sizeof *wal->runs);
    }
    wal->runs[wal->run_count++] = (struct term_run){.first = record->log_index,
                                                    .term = record->term};
}

static uint64_t term_at(const struct wal *wal, uint64_t log_index)
{
    for (size_t i = wal->run_count; i-- > 0;) {
        if (wal->runs[i].first <= log_index) {
            return wal->runs[i].term;
        }
    }
    UNREACHABLE();
}

/* Drops the 'count' oldest segments; the keeper removes their files. */
static void drop_segments(struct wal *wal, size_t count)
{
    if (count == 0) {
        return;
    }
    CHECK(count < wal->segment_count);
    wal->segment_count -= count;
    memmove(wal->segments, wal->segments + count,
            wal->segment_count * sizeof *wal->segments);
    uint64_t low = wal->segments[0].low;
    extent_trim(&wal->durable, low);
    extent_trim(&wal->flight.log, low);
    extent_trim(&wal->queued, low);
    size_t old_runs = 0;
    /* The run of the first remaining entry stays: term_at() needs it. */
    while (old_runs + 1 < wal->run_count &&
           wal->runs[old_runs + 1].first <= wal->queued.first) {
        old_runs++;
    }
    if (old_runs > 0) {
        wal->run_count -= old_runs;
        memmove(wal->runs, wal->runs + old_runs,
                wal->run_count * sizeof *wal->runs);
    }
    wal_keeper_remove_below(wal->keeper, wal->segments[0].number);
}

/* --- Writing -------------------------------------------------------------- */

static int wal_fail(struct wal *wal, int system_error, const char *verb)
{
    char name[WAL_FILE_NAME_SIZE] = "";
    if (wal->segment_count > 0) {
        wal_file_name(wal->segments[wal->segment_count - 1].number, name);
    }
    wal->error = disk_fail(wal->why, system_error, verb, wal->path, name);
    return wal->error;
}

static struct segment *wal_active(struct wal *wal)
{
    CHECK(wal->segment_count > 0);
    return &wal->segments[wal->segment_count - 1];
}

static void reserve_blocks(struct wal *wal, size_t size)
{
    size = (size + WAL_BLOCK_SIZE - 1) & ~(size_t)(WAL_BLOCK_SIZE - 1);
    bool is_too_big = wal->blocks_capacity > BUFFER_SIZE_KEPT &&
                      size <= BUFFER_SIZE_KEPT;
    if (size <= wal->blocks_capacity && !is_too_big) {
        return;
    }
    size_t capacity = size > BUFFER_SIZE_MIN ? size : BUFFER_SIZE_MIN;
    uint8_t *blocks = aligned_alloc(WAL_BLOCK_SIZE, capacity);
    CHECK(blocks != NULL);
    if (wal->fill > 0) {
        memcpy(blocks, wal->blocks, wal->fill);
    }
    free(wal->blocks);
    wal->blocks = blocks;
    wal->blocks_capacity = capacity;
}

static void add_segment(struct wal *wal, struct segment segment)
{
    wal->segments = memory_resize(wal->segments, (wal->segment_count + 1) *
                                                     sizeof *wal->segments);
    wal->segments[wal->segment_count++] = segment;
}

/* Makes the unused segment 'number' the active one; its header is written with
 * its first batch. */
static void use_segment(struct wal *wal, uint64_t number)
{
    uint64_t size = 0;
    CHECK(wal->segment_count == 0 || number == wal_active(wal)->number + 1);
    wal->fd = wal_keeper_take(wal->keeper, number, wal->fd, &size);
    add_segment(wal, (struct segment){.number = number,
                                      .size = size,
                                      .low = wal->durable.next,
                                      .high = wal->durable.next - 1});
}

static void begin_segment(struct wal *wal)
{
    wal->base = 0;
    wal->fill = 0;
    reserve_blocks(wal, WAL_BLOCK_SIZE);
    struct wal_segment_header header = {.chain = wal->chain,
                                        .number = wal_active(wal)->number,
                                        .size = wal_active(wal)->size,
                                        .next_index = wal->durable.next};
    wal_segment_header_encode(&header, wal->blocks);
    wal->fill = WAL_BLOCK_SIZE;
}

static uint64_t next_size(const struct wal *wal, uint64_t size)
{
    uint64_t next = size * SEGMENT_SIZE_GROWTH;
    return u64_min(next, wal->segment_size);
}

/* Switches to the next segment, which must have room for 'needed' bytes.
 * HASP_EBUSY if it is not ready yet: the eventfd is signalled when it is. */
static int wal_roll(struct wal *wal, uint64_t needed)
{
    uint64_t number = wal_active(wal)->number + 1;
    uint64_t size = (WAL_BLOCK_SIZE + needed + WAL_BLOCK_SIZE - 1) &
                    ~(uint64_t)(WAL_BLOCK_SIZE - 1);
    int error = wal_keeper_prepared(wal->keeper, number, size);
    /* The disk may have been full only when the segment was prepared in
     * advance. It is fatal if the second try, which the queue needs, fails as
     * well. */
    if (error == HASP_ENOSPC && wal->has_asked) {
        return wal_fail(wal, ENOSPC, "make room in the log after");
    }
    if (error == HASP_ENOENT || error == HASP_ENOSPC) {
        uint64_t planned = next_size(wal, wal_active(wal)->size);
        wal_keeper_prepare(wal->keeper, number, u64_max(planned, size));
        wal->has_asked = true;
        error = HASP_EBUSY;
    }
    if (error != 0) {
        return error;
    }
    wal->has_asked = false;
    use_segment(wal, number);
    begin_segment(wal);
    wal_keeper_prepare(wal->keeper, number + 1,
                       next_size(wal, wal_active(wal)->size));
    return 0;
}

/* Moves as many records as fit in 'room' from the queue to the place after the
 * header, and seals them as a batch. */
static void wal_compose(struct wal *wal, uint64_t room)
{
    struct reader queue = reader_of(bytes_of(wal->queue.data + wal->queue_at,
                                             wal->queue.size - wal->queue_at));
    struct flight flight = {.log = wal->durable, .lowest = UINT64_MAX};
    uint64_t size = 0;
    uint32_t count = 0;
    CHECK(!wal->flight.is_on && room > WAL_BATCH_HEADER_SIZE);
    uint64_t size_max = room - WAL_BATCH_HEADER_SIZE;
    while (reader_left(&queue) > 0) {
        struct wal_record record;
        CHECK(wal_record_decode(&queue, &record));
        uint64_t record_size = wal_record_size(record.body.size);
        if (size + record_size > size_max ||
            (count > 0 && size + record_size > WRITE_SIZE_MAX)) {
            break;
        }
        size += record_size;
        count++;
        extent_apply(&flight.log, &record);
        flight.has_reset |= record.kind == WAL_RECORD_RESET;
        if (record.log_index < flight.lowest) {
            flight.lowest = record.log_index;
        }
    }
    CHECK(count > 0); /* wal_roll() has made room for one. */
    flight.sequence = wal->chain.sequence;
    flight.size = WAL_BATCH_HEADER_SIZE + (size_t)size;
    reserve_blocks(wal, wal->fill + flight.size);
    uint8_t *batch = wal->blocks + wal->fill;
    memcpy(batch + WAL_BATCH_HEADER_SIZE, wal->queue.data + wal->queue_at,
           size);
    wal_batch_seal(&wal->chain, batch, (uint32_t)size, count);
    wal->queue_at += size;
    wal->flight = flight;
}

/* Frees the part of the queue that has been moved. */
static void tidy_queue(struct wal *wal)
{
    CHECK(wal->queue_at <= wal->queue.size);
    if (wal->queue_at == wal->queue.size) {
        buffer_clear(&wal->queue);
        wal->queue_at = 0;
        if (wal->queue.capacity > BUFFER_SIZE_KEPT) {
            buffer_done(&wal->queue);
        }
    } else if (wal->queue_at > wal->queue.size / 2) {
        buffer_consume(&wal->queue, wal->queue_at);
        wal->queue_at = 0;
    }
}

int wal_start(struct wal *wal)
{
    if (wal->error != 0) {
        return wal->error;
    }
    if (wal->is_held || wal->flight.is_on || wal->queue_at == wal->queue.size) {
        return 0;
    }
    uint64_t needed = WAL_BATCH_HEADER_SIZE +
                      wal_record_size(
                          load_u32(wal->queue.data + wal->queue_at));
    if (wal->base + wal->fill + needed > wal_active(wal)->size) {
        int error = wal_roll(wal, needed);
        if (error != 0) {
            return error == HASP_EBUSY ? 0 : error;
        }
    }
    wal_compose(wal, wal_active(wal)->size - wal->base - wal->fill);
    tidy_queue(wal);
    size_t end = wal->fill + wal->flight.size;
    size_t size = (end + WAL_BLOCK_SIZE - 1) & ~(size_t)(WAL_BLOCK_SIZE - 1);
    memset(wal->blocks + end, 0, size - end);
    CHECK(wal->base + size <=
          wal_active(wal)->size); /* The file never grows. */
    wal_writer_start(wal->writer, wal->fd, bytes_of(wal->blocks, size),
                     wal->base);
    wal->flight.is_on = true;
    return 0;
}

/* Records that the batch in flight is durable. */
static void wal_land(struct wal *wal)
{
    struct flight *flight = &wal->flight;
    struct segment *last = wal_active(wal);
    CHECK(flight->is_on && flight->lowest > 0);
    flight->is_on = false;
    wal->write_count++;
    for (size_t i = 0; i < wal->segment_count; i++) {
        struct segment *segment = &wal->segments[i];
        if (segment->high >= flight->lowest) {
            segment->high = flight->lowest - 1;
        }
    }
    if (last->low > flight->lowest) {
        last->low = flight->lowest;
    }
    last->high = flight->log.next - 1;
    wal->durable = flight->log;
    wal_keeper_mark(wal->keeper, flight->sequence, wal->durable.term,
                    wal->durable.next - 1);

    /* The last block, if it is not full, is written again with what comes next:
     * the bytes that are durable do not change. */
    size_t end = wal->fill + flight->size;
    size_t full = end & ~(size_t)(WAL_BLOCK_SIZE - 1);
    memmove(wal->blocks, wal->blocks + full, end - full);
    wal->base += full;
    wal->fill = end - full;
    if (flight->has_reset) {
        drop_segments(wal, wal->segment_count - 1);
    }
}

static int note_flight(struct wal *wal, int system_error)
{
    if (system_error != 0) {
        wal->flight.is_on = false;
        return wal_fail(wal, system_error, "write");
    }
    wal_land(wal);
    return 0;
}

static int wait_for_flight(struct wal *wal)
{
    int system_error = 0;
    if (!wal_writer_finish(wal->writer, true, &system_error)) {
        UNREACHABLE();
    }
    return note_flight(wal, system_error);
}

bool wal_await(struct wal *wal, bool is_awaited)
{
    bool has_ended = wal_writer_await(wal->writer, is_awaited);
    wal->is_awaited = is_awaited;
    return has_ended;
}

int wal_complete(struct wal *wal, uint64_t *ret_term, uint64_t *ret_index)
{
    uint64_t count = 0;
    int system_error = 0;
    if (wal->is_awaited) {
        /* Empties the counter; an empty counter is not an error. */
        (void)!read(wal->event_fd, &count, sizeof count);
    }
    if (wal->error != 0) {
        return wal->error;
    }
    if (wal->flight.is_on &&
        wal_writer_finish(wal->writer, false, &system_error)) {
        int error = note_flight(wal, system_error);
        if (error != 0) {
            return error;
        }
    }
    wal->error = wal_keeper_error(wal->keeper, wal->why);
    if (wal->error != 0) {
        return wal->error;
    }
    int error = wal_start(wal);
    if (error != 0) {
        return error;
    }
    bool is_empty = wal->durable.first == wal->durable.next;
    *ret_term = is_empty ? 0 : wal->durable.term;
    *ret_index = is_empty ? 0 : wal->durable.next - 1;
    return 0;
}

void wal_reset_start(struct wal *wal, uint64_t next_index)
{
    CHECK(next_index > 0);
    buffer_clear(&wal->queue);
    wal->queue_at = 0;
    queue_record(wal, &(struct wal_record){.kind = WAL_RECORD_RESET,
                                           .log_index = next_index});
}

int wal_reset(struct wal *wal, uint64_t next_index)
{
    int error = wal->error;
    if (error == 0 && wal->flight.is_on) {
        error = wait_for_flight(wal);
    }
    if (error != 0) {
        return error;
    }
    bool was_held = wal->is_held;
    wal->is_held = false;
    wal_reset_start(wal, next_index);
    while (error == 0 && wal_is_busy(wal)) {
        error = wal_start(wal);
        if (error == 0 && wal->flight.is_on) {
            error = wait_for_flight(wal);
        } else if (error == 0) {
            /* The next segment is not ready yet. */
            wal_keeper_wait(wal->keeper);
            wal->error = wal_keeper_error(wal->keeper, wal->why);
            error = wal->error;
        }
    }
    wal->is_held = was_held;
    return error;
}

/* --- Opening -------------------------------------------------------------- */

static bool is_refusal(int system_error)
{
    return system_error == EINVAL || system_error == EOPNOTSUPP ||
           system_error == ENOSYS;
}

/* Opens the active segment and writes one block that is on disk already, to
 * learn whether the file system supports this way of writing. Returns 0 or an
 * errno. */
static int try_writer(struct wal *wal, bool is_direct,
                      const struct wal_image *image)
{
    uint64_t size = 0;
    uint64_t offset = 0;
    int fd = -1;
    int error = wal_file_open(wal->folder_fd, wal_active(wal)->number,
                              is_direct, &fd, &size);
    if (error != 0) {
        return error;
    }
    reserve_blocks(wal, WAL_BLOCK_SIZE);
    memset(wal->blocks, 0, WAL_BLOCK_SIZE);
    /* The same bytes as on disk, so that a crash during this write loses
     * nothing. */
    if (image->segment_count > 0) {
        offset = (image->tail - 1) & ~(uint64_t)(WAL_BLOCK_SIZE - 1);
        memcpy(wal->blocks,
               image->segments[image->segment_count - 1].data + offset,
               WAL_BLOCK_SIZE);
    }
    wal_writer_start(wal->writer, fd, bytes_of(wal->blocks, WAL_BLOCK_SIZE),
                     offset);
    if (!wal_writer_finish(wal->writer, true, &error)) {
        UNREACHABLE();
    }
    if (error != 0) {
        storage_port->close(fd);
        return error;
    }
    wal->fd = fd;
    wal->is_direct = is_direct;
    wal_active(wal)->size = size;
    return 0;
}

static int open_writer(struct wal *wal, bool without_direct,
                       const struct wal_image *image)
{
    if (wal_writer_open(wal->event_fd, &wal->writer) != 0) {
        return wal_fail(wal, EAGAIN, "start a thread for");
    }
    int error = without_direct ? EINVAL : try_writer(wal, true, image);
    if (is_refusal(error)) {
        error = try_writer(wal, false, image);
    }
    return error == 0 ? 0 : wal_fail(wal, error, "write");
}

/* Takes over the log that was found on disk. */
static int adopt_image(struct wal *wal, const struct wal_image *image)
{
    wal->chain = image->chain;
    wal->durable = (struct extent){
        .first = image->first,
        .next = image->next,
        .term = image->entry_count > 0
                    ? image->entries[image->entry_count - 1].term
                    : 0};
    wal->queued = (struct extent){.first = image->first, .next = image->first};
    for (size_t i = 0; i < image->entry_count; i++) {
        const struct wal_entry *entry = &image->entries[i];
        queue_record(wal, &(struct wal_record){.kind = WAL_RECORD_ENTRY,
                                               .term = entry->term,
                                               .log_index = entry->log_index});
        /* Only the extent and the runs are needed: the records are on disk. */
        buffer_clear(&wal->queue);
    }
    for (size_t i = 0; i < image->segment_count; i++) {
        const struct wal_image_segment *found = &image->segments[i];
        add_segment(wal, (struct segment){.number = found->number,
                                          .size = found->size,
                                          .low = found->low,
                                          .high = found->high});
    }
    if (image->segment_count > 0) {
        return 0;
    }
    uint64_t size = SEGMENT_SIZE_FIRST < wal->segment_size ? SEGMENT_SIZE_FIRST
                                                           : wal->segment_size;
    add_segment(wal, (struct segment){.number = 1, .size = size, .low = 1});
    int error = wal_file_prepare(wal->folder_fd, 1, size, false, NULL, NULL);
    return error == 0 ? 0 : wal_fail(wal, error, "prepare");
}

static void adopt_tail(struct wal *wal, const struct wal_image *image)
{
    if (image->segment_count == 0) {
        begin_segment(wal);
        return;
    }
    wal->base = image->tail & ~(uint64_t)(WAL_BLOCK_SIZE - 1);
    wal->fill = 0;
    reserve_blocks(wal, WAL_BLOCK_SIZE);
    wal->fill = (size_t)(image->tail - wal->base);
    memcpy(wal->blocks,
           image->segments[image->segment_count - 1].data + wal->base,
           wal->fill);
}

static int open_image(struct wal *wal, bool without_direct,
                      const struct wal_image *image)
{
    int error = adopt_image(wal, image);
    if (error == 0) {
        error = open_writer(wal, without_direct, image);
    }
    if (error != 0) {
        return error;
    }
    /* After open_writer(), whose trial write uses the same buffer. */
    adopt_tail(wal, image);
    struct wal_keeper_options options = {
        .folder_fd = wal->folder_fd,
        .path = wal->path,
        .event_fd = wal->event_fd,
        .is_direct = wal->is_direct,
        .mark = image->mark,
        .first_number = wal->segments[0].number};
    if (wal_keeper_new(&options, &wal->keeper) != 0) {
        return wal_fail(wal, EAGAIN, "start a thread for");
    }
    uint64_t size = next_size(wal, wal_active(wal)->size);
    wal_keeper_prepare(wal->keeper, wal_active(wal)->number + 1,
                       u64_max(size, image->spare_size));
    return 0;
}

static int wal_open_log(struct wal *wal, const struct wal_options *options,
                        wal_load_fn *load, void *data)
{
    int error = disk_make_folder(wal->path, &wal->folder_fd);
    if (error == 0) {
        wal->event_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
        error = wal->event_fd >= 0 ? 0 : errno;
    }
    if (error != 0) {
        return disk_fail(wal->why, error, "open", wal->path, NULL);
    }
    struct wal_image image;
    error = wal_load(wal->folder_fd, wal->path, options->log_id, &image,
                     wal->why);
    if (error == 0) {
        error = open_image(wal, options->without_direct, &image);
    }
    for (size_t i = 0; error == 0 && i < image.entry_count; i++) {
        load(data, &image.entries[i]);
    }
    wal_image_done(&image);
    return error;
}
