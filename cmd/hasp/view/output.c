/* SPDX-License-Identifier: MIT */

#include "cmd/hasp/view/output.h"

#include <inttypes.h>
#include <libsmartcols/libsmartcols.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <wchar.h>

#include "base/check.h"
#include "base/duration.h"
#include "base/memory.h"
#include "cmd/hasp/view/screen.h"
#include "net/json.h"

/* A narrower terminal wraps the lines. */
#define WIDTH_MIN 60
#define TEXT_SHARE 0.05

/* Appends the bytes: "\xHH" for bytes that are not UTF-8 or could control a
 * terminal, "\\" for a backslash, so that it can be read back. */
static void put_escaped(struct buffer *out, struct bytes bytes,
                        bool keeps_lines)
{
    for (size_t i = 0; i < bytes.size;) {
        const uint8_t *at = bytes.data + i;
        size_t size = bytes_printable(bytes_of(at, bytes.size - i));
        if (at[0] == '\\' && !keeps_lines) {
            buffer_put_text(out, "\\\\");
        } else if (size > 0 || (at[0] == '\n' && keeps_lines)) {
            buffer_put(out, at, size > 0 ? size : 1);
        } else {
            buffer_printf(out, "\\x%02x", at[0]);
        }
        i += size > 0 ? size : 1;
    }
}

json_t *value_of_bytes(struct bytes bytes)
{
    AUTO(buffer_done) struct buffer text = {0};
    json_t *value = json_string_of(bytes);
    if (value == NULL) {
        put_escaped(&text, bytes, false);
        value = json_string_of(buffer_bytes(&text));
    }
    return value;
}

json_t *value_of_reply(const struct resp_reply *reply, uint32_t at)
{
    return json_of_reply(reply, at, value_of_bytes);
}

json_t *value_at(json_t *value, const char *path)
{
    while (value != NULL && *path != '\0') {
        char word[64];
        size_t size = strcspn(path, ".");
        CHECK(size < sizeof word);
        memcpy(word, path, size);
        word[size] = '\0';
        value = json_is_array(value)
                    ? json_array_get(value, strtoul(word, NULL, 10))
                    : json_object_get(value, word);
        path += size + (path[size] == '.');
    }
    return value;
}

const char *value_text(json_t *value, const char *path)
{
    const char *text = json_string_value(value_at(value, path));
    return text != NULL ? text : "";
}

uint64_t value_number(json_t *value, const char *path)
{
    json_t *found = value_at(value, path);
    return json_is_integer(found) && json_integer_value(found) > 0
               ? (uint64_t)json_integer_value(found)
               : 0;
}

void value_add_time(json_t *record, const char *key, const char *if_none)
{
    char text[32] = "";
    time_t seconds = (time_t)(value_number(record, key) / 1000);
    struct tm parts;
    if (seconds != 0 && localtime_r(&seconds, &parts) != NULL) {
        strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &parts);
    }
    json_object_set_new(record, "time",
                        json_string(seconds != 0 ? text : if_none));
}

/* True if the text under 'key' is escaped already. */
static bool is_escaped(json_t *object, const char *key)
{
    char name[80];
    snprintf(name, sizeof name, "%.70s_b64", key);
    return value_at(object, name) != NULL;
}

static void output_put_text(struct buffer *out, json_t *text)
{
    if (json_is_string(text)) {
        put_escaped(out,
                    bytes_of(json_string_value(text), json_string_length(text)),
                    false);
    } else {
        buffer_put_text(out, "...");
    }
}

void value_make_printable(json_t *value)
{
    AUTO(buffer_done) struct buffer text = {0};
    const char *key;
    json_t *element;
    size_t i;
    if (json_is_string(value)) {
        output_put_text(&text, value);
        buffer_put_u8(&text, '\0');
        json_string_set(value, (const char *)text.data);
    }
    json_object_foreach (value, key, element) {
        if (!is_escaped(value, key)) {
            value_make_printable(element);
        }
    }
    json_array_foreach (value, i, element) {
        value_make_printable(element);
    }
}

void text_print(FILE *out, const char *text)
{
    AUTO(buffer_done) struct buffer printable = {0};
    put_escaped(&printable, bytes_of_text(text), true);
    buffer_put_u8(&printable, '\0');
    fputs((const char *)printable.data, out);
}

void text_print_cut(FILE *out, const char *text, unsigned columns)
{
    AUTO(buffer_done) struct buffer printable = {0};
    mbstate_t state = {0};
    unsigned used = 0;
    put_escaped(&printable, bytes_of_text(text), true);
    buffer_put_u8(&printable, '\0');
    const char *at = (const char *)printable.data;
    while (*at != '\0') {
        wchar_t wide;
        size_t size = mbrtowc(&wide, at, printable.size, &state);
        int width = size > printable.size ? 1 : wcwidth(wide);
        size = size > printable.size ? 1 : size;
        used += width > 0 ? (unsigned)width : 0;
        if (used > columns) {
            break;
        }
        fwrite(at, 1, size, out);
        at += size;
    }
}

/* Puts an object as "k=v,k=v", an array of plain values as "a,b". */
static void put_compound(struct buffer *out, json_t *value)
{
    const char *separator = "";
    const char *key;
    json_t *element;
    size_t i;
    json_object_foreach (value, key, element) {
        buffer_printf(out, "%s%s=", separator, key);
        output_put_text(out, element);
        separator = ",";
    }
    json_array_foreach (value, i, element) {
        if (json_is_integer(element)) {
            buffer_printf(out, "%s%" JSON_INTEGER_FORMAT, separator,
                          json_integer_value(element));
        } else {
            buffer_put_text(out, separator);
            output_put_text(out, element);
        }
        separator = ",";
    }
}

static void output_put_number(struct buffer *out, enum field_kind kind,
                              json_int_t number, bool is_for_people)
{
    char text[DURATION_TEXT_SIZE];
    bool is_time = kind == FIELD_DURATION || kind == FIELD_SPAN;
    if (is_for_people && number == 0 && kind == FIELD_SPAN) {
        buffer_put_text(out, "ever");
    } else if (is_for_people && is_time && number < 0) {
        buffer_put_text(out, "never");
    } else if (is_for_people && is_time) {
        duration_format((uint64_t)number, text);
        buffer_put_text(out, text);
    } else if (!is_for_people || number != 0 || kind != FIELD_ID) {
        buffer_printf(out, "%" JSON_INTEGER_FORMAT, number);
    }
}

/* Appends a cell's text and a zero byte. */
static void put_cell(struct buffer *out, const struct view_field *field,
                     json_t *record, bool is_for_people)
{
    json_t *value = value_at(record, field->key);
    if (field->kind == FIELD_COUNT) {
        size_t count = json_is_integer(value)
                           ? (size_t)json_integer_value(value)
                           : json_array_size(value);
        buffer_printf(out, "%zu", count);
    } else if (field->kind == FIELD_FLAG) {
        bool is_set = json_is_true(value) || (json_is_integer(value) &&
                                              json_integer_value(value) != 0);
        buffer_put_text(out, is_set ? "yes" : is_for_people ? "" : "no");
    } else if (json_is_null(value) && is_for_people) {
        buffer_put_text(out, "none");
    } else if (json_is_integer(value)) {
        output_put_number(out, field->kind, json_integer_value(value),
                          is_for_people);
    } else if (json_is_real(value)) {
        buffer_printf(out, "%.2f", json_real_value(value));
    } else if (json_is_string(value) && is_escaped(record, field->key)) {
        buffer_put_text(out, json_string_value(value));
    } else if (json_is_string(value)) {
        output_put_text(out, value);
    } else {
        put_compound(out, value);
    }
    buffer_put_u8(out, '\0');
}

static void write_plain_row(const struct view_field *fields, json_t *record)
{
    AUTO(buffer_done) struct buffer cell = {0};
    for (size_t i = 0; fields[i].key != NULL; i++) {
        buffer_clear(&cell);
        put_cell(&cell, &fields[i], record, false);
        printf("%s%s", i > 0 ? "\t" : "", (const char *)cell.data);
    }
    putchar('\n');
}

static bool output_is_right(const struct view_field *field)
{
    return field->kind != FIELD_TEXT && field->kind != FIELD_ROLE &&
           field->kind != FIELD_FLAG;
}

/* Writes the header, since libsmartcols prints nothing for a table without
 * lines. */
static void write_header(const struct view_field *fields)
{
    for (size_t i = 0; fields[i].key != NULL; i++) {
        printf("%s%s", i > 0 ? " " : "", fields[i].title);
    }
    putchar('\n');
}

const char *output_colour(enum colour colour)
{
    static const char *const codes[] = {"\033[0m", "\033[1m", "\033[32m",
                                        "\033[31m"};
    const char *no_colour = getenv("NO_COLOR"), *term = getenv("TERM");
    bool is_plain = (no_colour != NULL && no_colour[0] != '\0') ||
                    term == NULL || strcmp(term, "dumb") == 0 ||
                    !isatty(STDOUT_FILENO);
    return is_plain ? "" : codes[colour];
}

/* The colour of a cell, or NULL for none. */
static const char *colour_of(const struct view_field *field, const char *text)
{
    bool is_good = strcmp(text, "leader") == 0;
    bool is_bad = strcmp(text, "unreachable") == 0 ||
                  strcmp(text, "refuses") == 0 ||
                  strcmp(text, "candidate") == 0;
    if (field->kind != FIELD_ROLE || (!is_good && !is_bad)) {
        return NULL;
    }
    const char *code = output_colour(is_good ? COLOUR_GOOD : COLOUR_BAD);
    return code[0] != '\0' ? code : NULL;
}

static struct libscols_table *table_new(void)
{
    struct libscols_table *table = scols_new_table();
    CHECK(table != NULL);
    scols_table_enable_noencoding(table, 1); /* The cells are escaped. */
    if (isatty(STDOUT_FILENO)) {
        unsigned width = screen_width(STDOUT_FILENO);
        scols_table_set_termwidth(table, width < WIDTH_MIN ? WIDTH_MIN : width);
    }
    return table;
}

static void output_write_table(const struct view_field *fields, json_t *rows)
{
    struct libscols_table *table = table_new();
    AUTO(buffer_done) struct buffer cell = {0};
    scols_table_enable_colors(table, output_colour(COLOUR_BOLD)[0] != '\0');
    for (size_t i = 0; fields[i].key != NULL; i++) {
        /* On a terminal texts are cut so that a record fits in a line; numbers
         * are not, since a cut number is wrong. */
        int flags = output_is_right(&fields[i])    ? SCOLS_FL_RIGHT
                    : fields[i].kind == FIELD_TEXT ? SCOLS_FL_TRUNC
                                                   : 0;
        /* The first text says what the line is about, so the others are cut
         * before it: columns with a share of the width give way first. */
        double share = i > 0 && fields[i].kind == FIELD_TEXT ? TEXT_SHARE : 0;
        CHECK(scols_table_new_column(table, fields[i].title, share, flags) !=
              NULL);
    }
    for (size_t r = 0; r < json_array_size(rows); r++) {
        struct libscols_line *line = scols_table_new_line(table, NULL);
        CHECK(line != NULL);
        for (size_t i = 0; fields[i].key != NULL; i++) {
            buffer_clear(&cell);
            put_cell(&cell, &fields[i], json_array_get(rows, r), true);
            const char *text = (const char *)cell.data;
            CHECK(scols_line_set_data(line, i, text) == 0);
            scols_cell_set_color(scols_line_get_cell(line, i),
                                 colour_of(&fields[i], text));
        }
    }
    scols_print_table(table);
    scols_unref_table(table);
}

void output_rows(enum format format, const struct view_field *fields,
                 json_t *rows)
{
    if (format == FORMAT_JSON) {
        output_json(rows);
    } else if (format == FORMAT_PLAIN) {
        for (size_t r = 0; r < json_array_size(rows); r++) {
            write_plain_row(fields, json_array_get(rows, r));
        }
    } else if (json_array_size(rows) == 0) {
        write_header(fields);
    } else {
        output_write_table(fields, rows);
    }
}

void output_record(enum format format, const struct view_field *fields,
                   json_t *record)
{
    if (format == FORMAT_JSON) {
        output_json(record);
        return;
    }
    if (format == FORMAT_PLAIN) {
        write_plain_row(fields, record);
        return;
    }
    AUTO(buffer_done) struct buffer cell = {0};
    struct libscols_table *table = table_new();
    scols_table_enable_noheadings(table, 1);
    CHECK(scols_table_new_column(table, "title", 0, 0) != NULL);
    CHECK(scols_table_new_column(table, "value", 0, 0) != NULL);
    for (size_t i = 0; fields[i].key != NULL; i++) {
        struct libscols_line *line = scols_table_new_line(table, NULL);
        CHECK(line != NULL);
        buffer_clear(&cell);
        /* In a column unset flags stay blank; here "no" is the answer. */
        put_cell(&cell, &fields[i], record, fields[i].kind != FIELD_FLAG);
        CHECK(scols_line_set_data(line, 0, fields[i].title) == 0);
        CHECK(scols_line_set_data(line, 1, (const char *)cell.data) == 0);
    }
    scols_print_table(table);
    scols_unref_table(table);
}

void output_json(json_t *value)
{
    json_dumpf(value, stdout, JSON_INDENT(2) | JSON_ENCODE_ANY);
    putchar('\n');
}
