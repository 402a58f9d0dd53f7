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

void uri_split(const char *target, struct bytes *ret_path,
               struct bytes *ret_query)
{
    struct bytes rest = bytes_of_text(target);
    *ret_path = bytes_cut(&rest, '?');
    *ret_query = rest;
}

bool uri_next(struct bytes *query, struct bytes *ret_key,
              struct bytes *ret_value)
{
    while (query->size > 0) {
        struct bytes pair = bytes_cut(query, '&');
        if (pair.size > 0) {
            *ret_key = bytes_cut(&pair, '=');
            *ret_value = pair;
            return true;
        }
    }
    return false;
}
