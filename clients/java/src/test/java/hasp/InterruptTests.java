// SPDX-License-Identifier: MIT

package hasp;

import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Queue;
import java.util.Random;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.LockSupport;

/** Against a real cluster ($HASP_ENDPOINTS): calls that are interrupted
 * anywhere leave nothing open or held. $HASP_INTERRUPTS is how many cycles each
 * of 12 threads makes: 200 unless it says more. */
public final class InterruptTests {
    private static final Duration MINUTE = Duration.ofMinutes(1);
    private static final int COUNT = Integer.parseInt(
        System.getenv().getOrDefault("HASP_INTERRUPTS", "200"));
    private static final Queue<String> WRONG = new ConcurrentLinkedQueue<>();
    private static final AtomicInteger INTERRUPTED = new AtomicInteger();
    private static final AtomicInteger CALLS = new AtomicInteger();

    private InterruptTests() {}

    private static void wrong(String what) {
        WRONG.add(what);
    }

    /** Interrupts the thread that makes it once, while a call lasts: at its k-th
     * park, or after a time. */
    private static final class Interrupter implements Runnable {
        private final Thread whom = Thread.currentThread();
        private final int parks; // 0: after the time.
        private final long until;
        private boolean isOver;

        Interrupter(Random draw) {
            parks = draw.nextInt(8);
            until = System.nanoTime() + (parks > 0 ? 20_000_000
                : draw.nextInt(4) == 0 ? 0 : draw.nextInt(3_000_000));
            CALLS.incrementAndGet();
            if (until <= System.nanoTime()) {
                whom.interrupt(); // Before anything is asked.
            } else {
                Thread thread = new Thread(this);
                thread.setDaemon(true);
                thread.start();
            }
        }

        private synchronized boolean isOver() {
            return isOver;
        }

        @Override
        public void run() {
            int seen = 0;
            boolean wasParked = false;
            while (!isOver() && System.nanoTime() < until && (parks == 0
                    || seen < parks)) {
                boolean isParked = LockSupport.getBlocker(whom) != null;
                seen += isParked && !wasParked ? 1 : 0;
                wasParked = isParked;
                if (seen < parks || parks == 0) {
                    LockSupport.parkNanos(20_000);
                }
            }
            synchronized (this) {
                if (!isOver) {
                    whom.interrupt();
                }
            }
        }

        /** Ends the call that it was made for. Returns whether the thread is
         * interrupted. */
        synchronized boolean end() {
            isOver = true;
            boolean was = Thread.interrupted();
            INTERRUPTED.addAndGet(was ? 1 : 0);
            return was;
        }
    }

    /** A call, and what it came to. */
    private interface Call {
        boolean run() throws InterruptedException;
    }

    /** Is what it asked for so? */
    private static boolean interrupted(Random draw, String what, Call call) {
        var interrupter = new Interrupter(draw);
        boolean is = false;
        try {
            is = call.run();
        } catch (InterruptedException e) {
            INTERRUPTED.incrementAndGet();
            if (Thread.interrupted()) {
                wrong(what + ": interrupted twice");
            }
        } catch (HaspException e) {
            if (e.reason() == HaspException.Reason.LOST) {
                wrong(what + ": " + e);
            }
        } catch (RuntimeException | Error e) {
            wrong(what + ": " + e);
        }
        interrupter.end();
        return is;
    }

    private static void cycle(Random draw, HaspLock lock, boolean mayUpgrade) {
        int how = draw.nextInt(4);
        boolean is = interrupted(draw, "lock", () -> {
            if (how == 0) {
                lock.lockInterruptibly();
            } else if (how == 1) {
                lock.lock();
            } else {
                return how == 2 ? lock.tryLock(Duration.ofSeconds(10))
                    : lock.tryLock();
            }
            return true;
        });
        if (is == (lock.token() == 0)) {
            wrong("lock gave " + is + ", the token is " + lock.token());
        }
        if (!is) {
            return;
        }
        if (mayUpgrade && lock.isShared()) {
            boolean isUpgraded = interrupted(draw, "upgrade",
                () -> lock.upgrade(Duration.ofSeconds(5)));
            if (isUpgraded == lock.isShared()) {
                wrong("upgrade gave " + isUpgraded);
            }
        }
        interrupted(draw, "unlock", () -> {
            lock.unlock();
            return true;
        });
        if (lock.token() != 0) {
            wrong("not given back");
        }
    }

    /** Nobody has the locks when all is settled. */
    private static void free(Session watcher, List<String> names) {
        for (String name : names) {
            Object told = null;
            for (int i = 0; i < 400; i++) {
                told = watcher.show(name);
                if (Resp.list(told, "holders").isEmpty()
                        && Resp.list(told, "queue").isEmpty()) {
                    told = null;
                    break;
                }
                LockSupport.parkNanos(20 * Time.MS);
            }
            if (told != null) {
                wrong("nobody owns " + name + ": " + told);
            }
        }
    }

    private static void start(List<Thread> all, Runnable work) {
        Thread thread = new Thread(() -> {
            try {
                work.run();
            } catch (RuntimeException | Error e) {
                wrong("the test failed: " + e);
            }
        });
        all.add(thread);
        thread.setDaemon(true);
        thread.start();
    }

    /** The calls that hang are reported. */
    private static void join(List<Thread> all, long seconds)
            throws InterruptedException {
        long until = Time.in(seconds * 1000 * Time.MS);
        for (Thread one : all) {
            one.join(Math.max(1, Time.left(until) / Time.MS));
            if (one.isAlive()) {
                wrong("it hangs: " + List.of(one.getStackTrace()));
            }
        }
    }

    private static Session open(String endpoints, Session.Options how) {
        return Session.open(how.endpoints(endpoints).ttl(MINUTE));
    }

    private static void locks(Session watcher, String endpoints)
            throws InterruptedException {
        Session stands = open(endpoints, new Session.Options().onEvent(event -> {
            if (event.kind() == Session.Kind.LOST) {
                wrong("a bystander: " + event);
            }
        }));
        HaspLock held = stands.lock("stands");
        held.lock();
        var sessions = List.of(open(endpoints, new Session.Options()),
            open(endpoints, new Session.Options()),
            open(endpoints, new Session.Options().durable("a test")));
        List<String> names = new ArrayList<>();
        List<Thread> all = new ArrayList<>();
        for (int i = 0; i < 12; i++) {
            int number = i;
            var how = new HaspLock.Options();
            switch (i % 6) {
                case 1 -> how.owner("me" + i);
                case 2 -> how.hold(MINUTE);
                case 3 -> how.shared();
                case 4 -> how.shared().owner("me" + i);
                case 5 -> how.slots(2);
                default -> { }
            }
            List<String> mine = new ArrayList<>(List.of("step" + i % 6));
            if (i % 4 == 1) {
                mine.add("other" + i % 6);
            }
            names.addAll(mine);
            HaspLock lock = sessions.get(i % 3).lock(mine, how);
            boolean mayUpgrade = (i % 6 == 3 || i % 6 == 4) && mine.size() == 1;
            start(all, () -> {
                Random draw = new Random(number + System.nanoTime());
                for (int j = 0; j < COUNT && WRONG.size() < 20; j++) {
                    cycle(draw, lock, mayUpgrade);
                }
                lock.lock(); // It must serve again.
                lock.unlock();
            });
        }
        join(all, 30 + COUNT / 5);
        free(watcher, names);
        held.guard(Duration.ZERO);
        held.unlock();
        sessions.forEach(Session::close);
        stands.close();
    }

    /** The locks of a closed session are free. */
    private static void closes(Session watcher, String endpoints)
            throws InterruptedException {
        List<Thread> all = new ArrayList<>();
        for (int i = 0; i < 8; i++) {
            int number = i;
            start(all, () -> {
                Random draw = new Random(number + System.nanoTime());
                String name = "close" + number;
                for (int j = 0; j < (COUNT + 9) / 10 && WRONG.size() < 20; j++) {
                    var how = new Session.Options().ownConnection(number % 2 == 0);
                    interrupted(draw, "close", () -> {
                        try (Session session = open(endpoints,
                                number % 3 == 0 ? how.durable("a test") : how)) {
                            session.lock(name).lock();
                        }
                        return true;
                    });
                    free(watcher, List.of(name));
                }
            });
        }
        join(all, 60 + COUNT / 5);
    }

    /** A tool that runs programs interrupts a group of threads, and means those
     * of the program. */
    private static void group(Session watcher, String endpoints)
            throws InterruptedException {
        var told = new ConcurrentLinkedQueue<String>();
        var group = new ThreadGroup("program");
        Thread inside = new Thread(group, () -> {
            Session session = open(endpoints, new Session.Options()
                .ttl(Duration.ofSeconds(5)).ownConnection(true));
            Watch watch = session.watch("group", change -> {
                told.add(change.kind());
                Thread.currentThread().interrupt();
            });
            for (int i = 0; i < 20; i++) {
                told.clear();
                group.interrupt();
                Thread.interrupted();
                session.lock("group/" + i).lock();
                for (int j = 0; !told.contains("granted")
                        && !told.contains(""); j++) { // Or the watch has restarted.
                    if (j == 250 || watch.ended().isDone()) {
                        wrong("the watch reports nothing: " + watch.ended());
                        return;
                    }
                    LockSupport.parkNanos(20 * Time.MS);
                }
            }
            session.close();
        });
        inside.setDaemon(true);
        inside.start();
        join(List.of(inside), 30);
        free(watcher, List.of("group/0", "group/19"));
    }

    private static void breaking(List<Wire> wires) {
        Random draw = new Random();
        while (true) {
            LockSupport.parkNanos(draw.nextInt(80) * Time.MS);
            wires.get(draw.nextInt(wires.size())).cut();
        }
    }

    private static void end(String what) {
        System.out.println(what + ": " + CALLS + " calls, " + INTERRUPTED
            + " interrupted, " + WRONG.size() + " wrong");
        if (!WRONG.isEmpty()) {
            WRONG.forEach(System.out::println);
            System.exit(1);
        }
    }

    /** Runs all. */
    public static void main(String[] arguments)
            throws InterruptedException, IOException {
        String nodes = System.getenv("HASP_ENDPOINTS");
        List<Wire> wires = new ArrayList<>();
        for (String endpoint : nodes.split(",")) {
            wires.add(new Wire(endpoint));
        }
        String breaks = String.join(",",
            wires.stream().map(Wire::endpoint).toList());
        try (Session watcher = open(nodes, new Session.Options())) {
            locks(watcher, nodes);
            end("locks");
            closes(watcher, nodes);
            end("closed");
            group(watcher, nodes);
            end("groups");
            Thread cutter = new Thread(() -> breaking(wires));
            cutter.setDaemon(true);
            cutter.start();
            locks(watcher, breaks);
            end("locks, where connections break");
            closes(watcher, breaks);
            end("closed, where connections break");
        }
        System.out.println(CALLS + " passed");
    }
}
