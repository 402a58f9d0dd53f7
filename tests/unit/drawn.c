/* SPDX-License-Identifier: MIT */

#include "tests/unit/drawn.h"

#include <string.h>

/* xorshift64* (Vigna, 2016). */
uint64_t drawn_next(struct drawn *drawn)
{
    drawn->state ^= drawn->state >> 12;
    drawn->state ^= drawn->state << 25;
    drawn->state ^= drawn->state >> 27;
    return drawn->state * UINT64_C(2685821657736338717);
}

uint32_t drawn_below(struct drawn *drawn, uint32_t count)
{
    return (uint32_t)((drawn_next(drawn) >> 32) % count);
}

size_t drawn_text(struct drawn *drawn, const char *letters, size_t size,
                  char *out)
{
    uint32_t count = (uint32_t)strlen(letters);
    for (size_t i = 0; i < size; i++) {
        out[i] = letters[drawn_below(drawn, count)];
    }
    return size;
}
