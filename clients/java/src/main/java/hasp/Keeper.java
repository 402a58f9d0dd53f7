// SPDX-License-Identifier: MIT

package hasp;

import hasp.Clocks.Reading;
import hasp.HaspException.Reason;
import hasp.Session.Kind;
import hasp.Session.State;
import java.io.IOException;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Semaphore;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;

/**
 * Sends a session's heartbeats on a connection of its own, and looks at the lease
 * whenever it could have ended. The first heartbeat comes early: only then the
 * node knows where to send what is for this session.
 */
final class Keeper {
    private static final long PATIENCE_MIN = 50 * Time.MS; // For an answer.
    private static final long LOOK_MIN = 20 * Time.MS; // Between two looks.

    private final Session session;
    private final Thread thread = new Thread(this::keep, "hasp keeper");
    private final Semaphore news = new Semaphore(0);
    private volatile boolean isOver;
    private Connection line; // null: none.
    private int turn;
    private State told = State.HELD;

    Keeper(Session session) {
        this.session = session;
        thread.setDaemon(true);
    }

    void start() {
        turn = session.nodes.turn();
        thread.start();
    }

    /** Something has changed: look now. */
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
            if (line != null && line.isClosed()) {
                hangUp();
                next = Time.now(); // Another node should know us soon.
            }
            if (Time.left(next) > 0) {
                await(next);
            } else if (session.isEarned()) {
                next = Time.in(beat() ? session.lease.period()
                    : ThreadLocalRandom.current().nextLong(20, 200) * Time.MS);
            } else {
                session.why = "the program has not called alive() in time";
                next = Time.in(session.lease.period());
            }
        }
        hangUp();
        session.nodes.close(); // Whoever waits learns that it is over.
    }

    /** Until then, or until the lease could have ended, or there is news. */
    private void await(long until) {
        long left = session.lease.remaining(Clocks.now());
        long wait = Math.min(Time.left(until),
            left > 0 ? left : told == State.JEOPARDY ? LOOK_MIN : Time.FOREVER);
        try {
            if (news.tryAcquire(Math.max(1, wait), TimeUnit.NANOSECONDS)) {
                news.drainPermits();
            }
        } catch (InterruptedException e) {
            // Nobody interrupts this thread, and if: it looks.
        }
    }

    private void hangUp() {
        if (line != null) {
            line.close();
            line = null;
            turn++;
        }
    }

    /** Sends a heartbeat and takes its answer. */
    private boolean beat() {
        long until = Time.in(Math.max(PATIENCE_MIN, session.lease.period()));
        String node = session.nodes.endpoint(turn);
        try {
            if (line == null) {
                line = session.connect(turn, until);
                line.onPush = this::pushed;
                line.closed.thenRun(this::wake);
            }
            Reading sent = Clocks.now();
            Object reply = answer(line.ask("SESSION.KEEP", "FULL"), until);
            if (reply instanceof Resp.Refusal no) {
                throw session.judged(new HaspException(no));
            }
            session.answered(reply, sent);
            Resp.list(reply, "ended").forEach(this::ended);
            return true;
        } catch (IOException | HaspException e) {
            if (!(e instanceof HaspException no && no.reason() == Reason.LOST)) {
                session.why = "no heartbeat was answered in time, last: " + node
                    + ": " + e.getMessage();
            }
            if (e instanceof Connection.NoAnswer) {
                session.nodes.suspect(node);
            }
            if (line == null) {
                turn++;
            }
            hangUp();
            return false;
        }
    }

    /** Goes on looking meanwhile. */
    private Object answer(CompletableFuture<Object> answer, long until)
            throws IOException {
        answer.whenComplete((reply, error) -> wake());
        while (!answer.isDone() && Time.left(until) > 0 && !isOver
                && look() != State.LOST) {
            await(until);
        }
        return Connection.await(answer, Time.now());
    }

    /** Tells what the clock, or an answer, has changed. */
    private State look() {
        State state = session.state();
        if (state == told) {
            return state;
        }
        told = state;
        session.holds.forEach(
            state == State.HELD ? HaspLock::believe : HaspLock::doubt);
        session.emit(Kind.valueOf(state == State.HELD ? "SAFE" : state.name()),
            "", 0, state == State.HELD ? "" : session.why);
        return state;
    }

    private void ended(Object told) {
        String lock = Resp.text(told, "lock");
        long token = Resp.number(told, "token");
        boolean isOurs = false;
        for (HaspLock hold : session.holds) {
            isOurs |= hold.endsWith(lock, Resp.text(told, "owner"), token);
        }
        if (isOurs) {
            session.emit(Kind.LOST, lock, token, Resp.text(told, "reason"));
        }
    }

    private void pushed(List<Object> push) {
        if (push.size() > 2 && List.of("please", "breaking").contains(push.get(1))) {
            session.emit(Kind.PLEASE, Resp.text(push.get(2), "lock"),
                Resp.number(push.get(2), "token"),
                Resp.text(push.get(2), "message"));
        }
    }
}
