// SPDX-License-Identifier: MIT

package hasp.spring;

import hasp.HaspException;
import hasp.HaspReentrantLock;
import hasp.Session;
import java.time.Duration;
import java.util.ConcurrentModificationException;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Condition;
import org.springframework.integration.support.locks.DistributedLock;
import org.springframework.integration.support.locks.LockRegistry;

/**
 * A LockRegistry of Spring Integration 7. The lock is PREFIX and the text of the
 * key; it belongs to a thread, which can lock it again. A session is renewed while
 * the process lives, and replaced if it is lost.
 *
 * <p>unlock() throws ConcurrentModificationException if the lock was lost, since
 * others might have held it during the last steps, and IllegalStateException if
 * the thread does not have it. A time to live ends the hold in any case.
 */
public final class HaspLockRegistry implements LockRegistry<DistributedLock>,
        AutoCloseable {
    private final Session.Options options;
    private final String prefix;
    private final ConcurrentMap<String, KeyLock> locks = new ConcurrentHashMap<>();
    private Session session; // null: none was opened, or it was lost.

    /** Locks "spring/KEY". */
    public HaspLockRegistry(Session.Options options) {
        this(options, "spring/");
    }

    /** Locks with another prefix: applications with equal keys need different
     * ones. */
    public HaspLockRegistry(Session.Options options, String prefix) {
        this.options = options;
        this.prefix = prefix;
    }

    /** The lock of this key; equal keys have the same one. Sends no request. */
    @Override
    public DistributedLock obtain(Object key) {
        return locks.computeIfAbsent(prefix + key, KeyLock::new);
    }

    private synchronized Session session() {
        if (session == null || session.state() == Session.State.LOST) {
            close();
            session = Session.open(options);
        }
        return session;
    }

    /** Closes the session; all locks are released. */
    @Override
    public synchronized void close() {
        Session last = session;
        session = null;
        if (last != null) {
            last.close();
        }
    }

    private interface Acquire {
        boolean on(HaspReentrantLock lock) throws InterruptedException;
    }

    private final class KeyLock implements DistributedLock {
        private final String name;
        private final ThreadLocal<HaspReentrantLock> mine = new ThreadLocal<>();
        private Session of; // Of the newest lock.
        private HaspReentrantLock newest;

        KeyLock(String name) {
            this.name = name;
        }

        private synchronized HaspReentrantLock current() {
            Session now = session();
            if (of != now) {
                of = now;
                newest = new HaspReentrantLock(now, name);
            }
            return newest;
        }

        private boolean acquire(Acquire how) throws InterruptedException {
            HaspReentrantLock lock = mine.get();
            if (lock != null) {
                return how.on(lock);
            }
            lock = current();
            boolean is = how.on(lock);
            if (is) {
                mine.set(lock);
            }
            return is;
        }

        private boolean acquireAlways(Acquire how) {
            try {
                return acquire(how);
            } catch (InterruptedException e) {
                throw new AssertionError(e);
            }
        }

        @Override
        public void lock() {
            acquireAlways(lock -> {
                lock.lock();
                return true;
            });
        }

        @Override
        public void lock(Duration ttl) {
            acquireAlways(lock -> {
                lock.lock(ttl);
                return true;
            });
        }

        @Override
        public void lockInterruptibly() throws InterruptedException {
            acquire(lock -> {
                lock.lockInterruptibly();
                return true;
            });
        }

        @Override
        public boolean tryLock() {
            return acquireAlways(HaspReentrantLock::tryLock);
        }

        @Override
        public boolean tryLock(long time, TimeUnit unit) throws InterruptedException {
            return acquire(lock -> lock.tryLock(time, unit));
        }

        @Override
        public boolean tryLock(Duration wait, Duration ttl)
                throws InterruptedException {
            return acquire(lock -> lock.tryLock(wait, ttl));
        }

        @Override
        public void unlock() {
            HaspReentrantLock lock = mine.get();
            if (lock == null) {
                throw new IllegalStateException("lock " + name
                    + " is not held by " + Thread.currentThread().getName());
            }
            try {
                lock.unlock();
            } catch (HaspException e) {
                if (e.reason() != HaspException.Reason.UNKNOWN) {
                    var told = new ConcurrentModificationException("lock " + name
                        + " was lost; what it protects might have been changed "
                        + "by others meanwhile: " + e.getMessage());
                    told.initCause(e);
                    throw told;
                }
            } finally {
                if (!lock.isHeldByCurrentThread()) {
                    mine.remove();
                }
            }
        }

        @Override
        public Condition newCondition() {
            throw new UnsupportedOperationException(
                "a distributed lock has no conditions");
        }
    }
}
