// SPDX-License-Identifier: MIT

package hasp;

import java.io.BufferedInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.LockSupport;
import java.util.function.BiFunction;

/** Sessions that share a connection, before a fake node. */
public final class LinkTests {
    private static final String USUAL = "usual";
    private static int passed;

    private LinkTests() {}

    private static void check(boolean fact, Object what) {
        if (!fact) {
            throw new AssertionError(what);
        }
        passed++;
    }

    /** Gives the answers that the test sets, as RESP; null closes the
     * connection. */
    private static final class Fake implements AutoCloseable {
        final Queue<String> asked = new ConcurrentLinkedQueue<>();
        final AtomicInteger lines = new AtomicInteger(); // That were ever opened.
        private final AtomicInteger ids = new AtomicInteger();
        private final Queue<Session> sessions = new ConcurrentLinkedQueue<>();
        private final BiFunction<Integer, List<String>, String> answer;
        private final ServerSocket listener;

        Fake(BiFunction<Integer, List<String>, String> answer) throws IOException {
            this.answer = answer;
            listener = new ServerSocket(0, 50, InetAddress.getLoopbackAddress());
            start(() -> {
                while (!listener.isClosed()) {
                    Socket one = listener.accept();
                    int line = lines.incrementAndGet();
                    start(() -> serve(line, one));
                }
            });
        }

        private interface Work {
            void run() throws IOException;
        }

        private static void start(Work work) {
            Thread thread = new Thread(() -> {
                try {
                    work.run();
                } catch (IOException e) {
                    // It was closed.
                }
            });
            thread.setDaemon(true);
            thread.start();
        }

        private void serve(int line, Socket one) throws IOException {
            try (one) {
                InputStream in = new BufferedInputStream(one.getInputStream());
                OutputStream out = one.getOutputStream();
                for (;;) {
                    List<String> words = ((List<?>) Resp.read(in)).stream()
                        .map(String.class::cast).toList();
                    asked.add(line + " " + String.join(" ", words));
                    String text = answer.apply(line, words);
                    if (text == null) {
                        return;
                    }
                    out.write((text.equals(USUAL) ? usual(words) : text)
                        .getBytes(StandardCharsets.UTF_8));
                }
            }
        }

        private String usual(List<String> words) {
            return switch (words.get(0)) {
                case "SESSION.OPEN" -> "%2\r\n+id\r\n:" + ids.incrementAndGet()
                    + "\r\n+ttl_ms\r\n:" + words.get(2) + "\r\n";
                case "SESSION.KEEP" -> "%1\r\n+ttl_ms\r\n:2000\r\n";
                case "LOCK.ACQUIRE", "LOCK.CONVERT" -> grant(words, 7);
                default -> ":7\r\n";
            };
        }

        Session open() {
            return open(options());
        }

        Session.Options options() {
            return new Session.Options().ttl(Duration.ofSeconds(2))
                .endpoints("127.0.0.1:" + listener.getLocalPort());
        }

        Session open(Session.Options options) {
            Session session = Session.open(options);
            sessions.add(session);
            return session;
        }

        long times(String prefix) {
            return asked.stream().filter(one -> one.startsWith(prefix)).count();
        }

        void check(int connections) {
            LinkTests.check(lines.get() == connections,
                lines + " connections: " + asked);
        }

        @Override
        public void close() throws IOException {
            sessions.forEach(Session::close);
            listener.close();
        }
    }

    /** The answer to a granted request for one lock. */
    private static String grant(List<String> words, long token) {
        int owner = words.indexOf("OWNER");
        int hold = words.indexOf("HOLD");
        return hold(owner < 0 ? "" : words.get(owner + 1), words.get(1), token,
            token, words.contains("SHARED") ? "shared" : "exclusive", 1,
            hold < 0 ? -1 : Long.parseLong(words.get(hold + 1)), token + 100);
    }

    /** A node's report of a hold; 'left' -1: it has no limit. */
    private static String hold(String owner, String name, long first, long token,
            String mode, int count, long left, long asOf) {
        return "%9\r\n+lock\r\n+" + name + "\r\n+owner\r\n+" + owner
            + "\r\n+token\r\n:" + token + "\r\n+first\r\n:" + first
            + "\r\n+mode\r\n+" + mode + "\r\n+count\r\n:" + count
            + "\r\n+hold_left_ms\r\n" + (left < 0 ? "_" : ":" + left)
            + "\r\n+delay_ms\r\n:0\r\n+as_of\r\n:" + asOf + "\r\n";
    }

    private static void eventually(java.util.function.BooleanSupplier fact,
            String what) throws InterruptedException {
        for (int i = 0; !fact.getAsBoolean(); i++) {
            check(i < 1000, what);
            Thread.sleep(10);
        }
    }

    /** A session that a node opens after open() has given up is closed: no
     * other code knows it. */
    private static void openedTooLate() throws Exception {
        var mayAnswer = new CompletableFuture<Void>();
        try (Fake fake = new Fake((line, words) -> {
            if (words.get(0).equals("SESSION.OPEN")) {
                mayAnswer.join();
                return "%2\r\n+id\r\n:77\r\n+ttl_ms\r\n_\r\n";
            }
            return USUAL;
        })) {
            try {
                Session.open(fake.options().durable("a test")
                    .timeout(Duration.ofMillis(300)));
                check(false, "it is open");
            } catch (HaspException e) {
                check(e.reason() == HaspException.Reason.UNKNOWN, e);
            }
            mayAnswer.complete(null);
            eventually(() -> fake.times("1 SESSION.CLOSE SESSION 77") == 1,
                "it stays: " + fake.asked);
        }
    }

    private static void shared() throws Exception {
        try (Fake fake = new Fake((line, words) -> USUAL)) {
            List<Session> all = new ArrayList<>();
            for (int i = 0; i < 50; i++) {
                all.add(fake.open());
            }
            all.forEach(one -> one.lock("a").lock());
            fake.check(1);
            check(fake.times("1 SESSION.ATTACH") == 0, "attached twice");
            fake.open(fake.options().ownConnection(true));
            fake.check(2);
            fake.open(fake.options().ttl(Duration.ofSeconds(3)));
            fake.check(3);
            fake.open(fake.options().linger(Duration.ofSeconds(1)));
            fake.check(4);
            all.get(0).close();
            // One that ends, and is not closed.
            fake.open(fake.options().alive(Duration.ofMillis(1)));
            eventually(() -> fake.times("1 SESSION.DETACH SESSION 54") == 1,
                "its linger does not begin");
            all.get(1).ask("LOCK.LIST");
            check(fake.times("1 SESSION.DETACH") == 1, "detached twice");
            fake.check(4);
        }
    }

    private static void endsAlone() throws Exception {
        try (Fake fake = new Fake((line, words) -> {
            if (line == 1 && words.get(0).equals("LOCK.LIST")) {
                return null;
            } else if (words.get(0).equals("SESSION.ATTACH")
                    && words.get(1).equals("2")) {
                return "-NOSESSION no such session\r\n";
            }
            return USUAL;
        })) {
            var events = new ConcurrentLinkedQueue<Session.Event>();
            Session one = fake.open(fake.options().onEvent(events::add));
            Session two = fake.open();
            Session three = fake.open(fake.options().onEvent(events::add));
            one.ask("LOCK.LIST");
            eventually(() -> two.state() == Session.State.LOST, "not lost");
            one.lock("a").lock();
            three.lock("b").lock();
            check(events.isEmpty() && fake.times("2 SESSION.ATTACH 3 ") == 1, events);
            fake.check(2);
        }
    }

    private static void strange() throws Exception {
        String strange = ">0\r\n>1\r\n_\r\n>3\r\n+lock\r\n+answer\r\n_\r\n"
            + ">3\r\n:1\r\n:2\r\n*1\r\n:3\r\n"
            + ">3\r\n+lock\r\n+please\r\n%1\r\n+session\r\n:99\r\n"
            + ">3\r\n+lock\r\n+answer\r\n%3\r\n+session\r\n:1\r\n+wait\r\n+x\r\n"
            + "+tokens\r\n:1\r\n";
        try (Fake fake = new Fake((line, words) ->
                !words.get(0).equals("LOCK.ACQUIRE") ? USUAL
                    : line == 1 ? strange + "+QUEUED 8\r\n" + strange
                        + grant(words, 7)
                    : line == 2 ? "HTTP/1.1 400 Bad Request\r\n" : USUAL)) {
            var events = new ConcurrentLinkedQueue<Session.Event>();
            Session one = fake.open(fake.options().onEvent(events::add));
            Session neighbour = fake.open(fake.options().onEvent(events::add));
            HaspLock lock = one.lock("a");
            lock.lock();
            check(lock.token() == 7 && events.isEmpty(), events);
            check(neighbour.state() == Session.State.HELD, "it has felt it");
            fake.check(3);
        }
    }

    private static void pushes() throws Exception {
        String grant = ">3\r\n+lock\r\n+answer\r\n%4\r\n+session\r\n:1\r\n+owner\r\n"
            + "+me\r\n+wait\r\n:8\r\n+grants\r\n*1\r\n"
            + hold("me", "a", 5, 5, "exclusive", 1, -1, 99);
        String queued = "+QUEUED 8\r\n";
        for (String text : List.of(queued + grant, grant + queued,
                grant + grant + queued + grant)) {
            try (Fake fake = new Fake((line, words) ->
                    words.get(0).equals("LOCK.ACQUIRE") ? text : USUAL)) {
                HaspLock lock = fake.open().lock("a",
                    new HaspLock.Options().owner("me"));
                lock.lock();
                check(lock.token() == 5 && fake.times("1 LOCK.ACQUIRE") == 1,
                    fake.asked);
            }
        }
    }

    private static void late() throws Exception {
        try (Fake fake = new Fake((line, words) -> {
            if (words.get(0).equals("LOCK.CHECK")) {
                for (long end = Time.in(1500 * Time.MS); Time.left(end) > 0;) {
                    Time.pause(1);
                }
                return "#t\r\n";
            }
            return USUAL;
        })) {
            Duration calm = Duration.ofSeconds(30); // No heartbeat meanwhile.
            Session hasty = fake.open(fake.options().ttl(calm)
                .timeout(Duration.ofMillis(500)));
            Session patient = fake.open(fake.options().ttl(calm));
            try {
                hasty.check("a", 1);
                check(false, "answered");
            } catch (HaspException e) {
                check(e.reason() == HaspException.Reason.UNKNOWN, e);
            }
            check(!patient.admit("a", 1), "took the answer of another");
            fake.check(1);
        }
    }

    private static void interrupted() throws Exception {
        try (Fake fake = new Fake((line, words) -> !words.contains("never") ? USUAL
                : words.contains("FOREVER") ? "+QUEUED 8\r\n" : "_\r\n")) {
            Session one = fake.open();
            Session two = fake.open();
            Thread waiting = new Thread(() -> {
                try {
                    one.lock("never").lockInterruptibly();
                } catch (InterruptedException e) {
                    two.lock("b").lock();
                }
            });
            waiting.start();
            eventually(() -> fake.times("1 LOCK.ACQUIRE never") == 1, "not asked");
            waiting.interrupt();
            waiting.join();
            // Asked for without WAIT, the place is given up.
            eventually(() -> fake.times("1 LOCK.ACQUIRE never") == 2, "waits on");
            check(fake.times("1 LOCK.ACQUIRE b") == 1, fake.asked);
            fake.check(1);
        }
    }

    private static void tooLarge() throws Exception {
        try (Fake fake = new Fake((line, words) ->
                words.get(0).equals("LOCK.LIST") ? "*1000000000\r\n" : USUAL)) {
            Session one = fake.open();
            Session neighbour = fake.open();
            try {
                one.ask("LOCK.LIST");
                check(false, "answered");
            } catch (HaspException e) {
                check(e.getMessage().contains("64 MiB"), e);
            }
            check(fake.times("1 LOCK.LIST") + fake.times("2 LOCK.LIST") == 1,
                "asked again");
            neighbour.lock("a").lock();
        }
    }

    private static void full() throws Exception {
        var opened = new ConcurrentHashMap<Integer, Integer>();
        try (Fake fake = new Fake((line, words) ->
                words.get(0).equals("SESSION.OPEN")
                    && opened.merge(line, 1, Integer::sum) > 2
                    ? "-LIMIT sessions of a connection\r\n" : USUAL)) {
            for (int i = 0; i < 5; i++) {
                fake.open().lock("a").lock();
            }
            fake.check(3);
        }
    }

    private static void alone() throws Exception {
        try (Fake fake = new Fake((line, words) -> USUAL)) {
            Session session = fake.open();
            for (String words : List.of("LOCK.LIST", "lock.acquire a REQ 7",
                    "FENCE.SHOW a", "LOCK.SHOW session")) {
                session.ask(words.split(" "));
                fake.check(1);
            }
            int lines = 1;
            for (String words : List.of("LOCK.ACQUIRE a WAIT 100", "MULTI", "PING",
                    "RAFT.STATUS", "lock.acquire a forever", "lock.watch a",
                    "SESSION.OPEN TTL 1000", "session.attach 1 x",
                    "SESSION.DETACH", "LOCK.ACQUIRE a SESSION 7")) {
                session.ask(words.split(" "));
                fake.check(++lines);
            }
            check(fake.times("1 lock.acquire a REQ 7 SESSION 1") == 1, fake.asked);
        }
    }

    /** A node answers an ATTACH before it does anything else on that
     * connection: with many sessions on a new connection the heartbeats must
     * not wait for all of them. */
    private static void manyAttached() throws Exception {
        try (Fake fake = new Fake((line, words) -> {
            if (line == 1 && words.get(0).equals("LOCK.LIST")) {
                return null;
            } else if (words.get(0).equals("SESSION.ATTACH")) {
                LockSupport.parkNanos(20 * Time.MS);
            } else if (words.get(0).equals("SESSION.KEEP")) {
                return "%1\r\n+ttl_ms\r\n:4000\r\n";
            }
            return USUAL;
        })) {
            var events = new ConcurrentLinkedQueue<Session.Event>();
            List<Session> all = new ArrayList<>();
            for (int i = 0; i < 150; i++) {
                all.add(fake.open(fake.options().onEvent(events::add)
                    .ttl(Duration.ofSeconds(4)).timeout(Duration.ofSeconds(20))));
            }
            all.get(0).ask("LOCK.LIST");
            List<Thread> asking = new ArrayList<>();
            var locked = new AtomicInteger();
            for (Session one : all) {
                asking.add(new Thread(() -> {
                    one.lock("a").lock();
                    locked.incrementAndGet();
                }));
            }
            asking.forEach(Thread::start);
            for (Thread one : asking) {
                one.join();
            }
            check(locked.get() == 150 && events.isEmpty(), locked + ", " + events);
        }
    }

    /** The answers can be broken; the client must not grant, open or keep
     * anything then. */
    private static void somethingElse() throws Exception {
        for (String odd : List.of("+OK\r\n", ":0\r\n", "*1\r\n:0\r\n", "*0\r\n",
                "#t\r\n", "%1\r\n+ttl_ms\r\n:0\r\n", "*2\r\n:5\r\n:6\r\n",
                "*2\r\n+ttl_ms\r\n:2000\r\n")) {
            try (Fake fake = new Fake((line, words) -> {
                String verb = words.get(0);
                return verb.equals("SESSION.OPEN") && line == 1
                    || verb.equals("LOCK.ACQUIRE") && line == 2
                    || verb.equals("SESSION.KEEP") && line == 3 ? odd : USUAL;
            })) {
                HaspLock lock = fake.open(fake.options().ttl(Duration.ofSeconds(1)))
                    .lock("a");
                lock.lock();
                check(lock.token() == 7, odd);
                eventually(() -> fake.lines.get() == 4, "it is not left");
                lock.guard(Duration.ZERO);
            }
        }
    }

    /** A wait is cancelled, and no node says for a while whether it was granted. */
    private static void notKnown() throws Exception {
        var isKnown = new AtomicBoolean();
        try (Fake fake = new Fake((line, words) -> {
            String text = String.join(" ", words);
            if (!text.contains(" REQ 1 ")) {
                return USUAL;
            }
            return text.contains(" WAIT ") ? "+QUEUED 8\r\n"
                : isKnown.get() ? grant(words, 99) : "-UNKNOWN it may have been done\r\n";
        })) {
            Session session = fake.open(fake.options()
                .timeout(Duration.ofMillis(300)));
            HaspLock one = session.lock("a", new HaspLock.Options().owner("me"));
            HaspLock two = session.lock("a", new HaspLock.Options().owner("me"));
            Thread waiter = new Thread(() -> {
                try {
                    one.lockInterruptibly();
                } catch (InterruptedException e) {
                    // So it is to be.
                }
            });
            waiter.start();
            eventually(() -> fake.times("1 LOCK.ACQUIRE") == 1, "it does not wait");
            waiter.interrupt();
            waiter.join();
            try {
                two.tryLock();
                check(false, "it has asked");
            } catch (HaspException e) {
                check(e.reason() == HaspException.Reason.UNREACHABLE, e);
            }
            Thread.currentThread().interrupt();
            try {
                two.lockInterruptibly();
                check(false, "not interrupted");
            } catch (InterruptedException e) {
                check(two.token() == 0, "held");
            }
            session.lock("b", new HaspLock.Options().owner("me")).lock(); // REQ 2.
            session.lock("a", new HaspLock.Options().owner("you")).lock();
            Thread known = new Thread(() -> {
                LockSupport.parkNanos(50 * Time.MS);
                isKnown.set(true);
            });
            known.start();
            two.lock();
            List<String> asked = fake.asked.stream()
                .filter(text -> text.matches(".* LOCK.* REQ [45] .*")).toList();
            check(asked.size() == 2 && asked.get(0).contains(" LOCK.RELEASE a ")
                && asked.get(1).contains(" LOCK.ACQUIRE a "), fake.asked);
        }
    }

    /** An election that notifies its listener; its outcome. */
    private static Thread election(Fake fake, LeaderElection.Listener listener,
            Queue<Throwable> thrown) {
        Thread runner = new Thread(() -> {
            try {
                new LeaderElection(fake.options().timeout(Duration.ofSeconds(1)),
                    "leader", "me", listener).run();
            } catch (RuntimeException | Error e) {
                thrown.add(e);
            }
        });
        runner.setDaemon(true);
        runner.start();
        return runner;
    }

    /** The failing endpoints are reported each time. */
    private static void saysWhichFail() throws Exception {
        var told = new ConcurrentLinkedQueue<HaspException>();
        Thread runner = new Thread(() -> new LeaderElection(new Session.Options()
            .endpoints("127.0.0.1:1,127.0.0.1:2").timeout(Duration.ofMillis(300)),
            "leader", "me", new LeaderElection.Listener() {
                @Override
                public void lead(HaspLock lock) {}

                @Override
                public void failed(HaspException error) {
                    told.add(error);
                }
            }).run());
        runner.start();
        eventually(() -> told.size() > 1, "it says nothing");
        runner.interrupt();
        runner.join(5000);
        check(!runner.isAlive() && told.peek().getMessage().matches(
            ".*127.0.0.1:1: .*127.0.0.1:2: .*"), told);
    }

    /** A callback that returns from lead() at once waits longer each time; a
     * loss is not a failure, and a good term ends it. */
    private static void backOff() throws Exception {
        var leads = new AtomicInteger();
        try (Fake fake = new Fake((line, words) -> USUAL)) {
            Thread runner = election(fake, lock -> {
                lock.guard(Duration.ofMillis(10));
                leads.incrementAndGet();
            }, new ConcurrentLinkedQueue<>());
            Thread.sleep(3000);
            runner.interrupt();
            runner.join(5000);
            check(leads.get() >= 4 && leads.get() <= 8, leads);
        }
        Duration wait = Duration.ZERO;
        for (int i = 0; i < 20; i++) {
            wait = LeaderElection.after(wait, Duration.ofSeconds(1));
        }
        check(wait.equals(LeaderElection.BACK_OFF_MAX), wait);
        check(LeaderElection.after(wait, LeaderElection.TERM_GOOD).isZero(), wait);
    }

    /** A loss and an interrupt of the program come at once: the second counts,
     * whichever thread it is for, and whatever the listener does with its own. */
    private static void lostAndInterrupted() throws Exception {
        for (String whom : List.of("run()", "lead()", "both")) {
            for (boolean takesIt : List.of(true, false)) {
                var isLost = new AtomicBoolean();
                var leads = new AtomicInteger();
                var stopped = new AtomicInteger();
                var thrown = new ConcurrentLinkedQueue<Throwable>();
                var runner = new CompletableFuture<Thread>();
                try (Fake fake = new Fake((line, words) ->
                        words.get(0).equals("SESSION.KEEP") && isLost.get()
                        ? "-EXPIRED by ann\r\n" : USUAL)) {
                    runner.complete(election(fake, new LeaderElection.Listener() {
                        @Override
                        public void lead(HaspLock lock)
                                throws InterruptedException {
                            leads.incrementAndGet();
                            var ended = lock.ended();
                            isLost.set(true);
                            while (!ended.isDone()) { // By the keeper.
                                LockSupport.parkNanos(Time.MS);
                                Thread.interrupted(); // It is one that works.
                            }
                            if (!whom.equals("lead()")) {
                                runner.join().interrupt();
                            }
                            if (!whom.equals("run()")) {
                                Thread.currentThread().interrupt();
                            }
                            if (takesIt && Thread.interrupted()) {
                                return;
                            }
                            Thread.sleep(50);
                        }

                        @Override
                        public void stopped() {
                            stopped.incrementAndGet();
                        }
                    }, thrown));
                    runner.join().join(5000);
                    check(!runner.join().isAlive() && leads.get() == 1
                        && stopped.get() == 1 && thrown.isEmpty(),
                        whom + ", " + takesIt + ": " + leads + ", " + stopped
                        + ", alive: " + runner.join().isAlive() + thrown);
                }
            }
        }
    }

    /** A loss alone, and an interrupt alone; an exception of a listener. */
    private static void elected() throws Exception {
        var losses = new AtomicInteger();
        var leads = new AtomicInteger();
        var thrown = new ConcurrentLinkedQueue<Throwable>();
        try (Fake fake = new Fake((line, words) ->
                words.get(0).equals("SESSION.KEEP")
                && losses.getAndUpdate(n -> Math.max(0, n - 1)) > 0
                ? "-EXPIRED by ann\r\n" : USUAL)) {
            Thread runner = election(fake, lock -> {
                if (leads.incrementAndGet() == 1) {
                    losses.set(1);
                }
                Thread.sleep(20_000);
            }, thrown);
            eventually(() -> leads.get() == 2, "it does not campaign again");
            runner.interrupt();
            runner.join(5000);
            check(!runner.isAlive() && thrown.isEmpty() && leads.get() == 2, leads);
            check(fake.asked.stream().anyMatch(one -> one.contains(
                " LOCK.RELEASE leader ")), fake.asked);
            runner = election(fake, lock -> {
                throw new IllegalStateException("thrown by the program");
            }, thrown);
            runner.join(5000);
            check(!runner.isAlive() && thrown.poll().getMessage()
                .equals("thrown by the program"), thrown);
        }
    }

    /** The leader is reported although no node could name it at once, and
     * although the listener throws. */
    private static void leaders() throws Exception {
        long later = Time.in(1500 * Time.MS); // Than the time-out.
        var told = new ConcurrentLinkedQueue<String>();
        String granted = ">3\r\n+lock\r\n+granted\r\n%1\r\n+lock\r\n+leader\r\n";
        try (Fake fake = new Fake((line, words) -> switch (words.get(0)) {
            case "LOCK.WATCH" -> "+OK\r\n" + granted;
            case "LOCK.ACQUIRE" -> words.contains("FOREVER") ? "+QUEUED 8\r\n" : "_\r\n";
            case "LOCK.SHOW" -> Time.left(later) > 0 ? "-BUSY later\r\n"
                : "%1\r\n+holders\r\n*1\r\n%1\r\n+value\r\n+ann\r\n";
            default -> USUAL;
        })) {
            Thread runner = election(fake, new LeaderElection.Listener() {
                @Override
                public void lead(HaspLock lock) {}

                @Override
                public void leader(String value) {
                    told.add(value);
                }
            }, new ConcurrentLinkedQueue<>());
            eventually(() -> told.contains("ann"), "nobody says who leads");
            runner.interrupt();
            runner.join(5000);
            check(!runner.isAlive(), "it still runs");
        }
    }

    /** An election whose resource cannot be sealed does not lead, reports why, and
     * campaigns again. */
    private static void sealedFirst() throws Exception {
        var tries = new AtomicInteger();
        var leads = new ConcurrentLinkedQueue<Integer>();
        var told = new ConcurrentLinkedQueue<HaspException>();
        try (Fake fake = new Fake((line, words) -> USUAL)) {
            Thread runner = election(fake, new LeaderElection.Listener() {
                @Override
                public void onGrant(String name, long token) throws Exception {
                    if (tries.incrementAndGet() < 3) {
                        throw new java.io.IOException("no storage");
                    }
                }

                @Override
                public void lead(HaspLock lock) throws InterruptedException {
                    leads.add(tries.get());
                    new CompletableFuture<Void>().join();
                }

                @Override
                public void failed(HaspException error) {
                    told.add(error);
                }
            }, new ConcurrentLinkedQueue<>());
            eventually(() -> !leads.isEmpty(), "it never leads");
            runner.interrupt();
            check(leads.peek() == 3 && told.size() == 2
                && told.peek().reason() == HaspException.Reason.SEAL
                && told.peek().getCause() instanceof java.io.IOException
                && fake.times("1 LOCK.RELEASE") == 2, told);
        }
    }

    /** A hook that throws an error leaves no lock, nor does one that waits for
     * ever: the lock is given back at its limit. */
    private static void unsealed() throws Exception {
        try (Fake fake = new Fake((line, words) -> USUAL)) {
            Session session = fake.open();
            HaspLock lock = session.lock("a", new HaspLock.Options().onGrant(
                (name, token) -> {
                    throw new AssertionError("for the test");
                }));
            try {
                lock.lock();
                check(false, "it was sealed");
            } catch (AssertionError e) {
                check(e.getMessage().equals("for the test") && lock.token() == 0, e);
            }
            check(fake.times("1 LOCK.RELEASE") == 1, fake.asked);
        }
    }

    /** Work that waits for the end of a hold holds no heartbeats up. */
    private static void slowToHear() throws Exception {
        try (Fake fake = new Fake((line, words) ->
                words.get(0).equals("SESSION.KEEP") ? "%2\r\n+ttl_ms\r\n:2000\r\n"
                    + "+ended\r\n*1\r\n%4\r\n+lock\r\n+a\r\n+owner\r\n+me\r\n"
                    + "+token\r\n:7\r\n+first\r\n:7\r\n" : USUAL)) {
            Session session = fake.open();
            HaspLock lock = session.lock("a", new HaspLock.Options().owner("me"));
            lock.lock();
            lock.ended().thenRun(() -> LockSupport.parkNanos(3000 * Time.MS));
            eventually(() -> lock.remaining().isZero(), "it is not taken away");
            Thread.sleep(2500);
            check(session.state() == Session.State.HELD, session.why);
        }
    }

    /** Releasing again and again a lock that is not held costs nothing. */
    private static void notHeld() throws Exception {
        try (Fake fake = new Fake((line, words) -> USUAL)) {
            Session session = fake.open();
            HaspLock lock = session.lock("a");
            for (int i = 0; i < 3; i++) {
                try {
                    lock.unlock();
                    check(false, "released");
                } catch (HaspException e) {
                    check(e.reason() == HaspException.Reason.NOT_HELD, e);
                }
            }
            check(lock.tryLock(Long.MAX_VALUE, TimeUnit.DAYS), "not locked");
            lock.unlock();
            check(fake.asked.stream().anyMatch(one -> one.contains(
                "LOCK.RELEASE a") && one.contains("ACKED 1")), fake.asked);
        }
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

    /** An answer that is older than a notice is requested again, under its
     * number, and an answer that says that the hold is over is not a grant. */
    private static void olderAnswer() throws Exception {
        for (int count : List.of(1, 0)) {
            var asked = new AtomicInteger();
            try (Fake fake = new Fake((line, words) -> switch (words.get(0)) {
                case "SESSION.KEEP" -> "%3\r\n+ttl_ms\r\n:2000\r\n+ended\r\n*1\r\n"
                    + "%4\r\n+lock\r\n+a\r\n+owner\r\n+me\r\n+token\r\n:5\r\n"
                    + "+number\r\n:1000\r\n+dropped\r\n:0\r\n";
                case "LOCK.ACQUIRE" -> asked.incrementAndGet() == 1
                    ? grant(words, 7) // Older than that notice.
                    : hold("me", "a", 7, 7, "exclusive", count, -1, 1000);
                default -> USUAL;
            })) {
                Session session = fake.open();
                eventually(() -> session.seen() == 1000, "no notice");
                HaspLock lock = session.lock("a", new HaspLock.Options().owner("me"));
                lock.lock();
                check(asked.get() == 2 && lock.remaining().isZero() == (count == 0),
                    fake.asked);
                if (count == 0) {
                    refused(HaspException.Reason.LOST,
                        () -> lock.guard(Duration.ZERO));
                    refused(HaspException.Reason.NOT_HELD, lock::unlock);
                }
                check(fake.asked.stream().filter(one -> one.contains(" REQ ")).allMatch(
                    one -> one.contains(" REQ 1 ")), fake.asked);
            }
        }
    }

    /** One of several holds has ended: the others are released. */
    private static void overInPart() throws Exception {
        try (Fake fake = new Fake((line, words) ->
                words.get(0).equals("LOCK.MACQUIRE") ? "*2\r\n"
                    + hold("me", "a", 7, 7, "exclusive", 1, -1, 99)
                    + hold("me", "b", 8, 8, "free", 0, -1, 99) : USUAL)) {
            HaspLock lock = fake.open().lock(List.of("a", "b"),
                new HaspLock.Options());
            for (int i = 1; i < 3; i++) {
                lock.lock();
                refused(HaspException.Reason.LOST, () -> lock.guard(Duration.ZERO));
                refused(HaspException.Reason.NOT_HELD, lock::unlock);
                check(fake.times("1 LOCK.RELEASE a TOKEN 7 ") == i, fake.asked);
            }
        }
    }

    /** A list that lacks a hold ends it; a hold that was granted while the list
     * was read stays. A list that could not be read is requested again. */
    private static void listed() throws Exception {
        var fails = new AtomicInteger(2);
        var dropped = new AtomicInteger();
        try (Fake fake = new Fake((line, words) -> switch (words.get(0)) {
            case "LOCK.ACQUIRE" -> hold("me", words.get(1),
                Long.parseLong(words.get(1)), Long.parseLong(words.get(1)),
                "shared", 1, -1, words.get(1).equals("60") ? 60 : 54);
            case "SESSION.KEEP" -> "%3\r\n+ttl_ms\r\n:1000\r\n+ended\r\n*0\r\n"
                + "+dropped\r\n:" + dropped + "\r\n";
            case "SESSION.HOLDS" -> {
                boolean isLast = words.contains("CURSOR");
                int name = isLast ? 30 : 10;
                yield fails.decrementAndGet() >= 0 ? "-BADARG not now\r\n"
                    : "%3\r\n+cursor\r\n+" + (isLast ? "0" : "x")
                    + "\r\n+as_of\r\n:" + (40 + name) + "\r\n+holds\r\n*1\r\n"
                    + hold("me", "" + name, name, name + 5, "shared", 1, -1, 0);
            }
            default -> USUAL;
        })) {
            var lost = new ConcurrentLinkedQueue<Session.Event>();
            Session session = fake.open(fake.options().ttl(Duration.ofSeconds(1))
                .onEvent(lost::add));
            List<HaspLock> locks = new ArrayList<>();
            for (int name : List.of(10, 20, 30, 60)) {
                locks.add(session.lock("" + name,
                    new HaspLock.Options().owner("me")));
                locks.get(locks.size() - 1).lock();
            }
            dropped.set(55);
            eventually(() -> locks.get(1).remaining().isZero(), "believed in");
            eventually(() -> session.seen() == 55, "the newest is not known");
            for (int i : List.of(0, 2, 3)) {
                locks.get(i).guard(Duration.ZERO);
            }
            refused(HaspException.Reason.NOT_HELD, locks.get(1)::unlock);
            eventually(() -> lost.size() == 1, "not reported exactly once");
            check(fake.times("1 SESSION.HOLDS") == 4
                && fake.times("1 LOCK.RELEASE") == 0, fake.asked);
        }
    }

    /** The cluster does not have it: nor does anybody here. */
    private static void notHeldThere() throws Exception {
        try (Fake fake = new Fake((line, words) ->
                words.get(0).equals("LOCK.RELEASE") ? "-NOTHELD no\r\n" : USUAL)) {
            Session session = fake.open();
            HaspLock one = session.lock("a", new HaspLock.Options().owner("me"));
            HaspLock two = session.lock("a", new HaspLock.Options().owner("me"));
            one.lock();
            two.lock();
            refused(HaspException.Reason.NOT_HELD, one::unlock);
            refused(HaspException.Reason.LOST, () -> two.guard(Duration.ZERO));
            refused(HaspException.Reason.NOT_HELD, two::unlock);
            check(fake.times("1 LOCK.RELEASE a TOKEN 7 ") == 1, fake.asked);
        }
    }

    public static void main(String[] arguments) throws Exception {
        olderAnswer();
        overInPart();
        listed();
        notHeldThere();
        backOff();
        saysWhichFail();
        lostAndInterrupted();
        elected();
        leaders();
        sealedFirst();
        unsealed();
        slowToHear();
        notHeld();
        shared();
        openedTooLate();
        endsAlone();
        strange();
        pushes();
        late();
        interrupted();
        tooLarge();
        full();
        alone();
        notKnown();
        manyAttached();
        somethingElse();
        System.out.println(passed + " passed");
    }
}
