/* SPDX-License-Identifier: MIT */

/* The stream of a snapshot: encoding a table, checking a stream, loading
 * it. */

#include "storage/snapshot.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/check.h"

#define MAGIC "HASPSNAP"
#define MAGIC_SIZE 8
#define FORMAT 1
#define TRAILER_SIZE (8 + DIGEST_SIZE)
#define PIECE_SIZE ((size_t)64 * 1024)
#define APPLIED_SIZE 16

struct encoder {
    snapshot_sink_fn *sink;
    void *data;
    struct digest *digest;
    struct buffer piece;
    uint64_t record_count;
    enum table_map map;
};

/* Called for each record of a stream; a non-zero return ends the walk. */
typedef int record_fn(void *data, enum table_map map, struct bytes key,
                      struct bytes value);

static int encoder_flush(struct encoder *encoder)
{
    struct bytes piece = buffer_bytes(&encoder->piece);
    digest_add(encoder->digest, piece);
    int error = encoder->sink(encoder->data, piece);
    buffer_clear(&encoder->piece);
    return error;
}

static void encode_header(struct encoder *encoder,
                          const struct snapshot_header *header)
{
    buffer_put(&encoder->piece, MAGIC, MAGIC_SIZE);
    buffer_put_u32(&encoder->piece, FORMAT);
    buffer_put_u64(&encoder->piece, header->last_index);
    buffer_put_u64(&encoder->piece, header->last_term);
    buffer_put_u64(&encoder->piece, header->configuration_index);
    buffer_put_run(&encoder->piece, header->configuration);
}

static bool is_applied(enum table_map map, struct bytes key)
{
    return map == TABLE_META &&
           bytes_equal(key, BYTES_LITERAL(SNAPSHOT_META_APPLIED));
}

static int encode_record(void *data, struct bytes key, struct bytes value)
{
    struct encoder *encoder = data;
    if (is_applied(encoder->map, key)) {
        return 0;
    }
    buffer_put_u8(&encoder->piece, (uint8_t)(encoder->map + 1));
    buffer_put_run(&encoder->piece, key);
    buffer_put_run(&encoder->piece, value);
    encoder->record_count++;
    return encoder->piece.size < PIECE_SIZE ? 0 : encoder_flush(encoder);
}

int snapshot_encode(const struct snapshot_header *header, struct table_txn *txn,
                    snapshot_sink_fn *sink, void *data)
{
    CHECK(header->configuration.size <= SNAPSHOT_CONFIGURATION_SIZE_MAX);
    struct encoder encoder = {
        .sink = sink, .data = data, .digest = digest_new()};
    int error = 0;
    encode_header(&encoder, header);
    for (int map = 0; error == 0 && map < TABLE_MAP_COUNT; map++) {
        encoder.map = (enum table_map)map;
        error = table_walk(txn, encoder.map, bytes_of(NULL, 0), encode_record,
                           &encoder);
    }
    if (error == 0) {
        buffer_put_u8(&encoder.piece, 0);
        buffer_put_u64(&encoder.piece, encoder.record_count);
        /* The checksum covers everything before it, the count included. */
        error = encoder_flush(&encoder);
    }
    if (error == 0) {
        uint8_t checksum[DIGEST_SIZE];
        digest_value(encoder.digest, checksum);
        error = sink(data, bytes_of(checksum, DIGEST_SIZE));
    }
    buffer_done(&encoder.piece);
    digest_free(encoder.digest);
    return error;
}

/* Where the walk is in the records. */
struct position {
    uint64_t record;
    size_t offset;
};

static int parse_header(struct reader *reader,
                        struct snapshot_header *ret_header,
                        char why[HASP_WHY_SIZE])
{
    struct snapshot_header header;
    reader_bytes(reader, MAGIC_SIZE + 4);
    header.last_index = reader_u64(reader);
    header.last_term = reader_u64(reader);
    header.configuration_index = reader_u64(reader);
    header.configuration = reader_run(reader);
    if (!reader_ok(reader, false) ||
        header.configuration.size > SNAPSHOT_CONFIGURATION_SIZE_MAX) {
        snprintf(why, HASP_WHY_SIZE, "the header is damaged");
        return HASP_ECORRUPT;
    }
    /* Those who read a snapshot rely on this. */
    if (header.last_index == 0 || header.last_term == 0 ||
        header.configuration_index > header.last_index) {
        snprintf(why, HASP_WHY_SIZE,
                 "the header does not describe a state: index %" PRIu64
                 ", term %" PRIu64 ", members of index %" PRIu64,
                 header.last_index, header.last_term,
                 header.configuration_index);
        return HASP_ECORRUPT;
    }
    *ret_header = header;
    return 0;
}

__attribute__((format(printf, 3, 4))) static int
snapshot_refuse(char why[HASP_WHY_SIZE], const struct position *at,
                const char *format, ...)
{
    char text[HASP_WHY_SIZE / 2];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    snprintf(why, HASP_WHY_SIZE, "record %" PRIu64 ": %s, at offset %zu",
             at->record, text, at->offset);
    return HASP_ECORRUPT;
}

/* Walks the records between the header and the end mark. */
static int parse_records(struct reader *reader, size_t stream_size,
                         record_fn *visit, void *data, struct position *ret_end,
                         char why[HASP_WHY_SIZE])
{
    struct position at = {0};
    unsigned last_map = 0;
    struct bytes last_key = {NULL, 0};
    for (;;) {
        at.offset = stream_size - reader_left(reader);
        unsigned map = reader_u8(reader);
        if (!reader_ok(reader, false)) {
            return snapshot_refuse(why, &at, "cut off");
        }
        if (map == 0) {
            break;
        }
        struct bytes key = reader_run(reader);
        struct bytes value = reader_run(reader);
        if (!reader_ok(reader, false)) {
            return snapshot_refuse(why, &at, "cut off");
        }
        if (map > TABLE_MAP_COUNT) {
            return snapshot_refuse(why, &at,
                                   "map %u is not known to this version", map);
        }
        if (key.size == 0 || key.size > TABLE_KEY_SIZE_MAX ||
            value.size > TABLE_VALUE_SIZE_MAX) {
            return snapshot_refuse(why, &at,
                                   "a key of %zu or a value of %zu bytes",
                                   key.size, value.size);
        }
        /* A state has only one encoding, so that equal states have equal
         * checksums. */
        if (map < last_map ||
            (map == last_map && bytes_compare(last_key, key) >= 0) ||
            is_applied((enum table_map)(map - 1), key)) {
            return snapshot_refuse(why, &at, "out of order");
        }
        int error = visit == NULL
                        ? 0
                        : visit(data, (enum table_map)(map - 1), key, value);
        if (error != 0) {
            return error;
        }
        last_map = map;
        last_key = key;
        at.record++;
    }
    *ret_end = at;
    return 0;
}

static int snapshot_parse(struct bytes stream,
                          struct snapshot_header *ret_header, record_fn *visit,
                          void *data, char why[HASP_WHY_SIZE])
{
    struct reader reader = reader_of(stream);
    struct snapshot_header header;
    struct position end = {0};
    int error = parse_header(&reader, &header, why);
    if (error == 0) {
        error = parse_records(&reader, stream.size, visit, data, &end, why);
    }
    if (error != 0) {
        return error;
    }
    uint64_t stored_count = reader_u64(&reader);
    reader_bytes(&reader, DIGEST_SIZE);
    if (!reader_ok(&reader, true) || stored_count != end.record) {
        return snapshot_refuse(why, &end, "the trailer is damaged");
    }
    *ret_header = header;
    return 0;
}

/* Reports where the stream is damaged. The checksum covers the whole stream, so
 * the first invalid part is the best guess. */
static void say_where(struct bytes stream, char why[HASP_WHY_SIZE])
{
    struct snapshot_header header;
    char where[HASP_WHY_SIZE / 2];
    char found[HASP_WHY_SIZE];
    if (snapshot_parse(stream, &header, NULL, NULL, found) == 0) {
        snprintf(where, sizeof where, "bytes within its records were changed");
    } else {
        snprintf(where, sizeof where, "%.*s", (int)sizeof where - 1, found);
    }
    snprintf(why, HASP_WHY_SIZE,
             "the checksum of %zu bytes does not match: damaged or cut off; %s",
             stream.size, where);
}

int snapshot_check(struct bytes stream, struct snapshot_header *ret_header,
                   char why[HASP_WHY_SIZE])
{
    uint8_t expected[DIGEST_SIZE];
    if (stream.size < MAGIC_SIZE ||
        memcmp(stream.data, MAGIC, MAGIC_SIZE) != 0) {
        snprintf(why, HASP_WHY_SIZE, "not a snapshot of hasp");
        return HASP_ECORRUPT;
    }
    if (stream.size < MAGIC_SIZE + 4 + TRAILER_SIZE) {
        snprintf(why, HASP_WHY_SIZE, "cut off after %zu bytes", stream.size);
        return HASP_ECORRUPT;
    }
    /* The format is checked before the checksum: another format can have
     * another kind of checksum, and this message is the helpful one. */
    uint32_t format = load_u32(stream.data + MAGIC_SIZE);
    if (format != FORMAT) {
        snprintf(why, HASP_WHY_SIZE,
                 "format %" PRIu32 " is not known to this version, which "
                 "reads format %d",
                 format, FORMAT);
        return HASP_ECORRUPT;
    }
    digest_of(bytes_of(stream.data, stream.size - DIGEST_SIZE), expected);
    if (memcmp(expected, stream.data + stream.size - DIGEST_SIZE,
               DIGEST_SIZE) != 0) {
        say_where(stream, why);
        return HASP_ECORRUPT;
    }
    return snapshot_parse(stream, ret_header, NULL, NULL, why);
}

static int put_record(void *data, enum table_map map, struct bytes key,
                      struct bytes value)
{
    return table_put(data, map, key, value);
}

int snapshot_decode(struct bytes stream, struct table_txn *txn)
{
    struct snapshot_header header;
    char why[HASP_WHY_SIZE];
    uint8_t applied[APPLIED_SIZE];
    int error = table_clear(txn);
    error = error ?: snapshot_parse(stream, &header, put_record, txn, why);
    if (error != 0) {
        return error;
    }
    store_u64_be(applied, header.last_index);
    store_u64_be(applied + 8, header.last_term);
    return table_put(txn, TABLE_META, BYTES_LITERAL(SNAPSHOT_META_APPLIED),
                     bytes_of(applied, sizeof applied));
}

void snapshot_checksum(struct bytes stream, uint8_t ret_checksum[DIGEST_SIZE])
{
    CHECK(stream.size >= DIGEST_SIZE);
    memcpy(ret_checksum, stream.data + stream.size - DIGEST_SIZE, DIGEST_SIZE);
}
