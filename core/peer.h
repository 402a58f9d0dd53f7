/* SPDX-License-Identifier: MIT */

/* The other nodes, as far as the core cares: up or down, and whose. */

#ifndef HASP_CORE_PEER_H
#define HASP_CORE_PEER_H

#include "core/state.h"

/* NULL if nothing is known of it. */
struct peer *peer_find(struct core *core, uint64_t id);
/* Likewise, but makes room; NULL only if PEER_COUNT_MAX are known. */
struct peer *peer_get(struct core *core, uint64_t id);
bool peer_is_up(struct core *core, uint64_t id);
/* Where frames for it go; NULL if it is not up. */
struct buffer *peer_output(struct core *core, uint64_t id);

#endif /* HASP_CORE_PEER_H */
