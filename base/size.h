/* SPDX-License-Identifier: MIT */

/* Sizes as people write them. */

#ifndef HASP_BASE_SIZE_H
#define HASP_BASE_SIZE_H

#include <stdbool.h>
#include <stdint.h>

/* "4096", "64K", "16M", "2G" (powers of 1024); false for anything else, or if
 * it exceeds 64 bits. */
bool size_parse(const char *text, uint64_t *ret_size);

#endif /* HASP_BASE_SIZE_H */
