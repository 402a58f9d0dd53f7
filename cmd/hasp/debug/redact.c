/* SPDX-License-Identifier: MIT */

#include <string.h>

#include "base/memory.h"
#include "base/sha.h"
#include "cmd/hasp/debug/debug.h"

/* "h-" and 16 hex digits. */
#define HASH_SIZE 8
#define HASH_TEXT_SIZE (2 + 2 * HASH_SIZE + 1)

/* Keys whose values clients or operators chose. */
static const char *const name_keys[] = {
    "name",      "lock",    "client",       "address",  "from",   "by",
    "user",      "what",    "reason",       "labels",   "value",  "note",
    "owner",     "message", "session_name", "resource", "holder", "text",
    "waits_for", "cycle",   "title",        "why"};

static void hash_name(const struct debug_bundle *bundle, struct bytes name,
                      char out[HASH_TEXT_SIZE])
{
    AUTO(buffer_done) struct buffer salted = {0};
    uint8_t digest[SHA256_SIZE] = {0};
    buffer_put(&salted, bundle->salt, sizeof bundle->salt);
    buffer_put(&salted, name.data, name.size);
    /* Without SHA-256 all names get the same hash. */
    (void)!sha256(buffer_bytes(&salted), digest);
    memcpy(out, "h-", 2);
    hex_put(out + 2, bytes_of(digest, HASH_SIZE));
}

static bool is_name_key(const char *key)
{
    for (size_t i = 0; i < sizeof name_keys / sizeof name_keys[0]; i++) {
        if (strcmp(name_keys[i], key) == 0) {
            return true;
        }
    }
    return false;
}

/* Replaces a text, or all texts in an array, and goes into what is nested. */
static json_t *redact_value(const struct debug_bundle *bundle, json_t *value,
                            bool is_name)
{
    char hash[HASH_TEXT_SIZE];
    size_t i;
    const char *key;
    json_t *element;
    void *next;
    if (json_is_string(value) && is_name && json_string_length(value) > 0) {
        hash_name(bundle,
                  bytes_of(json_string_value(value), json_string_length(value)),
                  hash);
        return json_string(hash);
    }
    if (json_is_array(value)) {
        json_array_foreach (value, i, element) {
            json_array_set_new(value, i,
                               redact_value(bundle, element, is_name));
        }
    }
    json_object_foreach_safe(value, next, key, element)
    {
        json_object_set_new(
            value, key,
            redact_value(bundle, element, is_name || is_name_key(key)));
    }
    return json_incref(value);
}

void redact_json(const struct debug_bundle *bundle, json_t *value)
{
    json_decref(redact_value(bundle, value, false));
}

/* Bytes up to the closing quote, which a backslash does not escape. */
static size_t quoted_size(struct bytes text)
{
    size_t size = 0;
    while (size < text.size && text.data[size] != '"' &&
           text.data[size] != '\n') {
        size += text.data[size] == '\\' && size + 1 < text.size ? 2 : 1;
    }
    return size < text.size ? size : text.size;
}

static bool ends_with(const struct buffer *out, const char *word)
{
    size_t size = strlen(word);
    return out->size >= size &&
           memcmp(out->data + out->size - size, word, size) == 0;
}

void redact_lines(const struct debug_bundle *bundle, struct bytes lines,
                  struct buffer *out)
{
    char hash[HASH_TEXT_SIZE];
    for (size_t i = 0; i < lines.size; i++) {
        buffer_put(out, lines.data + i, 1);
        if (lines.data[i] != '"') {
            continue;
        }
        struct bytes rest = bytes_of(lines.data + i + 1, lines.size - i - 1);
        struct bytes quoted = bytes_of(rest.data, quoted_size(rest));
        if (ends_with(out, "event=\"") || ends_with(out, "frames=\"") ||
            ends_with(out, "check=\"")) {
            buffer_put(out, quoted.data, quoted.size);
        } else {
            hash_name(bundle, quoted, hash);
            buffer_put_text(out, hash);
        }
        i += quoted.size;
        if (i + 1 < lines.size) {
            i++;
            buffer_put(out, lines.data + i, 1); /* The closing quote. */
        }
    }
}
