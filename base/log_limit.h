/* SPDX-License-Identifier: MIT */

/* Log lines that others can cause: at most a few in a while, and each says how
 * many were left out before it. */

#ifndef HASP_BASE_LOG_LIMIT_H
#define HASP_BASE_LOG_LIMIT_H

#include <stdbool.h>
#include <stdint.h>

#define LOG_LIMIT_WINDOW_MS 10000
#define LOG_LIMIT_LINES 5

/* Zeroed memory is a fresh one. */
struct log_limit {
    uint64_t window_ms; /* When it began. */
    uint32_t count;     /* Lines in it. */
    uint32_t left_out;
};

/* True if a line may be written now; then '*ret_left_out' lines were not since
 * the last one that was. */
bool log_limit_pass(struct log_limit *limit, uint64_t now_ms,
                    uint32_t *ret_left_out);

#endif /* HASP_BASE_LOG_LIMIT_H */
