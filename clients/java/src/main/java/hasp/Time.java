// SPDX-License-Identifier: MIT

package hasp;

import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.locks.LockSupport;

/** Points in time of this process, in nanoseconds; {@link #FOREVER} means
 * never. */
final class Time {
    static final long MS = 1_000_000;
    static final long FOREVER = Long.MAX_VALUE;
    private static final long ORIGIN = System.nanoTime();

    private Time() {}

    static long now() {
        return System.nanoTime() - ORIGIN;
    }

    static long in(long nanos) {
        return plus(now(), nanos);
    }

    static long plus(long at, long nanos) {
        return at > FOREVER - nanos ? FOREVER : at + nanos;
    }

    /** The end of a wait; 0: it does not wait. */
    static long until(Duration wait) {
        return wait.isNegative() || wait.isZero() ? 0 : in(nanos(wait));
    }

    static long left(long until) {
        return until == FOREVER ? FOREVER : until - now();
    }

    /** Saturates, as {@link java.util.concurrent.TimeUnit} does. */
    static long nanos(Duration length) {
        try {
            return length.toNanos();
        } catch (ArithmeticException e) {
            return FOREVER;
        }
    }

    /** Rounds up, so that a wait is not cut short and nothing becomes 0. */
    static String milliseconds(Duration length) {
        return Long.toString((Math.min(nanos(length), FOREVER - MS) + MS - 1) / MS);
    }

    /** Waits until the future is done or the time is over. An interrupt that
     * must not end the wait is restored afterwards. */
    static void await(long until, boolean mayInterrupt, CompletableFuture<?> what)
            throws InterruptedException {
        boolean wasInterrupted = false;
        try {
            while (!what.isDone() && left(until) > 0) {
                try {
                    what.get(left(until), TimeUnit.NANOSECONDS);
                } catch (InterruptedException e) {
                    if (mayInterrupt) {
                        throw e;
                    }
                    wasInterrupted = true;
                } catch (ExecutionException | TimeoutException e) {
                    // It is done, or the time is over.
                }
            }
        } finally {
            if (wasInterrupted) {
                Thread.currentThread().interrupt();
            }
        }
    }

    /** Pauses before all nodes are asked again: longer each time, and for a
     * random time, so that clients do not retry at the same moment. An
     * interrupt ends the pause. */
    static void pause(int round) {
        boolean wasInterrupted = Thread.interrupted();
        LockSupport.parkNanos(
            ThreadLocalRandom.current().nextLong(20 * MS, 100 * MS)
                * Math.min(round, 5));
        if (wasInterrupted) {
            Thread.currentThread().interrupt();
        }
    }
}
