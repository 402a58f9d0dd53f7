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
 * One connection to one node at a time, which sessions share. Requests are sent
 * in order, heartbeats first, and answered in that order. A session is attached
 * before its first request on a connection.
 *
 * <p>The link leaves the node for the next one when the node is silent for
 * longer than the patience of an ask, even if nothing waits for the answer, or
 * when it reports that it has no leader. Requests that were sent there fail,
 * and their callers ask again. Unsent requests go to the next node.
 *
 * <p>It has two threads: one connects and reads, the other one writes.
 */
final class Link implements AutoCloseable {
    static final long ANSWER = 4000 * Time.MS; // The node is then left.
    /** Limit to connect and send HELLO. */
    static final long CONNECT = 1000 * Time.MS;
    /** A link has at most as many sessions as a connection may have requests in
     * flight, so that each has room for a heartbeat. */
    private static final int SESSIONS_MAX = 1024;
    /** A node handles no later request of a connection until SESSION.OPEN,
     * ATTACH and CLOSE are answered. The number in flight is limited, so that
     * heartbeats need not wait for those of a thousand sessions. */
    private static final int BLOCKING_MAX = 8;
    /** Pause between attempts after a refusal. */
    private static final long DENIED_MIN = 100 * Time.MS;
    private static final long DENIED_MAX = 1000 * Time.MS;

    /** Where a link connects to, and with which credentials. 'key' is equal for
     * sessions that can share a link.
     *
     * @param timeout to connect and send HELLO */
    record Address(List<String> endpoints, Credentials shows, long timeout,
            List<Object> key) {}

    /** One request and its answer, which can be a {@link Resp.Refusal}. */
    static final class Ask {
        final Session session; // Attached beforehand; null: none.
        final List<String> words;
        final long patience; // Limit for the answer.
        boolean isUrgent; // Sent before all requests that are not yet sent.
        boolean isApart; // Names session and secret: none need be attached.
        boolean blocks; // Opens, attaches or closes a session.
        boolean isOfOther; // A refusal can concern another session.
        /** Checks the form of the reply. */
        Predicate<Object> fits = reply -> true;
        long latest = Time.FOREVER; // It is not sent after this time.
        private boolean attaches;
        final CompletableFuture<Object> answer = new CompletableFuture<>();
        private final CompletableFuture<Void> judge = new CompletableFuture<>();
        /** Where and when it was sent; null: it was not sent. */
        volatile Connection connection;
        volatile Reading sent;

        Ask(Session session, List<String> words, long patience) {
            this.session = session;
            this.words = words;
            this.patience = patience;
        }

        Ask ofOther(boolean is) {
            isOfOther = is;
            return this;
        }

        /** True if it has just opened a session that a caller still waits
         * for. */
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

    /** There was no time left for an answer, so it was not sent. */
    static final class TooLate extends IOException {
        private static final long serialVersionUID = 1;
    }

    /** A node has no leader. */
    private static final class Left extends IOException {
        private static final long serialVersionUID = 1;

        Left(String text) {
            super(text);
        }
    }

    /** A node refuses the credentials, or requires TLS. */
    private static final class Denied extends IOException {
        private static final long serialVersionUID = 1;
        private final transient Resp.Refusal refusal;

        Denied(Resp.Refusal refusal) {
            super(refusal.text());
            this.refusal = refusal;
        }
    }

    /** One connection of a link. The link is the monitor of its mutable
     * fields. */
    static final class Connection {
        private final Line line;
        private final InputStream in;
        private final Deque<Ask> flight = new ArrayDeque<>(); // Not answered.
        private final Set<Session> attached = new HashSet<>();
        /** Sessions to attach when there is nothing else to do. */
        private final Deque<Session> quiet = new ArrayDeque<>();
        private int blocking; // Blocking asks in flight.
        private IOException why; // Why it was left.
        // The node's cluster, by the answer to HELLO.
        private String cluster = "";
        /** Done when the connection is lost. */
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

        /** True if the ask does not block and attaches nothing, or there is
         * room. */
        private boolean mayTake(Ask ask) {
            return hasRoom() || !ask.blocks && !needsAttach(ask);
        }

        private void close() {
            try {
                line.socket().close(); // Ends reads and writes at once.
            } catch (IOException e) {
                // It is closed.
            }
        }
    }

    /** Links that more sessions can join; also the monitor of 'users'. */
    private static final Map<List<Object>, Link> LINKS = new HashMap<>();

    private final Address address;
    private final KnownCluster known;
    private final Consumer<List<Object>> onPush;
    private final Map<Long, Session> sessions = new ConcurrentHashMap<>();
    private int users;

    // 'this' is the monitor of the following fields.
    private final Deque<Ask> queue = new ArrayDeque<>(); // Not sent.
    private Connection connection; // null: none.
    private int failed; // Failed attempts in a row.
    private boolean isClosed;
    // The credentials are unknown, and always were.
    private Resp.Refusal refused;
    // The newest failure of each endpoint since the last success.
    private final Map<String, String> whys = new TreeMap<>();

    /** 'onPush' null: the link's sessions get the pushes. */
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

    /** Returns a link to that address; the caller must quit it. */
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

    /** The node accepts no more sessions. Returns whether there were others. */
    boolean filled() {
        synchronized (LINKS) {
            LINKS.remove(address.key, this);
            return users > 1;
        }
    }

    /** Leaves the link; the last session closes it. Otherwise the node is
     * notified that this session has left, as if its connection had ended. */
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

    /** Removes the session, and returns whether it was attached. */
    synchronized boolean forget(Session session) {
        sessions.remove(session.id());
        return connection != null && connection.attached.remove(session);
    }

    /** Delivers pushes to the session from now on. */
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

    /** Returns the answer, unless that time is over before, or the session
     * ends. */
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

    /** Drops it if it was not sent. */
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

    /** Waits for a change. A program that interrupts all threads of a group
     * means its own threads: if this one ended, other sessions would lose their
     * heartbeats. */
    private void await() {
        try {
            wait();
        } catch (InterruptedException e) {
            // The caller checks again.
        }
    }

    /** True if a request can be sent now. */
    private boolean hasWork() {
        Connection to = connection;
        return to != null && (queue.stream().anyMatch(to::mayTake)
            || !to.quiet.isEmpty() && to.hasRoom());
    }

    /** The requests that can be sent now. Sessions without requests are
     * attached, too, so that they get pushes. */
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

    /** Adds the bytes of a request, after those that attach its session. */
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

    /** Leaves the node unless 'judge' is completed in that time. */
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

    /** Connects to one node after another, with a longer pause after each
     * round. */
    private void run() {
        List<String> nodes = address.endpoints;
        int turn = ThreadLocalRandom.current().nextInt(nodes.size());
        while (!isClosed()) {
            String endpoint = nodes.get(turn++ % nodes.size());
            int round;
            IOException ended = null;
            // An interrupt would close each connection (see await).
            Thread.interrupted();
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

    /** Waits before the next attempt. A client that was accepted before retries
     * until the files are right; nothing is lost until the lease runs out. A
     * client that never was gets one more attempt if the files have changed;
     * then all requests are refused. */
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

    /** Waits, at most as long as a heartbeat may wait for a connection. */
    private void restDenied() {
        long end = Time.in(Math.min(address.timeout,
            ThreadLocalRandom.current().nextLong(DENIED_MIN, DENIED_MAX)));
        synchronized (this) {
            while (!isClosed && Time.left(end) > 0) {
                try {
                    wait(Math.max(1, Time.left(end) / Time.MS));
                } catch (InterruptedException e) {
                    // The caller checks again.
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
                // Send a secret only to a node of the known cluster.
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

    /** Runs an open connection; throws the reason why it ended. */
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
        } catch (RuntimeException e) {
            // A listener has failed: that is the program's problem.
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

    /** Ends the connection, even while it is read or written. */
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

    /** Handles received data; throws if the node must be left. */
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
                received(from, null, e); // This throws the exception.
            }
        } while (leaves != null && from.in.available() > 0);
        if (leaves != null) {
            throw leaves;
        }
    }

    /** Delivers an answer, or that it cannot be read, to the oldest request.
     * Throws if the node must be left. */
    private void received(Connection from, Object reply, IOException error)
            throws IOException {
        Ask ask;
        HaspException no = reply instanceof Resp.Refusal refusal
            ? new HaspException(refusal) : null;
        boolean isEnd;
        boolean leaves;
        Denied denied = null;
        if (no != null && no.isOfAsker() && address.shows.mayAskAgain()) {
            // Not a final answer: the files might be right at the next
            // connection.
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
                ask.connection = null; // This attempt did nothing.
            }
            if (leaves || error != null) {
                connection = null; // The requests that follow go elsewhere.
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
