/* SPDX-License-Identifier: MIT */

/* The smaller and the larger of two numbers. */

#ifndef HASP_BASE_NUMBER_H
#define HASP_BASE_NUMBER_H

#include <stdint.h>

static inline uint64_t u64_min(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static inline uint64_t u64_max(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

#endif /* HASP_BASE_NUMBER_H */
