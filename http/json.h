/* SPDX-License-Identifier: MIT */

/* JSON out: small helpers over jansson, and replies of RESP3 as JSON.
 *
 * Bytes that are no UTF-8 cannot be a JSON string: they come in base
 * 64, under their member's name with "_b64" behind it. */

#ifndef HASP_HTTP_JSON_H
#define HASP_HTTP_JSON_H

#include <jansson.h>

#include "base/bytes.h"
#include "net/resp.h"

/* Adds a member; 'value' is taken over, and must not be NULL. */
void json_put(json_t *object, const char *name, json_t *value);
/* The same of an array's element. */
void json_add(json_t *array, json_t *value);
/* Adds a text, as said above. */
void json_put_text(json_t *object, const char *name, struct bytes text);
/* Appends the document and a line's end; it is freed. */
void json_write(json_t *document, struct buffer *out);

/* value[at] of a reply, and all inside it. A text is a string, or in base
 * 64 where it is none and no member has it. */
json_t *json_of_reply(const struct resp_reply *reply, uint32_t at);

#endif /* HASP_HTTP_JSON_H */
