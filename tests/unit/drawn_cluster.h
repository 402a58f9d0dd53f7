/* SPDX-License-Identifier: MIT */

/* Three cores and eight clients that send drawn requests (drawn_requests.h),
 * while leaders die, links are cut, disks are stuck and nodes pause. No CHECK
 * may fail, the cores and their states stay sound (core_world.h looks after
 * each turn), and what a client is sent is whole replies. */

#ifndef HASP_TESTS_UNIT_DRAWN_CLUSTER_H
#define HASP_TESTS_UNIT_DRAWN_CLUSTER_H

#include "tests/unit/drawn_requests.h"

struct drawn_count {
    uint64_t requests, http, leaders, errors, scripts;
};

/* A new cluster lives for so many steps, or until 'has_more' is false; what has
 * happened is added to 'count'. */
void drawn_cluster(const struct choice *choice, uint32_t steps,
                   bool (*has_more)(void *data), struct drawn_count *count);

#endif /* HASP_TESTS_UNIT_DRAWN_CLUSTER_H */
