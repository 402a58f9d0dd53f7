/* SPDX-License-Identifier: MIT */

/* storage/crc32c.h against known vectors, and its two implementations against
 * each other. */

#include "storage/crc32c.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "base/prng.h"

typedef uint32_t crc_fn(uint32_t crc, const void *data, size_t size);

static void check_vectors(crc_fn *crc)
{
    /* RFC 3720 B.4, and the check value of the catalogue of CRCs. */
    uint8_t bytes[32];
    assert_int_equal(crc(0, "123456789", 9), 0xe3069283);
    assert_int_equal(crc(0, "", 0), 0);
    memset(bytes, 0, sizeof bytes);
    assert_int_equal(crc(0, bytes, sizeof bytes), 0x8a9136aa);
    memset(bytes, 0xff, sizeof bytes);
    assert_int_equal(crc(0, bytes, sizeof bytes), 0x62a8ab43);
    for (int i = 0; i < 32; i++) {
        bytes[i] = (uint8_t)i;
    }
    assert_int_equal(crc(0, bytes, sizeof bytes), 0x46dd794e);
    for (int i = 0; i < 32; i++) {
        bytes[i] = (uint8_t)(31 - i);
    }
    assert_int_equal(crc(0, bytes, sizeof bytes), 0x113fdb5c);
    static const uint8_t scsi_read[48] = {
        0x01, 0xc0, 0,    0,    0,    0, 0, 0, 0, 0, 0, 0, 0, 0,
        0,    0,    0x14, 0,    0,    0, 0, 0, 4, 0, 0, 0, 0, 0x14,
        0,    0,    0,    0x18, 0x28, 0, 0, 0, 0, 0, 0, 0, 2};
    assert_int_equal(crc(0, scsi_read, sizeof scsi_read), 0xd9963a56);
}

static void known_vectors_come_out(void **state)
{
    (void)state;
    check_vectors(crc32c);
}

static void known_vectors_come_out_of_the_table(void **state)
{
    (void)state;
    check_vectors(crc32c_portable);
}

static void both_ways_agree_at_every_size_and_alignment(void **state)
{
    (void)state;
    uint8_t bytes[256];
    struct prng prng = {1};
    for (size_t i = 0; i < sizeof bytes; i++) {
        bytes[i] = (uint8_t)prng_next(&prng);
    }
    for (size_t from = 0; from < 16; from++) {
        for (size_t size = 0; from + size <= sizeof bytes; size++) {
            uint32_t seed = (uint32_t)prng_next(&prng);
            assert_int_equal(crc32c(seed, bytes + from, size),
                             crc32c_portable(seed, bytes + from, size));
        }
    }
}

static void a_checksum_can_be_continued(void **state)
{
    (void)state;
    for (size_t cut = 0; cut <= 9; cut++) {
        uint32_t front = crc32c(0, "123456789", cut);
        assert_int_equal(crc32c(front, &"123456789"[cut], 9 - cut), 0xe3069283);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_vectors_come_out),
        cmocka_unit_test(known_vectors_come_out_of_the_table),
        cmocka_unit_test(both_ways_agree_at_every_size_and_alignment),
        cmocka_unit_test(a_checksum_can_be_continued),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
