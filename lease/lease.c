/* SPDX-License-Identifier: MIT */

/* How long a client may rely on its lease, from the times of its requests and
 * the answers. Rules 1, 8 and 16. */

#include "lease/lease.h"

#include "base/check.h"
#include "base/minmax.h"
#include "base/units.h"
#include "lease/rules.h"

uint64_t lease_elapsed(struct lease_clock then, struct lease_clock now)
{
    uint64_t monotonic_ns = rules_left(now.monotonic_ns, then.monotonic_ns);
    uint64_t boottime_ns = rules_left(now.boottime_ns, then.boottime_ns);
    return u64_max(monotonic_ns, boottime_ns);
}

/* True if 'a' is earlier. Only the second clock shows that the machine was
 * suspended between the readings. */
static bool lease_is_before(struct lease_clock a, struct lease_clock b)
{
    if (a.monotonic_ns != b.monotonic_ns) {
        return a.monotonic_ns < b.monotonic_ns;
    }
    return a.boottime_ns < b.boottime_ns;
}

uint64_t lease_promised_ns(const struct lease *lease)
{
    return lease->is_endless ? UINT64_MAX
                             : rules_promised(lease->ttl_ns, lease->linger_ns);
}

uint64_t lease_period_ns(const struct lease *lease)
{
    return lease->is_endless ? LEASE_LOOK_NS
                             : rules_beat_period(lease_promised_ns(lease));
}

void lease_init(struct lease *lease)
{
    *lease = (struct lease){.is_granted = false};
}

void lease_beat_sent(struct lease *lease, struct lease_clock at)
{
    if (!lease->is_tried || lease_is_before(lease->tried, at)) {
        lease->tried = at;
        lease->is_tried = true;
    }
}

void lease_answered(struct lease *lease, struct lease_clock sent,
                    uint64_t ttl_ms, uint64_t linger_ms)
{
    /* A heartbeat that was sent after the lease's end cannot bring the lease
     * back, whether or not it was checked in between. */
    if (lease_check(lease, sent) == LEASE_LOST) {
        return;
    }
    if (lease->is_granted && lease_is_before(sent, lease->sent)) {
        return;
    }
    lease->sent = sent;
    lease->ttl_ns = ttl_ms * NS_PER_MS;
    lease->linger_ns = linger_ms * NS_PER_MS;
    lease->is_granted = true;
}

void lease_answered_endless(struct lease *lease, struct lease_clock sent)
{
    if (lease->is_lost ||
        (lease->is_granted && lease_is_before(sent, lease->sent))) {
        return;
    }
    lease->sent = sent;
    lease->is_granted = true;
    lease->is_endless = true;
}

void lease_refused(struct lease *lease)
{
    lease->is_lost = true;
}

enum lease_state lease_check(struct lease *lease, struct lease_clock now)
{
    if (lease->is_lost) {
        return LEASE_LOST;
    }
    if (!lease->is_granted) {
        return LEASE_JEOPARDY;
    }
    if (lease->is_endless) {
        return LEASE_HELD;
    }
    uint64_t passed_ns = lease_elapsed(lease->sent, now);
    if (passed_ns >= rules_trusted(lease->ttl_ns)) {
        lease->is_lost = true;
        return LEASE_LOST;
    }
    uint64_t trust_ns = rules_trusted(lease_promised_ns(lease));
    return passed_ns >= trust_ns ? LEASE_JEOPARDY : LEASE_HELD;
}

uint64_t lease_remaining(struct lease *lease, struct lease_clock now)
{
    if (lease_check(lease, now) != LEASE_HELD) {
        return 0;
    }
    if (lease->is_endless) {
        return UINT64_MAX;
    }
    uint64_t trust_ns = rules_trusted(lease_promised_ns(lease));
    uint64_t passed_ns = lease_elapsed(lease->sent, now);
    CHECK(passed_ns < trust_ns);
    return trust_ns - passed_ns;
}

uint64_t lease_hold_remaining(struct lease_clock sent, uint64_t hold_left_ms,
                              struct lease_clock now)
{
    uint64_t trust_ns = rules_trusted(hold_left_ms * NS_PER_MS);
    return rules_left(trust_ns, lease_elapsed(sent, now));
}

uint64_t lease_next_beat(const struct lease *lease, struct lease_clock now)
{
    if (lease->is_lost) {
        return UINT64_MAX;
    }
    if (!lease->is_granted) {
        return 0;
    }
    struct lease_clock last = lease->sent;
    if (lease->is_tried && lease_is_before(last, lease->tried)) {
        last = lease->tried;
    }
    return rules_left(lease_period_ns(lease), lease_elapsed(last, now));
}
