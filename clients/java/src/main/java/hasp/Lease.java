// SPDX-License-Identifier: MIT

package hasp;

import hasp.Clocks.Reading;

/**
 * Until when may a lease be trusted? The clock rules, without I/O.
 *
 * <p>A lease of T is valid until S0 + 0.8 T, S0 being the clock when the newest
 * heartbeat that was answered OK was <em>sent</em>. The leader counts T from its
 * receipt, so with clocks up to 10 % off on either side the client ends first.
 * Of the two clocks that counts on which more has passed. With a linger the
 * lease is in jeopardy (not held, although an answer mends it) from S0 + 0.8
 * min(T, linger) on; from S0 + 0.8 T it is lost, and nothing leaves lost.
 *
 * <p>All in whole nanoseconds. tests/vectors/lease.json holds this file to what
 * the C library does.
 */
final class Lease {
    private static final long MS = 1_000_000;
    /** A session without end asks so often whether something was taken. */
    private static final long LOOK = 5000 * MS;

    private Reading sent; // Of the newest heartbeat that was answered; or null.
    private long ttl;
    private long linger; // 0: none.
    private boolean isLost;
    private boolean isEndless; // No time ends belief, only what is told.

    /** As answered(), of a session without end. */
    synchronized void answeredEndless(Reading at) {
        sent = at;
        isEndless = true;
    }

    synchronized boolean isEndless() {
        return isEndless;
    }

    /** The part of a promise that may be trusted. */
    static long trusted(long promised) {
        return promised * 4 / 5;
    }

    /** For how long a limited hold may be trusted of which 'leftMs' were left
     * according to the answer to what was sent then. */
    static long holdRemaining(Reading sent, long leftMs, Reading now) {
        return Math.max(0, trusted(leftMs * MS) - sent.age(now));
    }

    /** A heartbeat sent then was answered OK. Nothing revives a lease that was
     * lost by then, whether or not anybody had looked, and an older heartbeat
     * than the newest changes nothing. */
    synchronized void answered(Reading at, long ttlMs, long lingerMs) {
        if (state(at) != Session.State.LOST
                && (sent == null || !at.isBefore(sent))) {
            sent = at;
            ttl = ttlMs * MS;
            linger = lingerMs * MS;
        }
    }

    /** The cluster says that the session has ended. */
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

    /** For how long it may still be trusted; 0 unless it is held. */
    synchronized long remaining(Reading now) {
        if (isEndless) {
            return isLost ? 0 : Time.FOREVER;
        }
        return state(now) == Session.State.HELD
            ? trusted(promised()) - sent.age(now) : 0;
    }

    /** What each answer promises until the next one. */
    synchronized long promised() {
        if (isEndless) {
            return Time.FOREVER;
        }
        return linger != 0 && linger < ttl ? linger : ttl;
    }

    /** Between heartbeats: a session is never quiet for a quarter of its
     * lease. */
    long period() {
        if (isEndless()) {
            return LOOK;
        }
        return promised() / 5;
    }
}
