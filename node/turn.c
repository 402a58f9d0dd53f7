/* SPDX-License-Identifier: MIT */

/* The first fatal error of a node is recorded and logged, and ends the loop. */

#include "node/turn.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/log.h"

void turn_fail(struct turn *turn, int status, const char *format, ...)
{
    va_list args;
    CHECK(status != 0); /* 0 would mean a clean stop. */
    if (turn->has_failed) {
        return;
    }
    turn->has_failed = true;
    turn->exit_status = status;
    va_start(args, format);
    vsnprintf(turn->why, sizeof turn->why, format, args);
    va_end(args);
    LOG_ERROR("node fails", "exit=%d why=%s", status, log_quote(turn->why));
    uv_stop(turn->uv);
}
