/* SPDX-License-Identifier: MIT */

/* storage/wal_format.h: a segment in memory, its bytes changed one by one. */

#include "storage/wal_format.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/memory.h"
#include "base/prng.h"

#define SEGMENT_SIZE (4 * WAL_BLOCK_SIZE)
#define LOG_ID UINT64_C(0x1122334455667788)
#define BATCH_COUNT_MAX 32

/* --- Fixture -------------------------------------------------------------- */

struct segment {
    uint8_t data[SEGMENT_SIZE];
    struct wal_chain chain;
    uint64_t end;
    uint64_t batch[BATCH_COUNT_MAX]; /* Where each begins. */
    uint32_t batch_count;
    uint64_t next_index;
};

static void begin(struct segment *segment)
{
    *segment = (struct segment){
        .chain = {.log_id = LOG_ID, .sequence = 7, .crc = 99},
        .end = WAL_BLOCK_SIZE,
        .next_index = 1};
    struct wal_segment_header header = {.chain = segment->chain,
                                        .number = 3,
                                        .size = SEGMENT_SIZE,
                                        .next_index = 1};
    wal_segment_header_encode(&header, segment->data);
}

static void add_batch(struct segment *segment, const struct wal_record *record,
                      uint32_t count)
{
    struct buffer payload = {0};
    for (uint32_t i = 0; i < count; i++) {
        wal_record_encode(&record[i], &payload);
    }
    uint8_t *at = segment->data + segment->end;
    memcpy(at + WAL_BATCH_HEADER_SIZE, payload.data, payload.size);
    wal_batch_seal(&segment->chain, at, (uint32_t)payload.size, count);
    segment->batch[segment->batch_count++] = segment->end;
    segment->end += WAL_BATCH_HEADER_SIZE + payload.size;
    buffer_done(&payload);
}

static void add_entry(struct segment *segment, const char *body)
{
    struct wal_record record = {.kind = WAL_RECORD_ENTRY,
                                .type = 1,
                                .term = 5,
                                .log_index = segment->next_index++,
                                .body = bytes_of_text(body)};
    add_batch(segment, &record, 1);
}

struct found {
    uint32_t count;
    uint64_t last_index;
    struct bytes last_body;
    int answer;
};

static int find(void *data, const struct wal_record *record)
{
    struct found *found = data;
    found->count++;
    found->last_index = record->log_index;
    found->last_body = record->body;
    return found->answer;
}

static struct wal_scan_result scan(const struct segment *segment,
                                   struct found *found)
{
    struct wal_chain chain = {.log_id = LOG_ID, .sequence = 7, .crc = 99};
    struct wal_scan_result result;
    *found = (struct found){0};
    assert_int_equal(wal_scan(&chain, bytes_of(segment->data, SEGMENT_SIZE),
                              find, found, &result),
                     0);
    return result;
}

static void fill(struct segment *segment, uint32_t batch_count)
{
    static const char *const bodies[] = {"", "x", "sevenby", "eight by",
                                         "a body of some size"};
    begin(segment);
    for (uint32_t i = 0; i < batch_count; i++) {
        add_entry(segment, bodies[i % 5]);
    }
}

/* --- Tests ---------------------------------------------------------------- */

static void a_segment_header_comes_back(void **state)
{
    (void)state;
    struct wal_segment_header header = {
        .chain = {.log_id = 1, .sequence = 2, .crc = 3},
        .number = 4,
        .size = 5 * WAL_BLOCK_SIZE,
        .next_index = 6};
    struct wal_segment_header again;
    uint8_t block[WAL_BLOCK_SIZE];
    wal_segment_header_encode(&header, block);
    assert_true(
        wal_segment_header_decode(bytes_of(block, sizeof block), &again));
    assert_int_equal(again.chain.log_id, 1);
    assert_int_equal(again.chain.sequence, 2);
    assert_int_equal(again.chain.crc, 3);
    assert_int_equal(again.number, 4);
    assert_int_equal(again.size, 5 * WAL_BLOCK_SIZE);
    assert_int_equal(again.next_index, 6);
    for (int bit = 0; bit < 60 * 8; bit++) {
        block[bit / 8] ^= (uint8_t)(1 << bit % 8);
        assert_false(
            wal_segment_header_decode(bytes_of(block, sizeof block), &again));
        block[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    assert_false(wal_segment_header_decode(bytes_of(block, 100), &again));
}

static void records_of_all_kinds_come_back(void **state)
{
    (void)state;
    struct segment segment;
    begin(&segment);
    struct wal_record records[] = {
        {WAL_RECORD_ENTRY, 1, 5, 1, BYTES_LITERAL("body")},
        {WAL_RECORD_TRUNCATE, 0, 4, 1, {NULL, 0}},
        {WAL_RECORD_ENTRY, 3, 6, 1, {NULL, 0}},
        {WAL_RECORD_RESET, 0, 0, 900, {NULL, 0}}};
    add_batch(&segment, records, 4);
    struct reader reader = reader_of(
        bytes_of(segment.data + WAL_BLOCK_SIZE + 32, 4 * 24 + 8));
    for (int i = 0; i < 4; i++) {
        struct wal_record record;
        assert_true(wal_record_decode(&reader, &record));
        assert_int_equal(record.kind, records[i].kind);
        assert_int_equal(record.type, records[i].type);
        assert_int_equal(record.term, records[i].term);
        assert_int_equal(record.log_index, records[i].log_index);
        assert_true(bytes_equal(record.body, records[i].body));
    }
    assert_int_equal(reader_left(&reader), 0);
    struct found found;
    struct wal_scan_result result = scan(&segment, &found);
    assert_int_equal(result.end, WAL_END_CLEAN);
    assert_int_equal(found.count, 4);
}

static void a_full_segment_ends_at_its_last_byte(void **state)
{
    (void)state;
    struct segment segment;
    struct found found;
    begin(&segment);
    struct buffer body = {0};
    size_t size = SEGMENT_SIZE - WAL_BLOCK_SIZE - WAL_BATCH_HEADER_SIZE -
                  WAL_RECORD_HEADER_SIZE;
    memset(buffer_reserve(&body, size), 'x', size);
    body.size = size;
    struct wal_record record = {WAL_RECORD_ENTRY, 1, 5, 1, buffer_bytes(&body)};
    add_batch(&segment, &record, 1);
    assert_int_equal(segment.end, SEGMENT_SIZE);
    struct wal_scan_result result = scan(&segment, &found);
    assert_int_equal(result.end, WAL_END_CLEAN);
    assert_int_equal(result.offset, SEGMENT_SIZE);
    assert_int_equal(found.count, 1);
    buffer_done(&body);
}

static void a_last_batch_torn_at_any_byte_is_cut(void **state)
{
    (void)state;
    struct segment whole;
    fill(&whole, 5);
    uint64_t last = whole.batch[4];
    for (uint64_t cut = last; cut < whole.end; cut++) {
        struct segment torn = whole;
        struct found found;
        memset(torn.data + cut, 0, SEGMENT_SIZE - cut);
        bool is_whole = memcmp(torn.data, whole.data, SEGMENT_SIZE) == 0;
        struct wal_scan_result result = scan(&torn, &found);
        assert_int_equal(found.count, is_whole ? 5 : 4);
        assert_int_equal(result.offset, is_whole ? whole.end : last);
        assert_int_equal(result.end, is_whole || cut == last ? WAL_END_CLEAN
                                                             : WAL_END_TORN);
    }
}

static void a_last_batch_with_its_front_lost_is_cut(void **state)
{
    (void)state;
    struct segment whole;
    fill(&whole, 5);
    uint64_t last = whole.batch[4];
    for (uint64_t cut = last + 1; cut < whole.end; cut++) {
        struct segment torn = whole;
        struct found found;
        memset(torn.data + last, 0, cut - last);
        struct wal_scan_result result = scan(&torn, &found);
        assert_int_equal(found.count, 4);
        assert_int_equal(result.offset, last);
        assert_true(result.end == WAL_END_TORN ||
                    wal_is_zero(bytes_of(torn.data, SEGMENT_SIZE), last));
    }
}

static void a_flipped_bit_before_the_last_batch_is_corruption(void **state)
{
    (void)state;
    struct segment whole;
    fill(&whole, 6);
    for (uint32_t b = 0; b + 1 < whole.batch_count; b++) {
        for (uint64_t bit = whole.batch[b] * 8; bit < whole.batch[b + 1] * 8;
             bit++) {
            struct segment bad = whole;
            struct found found;
            bad.data[bit / 8] ^= (uint8_t)(1 << bit % 8);
            struct wal_scan_result result = scan(&bad, &found);
            assert_int_equal(result.end, WAL_END_CORRUPT);
            assert_int_equal(result.offset, whole.batch[b]);
            assert_int_equal(found.count, b);
            /* The next batch proves it, or the one after that if a size was
             * changed. */
            assert_true(result.proof_sequence > 7 + b);
            assert_true(result.proof_offset > whole.batch[b]);
        }
    }
}

static void a_flipped_bit_in_the_last_batch_looks_torn(void **state)
{
    (void)state;
    struct segment whole;
    fill(&whole, 3);
    for (uint64_t bit = whole.batch[2] * 8; bit < whole.end * 8; bit++) {
        struct segment bad = whole;
        struct found found;
        bad.data[bit / 8] ^= (uint8_t)(1 << bit % 8);
        struct wal_scan_result result = scan(&bad, &found);
        assert_int_equal(result.end, WAL_END_TORN);
        assert_int_equal(result.offset, whole.batch[2]);
        assert_int_equal(found.count, 2);
    }
}

static void a_zeroed_batch_with_one_behind_it_is_corruption(void **state)
{
    (void)state;
    struct segment segment;
    struct found found;
    fill(&segment, 4);
    memset(segment.data + segment.batch[1], 0,
           segment.batch[2] - segment.batch[1]);
    struct wal_scan_result result = scan(&segment, &found);
    assert_int_equal(result.end, WAL_END_CORRUPT);
    assert_int_equal(result.offset, segment.batch[1]);
    assert_int_equal(result.proof_sequence, 9);
    assert_int_equal(result.proof_offset, segment.batch[2]);
}

static void what_an_older_longer_tail_left_never_comes_back(void **state)
{
    (void)state;
    struct segment old;
    fill(&old, 2);
    uint64_t cut = old.end;
    struct segment longer = old;
    struct wal_record records[8];
    for (int i = 0; i < 8; i++) {
        records[i] = (struct wal_record){WAL_RECORD_ENTRY, 1, 5,
                                         (uint64_t)(3 + i),
                                         BYTES_LITERAL("of the old tail")};
    }
    add_batch(&longer, records, 8);
    /* The header of the torn batch was lost, its records remain. Shorter
     * batches overwrite it, each ending on a record of the old one. */
    struct segment now = old;
    memcpy(now.data + cut + 64, longer.data + cut + 64, longer.end - cut - 64);
    for (int i = 0; i < 4; i++) {
        struct found found;
        add_entry(&now, "new");
        struct wal_scan_result result = scan(&now, &found);
        assert_int_equal(found.count, 3 + i);
        assert_int_equal(result.offset, now.end);
        assert_int_not_equal(result.end, WAL_END_CORRUPT);
    }
}

static void batches_of_another_log_prove_nothing(void **state)
{
    (void)state;
    struct segment segment;
    struct segment other;
    struct found found;
    fill(&segment, 2);
    begin(&other);
    other.chain.log_id = LOG_ID + 1;
    for (int i = 0; i < 6; i++) {
        add_entry(&other, "of another log");
    }
    memcpy(segment.data + other.batch[4], other.data + other.batch[4],
           other.end - other.batch[4]);
    struct wal_scan_result result = scan(&segment, &found);
    assert_int_equal(result.end, WAL_END_TORN);
    assert_int_equal(found.count, 2);
}

/* Seals the changed payload of the last batch again. */
static void seal_again(struct segment *segment, uint32_t record_count)
{
    uint64_t last = segment->batch[segment->batch_count - 1];
    struct wal_chain chain = {.log_id = LOG_ID, .sequence = 7, .crc = 99};
    wal_batch_seal(&chain, segment->data + last,
                   (uint32_t)(segment->end - last - WAL_BATCH_HEADER_SIZE),
                   record_count);
}

static void a_batch_that_checks_and_makes_no_sense_is_corruption(void **state)
{
    (void)state;
    /* Offset in the record, and a byte that is invalid there. */
    static const struct {
        uint64_t offset;
        uint8_t value;
    } wrong[] = {{0, 200}, {4, 0}, {4, 9},  {4, WAL_RECORD_RESET},
                 {6, 1},   {7, 1}, {16, 0}, {WAL_RECORD_HEADER_SIZE + 7, 1}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct segment segment;
        struct found found;
        fill(&segment, 0);
        add_entry(&segment, "sevenby");
        segment.data[WAL_BLOCK_SIZE + 32 + wrong[i].offset] = wrong[i].value;
        seal_again(&segment, 1);
        struct wal_scan_result result = scan(&segment, &found);
        assert_int_equal(result.end, WAL_END_CORRUPT);
        assert_int_equal(result.proof_sequence, 0);
        assert_int_equal(found.count, 0);
    }
    struct segment segment;
    struct found found;
    fill(&segment, 1);
    seal_again(&segment, 2);
    assert_int_equal(scan(&segment, &found).end, WAL_END_CORRUPT);
}

static void a_batch_of_another_place_is_corruption(void **state)
{
    (void)state;
    struct segment segment;
    struct found found;
    fill(&segment, 1);
    uint64_t first = segment.batch[0];
    size_t size = (size_t)(segment.end - first);
    /* A copy of the batch, directly after it: its sequence is too small. */
    memcpy(segment.data + segment.end, segment.data + first, size);
    struct wal_scan_result result = scan(&segment, &found);
    assert_int_equal(result.end, WAL_END_CORRUPT);
    assert_int_equal(result.offset, segment.end);
    assert_int_equal(found.count, 1);
}

static void a_batch_of_another_history_is_corruption(void **state)
{
    (void)state;
    struct segment segment;
    struct found found;
    fill(&segment, 2);
    segment.chain.crc ^= 1;
    add_entry(&segment, "it follows something else");
    struct wal_scan_result result = scan(&segment, &found);
    assert_int_equal(result.end, WAL_END_CORRUPT);
    assert_int_equal(result.offset, segment.batch[2]);
    assert_int_equal(found.count, 2);
}

static void a_visitor_ends_the_scan(void **state)
{
    (void)state;
    struct segment segment;
    struct wal_chain chain = {.log_id = LOG_ID, .sequence = 7, .crc = 99};
    struct found found = {.answer = HASP_ECORRUPT};
    struct wal_scan_result result;
    fill(&segment, 3);
    assert_int_equal(wal_scan(&chain, bytes_of(segment.data, SEGMENT_SIZE),
                              find, &found, &result),
                     HASP_ECORRUPT);
    assert_int_equal(found.count, 1);
    assert_int_equal(result.offset, WAL_BLOCK_SIZE);
}

static void random_damage_never_gives_more_than_was_written(void **state)
{
    (void)state;
    struct prng prng = {42};
    struct segment whole;
    fill(&whole, 20);
    for (int round = 0; round < 2000; round++) {
        struct segment bad = whole;
        struct found found;
        uint64_t count = 1 + prng_below(&prng, 8);
        uint64_t lowest = UINT64_MAX;
        for (uint64_t i = 0; i < count; i++) {
            uint64_t at = WAL_BLOCK_SIZE +
                          prng_below(&prng, whole.end - WAL_BLOCK_SIZE);
            bad.data[at] ^= (uint8_t)(1 + prng_below(&prng, 255));
            lowest = at < lowest ? at : lowest;
        }
        if (memcmp(bad.data, whole.data, SEGMENT_SIZE) == 0) {
            continue;
        }
        struct wal_scan_result result = scan(&bad, &found);
        assert_int_not_equal(result.end, WAL_END_CLEAN);
        assert_true(result.offset <= lowest ||
                    memcmp(bad.data, whole.data, result.offset) == 0);
        assert_true(found.count < 20);
        for (uint32_t i = 0; i < found.count; i++) {
            assert_true(whole.batch[i] < result.offset);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_segment_header_comes_back),
        cmocka_unit_test(records_of_all_kinds_come_back),
        cmocka_unit_test(a_full_segment_ends_at_its_last_byte),
        cmocka_unit_test(a_last_batch_torn_at_any_byte_is_cut),
        cmocka_unit_test(a_last_batch_with_its_front_lost_is_cut),
        cmocka_unit_test(a_flipped_bit_before_the_last_batch_is_corruption),
        cmocka_unit_test(a_flipped_bit_in_the_last_batch_looks_torn),
        cmocka_unit_test(a_zeroed_batch_with_one_behind_it_is_corruption),
        cmocka_unit_test(what_an_older_longer_tail_left_never_comes_back),
        cmocka_unit_test(batches_of_another_log_prove_nothing),
        cmocka_unit_test(a_batch_that_checks_and_makes_no_sense_is_corruption),
        cmocka_unit_test(a_batch_of_another_place_is_corruption),
        cmocka_unit_test(a_batch_of_another_history_is_corruption),
        cmocka_unit_test(a_visitor_ends_the_scan),
        cmocka_unit_test(random_damage_never_gives_more_than_was_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
