/* SPDX-License-Identifier: MIT */

/* The bytes of the write-ahead log. Pure: bytes in, bytes out.
 *
 * A segment is a header block followed by batches. One durable write adds one
 * batch, which starts at the end of the previous one (a multiple of 8); all
 * bytes after the last batch are zero. Integers are little-endian.
 *
 *     segment header, one block of 4096 bytes, the rest of it zero
 *      0  8  magic "hasp-wal"
 *      8  4  format, 1
 *     12  4  chain: payload CRC of the batch before this segment
 *     16  8  log id: random, the same in all files of one log
 *     24  8  number of the segment, as in the file's name
 *     32  8  size of the file
 *     40  8  sequence of the segment's first batch
 *     48  8  index of the entry that came next when the segment was begun
 *     56  4  CRC32C of bytes 0 to 55
 *
 *     batch
 *      0  4  magic
 *      4  4  CRC32C of the log id and bytes 8 to 31
 *      8  8  sequence: 1, 2, 3, ... over the whole life of the log
 *     16  4  payload size, a multiple of 8
 *     20  4  number of records
 *     24  4  chain: payload CRC of the batch before
 *     28  4  payload CRC: CRC32C of the payload, continued from the chain
 *     32     payload: records
 *
 *     record
 *      0  4  body size
 *      4  1  kind (enum wal_record_kind)
 *      5  1  entry type
 *      6  2  zero
 *      8  8  term
 *     16  8  log index
 *     24     body, padded with zeros to a multiple of 8
 *
 * Torn or corrupt. One write is in flight at a time, so batch n + 1 is written
 * only after batch n was durable. Hence, if batch n has a bad checksum:
 *
 *   - a valid header of any later batch, anywhere after it, proves that n was
 *     durable once: n is corrupt, and entries are lost;
 *   - without such a proof n is a write that a crash tore: it was never
 *     reported durable, and the log ends before it. A batch is all or nothing.
 *
 * The header has its own checksum, so that the proof can be found after a batch
 * whose size is no longer known. The checksum covers the log id, so that
 * neither old bytes of another log nor a body made up by a client can look like
 * a header. The rule cannot detect that the newest batch has rotted; the
 * durable mark does, if it was written after that batch (storage/wal_file.h).
 */

#ifndef HASP_STORAGE_WAL_FORMAT_H
#define HASP_STORAGE_WAL_FORMAT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/err.h"

#define WAL_BLOCK_SIZE 4096u
#define WAL_BATCH_HEADER_SIZE 32u
#define WAL_RECORD_HEADER_SIZE 24u
/* More does not fit the field; the log's limits are far below. */
#define WAL_PAYLOAD_SIZE_MAX (UINT32_MAX & ~UINT32_C(7))

/* Where the next batch goes in the order of all batches. */
struct wal_chain {
    uint64_t log_id;
    uint64_t sequence; /* The next batch's number; 1 in a new log. */
    uint32_t crc;      /* Payload CRC of the previous batch; 0 in a new log. */
};

struct wal_segment_header {
    struct wal_chain chain; /* At the first batch of the segment. */
    uint64_t number;
    uint64_t size;
    uint64_t next_index;
};

enum wal_record_kind {
    WAL_RECORD_ENTRY = 1,
    /* All entries from 'log_index' on are gone; 'term' is that of the entry
     * before, 0 if there is none. */
    WAL_RECORD_TRUNCATE = 2,
    /* All entries are gone, the next is 'log_index'. */
    WAL_RECORD_RESET = 3
};

struct wal_record {
    enum wal_record_kind kind;
    uint8_t type;
    uint64_t term;
    uint64_t log_index;
    struct bytes body;
};

/* --- Encoding ------------------------------------------------------------- */

void wal_segment_header_encode(const struct wal_segment_header *header,
                               uint8_t ret_block[WAL_BLOCK_SIZE]);

/* Bytes of a record with its padding. */
static inline uint64_t wal_record_size(uint64_t body_size)
{
    return WAL_RECORD_HEADER_SIZE + ((body_size + 7) & ~UINT64_C(7));
}

void wal_record_encode(const struct wal_record *record, struct buffer *out);

/* Writes the header of the batch at 'batch' and advances the chain. The payload
 * of 'payload_size' bytes already follows the space for the header. */
void wal_batch_seal(struct wal_chain *chain, uint8_t *batch,
                    uint32_t payload_size, uint32_t record_count);

/* --- Decoding ------------------------------------------------------------- */

/* False if the segment does not begin with a valid header. */
bool wal_segment_header_decode(struct bytes segment,
                               struct wal_segment_header *ret_header);

/* Reads the record at the front of 'payload' and advances past it; the body is
 * borrowed. False if it is invalid. */
bool wal_record_decode(struct reader *payload, struct wal_record *ret_record);

enum wal_end {
    WAL_END_CLEAN,  /* Only zeros follow. */
    WAL_END_TORN,   /* A batch is invalid; no proof was found here. */
    WAL_END_CORRUPT /* It is invalid but was durable, or makes no sense. */
};

struct wal_scan_result {
    enum wal_end end;
    uint64_t offset; /* The end of the batches, where the next would go. */
    uint64_t proof_offset;   /* WAL_END_CORRUPT: the later batch, */
    uint64_t proof_sequence; /* or 0: the batch itself makes no sense. */
};

/* Called for each record; a non-zero return ends the scan. */
typedef int wal_scan_fn(void *data, const struct wal_record *record);

/* Visits the batches of a segment whose header was checked, and advances the
 * chain. A batch's records are visited only if the whole batch is valid.
 * Returns the result of 'visit'; 'ret_result' is always set, with the offset of
 * a batch that 'visit' refused. */
MUST_CHECK int wal_scan(struct wal_chain *chain, struct bytes segment,
                        wal_scan_fn *visit, void *data,
                        struct wal_scan_result *ret_result);

/* Finds a valid batch header with a sequence of at least 'sequence', at or
 * after 'offset'. */
bool wal_find_batch(uint64_t log_id, uint64_t sequence, struct bytes segment,
                    uint64_t offset, uint64_t *ret_offset,
                    uint64_t *ret_sequence);

/* True if all bytes from 'offset' on are zero. */
bool wal_is_zero(struct bytes segment, uint64_t offset);

#endif /* HASP_STORAGE_WAL_FORMAT_H */
