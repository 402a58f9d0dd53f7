// SPDX-License-Identifier: MIT

package hasp;

import hasp.Clocks.Reading;

/**
 * Until when may a lease be trusted? The clock rules, without I/O.
 *
 * <p>A lease of T is valid until S0 + 0.8 T, where S0 is the clock when the
 * newest heartbeat that was answered OK was <em>sent</em>. The leader counts T
 * from its receipt, so with clocks up to 10 % off on either side the client
 * ends first. The clock on which more time has passed counts. With a linger the
 * lease is in jeopardy (not held, although an answer restores it) from S0 + 0.8
 * min(T, linger) on. From S0 + 0.8 T on it is lost, and a lost lease stays
 * lost.
 *
 * <p>All times are whole nanoseconds. tests/vectors/lease.json checks that this
 * file does the same as the C library.
 */
final class Lease {
    private static final long MS = 1_000_000;
    /** How often a durable session checks its holds. */
    private static final long LOOK = 5000 * MS;

    // When the newest answered heartbeat was sent; or null.
    private Reading sent;
    private long ttl;
    private long linger; // 0: none.
    private boolean isLost;
    private boolean isEndless; // Only the cluster ends it, no time does.

    /** Like answered(), for a durable session. */
    synchronized void answeredEndless(Reading at) {
        sent = at;
        isEndless = true;
    }

    synchronized boolean isEndless() {
        return isEndless;
    }

    /** The part of a promised time that can be trusted. */
    static long trusted(long promised) {
        return promised * 4 / 5;
    }

    /** How long a limited hold can be trusted. The answer to the request sent
     * then said that 'leftMs' of it were left. */
    static long holdRemaining(Reading sent, long leftMs, Reading now) {
        return Math.max(0, trusted(leftMs * MS) - sent.age(now));
    }

    /** A heartbeat sent then was answered OK. A lease that was lost by then
     * stays lost, even if no check has noticed the loss. An older heartbeat
     * than the newest changes nothing. */
    synchronized void answered(Reading at, long ttlMs, long lingerMs) {
        if (state(at) != Session.State.LOST
                && (sent == null || !at.isBefore(sent))) {
            sent = at;
            ttl = ttlMs * MS;
            linger = lingerMs * MS;
        }
    }

    /** The cluster reported that the session has ended. */
    synchronized void refuse() {
        isLost = true;
    }

    synchronized Session.State state(Reading now) {
        if (isEndless) {
            return isLost ? Session.State.LOST : Session.State.HELD;
        }
        isLost |= sent != null && sent.age(now) >= trusted(ttl);
        if (isLost) {
            return Session.State.LOST;
        }
        return sent != null && sent.age(now) < trusted(promised())
            ? Session.State.HELD : Session.State.JEOPARDY;
    }

    /** How long the lease can be trusted; 0 unless it is held. */
    synchronized long remaining(Reading now) {
        if (isEndless) {
            return isLost ? 0 : Time.FOREVER;
        }
        return state(now) == Session.State.HELD
            ? trusted(promised()) - sent.age(now) : 0;
    }

    /** The time that each answer promises until the next one. */
    synchronized long promised() {
        if (isEndless) {
            return Time.FOREVER;
        }
        return linger != 0 && linger < ttl ? linger : ttl;
    }

    /** Time between heartbeats: a session is never silent for a quarter of its
     * lease. */
    long period() {
        if (isEndless()) {
            return LOOK;
        }
        return promised() / 5;
    }
}
