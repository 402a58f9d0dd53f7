/* SPDX-License-Identifier: MIT */

#include "base/traceparent.h"

#include <stdio.h>
#include <string.h>

/* Where the fields begin in the text, and how many bytes they are. */
#define ID_AT 3
#define ID_SIZE 16
#define PARENT_AT 36
#define PARENT_SIZE 8
#define FLAGS_AT 53
#define TEXT_SIZE (TRACE_TEXT_SIZE - 1)

/* The standard allows no upper case. */
static int digit_of(uint8_t c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                  : -1;
}

static bool read_hex(const uint8_t *text, uint8_t *out, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        int high = digit_of(text[2 * i]), low = digit_of(text[2 * i + 1]);
        if (high < 0 || low < 0) {
            return false;
        }
        out[i] = (uint8_t)(high << 4 | low);
    }
    return true;
}

static bool is_zero(const uint8_t *bytes, size_t size)
{
    uint8_t all = 0;
    for (size_t i = 0; i < size; i++) {
        all |= bytes[i];
    }
    return all == 0;
}

bool traceparent_parse(struct bytes text, uint8_t ret_trace[TRACE_SIZE])
{
    uint8_t version, trace[TRACE_SIZE];
    const uint8_t *at = text.data;
    memset(ret_trace, 0, TRACE_SIZE);
    if (text.size < TEXT_SIZE || text.size > TRACE_TEXT_SIZE_MAX ||
        !read_hex(at, &version, 1) || version == 0xff || at[ID_AT - 1] != '-' ||
        at[PARENT_AT - 1] != '-' || at[FLAGS_AT - 1] != '-') {
        return false;
    }
    /* A later version can be longer; its other fields follow a dash. */
    if (text.size > TEXT_SIZE && (version == 0 || at[TEXT_SIZE] != '-')) {
        return false;
    }
    if (!read_hex(at + ID_AT, trace, ID_SIZE) ||
        !read_hex(at + PARENT_AT, trace + ID_SIZE, PARENT_SIZE) ||
        !read_hex(at + FLAGS_AT, trace + ID_SIZE + PARENT_SIZE, 1) ||
        is_zero(trace, ID_SIZE) || is_zero(trace + ID_SIZE, PARENT_SIZE)) {
        return false;
    }
    memcpy(ret_trace, trace, TRACE_SIZE);
    return true;
}

bool traceparent_is_set(const uint8_t trace[TRACE_SIZE])
{
    return !is_zero(trace, ID_SIZE);
}

void traceparent_format(const uint8_t trace[TRACE_SIZE],
                        char out[TRACE_TEXT_SIZE])
{
    char digits[2 * TRACE_SIZE + 1];
    out[0] = '\0';
    if (traceparent_is_set(trace)) {
        hex_put(digits, bytes_of(trace, TRACE_SIZE));
        snprintf(out, TRACE_TEXT_SIZE, "00-%.32s-%.16s-%.2s", digits,
                 digits + 32, digits + 48);
    }
}
