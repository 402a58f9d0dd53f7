/* SPDX-License-Identifier: MIT */

#include "base/log_limit.h"

bool log_limit_pass(struct log_limit *limit, uint64_t now_ms,
                    uint32_t *ret_left_out)
{
    if (limit->count == 0 || now_ms - limit->window_ms >= LOG_LIMIT_WINDOW_MS) {
        limit->window_ms = now_ms;
        limit->count = 0;
    }
    if (limit->count == LOG_LIMIT_LINES) {
        limit->left_out++;
        return false;
    }
    limit->count++;
    *ret_left_out = limit->left_out;
    limit->left_out = 0;
    return true;
}
