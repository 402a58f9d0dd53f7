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

/* True if the value that follows is one that no client or operator chose. */
static bool is_after(const struct buffer *out, const char *const *keys,
                     size_t count)
{
    for (size_t i = 0; i < count; i++) {
        size_t size = strlen(keys[i]);
        if (out->size > size &&
            memcmp(out->data + out->size - size, keys[i], size) == 0 &&
            strchr(" \n", out->data[out->size - size - 1]) != NULL) {
            return true;
        }
    }
    return false;
}

/* Hashes a value in quotes, at '"'; returns its size. */
static size_t redact_quoted(const struct debug_bundle *bundle,
                            struct bytes value, struct buffer *out)
{
    static const char *const plain[] = {"event=", "frames=", "check="};
    char hash[HASH_TEXT_SIZE];
    struct bytes rest = bytes_of(value.data + 1, value.size - 1);
    struct bytes quoted = bytes_of(rest.data, quoted_size(rest));
    bool is_plain = is_after(out, plain, sizeof plain / sizeof *plain);
    buffer_put_u8(out, '"');
    if (is_plain) {
        buffer_put(out, quoted.data, quoted.size);
    } else {
        hash_name(bundle, quoted, hash);
        buffer_put_text(out, hash);
    }
    if (1 + quoted.size == value.size) {
        return value.size;
    }
    buffer_put(out, rest.data + quoted.size, 1); /* The closing quote. */
    return quoted.size + 2;
}

/* True if the line is an operator's act or a change of a setting: its words
 * have no quotes if they need none, as in name=dave. */
static bool is_act_line(struct bytes lines)
{
    static const char *const events[] = {" event=\"administration\"",
                                         " event=\"setting changed\"",
                                         " event=\"setting not reverted\""};
    const uint8_t *end = memchr(lines.data, '\n', lines.size);
    size_t size = end != NULL ? (size_t)(end - lines.data) : lines.size;
    for (size_t i = 0; i < sizeof events / sizeof events[0]; i++) {
        if (memmem(lines.data, size, events[i], strlen(events[i])) != NULL) {
            return true;
        }
    }
    return false;
}

/* Hashes a value without quotes if it is not a number; returns its size. */
static size_t redact_word(const struct debug_bundle *bundle, struct bytes value,
                          struct buffer *out)
{
    static const char *const plain[] = {"level=", "command="};
    char hash[HASH_TEXT_SIZE];
    size_t size = 0;
    uint64_t number;
    while (size < value.size && value.data[size] != ' ' &&
           value.data[size] != '\n') {
        size++;
    }
    struct bytes word = bytes_of(value.data, size);
    if (size == 0 || bytes_to_u64(word, &number) ||
        is_after(out, plain, sizeof plain / sizeof *plain)) {
        buffer_put(out, word.data, word.size);
    } else {
        hash_name(bundle, word, hash);
        buffer_put_text(out, hash);
    }
    return size;
}

/* Redacts a line of a log in JSON: all texts but those that no client or
 * operator chose. Returns its size without the newline; 0: it is not such a
 * line. */
static size_t redact_json_line(const struct debug_bundle *bundle,
                               struct bytes lines, struct buffer *out)
{
    static const char *const plain[] = {"ts",      "level",  "node",  "event",
                                        "command", "frames", "check", NULL};
    char hash[HASH_TEXT_SIZE];
    const uint8_t *end = memchr(lines.data, '\n', lines.size);
    size_t size = end != NULL ? (size_t)(end - lines.data) : lines.size;
    json_auto_t *line = lines.data[0] == '{'
                            ? json_loadb((const char *)lines.data, size, 0,
                                         NULL)
                            : NULL;
    const char *key;
    json_t *value;
    void *next;
    json_object_foreach_safe(line, next, key, value)
    {
        size_t i = 0;
        while (plain[i] != NULL && strcmp(plain[i], key) != 0) {
            i++;
        }
        if (plain[i] != NULL || json_is_number(value)) {
            continue;
        }
        AUTO(auto_free) char *text = json_dumps(value, JSON_ENCODE_ANY);
        hash_name(
            bundle,
            json_is_string(value)
                ? bytes_of(json_string_value(value), json_string_length(value))
                : bytes_of_text(text != NULL ? text : ""),
            hash);
        json_object_set_new(line, key, json_string(hash));
    }
    AUTO(auto_free)
    char *text = line != NULL ? json_dumps(line, JSON_COMPACT) : NULL;
    if (text == NULL) {
        return 0;
    }
    buffer_put_text(out, text);
    return size;
}

/* Values in quotes, and those of acts. */
void redact_lines(const struct debug_bundle *bundle, struct bytes lines,
                  struct buffer *out)
{
    bool hashes_words = false;
    for (size_t i = 0; i < lines.size;) {
        struct bytes rest = bytes_of(lines.data + i, lines.size - i);
        size_t size = 0;
        if (i == 0 || lines.data[i - 1] == '\n') {
            hashes_words = is_act_line(rest);
            size = redact_json_line(bundle, rest, out);
        }
        if (size > 0) {
            i += size;
            continue;
        }
        if (rest.data[0] == '"') {
            size = redact_quoted(bundle, rest, out);
        } else if (hashes_words && i > 0 && lines.data[i - 1] == '=') {
            size = redact_word(bundle, rest, out);
        }
        if (size == 0) {
            buffer_put(out, rest.data, 1);
            size = 1;
        }
        i += size;
    }
}

void redact_after(const struct debug_bundle *bundle, struct bytes text,
                  const char *const *keys, struct buffer *out)
{
    char hash[HASH_TEXT_SIZE];
    for (size_t i = 0; i < text.size;) {
        struct bytes rest = bytes_of(text.data + i + 1, text.size - i - 1);
        bool is_name = false;
        for (size_t k = 0; text.data[i] == '"' && keys[k] != NULL; k++) {
            size_t size = strlen(keys[k]);
            is_name |= i >= size &&
                       memcmp(text.data + i - size, keys[k], size) == 0;
        }
        buffer_put(out, text.data + i, 1);
        i++;
        if (is_name) {
            struct bytes quoted = bytes_of(rest.data, quoted_size(rest));
            hash_name(bundle, quoted, hash);
            buffer_put_text(out, hash);
            i += quoted.size;
        }
    }
}

void redact_lines_of(const struct debug_bundle *bundle, struct bytes lines,
                     const char *start, struct buffer *out)
{
    char hash[HASH_TEXT_SIZE];
    while (lines.size > 0) {
        struct bytes line = bytes_cut(&lines, '\n');
        const uint8_t *comment = memmem(line.data, line.size, " ; ", 3);
        size_t size = strlen(start);
        size_t end = comment != NULL ? (size_t)(comment - line.data)
                                     : line.size;
        if (bytes_has_prefix(line, bytes_of_text(start)) && end > size) {
            hash_name(bundle, bytes_of(line.data + size, end - size), hash);
            buffer_printf(out, "%s%s%.*s\n", start, hash,
                          (int)(line.size - end),
                          (const char *)line.data + end);
        } else {
            buffer_put(out, line.data, line.size);
            buffer_put_u8(out, '\n');
        }
    }
}
