/* SPDX-License-Identifier: MIT */

/* Builder of a request: a command word and its arguments. Zeroed memory is an
 * empty query; a query can be sent any number of times. */

#ifndef HASP_CLIENT_QUERY_H
#define HASP_CLIENT_QUERY_H

#include <stdint.h>

#include "base/bytes.h"

struct query {
    struct buffer arguments; /* As RESP bulk strings. */
    uint32_t count;
};

/* Clears 'query' and starts it with 'command'. */
void query_begin(struct query *query, const char *command);
void query_bytes(struct query *query, struct bytes bytes);
void query_text(struct query *query, const char *text);
void query_number(struct query *query, uint64_t number);
/* Appends an option with its value, unless that is 0. */
void query_option(struct query *query, const char *word, uint64_t number);
void query_done(struct query *query);

/* Appends the whole request to 'out'. */
void query_encode(const struct query *query, struct buffer *out);

#endif /* HASP_CLIENT_QUERY_H */
