/* SPDX-License-Identifier: MIT */

/* Lengths of time, as people write and read them. */

#ifndef HASP_BASE_DURATION_H
#define HASP_BASE_DURATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Enough for any that duration_format() writes. */
#define DURATION_TEXT_SIZE 32

/* "500ms", "10s", "2m", "1.5h", "1d"; a bare number is seconds. False if 'text'
 * is anything else, or longer than some 30000 years. */
bool duration_parse(const char *text, uint64_t *ret_time_ms);

/* "350ms", "7.4s", "2m10s", "1h15m", "3d04h"; gives 'out'. */
const char *duration_format(uint64_t time_ms, char out[DURATION_TEXT_SIZE]);

#endif /* HASP_BASE_DURATION_H */
