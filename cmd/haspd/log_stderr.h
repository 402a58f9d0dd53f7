/* SPDX-License-Identifier: MIT */

/* The daemon's log: lines in logfmt or JSON on stderr.
 *
 *     ts=2025-11-20T10:13:00.123Z level=info node=1 event="peer up" peer=2
 *     {"ts":"2025-11-20T10:13:00.123Z","level":"info","node":1,
 *      "event":"peer up","peer":2}
 *
 * Under journald (JOURNAL_STREAM names our stderr) a line begins with <N>, its
 * syslog priority, and has no time, since the journal adds its own. Each line
 * is one write. */

#ifndef HASP_CMD_HASPD_LOG_STDERR_H
#define HASP_CMD_HASPD_LOG_STDERR_H

#include <stdint.h>

#include "include/hasp/node.h"

/* Checks whether journald reads stderr. */
void log_stderr_init(uint64_t node_id);

/* Sets the format; can be called at any time. */
void log_stderr_use(enum hasp_node_log_format format);

/* The function for struct hasp_node_options. */
void log_stderr(void *data, enum hasp_node_log_level level, const char *event,
                const char *fields);

#endif /* HASP_CMD_HASPD_LOG_STDERR_H */
