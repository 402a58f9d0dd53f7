/* SPDX-License-Identifier: MIT */

/* CRC32C: by the processor's instruction if it has one, otherwise by tables. */

#include "storage/crc32c.h"

#include <pthread.h>
#include <stdbool.h>

#include "base/bytes.h"

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

#define POLYNOMIAL_REFLECTED 0x82f63b78u

/* slices[k][b]: the CRC of byte b followed by k zero bytes, so that eight bytes
 * are taken at a time ("slicing by 8", Kounavis and Berry, 2005). */
static uint32_t slices[8][256];
static bool has_instruction;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void init_once(void)
{
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t crc = byte;
        for (int bit = 0; bit < 8; bit++) {
            crc = crc >> 1 ^ ((crc & 1) != 0 ? POLYNOMIAL_REFLECTED : 0);
        }
        slices[0][byte] = crc;
    }
    for (int k = 1; k < 8; k++) {
        for (uint32_t byte = 0; byte < 256; byte++) {
            uint32_t crc = slices[k - 1][byte];
            slices[k][byte] = crc >> 8 ^ slices[0][crc & 0xff];
        }
    }
#if defined(__x86_64__)
    __builtin_cpu_init();
    has_instruction = __builtin_cpu_supports("sse4.2") != 0;
#endif
}

static uint32_t add_by_table(uint32_t crc, const uint8_t *at, size_t size)
{
    for (; size >= 8; at += 8, size -= 8) {
        uint32_t low = crc ^ load_u32(at);
        uint32_t high = load_u32(at + 4);
        crc = slices[7][low & 0xff] ^ slices[6][low >> 8 & 0xff] ^
              slices[5][low >> 16 & 0xff] ^ slices[4][low >> 24] ^
              slices[3][high & 0xff] ^ slices[2][high >> 8 & 0xff] ^
              slices[1][high >> 16 & 0xff] ^ slices[0][high >> 24];
    }
    for (; size > 0; at++, size--) {
        crc = crc >> 8 ^ slices[0][(crc ^ *at) & 0xff];
    }
    return crc;
}

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) static uint32_t
add_by_instruction(uint32_t crc, const uint8_t *at, size_t size)
{
    uint64_t wide = crc;
    for (; size >= 8; at += 8, size -= 8) {
        wide = _mm_crc32_u64(wide, load_u64(at));
    }
    crc = (uint32_t)wide;
    for (; size > 0; at++, size--) {
        crc = _mm_crc32_u8(crc, *at);
    }
    return crc;
}
#endif

uint32_t crc32c(uint32_t crc, const void *data, size_t size)
{
    pthread_once(&once, init_once);
#if defined(__x86_64__)
    if (has_instruction) {
        return ~add_by_instruction(~crc, data, size);
    }
#endif
    return ~add_by_table(~crc, data, size);
}

uint32_t crc32c_portable(uint32_t crc, const void *data, size_t size)
{
    pthread_once(&once, init_once);
    return ~add_by_table(~crc, data, size);
}
