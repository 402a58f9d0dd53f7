/* SPDX-License-Identifier: MIT */

#include "client/query.h"

#include <inttypes.h>
#include <stdio.h>

#include "net/resp.h"

void query_begin(struct query *query, const char *command)
{
    buffer_clear(&query->arguments);
    query->count = 0;
    query_text(query, command);
}

void query_bytes(struct query *query, struct bytes bytes)
{
    resp_request_argument(&query->arguments, bytes);
    query->count++;
}

void query_text(struct query *query, const char *text)
{
    query_bytes(query, bytes_of_text(text));
}

void query_number(struct query *query, uint64_t number)
{
    char text[24];
    snprintf(text, sizeof text, "%" PRIu64, number);
    query_text(query, text);
}

void query_option(struct query *query, const char *word, uint64_t number)
{
    if (number != 0) {
        query_text(query, word);
        query_number(query, number);
    }
}

void query_done(struct query *query)
{
    buffer_done(&query->arguments);
    *query = (struct query){0};
}

void query_encode(const struct query *query, struct buffer *out)
{
    resp_request_begin(out, query->count);
    buffer_put_bytes(out, buffer_bytes(&query->arguments));
}
