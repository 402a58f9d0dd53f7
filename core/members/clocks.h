/* SPDX-License-Identifier: MIT */

/* Are the clocks of the members equally fast? Leases rest on it that no clock
 * is more than 10 % off (the rules of time, ARCHITECTURE.md).
 *
 * Each node tells the others its time twice a second, and measures how fast
 * their clocks run against its own (clock_rate.h). From 1 % on it says so in
 * the log, once until they agree again. A node is *off* if the clocks of more
 * than half of the other voters are faster than its own by more than that, or
 * slower. A leader that is off by 5 % hands over to a voter that is not: at
 * most once a minute, so that leadership does not go round where nobody is
 * right. */

#ifndef HASP_CORE_MEMBERS_CLOCKS_H
#define HASP_CORE_MEMBERS_CLOCKS_H

#include "base/bytes.h"
#include "base/err.h"

struct core;

/* Lives as long as the core. */
struct clocks {
    uint64_t due_ns;
    uint64_t moved_ns; /* When this leader handed over for it; 0. */
    bool is_off;       /* That of this node, as was told. */
};

void clocks_turn(struct core *core);
uint64_t clocks_next(const struct core *core);
MUST_CHECK int clocks_received(struct core *core, uint64_t from,
                               struct bytes body);
/* This leader hands over for its clock. */
void clocks_handed_over(struct core *core, uint64_t to);

#endif /* HASP_CORE_MEMBERS_CLOCKS_H */
