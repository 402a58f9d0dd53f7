/* SPDX-License-Identifier: MIT */

/* The bytes of the log: headers, records, batches with their chained
 * checksums. */

#include "storage/wal_format.h"

#include "base/check.h"
#include "storage/crc32c.h"

#define SEGMENT_MAGIC "hasp-wal"
#define SEGMENT_FORMAT 1u
#define SEGMENT_CRC_OFFSET 56u
#define BATCH_MAGIC 0x68426174u

struct batch_header {
    uint64_t sequence;
    uint32_t payload_size;
    uint32_t record_count;
    uint32_t chain_crc;
    uint32_t payload_crc;
};

void wal_segment_header_encode(const struct wal_segment_header *header,
                               uint8_t ret_block[WAL_BLOCK_SIZE])
{
    memset(ret_block, 0, WAL_BLOCK_SIZE);
    memcpy(ret_block, SEGMENT_MAGIC, 8);
    store_u32(ret_block + 8, SEGMENT_FORMAT);
    store_u32(ret_block + 12, header->chain.crc);
    store_u64(ret_block + 16, header->chain.log_id);
    store_u64(ret_block + 24, header->number);
    store_u64(ret_block + 32, header->size);
    store_u64(ret_block + 40, header->chain.sequence);
    store_u64(ret_block + 48, header->next_index);
    store_u32(ret_block + SEGMENT_CRC_OFFSET,
              crc32c(0, ret_block, SEGMENT_CRC_OFFSET));
}

void wal_record_encode(const struct wal_record *record, struct buffer *out)
{
    CHECK(record->body.size <= WAL_PAYLOAD_SIZE_MAX - WAL_RECORD_HEADER_SIZE);
    size_t size = wal_record_size(record->body.size);
    uint8_t *at = buffer_reserve(out, size);
    store_u32(at, (uint32_t)record->body.size);
    at[4] = (uint8_t)record->kind;
    at[5] = record->type;
    at[6] = 0;
    at[7] = 0;
    store_u64(at + 8, record->term);
    store_u64(at + 16, record->log_index);
    uint8_t *body = at + WAL_RECORD_HEADER_SIZE;
    if (record->body.size > 0) {
        memcpy(body, record->body.data, record->body.size);
    }
    memset(body + record->body.size, 0,
           size - WAL_RECORD_HEADER_SIZE - record->body.size);
    out->size += size;
}

static uint32_t batch_header_crc(uint64_t log_id, const uint8_t *at)
{
    uint8_t salt[8];
    store_u64(salt, log_id);
    return crc32c(crc32c(0, salt, sizeof salt), at + 8,
                  WAL_BATCH_HEADER_SIZE - 8);
}

void wal_batch_seal(struct wal_chain *chain, uint8_t *batch,
                    uint32_t payload_size, uint32_t record_count)
{
    CHECK(payload_size % 8 == 0);
    CHECK(record_count > 0);
    uint32_t payload_crc = crc32c(chain->crc, batch + WAL_BATCH_HEADER_SIZE,
                                  payload_size);
    store_u32(batch, BATCH_MAGIC);
    store_u64(batch + 8, chain->sequence);
    store_u32(batch + 16, payload_size);
    store_u32(batch + 20, record_count);
    store_u32(batch + 24, chain->crc);
    store_u32(batch + 28, payload_crc);
    store_u32(batch + 4, batch_header_crc(chain->log_id, batch));
    chain->sequence++;
    chain->crc = payload_crc;
}

bool wal_segment_header_decode(struct bytes segment,
                               struct wal_segment_header *ret_header)
{
    const uint8_t *at = segment.data;
    if (segment.size < WAL_BLOCK_SIZE || memcmp(at, SEGMENT_MAGIC, 8) != 0 ||
        load_u32(at + 8) != SEGMENT_FORMAT ||
        load_u32(at + SEGMENT_CRC_OFFSET) !=
            crc32c(0, at, SEGMENT_CRC_OFFSET)) {
        return false;
    }
    *ret_header = (struct wal_segment_header){
        .chain = {.log_id = load_u64(at + 16),
                  .sequence = load_u64(at + 40),
                  .crc = load_u32(at + 12)},
        .number = load_u64(at + 24),
        .size = load_u64(at + 32),
        .next_index = load_u64(at + 48)};
    return true;
}

bool wal_record_decode(struct reader *payload, struct wal_record *ret_record)
{
    uint32_t body_size = reader_u32(payload);
    uint8_t kind = reader_u8(payload);
    uint8_t type = reader_u8(payload);
    uint16_t reserved = reader_u16(payload);
    uint64_t term = reader_u64(payload);
    uint64_t log_index = reader_u64(payload);
    struct bytes body = reader_bytes(payload, body_size);
    struct bytes padding = reader_bytes(payload, (8 - body_size % 8) % 8);
    /* wal_record_encode() writes nothing else. */
    if (!reader_ok(payload, false) || reserved != 0 || log_index == 0 ||
        !wal_is_zero(padding, 0)) {
        return false;
    }
    if (kind == WAL_RECORD_TRUNCATE || kind == WAL_RECORD_RESET) {
        if (body_size != 0 || type != 0) {
            return false;
        }
    } else if (kind != WAL_RECORD_ENTRY) {
        return false;
    }
    *ret_record = (struct wal_record){.kind = kind,
                                      .type = type,
                                      .term = term,
                                      .log_index = log_index,
                                      .body = body};
    return true;
}

static bool decode_batch_header(uint64_t log_id, struct bytes segment,
                                uint64_t offset,
                                struct batch_header *ret_header)
{
    if (offset > segment.size ||
        segment.size - offset < WAL_BATCH_HEADER_SIZE) {
        return false;
    }
    const uint8_t *at = segment.data + offset;
    if (load_u32(at) != BATCH_MAGIC ||
        load_u32(at + 4) != batch_header_crc(log_id, at)) {
        return false;
    }
    *ret_header = (struct batch_header){.sequence = load_u64(at + 8),
                                        .payload_size = load_u32(at + 16),
                                        .record_count = load_u32(at + 20),
                                        .chain_crc = load_u32(at + 24),
                                        .payload_crc = load_u32(at + 28)};
    return true;
}

/* True if a batch with this header may follow the chain at this offset. */
static bool batch_fits(const struct wal_chain *chain, struct bytes segment,
                       uint64_t offset, const struct batch_header *header)
{
    return header->sequence == chain->sequence &&
           header->chain_crc == chain->crc && header->payload_size % 8 == 0 &&
           header->payload_size <=
               segment.size - offset - WAL_BATCH_HEADER_SIZE;
}

static int visit_records(struct bytes payload, wal_scan_fn *visit, void *data)
{
    struct reader reader = reader_of(payload);
    while (reader_left(&reader) > 0) {
        struct wal_record record;
        CHECK(wal_record_decode(&reader, &record));
        int error = visit(data, &record);
        if (error != 0) {
            return error;
        }
    }
    return 0;
}

/* True if 'payload' is exactly 'record_count' records. */
static bool payload_makes_sense(struct bytes payload, uint32_t record_count)
{
    struct reader reader = reader_of(payload);
    struct wal_record record;
    uint32_t count = 0;
    while (reader_left(&reader) > 0) {
        if (!wal_record_decode(&reader, &record)) {
            return false;
        }
        count++;
    }
    return count == record_count;
}

int wal_scan(struct wal_chain *chain, struct bytes segment, wal_scan_fn *visit,
             void *data, struct wal_scan_result *ret_result)
{
    uint64_t offset = WAL_BLOCK_SIZE;
    struct batch_header header;
    *ret_result = (struct wal_scan_result){.end = WAL_END_CORRUPT};
    while (decode_batch_header(chain->log_id, segment, offset, &header)) {
        ret_result->offset = offset;
        /* A header whose checksum is right was written so: a torn write gives
         * no such header. */
        if (!batch_fits(chain, segment, offset, &header)) {
            return 0;
        }
        struct bytes payload = bytes_of(
            segment.data + offset + WAL_BATCH_HEADER_SIZE, header.payload_size);
        if (crc32c(chain->crc, payload.data, payload.size) !=
            header.payload_crc) {
            break;
        }
        if (!payload_makes_sense(payload, header.record_count)) {
            return 0;
        }
        int error = visit_records(payload, visit, data);
        if (error != 0) {
            return error;
        }
        chain->sequence++;
        chain->crc = header.payload_crc;
        offset += WAL_BATCH_HEADER_SIZE + header.payload_size;
    }
    ret_result->offset = offset;
    if (wal_find_batch(chain->log_id, chain->sequence + 1, segment, offset,
                       &ret_result->proof_offset,
                       &ret_result->proof_sequence)) {
        return 0;
    }
    ret_result->end = wal_is_zero(segment, offset) ? WAL_END_CLEAN
                                                   : WAL_END_TORN;
    return 0;
}

bool wal_find_batch(uint64_t log_id, uint64_t sequence, struct bytes segment,
                    uint64_t offset, uint64_t *ret_offset,
                    uint64_t *ret_sequence)
{
    struct batch_header header;
    CHECK(offset % 8 == 0);
    for (; offset + WAL_BATCH_HEADER_SIZE <= segment.size; offset += 8) {
        if (load_u32(segment.data + offset) == BATCH_MAGIC &&
            decode_batch_header(log_id, segment, offset, &header) &&
            header.sequence >= sequence) {
            *ret_offset = offset;
            *ret_sequence = header.sequence;
            return true;
        }
    }
    return false;
}

bool wal_is_zero(struct bytes segment, uint64_t offset)
{
    if (offset >= segment.size) {
        return true;
    }
    /* All bytes equal the one before them, and the first is zero. */
    const uint8_t *at = segment.data + offset;
    size_t size = segment.size - (size_t)offset;
    return at[0] == 0 && memcmp(at, at + 1, size - 1) == 0;
}
