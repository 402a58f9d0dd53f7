/* SPDX-License-Identifier: MIT */

/* Parsing replies. The server can be hostile, too: memory grows with values
 * that have arrived, never with those announced, and nesting uses a small
 * explicit stack. */

#include "net/resp.h"

#include <stdlib.h>

#include "base/memory.h"

#define NUMBER_SIZE_MAX 20 /* A sign and 19 digits. */

/* An aggregate whose elements are being read. */
struct level {
    uint32_t at;   /* Index of its value. */
    uint32_t left; /* Elements that are missing. */
};

struct reply_scan {
    struct bytes input;
    size_t at;
    uint32_t value_max;
    struct resp_reply *reply;
    struct level stack[RESP_REPLY_DEPTH_MAX];
    uint32_t depth;
};

void resp_reply_done(struct resp_reply *reply)
{
    free(reply->value);
    *reply = (struct resp_reply){0};
}

/* Ends the aggregates whose last element has just been read. */
static void close_levels(struct reply_scan *scan)
{
    while (scan->depth > 0) {
        struct level *level = &scan->stack[scan->depth - 1];
        if (level->left > 0) {
            return;
        }
        scan->reply->value[level->at].span = scan->reply->count - level->at;
        scan->depth--;
    }
}

static struct resp_value *add_value(struct reply_scan *scan,
                                    enum resp_type type)
{
    struct resp_reply *reply = scan->reply;
    ROOM(reply->value, reply->capacity, reply->count + 1);
    struct resp_value *value = &reply->value[reply->count++];
    *value = (struct resp_value){.type = type, .span = 1};
    if (scan->depth > 0) {
        scan->stack[scan->depth - 1].left--;
    }
    return value;
}

/* Reads the rest of the line after the type byte; 'at' moves after it. */
static int resp_reply_read_line(struct reply_scan *scan, struct bytes *ret_line)
{
    size_t start = scan->at + 1;
    size_t left = scan->input.size - start;
    size_t look = left < RESP_REPLY_LINE_MAX ? left : RESP_REPLY_LINE_MAX;
    const uint8_t *from = scan->input.data + start;
    const uint8_t *end = look > 0 ? memchr(from, '\r', look) : NULL;
    if (end == NULL) {
        /* A peer that sends no line end must not be buffered for ever. */
        return left < RESP_REPLY_LINE_MAX ? HASP_EMORE : HASP_ETOOBIG;
    }
    size_t size = (size_t)(end - from);
    if (size + 1 == left) {
        return HASP_EMORE;
    }
    if (end[1] != '\n') {
        return HASP_EPROTO;
    }
    *ret_line = bytes_of(from, size);
    scan->at = start + size + 2;
    return 0;
}

static int resp_reply_parse_line(struct reply_scan *scan, enum resp_type type)
{
    struct bytes line;
    int error = resp_reply_read_line(scan, &line);
    if (error == 0) {
        add_value(scan, type)->bytes = line;
    }
    return error;
}

static bool to_integer(struct bytes line, int64_t *ret_value)
{
    bool is_negative = line.size > 0 && line.data[0] == '-';
    bool has_sign = is_negative || (line.size > 0 && line.data[0] == '+');
    uint64_t magnitude;
    if (line.size > NUMBER_SIZE_MAX ||
        !bytes_to_u64(bytes_of(line.data + has_sign, line.size - has_sign),
                      &magnitude) ||
        magnitude > (uint64_t)INT64_MAX + is_negative) {
        return false;
    }
    *ret_value = is_negative ? (int64_t)(0 - magnitude) : (int64_t)magnitude;
    return true;
}

static int parse_integer(struct reply_scan *scan)
{
    struct bytes line;
    int64_t integer;
    int error = resp_reply_read_line(scan, &line);
    if (error != 0) {
        return error;
    }
    if (!to_integer(line, &integer)) {
        return HASP_EPROTO;
    }
    add_value(scan, RESP_INTEGER)->integer = integer;
    return 0;
}

static int parse_null_or_bool(struct reply_scan *scan, uint8_t type)
{
    struct bytes line;
    int error = resp_reply_read_line(scan, &line);
    if (error != 0) {
        return error;
    }
    if (type == '_') {
        if (line.size != 0) {
            return HASP_EPROTO;
        }
        add_value(scan, RESP_NULL);
        return 0;
    }
    if (line.size != 1 || (line.data[0] != 't' && line.data[0] != 'f')) {
        return HASP_EPROTO;
    }
    add_value(scan, RESP_BOOL)->integer = line.data[0] == 't';
    return 0;
}

/* Parses a length of at most 'max', or -1 for a null of RESP2. */
static int resp_reply_parse_length(struct reply_scan *scan, uint64_t max,
                                   int64_t *ret_length)
{
    struct bytes line;
    int error = resp_reply_read_line(scan, &line);
    if (error != 0) {
        return error;
    }
    if (!to_integer(line, ret_length) || *ret_length < -1) {
        return HASP_EPROTO;
    }
    return *ret_length > 0 && (uint64_t)*ret_length > max ? HASP_ETOOBIG : 0;
}

static int parse_bulk(struct reply_scan *scan, uint8_t type)
{
    int64_t length;
    int error = resp_reply_parse_length(scan, RESP_REPLY_BULK_MAX, &length);
    if (error != 0) {
        return error;
    }
    if (length < 0) {
        if (type != '$') {
            return HASP_EPROTO;
        }
        add_value(scan, RESP_NULL);
        return 0;
    }
    size_t size = (size_t)length;
    /* No overflow: the length is at most RESP_REPLY_BULK_MAX. */
    if (scan->input.size - scan->at < size + 2) {
        return HASP_EMORE;
    }
    struct bytes bytes = bytes_of(scan->input.data + scan->at, size);
    if (memcmp(bytes.data + size, "\r\n", 2) != 0) {
        return HASP_EPROTO;
    }
    scan->at += size + 2;
    if (type == '=') {
        if (size < 4 || bytes.data[3] != ':') {
            return HASP_EPROTO;
        }
        bytes = bytes_of(bytes.data + 4, size - 4);
    }
    add_value(scan, type == '!' ? RESP_ERROR : RESP_BULK)->bytes = bytes;
    return 0;
}

static int parse_aggregate(struct reply_scan *scan, uint8_t type)
{
    int64_t length;
    int error = resp_reply_parse_length(scan, scan->value_max, &length);
    if (error != 0) {
        return error;
    }
    if (length < 0) {
        if (type != '*') {
            return HASP_EPROTO;
        }
        add_value(scan, RESP_NULL);
        return 0;
    }
    uint64_t elements = (uint64_t)length * (type == '%' ? 2 : 1);
    /* The levels are on a stack of fixed size, not in recursion. */
    if (elements > scan->value_max || scan->depth == RESP_REPLY_DEPTH_MAX) {
        return HASP_ETOOBIG;
    }
    struct resp_value *value = add_value(scan, type == '%'   ? RESP_MAP
                                               : type == '>' ? RESP_PUSH
                                                             : RESP_ARRAY);
    value->count = (uint32_t)length;
    scan->stack[scan->depth++] = (struct level){scan->reply->count - 1,
                                                (uint32_t)elements};
    return 0;
}

static int parse_value(struct reply_scan *scan)
{
    if (scan->at == scan->input.size) {
        return HASP_EMORE;
    }
    if (scan->reply->count == scan->value_max) {
        return HASP_ETOOBIG;
    }
    uint8_t type = scan->input.data[scan->at];
    switch (type) {
    case '+':
    case '(':
        return resp_reply_parse_line(scan, RESP_SIMPLE);
    case '-':
        return resp_reply_parse_line(scan, RESP_ERROR);
    case ',':
        return resp_reply_parse_line(scan, RESP_DOUBLE);
    case ':':
        return parse_integer(scan);
    case '_':
    case '#':
        return parse_null_or_bool(scan, type);
    case '$':
    case '=':
    case '!':
        return parse_bulk(scan, type);
    case '*':
    case '~':
    case '%':
    case '>':
        return parse_aggregate(scan, type);
    default:
        return HASP_EPROTO;
    }
}

int resp_parse_reply(struct bytes input, uint32_t value_max,
                     struct resp_reply *reply, size_t *ret_used)
{
    struct reply_scan scan = {
        .input = input, .value_max = value_max, .reply = reply};
    reply->count = 0;
    do {
        int error = parse_value(&scan);
        if (error != 0) {
            reply->count = 0;
            return error;
        }
        close_levels(&scan);
    } while (scan.depth > 0);
    *ret_used = scan.at;
    return 0;
}

const struct resp_value *resp_find(const struct resp_reply *reply, uint32_t at,
                                   const char *key)
{
    if (at >= reply->count) {
        return NULL;
    }
    const struct resp_value *map = &reply->value[at];
    uint32_t pairs = map->type == RESP_MAP     ? map->count
                     : map->type == RESP_ARRAY ? map->count / 2
                                               : 0;
    struct bytes wanted = bytes_of_text(key);
    uint32_t i = at + 1;
    for (uint32_t pair = 0; pair < pairs; pair++) {
        const struct resp_value *name = &reply->value[i];
        const struct resp_value *value = name + name->span;
        if ((name->type == RESP_BULK || name->type == RESP_SIMPLE) &&
            bytes_equal(name->bytes, wanted)) {
            return value;
        }
        /* A value can be nested: its span skips all of it. */
        i += name->span + value->span;
    }
    return NULL;
}
