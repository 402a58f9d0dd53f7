/* SPDX-License-Identifier: MIT */

#include "core/redis/hash.h"

#include <string.h>

bool hash_is(struct bytes value)
{
    return bytes_has_prefix(value, BYTES_LITERAL(HASH_MARK));
}

/* Takes the next field off '*rest', which begins with the mark, or behind a
 * field. */
static bool next(struct bytes *rest, struct bytes *ret_field,
                 struct bytes *ret_value)
{
    (void)bytes_cut(rest, '\n');
    if (rest->size == 0) {
        return false;
    }
    const uint8_t *end = memchr(rest->data, '\n', rest->size);
    size_t size = end != NULL ? (size_t)(end - rest->data) : rest->size;
    *ret_value = bytes_of(rest->data, size);
    *rest = bytes_of(rest->data + size, rest->size - size);
    *ret_field = bytes_cut(ret_value, '=');
    return true;
}

uint32_t hash_count(struct bytes hash)
{
    struct bytes field, value;
    uint32_t count = 0;
    while (next(&hash, &field, &value)) {
        count++;
    }
    return count;
}

bool hash_find(struct bytes hash, struct bytes field, struct bytes *ret_value)
{
    struct bytes one;
    while (next(&hash, &one, ret_value)) {
        if (bytes_equal(one, field)) {
            return true;
        }
    }
    return false;
}

static bool has_byte(struct bytes text, char c)
{
    return text.size > 0 && memchr(text.data, c, text.size) != NULL;
}

static void put(struct buffer *out, struct bytes field, struct bytes value)
{
    buffer_put_u8(out, '\n');
    buffer_put_bytes(out, field);
    buffer_put_u8(out, '=');
    buffer_put_bytes(out, value);
}

bool hash_edit(struct bytes hash, struct bytes field, const struct bytes *value,
               struct buffer *out)
{
    struct bytes one, old;
    bool was_there = hash_find(hash, field, &old);
    if (has_byte(field, '=') || has_byte(field, '\n') ||
        (value != NULL && has_byte(*value, '\n'))) {
        return false;
    }
    buffer_put_text(out, HASH_MARK);
    while (next(&hash, &one, &old)) {
        bool is_it = bytes_equal(one, field);
        if (!is_it || value != NULL) {
            put(out, one, is_it ? *value : old);
        }
    }
    if (!was_there && value != NULL) {
        put(out, field, *value);
    }
    return true;
}
