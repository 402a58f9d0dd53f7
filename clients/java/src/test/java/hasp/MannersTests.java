// SPDX-License-Identifier: MIT

package hasp;

import hasp.HaspException.Reason;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicInteger;

/** The locks with the manners of java.util.concurrent, against a real cluster
 * ($HASP_ENDPOINTS). It prints "kill" and waits for a line when the leader is to be
 * killed. */
public final class MannersTests {
    private static final Duration LONG = Duration.ofSeconds(30);
    private static int passed;

    private MannersTests() {}

    private static void check(boolean fact, Object what) {
        if (!fact) {
            throw new AssertionError(what);
        }
        passed++;
    }

    private interface Step {
        void run() throws Exception;
    }

    private static Throwable thrown(Step step) {
        try {
            step.run();
        } catch (Throwable e) {
            return e;
        }
        throw new AssertionError("nothing was thrown");
    }

    private static void refused(Reason reason, Step step) {
        Throwable e = thrown(step);
        check(e instanceof HaspException h && h.reason() == reason, e);
    }

    private static <T> T elsewhere(Callable<T> step) throws Exception {
        FutureTask<T> task = new FutureTask<>(step);
        new Thread(task).start();
        return task.get(30, TimeUnit.SECONDS);
    }

    private static void eventually(Callable<Boolean> fact) throws Exception {
        for (int i = 0; !fact.call(); i++) {
            check(i < 2000, "not in time");
            Thread.sleep(10);
        }
    }

    /** As an operator does. */
    private static void takeAway(Session session, String name) {
        session.ask("LOCK.RELEASEIF", name, "OWNER",
            session.holders(name).get(0).owner());
    }

    private static void reentrant(Session one, Session two) throws Exception {
        HaspReentrantLock mine = new HaspReentrantLock(one, "reentrant");
        HaspReentrantLock theirs = new HaspReentrantLock(two, "reentrant");
        mine.lock();
        mine.lockInterruptibly();
        check(mine.tryLock() && mine.isHeldByCurrentThread(), "again");
        mine.guard(Duration.ofSeconds(1));
        long token = mine.token();
        check(token > 0 && !theirs.tryLock(), "excludes other sessions");
        check(!elsewhere(mine::tryLock), "excludes other threads");
        check(!elsewhere(mine::isHeldByCurrentThread), "is another thread's");
        check(elsewhere(() -> thrown(mine::unlock))
            instanceof IllegalMonitorStateException, "unlock by another thread");
        mine.unlock();
        mine.unlock();
        check(!theirs.tryLock(Duration.ofMillis(50)), "still held");
        mine.unlock();
        check(thrown(mine::unlock) instanceof IllegalMonitorStateException, "once more");
        check(theirs.tryLock(30, TimeUnit.SECONDS), "free");
        check(theirs.token() > token, "tokens grow");
        takeAway(one, "reentrant");
        refused(Reason.NOT_HELD, theirs::unlock);
        check(thrown(theirs::unlock) instanceof IllegalMonitorStateException, "gone");
        refused(Reason.NOT_HELD, () -> theirs.guard(Duration.ZERO));
        theirs.lock();
        theirs.unlock();
        check(thrown(mine::newCondition) instanceof UnsupportedOperationException,
            "conditions");
    }

    private static void readersAndWriters(Session one, Session two) throws Exception {
        HaspReadWriteLock mine = new HaspReadWriteLock(one, "rw");
        HaspReadWriteLock theirs = new HaspReadWriteLock(two, "rw");
        mine.readLock().lock();
        check(elsewhere(() -> {
            mine.readLock().lock();
            theirs.readLock().lock();
            boolean canWrite = theirs.writeLock().isHeldByCurrentThread();
            theirs.readLock().unlock();
            mine.readLock().unlock();
            return !canWrite;
        }), "readers hold it together, also threads of a session");
        check(thrown(mine.writeLock()::lock) instanceof IllegalStateException,
            "a reader that would wait for itself");
        check(!elsewhere(theirs.writeLock()::tryLock), "a reader excludes writers");
        mine.readLock().lock();
        mine.readLock().unlock();
        mine.readLock().unlock();
        mine.writeLock().lock();
        mine.writeLock().lock();
        check(thrown(mine.readLock()::lock) instanceof IllegalStateException,
            "a writer that would wait for itself");
        check(!elsewhere(mine.readLock()::tryLock), "a writer excludes readers");
        mine.writeLock().unlock();
        mine.writeLock().unlock();
        check(elsewhere(() -> {
            boolean is = theirs.readLock().tryLock();
            theirs.readLock().unlock();
            return is;
        }), "free");
    }

    private static void semaphore(Session one, Session two) throws Exception {
        HaspSemaphore mine = new HaspSemaphore(one, "permits", 2);
        HaspSemaphore theirs = new HaspSemaphore(two, "permits", 2);
        HaspLock first = mine.acquire();
        HaspLock second = theirs.acquireUninterruptibly();
        check(first.token() != second.token(), "tokens");
        check(mine.tryAcquire().isEmpty() && mine.availablePermits() == 0, "all");
        check(theirs.tryAcquire(Duration.ofMillis(50)).isEmpty(), "in time");
        elsewhere(() -> {
            first.unlock();
            return null;
        });
        check(mine.availablePermits() == 1, "one is free");
        theirs.tryAcquire(LONG).orElseThrow().unlock();
        second.unlock();
        check(thrown(() -> new HaspSemaphore(one, "permits", 0))
            instanceof IllegalArgumentException, "none at all");
    }

    private static void async(Session one, Session two) throws Exception {
        HaspLock mine = one.lock("async");
        HaspLock theirs = two.lock("async");
        check(mine.lockAsync().get(30, TimeUnit.SECONDS) == mine
            && mine.token() > 0, "held");
        Throwable late = thrown(() -> theirs.lockAsync(Duration.ofMillis(50)).get());
        check(late instanceof ExecutionException
            && late.getCause() instanceof TimeoutException, late);
        CompletableFuture<HaspLock> given = theirs.lockAsync();
        eventually(() -> theirs.place() == 1);
        check(given.cancel(true), "cancelled");
        check(thrown(given::get) instanceof CancellationException, "cancelled");
        eventually(() -> theirs.place() == 0);
        CompletableFuture<Long> token = theirs.lockAsync().thenApply(lock -> {
            long was = lock.token();
            lock.unlock();
            return was;
        });
        long before = mine.token();
        mine.unlock();
        check(token.get(30, TimeUnit.SECONDS) > before, "the next");
        for (int i = 0; i < 30; i++) { // At any moment of the wait.
            CompletableFuture<HaspLock> wait = theirs.lockAsync();
            Thread.sleep(i / 10, i % 10 * 100_000);
            if (!wait.cancel(true)) {
                wait.get().unlock();
            }
        }
        check(mine.tryLock(LONG), "nothing is left behind");
        mine.unlock();
        HaspLock lock;
        try (Session closed = Session.open()) {
            lock = closed.lock("async");
        }
        Throwable why = thrown(() -> lock.lockAsync().get());
        check(why.getCause() instanceof HaspException e
            && e.reason() == Reason.LOST, why);
    }

    /** Threads of two sessions count under a lock, while the leader is killed. */
    private static void failover(Session one, Session two) throws Exception {
        AtomicInteger inside = new AtomicInteger();
        AtomicInteger overlaps = new AtomicInteger();
        AtomicInteger done = new AtomicInteger();
        List<Thread> threads = new ArrayList<>();
        HaspReadWriteLock[] locks = {new HaspReadWriteLock(one, "failover"),
            new HaspReadWriteLock(two, "failover")};
        for (int i = 0; i < 4; i++) {
            HaspReadWriteLock lock = locks[i % 2];
            threads.add(new Thread(() -> {
                for (int k = 0; k < 60; k++) {
                    lock.writeLock().lock();
                    if (inside.incrementAndGet() > 1) {
                        overlaps.incrementAndGet();
                    }
                    lock.writeLock().guard(Duration.ofMillis(100));
                    Thread.yield();
                    inside.decrementAndGet();
                    lock.writeLock().unlock();
                    done.incrementAndGet();
                }
            }));
        }
        threads.forEach(Thread::start);
        eventually(() -> done.get() > 20);
        System.out.println("kill");
        System.in.read();
        for (Thread thread : threads) {
            thread.join(60_000);
        }
        check(overlaps.get() == 0 && done.get() == 240, overlaps + " " + done);
    }

    public static void main(String[] arguments) throws Exception {
        try (Session one = Session.open(); Session two = Session.open()) {
            reentrant(one, two);
            readersAndWriters(one, two);
            semaphore(one, two);
            async(one, two);
            failover(one, two);
        }
        System.out.println(passed + " checks");
    }
}
