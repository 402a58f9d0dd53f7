// SPDX-License-Identifier: MIT

import hasp.HaspException;
import hasp.Session;
import hasp.shedlock.HaspLockProvider;
import hasp.spring.HaspLockRegistry;
import java.time.Duration;
import java.time.Instant;
import java.util.ConcurrentModificationException;
import java.util.concurrent.Callable;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import net.javacrumbs.shedlock.core.LockConfiguration;
import net.javacrumbs.shedlock.core.SimpleLock;
import org.springframework.integration.support.locks.DistributedLock;

/** The adapters for ShedLock and Spring on a real cluster ($HASP_ENDPOINTS), called
 * as their frameworks would. */
public final class AdapterTests {
    private static int passed;

    private AdapterTests() {}

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

    private static void takeAway(Session session, String name) {
        session.ask("LOCK.RELEASEIF", name, "OWNER",
            session.holders(name).get(0).owner());
    }

    private static LockConfiguration task(String name, long mostMs, long leastMs) {
        return new LockConfiguration(Instant.now(), name,
            Duration.ofMillis(mostMs), Duration.ofMillis(leastMs));
    }

    private static void shedlock(Session session) throws Exception {
        Session.Options options = new Session.Options().name("shedlock");
        try (HaspLockProvider one = new HaspLockProvider(options);
                HaspLockProvider two = new HaspLockProvider(options)) {
            SimpleLock lock = one.lock(task("report", 60_000, 0)).orElseThrow();
            check(session.holders("shedlock/report").size() == 1, "the name");
            check(two.lock(task("report", 60_000, 0)).isEmpty(), "held elsewhere");
            check(one.lock(task("report", 60_000, 0)).isEmpty(), "held here");
            lock.unlock();
            check(thrown(lock::unlock) instanceof IllegalStateException, "twice");
            two.lock(task("report", 60_000, 0)).orElseThrow().unlock();
            check(two.lock(task("report", -1, 0)).isEmpty(), "its time is over");

            Instant begin = Instant.now();
            one.lock(task("least", 60_000, 1500)).orElseThrow().unlock();
            eventually(() -> two.lock(task("least", 60_000, 0)).isPresent());
            check(Duration.between(begin, Instant.now()).toMillis() >= 1400,
                "released before lockAtLeastFor");

            SimpleLock longer = one.lock(task("most", 300, 0)).orElseThrow();
            eventually(() -> two.lock(task("most", 60_000, 0)).isPresent());
            check(thrown(longer::unlock) instanceof HaspException,
                "it ran longer than lockAtMostFor");
        }
    }

    private static void spring(Session session) throws Exception {
        Session.Options options = new Session.Options().name("spring");
        HaspLockRegistry one = new HaspLockRegistry(options);
        try (HaspLockRegistry two = new HaspLockRegistry(options)) {
            DistributedLock mine = one.obtain("key");
            DistributedLock theirs = two.obtain("key");
            check(one.obtain("key") == mine, "the same lock");
            mine.lock();
            mine.lockInterruptibly();
            check(mine.tryLock(), "again");
            check(!theirs.tryLock(50, TimeUnit.MILLISECONDS), "held elsewhere");
            check(!elsewhere(mine::tryLock), "held by another thread");
            check(elsewhere(() -> thrown(mine::unlock)) instanceof
                IllegalStateException, "another thread's");
            mine.unlock();
            mine.unlock();
            check(!theirs.tryLock(), "still held");
            mine.unlock();
            check(thrown(mine::unlock) instanceof IllegalStateException, "once more");
            theirs.lock(Duration.ofMillis(300));
            check(mine.tryLock(Duration.ofSeconds(30), Duration.ofSeconds(60)),
                "its time to live is over");
            check(thrown(theirs::unlock) instanceof ConcurrentModificationException,
                "it was lost");
            takeAway(session, "spring/key");
            check(thrown(mine::unlock) instanceof ConcurrentModificationException,
                "it was taken away");
            one.close(); // Another session follows.
            mine.lock();
            check(!theirs.tryLock(), "held by the new session");
            mine.unlock();
        } finally {
            one.close();
        }
    }

    public static void main(String[] arguments) throws Exception {
        try (Session session = Session.open()) {
            shedlock(session);
            spring(session);
        }
        System.out.println(passed + " checks");
    }
}
