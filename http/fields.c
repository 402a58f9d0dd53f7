/* SPDX-License-Identifier: MIT */

/* Reading fields, and making a command from them. */

#include "http/fields.h"

#include <ctype.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "base/check.h"
#include "base/memory.h"
#include "base/traceparent.h"
#include "http/uri.h"

#define BASE64_SUFFIX "_b64"
#define ACKED_SIZE_MAX 1024

void words_put(struct words *words, struct bytes word)
{
    ROOM(words->end, words->capacity, words->count + 1);
    buffer_put_bytes(&words->bytes, word);
    words->end[words->count++] = words->bytes.size;
}

void words_put_text(struct words *words, const char *word)
{
    words_put(words, bytes_of_text(word));
}

void words_put_number(struct words *words, uint64_t number)
{
    char text[24];
    snprintf(text, sizeof text, "%" PRIu64, number);
    words_put_text(words, text);
}

struct bytes words_at(const struct words *words, uint32_t at)
{
    CHECK(at < words->count);
    size_t from = at == 0 ? 0 : words->end[at - 1];
    size_t size = words->end[at] - from;
    return size > 0 ? bytes_of(words->bytes.data + from, size)
                    : bytes_of("", 0);
}

void words_done(struct words *words)
{
    buffer_done(&words->bytes);
    free(words->end);
    *words = (struct words){0};
}

void fields_done(struct fields *fields)
{
    words_done(&fields->texts);
}

/* The value being read. */
struct reading {
    struct fields *fields;
    const struct field *field;
    struct value *value;
    /* The request has the value in base64, under the name with "_b64". */
    bool is_base64;
    struct problem *problem;
};

#define REFUSE(reading, ...)                                                \
    (problem_set((reading)->problem, 400, "BADARG", (reading)->field->name, \
                 __VA_ARGS__),                                              \
     false)

/* Finds the field 'name', which may end in "_b64". */
static bool fields_find_field(struct reading *reading, struct bytes name)
{
    const struct route *route = reading->fields->route;
    for (uint32_t i = 0; route->fields[i].kind != FIELD_END; i++) {
        const struct field *field = &route->fields[i];
        size_t size = strlen(field->name);
        reading->field = field;
        reading->value = &reading->fields->value[i];
        reading->is_base64 = field->kind == FIELD_TEXT &&
                             name.size == size + strlen(BASE64_SUFFIX) &&
                             memcmp(name.data + size, BASE64_SUFFIX,
                                    strlen(BASE64_SUFFIX)) == 0;
        if ((reading->is_base64 || name.size == size) &&
            memcmp(name.data, field->name, size) == 0) {
            return true;
        }
    }
    return false;
}

static bool refuse_unknown(struct reading *reading, struct bytes name,
                           const char *parameter, size_t parameter_size)
{
    const struct route *route = reading->fields->route;
    AUTO(buffer_done) struct buffer known = {0};
    char text[BYTES_SHOWN_SIZE];
    for (uint32_t i = 0; route->fields[i].kind != FIELD_END; i++) {
        const char *one = route->fields[i].name;
        if (parameter == NULL || strncmp(one, parameter, parameter_size) != 0) {
            buffer_printf(&known, "%s%s", known.size > 0 ? ", " : "", one);
        }
    }
    buffer_put_u8(&known, '\0');
    problem_set(reading->problem, 400, "BADARG", NULL,
                "unknown field '%s'; allowed: %s", bytes_shown(name, text),
                known.size > 1 ? (const char *)known.data : "nothing");
    return false;
}

static bool fields_take_number(struct reading *reading, uint64_t number)
{
    uint64_t min, max;
    field_range(reading->field, &min, &max);
    if (number < min || number > max) {
        return REFUSE(reading, "%s must be from %" PRIu64 " to %" PRIu64,
                      reading->field->name, min, max);
    }
    reading->value->number = number;
    return true;
}

static void add_text(struct reading *reading, struct bytes text)
{
    struct words *texts = &reading->fields->texts;
    if (reading->value->count++ == 0) {
        reading->value->first = texts->count;
    }
    words_put(texts, text);
}

static bool fields_take_text(struct reading *reading, struct bytes text)
{
    uint64_t min, max;
    field_range(reading->field, &min, &max);
    if (reading->is_base64) {
        AUTO(buffer_done) struct buffer bytes = {0};
        /* The size that counts is that of the decoded bytes. */
        bool is_good = base64_get(&bytes, text) && bytes.size >= min &&
                       bytes.size <= max;
        if (is_good) {
            add_text(reading, buffer_bytes(&bytes));
        }
        return is_good ||
               REFUSE(reading,
                      "%s" BASE64_SUFFIX " must be base64 of %" PRIu64
                      " to %" PRIu64 " bytes",
                      reading->field->name, min, max);
    }
    if (text.size < min || text.size > max) {
        return REFUSE(reading, "%s must have %" PRIu64 " to %" PRIu64 " bytes",
                      reading->field->name, min, max);
    }
    add_text(reading, text);
    return true;
}

/* Accepts one of the words "A|B", given in lower case, as the command spells
 * it. */
static bool fields_take_choice(struct reading *reading, struct bytes text)
{
    const char *at = reading->field->word;
    while (*at != '\0') {
        size_t size = strcspn(at, "|");
        bool is_same = size == text.size;
        for (size_t i = 0; is_same && i < size; i++) {
            is_same = text.data[i] == (uint8_t)tolower((unsigned char)at[i]);
        }
        if (is_same) {
            add_text(reading, bytes_of(at, size));
            return true;
        }
        at += size + (at[size] == '|');
    }
    return REFUSE(reading, "%s must be one of %s, in lower case",
                  reading->field->name, reading->field->word);
}

static bool take_acked(struct reading *reading, struct bytes text)
{
    for (size_t i = 0; i < text.size; i++) {
        if (strchr("0123456789,-", text.data[i]) == NULL) {
            text.size = 0;
        }
    }
    if (text.size == 0 || text.size > ACKED_SIZE_MAX) {
        return REFUSE(reading,
                      "acked must be a number, or a text as \"4,6-9\"");
    }
    add_text(reading, text);
    return true;
}

/* --- As text: of a path, or of a query ------------------------------------ */

static bool take_decoded(struct reading *reading, struct bytes text)
{
    uint64_t number;
    switch (reading->field->kind) {
    case FIELD_NUMBER:
        return bytes_to_u64(text, &number)
                   ? fields_take_number(reading, number)
                   : REFUSE(reading, "%s must be a whole number",
                            reading->field->name);
    case FIELD_FLAG:
        reading->value->number = bytes_is_word(text, "TRUE");
        return bytes_is_word(text, "TRUE") || bytes_is_word(text, "FALSE") ||
               REFUSE(reading, "%s must be true or false",
                      reading->field->name);
    case FIELD_TEXT:
        return fields_take_text(reading, text);
    default:
        return REFUSE(reading, "%s is not allowed in a query",
                      reading->field->name);
    }
}

static bool take_encoded(struct reading *reading, struct bytes text,
                         bool is_query)
{
    AUTO(buffer_done) struct buffer decoded = {0};
    bool is_good = uri_decode(text, is_query, &decoded)
                       ? take_decoded(reading, buffer_bytes(&decoded))
                       : REFUSE(reading,
                                "%s has a '%%' without two hex digits; write "
                                "%%25 for a '%%'",
                                reading->field->name);
    reading->value->is_given = true;
    return is_good;
}

/* Starts a value; one that the path has given must not be given again. */
static bool begin_value(struct reading *reading, struct bytes name)
{
    size_t size = 0;
    const char *parameter = route_parameter(reading->fields->route, &size);
    if (!fields_find_field(reading, name) ||
        (parameter != NULL &&
         strncmp(reading->field->name, parameter, size) == 0)) {
        return refuse_unknown(reading, name, parameter, size);
    }
    return !reading->value->is_given ||
           REFUSE(reading, "duplicate %s", reading->field->name);
}

static bool read_query(struct reading *reading, struct bytes query)
{
    struct bytes key, text;
    while (uri_next(&query, &key, &text)) {
        if (!begin_value(reading, key) || !take_encoded(reading, text, true)) {
            return false;
        }
    }
    return true;
}

/* --- As JSON -------------------------------------------------------------- */

static struct bytes fields_text_of(const json_t *json)
{
    return bytes_of(json_string_value(json), json_string_length(json));
}

static bool take_texts(struct reading *reading, const json_t *json)
{
    size_t count = json_array_size(json);
    if (!json_is_array(json) || count < reading->field->min ||
        count > reading->field->max) {
        return REFUSE(
            reading, "%s must be an array of %" PRIu64 " to %" PRIu64 " texts",
            reading->field->name, reading->field->min, reading->field->max);
    }
    for (size_t i = 0; i < count; i++) {
        if (!json_is_string(json_array_get(json, i))) {
            return REFUSE(reading, "%s must be an array of texts",
                          reading->field->name);
        }
        add_text(reading, fields_text_of(json_array_get(json, i)));
    }
    return true;
}

static bool take_numbers(struct reading *reading, const json_t *json)
{
    char number[24];
    for (size_t i = 0; i < json_array_size(json); i++) {
        const json_t *one = json_array_get(json, i);
        if (!json_is_integer(one)) {
            break;
        }
        snprintf(number, sizeof number, "%" JSON_INTEGER_FORMAT,
                 json_integer_value(one));
        add_text(reading, bytes_of_text(number));
        if (i + 1 == json_array_size(json)) {
            return true;
        }
    }
    return REFUSE(reading, "%s must be an array of numbers",
                  reading->field->name);
}

static bool take_pairs(struct reading *reading, json_t *json)
{
    const char *key;
    json_t *text;
    if (!json_is_object(json)) {
        return REFUSE(reading, "%s must be an object of texts",
                      reading->field->name);
    }
    for (void *at = json_object_iter(json); at != NULL;
         at = json_object_iter_next(json, at)) {
        key = json_object_iter_key(at);
        text = json_object_iter_value(at);
        if (!json_is_string(text)) {
            return REFUSE(reading, "%s must be an object of texts",
                          reading->field->name);
        }
        add_text(reading, bytes_of(key, json_object_iter_key_len(at)));
        add_text(reading, fields_text_of(text));
    }
    return true;
}

static bool take_json_number(struct reading *reading, const json_t *json)
{
    if (!json_is_integer(json)) {
        return REFUSE(reading, "%s must be a whole number",
                      reading->field->name);
    }
    json_int_t number = json_integer_value(json);
    uint64_t min, max;
    field_range(reading->field, &min, &max);
    return fields_take_number(reading, number < 0 ? max + 1 : (uint64_t)number);
}

static bool take_json(struct reading *reading, json_t *json)
{
    char number[24];
    switch (reading->field->kind) {
    case FIELD_NUMBER:
        return take_json_number(reading, json);
    case FIELD_FLAG:
        reading->value->number = json_is_true(json);
        return json_is_boolean(json) ||
               REFUSE(reading, "%s must be true or false",
                      reading->field->name);
    case FIELD_TEXTS:
        return take_texts(reading, json);
    case FIELD_NUMBERS:
        return take_numbers(reading, json);
    case FIELD_PAIRS:
        return take_pairs(reading, json);
    case FIELD_ACKED:
        if (json_is_integer(json)) {
            snprintf(number, sizeof number, "%" JSON_INTEGER_FORMAT,
                     json_integer_value(json));
            return take_acked(reading, bytes_of_text(number));
        }
        return take_acked(reading, json_is_string(json) ? fields_text_of(json)
                                                        : bytes_of("", 0));
    default:
        if (!json_is_string(json)) {
            return REFUSE(reading, "%s must be a text", reading->field->name);
        }
        return reading->field->kind == FIELD_CHOICE
                   ? fields_take_choice(reading, fields_text_of(json))
                   : fields_take_text(reading, fields_text_of(json));
    }
}

static bool read_object(struct reading *reading, json_t *object)
{
    for (void *at = json_object_iter(object); at != NULL;
         at = json_object_iter_next(object, at)) {
        struct bytes name = bytes_of(json_object_iter_key(at),
                                     json_object_iter_key_len(at));
        if (!begin_value(reading, name)) {
            return false;
        }
        reading->value->is_given = true;
        if (!take_json(reading, json_object_iter_value(at))) {
            return false;
        }
    }
    return true;
}

static bool read_body(struct reading *reading, struct bytes body)
{
    json_error_t error;
    if (body.size == 0) {
        return true;
    }
    json_t *json = json_loadb((const char *)body.data, body.size,
                              JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &error);
    if (!json_is_object(json)) {
        problem_set(reading->problem, 400, "BADARG", NULL,
                    "the body must be a JSON object: %s",
                    json == NULL ? error.text : "it is an array");
        json_decref(json);
        return false;
    }
    bool is_good = read_object(reading, json);
    json_decref(json);
    return is_good;
}

static bool check_whole(struct reading *reading)
{
    const struct route *route = reading->fields->route;
    for (uint32_t i = 0; route->fields[i].kind != FIELD_END; i++) {
        reading->field = &route->fields[i];
        if ((reading->field->flags & FIELD_REQUIRED) != 0 &&
            !reading->fields->value[i].is_given) {
            return REFUSE(reading, "%s is missing", reading->field->name);
        }
    }
    if ((route->flags & ROUTE_WAITS) != 0 &&
        fields_get(reading->fields, "wait_ms")->number > 0 &&
        !fields_get(reading->fields, "req")->is_given) {
        problem_set(reading->problem, 400, "BADARG", "req",
                    "wait_ms needs req: without a number, a retried request "
                    "could acquire the lock twice");
        return false;
    }
    return true;
}

int fields_read(struct fields *fields, const struct match *match,
                struct bytes query, struct bytes body,
                struct problem *ret_problem)
{
    struct reading reading = {.fields = fields, .problem = ret_problem};
    size_t size = 0;
    fields->route = match->route;
    const char *parameter = route_parameter(match->route, &size);
    bool is_good = true;
    if (parameter != NULL) {
        is_good = fields_find_field(&reading, bytes_of(parameter, size));
        CHECK(is_good);
        is_good = take_encoded(&reading, match->rest, false);
    }
    if (is_good && route_has_query(match->route)) {
        if (body.size > 0 && (match->route->flags & ROUTE_OWN_BODY) == 0) {
            problem_set(ret_problem, 400, "BADARG", NULL,
                        "%s accepts no body here; use the query",
                        match->route->method);
            return HASP_EINVALID;
        }
        is_good = read_query(&reading, query);
    } else if (is_good && query.size > 0) {
        problem_set(ret_problem, 400, "BADARG", NULL,
                    "%s accepts no query here; use the body",
                    match->route->method);
        return HASP_EINVALID;
    } else if (is_good) {
        is_good = read_body(&reading, body);
    }
    return is_good && check_whole(&reading) ? 0 : HASP_EINVALID;
}

const struct value *fields_get(const struct fields *fields, const char *name)
{
    const struct route *route = fields->route;
    uint32_t i = 0;
    while (route->fields[i].kind != FIELD_END &&
           strcmp(route->fields[i].name, name) != 0) {
        i++;
    }
    CHECK(route->fields[i].kind != FIELD_END);
    return &fields->value[i];
}

struct bytes fields_text(const struct fields *fields, const char *name)
{
    const struct value *value = fields_get(fields, name);
    return value->count > 0 ? words_at(&fields->texts, value->first)
                            : bytes_of("", 0);
}

/* Puts "TTL NONE" as two words. */
static void fields_put_words(const char *text, struct words *out)
{
    const char *end = strchr(text, ' ');
    while (end != NULL) {
        words_put(out, bytes_of(text, (size_t)(end - text)));
        text = end + 1;
        end = strchr(text, ' ');
    }
    words_put_text(out, text);
}

static void fields_put_field(const struct fields *fields,
                             const struct field *field,
                             const struct value *value, struct words *out)
{
    const struct words *texts = &fields->texts;
    if (field->kind == FIELD_FLAG) {
        if (value->number != 0) {
            fields_put_words(field->word, out);
        }
        return;
    }
    if (field->kind == FIELD_PAIRS) {
        for (uint32_t i = 0; i < value->count; i += 2) {
            if (field->word != NULL) {
                words_put_text(out, field->word);
            }
            words_put(out, words_at(texts, value->first + i));
            words_put(out, words_at(texts, value->first + i + 1));
        }
        return;
    }
    if (field->kind == FIELD_TEXTS) {
        words_put_number(out, value->count);
    } else if (field->word != NULL && field->kind != FIELD_CHOICE) {
        words_put_text(out, field->word);
    }
    if (field->kind == FIELD_NUMBER) {
        words_put_number(out, value->number);
    }
    for (uint32_t i = 0; i < value->count; i++) {
        words_put(out, words_at(texts, value->first + i));
    }
}

void fields_command(const struct fields *fields,
                    const struct words *credentials, struct words *out)
{
    const struct route *route = fields->route;
    words_put_text(out, route->command);
    if ((route->flags & ROUTE_KEEPS) != 0) {
        words_put(out, words_at(credentials, 0));
        words_put(out, words_at(credentials, 1));
    }
    /* A command's operands precede its options, whatever their order in the
     * table. */
    for (int is_option = 0; is_option < 2; is_option++) {
        for (uint32_t i = 0; route->fields[i].kind != FIELD_END; i++) {
            const struct field *field = &route->fields[i];
            if (fields->value[i].is_given &&
                (field->flags & FIELD_ASIDE) == 0 &&
                (field->word != NULL) == is_option) {
                fields_put_field(fields, field, &fields->value[i], out);
            }
        }
    }
    if (route->tail != NULL) {
        words_put_text(out, route->tail);
    }
}

void fields_trace(const struct fields *fields, const char *header,
                  struct words *out)
{
    uint8_t trace[TRACE_SIZE];
    char text[TRACE_TEXT_SIZE];
    if ((fields->route->flags & ROUTE_TRACED) == 0 || header == NULL ||
        !traceparent_parse(bytes_of_text(header), trace)) {
        return;
    }
    traceparent_format(trace, text);
    words_put_text(out, "TRACE");
    words_put_text(out, text);
}
