/* SPDX-License-Identifier: MIT */

/* The cache of the log: the payload of every entry above the last trimmed one.
 *
 * libraft's step core keeps only the terms of entries; its caller keeps the
 * payloads. The slots of entries are in chunks that never move, so that a long
 * log grows as cheaply as a short one; the bodies of one append are in one
 * reference-counted block, freed with the last entry that points into it. The
 * cache is bounded by trimming, which follows snapshots.
 *
 *     base          first = base + 1                    last = base + count
 *      |  (trimmed)  |  slot  |  slot  |  ...  |  slot  |
 *                 chunk      |      chunk      |      chunk
 *
 * Invariants: indexes are consecutive; terms never decrease; there is a chunk
 * for each entry, and none before the first one's. */

#ifndef HASP_RAFT_LOG_H
#define HASP_RAFT_LOG_H

#include <stdint.h>

#include "raft/replica.h"

struct log_batch;

struct log_slot {
    uint64_t term;
    uint64_t
        size_sum; /* Sum of all bodies ever appended, including this one. */
    const uint8_t *data;
    struct log_batch *batch;
    uint32_t size;
    enum replica_entry_type type;
};

/* Slots of a chunk; entry i is in chunk i / LOG_CHUNK. */
#define LOG_CHUNK 2048

struct log {
    struct log_slot **chunks;
    uint32_t chunk_count;
    uint32_t chunk_capacity;
    uint64_t first_chunk; /* The number of the first existing chunk. */
    uint64_t count;
    uint64_t base; /* The index before the first entry. */
};

/* Zeroed memory is an empty log that begins at index 1. */
void log_done(struct log *log);

/* Empties the log; the next entry is 'base' + 1. */
void log_reset(struct log *log, uint64_t base);

static inline uint64_t log_last(const struct log *log)
{
    return log->base + log->count;
}

static inline bool log_has(const struct log *log, uint64_t log_index)
{
    return log_index > log->base && log_index <= log_last(log);
}

static inline struct log_slot *log_slot(const struct log *log,
                                        uint64_t log_index)
{
    return &log->chunks[log_index / LOG_CHUNK - log->first_chunk]
                       [log_index % LOG_CHUNK];
}

/* The term of an entry in the cache, otherwise 0. */
static inline uint64_t log_term(const struct log *log, uint64_t log_index)
{
    return log_has(log, log_index) ? log_slot(log, log_index)->term : 0;
}

/* The entry at 'log_index', which must exist; its body lives until it is
 * trimmed or truncated. */
struct replica_entry log_entry(const struct log *log, uint64_t log_index);

/* Appends copies of 'count' entries with one allocation for all their bodies.
 * Their 'log_index' is ignored: they follow log_last(). */
void log_append(struct log *log, const struct replica_entry *entries,
                uint64_t count);

/* Discards the entries from 'from_index' on; it must be above the base. */
void log_truncate(struct log *log, uint64_t from_index);

/* Discards the entries up to 'up_to_index', at most log_last(). */
void log_trim(struct log *log, uint64_t up_to_index);

/* Bytes of the bodies of the entries above 'log_index'. */
uint64_t log_size_above(const struct log *log, uint64_t log_index);

#endif /* HASP_RAFT_LOG_H */
