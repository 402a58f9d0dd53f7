/* SPDX-License-Identifier: MIT */

/* Writing JSON: small helpers for jansson, and RESP3 replies as JSON.
 *
 * Bytes that are not UTF-8 cannot be a JSON string: they are written in base64,
 * under their member's name with "_b64" appended. */

#ifndef HASP_NET_JSON_H
#define HASP_NET_JSON_H

#include <jansson.h>

#include "base/bytes.h"
#include "net/resp.h"

/* Adds a member and takes ownership of 'value', which must not be NULL. */
void json_put(json_t *object, const char *name, json_t *value);
/* The same for an element of an array. */
void json_add(json_t *array, json_t *value);
/* Adds a text, in base64 if necessary. */
void json_put_text(json_t *object, const char *name, struct bytes text);
/* Appends the document and a newline, and frees it. */
void json_write(json_t *document, struct buffer *out);

/* A string; NULL if the text is not UTF-8. */
json_t *json_string_of(struct bytes text);

/* A text that is not UTF-8, as a string that people can read. */
typedef json_t *json_escape_fn(struct bytes text);

/* value[at] of a reply with everything inside it. A text becomes a string. One
 * that is not UTF-8 is 'escape' of it, or base64 if 'escape' is NULL; as a
 * member's value it is in base64 under its own name, besides 'escape' of it. */
json_t *json_of_reply(const struct resp_reply *reply, uint32_t at,
                      json_escape_fn *escape);

#endif /* HASP_NET_JSON_H */
