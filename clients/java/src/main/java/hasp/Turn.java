// SPDX-License-Identifier: MIT

package hasp;

import hasp.HaspException.Reason;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;

/**
 * The turn to acquire with a lock object: one thread has it, until its hold ends.
 * A change that its caller has abandoned keeps the turn until it is settled.
 */
final class Turn {
    private static final long LOOK = 100 * Time.MS; // Between two checks.

    private final Semaphore permit = new Semaphore(1, true);
    // Done when the abandoned change is settled; null: no such change has the turn.
    private volatile CompletableFuture<Void> settling;

    /** False: not in time. Who only tries waits for an abandoned change, too:
     * no thread has the lock, so "not in time" would be wrong. */
    boolean take(Session session, long until, boolean mayInterrupt)
            throws InterruptedException {
        long limit = Time.plus(until == 0 ? Time.now() : until, session.timeout);
        boolean wasInterrupted = false;
        try {
            for (;;) {
                session.check();
                // Read before the permit is tried: the permit comes first in give().
                var abandoned = settling;
                long left = until == 0 ? 0 : Math.min(LOOK, Time.left(until));
                try {
                    if (left <= 0 ? permit.tryAcquire()
                            : permit.tryAcquire(left, TimeUnit.NANOSECONDS)) {
                        return true;
                    }
                } catch (InterruptedException e) {
                    if (mayInterrupt) {
                        throw e;
                    }
                    wasInterrupted = true;
                }
                if (left <= 0 && abandoned == null) {
                    return false;
                }
                if (left <= 0) {
                    await(abandoned, limit, session, mayInterrupt);
                }
            }
        } finally {
            if (wasInterrupted) {
                Thread.currentThread().interrupt();
            }
        }
    }

    private static void await(CompletableFuture<Void> abandoned, long limit,
            Session session, boolean mayInterrupt) throws InterruptedException {
        if (Time.left(limit) <= 0) {
            throw new HaspException(Reason.UNREACHABLE,
                "the outcome of an earlier request is not known yet");
        }
        Time.await(limit, mayInterrupt,
            CompletableFuture.anyOf(abandoned, session.over));
    }

    /** The caller gives up, but the change that has the turn is not settled. */
    void abandon() {
        settling = new CompletableFuture<>();
    }

    void give(boolean does) {
        if (!does) {
            return;
        }
        var abandoned = settling;
        settling = null;
        permit.release();
        if (abandoned != null) {
            abandoned.complete(null);
        }
    }
}
