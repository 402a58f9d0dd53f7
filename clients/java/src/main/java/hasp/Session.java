// SPDX-License-Identifier: MIT

package hasp;

import hasp.Clocks.Reading;
import hasp.HaspException.Reason;
import java.io.IOException;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.security.SecureRandom;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Consumer;
import java.util.function.Supplier;
import java.util.stream.Stream;

/**
 * The identity of a client. It holds its locks while its lease is valid; a thread
 * renews the lease with heartbeats.
 */
public final class Session implements AutoCloseable {
    /** Limit for the answer to the last attempt. */
    private static final long ATTEMPT_MIN = 250 * Time.MS;

    /** The state of a session's lease. */
    public enum State {
        /** The lease is valid. */
        HELD,
        /** No contact with the cluster: stop what the locks protect. After an
         * answer the state is HELD again. */
        JEOPARDY,
        /** For good: open another one. */
        LOST
    }

    /** The kind of event. */
    public enum Kind {
        /** {@link State#JEOPARDY} has begun. */
        JEOPARDY,
        /** Contact again; nothing was lost. */
        SAFE,
        /** The session, or the hold of the lock that is named, is lost. */
        LOST,
        /** Somebody asks for the lock. */
        PLEASE,
        /** Nothing is lost, but people should know. */
        NOTICE
    }

    /** Whether the agent of this host ends the session when the process dies: see
     * {@link Options#tie}. */
    public enum Tie {
        /** By its TTL only. */
        NONE,
        /** If there is an agent; {@link Kind#NOTICE} if not. */
        TRY,
        /** {@link Session#open} throws UNREACHABLE if it cannot be tied. */
        MUST
    }

    /** Something that happened to a session, or to a hold of it.
     *
     * @param kind what
     * @param lock "": the session, with all that it holds
     * @param token of the hold; 0: of the session
     * @param text the reason, or the message */
    public record Event(Kind kind, String lock, long token, String text) {}

    /** A holder of a lock.
     *
     * @param session its id
     * @param client its name
     * @param owner who in the session; "" by default
     * @param value what it shows to others
     * @param token of its hold */
    public record Holder(long session, String client, String owner, String value,
            long token) {}

    /** Options of a session. */
    public static final class Options {
        private String endpoints;
        private String name = "java:" + ProcessHandle.current().pid();
        private Duration ttl; // Null: the default.
        private Duration linger = Duration.ZERO;
        private Duration timeout = Duration.ofSeconds(10);
        private Duration alive = Duration.ZERO;
        private boolean isDurable;
        private String tls = System.getenv("HASP_TLS");
        private String cluster;
        private String secretFile = System.getenv("HASP_SECRET_FILE");
        private boolean ownsConnection;
        private Tie tie = Tie.NONE;
        private String agent;
        private final Map<String, String> labels = new LinkedHashMap<>();
        private Consumer<Event> onEvent = event -> {};
        private Hooks hooks; // Null: none.

        /** "host:port,host:port,..." of any nodes; "unix:/path" is a node's
         * {@code listen.local} on this machine, which is never encrypted.
         * Default: the environment's HASP_ENDPOINTS, or the nodes of
         * {@code hasp dev}. */
        public Options endpoints(String all) {
            endpoints = all;
            return this;
        }

        /** Shown to people, and matched by a blacklist's patterns. */
        public Options name(String text) {
            name = text;
            return this;
        }

        /** How long a dead session blocks others: 100 ms to the cluster's limit;
         * default: 10 s, or 60 s with a tie. The lease is trusted for 0.8 of
         * it. */
        public Options ttl(Duration length) {
            ttl = length;
            return this;
        }

        /** Time from the loss of the last connection, as when the process dies,
         * to the end of the session. The lease is trusted for 0.8 of it. */
        public Options linger(Duration length) {
            linger = length;
            return this;
        }

        /** Limit of one request, without the wait for a lock; default: 10 s. */
        public Options timeout(Duration length) {
            timeout = length;
            return this;
        }

        /** Interval in which the program must call {@link Session#alive};
         * otherwise heartbeats stop, and the session ends. */
        public Options alive(Duration length) {
            alive = length;
            return this;
        }

        /** A session that never expires, so ttl and linger mean nothing. Its holds
         * outlive the program until somebody releases or breaks them
         * (docs/durable.md). {@link Session#close} ends it. The reason, at most
         * 128 bytes, is shown to people who wait for its locks. */
        public Options durable(String reason) {
            isDurable = true;
            return label("reason", reason);
        }

        /** TLS: a folder with ca.crt and, if the program has a certificate,
         * client.crt and client.key ({@code hasp cert user} creates it). Default:
         * the environment's HASP_TLS, or plain; "": plain. The files are read
         * again before each connection, so renewed certificates come into use.
         * IllegalArgumentException from open(): a file is missing or invalid. */
        public Options tls(String folder) {
            tls = folder;
            return this;
        }

        /** A file with the secret of a user ({@code hasp secret add} writes it,
         * 0600). Default: the environment's HASP_SECRET_FILE, or the user of the
         * certificate, or anyone. It is also read again before each connection.
         * IllegalArgumentException from open(): the file has no secret, or others
         * can read it. */
        public Options secretFile(String file) {
            secretFile = file;
            return this;
        }

        /** The cluster's name, for a CA that does not contain it because it was
         * not created by {@code hasp cert}. */
        public Options cluster(String text) {
            cluster = text;
            return this;
        }

        /** True: the session does not share its connection. By default sessions
         * with the same endpoints, TLS, secret, ttl and linger share one. */
        public Options ownConnection(boolean isOwn) {
            ownsConnection = isOwn;
            return this;
        }

        /** The agent of this host ({@code hasp agent}, docs/agent.md) ends the
         * session as soon as this process is dead, however long its ttl is. Dead
         * is not silent: what the process has sent can still arrive, so check the
         * token where you write, or use {@link HaspLock.Options#delay}. A tie is
         * a promise: whatever this process has started stops with it. Not with
         * linger or durable. */
        public Options tie(Tie kind) {
            tie = kind;
            return this;
        }

        /** The agent's socket. Default: the environment's HASP_AGENT, or
         * /run/hasp-agent/agent.sock. */
        public Options agent(String path) {
            agent = path;
            return this;
        }

        private Duration ttl() {
            return ttl != null ? ttl : Duration.ofSeconds(tie == Tie.NONE ? 10 : 60);
        }

        /** Shown to people. */
        public Options label(String key, String value) {
            labels.put(key, value);
            return this;
        }

        /** Called for each acquisition: for traces and metrics. */
        public Options hooks(Hooks all) {
            hooks = all;
            return this;
        }

        /** Called with one event after the other, on a thread of its own. */
        public Options onEvent(Consumer<Event> handler) {
            onEvent = handler;
            return this;
        }
    }

    // Commands of ask() that a shared connection can carry: those that act for
    // a session, and others that neither wait nor change anything.
    private static final Set<String> ACTING = Set.of("LOCK.ACQUIRE",
        "LOCK.MACQUIRE", "LOCK.CONVERT", "LOCK.RELEASE", "LOCK.MRELEASE",
        "LOCK.CANCEL", "LOCK.NOTE", "LOCK.OBJECT", "LOCK.PLEASE", "FENCE.ADMIT",
        "FENCE.REMOVE");
    private static final Set<String> READING = Set.of("SESSION.SHOW",
        "SESSION.LIST", "LOCK.SHOW", "LOCK.LIST", "LOCK.WHY", "LOCK.TOP",
        "LOCK.GRAPH", "LOCK.CHECK", "LOCK.HISTORY", "FENCE.SHOW", "FENCE.LIST");

    private static final ThreadFactory DAEMONS = work -> {
        Thread thread = new Thread(work, "hasp");
        thread.setDaemon(true);
        return thread;
    };

    final Lease lease = new Lease();
    final Numbers numbers = new Numbers();
    final Set<HaspLock> holds = ConcurrentHashMap.newKeySet();
    final Set<HaspLock.Change> waits = ConcurrentHashMap.newKeySet();
    /** Changes that are requested, or of unknown outcome. The set is its own
     * monitor, and that of claimNews, which completes at each change of the
     * set. */
    final Set<HaspLock.Change> claims = new HashSet<>();
    CompletableFuture<Void> claimNews = new CompletableFuture<>();
    /** Done when the session's requests can have no more results. */
    final CompletableFuture<Void> over = new CompletableFuture<>();
    /** Settles changes that their callers have abandoned. */
    private final ExecutorService background = Executors.newCachedThreadPool(DAEMONS);
    final long timeout;
    final String name;
    private final ExecutorService events =
        Executors.newSingleThreadExecutor(DAEMONS);
    private final Options options;
    final Reporter reports;
    private final Keeper keeper;
    private Link link;
    private final Agent.Tie tie; // Null: it is not to be tied.
    private final String secret;
    private final AtomicInteger owners = new AtomicInteger();
    private volatile long id;
    private final List<Link.Ask> opening = new ArrayList<>();
    private volatile Reading aliveAt = Clocks.now();
    // The newest notice of an end that was sent or dropped, and the newest one
    // that was handled; guarded by 'this'.
    private long newest;
    private long seen;
    private boolean isListing; // The holds are being listed; guarded by 'this'.
    private volatile boolean isClosed;
    private final AtomicBoolean closing = new AtomicBoolean();
    volatile String why = "the lease has run out";

    private Session(Options options) {
        this.options = options;
        name = options.name;
        timeout = Time.nanos(options.timeout);
        byte[] random = new byte[16];
        new SecureRandom().nextBytes(random);
        secret = HexFormat.of().formatHex(random);
        reports = new Reporter(options.hooks, DAEMONS, text ->
            emit(Kind.NOTICE, "", 0, text));
        keeper = new Keeper(this);
        tie = options.tie == Tie.NONE ? null
            : new Agent.Tie(Time.nanos(options.ttl()), text ->
                emit(Kind.NOTICE, "", 0, text));
    }

    /** Opens a session with the defaults. */
    public static Session open() {
        return open(new Options());
    }

    /** Opens a session, within the time-out; a session that a node opens later
     * is closed in the background. If an answer was lost with its connection,
     * that session ends by its TTL. Throws UNREACHABLE, REFUSED. */
    public static Session open(Options options) {
        Link.Address where = address(options);
        for (;;) {
            Session session = new Session(options);
            session.link = Link.join(where, options.ownsConnection);
            try {
                session.begin();
                session.link.hear(session);
                session.keeper.start();
                session.beTied();
                return session;
            } catch (RuntimeException e) {
                boolean isFull = e instanceof HaspException no
                    && no.isFullConnection() && session.link.filled();
                session.unwanted();
                if (!isFull) {
                    throw e;
                }
            }
        }
    }

    /** The address of the session's connection. Sessions that share a connection
     * wait equally long for its node. */
    private static Link.Address address(Options options) {
        check("ttl", options.ttl(), 1);
        check("linger", options.linger, 0);
        check("timeout", options.timeout, 1);
        check("alive", options.alive, 0);
        if (options.tie != Tie.NONE
                && (options.isDurable || !options.linger.isZero())) {
            throw new IllegalArgumentException("a session that is tied needs a "
                + "ttl, and neither linger nor durable");
        }
        List<String> endpoints = Nodes.read(options.endpoints);
        Credentials shows = Credentials.of(options.tls, options.cluster,
            options.secretFile);
        Lease asked = new Lease();
        if (options.isDurable) {
            asked.answeredEndless(Clocks.now());
        } else {
            asked.answered(Clocks.now(), Time.nanos(options.ttl()) / Time.MS,
                Time.nanos(options.linger) / Time.MS);
        }
        return new Link.Address(endpoints, shows,
            Math.min(Link.CONNECT, Keeper.patience(asked)),
            List.of(endpoints, shows, options.ttl(), options.linger, options.isDurable));
    }

    private static void check(String what, Duration length, long least) {
        if (Time.nanos(length) < least) {
            throw new IllegalArgumentException(what + " " + length + ": expected "
                + (least > 0 ? "more than 0" : "0 or more"));
        }
    }

    /** The secret, for requests of the client itself. */
    String proof() {
        return secret;
    }

    /** Sends OPEN with the hash of the secret. */
    private void begin() {
        List<String> words = new ArrayList<>(List.of("SESSION.OPEN", "TTL",
            options.isDurable ? "NONE" : Time.milliseconds(options.ttl()),
            "NAME", name, "PROOF", proof(secret)));
        if (!options.linger.isZero() && !options.isDurable) {
            words.addAll(List.of("LINGER", Time.milliseconds(options.linger)));
        }
        if (tie != null) {
            words.addAll(List.of("WILL", proof(tie.word)));
        }
        options.labels.forEach((key, value) ->
            words.addAll(List.of("LABEL", key, value)));
        Answer answer = request(() -> {
            Link.Ask ask = blocking(words);
            ask.fits = Session::isOpened;
            opening.add(ask);
            return ask;
        });
        opened(answer.reply, answer.ask.sent);
    }

    private void opened(Object reply, Reading sent) {
        id = Resp.number(reply, "id");
        answered(reply, sent);
    }

    /** Ends a session that could not be opened. If a node might still answer
     * that it has opened the session, this waits for that, and closes it. */
    private void unwanted() {
        if (opening.stream().allMatch(ask -> ask.connection == null)) {
            end(); // None was sent.
            return;
        }
        later(() -> {
            try {
                opening.forEach(this::closeOpened);
            } finally {
                end();
            }
        });
    }

    private void closeOpened(Link.Ask ask) {
        // Without an answer the link leaves the node (ANSWER).
        Object reply = ask.connection == null ? null
            : ask.answer.handle((told, error) -> told).join();
        if (isOpened(reply)) {
            opened(reply, ask.sent);
            try {
                request(() -> blocking(acting("SESSION.CLOSE")));
            } catch (HaspException e) {
                // It ends by its TTL.
            }
        }
    }

    /** Marks a request that opens or closes the session. */
    private Link.Ask blocking(List<String> words) {
        Link.Ask ask = new Link.Ask(this, words, Link.ANSWER);
        ask.blocks = true;
        return ask;
    }

    /** True if the reply has the form of an answer to KEEP. */
    static boolean isLease(Object reply) {
        return reply instanceof Map<?, ?> told && told.containsKey("ttl_ms")
            && (told.get("ttl_ms") == null || Resp.number(told, "ttl_ms") > 0);
    }

    private static boolean isOpened(Object reply) {
        return isLease(reply) && Resp.number(reply, "id") > 0;
    }

    private static String proof(String secret) {
        try {
            return HexFormat.of().formatHex(
                MessageDigest.getInstance("SHA-256").digest(secret.getBytes()));
        } catch (NoSuchAlgorithmException e) {
            throw new AssertionError(e); // Each JDK has it.
        }
    }

    void answered(Object reply, Reading sent) {
        if (reply instanceof Map<?, ?> told && told.containsKey("ttl_ms")
                && told.get("ttl_ms") == null) {
            lease.answeredEndless(sent);
            return;
        }
        lease.answered(sent, Resp.number(reply, "ttl_ms"),
            Resp.number(reply, "linger_ms"));
    }

    // --- locks -----------------------------------------------------------------

    /** Returns a lock by that name, exclusive. Sends no request. */
    public HaspLock lock(String name) {
        return lock(name, new HaspLock.Options());
    }

    /** Returns a lock by that name. Sends no request. */
    public HaspLock lock(String name, HaspLock.Options how) {
        return lock(List.of(name), how);
    }

    /** Returns a lock for up to 64 names that are acquired together, all or
     * none. Such locks cannot deadlock with each other. */
    public HaspLock lock(List<String> names, HaspLock.Options how) {
        return new HaspLock(this, names, how,
            ProcessHandle.current().pid() + "-" + owners.incrementAndGet());
    }

    // --- belief ----------------------------------------------------------------

    /** The id, as {@code hasp session list} shows it. */
    public long id() {
        return id;
    }

    /** The secret for SESSION.ATTACH, with the id. A process that has both can
     * act for the session, which is intended for durable sessions.
     * IllegalStateException while the session is, or can be, tied to this
     * process: call {@link #untie} before you hand it over. */
    public String secret() {
        if (tie != null && !tie.mayBeHandedOver()) {
            throw new IllegalStateException("the session is tied to this process, "
                + "and ends with it: call untie() before you hand it over");
        }
        return secret;
    }

    /** True while the session is tied to this process: {@link Options#tie}. */
    public boolean isTied() {
        return tie != null && tie.isTied();
    }

    /** Ends the tie to this process, for good, so that another process can take
     * over the session. UNREACHABLE: the agent has not confirmed it. */
    public void untie() {
        if (tie != null) {
            tie.undo();
        }
    }

    /** Starts to tie the session, and waits for that if it must be tied. */
    private void beTied() {
        if (tie == null) {
            return;
        }
        try {
            tie.begin(options.agent, id);
            if (options.tie == Tie.MUST) {
                tie.await();
            }
        } catch (RuntimeException e) {
            closeQuietly();
            throw e;
        }
    }

    private void closeQuietly() {
        try {
            close();
        } catch (HaspException e) {
            // It ends by its TTL.
        }
    }

    /** The state of the lease. Sends no request. */
    public State state() {
        return lease.state(Clocks.now());
    }

    /** How long the lease can be trusted; zero unless it is held, 2^63 - 1
     * nanoseconds for a durable session. */
    public Duration remaining() {
        return Duration.ofNanos(lease.remaining(Clocks.now()));
    }

    /** Reports that the program makes progress: see {@link Options#alive}. Call
     * it where the work is done, not from a timer. Throws LOST if it is too
     * late. */
    public void alive() {
        aliveAt = Clocks.now();
        check();
    }

    boolean isEarned() {
        return options.alive.isZero()
            || aliveAt.age(Clocks.now()) <= Time.nanos(options.alive);
    }

    void check() {
        if (state() == State.LOST) {
            throw new HaspException(Reason.LOST,
                "the session is lost: " + why + "; open another one");
        }
    }

    /** Releases all holds and ends the session. Trust in its locks ends before
     * the request is sent. UNREACHABLE, UNKNOWN: no node answered; the session
     * ends by its TTL. */
    @Override
    public void close() {
        if (closing.getAndSet(true)) {
            return;
        }
        keeper.look(); // Reports a loss that happened just now, too.
        isClosed = true;
        holds.forEach(HaspLock::doubt);
        endHolds(Reporter.Acquisition::released);
        try {
            if (state() != State.LOST) {
                request(() -> blocking(acting("SESSION.CLOSE")));
                link.forget(this);
            }
        } catch (HaspException e) {
            if (e.reason() != Reason.LOST) { // For example, by a lost answer.
                throw e;
            }
        } finally {
            end();
        }
    }

    private void end() {
        refuse("it was closed");
        endHolds(Reporter.Acquisition::released);
        keeper.stop();
        leave();
        reports.await(Time.in(timeout));
        background.shutdown();
        events.shutdown();
    }

    /** All holds have ended; reports that to hooks. */
    void endHolds(Consumer<Reporter.Acquisition> end) {
        holds.forEach(one -> one.endHolds(end));
    }

    /** Notifies all waiters that the session is over. */
    void leave() {
        if (over.complete(null)) {
            if (tie != null) {
                tie.end();
            }
            link.quit(this);
        }
    }

    boolean isClosed() {
        return isClosed;
    }

    Link link() {
        return link;
    }

    /** The session has ended. */
    void refuse(String reason) {
        if (state() != State.LOST) {
            why = reason;
        }
        lease.refuse();
        keeper.wake();
    }

    /** A slow handler gets its events later; none is dropped. */
    void emit(Kind kind, String lock, long token, String text) {
        if (!isClosed) {
            run(events, () -> options.onEvent.accept(
                new Event(kind, lock, token, text)));
        }
    }

    // --- notices ---------------------------------------------------------------

    synchronized long seen() {
        return seen;
    }

    /** An answer older than a notice might describe a hold that has ended. */
    synchronized Grant.Verdict judge(List<Grant.Told> all, Grant.Verdict so) {
        return so == Grant.Verdict.GRANTED
            && all.stream().anyMatch(told -> told.asOf() < newest)
            ? Grant.Verdict.STALE : so;
    }

    /** Handles the notices in a heartbeat's answer. If the cluster dropped
     * notices before they were read, all holds are listed, and those missing in
     * the list have ended. Until that is done the next heartbeats ask for the
     * same notices. */
    void heard(Object answer) {
        List<?> notices = Resp.list(answer, "ended");
        long dropped = Resp.number(answer, "dropped");
        long told = dropped;
        for (Object one : notices) {
            told = Math.max(told, Resp.number(one, "number"));
        }
        boolean lists;
        synchronized (this) {
            newest = Math.max(newest, told); // First: see HaspLock.granted.
            boolean isIncomplete = dropped > seen && !holds.isEmpty();
            if (!isIncomplete) {
                seen = newest;
            }
            lists = isIncomplete && !isListing;
            isListing |= lists;
        }
        notices.forEach(this::ended);
        long known = told;
        if (lists) {
            later(() -> confirm(dropped, known));
        }
    }

    private void ended(Object notice) {
        var now = new Grant.Told(Resp.text(notice, "lock"),
            Resp.text(notice, "owner"), "", Resp.number(notice, "first"),
            Resp.number(notice, "token"), 0, -1, 0);
        var tokens = new HashSet<Long>(); // By their original tokens.
        holds.forEach(one -> tokens.addAll(one.endWhere(now.owner(), now::is,
            Resp.text(notice, "reason"))));
        tokens.forEach(token -> emit(Kind.LOST, now.lock(), token,
            Resp.text(notice, "reason")));
    }

    /** Ends the holds that are missing in the list of the session's holds.
     * 'known' is the newest notice before the list was read. */
    private void confirm(long dropped, long known) {
        Map<String, List<Grant.Told>> all = new HashMap<>();
        try {
            list(all);
        } catch (HaspException e) {
            synchronized (this) {
                isListing = false;
            }
            return; // The next heartbeat starts it again.
        }
        synchronized (this) {
            isListing = false;
            seen = Math.max(seen, known);
        }
        var ended = new HashSet<List<Object>>();
        holds.forEach(one -> one.endUnlisted(all, dropped, ended));
        ended.forEach(one -> emit(Kind.LOST, (String) one.get(0),
            (Long) one.get(1), "ended"));
    }

    /** Adds the session's holds, by lock. */
    private void list(Map<String, List<Grant.Told>> all) {
        for (String cursor = "0";;) {
            boolean isFirst = cursor.equals("0");
            Object page = question(isFirst
                ? acting("SESSION.HOLDS", "COUNT", "1000")
                : acting("SESSION.HOLDS", "COUNT", "1000", "CURSOR", cursor));
            for (Object one : Resp.list(page, "holds")) {
                Grant.Told told = Grant.Told.of(one);
                if (told != null) {
                    all.computeIfAbsent(told.lock(), name -> new ArrayList<>())
                        .add(told);
                }
            }
            cursor = Resp.text(page, "cursor");
            if (cursor.equals("0")) {
                return;
            } else if (cursor.isEmpty()) {
                throw new HaspException(Reason.UNKNOWN,
                    "no node listed the session's holds");
            }
        }
    }

    // --- who asks --------------------------------------------------------------

    /** Wakes the waiters for other claims. */
    void tellClaims(Consumer<Set<HaspLock.Change>> change) {
        CompletableFuture<Void> told;
        synchronized (claims) {
            change.accept(claims);
            told = claimNews;
            claimNews = new CompletableFuture<>();
        }
        told.complete(null);
    }

    /** Runs it on another thread, or on this one if the session has been
     * closed. */
    void told(Runnable work) {
        try {
            background.execute(work);
        } catch (RejectedExecutionException e) {
            work.run();
        }
    }

    /** Runs it on another thread. */
    void later(Runnable work) {
        run(background, work);
    }

    private static void run(ExecutorService where, Runnable work) {
        try {
            where.execute(work);
        } catch (RejectedExecutionException e) {
            // The session has just been closed, and its holds have ended.
        }
    }

    // --- questions -------------------------------------------------------------

    /** Sends any repeatable command of docs/protocol.md. The answer is null,
     * Boolean, Long, String, List or Map. */
    public Object ask(String... words) {
        if (words.length == 0) {
            throw new IllegalArgumentException("ask() needs a command");
        }
        boolean names = namesSession(words);
        boolean isActing = ACTING.contains(words[0].toUpperCase());
        if (!names && words[0].equalsIgnoreCase("SESSION.CLOSE")) {
            throw new IllegalArgumentException(
                "ask() does not close its own session: use close()");
        }
        if (!goesAlone(words) && isActing) {
            return question(acting(words));
        }
        if (!goesAlone(words)) {
            return request(link, () -> new Link.Ask(this, List.of(words),
                Link.ANSWER).ofOther(true)).reply;
        }
        try (Link own = new Link(link.address(), null)) {
            return request(own, () -> new Link.Ask(this, List.of(words),
                Time.FOREVER).ofOther(names || !isActing)).reply;
        }
    }

    /** True if the command names the session for which it acts. Its first
     * argument is a name, except that of SESSION.CLOSE. */
    private static boolean namesSession(String... words) {
        return Stream.of(words).map(String::toUpperCase).toList().lastIndexOf(
            "SESSION") > (words[0].equalsIgnoreCase("SESSION.CLOSE") ? 0 : 1);
    }

    /** True if the command needs a connection of its own, because it waits,
     * changes the connection, or names a session itself. */
    static boolean goesAlone(String... words) {
        List<String> upper = Stream.of(words).map(String::toUpperCase).toList();
        return upper.contains("WAIT") || upper.contains("FOREVER")
            || namesSession(words)
            || !(ACTING.contains(upper.get(0)) || READING.contains(upper.get(0)));
    }

    private Answer request(Link on, Supplier<Link.Ask> asks) {
        try {
            return request(on, asks, Time.in(timeout), false, false);
        } catch (InterruptedException e) {
            throw new AssertionError(e);
        }
    }

    private Answer request(Supplier<Link.Ask> asks) {
        return request(link, asks);
    }

    /** Sends a command that names its session, or acts for none. */
    Object question(List<String> words) {
        return request(words).reply;
    }

    /** Words that name the session for which they act. */
    List<String> acting(String... words) {
        List<String> all = new ArrayList<>(List.of(words));
        all.addAll(List.of("SESSION", Long.toString(id)));
        return all;
    }

    List<String> attaching() {
        return List.of("SESSION.ATTACH", Long.toString(id), secret);
    }

    /** True if this is the token of a current holder of the lock. */
    public boolean check(String lock, long token) {
        return isTrue(question(List.of("LOCK.CHECK", lock, Long.toString(token))));
    }

    /** Stores the token for a resource that cannot store it itself. False: a larger
     * one was admitted before, so the write must not be done. */
    public boolean admit(String resource, long token) {
        return isTrue(question(
            acting("FENCE.ADMIT", resource, Long.toString(token))));
    }

    private static boolean isTrue(Object reply) {
        return Boolean.TRUE.equals(reply) || Long.valueOf(1).equals(reply);
    }

    /** Asks the holders of a lock to release it. Returns how many were notified. */
    public long please(String lock, String message) {
        return question(acting("LOCK.PLEASE", lock, "MESSAGE", message))
            instanceof Long n ? n : 0;
    }

    Object show(String lock) {
        return question(List.of("LOCK.SHOW", lock));
    }

    /** The current holders of the lock. */
    public List<Holder> holders(String lock) {
        List<Holder> found = new ArrayList<>();
        for (Object one : Resp.list(show(lock), "holders")) {
            found.add(new Holder(Resp.number(one, "session"),
                Resp.text(one, "client"), Resp.text(one, "owner"),
                Resp.text(one, "value"), Resp.number(one, "token")));
        }
        return found;
    }

    /** The text that a holder stored with the lock ({@link HaspLock#note(String)});
     * "": none. */
    public String note(String lock) {
        return Resp.text(show(lock), "note");
    }

    /** Reports each change of the locks whose names begin with 'prefix', until
     * the watch is closed or the session has ended: see {@link Watch#ended}.
     * 'listener' is called on a thread of its own. Throws LOST. */
    public Watch watch(String prefix, Consumer<Watch.Change> listener) {
        check();
        return new Watch(this, prefix, listener);
    }

    // --- requests --------------------------------------------------------------

    /** 'ask': where and when it was sent. */
    record Answer(Object reply, Link.Ask ask) {}

    Answer request(List<String> words) {
        return request(words, Time.in(timeout));
    }

    /** Ignores interrupts meanwhile. */
    Answer request(List<String> words, long limit) {
        try {
            return request(link, () -> new Link.Ask(this, words, Link.ANSWER),
                limit, false, false);
        } catch (InterruptedException e) {
            throw new AssertionError(e);
        }
    }

    /** Repeats the request until it is answered. The error is exact: UNREACHABLE
     * means that nothing was done, UNKNOWN that the outcome is not known.
     * 'wasAsked': the request was sent before, under this number. */
    Answer request(Link on, Supplier<Link.Ask> asks, long limit,
            boolean mayInterrupt, boolean wasAsked) throws InterruptedException {
        boolean isDoubtful = wasAsked;
        String last = "no node was asked";
        // An attempt without an answer would turn a certain outcome, nothing
        // was done, into an unknown one.
        long latest = limit == Time.FOREVER ? limit
            : limit - Math.min(ATTEMPT_MIN, Math.max(0, Time.left(limit)) / 4);
        int nodes = on.address().endpoints().size();
        for (int round = 1;; round++) {
            if (id != 0) {
                check();
            }
            if (mayInterrupt && Thread.interrupted()) {
                throw new InterruptedException();
            }
            if (Time.left(limit) <= 0) {
                throw new HaspException(
                    isDoubtful ? Reason.UNKNOWN : Reason.UNREACHABLE,
                    isDoubtful ? "no answer in time, it may have been done ("
                        + last + ")" : "no node could do it (" + last + ")");
            }
            Link.Ask ask = asks.get();
            ask.latest = isDoubtful ? Time.FOREVER : latest;
            try {
                Object reply = on.ask(ask, limit, mayInterrupt);
                if (!(reply instanceof Resp.Refusal refusal)) {
                    return new Answer(reply, ask);
                }
                HaspException error = new HaspException(refusal);
                isDoubtful |= refusal.word().equals("UNKNOWN");
                last = refusal.text();
                if (!error.isToBeRepeated(isDoubtful)) {
                    throw ask.isOfOther && error.reason() == Reason.LOST
                        ? new HaspException(Reason.REFUSED, refusal)
                        : ask.isOfOther ? error : judged(error);
                }
            } catch (Link.TooLate e) {
                throw new HaspException(Reason.UNREACHABLE,
                    "no node could do it (" + last + ")");
            } catch (Resp.TooLarge e) {
                throw new HaspException(Reason.UNKNOWN, e.getMessage());
            } catch (IOException e) {
                isDoubtful |= ask.connection != null;
                last = on.why().isEmpty() ? e.getMessage() : on.why();
            }
            if (round % nodes == 0 && Time.left(limit) > 0) {
                Time.pause(round / nodes);
            }
        }
    }

    /** The words of a change that waits until then; 0: it does not wait. A push
     * reports the end of the wait. A durable session must not wait without
     * limit, since the wait of a dead client would never end; each of its
     * requests waits for a minute. */
    List<String> waiting(List<String> words, long until) {
        long left = until == 0 ? 0 : Time.left(until);
        if (left <= 0) {
            return words;
        }
        List<String> all = new ArrayList<>(words);
        String forever = options.isDurable ? "60000" : "FOREVER";
        all.addAll(List.of("WAIT", left == Time.FOREVER ? forever
            : Long.toString((left - 1) / Time.MS + 1), "PUSH"));
        return all;
    }

    /** Handles a push from a node. */
    void pushed(String kind, Object told) {
        switch (kind) {
            case "please", "breaking" -> emit(Kind.PLEASE, Resp.text(told, "lock"),
                Resp.number(told, "token"), Resp.text(told, "message"));
            case "answer" -> waits.forEach(one -> one.pushed(
                Resp.text(told, "owner"), Resp.number(told, "wait"),
                Resp.list(told, "grants")));
            default -> { }
        }
    }

    /** EXPIRED, from any node, ends the session. */
    HaspException judged(HaspException error) {
        if (lease.isEndless() && error.word().equals("BLACKLISTED")) {
            refuse(error.getMessage()); // There is no lease to wait for.
            return new HaspException(Reason.LOST, error.getMessage());
        }
        if (error.reason() == Reason.LOST) {
            refuse(error.getMessage());
        }
        return error;
    }
}
