/* SPDX-License-Identifier: MIT */

/* The hash slots of Redis Cluster (its specification, "Key distribution
 * model"), for clients that speak its protocol. */

#ifndef HASP_CORE_CLUSTER_SLOT_H
#define HASP_CORE_CLUSTER_SLOT_H

#include <stdint.h>

#include "base/bytes.h"

struct call;

#define CLUSTER_SLOT_COUNT 16384

/* CRC16 (XMODEM) of a key, or of its {tag}. */
uint32_t cluster_key_slot(struct bytes key);
/* The slot of a request's first key; 0 if it has none. */
uint32_t cluster_slot(const struct call *call);

#endif /* HASP_CORE_CLUSTER_SLOT_H */
