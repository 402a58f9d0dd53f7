// SPDX-License-Identifier: MIT

package hasp;

import hasp.Clocks.Reading;
import hasp.Grant.Told;
import hasp.Grant.Verdict;
import hasp.HaspException.Reason;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Deque;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Condition;
import java.util.function.Consumer;
import java.util.function.Predicate;
import java.util.stream.Stream;

/**
 * A lock of the cluster, or several that are acquired together. It excludes the
 * other threads that use it as well as all other locks of that name, in this
 * program or on another machine.
 *
 * <p>Unlike {@link java.util.concurrent.locks.ReentrantLock} it does not belong to
 * a thread: any thread may unlock it. It is not reentrant unless it has an
 * {@link Options#owner}. And it can be lost: see {@link #guard}.
 *
 * <p>Methods that wait throw {@link HaspException}: LOST (the session is lost),
 * UNREACHABLE, REFUSED (DEADLOCK, LIMIT ...), SEAL (onGrant failed), UNKNOWN (a grant that arrives later
 * is released in the background; until then the next call on this lock waits).
 */
public final class HaspLock extends AsyncLock {
    /** How often a wait is requested again: the push that ends it might be
     * lost. */
    private static final long SILENCE = 15_000 * Time.MS;
    private static final long GRACE = 1000 * Time.MS; // For the push.

    /** Options of a lock. The default is an exclusive lock. */
    public static final class Options {
        private final List<String> words = new ArrayList<>();
        private boolean isShared;
        private String owner = "";
        private long holdMs; // For messages.
        private String trace = "";
        private Seal seal;
        private long sealTime; // Nanoseconds; 0: the lease.

        private List<String> all() {
            List<String> found = new ArrayList<>(words);
            found.add("FULL");
            return found;
        }

        private Options with(String... more) {
            words.addAll(List.of(more));
            return this;
        }

        /** Held together with other shared holders. */
        public Options shared() {
            isShared = true;
            return with("SHARED");
        }

        /** Number of concurrent holders; all users must give the same number. */
        public Options slots(int count) {
            return with("SLOTS", Integer.toString(count));
        }

        /** Shown to people; a {@link LeaderElection} announces it. */
        public Options value(String text) {
            return with("VALUE", text);
        }

        /** A W3C traceparent, shown with the hold or the wait. */
        public Options trace(String traceparent) {
            trace = traceparent;
            return with("TRACE", traceparent);
        }

        /** How long the lock stays closed after its holder died. */
        public Options delay(Duration length) {
            return with("DELAY", Time.milliseconds(length));
        }

        /** Maximum duration of a hold; it is trusted for 0.8 of that. */
        public Options hold(Duration length) {
            holdMs = Long.parseLong(Time.milliseconds(length));
            return with("HOLD", Long.toString(holdMs));
        }

        /** Skips the queue; holders are not affected. */
        public Options barge() {
            return with("BARGE");
        }

        /** Called with each name and its token before the lock is reported as
         * acquired, by the same thread, to close the resource to earlier holders.
         * If it throws, or takes longer than {@link #sealTime}, the lock is given
         * back: SEAL. Not called when the owner acquires the lock again, nor by
         * upgrade(). */
        public Options onGrant(Seal hook) {
            seal = hook;
            return this;
        }

        /** Limit of onGrant; default: as long as the lease can be trusted. */
        public Options sealTime(Duration limit) {
            sealTime = Time.nanos(limit);
            return this;
        }

        /** Makes the lock reentrant: its holder under this tag can acquire it
         * again, and must release it as often. An owner represents one thread of
         * control: do not use it in two at the same time. */
        public Options owner(String tag) {
            owner = tag;
            return this;
        }
    }

    private final Session session;
    private final List<String> names;
    private final Options options;
    private final String owner;
    /** Permission to acquire; returned with the last release. */
    private final Turn turn = new Turn();

    // 'this' is the monitor of these fields; nothing blocks while holding it.
    /** Not released; the newest one is trusted. */
    private final Deque<Grant> grants = new ArrayDeque<>();
    private CompletableFuture<Void> ended = CompletableFuture.completedFuture(null);
    private CompletableFuture<Void> alarm = ended; // The timer of the limit.

    HaspLock(Session session, List<String> names, Options options, String tag) {
        if (names.isEmpty() || names.contains("")) {
            throw new IllegalArgumentException("a lock needs a name");
        }
        this.session = session;
        this.names = List.copyOf(names);
        this.options = options;
        owner = options.owner.isEmpty() ? tag : options.owner;
    }

    // --- java.util.concurrent.locks.Lock ---------------------------------------

    /** Waits in line until the lock is held. An interrupt does not end the wait. */
    @Override
    public void lock() {
        try {
            acquire(Time.FOREVER, false);
        } catch (InterruptedException e) {
            throw new AssertionError(e);
        }
    }

    /** Waits in line until the lock is held. An interrupt leaves the queue. */
    @Override
    public void lockInterruptibly() throws InterruptedException {
        acquire(Time.FOREVER, true);
    }

    /** Acquires the lock if it is free; false if it is not. It asks the cluster, so
     * it takes a moment; an interrupt does not end it. */
    @Override
    public boolean tryLock() {
        try {
            return acquire(0, false);
        } catch (InterruptedException e) {
            throw new AssertionError(e);
        }
    }

    /** Waits in line for at most this time. */
    @Override
    public boolean tryLock(long time, TimeUnit unit) throws InterruptedException {
        return tryLock(Duration.ofNanos(unit.toNanos(time))); // Saturates.
    }

    /** Waits in line for at most this time. */
    @Override
    public boolean tryLock(Duration wait) throws InterruptedException {
        if (Thread.interrupted()) {
            throw new InterruptedException();
        }
        return acquire(Time.until(wait), true);
    }

    /** Releases the newest hold. Trust in it ends before the request is sent.
     * NOT_HELD: it was not held, or the cluster had already ended it; holds of the
     * owner with other tokens stay. UNKNOWN: no node answered; the session keeps
     * trying in the background. */
    @Override
    public void unlock() {
        Grant grant;
        synchronized (this) {
            grant = grants.poll(); // First: trust ends before it is sent.
        }
        if (grant == null) {
            throw new HaspException(Reason.NOT_HELD, names + " is not held");
        }
        release(grant);
    }

    /** Releases a grant that no caller received. Without an answer the session
     * keeps trying in the background. */
    void giveBack(Grant grant) {
        synchronized (this) {
            if (!grants.remove(grant)) {
                return;
            }
        }
        try {
            release(grant);
        } catch (HaspException e) {
            // It will be released, or is lost.
        }
    }

    private void release(Grant grant) {
        List<Grant.Part> kept;
        synchronized (this) {
            kept = grant.kept();
        }
        boolean isLast = forget(grant);
        boolean isLost = session.state() == Session.State.LOST;
        if (isLost || kept.isEmpty()) {
            turn.give(isLast);
            session.check();
            throw new HaspException(Reason.NOT_HELD,
                names + " is no longer held: it was taken away earlier");
        }
        Change change = releasing(kept).turns(isLast);
        Object reply;
        try {
            reply = change.make();
        } catch (HaspException e) {
            throw change.isOpen ? new HaspException(Reason.UNKNOWN, e.getMessage())
                : e;
        }
        long released = kept.size() > 1 && reply instanceof Long n ? n : 1;
        if (kept.size() < names.size() || released < kept.size()) {
            throw new HaspException(Reason.NOT_HELD, "only " + released
                + " of the locks " + names + " were still held");
        }
    }

    /** Not supported: the holder that should signal can be on another machine and
     * die first. Watch a lock ({@link Session#watch}), or keep the condition in a
     * database. */
    @Override
    public Condition newCondition() {
        throw new UnsupportedOperationException("a distributed lock has no "
            + "conditions: the process that should signal can be on another "
            + "machine and die; use Session.watch()");
    }

    // --- converting ------------------------------------------------------------

    /** Makes a shared hold exclusive when the other readers have released theirs,
     * ahead of the queue, with a new token. False: not in this time; the hold is
     * still shared. If two holders wait for an upgrade the second is refused
     * (DEADLOCK). */
    public boolean upgrade(Duration wait) throws InterruptedException {
        mayConvert();
        long until = Time.until(wait);
        Change change = claim(until, true, "CONVERT", converting("EXCLUSIVE"));
        Verdict verdict = change == null ? null : change.grant(until, true,
            (all, sent, isAgain) -> converted(all.get(0), sent, isAgain));
        if (verdict == Verdict.OVER) {
            throw new HaspException(Reason.LOST, names + " was taken away");
        }
        return verdict != null;
    }

    /** Words that name the trusted hold. */
    private List<String> converting(String how) {
        return List.of(how, "TOKEN", Long.toString(token()), "FULL");
    }

    /** Makes an exclusive hold shared, at once; the token stays. */
    public void downgrade() {
        mayConvert();
        List<String> words = converting("SHARED");
        synchronized (this) {
            if (!grants.isEmpty()) {
                grants.peek().isShared = true; // Trust ends first.
            }
        }
        Object reply = new Change("CONVERT", words).make();
        Told.all(reply).forEach(now ->
            session.holds.forEach(one -> one.convertedBy(now)));
    }

    private void mayConvert() {
        if (names.size() > 1) {
            throw new IllegalArgumentException("cannot convert several locks at "
                + "once: " + names);
        }
        if (token() == 0) {
            throw new HaspException(Reason.NOT_HELD, names + " is not held");
        }
        guard(Duration.ZERO);
    }

    /** Like granted(), for a conversion: an owner has one hold, shared by all its
     * grants and lock objects. */
    private Verdict converted(Told now, Reading sent, boolean isAgain) {
        Verdict verdict = now.count() == 0 ? Verdict.OVER : session.judge(
            List.of(now), Grant.judge(List.of(now), sent, isAgain));
        if (verdict == Verdict.GRANTED) {
            session.holds.forEach(one -> one.convertedBy(now));
            synchronized (this) { // An upgrade restarts the limit.
                if (!grants.isEmpty() && now.is(grants.peek().parts.get(0))) {
                    grants.peek().limit(List.of(now), sent);
                    armLimit();
                }
            }
        } else if (verdict == Verdict.OVER) {
            session.holds.forEach(one -> one.endWhere(owner, now::is));
        }
        return verdict;
    }

    private synchronized void convertedBy(Told now) {
        for (Grant grant : grants) {
            for (Grant.Part part : grant.parts) {
                if (owner.equals(now.owner()) && now.is(part) && !part.isOver) {
                    part.token = now.token();
                    part.asOf = Math.max(part.asOf, now.asOf());
                    grant.isShared = now.mode().equals("shared");
                }
            }
        }
    }

    // --- belief ----------------------------------------------------------------

    /** The fencing token, larger at each grant; 0: nothing is held. The store you
     * write to must refuse a smaller one. */
    public synchronized long token() {
        return grants.isEmpty() ? 0 : grants.peek().parts.get(0).token;
    }

    /** The tokens of several locks by name; empty if nothing is held. */
    public synchronized Map<String, Long> tokens() {
        Map<String, Long> found = new LinkedHashMap<>();
        if (!grants.isEmpty()) {
            grants.peek().parts.forEach(part -> found.put(part.name, part.token));
        }
        return found;
    }

    /** True if the hold is shared; upgrade() and downgrade() change it. */
    public synchronized boolean isShared() {
        return !grants.isEmpty() && grants.peek().isShared;
    }

    /** For how long the hold can be trusted; zero if it cannot. */
    public Duration remaining() {
        return Duration.ofNanos(left());
    }

    private synchronized long left() {
        Reading now = Clocks.now();
        if (grants.isEmpty() || grants.peek().isOver) {
            return 0;
        }
        return Math.min(session.lease.remaining(now), grants.peek().left(now));
    }

    /** Returns only if a step of this length ends within the lease. SHORT: it might
     * not, or the session is in jeopardy; LOST: the lock is not held, or no longer
     * held. Call it before each step that must not outlive the lock. Sends no
     * request. */
    public void guard(Duration need) {
        long left = left();
        if (left > 0 && left >= Time.nanos(need)) {
            return;
        }
        session.check();
        synchronized (this) {
            if (grants.isEmpty() || grants.peek().isOver) {
                throw new HaspException(Reason.LOST, names
                    + (grants.isEmpty() ? " is not held"
                        : " was taken away, or its hold time is over"));
            }
        }
        throw new HaspException(Reason.SHORT, names + ": " + left / Time.MS
            + " ms left of the lease, " + Time.nanos(need) / Time.MS
            + " ms needed" + never(Time.nanos(need)));
    }

    /** An addition to the error if no guard of that length can pass. */
    private String never(long need) {
        long most = Lease.trusted(session.lease.promised());
        if (options.holdMs != 0) {
            most = Math.min(most, Lease.trusted(options.holdMs * Time.MS));
        }
        return need <= most ? "" : "; it is never more than " + most / Time.MS
            + " ms, 0.8 of the smallest of ttl, linger and hold";
    }

    /** Done when the hold ends: by unlock(), at the end of the lease or of the hold
     * time, or because the lock was taken away. It is also done when the session is
     * in jeopardy, since others might hold the lock soon. Work that cannot be
     * stopped must also call guard(): a paused process learns too late. */
    public CompletableFuture<Void> ended() {
        var told = new CompletableFuture<Void>();
        CompletableFuture<Void> end;
        synchronized (this) {
            end = ended;
        }
        if (end.isDone()) {
            told.complete(null);
        } else { // Waiters can be slow, heartbeats must not be.
            end.thenRun(() -> session.told(() -> told.complete(null)));
        }
        return told;
    }

    /** The place in the queue: 1 is the next, 0: not in the queue. For other
     * threads than the waiting one. */
    public int place() {
        List<?> queue = Resp.list(session.show(names.get(0)), "queue");
        for (int i = 0; i < queue.size(); i++) {
            if (isMine(queue.get(i))) {
                return i + 1;
            }
        }
        return 0;
    }

    /** Stores up to 4096 bytes with the lock for later holders: they outlive the
     * hold ({@link Session#note}). NOT_HELD: the lock is not held. */
    public void note(String text) {
        session.question(session.acting("LOCK.NOTE", names.get(0),
            Long.toString(token()), text, "OWNER", owner));
    }

    private boolean isMine(Object told) {
        return Resp.text(told, "owner").equals(owner)
            && Resp.number(told, "session") == session.id();
    }

    /** Begins the trust in a grant, by the answer to the request sent then. */
    private Verdict granted(Reporter.Acquisition reported, List<Told> all,
            Reading sent, boolean isAgain) {
        Verdict verdict = Grant.judge(all, sent, isAgain);
        if (verdict == Verdict.STALE) {
            return verdict;
        }
        Grant grant = new Grant(names, all, sent, reported);
        grant.isOver |= verdict == Verdict.OVER;
        synchronized (this) {
            grants.push(grant);
        }
        // The order matters: first the grant becomes visible to notices of
        // ends, then it is checked against notices that are newer than the
        // answer.
        session.holds.add(this);
        if (session.judge(all, Verdict.GRANTED) == Verdict.STALE) {
            forget(grant);
            return Verdict.STALE;
        }
        reported.granted(all.get(0).token());
        if (isLost(grant, false)) { // Reported too early.
            reported.released();
        }
        supersedes(grant);
        lostAtOnce(grant);
        return Verdict.GRANTED;
    }

    /** Reports a hold that ended before its grant was received. */
    private void lostAtOnce(Grant grant) {
        Grant.Part lost;
        synchronized (this) {
            if (!grant.isOver) {
                return;
            }
            lost = grant.parts.stream().filter(part -> part.isOver).findFirst()
                .orElse(grant.parts.get(0));
        }
        grant.reported.lost("ended");
        session.emit(Session.Kind.LOST, lost.name, lost.token, "ended");
    }

    /** Ends holds of the same owner whose tokens this grant replaces, and this
     * grant, if a newer one that is known has replaced it. */
    private void supersedes(Grant grant) {
        for (Grant.Part own : List.copyOf(grant.parts)) {
            for (HaspLock one : session.holds) {
                one.endWhere(owner, part -> part.name.equals(own.name)
                    && part.token < own.first).forEach(token -> session.emit(
                        Session.Kind.LOST, own.name, token, "ended"));
                if (one.hasNewer(owner, own)) {
                    synchronized (this) {
                        own.isOver = grant.isOver = true;
                    }
                }
            }
        }
    }

    private synchronized boolean hasNewer(String tag, Grant.Part than) {
        return owner.equals(tag) && grants.stream().flatMap(one ->
            one.parts.stream()).anyMatch(part -> part.name.equals(than.name)
                && part.first > than.token);
    }

    /** Ends those parts of that owner; returns the tokens that were trusted. */
    Set<Long> endWhere(String tag, Predicate<Grant.Part> which) {
        return endWhere(tag, which, "ended");
    }

    Set<Long> endWhere(String tag, Predicate<Grant.Part> which, String why) {
        Set<Long> tokens = new TreeSet<>();
        boolean isOver;
        synchronized (this) {
            if (owner.equals(tag)) {
                grants.forEach(grant -> tokens.addAll(grant.end(which, why)));
            }
            isOver = !grants.isEmpty() && grants.peek().isOver;
        }
        if (isOver) {
            doubt();
        }
        return tokens;
    }

    /** Ends the holds that are missing in the list, except those granted after
     * the last dropped notice; adds their names and tokens. */
    void endUnlisted(Map<String, List<Told>> all, long dropped,
            Set<List<Object>> ended) {
        for (String name : names) {
            endWhere(owner, part -> part.name.equals(name) && part.asOf < dropped
                && all.getOrDefault(name, List.of()).stream().noneMatch(one ->
                    one.owner().equals(owner) && one.confirms(part)))
                .forEach(token -> ended.add(List.of(name, token)));
        }
    }

    /** Ends the trust in one acquisition; returns whether it was the last
     * one. */
    private boolean forget(Grant grant) {
        grant.reported.released(); // Unless it was lost.
        boolean isLast;
        synchronized (this) {
            grants.remove(grant);
            isLast = grants.isEmpty();
            alarm.cancel(false);
        }
        if (isLast) {
            session.holds.remove(this);
        }
        if (left() == 0) {
            doubt();
        } else {
            believe(); // Trust continues with the grant from before.
        }
        return isLast;
    }

    /** Creates the future of ended(): at the grant, and after each jeopardy. */
    synchronized void believe() {
        if (left() > 0 && ended.isDone()) {
            ended = new CompletableFuture<>();
        }
        armLimit();
    }

    /** Makes a timer report the end of a limited hold. */
    private synchronized void armLimit() {
        alarm.cancel(false);
        Grant grant = grants.peek();
        if (grant != null && grant.isLimited() && !grant.isOver) {
            alarm = new CompletableFuture<>();
            alarm.completeOnTimeout(null, grant.left(Clocks.now()),
                TimeUnit.NANOSECONDS);
            alarm.thenRun(() -> session.later(this::limitOver));
        }
    }

    /** The limit is over by the local clock: the cluster reports that too
     * late. */
    private void limitOver() {
        long token;
        synchronized (this) {
            Grant grant = grants.peek();
            if (grant == null || grant.isOver || !grant.isLimited()) {
                return;
            }
            if (grant.left(Clocks.now()) > 0) {
                armLimit(); // It was for another grant.
                return;
            }
            // The cluster might still hold it: it will be released.
            grant.isOver = true;
            grant.reported.lost("max hold");
            token = token();
        }
        doubt();
        if (session.state() != Session.State.LOST) {
            session.emit(Session.Kind.LOST, names.get(0), token, "max hold");
        }
    }

    /** Completes it outside of the monitor, since listeners may use the
     * lock. */
    void doubt() {
        CompletableFuture<Void> told;
        synchronized (this) {
            told = ended;
        }
        told.complete(null);
    }

    // --- acquiring -------------------------------------------------------------

    /** 'until' is the end of the wait; 0: only tries. */
    private boolean acquire(long until, boolean mayInterrupt)
            throws InterruptedException {
        var reported = session.reports.begin(names.get(0), options.trace);
        try {
            return acquire(reported, until, mayInterrupt);
        } catch (InterruptedException | RuntimeException e) {
            reported.failed(String.valueOf(e.getMessage()));
            throw e;
        } finally {
            reported.failed("not granted in time"); // Unless it was granted.
        }
    }

    private boolean acquire(Reporter.Acquisition reported, long until,
            boolean mayInterrupt) throws InterruptedException {
        boolean isFirst = !isReentrant();
        if (isFirst && !turn.take(session, until, mayInterrupt)) {
            return false;
        }
        Change change = null;
        try {
            change = claim(until, mayInterrupt, "ACQUIRE", options.all());
        } finally {
            turn.give(change == null && isFirst);
        }
        if (change == null) {
            return false;
        }
        change.reported = reported;
        Verdict verdict = change.turns(isFirst).grant(until, mayInterrupt,
            (all, sent, isAgain) -> granted(reported, all, sent, isAgain));
        if (verdict == null) {
            return false;
        }
        if (session.state() == Session.State.LOST) { // It was lost meanwhile.
            Grant grant;
            synchronized (this) {
                grant = grants.poll();
            }
            turn.give(grant != null && forget(grant));
            session.check();
        }
        believe();
        if (options.seal != null) {
            new Sealing(this, session, options.sealTime).run(options.seal);
        }
        return true;
    }

    /** True if the cluster has ended the grant, or another thread has released
     * it; a late hook has given it back. */
    synchronized boolean isLost(Grant grant, boolean isLate) {
        return grant == null || grant.isOver || !isLate && !grants.contains(grant);
    }

    /** All holds of the session have ended; reports that to hooks. */
    synchronized void endHolds(Consumer<Reporter.Acquisition> end) {
        grants.forEach(grant -> end.accept(grant.reported));
    }

    synchronized Grant newest() {
        return grants.peek();
    }

    @Override
    public String toString() {
        return names.toString();
    }

    private synchronized boolean isReentrant() {
        return !options.owner.isEmpty() && !grants.isEmpty();
    }

    /** Releases these parts of a grant, and nothing else. */
    private Change releasing(List<Grant.Part> parts) {
        return new Change(parts);
    }

    /** Begins a change for a request for more. The cluster merges two waits of
     * one owner into one wait with one grant. So an owner sends one request for
     * a lock at a time, and only when abandoned ones are settled: their grants
     * are released. Null: not in time; the owner has a waiting request. */
    private Change claim(long until, boolean mayInterrupt, String verb,
            List<String> more) throws InterruptedException {
        long limit = Time.plus(until == 0 ? Time.now() : until, session.timeout);
        for (;;) {
            List<Change> rivals;
            CompletableFuture<Void> news;
            synchronized (session.claims) {
                rivals = session.claims.stream().filter(this::isRival).toList();
                if (rivals.isEmpty()) {
                    Change change = new Change(verb, more);
                    session.claims.add(change);
                    return change;
                }
                news = session.claimNews;
            }
            boolean isLate = until == 0 || Time.left(until) <= 0;
            if (isLate && rivals.stream().anyMatch(one -> one.isQueueing)) {
                return null;
            }
            session.check();
            if (Time.left(limit) <= 0) {
                throw new HaspException(Reason.UNREACHABLE, "the outcome of an "
                    + "earlier request of '" + owner + "' is not known yet");
            }
            Time.await(isLate ? limit : until, mayInterrupt,
                CompletableFuture.anyOf(news, session.over));
        }
    }

    private boolean isRival(Change change) {
        return (change.lock() != this || change.verb.equals("CONVERT"))
            && change.lock().owner.equals(owner)
            && !Collections.disjoint(change.lock().names, names);
    }

    /** True if the hold was shared before the upgrade in question, or is
     * released by now. */
    private synchronized boolean wasShared() {
        return grants.isEmpty() || grants.peek().isShared;
    }

    /** True if the owner holds one of these locks by another acquisition, or is
     * requesting it. */
    private boolean hasOthers(List<Grant.Part> parts) {
        List<String> which = parts.stream().map(part -> part.name).toList();
        synchronized (session.claims) {
            if (session.claims.stream().anyMatch(this::isRival)) {
                return true;
            }
        }
        return session.holds.stream().anyMatch(one -> one.owner.equals(owner)
            && !Collections.disjoint(one.names, which));
    }

    // --- changes: numbered, so that however often one is asked it is done once --

    final class Change {
        private final String verb;
        private final String how;
        private final long number = session.numbers.begin();
        private final List<String> words = new ArrayList<>();
        private boolean givesTurn;
        private boolean isOpen; // The outcome is not known yet.
        private boolean wasAsked;
        private Reading sent; // When the answered request was sent.
        private List<Grant.Part> parts = List.of(); // The parts to release.
        private Reporter.Acquisition reported; // Null: not of ACQUIRE.
        private volatile boolean isQueueing;
        /** The grants of pushes that end waits, by place in the queue. */
        private final Map<Long, CompletableFuture<List<?>>> ends =
            new ConcurrentHashMap<>();

        Change(String verb, String... more) {
            this(verb, List.of(more));
        }

        Change(String verb, List<String> more) {
            this(verb, names, more);
        }

        /** A release of these parts only. */
        Change(List<Grant.Part> parts) {
            this("RELEASE", parts.stream().map(part -> part.name).toList(),
                Stream.concat(Stream.of(parts.size() > 1 ? "TOKENS" : "TOKEN"),
                    parts.stream().map(part -> Long.toString(part.token))).toList());
            this.parts = parts;
        }

        private Change(String verb, List<String> which, List<String> more) {
            this.verb = verb;
            how = more.isEmpty() ? "" : more.get(0);
            if (which.size() == 1) {
                words.add("LOCK." + verb);
            } else {
                words.add("LOCK.M" + verb);
                words.add(Integer.toString(which.size()));
            }
            words.addAll(which);
            words.addAll(more);
            words.addAll(session.acting("OWNER", owner, "REQ",
                Long.toString(number), "ACKED", session.numbers.acked()));
        }

        /** Whether to return the turn at the end, if the change left no
         * hold. */
        Change turns(boolean doesSo) {
            givesTurn = doesSo;
            return this;
        }

        /** Returns the answer; does not wait for a lock, and ignores
         * interrupts. */
        Object make() {
            try {
                return make(0, false);
            } catch (InterruptedException e) {
                throw new AssertionError(e);
            }
        }

        /** Repeats the request until 'take' accepts or rejects the answer: an
         * answer that is older than the known state is requested again, under
         * its number. Null: nothing was granted. */
        Verdict grant(long until, boolean mayInterrupt, Grant.Take take)
                throws InterruptedException {
            var found = new Verdict[1];
            make(() -> {
                for (int round = 0;; round++) {
                    Object reply = ask(until, mayInterrupt);
                    if (reply == null) {
                        return null;
                    }
                    List<Told> all = Told.all(reply);
                    found[0] = take.take(all, sent, round > 0);
                    if (found[0] != Verdict.STALE) {
                        return found[0] == Verdict.GRANTED ? reply : null;
                    }
                    if (round > 0) {
                        Time.pause(round);
                    }
                }
            });
            return found[0];
        }

        private List<Grant.Part> held(List<Told> all) {
            List<Grant.Part> found = new ArrayList<>();
            for (int i = 0; verb.equals("ACQUIRE") && i < all.size(); i++) {
                Told told = all.get(i);
                if (told.count() > 0) {
                    found.add(new Grant.Part(names.get(i), told));
                }
            }
            return found;
        }

        /** Returns the answer. Without one, the change is settled later. */
        Object make(long until, boolean mayInterrupt) throws InterruptedException {
            return make(() -> ask(until, mayInterrupt));
        }

        private Object make(Grant.Asking asking) throws InterruptedException {
            Object reply = null;
            isOpen = true;
            try {
                reply = asking.ask();
                isOpen = false;
                return reply;
            } catch (HaspException e) {
                isOpen = isOpenAfter(e);
                notHeld(e);
                throw e;
            } finally {
                if (isOpen) {
                    if (givesTurn) {
                        turn.abandon();
                    }
                    session.tellClaims(claims -> claims.add(this));
                    session.later(() -> {
                        settle();
                        session.tellClaims(claims -> claims.remove(this));
                    });
                } else {
                    end(!verb.equals("ACQUIRE") || reply == null);
                    session.tellClaims(claims -> claims.remove(this));
                }
            }
        }

        /** NOT_HELD: ends the trust in a hold that the cluster does not
         * have. */
        private void notHeld(HaspException e) {
            if (e.reason() != Reason.NOT_HELD || !words.contains("TOKEN")) {
                return;
            }
            long token = Long.parseLong(words.get(words.indexOf("TOKEN") + 1));
            session.holds.forEach(one -> one.endWhere(owner, part ->
                part.name.equals(words.get(1)) && part.token == token));
        }

        private HaspLock lock() {
            return HaspLock.this;
        }

        /** Repeats a waiting request until its end is reported. */
        private Object ask(long until, boolean mayInterrupt)
                throws InterruptedException {
            session.waits.add(this);
            try {
                for (;;) {
                    boolean isAgain = wasAsked;
                    wasAsked = true;
                    Session.Answer answer = session.request(session.link(),
                        () -> asking(until),
                        Time.plus(until == 0 ? Time.now() : until, session.timeout),
                        mayInterrupt, isAgain);
                    sent = answer.ask().sent;
                    if (!(answer.reply() instanceof String queued)) {
                        return answer.reply();
                    }
                    if (reported != null) {
                        reported.waits();
                    }
                    List<?> found = park(Long.parseLong(queued.split(" ")[1]),
                        until, mayInterrupt, answer.ask().connection);
                    // A push has no start of the limit.
                    if (isGrant(found) && Told.all(found).stream().allMatch(
                            told -> told.leftMs() < 0)) {
                        return found;
                    }
                }
            } finally {
                session.waits.remove(this);
            }
        }

        private Link.Ask asking(long until) {
            Link.Ask ask = new Link.Ask(session, session.waiting(words, until),
                Link.ANSWER);
            ask.fits = this::fits;
            return ask;
        }

        /** True if the reply has the form that such a change is answered with.
         * Any other reply, from a peer that is not a node, must not count as a
         * grant. */
        private boolean fits(Object reply) {
            if (verb.equals("RELEASE")) {
                return reply instanceof Long;
            }
            return reply == null || isGrant(reply)
                || reply instanceof String text && text.matches("QUEUED [0-9]{1,18}");
        }

        private boolean isGrant(Object reply) {
            return Told.all(reply).size() == names.size();
        }

        /** Waits for the push that reports what was granted at that place.
         * Empty: ask the cluster, for example because the push might be
         * lost. */
        private List<?> park(long place, long until, boolean mayInterrupt,
                Link.Connection on) throws InterruptedException {
            var end = endOf(place);
            session.tellClaims(claims -> isQueueing = true);
            try {
                Time.await(Math.min(Time.in(SILENCE), Time.plus(until, GRACE)),
                    mayInterrupt,
                    CompletableFuture.anyOf(end, on.gone, session.over));
            } finally {
                isQueueing = false;
            }
            return end.getNow(List.of());
        }

        private CompletableFuture<List<?>> endOf(long place) {
            return ends.computeIfAbsent(place, at -> new CompletableFuture<>());
        }

        void pushed(String tag, long place, List<?> found) {
            if (tag.equals(owner)) {
                endOf(place).complete(found);
            }
        }

        private void end(boolean isOver) {
            session.numbers.end(number);
            turn.give(givesTurn && isOver);
        }

        /** True if the outcome is open. A release that no node could do must
         * still be done. */
        private boolean isOpenAfter(HaspException e) {
            return e.reason() == Reason.UNKNOWN
                || (e.reason() == Reason.UNREACHABLE
                    && (verb.equals("RELEASE") || how.equals("SHARED")));
        }

        /** Settles the change, as long as the session lives, and what undoes
         * it. */
        private void settle() {
            Change change = this;
            for (int round = 0; change != null; round++) {
                change = change.settled(round);
            }
        }

        /** Settles the change: sent again under its number, and without a wait,
         * it returns the outcome. A grant is released, since no caller waits for
         * it. Returns the request that undoes the outcome; null: none is needed,
         * or the session is lost. */
        private Change settled(int undone) {
            for (int round = 1;; round++) {
                Change undo;
                try {
                    undo = undo(ask(0, false));
                } catch (InterruptedException e) {
                    throw new AssertionError(e);
                } catch (HaspException e) {
                    if (session.state() == Session.State.LOST) {
                        // The session has ended, and so have all its holds.
                        return null;
                    }
                    if (!e.isForgotten() && (isOpenAfter(e)
                            || e.reason() == Reason.UNREACHABLE)) {
                        Time.pause(round);
                        continue;
                    }
                    notHeld(e);
                    undo = e.isForgotten() ? afterForgotten() : null;
                    if (e.isForgotten() && undone > 0) {
                        Time.pause(undone);
                    }
                }
                end(undo == null);
                return undo == null ? null : undo.turns(givesTurn);
            }
        }

        /** The request that makes sure that nothing is left of a forgotten one;
         * null: none is needed, or none is safe. The cluster may have executed
         * the forgotten one or not: its number is spent unused if too many others
         * overtake it. */
        private Change afterForgotten() {
            if (verb.equals("CONVERT")) {
                return how.equals("SHARED") || wasShared()
                    ? new Change("CONVERT", "SHARED", "TOKEN",
                        words.get(words.indexOf("TOKEN") + 1), "FULL")
                    : null;
            }
            // A named owner can have other holds of the lock, and a release that
            // was executed must not end another acquisition of the same hold.
            if (parts.isEmpty()) {
                return options.owner.isEmpty() ? new Change("RELEASE") : null;
            }
            return hasOthers(parts) ? null : releasing(parts);
        }

        /** The request that undoes the outcome; null: none is needed. */
        private Change undo(Object reply) {
            if (verb.equals("ACQUIRE")) {
                List<Grant.Part> held = held(Told.all(reply));
                return held.isEmpty() ? null : releasing(held);
            }
            if (how.equals("SHARED")) { // After an upgrade it has a new token.
                Told.all(reply).forEach(now ->
                    session.holds.forEach(one -> one.convertedBy(now)));
            }
            Told now = how.equals("EXCLUSIVE") ? Told.of(reply) : null;
            if (now == null || now.count() == 0) {
                return null;
            }
            // It has a new token, and is still shared.
            Told shared = new Told(now.lock(), now.owner(), "shared", now.first(),
                now.token(), now.count(), now.leftMs(), now.asOf());
            session.holds.forEach(one -> one.convertedBy(shared));
            return new Change("CONVERT", "SHARED", "TOKEN",
                Long.toString(now.token()), "FULL");
        }
    }
}
