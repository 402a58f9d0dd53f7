// SPDX-License-Identifier: MIT

package hasp.shedlock;

import hasp.HaspException;
import hasp.HaspLock;
import hasp.Session;
import java.time.Duration;
import java.time.Instant;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import net.javacrumbs.shedlock.core.LockConfiguration;
import net.javacrumbs.shedlock.core.LockProvider;
import net.javacrumbs.shedlock.core.SimpleLock;

/**
 * A LockProvider for ShedLock. The lock is PREFIX and the name of the task.
 *
 * <p>The hold ends at lockAtMostFor, or with the lease of this process, which is
 * renewed: a process that dies blocks the task for the TTL of its session, and then
 * for lockAtLeastFor. If the task ends before lockAtLeastFor, the lock is released
 * later, by a timer. extend() is not supported.
 *
 * <p>unlock() throws NOT_HELD or LOST if the lock ended while the task ran: another
 * instance might have run it at the same time.
 */
public final class HaspLockProvider implements LockProvider, AutoCloseable {
    private final Session.Options options;
    private final String prefix;
    private Session session; // null: none was opened, or it was lost.

    /** Locks "shedlock/TASK". */
    public HaspLockProvider(Session.Options options) {
        this(options, "shedlock/");
    }

    /** Locks with another prefix: applications with equal tasks need different
     * ones. */
    public HaspLockProvider(Session.Options options, String prefix) {
        this.options = options;
        this.prefix = prefix;
    }

    private synchronized Session session() {
        if (session == null || session.state() == Session.State.LOST) {
            close();
            session = Session.open(options);
        }
        return session;
    }

    @Override
    public Optional<SimpleLock> lock(LockConfiguration of) {
        Instant now = Instant.now();
        Duration most = Duration.between(now, of.getLockAtMostUntil());
        Duration least = Duration.between(now, of.getLockAtLeastUntil());
        if (most.toMillis() <= 0) {
            return Optional.empty();
        }
        HaspLock.Options how = new HaspLock.Options().hold(most);
        if (least.toMillis() > 0) {
            how.delay(least);
        }
        HaspLock lock = session().lock(prefix + of.getName(), how);
        return lock.tryLock() ? Optional.of(new Held(lock, of)) : Optional.empty();
    }

    /** Closes the session. Locks that wait for lockAtLeastFor are released. */
    @Override
    public synchronized void close() {
        Session last = session;
        session = null;
        if (last != null) {
            last.close();
        }
    }

    private static final class Held implements SimpleLock {
        private final HaspLock lock;
        private final LockConfiguration of;
        private final AtomicBoolean isOver = new AtomicBoolean();

        Held(HaspLock lock, LockConfiguration of) {
            this.lock = lock;
            this.of = of;
        }

        @Override
        public void unlock() {
            if (!isOver.compareAndSet(false, true)) {
                throw new IllegalStateException("lock " + of.getName()
                    + " was unlocked before");
            }
            long left = Duration.between(Instant.now(), of.getLockAtLeastUntil())
                .toMillis();
            if (left <= 0) {
                lock.unlock();
                return;
            }
            lock.guard(Duration.ZERO);
            CompletableFuture.delayedExecutor(left, TimeUnit.MILLISECONDS)
                .execute(() -> {
                    try {
                        lock.unlock();
                    } catch (HaspException e) {
                        // The task has ended long ago.
                    }
                });
        }
    }
}
