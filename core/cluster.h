/* SPDX-License-Identifier: MIT */

/* The look of a one-shard Redis Cluster: the leader is the master of all slots,
 * the others are its replicas, so that cluster clients find the leader. */

#ifndef HASP_CORE_CLUSTER_H
#define HASP_CORE_CLUSTER_H

#include <stdint.h>

struct core;
struct call;

#define CLUSTER_SLOT_COUNT 16384

/* The slot of a request's first key, 0 if it has none. */
uint32_t cluster_slot(const struct call *call);

#endif /* HASP_CORE_CLUSTER_H */
