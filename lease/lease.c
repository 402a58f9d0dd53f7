/* SPDX-License-Identifier: MIT */

#include "lease/lease.h"

#include "base/check.h"
#include "base/units.h"

static uint64_t since(uint64_t then_ns, uint64_t now_ns)
{
    return now_ns > then_ns ? now_ns - then_ns : 0;
}

/* What has passed on the clock that has gone further. */
static uint64_t elapsed(struct lease_clock then, struct lease_clock now)
{
    uint64_t monotonic_ns = since(then.monotonic_ns, now.monotonic_ns);
    uint64_t boottime_ns = since(then.boottime_ns, now.boottime_ns);
    return monotonic_ns > boottime_ns ? monotonic_ns : boottime_ns;
}

/* A machine that was suspended between two readings shows it on the second
 * clock only. */
static bool is_before(struct lease_clock a, struct lease_clock b)
{
    if (a.monotonic_ns != b.monotonic_ns) {
        return a.monotonic_ns < b.monotonic_ns;
    }
    return a.boottime_ns < b.boottime_ns;
}

uint64_t lease_trusted_ns(uint64_t promised_ns)
{
    return promised_ns / 5 * 4 + promised_ns % 5 * 4 / 5;
}

uint64_t lease_promised_ns(const struct lease *lease)
{
    bool is_lingering = lease->linger_ns != 0 &&
                        lease->linger_ns < lease->ttl_ns;
    return is_lingering ? lease->linger_ns : lease->ttl_ns;
}

uint64_t lease_period_ns(const struct lease *lease)
{
    return lease_promised_ns(lease) / 5;
}

void lease_init(struct lease *lease)
{
    *lease = (struct lease){.is_granted = false};
}

void lease_beat_sent(struct lease *lease, struct lease_clock at)
{
    if (!lease->is_tried || is_before(lease->tried, at)) {
        lease->tried = at;
        lease->is_tried = true;
    }
}

void lease_answered(struct lease *lease, struct lease_clock sent,
                    uint64_t ttl_ms, uint64_t linger_ms)
{
    /* A heartbeat that was sent when the lease was over already cannot bring
     * it back, whether or not anybody looked in between. */
    if (lease_check(lease, sent) == LEASE_LOST) {
        return;
    }
    if (lease->is_granted && is_before(sent, lease->sent)) {
        return;
    }
    lease->sent = sent;
    lease->ttl_ns = ttl_ms * NS_PER_MS;
    lease->linger_ns = linger_ms * NS_PER_MS;
    lease->is_granted = true;
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
    uint64_t passed_ns = elapsed(lease->sent, now);
    if (passed_ns >= lease_trusted_ns(lease->ttl_ns)) {
        lease->is_lost = true;
        return LEASE_LOST;
    }
    uint64_t trust_ns = lease_trusted_ns(lease_promised_ns(lease));
    return passed_ns >= trust_ns ? LEASE_JEOPARDY : LEASE_HELD;
}

uint64_t lease_remaining(struct lease *lease, struct lease_clock now)
{
    if (lease_check(lease, now) != LEASE_HELD) {
        return 0;
    }
    uint64_t trust_ns = lease_trusted_ns(lease_promised_ns(lease));
    uint64_t passed_ns = elapsed(lease->sent, now);
    CHECK(passed_ns < trust_ns);
    return trust_ns - passed_ns;
}

uint64_t lease_hold_remaining(struct lease_clock sent, uint64_t hold_left_ms,
                              struct lease_clock now)
{
    uint64_t trust_ns = lease_trusted_ns(hold_left_ms * NS_PER_MS);
    uint64_t passed_ns = elapsed(sent, now);
    return passed_ns < trust_ns ? trust_ns - passed_ns : 0;
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
    if (lease->is_tried && is_before(last, lease->tried)) {
        last = lease->tried;
    }
    uint64_t period_ns = lease_period_ns(lease);
    uint64_t passed_ns = elapsed(last, now);
    return passed_ns < period_ns ? period_ns - passed_ns : 0;
}
