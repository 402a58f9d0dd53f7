/* SPDX-License-Identifier: MIT */

/* RESP2 and RESP3: parsing requests from a stream, and writing replies.
 *
 * Pure: bytes in, requests out; values in, bytes out. The grammar is that of
 * https://redis.io/docs/latest/develop/reference/protocol-spec: a request is an
 * array of bulk strings ("*2\r\n$4\r\nPING\r\n...") or an inline line of words.
 * Used by the server for requests and by the client library for replies.
 *
 * All input is bounded: number of arguments, size of each, size of an inline
 * line, depth of a reply. */

#ifndef HASP_NET_RESP_H
#define HASP_NET_RESP_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/err.h"

struct resp_limits {
    uint32_t argument_count_max; /* 0: 1024 */
    uint32_t argument_size_max;  /* 0: 64 KiB */
    uint32_t request_size_max;   /* 0: 256 KiB */
    uint32_t inline_size_max;    /* 0: 4 KiB */
};

/* One request; the array and the bytes are borrowed from the parser and the
 * input until the next call. */
struct resp_request {
    const struct bytes *argument;
    uint32_t count; /* 0: an empty line, to be ignored. */
};

/* Keeps its position in an incomplete request, so that input in many small
 * pieces is not parsed again from the start. Zeroed memory is a parser with
 * default limits. It allocates for arguments that have arrived, never for those
 * that were announced. */
struct resp_parser {
    struct resp_limits limits;
    struct bytes *arguments; /* The rest is private. */
    struct resp_span *spans;
    uint32_t capacity;
    uint32_t expected;
    uint32_t count;
    size_t parsed;
    struct buffer scratch; /* Words of an inline line, without quotes. */
    uint8_t state;
};
void resp_parser_done(struct resp_parser *parser);
/* Frees the memory of a large request, for an idle connection. The position in
 * an incomplete request is kept. */
void resp_parser_trim(struct resp_parser *parser);

/* Parses one request at the start of 'input'.
 *
 * 0: 'ret_request' is set, and 'ret_used' bytes must be consumed from the
 * input. HASP_EMORE: incomplete; call again with the same bytes and more after
 * them. HASP_EPROTO, HASP_ETOOBIG: 'ret_why' is a static text to be sent after
 * "-ERR Protocol error: "; the connection must be closed. This includes inline
 * lines that are HTTP ("POST ...", "GET / HTTP/1.1", "Host: ...") or binary
 * (cross-protocol attacks; TLS on a plain port); "GET name" is a request. "*0"
 * and "*-1" are empty requests. */
MUST_CHECK int resp_parse(struct resp_parser *parser, struct bytes input,
                          struct resp_request *ret_request, size_t *ret_used,
                          const char **ret_why);

/* --- Writing -------------------------------------------------------------- */

/* Encodes replies into 'out'. 'version' is 2 or 3: with 2 a map becomes a flat
 * array, null "$-1", a bool an integer, a push an array. */
struct resp_writer {
    struct buffer *out;
    int version;
};
/* "+text" and "-CODE text" are always one line: CR, LF and other control
 * characters become blanks. */
void resp_simple(struct resp_writer *writer, const char *text);
void resp_error(struct resp_writer *writer, const char *code,
                const char *format, ...) __attribute__((format(printf, 3, 4)));
void resp_verror(struct resp_writer *writer, const char *code,
                 const char *format, va_list arguments)
    __attribute__((format(printf, 3, 0)));
void resp_integer(struct resp_writer *writer, int64_t value);
void resp_bulk(struct resp_writer *writer, struct bytes bytes);
void resp_text(struct resp_writer *writer, const char *text);
/* A pair of a map: the key, as text, and its value. */
void resp_key_integer(struct resp_writer *writer, const char *key,
                      int64_t value);
void resp_key_number(struct resp_writer *writer, const char *key,
                     uint64_t value);
void resp_key_bool(struct resp_writer *writer, const char *key, bool value);
/* The value is an array of 'count' items, which follow. */
void resp_key_array(struct resp_writer *writer, const char *key,
                    uint64_t count);
void resp_key_bulk(struct resp_writer *writer, const char *key,
                   struct bytes bytes);
void resp_key_text(struct resp_writer *writer, const char *key,
                   const char *text);
void resp_null(struct resp_writer *writer);
/* RESP2 has a null array besides the null bulk. */
void resp_null_array(struct resp_writer *writer);
void resp_bool(struct resp_writer *writer, bool value);
void resp_array(struct resp_writer *writer, uint64_t count);
void resp_map(struct resp_writer *writer, uint64_t pair_count);
void resp_push(struct resp_writer *writer, uint64_t count);
/* A request, as clients send it. */
void resp_request_begin(struct buffer *out, uint64_t argument_count);
void resp_request_argument(struct buffer *out, struct bytes argument);

/* --- Reading replies (client library, tool, simulator) -------------------- */

enum resp_type {
    RESP_SIMPLE,
    RESP_ERROR,
    RESP_INTEGER,
    RESP_BULK, /* Also verbatim strings, without their prefix. */
    RESP_NULL,
    RESP_BOOL,
    RESP_DOUBLE,
    RESP_ARRAY, /* Also sets. */
    RESP_MAP,   /* 'count' pairs: 2 * count values follow. */
    RESP_PUSH
};

/* Values of a reply in the order of the stream, depth first: an aggregate is
 * followed by its elements. */
struct resp_value {
    enum resp_type type;
    int64_t integer;    /* INTEGER, BOOL. */
    uint32_t count;     /* ARRAY, PUSH: elements; MAP: pairs. */
    uint32_t span;      /* This value and all inside it, in values. */
    struct bytes bytes; /* SIMPLE, ERROR, BULK, DOUBLE; borrowed. */
};

struct resp_reply {
    struct resp_value *value; /* value[0] is the reply itself. */
    uint32_t count;
    uint32_t capacity;
};
void resp_reply_done(struct resp_reply *reply);

#define RESP_REPLY_DEPTH_MAX 16
#define RESP_REPLY_LINE_MAX (64u << 10)
#define RESP_REPLY_BULK_MAX (64u << 20)

/* Parses one reply at the start of 'input': 0, HASP_EMORE, HASP_EPROTO or
 * HASP_ETOOBIG (more than 'value_max' values, deeper than RESP_REPLY_DEPTH_MAX,
 * a string longer than RESP_REPLY_..._MAX). It keeps no position between calls,
 * so one 'reply' (initially zeroed) serves any number of streams. Doubles and
 * big numbers are returned as text, bulk errors as ERROR; attributes and
 * streamed aggregates are refused. */
MUST_CHECK int resp_parse_reply(struct bytes input, uint32_t value_max,
                                struct resp_reply *reply, size_t *ret_used);
/* The value under 'key' in the map value[at] (RESP2: a flat array); NULL if it
 * has none. */
const struct resp_value *resp_find(const struct resp_reply *reply, uint32_t at,
                                   const char *key);

#endif /* HASP_NET_RESP_H */
