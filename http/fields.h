/* SPDX-License-Identifier: MIT */

/* The content of an HTTP request: its path, query and body, checked against the
 * fields of its route, as the words of a command.
 *
 * Strict: JSON follows RFC 8259, without duplicate members, members that the
 * route does not have, fractions, or texts of a wrong size. Any text may be
 * given in base64, under its name with "_b64" appended. Pure, and fuzzed. */

#ifndef HASP_HTTP_FIELDS_H
#define HASP_HTTP_FIELDS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/err.h"
#include "http/problem.h"
#include "http/routes.h"

/* Words in sequence. Zeroed memory has none. */
struct words {
    struct buffer bytes;
    size_t *end; /* The end of each word. */
    uint32_t count;
    uint32_t capacity;
};
void words_put(struct words *words, struct bytes word);
void words_put_text(struct words *words, const char *word);
void words_put_number(struct words *words, uint64_t number);
struct bytes words_at(const struct words *words, uint32_t at);
void words_done(struct words *words);

#define FIELD_COUNT_MAX 20

/* The value of each field of a route, in their order. */
struct fields {
    const struct route *route;
    struct value {
        bool is_given;
        uint64_t number; /* A flag's: 1 or 0. */
        uint32_t first;  /* The index of its first text in 'texts'. */
        uint32_t count;
    } value[FIELD_COUNT_MAX];
    struct words texts;
};
void fields_done(struct fields *fields);

/* Fills zeroed 'fields'. HASP_EINVALID: 'ret_problem' says why. They must be
 * released in any case. */
MUST_CHECK int fields_read(struct fields *fields, const struct match *match,
                           struct bytes query, struct bytes body,
                           struct problem *ret_problem);
/* The value of the field with this name, which the route must have. */
const struct value *fields_get(const struct fields *fields, const char *name);
struct bytes fields_text(const struct fields *fields, const char *name);
/* Appends the route's command. 'credentials' (NULL unless it takes them) are
 * its first operands. */
void fields_command(const struct fields *fields,
                    const struct words *credentials, struct words *out);
/* Appends the header traceparent (NULL: none) if the route's command takes it;
 * an invalid one is ignored. */
void fields_trace(const struct fields *fields, const char *header,
                  struct words *out);

#endif /* HASP_HTTP_FIELDS_H */
