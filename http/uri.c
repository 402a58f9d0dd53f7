/* SPDX-License-Identifier: MIT */

/* Percent-encoding, queries. */

#include "http/uri.h"

#include <string.h>

bool uri_decode(struct bytes text, bool is_query, struct buffer *out)
{
    for (size_t i = 0; i < text.size; i++) {
        uint8_t byte = text.data[i];
        if (byte == '%') {
            if (text.size - i < 3 ||
                !hex_get(bytes_of(text.data + i + 1, 2), &byte, 1)) {
                return false;
            }
            i += 2;
        } else if (is_query && byte == '+') {
            byte = ' ';
        }
        buffer_put_u8(out, byte);
    }
    return true;
}

/* Cuts 'rest' at the first 'mark', and gives what stands before it. */
static struct bytes cut(struct bytes *rest, char mark)
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

void uri_split(const char *target, struct bytes *ret_path,
               struct bytes *ret_query)
{
    struct bytes rest = bytes_of_text(target);
    *ret_path = cut(&rest, '?');
    *ret_query = rest;
}

bool uri_next(struct bytes *query, struct bytes *ret_key,
              struct bytes *ret_value)
{
    while (query->size > 0) {
        struct bytes pair = cut(query, '&');
        if (pair.size > 0) {
            *ret_key = cut(&pair, '=');
            *ret_value = pair;
            return true;
        }
    }
    return false;
}
