// SPDX-License-Identifier: MIT

package hasp;

import java.io.BufferedInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.Consumer;

/**
 * A connection to one node. A thread reads it, so that answers and events are
 * taken when they come, and whoever waits for one can be interrupted.
 */
final class Connection {
    private static final int READER_MS = 100;

    final String endpoint;
    private final Line line;
    private final ReentrantLock writing = new ReentrantLock();
    private final Queue<CompletableFuture<Object>> asked =
        new ConcurrentLinkedQueue<>();
    /** Done, with the reason, when the connection is over. */
    final CompletableFuture<IOException> closed = new CompletableFuture<>();
    volatile Consumer<List<Object>> onPush = push -> {};

    /** Connects and greets until then ({@link Time}); 'tls' may be null. */
    Connection(String endpoint, Tls tls, List<String> greeting, long until)
        throws IOException {
        this.endpoint = endpoint;
        try {
            line = Line.open(endpoint, tls, until);
        } catch (IOException e) {
            throw Tls.explained(e);
        }
        Thread reader = new Thread(this::read, "hasp " + endpoint);
        reader.setDaemon(true);
        reader.start();
        try {
            if (await(ask(greeting), until) instanceof Resp.Refusal no) {
                throw new IOException(no.text());
            }
        } catch (IOException e) {
            close();
            throw e;
        }
    }

    /** Sends a request; its answer may be a {@link Resp.Refusal}. */
    CompletableFuture<Object> ask(String... words) {
        return ask(List.of(words));
    }

    CompletableFuture<Object> ask(List<String> words) {
        var answer = new CompletableFuture<Object>();
        writing.lock(); // Answers come in this order.
        try {
            asked.add(answer);
            line.out().write(Resp.encode(words));
        } catch (IOException e) {
            failUnlessRead(e);
        } finally {
            writing.unlock();
        }
        if (isClosed()) {
            forsake();
        }
        return answer;
    }

    private void read() {
        try {
            InputStream in = new BufferedInputStream(line.in());
            for (;;) {
                Object value = Resp.read(in);
                CompletableFuture<Object> answer = null;
                if (value instanceof Resp.Push push) {
                    onPush.accept(push.values());
                } else if ((answer = asked.poll()) != null) {
                    answer.complete(value);
                } else {
                    throw new Resp.Broken("an answer to nothing");
                }
            }
        } catch (IOException e) {
            fail(e);
        } catch (RuntimeException e) { // Of who listens: his own business.
            fail(new IOException(e));
        }
    }

    /** What cannot be written to was closed by the other end, and it may have said
     * why. */
    private void failUnlessRead(IOException why) {
        try {
            closed.get(READER_MS, TimeUnit.MILLISECONDS);
        } catch (TimeoutException | ExecutionException e) {
            fail(why);
        } catch (InterruptedException e) {
            fail(why);
            Thread.currentThread().interrupt();
        }
    }

    private void fail(IOException why) {
        try {
            line.socket().close(); // At once, whoever writes.
        } catch (IOException e) {
            // It is closed.
        }
        closed.complete(Tls.explained(why));
        forsake();
    }

    /** There will be no answers. */
    private void forsake() {
        IOException why = closed.join();
        for (var answer = asked.poll(); answer != null; answer = asked.poll()) {
            answer.completeExceptionally(why);
        }
    }

    void close() {
        fail(new IOException("the connection was closed"));
    }

    boolean isClosed() {
        return closed.isDone();
    }

    /** The answer, whatever interrupts meanwhile; the thread is told after. */
    static Object await(CompletableFuture<Object> answer, long until)
            throws IOException {
        boolean isInterrupted = false;
        try {
            for (;;) {
                try {
                    return awaitOr(answer, until);
                } catch (InterruptedException e) {
                    isInterrupted = true;
                }
            }
        } finally {
            if (isInterrupted) {
                Thread.currentThread().interrupt();
            }
        }
    }

    /** The answer, or an interrupt. NoAnswer: not in time. */
    static Object awaitOr(CompletableFuture<Object> answer, long until)
            throws IOException, InterruptedException {
        try {
            return answer.get(Math.max(1, Time.left(until)), TimeUnit.NANOSECONDS);
        } catch (TimeoutException e) {
            throw new NoAnswer();
        } catch (ExecutionException e) {
            throw new IOException(e.getCause().getMessage(), e.getCause());
        }
    }

    /** The node says nothing. */
    static final class NoAnswer extends IOException {
        private static final long serialVersionUID = 1;

        NoAnswer() {
            super("no answer in time");
        }
    }
}
