/* SPDX-License-Identifier: MIT */

#include "base/duration.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MS_PER_S 1000
#define S_PER_MIN 60
#define S_PER_HOUR 3600
#define S_PER_DAY 86400
#define TIME_MAX_MS 1e15

bool duration_parse(const char *text, uint64_t *ret_time_ms)
{
    static const struct {
        const char *unit;
        double time_ms;
    } units[] = {
        {"ms", 1},
        {"s", MS_PER_S},
        {"", MS_PER_S},
        {"m", S_PER_MIN * MS_PER_S},
        {"h", S_PER_HOUR * MS_PER_S},
        {"d", (double)S_PER_DAY * MS_PER_S},
    };
    char *end;
    /* strtod() would also take signs, blanks, hex and infinity. */
    if (text[0] < '0' || text[0] > '9' || text[1] == 'x' || text[1] == 'X') {
        return false;
    }
    errno = 0;
    double number = strtod(text, &end);
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        double time_ms = number * units[i].time_ms;
        if (errno == 0 && strcmp(end, units[i].unit) == 0 &&
            time_ms <= TIME_MAX_MS) {
            *ret_time_ms = (uint64_t)(time_ms + 0.5);
            return true;
        }
    }
    return false;
}

const char *duration_format(uint64_t time_ms, char out[DURATION_TEXT_SIZE])
{
    uint64_t time_s = time_ms / MS_PER_S;
    if (time_ms < MS_PER_S) {
        snprintf(out, DURATION_TEXT_SIZE, "%" PRIu64 "ms", time_ms);
    } else if (time_s < S_PER_MIN) {
        snprintf(out, DURATION_TEXT_SIZE, "%" PRIu64 ".%" PRIu64 "s", time_s,
                 time_ms % MS_PER_S / 100);
    } else if (time_s < S_PER_HOUR) {
        snprintf(out, DURATION_TEXT_SIZE, "%" PRIu64 "m%02" PRIu64 "s",
                 time_s / S_PER_MIN, time_s % S_PER_MIN);
    } else if (time_s < S_PER_DAY) {
        snprintf(out, DURATION_TEXT_SIZE, "%" PRIu64 "h%02" PRIu64 "m",
                 time_s / S_PER_HOUR, time_s / S_PER_MIN % 60);
    } else {
        snprintf(out, DURATION_TEXT_SIZE, "%" PRIu64 "d%02" PRIu64 "h",
                 time_s / S_PER_DAY, time_s / S_PER_HOUR % 24);
    }
    return out;
}
