/* SPDX-License-Identifier: MIT */

/* Writing replies and requests. Every header has at most 23 bytes, reserved at
 * once; numbers are formatted two digits at a time. */

#include "net/resp.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/check.h"

#define HEADER_SIZE_MAX 24 /* A type byte, a sign, 20 digits, CR and LF. */
#define ERROR_FIRST_GUESS 128

static const char digit_pairs[] = "00010203040506070809101112131415161718192021"
                                  "22232425262728293031323334353637383940414243"
                                  "44454647484950515253545556575859606162636465"
                                  "66676869707172737475767778798081828384858687"
                                  "888990919293949596979899";

/* Writes 'value' at 'out' and returns its end. */
static uint8_t *format_u64(uint8_t *out, uint64_t value)
{
    uint8_t digits[20];
    uint8_t *end = digits + sizeof digits;
    uint8_t *at = end;
    while (value >= 100) {
        at -= 2;
        memcpy(at, digit_pairs + value % 100 * 2, 2);
        value /= 100;
    }
    if (value >= 10) {
        at -= 2;
        memcpy(at, digit_pairs + value * 2, 2);
    } else {
        *--at = (uint8_t)('0' + value);
    }
    memcpy(out, at, (size_t)(end - at));
    return out + (end - at);
}

static void put_header(struct buffer *out, char type, uint64_t value)
{
    uint8_t *start = buffer_reserve(out, HEADER_SIZE_MAX);
    uint8_t *at = start;
    *at++ = (uint8_t)type;
    at = format_u64(at, value);
    *at++ = '\r';
    *at++ = '\n';
    out->size += (size_t)(at - start);
}

static void put_bulk(struct buffer *out, struct bytes bytes)
{
    uint8_t *start = buffer_reserve(out, HEADER_SIZE_MAX + bytes.size + 2);
    uint8_t *at = start;
    *at++ = '$';
    at = format_u64(at, bytes.size);
    *at++ = '\r';
    *at++ = '\n';
    if (bytes.size > 0) {
        memcpy(at, bytes.data, bytes.size);
        at += bytes.size;
    }
    *at++ = '\r';
    *at++ = '\n';
    out->size += (size_t)(at - start);
}

/* Ends the line that begins at 'start', and replaces control characters in
 * it. */
static void resp_write_end_line(struct buffer *out, size_t start)
{
    for (size_t i = start; i < out->size; i++) {
        if (out->data[i] < 0x20 || out->data[i] == 0x7f) {
            out->data[i] = ' ';
        }
    }
    buffer_put(out, "\r\n", 2);
}

void resp_simple(struct resp_writer *writer, const char *text)
{
    size_t start = writer->out->size;
    buffer_put_u8(writer->out, '+');
    buffer_put_text(writer->out, text);
    resp_write_end_line(writer->out, start);
}

void resp_verror(struct resp_writer *writer, const char *code,
                 const char *format, va_list arguments)
{
    struct buffer *out = writer->out;
    size_t start = out->size;
    va_list args;
    buffer_put_u8(out, '-');
    buffer_put_text(out, code);
    buffer_put_u8(out, ' ');

    size_t room = ERROR_FIRST_GUESS;
    char *text = (char *)buffer_reserve(out, room);
    va_copy(args, arguments);
    int size = vsnprintf(text, room, format, args);
    va_end(args);
    CHECK(size >= 0);
    if ((size_t)size >= room) {
        room = (size_t)size + 1;
        text = (char *)buffer_reserve(out, room);
        va_copy(args, arguments);
        vsnprintf(text, room, format, args);
        va_end(args);
    }
    out->size += (size_t)size;
    if (size == 0) {
        out->size--; /* A code without a text has no blank after it. */
    }
    resp_write_end_line(out, start);
}

void resp_error(struct resp_writer *writer, const char *code,
                const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    resp_verror(writer, code, format, arguments);
    va_end(arguments);
}

void resp_integer(struct resp_writer *writer, int64_t value)
{
    uint8_t *start = buffer_reserve(writer->out, HEADER_SIZE_MAX);
    uint8_t *at = start;
    uint64_t magnitude = (uint64_t)value;
    *at++ = ':';
    if (value < 0) {
        *at++ = '-';
        magnitude = 0 - magnitude;
    }
    at = format_u64(at, magnitude);
    *at++ = '\r';
    *at++ = '\n';
    writer->out->size += (size_t)(at - start);
}

void resp_bulk(struct resp_writer *writer, struct bytes bytes)
{
    put_bulk(writer->out, bytes);
}

void resp_text(struct resp_writer *writer, const char *text)
{
    put_bulk(writer->out, bytes_of_text(text));
}

void resp_key_integer(struct resp_writer *writer, const char *key,
                      int64_t value)
{
    resp_text(writer, key);
    resp_integer(writer, value);
}

void resp_key_number(struct resp_writer *writer, const char *key,
                     uint64_t value)
{
    resp_key_integer(writer, key, (int64_t)value);
}

void resp_key_bool(struct resp_writer *writer, const char *key, bool value)
{
    resp_text(writer, key);
    resp_bool(writer, value);
}

void resp_key_array(struct resp_writer *writer, const char *key, uint64_t count)
{
    resp_text(writer, key);
    resp_array(writer, count);
}

void resp_key_bulk(struct resp_writer *writer, const char *key,
                   struct bytes bytes)
{
    resp_text(writer, key);
    resp_bulk(writer, bytes);
}

void resp_key_text(struct resp_writer *writer, const char *key,
                   const char *text)
{
    resp_text(writer, key);
    resp_text(writer, text);
}

void resp_null(struct resp_writer *writer)
{
    buffer_put_text(writer->out, writer->version >= 3 ? "_\r\n" : "$-1\r\n");
}

void resp_null_array(struct resp_writer *writer)
{
    buffer_put_text(writer->out, writer->version >= 3 ? "_\r\n" : "*-1\r\n");
}

void resp_bool(struct resp_writer *writer, bool value)
{
    if (writer->version >= 3) {
        buffer_put_text(writer->out, value ? "#t\r\n" : "#f\r\n");
    } else {
        buffer_put_text(writer->out, value ? ":1\r\n" : ":0\r\n");
    }
}

void resp_array(struct resp_writer *writer, uint64_t count)
{
    put_header(writer->out, '*', count);
}

void resp_map(struct resp_writer *writer, uint64_t pair_count)
{
    if (writer->version >= 3) {
        put_header(writer->out, '%', pair_count);
    } else {
        CHECK(pair_count <= UINT64_MAX / 2);
        put_header(writer->out, '*', pair_count * 2);
    }
}

void resp_push(struct resp_writer *writer, uint64_t count)
{
    put_header(writer->out, writer->version >= 3 ? '>' : '*', count);
}

void resp_request_begin(struct buffer *out, uint64_t argument_count)
{
    put_header(out, '*', argument_count);
}

void resp_request_argument(struct buffer *out, struct bytes argument)
{
    put_bulk(out, argument);
}
