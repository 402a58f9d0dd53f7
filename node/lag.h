/* SPDX-License-Identifier: MIT */

/* Is this node far behind its leader?
 *
 * A number of entries would be a poor measure: a thousand is nothing under
 * load, and a day's work without. So time is: what was committed LAG_NS ago, as
 * far as a leader has told, must have been applied; and after a start, what was
 * committed when a leader was first heard.
 *
 * Pure: the times come in. Threads: one. */

#ifndef HASP_NODE_LAG_H
#define HASP_NODE_LAG_H

#include <stdbool.h>
#include <stdint.h>

#include "base/units.h"

#define LAG_NS (3 * NS_PER_S)

struct lag {
    bool has_mark;
    bool has_caught_up; /* Since the start. */
    uint64_t mark;      /* This was known to be committed ... */
    uint64_t mark_ns;   /* ... then, and had not been applied. */
};

/* To be called often: this much is known to be committed, and applied. */
void lag_note(struct lag *lag, uint64_t committed, uint64_t applied,
              uint64_t now_ns);
bool lag_is_long(const struct lag *lag, uint64_t now_ns);

#endif /* HASP_NODE_LAG_H */
