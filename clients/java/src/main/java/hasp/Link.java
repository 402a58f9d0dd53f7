// SPDX-License-Identifier: MIT

package hasp;

import hasp.Clocks.Reading;
import java.io.BufferedInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.net.UnknownHostException;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import java.util.function.Predicate;
import java.util.stream.Collectors;

/**
 * One connection to one node at a time, which sessions share. Requests are sent in
 * their order, heartbeats first, and answered in that order; before its first one
 * on a connection a session is attached.
 *
 * <p>The node is left for the next one when it is silent for longer than an ask has
 * patience, whether or not somebody still waits for that, or when it says that it
 * has no leader. What was sent there has no answer then: who asked asks again. What
 * was not sent goes to the next node.
 *
 * <p>Of its two threads one connects and reads, one writes.
 */
final class Link implements AutoCloseable {
    static final long ANSWER = 4000 * Time.MS; // Then the node is left.
    /** To connect and greet, at most. */
    static final long CONNECT = 1000 * Time.MS;
    /** No more sessions than there may be requests under way on a connection, so
     * that each has room for a heartbeat. */
    private static final int SESSIONS_MAX = 1024;
    /** Behind SESSION.OPEN, ATTACH and CLOSE a node does nothing until they are
     * answered. No more of them are under way at a time, so that heartbeats need
     * not wait for those of a thousand sessions. */
    private static final int BLOCKING_MAX = 8;
    /** Between two attempts of who is not let in. */
    private static final long DENIED_MIN = 100 * Time.MS;
    private static final long DENIED_MAX = 1000 * Time.MS;

    /** Where it goes, and as whom. 'key': equal for those who may share.
     *
     * @param timeout to connect and greet */
    record Address(List<String> endpoints, Credentials shows, long timeout,
            List<Object> key) {}

    /** One request, and its answer, which may be a {@link Resp.Refusal}. */
    static final class Ask {
        final Session session; // It is attached beforehand; or null.
        final List<String> words;
        final long patience; // For the answer.
        boolean isUrgent; // It goes before what has not been sent.
        boolean isApart; // It names session and secret: none is attached.
        boolean blocks; // It opens, attaches or closes a session.
        /** Is that what was asked for? */
        Predicate<Object> fits = reply -> true;
        long latest = Time.FOREVER; // It is not sent after that.
        private boolean attaches;
        final CompletableFuture<Object> answer = new CompletableFuture<>();
        private final CompletableFuture<Void> judge = new CompletableFuture<>();
        /** Where and when it was sent; null: it was not. */
        volatile Connection connection;
        volatile Reading sent;

        Ask(Session session, List<String> words, long patience) {
            this.session = session;
            this.words = words;
            this.patience = patience;
        }

        /** Has it just opened a session, for which somebody waits still? */
        private boolean opens(HaspException no) {
            return blocks && no == null && session.id() == 0
                && !session.over.isDone();
        }

        private void end(Object reply, IOException error) {
            judge.complete(null);
            if (error != null) {
                answer.completeExceptionally(error);
            } else {
                answer.complete(reply);
            }
        }
    }

    /** There was no time left for an answer; it was not sent. */
    static final class TooLate extends IOException {
        private static final long serialVersionUID = 1;
    }

    /** A node has said that it can do nothing. */
    private static final class Left extends IOException {
        private static final long serialVersionUID = 1;

        Left(String text) {
            super(text);
        }
    }

    /** A node does not know who asks, or wants TLS. */
    private static final class Denied extends IOException {
        private static final long serialVersionUID = 1;
        private final transient Resp.Refusal refusal;

        Denied(Resp.Refusal refusal) {
            super(refusal.text());
            this.refusal = refusal;
        }
    }

    /** One connection of a link. The link is the monitor of what changes. */
    static final class Connection {
        private final Line line;
        private final InputStream in;
        private final Deque<Ask> flight = new ArrayDeque<>(); // Not answered.
        private final Set<Session> attached = new HashSet<>();
        /** To be attached when there is nothing else to do. */
        private final Deque<Session> quiet = new ArrayDeque<>();
        private int blocking; // In flight: asks that block.
        private IOException why; // It was left.
        private String cluster = ""; // Its node's, by the answer to HELLO.
        /** Done when it is lost. */
        final CompletableFuture<Void> gone = new CompletableFuture<>();

        Connection(Line line) {
            this.line = line;
            in = new BufferedInputStream(line.in());
        }

        private boolean hasRoom() {
            return blocking < BLOCKING_MAX;
        }

        private boolean needsAttach(Ask ask) {
            return ask.session != null && ask.session.id() != 0 && !ask.isApart
                && !attached.contains(ask.session);
        }

        /** It does not block, and attaches nothing, or there is room for that. */
        private boolean mayTake(Ask ask) {
            return hasRoom() || !ask.blocks && !needsAttach(ask);
        }

        private void close() {
            try {
                line.socket().close(); // At once, whoever reads or writes.
            } catch (IOException e) {
                // It is closed.
            }
        }
    }

    /** Those that sessions may still join; the monitor of 'users', too. */
    private static final Map<List<Object>, Link> LINKS = new HashMap<>();

    private final Address address;
    private final KnownCluster known;
    private final Consumer<List<Object>> onPush;
    private final Map<Long, Session> sessions = new ConcurrentHashMap<>();
    private int users;

    // Of what follows 'this' is the monitor.
    private final Deque<Ask> queue = new ArrayDeque<>(); // Not sent.
    private Connection connection; // null: none.
    private int failed; // In a row.
    private boolean isClosed;
    private Resp.Refusal refused; // Who greets is not known, and never was.
    // Since all was well: the newest failure of each endpoint.
    private final Map<String, String> whys = new TreeMap<>();

    /** 'onPush' null: the sessions are told what is pushed to them. */
    Link(Address address, Consumer<List<Object>> onPush) {
        this.address = address;
        known = KnownCluster.at(address.endpoints);
        this.onPush = onPush == null ? this::route : onPush;
        for (Runnable work : List.<Runnable>of(this::run, this::write)) {
            Thread thread = new Thread(work, "hasp link");
            thread.setDaemon(true);
            thread.start();
        }
    }

    // --- who shares one --------------------------------------------------------

    /** One that goes there; the caller quits it. */
    static Link join(Address where, boolean isOwn) {
        synchronized (LINKS) {
            Link link = isOwn ? null : LINKS.get(where.key);
            if (link == null || link.users >= SESSIONS_MAX) {
                link = new Link(where, null);
                if (!isOwn) {
                    LINKS.put(where.key, link);
                }
            }
            link.users++;
            return link;
        }
    }

    /** A node takes no more sessions on it. Were there others? */
    boolean filled() {
        synchronized (LINKS) {
            LINKS.remove(address.key, this);
            return users > 1;
        }
    }

    /** The last session closes it. Where others stay the node is told that this one
     * is not there any more, as by the end of a connection. */
    void quit(Session session) {
        known.remove(session);
        boolean isLast;
        synchronized (LINKS) {
            isLast = --users == 0;
            if (isLast) {
                LINKS.remove(address.key, this);
            }
        }
        if (isLast) {
            close();
        } else if (forget(session)) {
            begin(new Ask(null, session.acting("SESSION.DETACH"), ANSWER));
        }
    }

    /** The session is not there any more. Was it attached? */
    synchronized boolean forget(Session session) {
        sessions.remove(session.id());
        return connection != null && connection.attached.remove(session);
    }

    /** What is pushed to the session reaches it from now on. */
    void hear(Session session) {
        known.add(session);
        sessions.put(session.id(), session);
    }

    private void route(List<Object> push) {
        if (push.size() > 2) {
            Session session = sessions.get(Resp.number(push.get(2), "session"));
            if (session != null) {
                session.pushed(String.valueOf(push.get(1)), push.get(2));
            }
        }
    }

    // --- asking ----------------------------------------------------------------

    Address address() {
        return address;
    }

    synchronized String why() {
        return whys.entrySet().stream().map(one -> one.getKey() + ": " + one.getValue())
            .collect(Collectors.joining("; "));
    }

    private synchronized void note(String endpoint, String failure) {
        whys.put(endpoint, failure);
    }

    /** The answer, unless that time is over before, or the session ends. */
    Object ask(Ask ask, long until, boolean mayInterrupt)
            throws IOException, InterruptedException {
        begin(ask);
        try {
            Time.await(until, mayInterrupt, ask.session == null ? ask.answer
                : CompletableFuture.anyOf(ask.answer, ask.session.over));
            return ask.answer.isDone() ? ask.answer.get() : noAnswer();
        } catch (ExecutionException e) {
            throw (IOException) e.getCause();
        } finally {
            cancel(ask);
        }
    }

    private Object noAnswer() throws IOException {
        throw new IOException(why().isEmpty() ? "no answer in time" : why());
    }

    synchronized void begin(Ask ask) {
        if (refused != null) {
            ask.end(refused, null);
        } else if (ask.isUrgent) {
            queue.addFirst(ask);
        } else {
            queue.addLast(ask);
        }
        notifyAll();
    }

    /** Does not send it any more. */
    synchronized void cancel(Ask ask) {
        queue.remove(ask);
    }

    private void write() {
        for (;;) {
            Connection to;
            var out = new ByteArrayOutputStream();
            synchronized (this) {
                while (!isClosed && !hasWork()) {
                    await();
                }
                if (isClosed) {
                    return;
                }
                to = connection;
                collect(to, out);
            }
            try {
                to.line.out().write(out.toByteArray());
            } catch (IOException e) {
                leave(to, e);
            }
        }
    }

    /** Until something has changed. Who interrupts all threads of a group means
     * those of the program: here others would be left without their heartbeats. */
    private void await() {
        try {
            wait();
        } catch (InterruptedException e) {
            // It looks again.
        }
    }

    /** Can something be sent now? */
    private boolean hasWork() {
        Connection to = connection;
        return to != null && (queue.stream().anyMatch(to::mayTake)
            || !to.quiet.isEmpty() && to.hasRoom());
    }

    /** What can be sent now. Sessions that ask nothing are attached, too, to hear
     * what is pushed to them. */
    private void collect(Connection to, ByteArrayOutputStream out) {
        queue.removeIf(ask -> {
            boolean isTaken = to.mayTake(ask);
            if (isTaken) {
                put(to, ask, out);
            }
            return isTaken;
        });
        while (!to.quiet.isEmpty() && to.hasRoom()) {
            Session session = to.quiet.poll();
            if (sessions.containsKey(session.id())
                    && !to.attached.contains(session)) {
                attach(to, session, out);
            }
        }
    }

    private void attach(Connection to, Session session, ByteArrayOutputStream out) {
        to.attached.add(session);
        Ask attach = new Ask(session, session.attaching(), ANSWER);
        attach.attaches = attach.blocks = true;
        send(to, attach, out);
    }

    /** The bytes of a request, and those that attach its session before. */
    private void put(Connection to, Ask ask, ByteArrayOutputStream out) {
        if (Time.left(ask.latest) < 0) {
            ask.end(null, new TooLate());
            return;
        }
        if (to.needsAttach(ask)) {
            attach(to, ask.session, out);
        }
        send(to, ask, out);
    }

    private void send(Connection to, Ask ask, ByteArrayOutputStream out) {
        judge(to, ask.patience, ask.judge);
        ask.connection = to;
        ask.sent = Clocks.now();
        to.flight.add(ask);
        to.blocking += ask.blocks ? 1 : 0;
        out.writeBytes(Resp.encode(ask.words));
    }

    /** Unless 'judge' is completed in that time the node is left. */
    private void judge(Connection to, long patience, CompletableFuture<Void> judge) {
        if (patience != Time.FOREVER) {
            judge.orTimeout(patience, TimeUnit.NANOSECONDS).whenComplete(
                (nothing, timeout) -> {
                    if (timeout != null) {
                        leave(to, new IOException("no answer in time"));
                    }
                });
        }
    }

    // --- the connection --------------------------------------------------------

    @Override
    public void close() {
        Connection last;
        synchronized (this) {
            isClosed = true;
            notifyAll();
            last = connection;
        }
        if (last != null) {
            leave(last, new IOException("the session was closed"));
        }
    }

    private synchronized boolean isClosed() {
        return isClosed;
    }

    /** Goes from node to node. After each round of them it waits for longer. */
    private void run() {
        List<String> nodes = address.endpoints;
        int turn = ThreadLocalRandom.current().nextInt(nodes.size());
        while (!isClosed()) {
            String endpoint = nodes.get(turn++ % nodes.size());
            int round;
            IOException ended = null;
            Thread.interrupted(); // It would close each connection (await).
            try {
                serve(connect(endpoint));
            } catch (IOException e) {
                ended = Tls.explained(e);
                note(endpoint, e instanceof UnknownHostException ? "no such host"
                    : ended.getMessage());
            }
            synchronized (this) {
                round = ++failed;
            }
            if (ended instanceof Denied denied && mayCome(denied)
                    || ended instanceof Tls.Distrust && address.shows.isKnown()) {
                restDenied();
            } else if (round % nodes.size() == 0 && !isClosed()) {
                Time.pause(round / nodes.size());
            }
        }
    }

    /** Who was let in before is when the files are right again; nothing is lost until
     * the lease has run out. Who never was has one more attempt if the files are
     * others by now; then all is refused that is asked. */
    private boolean mayCome(Denied denied) {
        if (address.shows.mayAskAgain()) {
            return true;
        }
        synchronized (this) {
            refused = denied.refusal;
            queue.forEach(ask -> ask.end(refused, null));
            queue.clear();
        }
        return false;
    }

    /** For no longer than a heartbeat may wait for a connection. */
    private void restDenied() {
        long end = Time.in(Math.min(address.timeout,
            ThreadLocalRandom.current().nextLong(DENIED_MIN, DENIED_MAX)));
        synchronized (this) {
            while (!isClosed && Time.left(end) > 0) {
                try {
                    wait(Math.max(1, Time.left(end) / Time.MS));
                } catch (InterruptedException e) {
                    // It looks again.
                }
            }
        }
    }

    private void renew() {
        notice(address.shows.renew().notice());
    }

    private void notice(String text) {
        if (!text.isEmpty()) {
            sessions.values().forEach(
                one -> one.emit(Session.Kind.NOTICE, "", 0, text));
        }
    }

    private Connection connect(String endpoint) throws IOException {
        renew();
        long until = Time.in(address.timeout);
        Credentials.Shown shown = address.shows.now();
        Connection made;
        try {
            made = new Connection(Line.open(endpoint, shown.tls(), until));
        } catch (IOException e) {
            known.missed(endpoint);
            throw e;
        }
        var greeted = new CompletableFuture<Void>();
        judge(made, Math.max(1, Time.left(until)), greeted);
        try {
            Object hello = greet(made, List.of("HELLO", "3"));
            made.cluster = known.judge(endpoint, hello);
            if (!shown.auth().isEmpty()) {
                // Only a node of the known cluster is shown a secret.
                greet(made, shown.auth());
            }
            synchronized (this) {
                refused = null;
            }
            return made;
        } catch (KnownCluster.Stranger e) {
            made.close();
            notice(e.notice);
            throw e;
        } catch (IOException e) {
            made.close();
            known.missed(endpoint);
            throw made.why == null ? e : made.why;
        } finally {
            greeted.complete(null);
        }
    }

    private static Object greet(Connection made, List<String> words)
            throws IOException {
        made.line.out().write(Resp.encode(words));
        Object reply = Resp.read(made.in);
        if (reply instanceof Resp.Refusal no) {
            throw new HaspException(no).isOfAsker() ? new Denied(no)
                : new IOException(no.text());
        }
        return reply;
    }

    /** The time of a connection as that of the link; throws why it has ended. */
    private void serve(Connection open) throws IOException {
        synchronized (this) {
            connection = isClosed ? null : open;
            open.quiet.addAll(sessions.values());
            notifyAll();
        }
        try {
            while (!isClosed()) {
                receive(open);
            }
        } catch (IOException e) {
            leave(open, e);
        } catch (RuntimeException e) { // Of who listens: his own business.
            leave(open, new IOException(e));
        }
        leave(open, new IOException("the session was closed"));
        synchronized (this) {
            for (Ask ask : open.flight) {
                ask.end(null, new IOException("the connection was lost"));
            }
        }
        open.gone.complete(null);
        throw open.why;
    }

    /** Ends it, whoever reads or writes there. */
    private void leave(Connection one, IOException reason) {
        synchronized (this) {
            if (one.why == null) {
                one.why = reason;
            }
            if (connection == one) {
                connection = null;
            }
        }
        one.close();
    }

    /** What has come; throws if the node is to be left. */
    private void receive(Connection from) throws IOException {
        IOException leaves = null;
        do {
            try {
                Object value = Resp.read(from.in);
                if (value instanceof Resp.Push push) {
                    onPush.accept(push.values());
                } else {
                    received(from, value, null);
                }
            } catch (Left e) {
                leaves = e;
            } catch (Resp.TooLarge e) {
                received(from, null, e); // Throws it.
            }
        } while (leaves != null && from.in.available() > 0);
        if (leaves != null) {
            throw leaves;
        }
    }

    /** Gives an answer, or that it cannot be read, to who asked first. Throws if the
     * node is to be left. */
    private void received(Connection from, Object reply, IOException error)
            throws IOException {
        Ask ask;
        HaspException no = reply instanceof Resp.Refusal refusal
            ? new HaspException(refusal) : null;
        boolean isEnd;
        boolean leaves;
        Denied denied = null;
        if (no != null && no.isOfAsker() && address.shows.mayAskAgain()) {
            // No answer: the files may be right by the next connection.
            denied = new Denied((Resp.Refusal) reply);
            error = denied;
        }
        synchronized (this) {
            ask = from.flight.poll();
            if (ask == null) {
                throw new Resp.Broken("the peer is not a hasp node: an answer "
                    + "without a request");
            }
            if (ask.blocks) {
                from.blocking--;
                notifyAll();
            }
            if (no == null && error == null && !ask.fits.test(reply)) {
                error = new Resp.Broken("no RESP: an answer to something else");
            }
            isEnd = ask.attaches && no != null && no.endsSession();
            leaves = no != null && !isEnd && (ask.attaches || no.isNoLeader());
            if (denied != null) {
                ask.connection = null; // Nothing was done by this sending.
            }
            if (leaves || error != null) {
                connection = null; // What is asked because of it goes elsewhere.
            } else if (!ask.attaches) {
                failed = 0;
                whys.clear();
                if (no == null) {
                    address.shows.letIn();
                    known.learn(from.cluster);
                }
                if (ask.opens(no)) {
                    from.attached.add(ask.session);
                }
            }
        }
        ask.end(reply, error);
        if (error instanceof Resp.Broken || denied != null) {
            throw error;
        } else if (isEnd) {
            ask.session.refuse(no.getMessage());
        } else if (leaves) {
            throw new Left(no.getMessage());
        }
    }
}
