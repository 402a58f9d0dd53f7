// SPDX-License-Identifier: MIT

package hasp;

import java.time.Duration;
import java.util.Optional;

/**
 * At most a number of permits at the same time, in the whole cluster; all users
 * must give the same number. A permit is a {@link HaspLock}: unlock() returns it,
 * from any thread, and guard() and token() say what is known of it.
 *
 * <p>Unlike {@link java.util.concurrent.Semaphore} it cannot be given more permits
 * than were acquired, and a permit is lost with its session.
 */
public final class HaspSemaphore {
    private final Session session;
    private final String name;
    private final int permits;

    /** A semaphore of this name, with this number of permits. Sends no request. */
    public HaspSemaphore(Session session, String name, int permits) {
        if (permits < 1) {
            throw new IllegalArgumentException("permits=" + permits
                + ": expected 1 or more");
        }
        this.session = session;
        this.name = name;
        this.permits = permits;
    }

    private HaspLock permit() {
        return session.lock(name, new HaspLock.Options().slots(permits));
    }

    /** Waits in line for a permit. An interrupt leaves the queue. */
    public HaspLock acquire() throws InterruptedException {
        HaspLock permit = permit();
        permit.lockInterruptibly();
        return permit;
    }

    /** Waits in line for a permit. An interrupt does not end the wait. */
    public HaspLock acquireUninterruptibly() {
        HaspLock permit = permit();
        permit.lock();
        return permit;
    }

    /** A permit if one is free. */
    public Optional<HaspLock> tryAcquire() {
        HaspLock permit = permit();
        return permit.tryLock() ? Optional.of(permit) : Optional.empty();
    }

    /** Waits in line for at most this time. */
    public Optional<HaspLock> tryAcquire(Duration wait) throws InterruptedException {
        HaspLock permit = permit();
        return permit.tryLock(wait) ? Optional.of(permit) : Optional.empty();
    }

    /** How many permits are free, as the cluster says; out of date as soon as it
     * arrives. */
    public int availablePermits() {
        return Math.max(0, permits - session.holders(name).size());
    }
}
