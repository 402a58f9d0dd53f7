// SPDX-License-Identifier: MIT

package hasp;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;

/** Against a real cluster ($HASP_ENDPOINTS): what tests/conformance does not
 * ask. */
public final class ClusterTests {
    private static final Duration SECOND = Duration.ofSeconds(1);
    private static final Duration LONG = Duration.ofSeconds(20);
    private static int passed;

    private ClusterTests() {}

    private static void check(boolean fact, Object what) {
        if (!fact) {
            throw new AssertionError(what);
        }
        passed++;
    }

    private static <T> T next(BlockingQueue<T> queue) throws InterruptedException {
        T found = queue.poll(20, TimeUnit.SECONDS);
        check(found != null, "nothing came");
        return found;
    }

    private static void refused(HaspException.Reason reason, Runnable call) {
        try {
            call.run();
        } catch (HaspException e) {
            check(e.reason() == reason, e);
            return;
        }
        throw new AssertionError("not refused: " + reason);
    }

    /** Another session, which asks for the lock on a thread of its own. */
    private static Thread waiting(HaspLock lock, BlockingQueue<String> told) {
        Thread thread = new Thread(() -> {
            try {
                lock.lockInterruptibly();
                told.add("held");
            } catch (InterruptedException e) {
                told.add("interrupted");
            }
        });
        thread.start();
        return thread;
    }

    private static void awaitPlace(HaspLock lock, int place)
            throws InterruptedException {
        for (int i = 0; lock.place() != place; i++) {
            check(i < 400, "never at place " + place);
            Thread.sleep(50);
        }
    }

    private static void locks(Session one, Session two) throws Exception {
        HaspLock mine = one.lock("locks");
        HaspLock theirs = two.lock("locks");
        mine.lock();
        long first = mine.token();
        check(!theirs.tryLock() && !mine.tryLock(), "held by two");
        check(!theirs.tryLock(100, TimeUnit.MILLISECONDS), "held by two");
        var told = new LinkedBlockingQueue<String>();
        Thread waiter = waiting(theirs, told);
        awaitPlace(theirs, 1);
        waiter.interrupt();
        check(next(told).equals("interrupted"), "not interrupted");
        awaitPlace(theirs, 0);
        waiting(theirs, told);
        awaitPlace(theirs, 1);
        var ended = mine.ended();
        mine.unlock();
        check(ended.isDone() && mine.token() == 0, "still believed in");
        check(next(told).equals("held") && theirs.token() > first, "not passed on");
        refused(HaspException.Reason.NOT_HELD, mine::unlock);
        theirs.unlock();
        Thread.currentThread().interrupt();
        mine.lock(); // Whatever interrupts.
        check(Thread.interrupted() && mine.token() > 0, "not held");
        mine.unlock();
    }

    private static void threads(Session one) throws Exception {
        HaspLock lock = one.lock("threads");
        int[] inside = {0};
        Thread[] all = new Thread[8];
        for (int i = 0; i < all.length; i++) {
            all[i] = new Thread(() -> {
                for (int n = 0; n < 5; n++) {
                    lock.lock();
                    check(++inside[0] == 1, "two inside");
                    inside[0]--;
                    lock.unlock();
                }
            });
            all[i].start();
        }
        for (Thread thread : all) {
            thread.join();
        }
        check(passed >= 8 * 5, "a thread has died");
    }

    private static void owners(Session one, Session two) {
        HaspLock lock = one.lock("owned", new HaspLock.Options().owner("me"));
        lock.lock();
        lock.lock();
        lock.unlock();
        lock.guard(SECOND);
        check(!two.lock("owned").tryLock(), "held by two");
        lock.unlock();
        refused(HaspException.Reason.LOST, () -> lock.guard(SECOND));
        check(two.lock("owned").tryLock(), "not free");
    }

    private static HaspLock mine(Session session, String name) {
        return session.lock(name, new HaspLock.Options().owner("me"));
    }

    /** Two waits at once. */
    private static void ownerTwice(Session one, Session two) throws Exception {
        HaspLock theirs = two.lock("twice");
        theirs.lock();
        HaspLock first = mine(one, "twice");
        HaspLock second = mine(one, "twice");
        var told = new LinkedBlockingQueue<String>();
        waiting(first, told);
        waiting(second, told);
        awaitPlace(first, 1);
        Thread.sleep(100);
        theirs.unlock();
        check(next(told).equals("held") && next(told).equals("held"), "not held");
        first.unlock();
        check(one.check("twice", second.token()), "the first has given it back");
        Runnable briefly = () -> {
            HaspLock lock = mine(one, "twice");
            boolean isHeld = lock.tryLock();
            if (isHeld) {
                lock.unlock();
            }
            told.add(isHeld ? "held" : "not held");
        };
        for (int i = 0; i < 4; i++) {
            new Thread(briefly).start();
        }
        for (int i = 0; i < 4; i++) {
            check(next(told).equals("held"), "not acquired");
        }
        check(one.check("twice", second.token()), "a try has given it back");
        second.unlock();
        check(theirs.tryLock(), "it was not given back");
        waiting(first, told);
        awaitPlace(first, 1);
        check(!second.tryLock() && !second.tryLock(Duration.ofMillis(100)),
            "acquired while its owner waits");
        theirs.unlock();
        check(next(told).equals("held"), "not held");
        first.unlock();
    }

    /** A wait that is cancelled when it is granted, and the next one. */
    private static void ownerKeeps(Session one, Session two) throws Exception {
        for (int i = 0; i < 40; i++) {
            HaspLock theirs = two.lock("taken back");
            theirs.lock();
            HaspLock first = mine(one, "taken back");
            HaspLock second = mine(one, "taken back");
            var told = new LinkedBlockingQueue<String>();
            Thread waiter = waiting(first, told);
            awaitPlace(first, 1);
            Thread other = new Thread(theirs::unlock);
            other.start();
            LockSupport.parkNanos(i % 20 * 50_000);
            waiter.interrupt();
            boolean isHeld = next(told).equals("held");
            check(second.tryLock(Duration.ofSeconds(5)), "not acquired");
            other.join();
            if (!isHeld) {
                first.lock(); // After all is cleared up.
            }
            first.unlock();
            check(one.check("taken back", second.token()), "taken back, " + i);
            second.unlock();
        }
    }

    private static void several(Session one, Session two) {
        HaspLock both = one.lock(List.of("from", "to"), new HaspLock.Options());
        both.lock();
        check(both.tokens().keySet().equals(Map.of("from", 1, "to", 2).keySet()),
            both.tokens());
        check(!two.lock("to").tryLock(), "held by two");
        both.unlock();
    }

    private static void readers(Session one, Session two) throws Exception {
        var shared = new HaspLock.Options().shared();
        HaspLock reader = one.lock("page", shared);
        HaspLock other = two.lock("page", shared);
        reader.lock();
        other.lock();
        check(!reader.upgrade(Duration.ZERO) && reader.isShared(), "upgraded");
        reader.guard(SECOND);
        other.unlock();
        long token = reader.token();
        check(reader.upgrade(LONG) && !reader.isShared(), "not upgraded");
        check(reader.token() > token, "no new token");
        reader.downgrade();
        check(reader.isShared() && other.tryLock(), "not shared");
        other.unlock();
        reader.unlock();
    }

    private static void told(Session one, Session two,
            BlockingQueue<Session.Event> events) throws Exception {
        var changes = new LinkedBlockingQueue<Watch.Change>();
        Watch watch = two.watch("told", changes::add);
        check(next(changes).kind().isEmpty(), "no beginning");
        HaspLock lock = one.lock("told",
            new HaspLock.Options().value("me").hold(Duration.ofMinutes(1)));
        lock.lock();
        Watch.Change granted = next(changes);
        check(granted.kind().equals("granted") && granted.token() == lock.token(),
            granted);
        check(lock.remaining().compareTo(Duration.ofSeconds(48)) < 0, "no limit");
        check(two.holders("told").get(0).value().equals("me"), "no value");
        check(two.check("told", lock.token()), "not a holder's");
        check(two.admit("disk", lock.token()), "not admitted");
        check(!two.admit("disk", lock.token() - 1), "an old token was admitted");
        lock.note("page 17");
        check(two.note("told").equals("page 17"), two.note("told"));
        Session.Event please = null;
        // A session that is between two connections just then does not receive
        // it.
        for (int i = 0; i < 5 && please == null; i++) {
            check(two.please("told", "soon") == 1, "nobody was asked");
            please = events.poll(4, TimeUnit.SECONDS);
        }
        check(please != null, "no event came");
        check(please.kind() == Session.Kind.PLEASE && please.text().equals("soon"),
            please);
        lock.unlock();
        refused(HaspException.Reason.NOT_HELD, () -> lock.note("too late"));
        watch.close();
    }

    private static void closed() {
        Session session = Session.open();
        HaspLock lock = session.lock("closed");
        lock.lock();
        session.close();
        session.close();
        check(lock.remaining().isZero() && lock.ended().isDone(), "believed in");
        refused(HaspException.Reason.LOST, lock::lock);
        refused(HaspException.Reason.LOST, () -> session.watch("", change -> { }));
    }

    private static void misuse(String says, Runnable call) {
        try {
            call.run();
        } catch (IllegalArgumentException e) {
            check(e.getMessage().contains(says), e);
            return;
        }
        throw new AssertionError("not refused: " + says);
    }

    /** Words without any meaning. */
    private static void misused(Session one) {
        var ms = Duration.ofMillis(1);
        misuse("ttl PT0S: expected more than 0", () -> Session.open(
            new Session.Options().ttl(Duration.ZERO)));
        misuse("linger PT-", () -> Session.open(
            new Session.Options().linger(ms.negated())));
        misuse("timeout PT0S", () -> Session.open(
            new Session.Options().timeout(Duration.ZERO)));
        misuse("alive PT-", () -> Session.open(
            new Session.Options().alive(ms.negated())));
        misuse("a command", one::ask);
        HaspLock lock = one.lock("misused");
        refused(HaspException.Reason.NOT_HELD, lock::downgrade);
        lock.lock();
        try {
            lock.guard(Duration.ofSeconds(Long.MAX_VALUE));
            throw new AssertionError("for ever");
        } catch (HaspException e) {
            check(e.getMessage().contains("never more than 8000 ms"), e);
        }
        lock.unlock();
    }

    /** A limit that is over is reported when belief ends; a longer one than the
     * lease is not the lease's. */
    private static void limited() throws Exception {
        var events = new LinkedBlockingQueue<Session.Event>();
        try (Session session = Session.open(
                new Session.Options().ttl(SECOND).onEvent(events::add))) {
            HaspLock brief = session.lock("brief",
                new HaspLock.Options().hold(Duration.ofMillis(100)));
            HaspLock all = session.lock("minute",
                new HaspLock.Options().hold(Duration.ofMinutes(1)));
            all.lock();
            var ended = all.ended();
            brief.lock();
            Session.Event event = next(events);
            check(event.kind() == Session.Kind.LOST && event.token() == brief.token()
                && event.lock().equals("brief") || session.state()
                == Session.State.LOST, event);
            Thread.sleep(1000); // Longer than one lease, which was renewed.
            check(!ended.isDone() || session.state() == Session.State.LOST, "ended");
        } catch (HaspException e) { // A machine that was paused for a lease.
            check(e.reason() == HaspException.Reason.LOST, e);
        }
    }

    private static HaspLock.Options mine() {
        return new HaspLock.Options().owner("me");
    }

    /** Takes a lock away from that owner, as DEL of Redis does. */
    private static void take(Session by, String name) {
        by.ask("LOCK.RELEASEIF", name, "OWNER", "me");
    }

    private static void until(java.util.function.BooleanSupplier fact, Object what)
            throws InterruptedException {
        for (int i = 0; !fact.getAsBoolean(); i++) {
            check(i < 1000, what);
            Thread.sleep(20);
        }
    }

    /** If more holds end than the cluster keeps notices of, none of them is
     * believed in for longer, whether the session ends by time or not. */
    private static void manyTaken(Session other) throws Exception {
        for (boolean isDurable : List.of(false, true)) {
            var lost = new LinkedBlockingQueue<Session.Event>();
            var how = new Session.Options().ttl(Duration.ofSeconds(4))
                .onEvent(lost::add);
            try (Session session = Session.open(isDurable ? how.durable("a test")
                    : how)) {
                List<HaspLock> all = new ArrayList<>();
                for (int i = 0; i < 300; i++) {
                    all.add(session.lock("many" + isDurable + i, mine()));
                    all.get(i).lock();
                }
                for (int i = 0; i < 300; i++) {
                    if (i % 10 != 0) {
                        take(other, "many" + isDurable + i);
                    }
                }
                until(() -> lost.stream().filter(event -> event.kind()
                    == Session.Kind.LOST).count() >= 270, "believed in: " + lost);
                for (int i = 0; i < 300; i++) {
                    HaspLock one = all.get(i);
                    if (i % 10 == 0) {
                        one.guard(Duration.ZERO);
                        one.unlock();
                    } else {
                        check(one.remaining().isZero(), one.tokens());
                        refused(HaspException.Reason.NOT_HELD, one::unlock);
                    }
                }
                check(lost.size() == 270, lost.size());
            }
        }
    }

    /** Releasing a hold that is over releases nothing else, and belief in it
     * ends whatever its owner does next. */
    private static void takenAgain(Session one, Session other) {
        for (List<String> names : List.of(List.of("again"),
                List.of("again one", "again two"))) {
            HaspLock first = one.lock(names, mine());
            HaspLock second = one.lock(names, mine());
            first.lock();
            names.forEach(name -> take(other, name));
            second.lock(); // Under other tokens.
            check(first.remaining().isZero(), "two hold by one owner");
            refused(HaspException.Reason.NOT_HELD, first::unlock);
            second.guard(Duration.ZERO);
            HaspLock theirs = other.lock(names, new HaspLock.Options());
            check(!theirs.tryLock(), "the new hold was given back");
            take(other, names.get(0));
            second.lock(); // The same object, which had lost it.
            second.unlock();
            refused(HaspException.Reason.NOT_HELD, second::unlock);
            theirs.lock();
            theirs.unlock();
        }
    }

    /** Belief is made from what was granted, not from what was asked for. */
    private static void limitsOfOthers() throws Exception {
        try (Session session = Session.open(
                new Session.Options().ttl(Duration.ofMinutes(1)))) {
            HaspLock first = session.lock("limit b",
                mine().hold(Duration.ofSeconds(3)));
            HaspLock again = session.lock("limit b", mine());
            HaspLock both = session.lock(List.of("limit a", "limit b"),
                mine().hold(Duration.ofSeconds(20)));
            for (HaspLock lock : List.of(first, again, both)) {
                lock.lock();
                check(!lock.remaining().isZero() && lock.remaining().compareTo(
                    Duration.ofMillis(2400)) <= 0, lock.remaining());
            }
            until(() -> again.remaining().isZero() && both.remaining().isZero(),
                "believed in for longer than the cluster keeps it");
        }
    }

    /** A listener that throws is notified of the next change; a refusal is
     * reported. */
    private static void watched(Session one) throws Exception {
        var seen = new LinkedBlockingQueue<String>();
        var thrown = new LinkedBlockingQueue<Throwable>();
        Thread.setDefaultUncaughtExceptionHandler((thread, e) -> thrown.add(e));
        try (Watch watch = one.watch("seen", change -> {
            seen.add(change.kind());
            throw new IllegalStateException("thrown by the program");
        })) {
            check(next(seen).isEmpty(), "no beginning");
            HaspLock lock = one.lock("seen");
            lock.lock();
            lock.unlock();
            check(next(seen).equals("granted") && next(seen).equals("released"),
                "not notified after an exception");
            check(!watch.ended().isDone(), "ended");
            for (int i = 0; i < 3; i++) {
                check(next(thrown).getMessage().equals("thrown by the program"), "not reported");
            }
        }
        Thread.setDefaultUncaughtExceptionHandler(null);
        try (Watch watch = one.watch("x".repeat(600), change -> { })) {
            watch.ended().get(20, TimeUnit.SECONDS);
            throw new AssertionError("not refused");
        } catch (ExecutionException e) {
            check(e.getCause() instanceof HaspException no
                && no.word().equals("BADARG"), e);
        }
    }

    /** Runs all. */
    public static void main(String[] arguments) throws Exception {
        var events = new LinkedBlockingQueue<Session.Event>();
        Session.open(new Session.Options().timeout(Duration.ofSeconds(30))).close();
        try (Session one = Session.open(new Session.Options().name("one")
                .label("kind", "test").onEvent(events::add));
                Session two = Session.open()) {
            locks(one, two);
            threads(one);
            owners(one, two);
            ownerTwice(one, two);
            ownerKeeps(one, two);
            several(one, two);
            readers(one, two);
            told(one, two, events);
            misused(one);
            watched(one);
            limited();
            manyTaken(two);
            takenAgain(one, two);
            limitsOfOthers();
            events.clear();
            check(one.state() == Session.State.HELD, one.state());
        }
        closed();
        check(events.isEmpty(), events);
        System.out.println(passed + " passed");
    }
}
