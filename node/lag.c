/* SPDX-License-Identifier: MIT */

/* Measures in time how far this node is behind its leader. */

#include "node/lag.h"

#include "base/check.h"

void lag_note(struct lag *lag, uint64_t committed, uint64_t applied,
              uint64_t now_ns)
{
    CHECK(!lag->has_mark || now_ns >= lag->mark_ns);
    if (!lag->has_mark && committed == 0) {
        return; /* No leader is known yet. */
    }
    if (lag->has_mark && applied < lag->mark) {
        return;
    }
    lag->has_caught_up |= lag->has_mark || applied >= committed;
    lag->has_mark = true;
    lag->mark = committed;
    lag->mark_ns = now_ns;
}

bool lag_is_long(const struct lag *lag, uint64_t now_ns)
{
    CHECK(!lag->has_mark || now_ns >= lag->mark_ns);
    return !lag->has_caught_up || now_ns - lag->mark_ns > LAG_NS;
}
