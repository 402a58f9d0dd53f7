/* SPDX-License-Identifier: MIT */

#include "base/log.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"

static log_sink_fn *log_sink = NULL;
static void *log_sink_data = NULL;
/* Other threads log, too, while the disk hangs. */
static _Atomic enum log_level log_threshold = LOG_INFO_LEVEL;

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

const char *log_quote(const char *text)
{
    return log_quote_bytes(bytes_of_text(text));
}

const char *log_quote_bytes(struct bytes text)
{
    static _Thread_local char buffers[4][256];
    static _Thread_local unsigned turn = 0;
    char *out = buffers[turn++ % 4];
    size_t at = 0;
    out[at++] = '"';
    /* 8 bytes hold the longest escape, the closing quote and the end. */
    for (size_t i = 0; i < text.size && at < sizeof buffers[0] - 8;) {
        const uint8_t *in = text.data + i;
        size_t count = bytes_printable(bytes_of(in, text.size - i));
        if (*in == '"' || *in == '\\') {
            out[at++] = '\\';
        }
        if (count > 0) {
            memcpy(out + at, in, count);
            at += count;
            i += count;
        } else {
            at += (size_t)snprintf(out + at, 5, "\\x%02x", *in);
            i++;
        }
    }
    out[at++] = '"';
    out[at] = '\0';
    return out;
}
