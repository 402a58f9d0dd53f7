/* SPDX-License-Identifier: MIT */

/* Base 64 (RFC 4648, section 4): what JSON has for bytes that are no text. */

#ifndef HASP_BASE_BASE64_H
#define HASP_BASE_BASE64_H

#include <stdbool.h>

#include "base/bytes.h"

/* Appends the digits of 'bytes', padded with '='. */
void base64_put(struct buffer *out, struct bytes bytes);
/* Appends the bytes that 'text' stands for. False: it is not what base64_put()
 * writes for any bytes, to the letter; 'out' has some of them then. */
bool base64_get(struct buffer *out, struct bytes text);

#endif /* HASP_BASE_BASE64_H */
