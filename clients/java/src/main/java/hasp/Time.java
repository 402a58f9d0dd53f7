// SPDX-License-Identifier: MIT

package hasp;

import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.locks.LockSupport;

/** Points in time of this process, in nanoseconds; {@link #FOREVER} is none. */
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

    /** Rounded up: a wait is not cut short, and nothing becomes 0. */
    static String milliseconds(Duration length) {
        return Long.toString((Math.min(nanos(length), FOREVER - MS) + MS - 1) / MS);
    }

    /** Until it is done, or the time is over; an interrupt that does not end it is
     * told after. */
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
                    // Done, or over.
                }
            }
        } finally {
            if (wasInterrupted) {
                Thread.currentThread().interrupt();
            }
        }
    }

    /** Before all nodes are asked once more: longer each time, and by chance, so
     * that many clients do not come at once. An interrupt ends it. */
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
