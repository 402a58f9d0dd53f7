/* SPDX-License-Identifier: MIT */

/* Three bytes are four digits. */

#include "base/base64.h"

#include <string.h>

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrst"
                             "uvwxyz0123456789+/";

void base64_put(struct buffer *out, struct bytes bytes)
{
    for (size_t i = 0; i < bytes.size; i += 3) {
        size_t left = bytes.size - i;
        uint32_t three = (uint32_t)bytes.data[i] << 16 |
                         (left > 1 ? (uint32_t)bytes.data[i + 1] << 8 : 0) |
                         (left > 2 ? (uint32_t)bytes.data[i + 2] : 0);
        for (size_t n = 0; n < 4; n++) {
            buffer_put_u8(
                out, n > left ? (uint8_t)'='
                              : (uint8_t)digits[three >> (18 - 6 * n) & 63]);
        }
    }
}

/* Four digits; only at the end of the text ('is_last') may they be padded. */
static bool get_four(struct buffer *out, const uint8_t *four, bool is_last)
{
    uint32_t three = 0;
    size_t padding = !is_last ? 0 : four[3] != '=' ? 0 : four[2] != '=' ? 1 : 2;
    for (size_t n = 0; n < 4; n++) {
        const char *digit = n < 4 - padding ? memchr(digits, four[n], 64)
                                            : digits;
        if (digit == NULL) {
            return false;
        }
        three = three << 6 | (uint32_t)(digit - digits);
    }
    for (size_t n = 0; n < 3 - padding; n++) {
        buffer_put_u8(out, (uint8_t)(three >> (16 - 8 * n)));
    }
    /* The bits that are left over must be 0. */
    return (three & ((UINT32_C(1) << (8 * padding)) - 1)) == 0;
}

bool base64_get(struct buffer *out, struct bytes text)
{
    for (size_t i = 0; i + 4 <= text.size; i += 4) {
        if (!get_four(out, text.data + i, i + 4 == text.size)) {
            return false;
        }
    }
    return text.size % 4 == 0;
}
