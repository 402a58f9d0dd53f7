/* SPDX-License-Identifier: MIT */

/* Lua's patterns for string.find, match and gsub. Source: Lua 5.1 Reference
 * Manual, section 5.4.1; without the frontier %f. */

#ifndef HASP_CORE_REDIS_SCRIPT_PATTERN_H
#define HASP_CORE_REDIS_SCRIPT_PATTERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"

#define PATTERN_CAPTURES_MAX 32

struct pattern_match {
    size_t from; /* The match: from here ... */
    size_t to;   /* ... to before here. */
    uint32_t count;
    struct pattern_capture {
        size_t from;
        size_t size; /* PATTERN_POSITION: "()", which is a number. */
    } capture[PATTERN_CAPTURES_MAX];
    const char *error; /* Static: the pattern is invalid, or too complex. */
};

#define PATTERN_POSITION SIZE_MAX

/* Searches for the pattern from the place 'from' (0 is the first) on. False: it
 * was not found, or 'error' is set. Adds the steps used to '*steps', and gives
 * up with an error when there are more than 'steps_max'. */
bool pattern_find(struct bytes text, struct bytes pattern, size_t from,
                  uint32_t *steps, uint32_t steps_max,
                  struct pattern_match *ret_match);

#endif /* HASP_CORE_REDIS_SCRIPT_PATTERN_H */
