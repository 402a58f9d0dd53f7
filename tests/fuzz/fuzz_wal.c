/* SPDX-License-Identifier: MIT */

/* Arbitrary bytes as a segment of the log. The first byte selects the form:
 * raw, or cut into payloads that are sealed properly, so that the parsers past
 * the checksums are reached; then a byte may be changed. An accepted segment
 * encodes to the same bytes again, and its end is where the accepted batches
 * end. */

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/memory.h"
#include "storage/wal_format.h"

#define LOG_ID 77
#define IS_RAW 1u
#define IS_CHANGED 2u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct visited {
    struct buffer again;
    uint64_t count;
};

static int visit(void *data, const struct wal_record *record)
{
    struct visited *visited = data;
    wal_record_encode(record, &visited->again);
    visited->count++;
    return 0;
}

/* Cuts the rest of 'input' into payloads and seals each as a batch; returns how
 * much of the segment is in use. */
static uint64_t seal_payloads(struct reader *input, uint8_t *segment,
                              uint64_t size)
{
    struct wal_chain chain = {.log_id = LOG_ID, .sequence = 1};
    uint64_t offset = WAL_BLOCK_SIZE;
    while (reader_left(input) > 2) {
        uint32_t length = reader_u8(input) * 8u;
        uint32_t count = 1 + reader_u8(input) % 4;
        length = length <= reader_left(input)
                     ? length
                     : (uint32_t)reader_left(input) & ~7u;
        CHECK(offset + WAL_BATCH_HEADER_SIZE + length <= size);
        struct bytes payload = reader_bytes(input, length);
        if (length > 0) {
            memcpy(segment + offset + WAL_BATCH_HEADER_SIZE, payload.data,
                   length);
        }
        wal_batch_seal(&chain, segment + offset, length, count);
        offset += WAL_BATCH_HEADER_SIZE + length;
    }
    return offset;
}

static void check_scan(const uint8_t *segment, uint64_t size)
{
    struct wal_chain chain = {.log_id = LOG_ID, .sequence = 1};
    struct visited visited = {.again = {0}};
    struct wal_scan_result result;
    struct bytes bytes = bytes_of(segment, size);
    CHECK(wal_scan(&chain, bytes, visit, &visited, &result) == 0);
    CHECK(result.offset >= WAL_BLOCK_SIZE && result.offset <= size);
    CHECK(result.offset == WAL_BLOCK_SIZE + visited.again.size +
                               (chain.sequence - 1) * WAL_BATCH_HEADER_SIZE);
    CHECK(visited.count >= chain.sequence - 1);
    CHECK(IMPLIES(result.end == WAL_END_CLEAN,
                  wal_is_zero(bytes, result.offset)));
    CHECK(IMPLIES(result.end == WAL_END_CORRUPT && result.proof_sequence > 0,
                  result.proof_offset > result.offset &&
                      result.proof_sequence > chain.sequence));
    buffer_done(&visited.again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct reader input = reader_of(bytes_of(data, size));
    uint8_t flags = reader_u8(&input);
    uint16_t place = reader_u16(&input);
    uint8_t change = reader_u8(&input);
    if (!reader_ok(&input, false)) {
        return 0;
    }
    /* Each batch takes two bytes of input and a header of the segment. */
    uint64_t room = WAL_BLOCK_SIZE + 8 + size * WAL_BATCH_HEADER_SIZE;
    uint8_t *segment = memory_new(room);
    uint64_t end = WAL_BLOCK_SIZE;
    if ((flags & IS_RAW) != 0) {
        size_t left = reader_left(&input);
        if (left > 0) {
            memcpy(segment + end, reader_bytes(&input, left).data, left);
        }
        end += left;
    } else {
        end = seal_payloads(&input, segment, room);
    }
    if ((flags & IS_CHANGED) != 0 && end > WAL_BLOCK_SIZE) {
        segment[WAL_BLOCK_SIZE + place % (end - WAL_BLOCK_SIZE)] ^= change;
    }
    check_scan(segment, room);
    struct wal_segment_header header;
    (void)wal_segment_header_decode(bytes_of(data, size), &header);
    free(segment);
    return 0;
}
