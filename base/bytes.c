/* SPDX-License-Identifier: MIT */

#include "base/bytes.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/memory.h"

int bytes_compare(struct bytes a, struct bytes b)
{
    size_t common = a.size < b.size ? a.size : b.size;
    int order = common == 0 ? 0 : memcmp(a.data, b.data, common);
    if (order != 0) {
        return order;
    }
    return a.size < b.size ? -1 : a.size > b.size;
}

bool bytes_is_word(struct bytes a, const char *word)
{
    size_t i = 0;
    for (; i < a.size && word[i] != '\0'; i++) {
        uint8_t c = a.data[i];
        if (c != word[i] && (c < 'a' || c > 'z' || c - 'a' + 'A' != word[i])) {
            return false;
        }
    }
    return i == a.size && word[i] == '\0';
}

bool bytes_has_prefix(struct bytes a, struct bytes prefix)
{
    return a.size >= prefix.size &&
           (prefix.size == 0 || memcmp(a.data, prefix.data, prefix.size) == 0);
}

struct bytes bytes_cut(struct bytes *rest, char mark)
{
    struct bytes part = *rest;
    const uint8_t *at = rest->size > 0 ? memchr(rest->data, mark, rest->size)
                                       : NULL;
    if (at == NULL) {
        *rest = bytes_of(rest->data + rest->size, 0);
        return part;
    }
    part.size = (size_t)(at - rest->data);
    *rest = bytes_of(at + 1, rest->size - part.size - 1);
    return part;
}

const char *bytes_shown(struct bytes a, char out[BYTES_SHOWN_SIZE])
{
    size_t size = a.size < BYTES_SHOWN_SIZE - 1 ? a.size : BYTES_SHOWN_SIZE - 1;
    for (size_t i = 0; i < size; i++) {
        uint8_t c = a.data[i];
        out[i] = c >= 0x20 && c < 0x7f ? (char)c : '?';
    }
    out[size] = '\0';
    return out;
}

size_t bytes_printable(struct bytes a)
{
    const uint8_t *in = a.data;
    uint32_t code = in[0];
    size_t count = code < 0x80 ? 1 : code < 0xe0 ? 2 : code < 0xf0 ? 3 : 4;
    static const uint32_t firsts[] = {0, 0, 0x80, 0x800, 0x10000};
    if (count == 1) {
        return code >= 0x20 && code != 0x7f ? 1 : 0;
    }
    if (code < 0xc2 || code > 0xf4 || count > a.size) {
        return 0;
    }
    code &= 0x7fu >> count;
    for (size_t i = 1; i < count; i++) {
        if ((in[i] & 0xc0) != 0x80) {
            return 0;
        }
        code = code << 6 | (in[i] & 0x3fu);
    }
    /* Neither overlong forms nor surrogates (RFC 3629), nor what controls a
     * terminal or the direction of text. */
    bool is_sound = code >= firsts[count] && code <= 0x10ffff &&
                    (code < 0xd800 || code > 0xdfff);
    bool is_control = code < 0xa0 || (code >= 0x2028 && code <= 0x202e) ||
                      (code >= 0x2066 && code <= 0x2069);
    return is_sound && !is_control ? count : 0;
}

bool bytes_to_u64(struct bytes a, uint64_t *ret_value)
{
    uint64_t value = 0;
    if (a.size == 0 || a.size > 20) {
        return false;
    }
    for (size_t i = 0; i < a.size; i++) {
        uint64_t digit = (uint64_t)a.data[i] - '0';
        if (digit > 9) {
            return false;
        }
        /* 19 digits always fit. */
        if (i == 19 && value > (UINT64_MAX - digit) / 10) {
            return false;
        }
        value = value * 10 + digit;
    }
    *ret_value = value;
    return true;
}

static const char hex_digits[] = "0123456789abcdef";

void hex_put(char *out, struct bytes bytes)
{
    for (size_t i = 0; i < bytes.size; i++) {
        *out++ = hex_digits[bytes.data[i] >> 4];
        *out++ = hex_digits[bytes.data[i] & 15];
    }
    *out = '\0';
}

bool hex_get(struct bytes text, uint8_t *out, size_t size)
{
    if (text.size != 2 * size) {
        return false;
    }
    for (size_t i = 0; i < text.size; i++) {
        const char *digit = memchr(hex_digits, tolower(text.data[i]), 16);
        if (digit == NULL) {
            return false;
        }
        out[i / 2] = (uint8_t)(out[i / 2] << 4 | (digit - hex_digits));
    }
    return true;
}

/* Matches one character against the class that starts after '[', and returns
 * where the class ends. A class without an end extends to the end of the
 * pattern. */
static bool match_class(struct bytes pattern, size_t *at, uint8_t character)
{
    size_t p = *at;
    bool is_negated = p < pattern.size && pattern.data[p] == '^';
    bool is_match = false;
    if (is_negated) {
        p++;
    }
    while (p < pattern.size && pattern.data[p] != ']') {
        uint8_t low = pattern.data[p];
        if (low == '\\' && p + 1 < pattern.size) {
            low = pattern.data[++p];
        }
        uint8_t high = low;
        if (p + 2 < pattern.size && pattern.data[p + 1] == '-' &&
            pattern.data[p + 2] != ']') {
            high = pattern.data[p + 2];
            p += 2;
        }
        if (character >= low && character <= high) {
            is_match = true;
        }
        p++;
    }
    *at = p < pattern.size ? p + 1 : p;
    return is_match != is_negated;
}

/* One pass with a single point of return to the last '*': at most pattern.size
 * * text.size steps for any input. */
bool bytes_match_counted(struct bytes pattern, struct bytes text,
                         uint64_t *steps)
{
    size_t p = 0, t = 0, star = SIZE_MAX, star_text = 0;
    while (t < text.size) {
        size_t next = p;
        bool is_match = false;
        if (p < pattern.size) {
            uint8_t c = pattern.data[next++];
            if (c == '*') {
                star = p;
                star_text = t;
                p = next;
                continue;
            }
            if (c == '?') {
                is_match = true;
            } else if (c == '[') {
                is_match = match_class(pattern, &next, text.data[t]);
            } else {
                if (c == '\\' && next < pattern.size) {
                    c = pattern.data[next++];
                }
                is_match = c == text.data[t];
            }
        }
        *steps += 1 + next - p;
        if (is_match) {
            p = next;
            t++;
        } else if (star != SIZE_MAX) {
            /* Only the last '*' is extended: a longer match of an earlier one
             * gains nothing. */
            p = star + 1;
            t = ++star_text;
        } else {
            return false;
        }
    }
    while (p < pattern.size && pattern.data[p] == '*') {
        p++;
    }
    return p == pattern.size;
}

struct bytes bytes_fixed(struct bytes pattern)
{
    struct bytes fixed = {pattern.data, 0};
    while (fixed.size < pattern.size &&
           memchr("*?[\\", pattern.data[fixed.size], 4) == NULL) {
        fixed.size++;
    }
    return fixed;
}

bool bytes_match(struct bytes pattern, struct bytes text)
{
    uint64_t steps = 0;
    return bytes_match_counted(pattern, text, &steps);
}

void buffer_done(struct buffer *buffer)
{
    free(buffer->data);
    *buffer = (struct buffer){0};
}

void buffer_grow(struct buffer *buffer, size_t size)
{
    CHECK(size <= SIZE_MAX / 4 && buffer->size <= SIZE_MAX / 4);
    size_t needed = buffer->size + size;
    size_t capacity = buffer->capacity == 0 ? 64 : buffer->capacity;
    while (capacity < needed) {
        capacity *= 2;
    }
    buffer->data = memory_resize(buffer->data, capacity);
    buffer->capacity = capacity;
}

void buffer_put_text(struct buffer *buffer, const char *text)
{
    buffer_put(buffer, text, strlen(text));
}

void buffer_printf(struct buffer *buffer, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int size = vsnprintf(NULL, 0, format, args);
    va_end(args);
    CHECK(size >= 0);
    uint8_t *at = buffer_reserve(buffer, (size_t)size + 1);
    va_start(args, format);
    vsnprintf((char *)at, (size_t)size + 1, format, args);
    va_end(args);
    buffer->size += (size_t)size;
}

void buffer_put_run(struct buffer *buffer, struct bytes bytes)
{
    CHECK(bytes.size <= UINT32_MAX);
    buffer_put_u32(buffer, (uint32_t)bytes.size);
    buffer_put_bytes(buffer, bytes);
}

void buffer_consume(struct buffer *buffer, size_t size)
{
    CHECK(size <= buffer->size);
    buffer->size -= size;
    if (buffer->size > 0) {
        memmove(buffer->data, buffer->data + size, buffer->size);
    }
}
