/* SPDX-License-Identifier: MIT */

/* Parsing requests from a stream.
 *
 * A request is parsed once: while it is incomplete, 'parsed' is the position to
 * continue from and 'state' the expected element. Arguments are kept as
 * offsets, since the input can move between two calls; they become pointers
 * when the request is complete. Only the line of a length (at most 13 bytes)
 * can be read twice. */

#include "net/resp.h"

#include <stdlib.h>

#include "base/check.h"
#include "base/memory.h"

/* An argument of an unfinished request, relative to its start. */
struct resp_span {
    uint32_t offset;
    uint32_t size;
};

enum {
    STATE_START = 0, /* At the first byte of a request. */
    STATE_SIZE,      /* At the "$n" line of argument 'count'. */
    STATE_BODY,      /* In argument 'count', whose span is known. */
    STATE_INLINE     /* In an inline line, without line feed up to 'parsed'. */
};

#define LENGTH_DIGITS_MAX 10
#define CAPACITY_FIRST 16
#define CAPACITY_KEPT 64
#define SCRATCH_KEPT 512

/* The input of one call. */
struct scan {
    struct resp_parser *parser;
    struct bytes input;
    struct resp_limits limits;
    const char *why;
};

static struct resp_limits limits_of(const struct resp_limits *given)
{
    struct resp_limits limits = *given;
    limits.argument_count_max = limits.argument_count_max > 0
                                    ? limits.argument_count_max
                                    : 1024;
    limits.argument_size_max = limits.argument_size_max > 0
                                   ? limits.argument_size_max
                                   : 64u << 10;
    limits.request_size_max = limits.request_size_max > 0
                                  ? limits.request_size_max
                                  : 256u << 10;
    limits.inline_size_max = limits.inline_size_max > 0 ? limits.inline_size_max
                                                        : 4u << 10;
    return limits;
}

static void parser_restart(struct resp_parser *parser)
{
    parser->state = STATE_START;
    parser->parsed = 0;
    parser->count = 0;
    parser->expected = 0;
}

void resp_parser_done(struct resp_parser *parser)
{
    free(parser->arguments);
    free(parser->spans);
    buffer_done(&parser->scratch);
    *parser = (struct resp_parser){.limits = parser->limits};
}

void resp_parser_trim(struct resp_parser *parser)
{
    if (parser->scratch.capacity > SCRATCH_KEPT) {
        buffer_done(&parser->scratch);
    }
    if (parser->state == STATE_START && parser->capacity > CAPACITY_KEPT) {
        free(parser->arguments);
        free(parser->spans);
        parser->arguments = NULL;
        parser->spans = NULL;
        parser->capacity = 0;
    }
}

static void borrow_arguments(struct resp_parser *parser, const uint8_t *base)
{
    for (uint32_t i = 0; i < parser->count; i++) {
        struct resp_span span = parser->spans[i];
        parser->arguments[i] = bytes_of(base + span.offset, span.size);
    }
}

static int resp_parse_refuse(struct scan *scan, int error, const char *why)
{
    scan->why = why;
    return error;
}

/* Nearly all lengths have one digit or two: true if this one has, and its line
 * is whole. */
static inline bool resp_parse_is_short(struct bytes input, size_t at,
                                       int64_t *ret_length, size_t *ret_next)
{
    const uint8_t *data = input.data + at + 1;
    if (input.size - at < 5) {
        return false;
    }
    unsigned first = data[0] - (unsigned)'0';
    unsigned second = data[1] - (unsigned)'0';
    if (first <= 9 && data[1] == '\r' && data[2] == '\n') {
        *ret_length = first;
        *ret_next = at + 4;
        return true;
    }
    *ret_length = (int64_t)first * 10 + second;
    *ret_next = at + 5;
    return first >= 1 && first <= 9 && second <= 9 && data[2] == '\r' &&
           data[3] == '\n';
}

/* Parses the digits and the line end after the '*' or '$' at 'at'. "-1" gives
 * -1; another sign, a leading zero or a blank is an error. */
static int resp_parse_parse_length(struct bytes input, size_t at,
                                   int64_t *ret_length, size_t *ret_next)
{
    const uint8_t *data = input.data;
    size_t i = at + 1;
    bool is_negative = i < input.size && data[i] == '-';
    size_t first = i += is_negative;
    int64_t length = 0;

    while (i < input.size && (uint8_t)(data[i] - '0') <= 9) {
        length = length * 10 + (data[i] - '0');
        i++;
        if (i - first > 1 && data[first] == '0') {
            return HASP_EPROTO;
        }
        /* Before the number can overflow. */
        if (i - first > LENGTH_DIGITS_MAX) {
            return HASP_ETOOBIG;
        }
    }
    if (i == input.size) {
        return HASP_EMORE;
    }
    if (data[i] != '\r' || i == first || (is_negative && length != 1)) {
        return HASP_EPROTO;
    }
    if (i + 1 == input.size) {
        return HASP_EMORE;
    }
    if (data[i + 1] != '\n') {
        return HASP_EPROTO;
    }
    *ret_length = is_negative ? -1 : length;
    *ret_next = i + 2;
    return 0;
}

/* Parses the "*n" line. */
static int resp_parse_parse_count(struct scan *scan)
{
    struct resp_parser *parser = scan->parser;
    int64_t length;
    size_t next;
    int error = resp_parse_parse_length(scan->input, 0, &length, &next);
    if (error == HASP_EMORE) {
        return error;
    }
    if (error != 0) {
        return resp_parse_refuse(scan, error, "invalid multibulk length");
    }
    if (length > (int64_t)scan->limits.argument_count_max) {
        return resp_parse_refuse(scan, HASP_ETOOBIG, "too many arguments");
    }
    parser->expected = length > 0 ? (uint32_t)length : 0;
    parser->parsed = next;
    parser->state = STATE_SIZE;
    return 0;
}

/* Makes room for one more argument. */
static void reserve_argument(struct resp_parser *parser)
{
    if (parser->count < parser->capacity) {
        return;
    }
    uint32_t capacity = parser->capacity == 0 ? CAPACITY_FIRST
                                              : parser->capacity * 2;
    parser->spans = memory_resize(parser->spans,
                                  capacity * sizeof *parser->spans);
    parser->arguments = memory_resize(parser->arguments,
                                      capacity * sizeof *parser->arguments);
    parser->capacity = capacity;
}

/* Parses the "$n" line of the next argument, whose span is then known. */
static int parse_size(struct scan *scan)
{
    struct resp_parser *parser = scan->parser;
    int64_t length;
    size_t next;
    if (parser->parsed == scan->input.size) {
        return HASP_EMORE;
    }
    if (scan->input.data[parser->parsed] != '$') {
        return resp_parse_refuse(scan, HASP_EPROTO, "expected '$'");
    }
    int error = 0;
    if (!resp_parse_is_short(scan->input, parser->parsed, &length, &next)) {
        error = resp_parse_parse_length(scan->input, parser->parsed, &length,
                                        &next);
    }
    if (error == HASP_EMORE) {
        return error;
    }
    if (error != 0 || length < 0) {
        return resp_parse_refuse(scan, error ?: HASP_EPROTO,
                                 "invalid bulk length");
    }
    if (length > (int64_t)scan->limits.argument_size_max) {
        return resp_parse_refuse(scan, HASP_ETOOBIG, "argument too big");
    }
    /* The length is refused before its bytes are waited for, so nothing is
     * buffered for it. */
    if (next + (size_t)length + 2 > scan->limits.request_size_max) {
        return resp_parse_refuse(scan, HASP_ETOOBIG, "request too big");
    }
    reserve_argument(parser);
    parser->spans[parser->count] = (struct resp_span){(uint32_t)next,
                                                      (uint32_t)length};
    parser->parsed = next;
    parser->state = STATE_BODY;
    return 0;
}

static int resp_parse_parse_arguments(struct scan *scan)
{
    struct resp_parser *parser = scan->parser;
    while (parser->count < parser->expected) {
        if (parser->state == STATE_SIZE) {
            int error = parse_size(scan);
            if (error != 0) {
                return error;
            }
        }
        struct resp_span span = parser->spans[parser->count];
        size_t end = (size_t)span.offset + span.size;
        if (scan->input.size < end + 2) {
            return HASP_EMORE;
        }
        if (scan->input.data[end] != '\r' ||
            scan->input.data[end + 1] != '\n') {
            return resp_parse_refuse(scan, HASP_EPROTO,
                                     "expected CRLF after an argument");
        }
        parser->count++;
        /* Recorded, so that a request that arrives in parts is not parsed again
         * from its start (that would be quadratic). */
        parser->parsed = end + 2;
        parser->state = STATE_SIZE;
    }
    return 0;
}

static bool is_control(uint8_t c)
{
    return (c < 0x20 && c != '\t') || c == 0x7f;
}

static bool is_blank(uint8_t c)
{
    return c == ' ' || c == '\t';
}

/* Appends the character escaped by the backslash at 'line.data[at]', and
 * returns the number of bytes of the escape. */
static size_t put_escape(struct bytes line, size_t at, struct buffer *out)
{
    static const char letters[] = "nrtba";
    static const char meanings[] = "\n\r\t\b\a";
    uint8_t byte = 0;
    if (at + 3 < line.size && line.data[at + 1] == 'x' &&
        hex_get(bytes_of(line.data + at + 2, 2), &byte, 1)) {
        buffer_put_u8(out, byte);
        return 4;
    }
    if (at + 1 == line.size) {
        return 1;
    }
    uint8_t c = line.data[at + 1];
    const char *letter = c != 0 ? strchr(letters, c) : NULL;
    buffer_put_u8(out,
                  letter != NULL ? (uint8_t)meanings[letter - letters] : c);
    return 2;
}

/* Copies the quoted part that begins at '*at' and moves '*at' after it. False:
 * it has no end, or no blank follows it. */
static bool resp_parse_put_quoted(struct bytes line, size_t *at,
                                  struct buffer *out)
{
    uint8_t quote = line.data[*at];
    size_t i = *at + 1;
    while (i < line.size && line.data[i] != quote) {
        if (line.data[i] == '\\' && quote == '"') {
            i += put_escape(line, i, out);
        } else if (line.data[i] == '\\' && i + 1 < line.size &&
                   line.data[i + 1] == '\'') {
            buffer_put_u8(out, '\'');
            i += 2;
        } else {
            buffer_put_u8(out, line.data[i++]);
        }
    }
    *at = i + 1;
    return i < line.size && (i + 1 == line.size || is_blank(line.data[i + 1]));
}

/* Copies one word of 'line' into the scratch as the next argument. */
static int parse_word(struct scan *scan, struct bytes line, size_t *at)
{
    struct resp_parser *parser = scan->parser;
    struct buffer *out = &parser->scratch;
    uint32_t start = (uint32_t)out->size;
    size_t i = *at;
    if (parser->count == scan->limits.argument_count_max) {
        return resp_parse_refuse(scan, HASP_ETOOBIG, "too many arguments");
    }
    while (i < line.size && !is_blank(line.data[i])) {
        if (line.data[i] == '"' || line.data[i] == '\'') {
            if (!resp_parse_put_quoted(line, &i, out)) {
                return resp_parse_refuse(scan, HASP_EPROTO,
                                         "unbalanced quotes in request");
            }
        } else {
            buffer_put_u8(out, line.data[i++]);
        }
    }
    uint32_t size = (uint32_t)out->size - start;
    if (size > scan->limits.argument_size_max) {
        return resp_parse_refuse(scan, HASP_ETOOBIG, "argument too big");
    }
    reserve_argument(parser);
    parser->spans[parser->count++] = (struct resp_span){start, size};
    *at = i;
    return 0;
}

/* True if the line is HTTP: a web page can make a browser send lines to any
 * port (the "POST" and "Host:" rule of Redis). "GET name" is also a valid
 * request, so GET is refused only in its whole HTTP form. */
static bool is_http(const struct resp_parser *parser)
{
    static const char *const methods[] = {"POST",    "PUT",     "HEAD",
                                          "DELETE",  "OPTIONS", "PATCH",
                                          "CONNECT", "TRACE",   "PRI"};
    struct bytes word[3];
    uint32_t count = parser->count < 3 ? parser->count : 3;
    for (uint32_t i = 0; i < count; i++) {
        struct resp_span span = parser->spans[i];
        word[i] = bytes_of(parser->scratch.data + span.offset, span.size);
    }
    if (count == 0) {
        return false;
    }
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
        if (bytes_is_word(word[0], methods[i])) {
            return true;
        }
    }
    if (word[0].size >= 5 &&
        bytes_is_word(bytes_of(word[0].data, 5), "HOST:")) {
        return true;
    }
    return count == 3 && word[2].size >= 5 &&
           bytes_is_word(bytes_of(word[2].data, 5), "HTTP/");
}

static int parse_words(struct scan *scan, struct bytes line)
{
    size_t at = 0;
    for (size_t i = 0; i < line.size; i++) {
        if (is_control(line.data[i])) {
            return resp_parse_refuse(scan, HASP_EPROTO,
                                     "binary bytes in an inline request");
        }
    }
    buffer_clear(&scan->parser->scratch);
    /* Unquoting never makes a line longer, so the scratch does not move. */
    buffer_reserve(&scan->parser->scratch, line.size + 1);
    for (;;) {
        while (at < line.size && is_blank(line.data[at])) {
            at++;
        }
        if (at == line.size) {
            break;
        }
        int error = parse_word(scan, line, &at);
        if (error != 0) {
            return error;
        }
    }
    if (is_http(scan->parser)) {
        return resp_parse_refuse(scan, HASP_EPROTO,
                                 "this port does not speak HTTP");
    }
    return 0;
}

static int parse_inline(struct scan *scan)
{
    struct resp_parser *parser = scan->parser;
    struct bytes input = scan->input;
    uint8_t first = input.data[0];
    /* The first byte of a TLS client is 22, and a line feed might never
     * come. */
    if (is_control(first) && first != '\r' && first != '\n') {
        return resp_parse_refuse(scan, HASP_EPROTO,
                                 "binary bytes in an inline request");
    }
    size_t limit = scan->limits.inline_size_max;
    const uint8_t *end = memchr(input.data + parser->parsed, '\n',
                                input.size - parser->parsed);
    size_t line_size = end != NULL ? (size_t)(end - input.data) : input.size;
    if (line_size > limit) {
        return resp_parse_refuse(scan, HASP_ETOOBIG, "inline request too big");
    }
    if (end == NULL) {
        parser->parsed = input.size;
        return HASP_EMORE;
    }
    parser->parsed = line_size + 1;
    if (line_size > 0 && input.data[line_size - 1] == '\r') {
        line_size--;
    }
    return parse_words(scan, bytes_of(input.data, line_size));
}

int resp_parse(struct resp_parser *parser, struct bytes input,
               struct resp_request *ret_request, size_t *ret_used,
               const char **ret_why)
{
    struct scan scan = {parser, input, limits_of(&parser->limits), NULL};
    const uint8_t *base = input.data;
    int error = 0;

    CHECK(input.size >= parser->parsed);
    if (input.size == 0) {
        return HASP_EMORE;
    }
    if (parser->state == STATE_START) {
        if (input.data[0] == '*') {
            error = resp_parse_parse_count(&scan);
        } else {
            parser->state = STATE_INLINE;
        }
    }
    if (error == 0) {
        if (parser->state == STATE_INLINE) {
            error = parse_inline(&scan);
            base = parser->scratch.data;
        } else {
            error = resp_parse_parse_arguments(&scan);
        }
    }
    if (error == HASP_EMORE) {
        return error;
    }
    if (error != 0) {
        CHECK(scan.why != NULL);
        parser_restart(parser);
        *ret_why = scan.why;
        return error;
    }
    /* Only now: while the request was incomplete, its input could move. */
    borrow_arguments(parser, base);
    ret_request->argument = parser->arguments;
    ret_request->count = parser->count;
    *ret_used = parser->parsed;
    parser_restart(parser);
    return 0;
}
