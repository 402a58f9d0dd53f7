// SPDX-License-Identifier: MIT

package hasp;

import hasp.Hooks.Kind;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.List;
import java.util.concurrent.ThreadFactory;
import java.util.function.Consumer;

/** Calls the hooks of a session. Its monitor is entered last, and never held while
 * a hook runs. */
final class Reporter {
    /** The number of events that hooks can be late by. */
    private static final int BEHIND = 1000;
    private static final List<Kind> PENDING = List.of(Kind.ACQUIRE, Kind.WAIT);

    private final Hooks hooks; // Null: there are none.
    private final ThreadFactory threads;
    private final Consumer<String> notice;
    private final Deque<Hooks.Event> queue = new ArrayDeque<>();
    private Thread running; // Null: no event is left.
    private boolean hasFailed;
    private long count;
    private long skipped;

    Reporter(Hooks hooks, ThreadFactory threads, Consumer<String> notice) {
        this.hooks = hooks;
        this.threads = threads;
        this.notice = notice;
    }

    /** One that is reported. Its methods may be called in any order: those that
     * do not fit the state do nothing, so each has exactly one end. */
    final class Acquisition {
        private final long id;
        private final String name;
        private final String trace;
        private Kind state; // Null: it is not reported.
        private long token;
        private long since = System.nanoTime();

        private Acquisition(long id, String name, String trace) {
            this.id = id;
            this.name = name;
            this.trace = trace;
        }

        private void step(Kind kind, String text, List<Kind> after) {
            synchronized (Reporter.this) {
                if (state != null && after.contains(state)) {
                    report(kind, text);
                }
            }
        }

        private void report(Kind kind, String text) {
            long now = System.nanoTime();
            queue.add(new Hooks.Event(kind, id, name, token, trace, Instant.now(),
                Duration.ofNanos(now - since), text, skipped));
            state = kind;
            skipped = 0;
            if (kind == Kind.GRANTED) {
                since = now;
            }
            if (running == null) {
                running = threads.newThread(Reporter.this::run);
                running.start();
            }
        }

        void waits() {
            step(Kind.WAIT, "", List.of(Kind.ACQUIRE));
        }

        void granted(long number) {
            synchronized (Reporter.this) {
                // contains(null) throws.
                token = state != null && PENDING.contains(state) ? number : token;
                step(Kind.GRANTED, "", PENDING);
            }
        }

        void failed(String why) {
            step(Kind.FAILED, why, PENDING);
        }

        void released() {
            step(Kind.RELEASED, "", List.of(Kind.GRANTED));
        }

        void lost(String why) {
            step(Kind.LOST, why.isEmpty() ? "ended" : why, List.of(Kind.GRANTED));
        }
    }

    synchronized Acquisition begin(String name, String trace) {
        if (hooks == null || queue.size() >= BEHIND) {
            skipped += hooks == null ? 0 : 1;
            return new Acquisition(0, name, trace);
        }
        Acquisition one = new Acquisition(++count, name, trace);
        one.report(Kind.ACQUIRE, "");
        return one;
    }

    /** Calls hooks until no event is left. */
    private void run() {
        for (;;) {
            Hooks.Event event;
            synchronized (this) {
                event = queue.poll();
                if (event == null) {
                    running = null;
                    notifyAll();
                    return;
                }
            }
            try {
                call(event);
            } catch (Throwable e) { // The program can throw any.
                failed(event, e);
            }
        }
    }

    private void call(Hooks.Event event) {
        switch (event.kind()) {
            case ACQUIRE -> hooks.acquire(event);
            case WAIT -> hooks.wait(event);
            case GRANTED -> hooks.granted(event);
            case FAILED -> hooks.failed(event);
            case RELEASED -> hooks.released(event);
            default -> hooks.lost(event);
        }
    }

    private void failed(Hooks.Event event, Throwable why) {
        synchronized (this) {
            if (hasFailed) {
                return;
            }
            hasFailed = true;
        }
        notice.accept("the hook " + event.kind() + " has failed: " + why);
    }

    /** Returns when all hooks have been called, or at that time. */
    synchronized void await(long until) {
        boolean wasInterrupted = false;
        while (running != null && running != Thread.currentThread()
                && Time.left(until) > 0) {
            try {
                wait(Math.max(1, Time.left(until) / Time.MS));
            } catch (InterruptedException e) {
                wasInterrupted = true;
            }
        }
        if (wasInterrupted) {
            Thread.currentThread().interrupt();
        }
    }
}
