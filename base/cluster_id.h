/* SPDX-License-Identifier: MIT */

/* The id of a cluster, which its members, connections and data directories
 * share. All zero: not known yet. */

#ifndef HASP_BASE_CLUSTER_ID_H
#define HASP_BASE_CLUSTER_ID_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define CLUSTER_ID_SIZE 16

/* For people and programs: hex digits and a zero; "" if it is not known. */
#define CLUSTER_ID_TEXT_SIZE (2 * CLUSTER_ID_SIZE + 1)

static inline bool cluster_id_equal(const uint8_t a[CLUSTER_ID_SIZE],
                                    const uint8_t b[CLUSTER_ID_SIZE])
{
    return memcmp(a, b, CLUSTER_ID_SIZE) == 0;
}

static inline bool cluster_id_is_known(const uint8_t id[CLUSTER_ID_SIZE])
{
    static const uint8_t unknown[CLUSTER_ID_SIZE];
    return !cluster_id_equal(id, unknown);
}

static inline void cluster_id_format(const uint8_t id[CLUSTER_ID_SIZE],
                                     char out[CLUSTER_ID_TEXT_SIZE])
{
    static const char digits[] = "0123456789abcdef";
    size_t size = cluster_id_is_known(id) ? CLUSTER_ID_SIZE : 0;
    for (size_t i = 0; i < size; i++) {
        out[2 * i] = digits[id[i] >> 4];
        out[2 * i + 1] = digits[id[i] & 15];
    }
    out[2 * size] = '\0';
}

#endif /* HASP_BASE_CLUSTER_ID_H */
