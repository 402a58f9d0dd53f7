/* SPDX-License-Identifier: MIT */

/* Members, texts, replies. */

#include "net/json.h"

#include <stdio.h>
#include <string.h>

#include "base/base64.h"
#include "base/check.h"
#include "base/memory.h"

#define NAME_SIZE_MAX 512

void json_put(json_t *object, const char *name, json_t *value)
{
    CHECK(value != NULL && json_object_set_new(object, name, value) == 0);
}

void json_add(json_t *array, json_t *value)
{
    CHECK(value != NULL && json_array_append_new(array, value) == 0);
}

static json_t *json_base64_of(struct bytes text)
{
    AUTO(buffer_done) struct buffer digits = {0};
    base64_put(&digits, text);
    json_t *value = json_stringn((const char *)digits.data, digits.size);
    CHECK(value != NULL);
    return value;
}

json_t *json_string_of(struct bytes text)
{
    return json_stringn(text.size > 0 ? (const char *)text.data : "",
                        text.size);
}

/* Adds a text. What is not UTF-8 is added in base64, and escaped as well under
 * the plain name if there is 'escape'. */
static void json_put_any_text(json_t *object, const char *name,
                              struct bytes text, json_escape_fn *escape)
{
    char with_suffix[NAME_SIZE_MAX];
    json_t *value = json_string_of(text);
    if (value == NULL) {
        snprintf(with_suffix, sizeof with_suffix, "%s_b64", name);
        json_put(object, with_suffix, json_base64_of(text));
        value = escape != NULL ? escape(text) : NULL;
    }
    if (value != NULL) {
        json_put(object, name, value);
    }
}

void json_put_text(json_t *object, const char *name, struct bytes text)
{
    json_put_any_text(object, name, text, NULL);
}

void json_write(json_t *document, struct buffer *out)
{
    size_t size = json_dumpb(document, NULL, 0, JSON_COMPACT);
    CHECK(size > 0);
    char *to = (char *)buffer_reserve(out, size + 1);
    CHECK(json_dumpb(document, to, size, JSON_COMPACT) == size);
    out->size += size;
    buffer_put_u8(out, '\n');
    json_decref(document);
}

/* The key of a map is a word, except for labels, which may have any bytes. */
static void json_key_of(struct bytes key, json_escape_fn *escape,
                        char out[NAME_SIZE_MAX])
{
    AUTO(buffer_done) struct buffer name = {0};
    json_auto_t *text = json_string_of(key);
    if (text != NULL && memchr(key.data, '\0', key.size) == NULL) {
        buffer_put_bytes(&name, key);
    } else if (escape != NULL) {
        json_auto_t *escaped = escape(key);
        buffer_put_text(&name, json_string_value(escaped));
    } else {
        buffer_put_text(&name, "b64:");
        base64_put(&name, key);
    }
    CHECK(name.size < NAME_SIZE_MAX - sizeof "_b64");
    memcpy(out, name.data, name.size);
    out[name.size] = '\0';
}

static json_t *json_map_of(const struct resp_reply *reply, uint32_t at,
                           json_escape_fn *escape)
{
    json_t *object = json_object();
    uint32_t next = at + 1;
    for (uint32_t i = 0; i < reply->value[at].count; i++) {
        char name[NAME_SIZE_MAX];
        const struct resp_value *value = &reply->value[next + 1];
        json_key_of(reply->value[next].bytes, escape, name);
        if (value->type == RESP_BULK || value->type == RESP_SIMPLE) {
            json_put_any_text(object, name, value->bytes, escape);
        } else {
            json_put(object, name, json_of_reply(reply, next + 1, escape));
        }
        next += 1 + value->span;
    }
    return object;
}

static json_t *json_array_of(const struct resp_reply *reply, uint32_t at,
                             json_escape_fn *escape)
{
    json_t *array = json_array();
    uint32_t next = at + 1;
    for (uint32_t i = 0; i < reply->value[at].count; i++) {
        json_add(array, json_of_reply(reply, next, escape));
        next += reply->value[next].span;
    }
    return array;
}

json_t *json_of_reply(const struct resp_reply *reply, uint32_t at,
                      json_escape_fn *escape)
{
    const struct resp_value *value = &reply->value[at];
    json_t *text;
    switch (value->type) {
    case RESP_INTEGER:
        return json_integer(value->integer);
    case RESP_BOOL:
        return json_boolean(value->integer != 0);
    case RESP_NULL:
        return json_null();
    case RESP_MAP:
        return json_map_of(reply, at, escape);
    case RESP_ARRAY:
    case RESP_PUSH:
        return json_array_of(reply, at, escape);
    default:
        text = json_string_of(value->bytes);
        return text != NULL     ? text
               : escape != NULL ? escape(value->bytes)
                                : json_base64_of(value->bytes);
    }
}
