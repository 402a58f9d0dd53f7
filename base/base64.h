/* SPDX-License-Identifier: MIT */

/* Base 64 (RFC 4648, section 4), for bytes in JSON that are not text. */

#ifndef HASP_BASE_BASE64_H
#define HASP_BASE_BASE64_H

#include <stdbool.h>

#include "base/bytes.h"

/* Appends the digits of 'bytes', padded with '='. */
void base64_put(struct buffer *out, struct bytes bytes);
/* Appends the bytes that 'text' encodes. False if it is not exactly what
 * base64_put() writes for some bytes; 'out' may then contain a part of them. */
bool base64_get(struct buffer *out, struct bytes text);

#endif /* HASP_BASE_BASE64_H */
