/* SPDX-License-Identifier: MIT */

/* The client's side of a lease: until when it may be trusted. Pure arithmetic.
 *
 * Rule 1: a lease of T is valid until S0 + 0.8 T, S0 being the clock when the
 * newest heartbeat that was answered OK was SENT. The leader counts T from its
 * receipt, so with clocks up to 10 % off on either side the client ends first
 * (0.8 / 0.9 < 1 / 1.1). The smaller remainder of CLOCK_MONOTONIC and
 * CLOCK_BOOTTIME counts: a suspended machine's monotonic clock stops. Rule 8:
 * with linger, from S0 + 0.8 min(T, linger) the lease is in jeopardy: NOT held,
 * but an answer makes it held again; from S0 + 0.8 T it is lost, and nothing
 * leaves lost. Belief in a hold ends when its RELEASE (or CONVERT SHARED,
 * CLOSE) is sent.
 *
 *     held --0.8 min(T, linger)--> jeopardy --0.8 T--> lost
 *       ^-------- answered OK --------'
 *
 * The same code runs in the client library, the tool and the simulator. */

#ifndef HASP_LEASE_LEASE_H
#define HASP_LEASE_LEASE_H

#include <stdbool.h>
#include <stdint.h>

/* One reading of both clocks, in nanoseconds. */
struct lease_clock {
    uint64_t monotonic_ns;
    uint64_t boottime_ns;
};

enum lease_state { LEASE_HELD, LEASE_JEOPARDY, LEASE_LOST };

struct lease {
    struct lease_clock sent;  /* When the newest answered heartbeat was sent. */
    struct lease_clock tried; /* When the newest heartbeat of all was sent. */
    bool is_tried;
    uint64_t ttl_ns;
    uint64_t linger_ns; /* 0: none. */
    bool is_granted;    /* An OPEN or KEEP has been answered. */
    bool is_endless;    /* The session has no lease: no time ends belief. */
    bool is_lost;       /* For ever. */
};

void lease_init(struct lease *lease);
/* A heartbeat is sent now. This moves only lease_next_beat(): a heartbeat that
 * is not answered is repeated after another fifth of the lease (at another
 * node, at 0.4 T), not at once. */
void lease_beat_sent(struct lease *lease, struct lease_clock at);
/* A heartbeat (or OPEN) was answered OK with these times. It was sent at
 * 'sent': this very request, not an earlier one that was given up. An answer to
 * an older request than the newest answered one changes nothing, nor does any
 * answer after the lease was lost. A request that was sent after the lease had
 * run out loses it, even if it was answered OK. */
void lease_answered(struct lease *lease, struct lease_clock sent,
                    uint64_t ttl_ms, uint64_t linger_ms);
/* The same for a durable session: it is held from now on, until it is refused.
 */
void lease_answered_endless(struct lease *lease, struct lease_clock sent);
/* The server said EXPIRED, NOSESSION or BLACKLISTED. */
void lease_refused(struct lease *lease);
/* The state at 'now'; LOST is remembered. JEOPARDY before the first answer. */
enum lease_state lease_check(struct lease *lease, struct lease_clock now);
/* Nanoseconds for which it may still be trusted; 0 unless held, UINT64_MAX
 * without end. */
uint64_t lease_remaining(struct lease *lease, struct lease_clock now);
/* Nanoseconds until the next heartbeat should be sent (a fifth of the shorter
 * of TTL and linger after the last one, so that nobody is marked as quiet);
 * UINT64_MAX on a lost lease, 0 before the first answer. */
uint64_t lease_next_beat(const struct lease *lease, struct lease_clock now);

/* The time for which an answer is a promise: the shorter of TTL and linger; 0
 * before the first answer, UINT64_MAX without end (rule 8). */
uint64_t lease_promised_ns(const struct lease *lease);
/* The time between two heartbeats: a fifth of that; LEASE_LOOK_NS without end,
 * since an answer can report that an operator has taken a hold. */
#define LEASE_LOOK_NS UINT64_C(5000000000)
uint64_t lease_period_ns(const struct lease *lease);

/* Nanoseconds for which a hold with a limit (max hold) may still be trusted:
 * 0.8 of 'hold_left_ms', which is what the answer to a request sent at 'sent'
 * said was left of it. If ACQUIRE was granted at once, that is the whole HOLD.
 */
uint64_t lease_hold_remaining(struct lease_clock sent, uint64_t hold_left_ms,
                              struct lease_clock now);

/* The time since 'then' by the clock that has advanced more (rule 1). */
uint64_t lease_elapsed(struct lease_clock then, struct lease_clock now);

#endif /* HASP_LEASE_LEASE_H */
