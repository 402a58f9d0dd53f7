// SPDX-License-Identifier: MIT

package hasp;

import java.io.IOException;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.Consumer;

/** Tells changes of locks as they happen: {@link Session#watch}. */
public final class Watch implements AutoCloseable {
    private static final long SILENCE_MS = 2000;

    /** What a node tells of a lock: docs/protocol.md, section 9.
     *
     * @param kind "" comes first, and after each gap: what the locks are now must
     *     be looked up, since changes may have been missed
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
    private final CompletableFuture<Void> end = new CompletableFuture<>();

    Watch(Session session, String prefix, Consumer<Change> tell) {
        this.session = session;
        this.prefix = prefix;
        this.tell = tell;
        Thread thread = new Thread(this::watch, "hasp watch");
        thread.setDaemon(true);
        thread.start();
    }

    /** Ends it; nothing is told any more. */
    @Override
    public void close() {
        end.complete(null);
    }

    private boolean isOver() {
        return end.isDone() || session.state() == Session.State.LOST;
    }

    /** Where a node is lost it goes on at another one. */
    private void watch() {
        for (int turn = session.nodes.turn(); !isOver(); turn++) {
            Connection line = null;
            try {
                line = session.connect(turn, Time.FOREVER);
                line.onPush = this::pushed;
                if (!(line.ask("LOCK.WATCH", prefix).get(SILENCE_MS,
                        TimeUnit.MILLISECONDS) instanceof Resp.Refusal)) {
                    tell.accept(new Change("", "", 0, 0, 0, ""));
                    stay(line);
                }
            } catch (IOException | HaspException | TimeoutException
                    | java.util.concurrent.ExecutionException e) {
                // The next node.
            } catch (InterruptedException e) {
                return;
            } finally {
                if (line != null) {
                    line.close();
                }
            }
            Time.pause(1);
        }
    }

    /** A question now and then tells a silent node from a dead one. */
    private void stay(Connection line) throws InterruptedException, IOException {
        var news = CompletableFuture.anyOf(end, line.closed);
        while (!isOver() && !line.isClosed()) {
            try {
                news.get(SILENCE_MS, TimeUnit.MILLISECONDS);
            } catch (TimeoutException e) {
                Connection.awaitOr(line.ask("PING"), Time.in(SILENCE_MS * Time.MS));
            } catch (java.util.concurrent.ExecutionException e) {
                return;
            }
        }
    }

    private void pushed(List<Object> push) {
        if (push.size() > 2 && !end.isDone()) {
            Object told = push.get(2);
            if ("gap".equals(push.get(1))) { // The node itself has missed some.
                tell.accept(new Change("", "", 0, 0, 0, ""));
                return;
            }
            tell.accept(new Change(String.valueOf(push.get(1)),
                Resp.text(told, "lock"), Resp.number(told, "session"),
                Resp.number(told, "token"), Resp.number(told, "index"),
                Resp.text(told, "message")));
        }
    }
}
