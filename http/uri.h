/* SPDX-License-Identifier: MIT */

/* Targets of HTTP requests (RFC 3986): cut where their delimiters stand, and
 * each piece decoded once, behind that. So a name may hold any byte: "%2F" is a
 * slash of the name, never of the path, and "%2525" is "%25". */

#ifndef HASP_HTTP_URI_H
#define HASP_HTTP_URI_H

#include <stdbool.h>

#include "base/bytes.h"

/* Appends 'text' to 'out' with each "%41" as the byte that it means; in queries
 * ('is_query') '+' is a blank. False: there is a '%' without two hex digits
 * behind it; 'out' has some of it then. */
bool uri_decode(struct bytes text, bool is_query, struct buffer *out);

/* Cuts 'target' at its first '?'; the query is empty without one. */
void uri_split(const char *target, struct bytes *ret_path,
               struct bytes *ret_query);
/* Takes the next "key=value" from a query, undecoded; false: there is none. */
bool uri_next(struct bytes *query, struct bytes *ret_key,
              struct bytes *ret_value);

#endif /* HASP_HTTP_URI_H */
