// SPDX-License-Identifier: MIT

package hasp;

import hasp.HaspException.Reason;
import java.io.IOException;
import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.ClosedSelectorException;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.SecureRandom;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.Set;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.BooleanSupplier;
import java.util.function.Consumer;

/**
 * The process's connection to the agent of this host (docs/agent.md) at one
 * path, and the ties of its sessions to the process: when the process dies, the
 * agent ends them in the cluster. A thread keeps the connection while there are
 * ties; if it ends, the thread connects and ties again.
 */
final class Agent {
    static final String SOCKET = "/run/hasp-agent/agent.sock";
    /** For an answer of the agent. */
    private static final long ANSWER = 1000 * Time.MS;
    // Pause after a failure, and after the agent's end, which many programs
    // notice at once: a random part of JITTER is added.
    private static final long RETRY = 100 * Time.MS;
    private static final long RETRY_MAX = 5000 * Time.MS;
    private static final long JITTER = 900 * Time.MS;
    /** Lines that are sent and not answered. */
    private static final int ASKED_MAX = 64;
    private static final int LINE_MAX = 1024;

    private static final ReentrantLock REGISTRY = new ReentrantLock();
    private static final Map<String, Agent> ALL = new HashMap<>();

    private record Asked(Tie tie, boolean isTie) {}

    private final String path;
    private final String start = startOfProcess();
    private final Selector selector;
    private final ReentrantLock mutex = new ReentrantLock();
    private final Condition news = mutex.newCondition();
    // Guarded by 'mutex'.
    private final Set<Tie> ties = new HashSet<>();
    private final Queue<Tie> queue = new ArrayDeque<>(); // To be asked for.
    private final Queue<Asked> asked = new ArrayDeque<>();
    private boolean isHurried; // The next attempt is to be made now.
    private long retry;
    // Used by the thread of this connection only.
    private long since; // When the oldest unanswered line was sent.
    private String input = "";

    private Agent(String path) throws IOException {
        this.path = path;
        selector = Selector.open();
    }

    /** The tie of one session. The agent keeps it when a connection ends. */
    static final class Tie {
        /** The death word. */
        final String word;
        private final long ttl;
        private final Consumer<String> changed;
        private volatile Agent agent;
        private long session;
        private volatile boolean isTied;
        // Guarded by the agent's mutex.
        private boolean isUnwanted; // To be untied, or untied.
        private boolean isRefused; // Not asked again on this connection.
        private boolean isAsked; // A line is sent and not answered.
        private boolean isQueued;
        private boolean isOver; // The session is gone.
        private boolean mayBeTied; // TIE was sent since UNTIE was answered.
        private String why = "";
        private boolean isTold;

        /** 'ttl' in nanoseconds. 'changed' is called with the reason when the
         * session is not, or no longer, tied: once until it is tied again. */
        Tie(long ttl, Consumer<String> changed) {
            byte[] random = new byte[16];
            new SecureRandom().nextBytes(random);
            word = HexFormat.of().formatHex(random);
            this.ttl = ttl;
            this.changed = changed;
        }

        /** 'path' null: the environment's HASP_AGENT, or the default. */
        void begin(String path, long id) {
            String named = System.getenv("HASP_AGENT");
            String where = path != null && !path.isEmpty() ? path
                : named != null && !named.isEmpty() ? named : SOCKET;
            session = id;
            REGISTRY.lock();
            try {
                Agent found = ALL.get(where);
                if (found == null) {
                    found = new Agent(where);
                    ALL.put(where, found);
                    Thread thread = new Thread(found::run, "hasp agent");
                    thread.setDaemon(true);
                    thread.start();
                }
                agent = found;
                found.locked(() -> {
                    agent.ties.add(this);
                    agent.enqueue(this);
                });
            } catch (IOException e) {
                throw new HaspException(Reason.UNREACHABLE,
                    "the session cannot be tied: " + e.getMessage());
            } finally {
                REGISTRY.unlock();
            }
        }

        boolean isTied() {
            return isTied;
        }

        /** Waits until the session is tied. */
        void await() {
            agent.locked(() -> {
                agent.until(() -> isTied || !why.isEmpty());
                if (!isTied) {
                    throw new HaspException(Reason.UNREACHABLE,
                        "the session cannot be tied: " + reason());
                }
            });
        }

        /** Unties the session for good, and waits for the answer. If that fails,
         * it may still be tied, and stays so. */
        void undo() {
            agent.locked(() -> {
                // Lines are answered in order: the answer to a TIE comes first.
                agent.until(() -> !isAsked);
                if (mayBeTied && !isAsked) {
                    isUnwanted = true;
                    isRefused = false;
                    why = "";
                    agent.isHurried = true;
                    agent.enqueue(this);
                    agent.until(() -> !isUnwanted || !mayBeTied);
                }
                isUnwanted = !mayBeTied;
                if (mayBeTied) {
                    throw new HaspException(Reason.UNREACHABLE,
                        "the session is tied to this process, and nothing was "
                        + "handed over: " + reason());
                }
                agent.remove(this);
            });
        }

        /** The session is gone. UNTIE is sent, and not waited for. */
        void end() {
            if (agent != null) {
                agent.locked(() -> {
                    if (!isOver) {
                        isOver = isUnwanted = true;
                        agent.remove(this);
                    }
                });
            }
        }

        boolean mayBeHandedOver() {
            boolean[] may = {false};
            if (agent != null) {
                agent.locked(() -> may[0] = isUnwanted && !mayBeTied);
            }
            return may[0];
        }

        private String reason() {
            return why.isEmpty() ? "the agent does not answer" : why;
        }

        /** The next line; "": there is nothing to ask for. */
        private String line() {
            String text = session + " " + word + " START " + agent.start;
            if (isAsked && !isOver) {
                return "";
            }
            if (!isUnwanted && !isTied && !isRefused) {
                return "TIE " + text + " TTL " + ttl / Time.MS + "\n";
            }
            return isUnwanted && mayBeTied ? "UNTIE " + text + "\n" : "";
        }

        /** Handles an answer; 'reason' is "" if it was OK. */
        private void answered(boolean isTie, String reason) {
            boolean isOk = reason.isEmpty();
            isAsked = false;
            isTied = isTie && isOk;
            isRefused = !isOk;
            if (isTie || isOk) {
                mayBeTied = isTied;
            } else {
                isUnwanted = false; // undo() has failed.
            }
            tell(reason);
        }

        /** The connection is lost, or cannot be opened. */
        private void lost(String reason) {
            isAsked = isRefused = isTied = false;
            if (!isUnwanted || mayBeTied) {
                isUnwanted = false; // undo() has failed.
                tell(reason);
            }
        }

        private void tell(String reason) {
            why = reason;
            if (isTied) {
                isTold = false;
            } else if (!reason.isEmpty() && !isTold && !isOver) {
                isTold = true;
                changed.accept(reason); // It hands an event to another thread.
            }
            agent.news.signalAll();
        }
    }

    /** When this process was started, field 22 of /proc/self/stat; "0" if it
     * cannot be read. The name, in parentheses, can contain any characters. */
    private static String startOfProcess() {
        try {
            String text = Files.readString(Path.of("/proc/self/stat"),
                StandardCharsets.ISO_8859_1);
            return text.substring(text.lastIndexOf(')') + 2).split(" ")[19];
        } catch (IOException | IndexOutOfBoundsException e) {
            return "0";
        }
    }

    // --- with the mutex --------------------------------------------------------

    private void locked(Runnable work) {
        mutex.lock();
        try {
            work.run();
        } finally {
            mutex.unlock();
        }
    }

    /** Waits for it, for a limited time. An interrupt is kept for the caller. */
    private void until(BooleanSupplier isSo) {
        long limit = Time.in(2 * ANSWER);
        boolean wasInterrupted = false;
        while (!isSo.getAsBoolean() && Time.left(limit) > 0) {
            try {
                news.await(Time.left(limit), TimeUnit.NANOSECONDS);
            } catch (InterruptedException e) {
                wasInterrupted = true;
            }
        }
        if (wasInterrupted) {
            Thread.currentThread().interrupt();
        }
    }

    private void enqueue(Tie tie) {
        if (!tie.isQueued) {
            tie.isQueued = true;
            queue.add(tie);
        }
        selector.wakeup();
    }

    private void remove(Tie tie) {
        ties.remove(tie);
        enqueue(tie);
    }

    /** The lines to be sent now. */
    private String next() {
        StringBuilder lines = new StringBuilder();
        while (!queue.isEmpty() && asked.size() < ASKED_MAX) {
            Tie tie = queue.remove();
            tie.isQueued = false;
            String line = tie.line();
            if (!line.isEmpty()) {
                boolean isTie = line.startsWith("TIE");
                if (asked.isEmpty()) {
                    since = Time.now();
                }
                lines.append(line);
                tie.isAsked = true;
                tie.mayBeTied |= isTie;
                asked.add(new Asked(tie, isTie));
            }
        }
        return lines.toString();
    }

    /** Handles the answer to the oldest line. False: nothing was asked. */
    private boolean answered(String line) {
        Asked one = asked.poll();
        if (one == null) {
            return false;
        }
        retry = 0;
        since = Time.now();
        one.tie.answered(one.isTie, line.startsWith("OK") ? "" : "the agent at "
            + path + ": " + line.substring(0, Math.min(line.length(), 300)));
        if (!one.tie.isOver && !one.tie.line().isEmpty()) {
            enqueue(one.tie);
        }
        return true;
    }

    /** The agent cannot be reached, or is gone. */
    private void lose(boolean wasConnected, String why) {
        asked.clear();
        queue.forEach(tie -> tie.isQueued = false);
        queue.clear();
        retry = wasConnected ? RETRY
            : Math.min(Math.max(2 * retry, RETRY), RETRY_MAX);
        for (Tie tie : ties) {
            tie.lost("the agent at " + path + " " + why);
            if (!tie.isUnwanted) {
                tie.isQueued = true;
                queue.add(tie);
            }
        }
    }

    // --- on the agent's thread -------------------------------------------------

    private void run() {
        while (!isDone()) {
            boolean wasConnected = false;
            try (SocketChannel channel =
                    SocketChannel.open(StandardProtocolFamily.UNIX)) {
                channel.configureBlocking(false);
                if (!channel.connect(UnixDomainSocketAddress.of(path))) {
                    throw new IOException("too many connections are pending");
                }
                wasConnected = true;
                serve(channel);
            } catch (IOException | RuntimeException e) {
                String why = wasConnected ? e.getMessage()
                    : "cannot be reached: " + e.getMessage();
                boolean was = wasConnected;
                locked(() -> lose(was, why));
                rest();
            }
        }
    }

    /** Leaves the registry if there is no tie. */
    private boolean isDone() {
        REGISTRY.lock();
        mutex.lock();
        try {
            if (!ties.isEmpty()) {
                return false;
            }
            ALL.remove(path);
            selector.close();
            return true;
        } catch (IOException e) {
            return true;
        } finally {
            mutex.unlock();
            REGISTRY.unlock();
        }
    }

    /** Waits before the next attempt, unless it is to be made now. */
    private void rest() {
        long until = Time.in(retry + ThreadLocalRandom.current().nextLong(JITTER));
        boolean[] isOver = {false};
        do {
            select(Time.left(until));
            locked(() -> {
                isOver[0] = isHurried || ties.isEmpty();
                isHurried = false;
            });
        } while (!isOver[0] && Time.left(until) > 0);
    }

    private void select(long nanos) {
        try {
            selector.select(Math.max(1, nanos / Time.MS));
            selector.selectedKeys().clear();
        } catch (IOException | ClosedSelectorException e) {
            throw new AssertionError(e); // Only this thread closes it.
        }
    }

    /** Asks until no tie is left. IOException: the connection is lost; its text
     * says why. */
    private void serve(SocketChannel channel) throws IOException {
        channel.register(selector, SelectionKey.OP_READ);
        input = "";
        for (;;) {
            String[] lines = {""};
            boolean[] is = {false, false}; // All ties are gone; it has to answer.
            locked(() -> {
                isHurried = false;
                lines[0] = next();
                is[0] = ties.isEmpty() && queue.isEmpty() && asked.isEmpty();
                is[1] = !asked.isEmpty();
            });
            ByteBuffer out = ByteBuffer.wrap(
                lines[0].getBytes(StandardCharsets.US_ASCII));
            if (channel.write(out) < 0 || out.hasRemaining()) {
                throw new IOException("does not read");
            }
            if (is[0]) {
                return;
            }
            long left = since + ANSWER - Time.now();
            if (is[1] && left <= 0) {
                throw new IOException("does not answer");
            }
            select(is[1] ? left : Time.FOREVER);
            read(channel);
        }
    }

    private void read(SocketChannel channel) throws IOException {
        ByteBuffer buffer = ByteBuffer.allocate(LINE_MAX);
        int got;
        try {
            got = channel.read(buffer);
        } catch (IOException e) {
            got = -1;
        }
        if (got < 0) {
            throw new IOException("has ended the connection");
        }
        var lines = new ArrayList<>(List.of((input + new String(
            buffer.array(), 0, got, StandardCharsets.ISO_8859_1)).split("\n", -1)));
        input = lines.remove(lines.size() - 1);
        for (String line : lines) {
            boolean[] wasAsked = {false};
            locked(() -> wasAsked[0] = answered(line));
            if (!wasAsked[0]) {
                throw new IOException("does not speak the protocol");
            }
        }
        if (input.length() >= LINE_MAX) {
            throw new IOException("does not speak the protocol");
        }
    }
}
