/* SPDX-License-Identifier: MIT */

/* Results as tables for people, JSON for programs, plain lines for scripts.
 *
 * A result is a JSON value made of the reply, so that the keys are those of the
 * protocol. One list of fields says what a table or a plain line shows of it;
 * JSON shows everything.
 *
 *     table   columns with headings, by libsmartcols
 *     json    an array of objects, or one object
 *     plain   one line per record, fields separated by tabs, no headings, times
 *             in milliseconds */

#ifndef HASP_CMD_HASP_VIEW_OUTPUT_H
#define HASP_CMD_HASP_VIEW_OUTPUT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "client/client.h"

enum format { FORMAT_TABLE, FORMAT_JSON, FORMAT_PLAIN };

enum field_kind {
    FIELD_TEXT,
    FIELD_NUMBER,   /* Right-aligned. */
    FIELD_ID,       /* Right-aligned; in a table "" if it is 0. */
    FIELD_DURATION, /* Milliseconds; in a table "2m10s", below 0 "never". */
    FIELD_SPAN,     /* Milliseconds; in a table "ever" if it is 0. */
    FIELD_COUNT,    /* Number of elements of an array. */
    FIELD_ROLE,     /* Role of a node; in colour on a terminal. */
    FIELD_FLAG      /* "yes" or "no"; in a column of a table "yes" or "". */
};

struct view_field {
    const char *key; /* A path: "holders.0.client". */
    const char *title;
    enum field_kind kind;
};

/* The value at 'at' of a reply, with its elements. Bytes that are not UTF-8
 * become "\xHH". */
json_t *value_of_reply(const struct resp_reply *reply, uint32_t at);

/* A string of these bytes, escaped in the same way. */
json_t *value_of_bytes(struct bytes bytes);

/* The value under a path, or NULL. */
json_t *value_at(json_t *value, const char *path);
const char *value_text(json_t *value, const char *path); /* "" if none. */
uint64_t value_number(json_t *value, const char *path);  /* 0 if none. */

/* Adds "time", in local time, of the milliseconds under 'key', or 'if_none' if
 * they are 0. */
void value_add_time(json_t *record, const char *key, const char *if_none);

/* Replaces control characters in all texts inside by "\xHH": a terminal would
 * obey them, and names and messages come from other users. Use it for what is
 * printed by hand; tables and plain lines do it themselves. */
void value_make_printable(json_t *value);
/* The same for a message of several lines; line breaks are kept. */
void text_print(FILE *out, const char *text);
/* The same for one line, cut to this many columns. */
void text_print_cut(FILE *out, const char *text, unsigned columns);

/* Writes records ('rows' is an array of objects); 'fields' end with a key of
 * NULL. */
void output_rows(enum format format, const struct view_field *fields,
                 json_t *rows);
/* Writes one record; in a table its fields are below each other. */
void output_record(enum format format, const struct view_field *fields,
                   json_t *record);
void output_json(json_t *value);

enum colour { COLOUR_NONE, COLOUR_BOLD, COLOUR_GOOD, COLOUR_BAD };

/* The sequence that switches to a colour, or back with COLOUR_NONE; "" if
 * stdout is not a terminal with colours, or NO_COLOR is set
 * (https://no-color.org). */
const char *output_colour(enum colour colour);

#endif /* HASP_CMD_HASP_VIEW_OUTPUT_H */
