/* SPDX-License-Identifier: MIT */

/* What the options of commands take, for who checks them before he asks. */

#ifndef HASP_CORE_OPTIONS_H
#define HASP_CORE_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

/* The range of a number, or of the size of a text; false: there is no such
 * option. Both are 0 of a flag. The cluster's limits may allow less. */
bool option_range(const char *word, uint64_t *ret_min, uint64_t *ret_max);

/* The word of an option, by its place in enum option; NULL: there is none. */
const char *option_word(uint32_t place);

#endif /* HASP_CORE_OPTIONS_H */
