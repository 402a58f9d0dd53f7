/* SPDX-License-Identifier: MIT */

/* The smaller and the larger of two numbers, and their order. */

#ifndef HASP_BASE_MINMAX_H
#define HASP_BASE_MINMAX_H

#include <stdint.h>

static inline uint64_t u64_min(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static inline uint64_t u64_max(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* For qsort(): below, at or above 0. */
static inline int u64_order(uint64_t a, uint64_t b)
{
    return a < b ? -1 : a > b;
}

#endif /* HASP_BASE_MINMAX_H */
