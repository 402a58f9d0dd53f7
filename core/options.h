/* SPDX-License-Identifier: MIT */

/* The values that options of commands accept, for callers that check them
 * before sending. */

#ifndef HASP_CORE_OPTIONS_H
#define HASP_CORE_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

/* The range of a number, or of the size of a text; both are 0 for a flag. False
 * if the option does not exist. The cluster's limits may allow less. */
bool option_range(const char *word, uint64_t *ret_min, uint64_t *ret_max);

/* The name of an option by its place in enum option; NULL if there is none. */
const char *option_word(uint32_t place);

#endif /* HASP_CORE_OPTIONS_H */
