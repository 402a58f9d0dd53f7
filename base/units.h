/* SPDX-License-Identifier: MIT */

/* The units of time. A quantity has its unit in its name (lease_ms, now_ns). */

#ifndef HASP_BASE_UNITS_H
#define HASP_BASE_UNITS_H

#include <stdint.h>

#define NS_PER_US UINT64_C(1000)
#define NS_PER_MS UINT64_C(1000000)
#define NS_PER_S UINT64_C(1000000000)

#endif /* HASP_BASE_UNITS_H */
