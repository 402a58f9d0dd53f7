/* SPDX-License-Identifier: MIT */

/* Are the clocks of the members equally fast? Leases rely on no clock being
 * more than 10 % off (the rules of time, ARCHITECTURE.md).
 *
 * Each node sends the others its time twice a second, with the newest time of
 * the receiver that it knows and its own time when it received that. So each
 * node measures how fast their clocks run compared to its own, and within which
 * error (clock_rate.h): a slow network or a slow node makes the error larger,
 * and is not taken for a wrong clock. If they differ for sure by 1 % it logs
 * that, once until they agree again. A node is *off* if the clocks of more than
 * half of the other voters are for sure faster than its own by more than the
 * limit, or slower. A leader that is off by 5 % hands leadership over to a
 * voter that cannot be: at most once a minute, so that leadership does not
 * circulate if no clock is right. */

#ifndef HASP_CORE_MEMBERS_CLOCKS_H
#define HASP_CORE_MEMBERS_CLOCKS_H

#include "base/bytes.h"
#include "base/err.h"

struct core;
struct peer;

/* Lives as long as the core. */
struct clocks {
    uint64_t due_ns;
    /* When this leader handed leadership over because of it; 0. */
    uint64_t moved_ns;
    bool is_off; /* This node's clock was logged as off. */
};

void clocks_turn(struct core *core);
uint64_t clocks_next(const struct core *core);
/* There is a new link with it. Its machine may have restarted, so its clock may
 * be another one, which can be ahead of the former. */
void clocks_linked(struct peer *peer);
MUST_CHECK int clocks_received(struct core *core, uint64_t from,
                               struct bytes body);
/* Records that this leader hands over because of its clock. */
void clocks_handed_over(struct core *core, uint64_t to);

#endif /* HASP_CORE_MEMBERS_CLOCKS_H */
