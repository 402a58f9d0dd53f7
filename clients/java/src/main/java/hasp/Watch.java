// SPDX-License-Identifier: MIT

package hasp;

import java.io.IOException;
import java.util.List;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;

/** Reports changes of locks as they happen: {@link Session#watch}. */
public final class Watch implements AutoCloseable {
    private static final long SILENCE = 2000 * Time.MS;
    private static final List<Object> NEWS = List.of(); // Read the state again.

    /** A change of a lock: docs/protocol.md, section 9.
     *
     * @param kind "" comes first and after each gap: read the locks again, since
     *     changes might have been missed
     * @param lock its name
     * @param session whose change it is
     * @param token of the hold
     * @param index in the cluster's log; it grows
     * @param text a reason, or a message */
    public record Change(String kind, String lock, long session, long token,
            long index, String text) {}

    private final Session session;
    private final String prefix;
    private final Consumer<Change> tell;
    private final BlockingQueue<List<Object>> events =
        new ArrayBlockingQueue<>(64);
    private final CompletableFuture<Void> ended = new CompletableFuture<>();
    private volatile boolean isClosed;

    Watch(Session session, String prefix, Consumer<Change> tell) {
        this.session = session;
        this.prefix = prefix;
        this.tell = tell;
        Thread thread = new Thread(this::watch, "hasp watch");
        thread.setDaemon(true);
        thread.start();
    }

    /** Ends the watch; no more changes are reported. */
    @Override
    public void close() {
        isClosed = true;
        events.offer(NEWS);
    }

    /** Done when no more changes are reported: exceptionally, with a
     * {@link HaspException}, if the cluster refuses (REFUSED) or the session is
     * lost (LOST). */
    public CompletableFuture<Void> ended() {
        return ended.copy();
    }

    private boolean isOver() {
        return isClosed || session.state() == Session.State.LOST;
    }

    /** Watches at one node after the other: if one fails it continues at another. */
    private void watch() {
        try (Link own = new Link(session.link().address(), this::pushed)) {
            while (!isOver()) {
                var ask = new Link.Ask(null, List.of("LOCK.WATCH", prefix),
                    Link.ANSWER);
                try {
                    if (own.ask(ask, Time.in(SILENCE), false)
                            instanceof Resp.Refusal no) {
                        refused(session.judged(new HaspException(no)));
                    } else {
                        // They are older than the state that is read now.
                        events.clear();
                        tell(new Change("", "", 0, 0, 0, ""));
                        stay(own, ask.connection);
                    }
                } catch (IOException e) {
                    // Continues at the next node.
                }
                Time.pause(1);
            }
        } catch (InterruptedException e) {
            throw new AssertionError(e); // No request here is interrupted.
        } finally {
            end();
        }
    }

    /** Ends the watch if another attempt would be refused, too. */
    private void refused(HaspException error) {
        if (!error.isToBeRepeated(false)) {
            isClosed = true;
            ended.completeExceptionally(error);
        }
    }

    private void end() {
        try {
            if (!isClosed) {
                session.check();
            }
            ended.complete(null);
        } catch (HaspException e) {
            ended.completeExceptionally(e);
        }
    }

    /** Calls the listener. Its exceptions do not prevent later calls. */
    private void tell(Change change) {
        try {
            tell.accept(change);
        } catch (RuntimeException e) {
            Thread own = Thread.currentThread();
            own.getUncaughtExceptionHandler().uncaughtException(own, e);
        }
    }

    /** Reports the pushes of that connection. A request from time to time
     * detects a dead node. */
    private void stay(Link own, Link.Connection on) {
        on.gone.thenRun(() -> events.offer(NEWS));
        while (!isOver() && !on.gone.isDone()) {
            List<Object> event = next();
            if (event == null) {
                own.begin(new Link.Ask(null, List.of("PING"), Link.ANSWER));
            } else if (event.size() > 2 && !isClosed) {
                tell(change(event));
            }
        }
    }

    /** Null: none for a while. Interrupts of this thread, for example by a
     * listener, are ignored. */
    private List<Object> next() {
        Thread.interrupted();
        try {
            return events.poll(SILENCE, TimeUnit.NANOSECONDS);
        } catch (InterruptedException e) {
            return NEWS;
        }
    }

    /** Parses an event; a gap is kind "": the node itself has missed some. */
    private static Change change(List<Object> event) {
        Object told = event.get(2);
        return "gap".equals(event.get(1)) ? new Change("", "", 0, 0, 0, "")
            : new Change(String.valueOf(event.get(1)),
                Resp.text(told, "lock"), Resp.number(told, "session"),
                Resp.number(told, "token"), Resp.number(told, "index"),
                Resp.text(told, "message"));
    }

    /** A slow listener gets no further pushes. */
    private void pushed(List<Object> push) {
        boolean isTaken = false;
        while (!isOver() && !isTaken) {
            try {
                isTaken = events.offer(push, SILENCE, TimeUnit.NANOSECONDS);
            } catch (InterruptedException e) {
                // The thread belongs to the link, and others need it.
            }
        }
    }
}
