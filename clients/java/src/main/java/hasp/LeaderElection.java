// SPDX-License-Identifier: MIT

package hasp;

import hasp.HaspException.Reason;
import java.lang.reflect.UndeclaredThrowableException;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Semaphore;
import java.util.concurrent.ThreadLocalRandom;

/**
 * Campaigns for a lock, and leads while it holds it.
 *
 * <pre>{@code
 * new LeaderElection(options, "leader", "10.0.0.7:8080", lock -> {
 *     while (!Thread.interrupted()) {
 *         lock.guard(Duration.ofSeconds(1));
 *         work(lock.token());
 *     }
 * }).run();
 * }</pre>
 */
public final class LeaderElection implements Runnable {
    /** The callbacks of an election. */
    @FunctionalInterface
    public interface Listener {
        /** Called when this process leads, on a thread of its own, which is
         * interrupted when the leadership is lost or run() must end. Fence its
         * writes with {@code lock.token()}. When it returns or throws, the
         * leadership is given up; if it repeatedly returns soon, the next campaign
         * begins later each time. */
        void lead(HaspLock lock) throws InterruptedException;

        /** Seals the resource before lead() is called: see {@link
         * HaspLock.Options#onGrant}. If it throws, failed() gets the error, and
         * the next campaign begins later each time. */
        default void onGrant(String name, long token) throws Exception {}

        /** Called when the leadership has ended: lead() has returned. */
        default void stopped() {}

        /** Called with the value of each new leader, which can be this process. */
        default void leader(String value) {}

        /** Called when an attempt to campaign has failed; the error names the
         * endpoints. The next attempt follows automatically. */
        default void failed(HaspException error) {}
    }

    /* A lead() that ends a term sooner counts as failed. */
    static final Duration TERM_GOOD = Duration.ofSeconds(10);
    static final Duration BACK_OFF_MIN = Duration.ofMillis(100);
    static final Duration BACK_OFF_MAX = Duration.ofSeconds(5);

    private final Session.Options options;
    private Duration backOff = Duration.ZERO; // Before the next campaign.
    private final String name;
    private final String value;
    private final Listener listener;

    /** 'name' is that of the lock; 'value', such as an address, is announced while
     * this process leads. */
    public LeaderElection(Session.Options options, String name, String value,
            Listener listener) {
        this.options = options;
        this.name = name;
        this.value = value;
        this.listener = listener;
    }

    /** Campaigns, leads, and campaigns again, until this thread is interrupted, or
     * the program interrupts the thread of lead(). Lost sessions are replaced.
     * REFUSED: the cluster refuses this client. */
    @Override
    public void run() {
        while (!Thread.currentThread().isInterrupted()) {
            try (Session session = Session.open(options)) {
                serve(session);
            } catch (HaspException e) {
                if (e.reason() == Reason.REFUSED) {
                    throw e;
                }
                listener.failed(e);
                Time.pause(5);
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            }
        }
    }

    private void serve(Session session) throws InterruptedException {
        Semaphore news = new Semaphore(0);
        Thread observer = new Thread(() -> observe(session, news), "hasp observer");
        observer.setDaemon(true);
        observer.start();
        Watch watch = null;
        try {
            watch = session.watch(name, change -> news.release());
            HaspLock lock = session.lock(name, new HaspLock.Options().value(value)
                .onGrant(listener::onGrant));
            for (;;) {
                if (!campaign(lock)) {
                    continue;
                }
                long began = System.nanoTime();
                if (lead(lock)) {
                    backOff = after(backOff, Duration.ofNanos(System.nanoTime() - began));
                    pause(backOff);
                }
            }
        } finally {
            observer.interrupt();
            if (watch != null) {
                watch.close();
            }
        }
    }

    /** False: the leadership could not be sealed, and the next campaign may
     * begin. */
    private boolean campaign(HaspLock lock) throws InterruptedException {
        try {
            lock.lockInterruptibly();
            return true;
        } catch (HaspException e) {
            if (e.reason() != Reason.SEAL) {
                throw e;
            }
            listener.failed(e);
            backOff = after(backOff, Duration.ZERO);
            pause(backOff);
            return false;
        }
    }

    /** The delay after a term of that length, which lead() has ended. */
    static Duration after(Duration backOff, Duration term) {
        if (term.compareTo(TERM_GOOD) >= 0) {
            return Duration.ZERO;
        }
        Duration next = backOff.multipliedBy(2);
        return next.compareTo(BACK_OFF_MIN) < 0 ? BACK_OFF_MIN
            : next.compareTo(BACK_OFF_MAX) > 0 ? BACK_OFF_MAX : next;
    }

    /** Waits for a random time, so that candidates whose lead() fails in the
     * same way do not campaign at the same moment. */
    private static void pause(Duration backOff) throws InterruptedException {
        long most = backOff.toMillis();
        if (most > 0) {
            Thread.sleep(ThreadLocalRandom.current().nextLong(most / 2, most));
        }
    }

    /** True if lead() ended although the lock was held. */
    private boolean lead(HaspLock lock) throws InterruptedException {
        Leader leader = new Leader(lock);
        leader.start();
        CompletableFuture<Void> ended = lock.ended();
        ended.thenRun(leader::lose);
        boolean wasInterrupted = leader.await();
        boolean wasLost = ended.isDone();
        try {
            listener.stopped();
        } finally {
            unlock(lock);
        }
        leader.fail();
        if (wasInterrupted || leader.wasInterrupted) {
            throw new InterruptedException();
        }
        return !wasLost;
    }

    /** The thread of lead(). It distinguishes interrupts by a loss of leadership
     * from all others, which one interrupt flag cannot do. */
    private final class Leader extends Thread {
        private final HaspLock lock;
        private final CompletableFuture<Void> done = new CompletableFuture<>();
        private Throwable failure; // Published by 'done'.
        private volatile boolean wasInterrupted;

        Leader(HaspLock lock) {
            super("hasp leader");
            this.lock = lock;
        }

        @Override
        public void run() {
            try {
                listener.lead(lock);
            } catch (InterruptedException e) {
                // It was lost or interrupted: both are handled.
            } catch (Throwable e) {
                failure = e;
            } finally {
                done.complete(null);
            }
        }

        @Override
        public void interrupt() {
            wasInterrupted = true;
            super.interrupt();
        }

        private void lose() {
            super.interrupt();
        }

        /** Waits for the end of lead(); returns whether this thread was
         * interrupted. */
        private boolean await() {
            boolean was = false;
            while (!done.isDone()) {
                try {
                    Time.await(Time.FOREVER, true, done);
                } catch (InterruptedException e) {
                    was = true;
                    lose();
                }
            }
            return was;
        }

        /** Throws the program's exception to the caller of run(). */
        private void fail() {
            if (failure instanceof RuntimeException e) {
                throw e;
            } else if (failure instanceof Error e) {
                throw e;
            } else if (failure != null) { // Not declared, but thrown.
                throw new UndeclaredThrowableException(failure);
            }
        }
    }

    private static void unlock(HaspLock lock) {
        try {
            lock.unlock();
        } catch (HaspException e) {
            // It was lost, or will be released.
        }
    }

    private void observe(Session session, Semaphore news) {
        String last = "";
        try {
            for (;;) {
                news.acquire();
                news.drainPermits();
                String now = leader(session);
                if (!now.isEmpty() && !now.equals(last)) {
                    last = now;
                    tell(now);
                }
            }
        } catch (InterruptedException | HaspException e) {
            // It is over.
        }
    }

    /** The current leader; "": none. It asks until there is an answer, since no
     * other message reports the leader until it changes. Throws LOST. */
    private String leader(Session session) throws InterruptedException {
        for (int round = 1;; round++) {
            try {
                List<Session.Holder> holders = session.holders(name);
                return holders.isEmpty() ? "" : holders.get(0).value();
            } catch (HaspException e) {
                if (!e.isToBeRepeated(true)) {
                    throw e;
                }
                Time.pause(round);
                if (Thread.interrupted()) {
                    throw new InterruptedException();
                }
            }
        }
    }

    /** Calls leader(). An exception must not prevent later calls. */
    private void tell(String value) {
        try {
            listener.leader(value);
        } catch (RuntimeException e) {
            Thread own = Thread.currentThread();
            own.getUncaughtExceptionHandler().uncaughtException(own, e);
        }
    }
}
