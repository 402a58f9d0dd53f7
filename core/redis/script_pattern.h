/* SPDX-License-Identifier: MIT */

/* Patterns of Lua, as string.find, match and gsub have them. Source: Lua 5.1
 * Reference Manual, section 5.4.1; without the frontier %f. */

#ifndef HASP_CORE_REDIS_SCRIPT_PATTERN_H
#define HASP_CORE_REDIS_SCRIPT_PATTERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"

#define PATTERN_CAPTURES_MAX 32

struct pattern_match {
    size_t from; /* What matched: from here ... */
    size_t to;   /* ... up to here. */
    uint32_t count;
    struct pattern_capture {
        size_t from;
        size_t size; /* PATTERN_POSITION: "()", which is a number. */
    } capture[PATTERN_CAPTURES_MAX];
    const char *error; /* Static: the pattern is none, or too hard. */
};

#define PATTERN_POSITION SIZE_MAX

/* Looks for the pattern from the place 'from' (0 is the first) on. False: there
 * is none, or with 'error'. Adds what it took to '*steps', and gives up with an
 * error when that is more than 'steps_max'. */
bool pattern_find(struct bytes text, struct bytes pattern, size_t from,
                  uint32_t *steps, uint32_t steps_max,
                  struct pattern_match *ret_match);

#endif /* HASP_CORE_REDIS_SCRIPT_PATTERN_H */
