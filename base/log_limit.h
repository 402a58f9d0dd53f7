/* SPDX-License-Identifier: MIT */

/* Limits log lines that others can cause: at most a few in a time window, and
 * each reports how many were suppressed before it. */

#ifndef HASP_BASE_LOG_LIMIT_H
#define HASP_BASE_LOG_LIMIT_H

#include <stdbool.h>
#include <stdint.h>

#define LOG_LIMIT_WINDOW_MS 10000
#define LOG_LIMIT_LINES 5

/* Zeroed memory is a new limit. */
struct log_limit {
    uint64_t window_ms; /* When it began. */
    uint32_t count;     /* Lines in it. */
    uint32_t left_out;
};

/* True if a line may be written now; '*ret_left_out' lines were suppressed
 * since the last one. */
bool log_limit_pass(struct log_limit *limit, uint64_t now_ms,
                    uint32_t *ret_left_out);

#endif /* HASP_BASE_LOG_LIMIT_H */
