/* SPDX-License-Identifier: MIT */

/* Three cores and eight clients that send drawn requests (drawn_requests.h),
 * while leaders die, links are cut, disks are stuck and nodes pause. No CHECK
 * may fail, the cores and their states stay sound (core_world.h checks after
 * each turn), and clients receive whole replies only. */

#ifndef HASP_TESTS_UNIT_DRAWN_CLUSTER_H
#define HASP_TESTS_UNIT_DRAWN_CLUSTER_H

#include "tests/unit/drawn_requests.h"

struct drawn_count {
    uint64_t requests, http, leaders, errors, scripts;
};

/* Runs a new cluster for 'steps' steps, or until 'has_more' is false; adds the
 * events to 'count'. */
void drawn_cluster(const struct choice *choice, uint32_t steps,
                   bool (*has_more)(void *data), struct drawn_count *count);

#endif /* HASP_TESTS_UNIT_DRAWN_CLUSTER_H */
