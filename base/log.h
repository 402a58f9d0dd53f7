/* SPDX-License-Identifier: MIT */

/* Log lines: one event, one line, "key=value" fields.
 *
 * This module formats and filters; where a line goes and what time it carries
 * is the sink's matter (the daemon's writes to stderr). Levels: error, somebody
 * must act; warn, unusual and handled; info, role changes, membership, start,
 * stop; debug. Nothing is logged per request at info.
 *
 *     LOG_INFO("became leader", "term=%" PRIu64 " index=%" PRIu64, t, i);
 */

#ifndef HASP_BASE_LOG_H
#define HASP_BASE_LOG_H

#include <stdbool.h>
#include <stddef.h>

#include "base/bytes.h"

enum log_level {
    LOG_ERROR_LEVEL,
    LOG_WARN_LEVEL,
    LOG_INFO_LEVEL,
    LOG_DEBUG_LEVEL
};

/* Takes one line: 'event' is a fixed text, 'fields' is "k=v k=v" or "". */
typedef void log_sink_fn(void *data, enum log_level level, const char *event,
                         const char *fields);

/* Without a sink nothing is written. Called once at start. */
void log_set_sink(log_sink_fn *sink, void *data);
/* Can be called at any time. */
void log_set_level(enum log_level level);
bool log_is_on(enum log_level level);
const char *log_level_name(enum log_level level);

/* Writes a line with the fields of 'format'; values with blanks are quoted by
 * the caller with %s of log_quote(). */
void log_write(enum log_level level, const char *event, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Copies 'text' quoted, escaping everything that is not printable UTF-8 or
 * would reverse the direction of writing, into one of the thread's four
 * buffers, which take turns: for use as an argument of a log line only. */
const char *log_quote(const char *text);
const char *log_quote_bytes(struct bytes text);

#define LOG_AT(level, ...)                 \
    do {                                   \
        if (log_is_on(level)) {            \
            log_write(level, __VA_ARGS__); \
        }                                  \
    } while (0)
#define LOG_ERROR(...) LOG_AT(LOG_ERROR_LEVEL, __VA_ARGS__)
#define LOG_WARN(...) LOG_AT(LOG_WARN_LEVEL, __VA_ARGS__)
#define LOG_INFO(...) LOG_AT(LOG_INFO_LEVEL, __VA_ARGS__)
#define LOG_DEBUG(...) LOG_AT(LOG_DEBUG_LEVEL, __VA_ARGS__)

#endif /* HASP_BASE_LOG_H */
