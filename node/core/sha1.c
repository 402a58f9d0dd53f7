/* SPDX-License-Identifier: MIT */

#include "node/core/sha1.h"

#include <stdio.h>

#define BLOCK_SIZE 64

static uint32_t rotate(uint32_t value, int bits)
{
    return value << bits | value >> (32 - bits);
}

static void take_block(uint32_t state[5], const uint8_t block[BLOCK_SIZE])
{
    uint32_t w[80];
    for (int i = 0; i < 16; i++) {
        w[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 |
               (uint32_t)block[4 * i + 2] << 8 | block[4 * i + 3];
    }
    for (int i = 16; i < 80; i++) {
        w[i] = rotate(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
    }
    uint32_t a = state[0], b = state[1], c = state[2], d = state[3],
             e = state[4];
    for (int i = 0; i < 80; i++) {
        uint32_t f, k;
        if (i < 20) {
            f = (b & c) | (~b & d);
            k = 0x5a827999;
        } else if (i < 40) {
            f = b ^ c ^ d;
            k = 0x6ed9eba1;
        } else if (i < 60) {
            f = (b & c) | (b & d) | (c & d);
            k = 0x8f1bbcdc;
        } else {
            f = b ^ c ^ d;
            k = 0xca62c1d6;
        }
        uint32_t next = rotate(a, 5) + f + e + k + w[i];
        e = d;
        d = c;
        c = rotate(b, 30);
        b = a;
        a = next;
    }
    state[0] += a;
    state[1] += b;
    state[2] += c;
    state[3] += d;
    state[4] += e;
}

void sha1_text(struct bytes bytes, char out[SHA1_TEXT_SIZE])
{
    uint32_t state[5] = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476,
                         0xc3d2e1f0};
    size_t at = 0;
    for (; bytes.size - at >= BLOCK_SIZE; at += BLOCK_SIZE) {
        take_block(state, bytes.data + at);
    }
    /* The rest, a bit of 1, zeros and the length in bits: one block or two. */
    uint8_t tail[2 * BLOCK_SIZE] = {0};
    size_t rest = bytes.size - at;
    size_t size = rest < BLOCK_SIZE - 8 ? BLOCK_SIZE : 2 * BLOCK_SIZE;
    if (rest > 0) {
        memcpy(tail, bytes.data + at, rest);
    }
    tail[rest] = 0x80;
    store_u64_be(tail + size - 8, (uint64_t)bytes.size * 8);
    take_block(state, tail);
    if (size > BLOCK_SIZE) {
        take_block(state, tail + BLOCK_SIZE);
    }
    for (int i = 0; i < 5; i++) {
        snprintf(out + 8 * i, 9, "%08x", state[i]);
    }
}
