/* SPDX-License-Identifier: MIT */

/* Targets of HTTP requests (RFC 3986): they are cut at their delimiters, and
 * then each piece is decoded once. So a name may have any byte: "%2F" is a
 * slash of the name, never of the path, and "%2525" is "%25". */

#ifndef HASP_HTTP_URI_H
#define HASP_HTTP_URI_H

#include <stdbool.h>

#include "base/bytes.h"

/* Appends 'text' to 'out', with each "%41" decoded; in queries ('is_query') '+'
 * is a space. False if a '%' is not followed by two hex digits; 'out' then has
 * a part of the text. */
bool uri_decode(struct bytes text, bool is_query, struct buffer *out);

/* Cuts 'target' at its first '?'; the query is empty without one. */
void uri_split(const char *target, struct bytes *ret_path,
               struct bytes *ret_query);
/* Takes the next "key=value" from a query, undecoded; false if there is
 * none. */
bool uri_next(struct bytes *query, struct bytes *ret_key,
              struct bytes *ret_value);

#endif /* HASP_HTTP_URI_H */
