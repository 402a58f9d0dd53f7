/* SPDX-License-Identifier: MIT */

#include "cmd/hasp/format.h"

#include <inttypes.h>
#include <pwd.h>
#include <stdio.h>
#include <unistd.h>

const char *format_number(uint64_t number, char out[NUMBER_TEXT_SIZE])
{
    snprintf(out, NUMBER_TEXT_SIZE, "%" PRIu64, number);
    return out;
}

const char *format_user(char out[NAME_TEXT_SIZE])
{
    char host[65] = "";
    const struct passwd *user = getpwuid(geteuid());
    if (gethostname(host, sizeof host - 1) != 0 || host[0] == '\0') {
        snprintf(host, sizeof host, "unknown");
    }
    if (user != NULL) {
        snprintf(out, NAME_TEXT_SIZE, "%.40s@%s", user->pw_name, host);
    } else {
        snprintf(out, NAME_TEXT_SIZE, "%ld@%s", (long)geteuid(), host);
    }
    return out;
}

const char *format_process(char out[NAME_TEXT_SIZE])
{
    snprintf(out, NAME_TEXT_SIZE, "%.116s:%ld", USER, (long)getpid());
    return out;
}

const char *format_clock(time_t time, char out[CLOCK_TEXT_SIZE])
{
    strftime(out, CLOCK_TEXT_SIZE, "%H:%M:%S", localtime(&time));
    return out;
}

const char *format_failure(const char *verb, const char *name,
                           char out[CANNOT_TEXT_SIZE])
{
    snprintf(out, CANNOT_TEXT_SIZE, "cannot %s '%.511s'", verb, name);
    return out;
}

void format_quoted(struct buffer *out, const char *word)
{
    buffer_put_text(out, "'");
    for (; *word != '\0'; word++) {
        if (*word == '\'') {
            buffer_put_text(out, "'\\''");
        } else {
            buffer_put_u8(out, (uint8_t)*word);
        }
    }
    buffer_put_text(out, "'");
}
