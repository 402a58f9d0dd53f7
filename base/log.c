/* SPDX-License-Identifier: MIT */

#include "base/log.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static log_sink_fn *log_sink = NULL;
static void *log_sink_data = NULL;
static enum log_level log_threshold = LOG_INFO_LEVEL;

void log_set_sink(log_sink_fn *sink, void *data)
{
    log_sink = sink;
    log_sink_data = data;
}

void log_set_level(enum log_level level)
{
    log_threshold = level;
}

bool log_is_on(enum log_level level)
{
    return log_sink != NULL && level <= log_threshold;
}

const char *log_level_name(enum log_level level)
{
    static const char *const names[] = {"error", "warn", "info", "debug"};
    return names[level];
}

void log_write(enum log_level level, const char *event, const char *format, ...)
{
    char fields[2048];
    va_list args;
    if (!log_is_on(level)) {
        return;
    }
    va_start(args, format);
    vsnprintf(fields, sizeof fields, format, args);
    va_end(args);
    log_sink(log_sink_data, level, event, fields);
}

/* How many bytes of 'in' are one character that may stand in a line as it is: 0
 * for a control character, for what reverses the direction of writing, and for
 * what is no UTF-8. */
static size_t printable_size(const unsigned char *in, size_t size)
{
    uint32_t code = in[0];
    size_t count = code < 0x80 ? 1 : code < 0xe0 ? 2 : code < 0xf0 ? 3 : 4;
    static const uint32_t firsts[] = {0, 0, 0x80, 0x800, 0x10000};
    if (count == 1) {
        return code >= 0x20 && code != 0x7f ? 1 : 0;
    }
    if (code < 0xc2 || code > 0xf4 || count > size) {
        return 0;
    }
    code &= 0x7fu >> count;
    for (size_t i = 1; i < count; i++) {
        if ((in[i] & 0xc0) != 0x80) {
            return 0;
        }
        code = code << 6 | (in[i] & 0x3fu);
    }
    bool is_sound = code >= firsts[count] && code <= 0x10ffff &&
                    (code < 0xd800 || code > 0xdfff);
    bool is_control = code < 0xa0 || (code >= 0x2028 && code <= 0x202e) ||
                      (code >= 0x2066 && code <= 0x2069);
    return is_sound && !is_control ? count : 0;
}

const char *log_quote(const void *text, size_t size)
{
    static char buffers[4][256];
    static unsigned turn = 0;
    char *out = buffers[turn++ % 4];
    const unsigned char *in = text;
    size_t at = 0;
    out[at++] = '"';
    for (size_t i = 0; i < size && at < sizeof buffers[0] - 8;) {
        size_t count = printable_size(in + i, size - i);
        if (in[i] == '"' || in[i] == '\\') {
            out[at++] = '\\';
        }
        if (count > 0) {
            memcpy(out + at, in + i, count);
            at += count;
            i += count;
        } else {
            at += (size_t)snprintf(out + at, 5, "\\x%02x", in[i++]);
        }
    }
    out[at++] = '"';
    out[at] = '\0';
    return out;
}
