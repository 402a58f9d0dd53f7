/* SPDX-License-Identifier: MIT */

/* The id of a cluster, by which its members, connections and data directories
 * know that they belong together. All zero: not known yet. */

#ifndef HASP_BASE_CLUSTER_ID_H
#define HASP_BASE_CLUSTER_ID_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define CLUSTER_ID_SIZE 16

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

#endif /* HASP_BASE_CLUSTER_ID_H */
