/* SPDX-License-Identifier: MIT */

#include "raft/log.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/memory.h"
#include "base/minmax.h"

/* The bodies of entries that were appended together. */
struct log_batch {
    uint64_t references; /* How many entries of the log point here. */
    uint8_t data[];
};

/* Appending many entries at once (at start) in blocks of this size lets
 * trimming give memory back piece by piece. */
#define BATCH_SIZE_MAX (1u << 20)

/* Frees the first 'count' chunks. */
static void drop_chunks(struct log *log, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        free(log->chunks[i]);
    }
    if (count > 0) {
        log->chunk_count -= count;
        memmove(log->chunks, log->chunks + count,
                log->chunk_count * sizeof *log->chunks);
        log->first_chunk += count;
    }
}

void log_done(struct log *log)
{
    log_reset(log, 0);
    free(log->chunks);
    *log = (struct log){0};
}

void log_reset(struct log *log, uint64_t base)
{
    if (log->count > 0) {
        log_truncate(log, log->base + 1);
    }
    drop_chunks(log, log->chunk_count);
    log->base = base;
}

struct replica_entry log_entry(const struct log *log, uint64_t log_index)
{
    CHECK(log_has(log, log_index));
    const struct log_slot *slot = log_slot(log, log_index);
    return (struct replica_entry){
        .term = slot->term,
        .log_index = log_index,
        .type = slot->type,
        .body = bytes_of(slot->data, slot->size),
    };
}

/* Makes room for 'count' more entries. */
static void log_reserve(struct log *log, uint64_t count)
{
    uint64_t last_chunk = (log_last(log) + count) / LOG_CHUNK;
    if (log->chunk_count == 0) {
        log->first_chunk = (log->base + 1) / LOG_CHUNK;
    }
    while (log->first_chunk + log->chunk_count <= last_chunk) {
        ROOM(log->chunks, log->chunk_capacity, (uint64_t)log->chunk_count + 1);
        log->chunks[log->chunk_count++] = memory_new(LOG_CHUNK *
                                                     sizeof(struct log_slot));
    }
}

/* Appends as many of the entries as fit one block; returns how many. */
static uint64_t append_batch(struct log *log,
                             const struct replica_entry *entries,
                             uint64_t count)
{
    size_t size = 0;
    uint64_t n = 0;
    while (n < count &&
           (n == 0 || size + entries[n].body.size <= BATCH_SIZE_MAX)) {
        CHECK(entries[n].body.size <= UINT32_MAX);
        size += entries[n].body.size;
        n++;
    }
    struct log_batch *batch = malloc(sizeof *batch + size);
    CHECK(batch != NULL);
    /* The block is freed with the last of its entries. */
    batch->references = n;
    uint8_t *at = batch->data;
    uint64_t size_sum = log->count > 0 ? log_slot(log, log_last(log))->size_sum
                                       : 0;
    for (uint64_t i = 0; i < n; i++) {
        uint32_t body_size = (uint32_t)entries[i].body.size;
        CHECK(entries[i].term > 0);
        /* An invariant of every Raft log (5.3). */
        CHECK(entries[i].term >= log_term(log, log_last(log)));
        if (body_size > 0) {
            memcpy(at, entries[i].body.data, body_size);
        }
        size_sum += body_size;
        log->count++;
        *log_slot(log, log_last(log)) = (struct log_slot){
            .term = entries[i].term,
            .size_sum = size_sum,
            .data = at,
            .batch = batch,
            .size = body_size,
            .type = entries[i].type,
        };
        at += body_size;
    }
    return n;
}

void log_append(struct log *log, const struct replica_entry *entries,
                uint64_t count)
{
    log_reserve(log, count);
    while (count > 0) {
        uint64_t appended = append_batch(log, entries, count);
        entries += appended;
        count -= appended;
    }
}

static void log_release(const struct log_slot *slot)
{
    CHECK(slot->batch->references > 0);
    slot->batch->references--;
    if (slot->batch->references == 0) {
        free(slot->batch);
    }
}

void log_truncate(struct log *log, uint64_t from_index)
{
    CHECK(from_index > log->base);
    while (log_last(log) >= from_index) {
        log_release(log_slot(log, log_last(log)));
        log->count--;
    }
}

void log_trim(struct log *log, uint64_t up_to_index)
{
    CHECK(up_to_index <= log_last(log));
    while (log->base < up_to_index) {
        log_release(log_slot(log, log->base + 1));
        log->base++;
        log->count--;
    }
    uint64_t chunk = (log->base + 1) / LOG_CHUNK;
    uint64_t gone = u64_min(chunk - log->first_chunk, log->chunk_count);
    drop_chunks(log, (uint32_t)gone);
}

uint64_t log_size_above(const struct log *log, uint64_t log_index)
{
    if (log->count == 0 || log_index >= log_last(log)) {
        return 0;
    }
    uint64_t up_to = log_slot(log, log_last(log))->size_sum;
    if (log_index > log->base) {
        return up_to - log_slot(log, log_index)->size_sum;
    }
    const struct log_slot *first = log_slot(log, log->base + 1);
    return up_to - first->size_sum + first->size;
}
