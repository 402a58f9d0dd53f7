// SPDX-License-Identifier: MIT

package hasp;

import hasp.Clocks.Reading;
import hasp.HaspException.Reason;
import hasp.Session.Kind;
import hasp.Session.State;
import java.util.List;
import java.util.concurrent.CompletionException;
import java.util.concurrent.Semaphore;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;

/**
 * Sends a session's heartbeats, one of them as soon as a connection is lost,
 * and checks the lease whenever it could have ended.
 */
final class Keeper {
    // Limit for an answer.
    private static final long PATIENCE_MIN = 50 * Time.MS;
    private static final long LOOK_MIN = 20 * Time.MS; // Between two checks.

    private final Session session;
    private final Thread thread = new Thread(this::keep, "hasp keeper");
    private final Semaphore news = new Semaphore(0);
    private volatile boolean isOver;
    // The connection of the newest heartbeat; null: none.
    private Link.Connection kept;
    private State told = State.HELD; // The reported state, guarded by 'this'.

    Keeper(Session session) {
        this.session = session;
        thread.setDaemon(true);
    }

    void start() {
        thread.start();
    }

    /** Triggers a check after a change. */
    void wake() {
        news.release();
    }

    void stop() {
        isOver = true;
        wake();
    }

    private void keep() {
        long next = Time.in(session.lease.period() / 5);
        while (look() != State.LOST && !isOver) {
            if (kept != null && kept.gone.isDone()) {
                kept = null;
                // Another node should learn of the session soon.
                next = Time.now();
            }
            if (Time.left(next) > 0) {
                await(next);
            } else if (session.isClosed()) {
                next = Time.FOREVER;
            } else if (session.isEarned()) {
                next = Time.in(beat() ? session.lease.period()
                    : ThreadLocalRandom.current().nextLong(20, 200) * Time.MS);
            } else {
                session.why = "the program has not called alive() in time";
                next = Time.in(session.lease.period());
            }
        }
        session.leave();
    }

    /** How long a heartbeat of that lease may remain unanswered. */
    static long patience(Lease lease) {
        return Math.max(PATIENCE_MIN, lease.period());
    }

    /** Waits until that time, until the lease could have ended, or until there
     * is news. */
    private void await(long until) {
        long left = session.lease.remaining(Clocks.now());
        long wait = Math.min(Time.left(until),
            left > 0 ? left : told() == State.JEOPARDY ? LOOK_MIN : Time.FOREVER);
        try {
            if (news.tryAcquire(Math.max(1, wait), TimeUnit.NANOSECONDS)) {
                news.drainPermits();
            }
        } catch (InterruptedException e) {
            // This thread is not interrupted; if it is, it checks again.
        }
    }

    /** Sends a heartbeat and handles its answer. */
    private boolean beat() {
        long patience = patience(session.lease);
        // It carries the secret, so it need not wait for ATTACH.
        var ask = new Link.Ask(session, List.of("SESSION.KEEP",
            Long.toString(session.id()), session.proof(), "FULL", "AFTER",
            Long.toString(session.seen())), patience);
        ask.isUrgent = ask.isApart = true;
        ask.fits = Session::isLease;
        try {
            Object reply = answer(ask, Time.in(2 * patience));
            if (reply instanceof Resp.Refusal no) {
                throw session.judged(new HaspException(no));
            }
            session.answered(reply, ask.sent);
            session.heard(reply);
            if (kept != ask.connection) {
                kept = ask.connection;
                kept.gone.thenRun(this::wake);
            }
            return true;
        } catch (CompletionException e) {
            String last = session.link().why();
            session.why = "no heartbeat was answered in time"
                + (last.isEmpty() ? "" : ", last: " + last);
        } catch (HaspException e) {
            if (e.reason() != Reason.LOST) {
                session.why = e.getMessage();
            }
        }
        return false;
    }

    /** Checks the lease during the wait, too. */
    private Object answer(Link.Ask ask, long until) {
        session.link().begin(ask);
        ask.answer.whenComplete((reply, error) -> wake());
        while (!ask.answer.isDone() && Time.left(until) > 0 && !isOver
                && look() != State.LOST) {
            await(until);
        }
        session.link().cancel(ask);
        if (!ask.answer.isDone()) {
            throw new CompletionException(null);
        }
        return ask.answer.join();
    }

    /** Reports a change of the state by the clock or an answer. */
    State look() {
        State state;
        synchronized (this) {
            state = session.state();
            if (state == told) {
                return state;
            }
            told = state;
            session.emit(Kind.valueOf(state == State.HELD ? "SAFE" : state.name()),
                "", 0, state == State.HELD ? "" : session.why);
        }
        session.holds.forEach(
            state == State.HELD ? HaspLock::believe : HaspLock::doubt);
        if (state == State.LOST) {
            session.endHolds(one -> one.lost(session.why));
        }
        return state;
    }

    private synchronized State told() {
        return told;
    }
}
