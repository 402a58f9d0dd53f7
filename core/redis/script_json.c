/* SPDX-License-Identifier: MIT */

/* cjson.decode and cjson.encode. Lists are arrays, tables with names are
 * objects, an empty table is {}. There is no null, because Lua's nil would drop
 * it. Source: RFC 8259; the escaped characters are those of Redis's cjson. */

#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "core/redis/script_lex.h"
#include "core/redis/script_machine.h"

#define JSON_DEPTH_MAX 32

struct json {
    struct script_machine *machine;
    struct bytes text;
    size_t at;
    uint32_t depth;
    struct text out;
};

static bool script_json_fail(struct json *json, const char *why)
{
    return machine_fail(json->machine, "cjson: %s", why);
}

/* --- Decoding ------------------------------------------------------------- */

static bool read_any(struct json *json, struct value *ret);

static int script_json_peek(const struct json *json)
{
    return json->at < json->text.size ? json->text.data[json->at] : -1;
}

static int skip_space(struct json *json)
{
    while (script_json_peek(json) == ' ' ||
           (script_json_peek(json) >= '\t' && script_json_peek(json) <= '\r')) {
        json->at++;
    }
    return script_json_peek(json);
}

static bool script_json_accept(struct json *json, int c)
{
    if (skip_space(json) != c) {
        return false;
    }
    json->at++;
    return true;
}

/* Reads four hexadecimal digits. */
static bool read_code(struct json *json, uint32_t *ret_code)
{
    uint32_t code = 0;
    for (int i = 0; i < 4; i++, json->at++) {
        int c = script_json_peek(json), lower = c | 0x20;
        if (c >= '0' && c <= '9') {
            code = 16 * code + (uint32_t)(c - '0');
        } else if (c >= 0 && lower >= 'a' && lower <= 'f') {
            code = 16 * code + (uint32_t)(lower - 'a' + 10);
        } else {
            return script_json_fail(json, "invalid escape in a string");
        }
    }
    *ret_code = code;
    return true;
}

static bool add_utf8(struct json *json, uint32_t code)
{
    uint8_t utf8[4];
    /* Four digits, or a pair of surrogates, cannot give more. */
    CHECK(code < 0x110000);
    size_t size = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    static const uint8_t marks[] = {0, 0, 0xc0, 0xe0, 0xf0};
    for (size_t i = size; i-- > 0; code >>= 6) {
        utf8[i] = (uint8_t)(i > 0 ? 0x80 | (code & 0x3f) : marks[size] | code);
    }
    return text_add(&json->out, bytes_of(utf8, size));
}

/* Reads the second half of a surrogate pair, whose first half is 'high'. */
static bool read_low_half(struct json *json, uint32_t high, uint32_t *ret_code)
{
    uint32_t low;
    bool is_high = (high & 0x400) == 0;
    for (const char *c = "\\u"; is_high && *c != '\0'; c++) {
        is_high = script_json_peek(json) == *c;
        json->at += is_high;
    }
    if (!is_high) {
        return script_json_fail(json, "half a surrogate pair");
    }
    if (!read_code(json, &low)) {
        return false;
    }
    if ((low & 0xfc00) != 0xdc00) {
        return script_json_fail(json, "half a surrogate pair");
    }
    *ret_code = 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
    return true;
}

/* Reads an escape after its backslash. */
static bool script_json_read_escape(struct json *json)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    int c = script_json_peek(json);
    uint32_t code;
    json->at++;
    const char *found = c > 0 ? strchr(from, c) : NULL;
    if (found != NULL) {
        return text_add(&json->out, bytes_of(&to[found - from], 1));
    }
    if (c != 'u' || !read_code(json, &code)) {
        return c == 'u' ? false
                        : script_json_fail(json, "invalid escape in a string");
    }
    if ((code & 0xf800) == 0xd800 && !read_low_half(json, code, &code)) {
        return false;
    }
    return add_utf8(json, code);
}

/* Reads a string after its opening quote. */
static bool script_json_read_text(struct json *json, struct bytes *ret_text)
{
    json->out = (struct text){.machine = json->machine};
    for (;;) {
        int c = script_json_peek(json);
        if (c == -1 || c < 0x20) {
            return script_json_fail(json, "unterminated string");
        }
        /* Each byte costs a step: a long text must not hold up the leader. */
        if (!machine_step(json->machine)) {
            return false;
        }
        json->at++;
        if (c == '"') {
            *ret_text = bytes_of(json->out.data, json->out.size);
            return true;
        }
        uint8_t byte = (uint8_t)c;
        if (c == '\\' ? !script_json_read_escape(json)
                      : !text_add(&json->out, bytes_of(&byte, 1))) {
            return false;
        }
    }
}

static bool read_word(struct json *json, struct value *ret)
{
    size_t from = json->at;
    while (script_json_peek(json) == '-' || script_json_peek(json) == '+' ||
           script_json_peek(json) == '.' ||
           (script_json_peek(json) >= '0' && script_json_peek(json) <= '9') ||
           (script_json_peek(json) >= 'a' && script_json_peek(json) <= 'z') ||
           script_json_peek(json) == 'E') {
        json->at++;
    }
    struct bytes word = bytes_of(json->text.data + from, json->at - from);
    double number;
    if (bytes_equal(word, BYTES_LITERAL("true")) ||
        bytes_equal(word, BYTES_LITERAL("false"))) {
        *ret = value_of_bool(word.size == 4);
        return true;
    }
    if (bytes_equal(word, BYTES_LITERAL("null"))) {
        return script_json_fail(json, "hasp has no null in scripts");
    }
    if (word.size == 0 || !text_to_number(word, &number)) {
        return script_json_fail(json, "expected a value");
    }
    *ret = value_of_number(number);
    return true;
}

static bool read_field(struct json *json, struct value_table *table)
{
    struct bytes name;
    struct value value;
    json->machine->steps += table->field_count / FIELDS_PER_STEP;
    if (!script_json_accept(json, '"') || !script_json_read_text(json, &name)) {
        return script_json_fail(json, "expected a name in quotes");
    }
    if (!script_json_accept(json, ':')) {
        return script_json_fail(json, "':' expected");
    }
    if (!read_any(json, &value) ||
        !machine_spend(json->machine, sizeof(struct value_field))) {
        return false;
    }
    value_set_field(json->machine->run->arena, table, name, &value);
    return true;
}

static bool read_item(struct json *json, struct value_table *table)
{
    struct value value;
    if (!read_any(json, &value) || !machine_spend_item(json->machine, table)) {
        return false;
    }
    value_append(json->machine->run->arena, table, &value);
    return true;
}

/* Reads an object or a list after its opening bracket. */
static bool read_table(struct json *json, bool is_object, struct value *ret)
{
    int end = is_object ? '}' : ']';
    /* Memory is charged to the script before it is taken. */
    if (!machine_spend(json->machine, sizeof(struct value_table))) {
        return false;
    }
    *ret = value_new_table(json->machine->run->arena);
    if (script_json_accept(json, end)) {
        return true;
    }
    for (;;) {
        if (is_object ? !read_field(json, ret->table)
                      : !read_item(json, ret->table)) {
            return false;
        }
        if (script_json_accept(json, end)) {
            return true;
        }
        if (!script_json_accept(json, ',')) {
            return script_json_fail(json, "expected ',' or the end of a list");
        }
    }
}

static bool read_any(struct json *json, struct value *ret)
{
    struct bytes text;
    if (!machine_step(json->machine)) {
        return false;
    }
    if (script_json_accept(json, '"')) {
        bool is_good = script_json_read_text(json, &text);
        *ret = value_of_text(text);
        return is_good;
    }
    bool is_object = script_json_accept(json, '{');
    if (!is_object && !script_json_accept(json, '[')) {
        return read_word(json, ret);
    }
    /* The reader recurses, so the nesting of a text has a bound. */
    if (++json->depth > JSON_DEPTH_MAX) {
        return script_json_fail(json, "nested too deeply");
    }
    bool is_good = read_table(json, is_object, ret);
    CHECK(json->depth > 0);
    json->depth--;
    return is_good;
}

bool json_decode(struct script_machine *machine, struct bytes text,
                 struct value *ret)
{
    struct json json = {.machine = machine, .text = text};
    if (!read_any(&json, ret)) {
        return false;
    }
    CHECK(json.depth == 0 && json.at <= text.size);
    return skip_space(&json) == -1 ||
           script_json_fail(&json, "unexpected text after the value");
}

/* --- Encoding ------------------------------------------------------------- */

static bool write_any(struct json *json, const struct value *value);

static bool script_json_put(struct json *json, const char *text)
{
    return text_add(&json->out, bytes_of_text(text));
}

static bool write_text(struct json *json, struct bytes text)
{
    static const char from[] = "\"\\/\b\f\n\r\t", to[] = "\"\\/bfnrt";
    bool is_good = script_json_put(json, "\"");
    for (size_t i = 0; is_good && i < text.size; i++) {
        uint8_t c = text.data[i];
        char escaped[8] = {'\\', 0};
        /* strchr() finds the end of the string for 0. */
        const char *found = c > 0 ? strchr(from, c) : NULL;
        if (!machine_step(json->machine)) {
            return false;
        }
        if (found != NULL) {
            escaped[1] = to[found - from];
            is_good = script_json_put(json, escaped);
        } else if (c < 0x20 || c == 0x7f) {
            snprintf(escaped, sizeof escaped, "\\u%04x", c);
            is_good = script_json_put(json, escaped);
        } else {
            is_good = text_add(&json->out, bytes_of(&c, 1));
        }
    }
    return is_good && script_json_put(json, "\"");
}

/* Writes the fields in the order in which they were set; their list has the
 * newest first. */
static bool write_object(struct json *json, const struct value_table *table)
{
    uint32_t count = 0, at;
    for (const struct value_field *f = table->fields; f != NULL; f = f->next) {
        count++;
    }
    const struct value_field **field;
    /* A script chose the size of the table: memory is charged before it is
     * taken. */
    if (!machine_spend(json->machine, count * sizeof *field)) {
        return false;
    }
    field = arena_take(json->machine->run->arena, count * sizeof *field);
    at = count;
    for (const struct value_field *f = table->fields; f != NULL; f = f->next) {
        field[--at] = f;
    }
    CHECK(at == 0);
    bool is_good = script_json_put(json, "{"), is_first = true;
    for (at = 0; is_good && at < count; at++) {
        if (field[at]->value.type == VALUE_NIL) {
            continue;
        }
        is_good = (is_first || script_json_put(json, ",")) &&
                  write_text(json, field[at]->name) &&
                  script_json_put(json, ":") &&
                  write_any(json, &field[at]->value);
        is_first = false;
    }
    return is_good && script_json_put(json, "}");
}

static bool write_list(struct json *json, const struct value_table *table)
{
    bool is_good = script_json_put(json, "[");
    for (uint32_t i = 0; is_good && i < table->count; i++) {
        is_good = (i == 0 || script_json_put(json, ",")) &&
                  write_any(json, &table->item[i]);
    }
    return is_good && script_json_put(json, "]");
}

static bool script_json_write_table(struct json *json,
                                    const struct value_table *table)
{
    if (table->count > 0 && table->fields != NULL) {
        return script_json_fail(json, "a table with both items and names");
    }
    if (++json->depth > JSON_DEPTH_MAX) {
        return script_json_fail(json, "nested too deeply");
    }
    bool is_good = table->count > 0 ? write_list(json, table)
                                    : write_object(json, table);
    CHECK(json->depth > 0);
    json->depth--;
    return is_good;
}

static bool write_any(struct json *json, const struct value *value)
{
    struct bytes text;
    if (!machine_step(json->machine)) {
        return false;
    }
    switch (value->type) {
    case VALUE_TEXT:
        return write_text(json, value->text);
    case VALUE_TABLE:
        return script_json_write_table(json, value->table);
    case VALUE_FALSE:
    case VALUE_TRUE:
        return script_json_put(json, value_is_true(value) ? "true" : "false");
    case VALUE_NUMBER:
        /* True for infinities and NaN alone. */
        if (value->number - value->number != 0) {
            return script_json_fail(json,
                                    "a number that JSON cannot represent");
        }
        return machine_text(json->machine, value, LUA_DIGITS, &text) &&
               text_add(&json->out, text);
    default:
        return script_json_fail(json, "a value that JSON cannot represent");
    }
}

bool json_encode(struct script_machine *machine, const struct value *value,
                 struct value *ret)
{
    struct json json = {.machine = machine};
    json.out = (struct text){.machine = machine};
    if (!write_any(&json, value)) {
        return false;
    }
    CHECK(json.depth == 0); /* Each table that was entered has been left. */
    *ret = value_of_text(bytes_of(json.out.data, json.out.size));
    return true;
}
