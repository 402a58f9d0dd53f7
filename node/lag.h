/* SPDX-License-Identifier: MIT */

/* Measures whether this node is far behind its leader.
 *
 * A number of entries would be a poor measure: a thousand is little under load,
 * and a day's work without it. So the measure is time: entries that were known
 * to be committed LAG_NS ago must have been applied, and after a start those
 * that were committed when a leader was first heard.
 *
 * Pure: times are arguments. Threads: one. */

#ifndef HASP_NODE_LAG_H
#define HASP_NODE_LAG_H

#include <stdbool.h>
#include <stdint.h>

#include "base/units.h"

#define LAG_NS (3 * NS_PER_S)

struct lag {
    bool has_mark;
    bool has_caught_up; /* Since the start. */
    uint64_t mark;      /* Commit index that was known ... */
    uint64_t mark_ns;   /* ... at this time, and not applied. */
};

/* Records the known commit index and the applied index. Call it often. */
void lag_note(struct lag *lag, uint64_t committed, uint64_t applied,
              uint64_t now_ns);
bool lag_is_long(const struct lag *lag, uint64_t now_ns);

#endif /* HASP_NODE_LAG_H */
