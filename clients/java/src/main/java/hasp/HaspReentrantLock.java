// SPDX-License-Identifier: MIT

package hasp;

import hasp.HaspException.Reason;
import java.time.Duration;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.Lock;

/**
 * A lock with the manners of {@link java.util.concurrent.locks.ReentrantLock}: it
 * belongs to a thread, which can lock it again and must unlock it as often. It
 * excludes the other threads of the program as well as all other locks of that
 * name. For code that expects such a lock; otherwise use {@link HaspLock}.
 *
 * <p>Unlike a ReentrantLock it can be lost: see {@link #guard}, and unlock() throws
 * NOT_HELD or LOST then. It throws the exceptions of {@link HaspLock}, and
 * IllegalMonitorStateException if the thread does not have it.
 */
public class HaspReentrantLock implements Lock {
    private static final AtomicLong OWNERS = new AtomicLong();

    private final Session session;
    private final String name;
    private final boolean isShared;
    private final Map<Thread, HaspLock> held = new ConcurrentHashMap<>();

    /** A lock of this name. Sends no request. */
    public HaspReentrantLock(Session session, String name) {
        this(session, name, false);
    }

    HaspReentrantLock(Session session, String name, boolean isShared) {
        this.session = session;
        this.name = name;
        this.isShared = isShared;
    }

    private interface Acquire {
        boolean on(HaspLock lock) throws InterruptedException;
    }

    /** Throws if this thread cannot acquire it now. */
    void check() {}

    private boolean acquire(Acquire how) throws InterruptedException {
        return acquire(how, new HaspLock.Options());
    }

    private boolean acquire(Acquire how, HaspLock.Options options)
            throws InterruptedException {
        Thread me = Thread.currentThread();
        HaspLock lock = held.get(me);
        if (lock != null) {
            return how.on(lock);
        }
        check();
        // A new owner each time: what is left of an earlier one is not its hold.
        options.owner(ProcessHandle.current().pid() + "-thread-"
            + OWNERS.incrementAndGet());
        lock = session.lock(name, isShared ? options.shared() : options);
        if (!how.on(lock)) {
            return false;
        }
        held.put(me, lock);
        return true;
    }

    private boolean acquireAlways(Acquire how) {
        try {
            return acquire(how);
        } catch (InterruptedException e) {
            throw new AssertionError(e);
        }
    }

    /** Waits in line until the lock is held. An interrupt does not end the wait. */
    @Override
    public void lock() {
        acquireAlways(lock -> {
            lock.lock();
            return true;
        });
    }

    /** Waits in line until the lock is held. An interrupt leaves the queue. */
    @Override
    public void lockInterruptibly() throws InterruptedException {
        acquire(lock -> {
            lock.lockInterruptibly();
            return true;
        });
    }

    /** Acquires the lock if it is free; false if it is not. It asks the cluster. */
    @Override
    public boolean tryLock() {
        return acquireAlways(HaspLock::tryLock);
    }

    /** Waits in line for at most this time. */
    @Override
    public boolean tryLock(long time, TimeUnit unit) throws InterruptedException {
        return acquire(lock -> lock.tryLock(time, unit));
    }

    /** Waits in line for at most this time. */
    public boolean tryLock(Duration wait) throws InterruptedException {
        return acquire(lock -> lock.tryLock(wait));
    }

    /** Waits in line for at most this time; then the hold lasts at most as long as
     * 'hold'. A lock that the thread has already keeps its limit. */
    public boolean tryLock(Duration wait, Duration hold) throws InterruptedException {
        return acquire(lock -> lock.tryLock(wait),
            new HaspLock.Options().hold(hold));
    }

    /** Waits in line; then the hold lasts at most as long as 'hold'. An interrupt
     * does not end the wait. */
    public void lock(Duration hold) {
        try {
            acquire(lock -> {
                lock.lock();
                return true;
            }, new HaspLock.Options().hold(hold));
        } catch (InterruptedException e) {
            throw new AssertionError(e);
        }
    }

    /** Releases the lock once. NOT_HELD, LOST: it was lost before, so others might
     * have held it during the last steps. */
    @Override
    public void unlock() {
        HaspLock lock = mine();
        try {
            lock.unlock();
        } finally {
            if (lock.token() == 0) {
                held.remove(Thread.currentThread(), lock);
            }
        }
    }

    /** Not supported, as by {@link HaspLock#newCondition}. */
    @Override
    public Condition newCondition() {
        return session.lock(name).newCondition();
    }

    private HaspLock mine() {
        HaspLock lock = held.get(Thread.currentThread());
        if (lock == null) {
            throw new IllegalMonitorStateException("[" + name
                + "] is not held by " + Thread.currentThread().getName());
        }
        return lock;
    }

    /** Whether this thread holds it, and the hold can be trusted now. */
    public boolean isHeldByCurrentThread() {
        HaspLock lock = held.get(Thread.currentThread());
        return lock != null && !lock.remaining().isZero();
    }

    /** The fencing token of this thread's hold. */
    public long token() {
        return mine().token();
    }

    /** Throws unless a step of this length ends within the lease. */
    public void guard(Duration need) {
        HaspLock lock = held.get(Thread.currentThread());
        if (lock == null) {
            throw new HaspException(Reason.NOT_HELD, "[" + name
                + "] is not held by " + Thread.currentThread().getName());
        }
        lock.guard(need);
    }

    boolean isMine() {
        return held.containsKey(Thread.currentThread());
    }
}
