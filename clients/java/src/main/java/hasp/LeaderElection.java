// SPDX-License-Identifier: MIT

package hasp;

import hasp.HaspException.Reason;
import java.util.List;
import java.util.concurrent.Semaphore;

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
    /** What a leader does, and what others are told. */
    @FunctionalInterface
    public interface Listener {
        /** This process leads. The thread is interrupted when it does no longer;
         * {@code lock.token()} is the fence of what it writes meanwhile. When it
         * returns, or throws, the leadership is given up. */
        void lead(HaspLock lock) throws InterruptedException;

        /** It does no longer: lead() has returned. */
        default void stopped() {}

        /** Who leads now, by what it announces: also this process itself. */
        default void leader(String value) {}
    }

    private final Session.Options options;
    private final String name;
    private final String value;
    private final Listener listener;

    /** 'name' is the lock's, 'value' what this process announces as its leader:
     * its address, for example. */
    public LeaderElection(Session.Options options, String name, String value,
            Listener listener) {
        this.options = options;
        this.name = name;
        this.value = value;
        this.listener = listener;
    }

    /** Campaigns, leads, and campaigns again, until the thread is interrupted.
     * Whatever is lost in between is opened anew. REFUSED: the cluster does not
     * want this client. */
    @Override
    public void run() {
        while (!Thread.currentThread().isInterrupted()) {
            try (Session session = Session.open(options)) {
                serve(session);
            } catch (HaspException e) {
                if (e.reason() == Reason.REFUSED) {
                    throw e;
                }
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
            HaspLock lock = session.lock(name, new HaspLock.Options().value(value));
            for (;;) {
                lock.lockInterruptibly();
                lead(lock);
            }
        } finally {
            observer.interrupt();
            if (watch != null) {
                watch.close();
            }
        }
    }

    private void lead(HaspLock lock) throws InterruptedException {
        Term term = new Term(Thread.currentThread());
        lock.ended().thenRun(term::interrupt);
        try {
            listener.lead(lock);
        } catch (InterruptedException e) {
            if (!term.end()) {
                throw e;
            }
        } finally {
            term.end();
            listener.stopped();
            unlock(lock);
        }
    }

    /** Whose end interrupts the leader, but nothing that he does later. */
    private static final class Term {
        private final Thread leader;
        private boolean isOver;
        private boolean wasLost;

        Term(Thread leader) {
            this.leader = leader;
        }

        synchronized void interrupt() {
            if (!isOver) {
                wasLost = true;
                leader.interrupt();
            }
        }

        /** Was it interrupted by its end, and by nobody else? */
        synchronized boolean end() {
            boolean byUs = wasLost && !isOver;
            isOver = true;
            if (byUs) {
                Thread.interrupted();
            }
            return byUs;
        }
    }

    private static void unlock(HaspLock lock) {
        try {
            lock.unlock();
        } catch (HaspException e) {
            // It was lost, or will be given back.
        }
    }

    private void observe(Session session, Semaphore news) {
        String last = "";
        try {
            for (;;) {
                news.acquire();
                news.drainPermits();
                List<Session.Holder> holders = session.holders(name);
                if (!holders.isEmpty() && !holders.get(0).value().equals(last)) {
                    last = holders.get(0).value();
                    listener.leader(last);
                }
            }
        } catch (InterruptedException | HaspException e) {
            // It is over.
        }
    }
}
