// SPDX-License-Identifier: MIT

package hasp;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Proxy;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;

/** Carries out the commands on stdin: tests/conformance/README.md. */
public final class Conform {
    private static final List<String> FEATURES = List.of("several", "convert",
        "alive", "place", "cancel", "owner", "linger", "hold", "note", "please",
        "watch", "durable", "late", "tie", "seal", "hooks",
        "throw");
    private static final Map<String, HaspLock> LOCKS = new ConcurrentHashMap<>();
    private static final Map<String, Thread> WAITS = new ConcurrentHashMap<>();
    /** Ends the hooks that hang. */
    private static final CountDownLatch UNSEALED = new CountDownLatch(1);
    private static volatile Session session;
    private static volatile Session beside; // Shares its connection; or null.

    private Conform() {}

    private static synchronized void say(Map<String, Object> told) {
        System.out.println(Json.write(told));
        System.out.flush();
    }

    private record Command(Map<?, ?> words) {
        String text(String key) {
            return words.get(key) instanceof String text ? text : "";
        }

        long number(String key) {
            return words.get(key) instanceof Long number ? number : 0;
        }

        Duration ms(String key) {
            return Duration.ofMillis(number(key));
        }

        boolean is(String key) {
            return Boolean.TRUE.equals(words.get(key));
        }

        List<String> texts(String key) {
            return ((List<?>) words.get(key)).stream().map(String.class::cast).toList();
        }
    }

    private static Session open(Command c) {
        var options = new Session.Options().endpoints(c.text("endpoints"))
            .linger(c.ms("linger")).alive(c.ms("alive"));
        if (c.number("ttl") != 0) {
            options.ttl(c.ms("ttl"));
        }
        if (c.is("durable")) {
            options.durable(c.text("reason"));
        }
        if (c.words.get("tie") instanceof String kind) {
            options.tie(Session.Tie.valueOf(kind.toUpperCase()));
        }
        if (!c.text("agent").isEmpty()) {
            options.agent(c.text("agent"));
        }
        if (c.number("timeout") != 0) {
            options.timeout(c.ms("timeout"));
        }
        if (!c.text("name").isEmpty()) {
            options.name(c.text("name"));
        }
        LOCKS.clear();
        if (c.is("beside")) {
            beside = Session.open(options);
        }
        options.onEvent(e -> say(Map.of("event", e.kind().name().toLowerCase(),
            "name", e.lock(), "token", e.token(), "text", e.text())));
        options.hooks(hooks(c.words.get("hooks")));
        return Session.open(options);
    }

    /** Hooks that say each event, and then fail if they are to. */
    private static Hooks hooks(Object how) {
        return how == null ? null : (Hooks) Proxy.newProxyInstance(
            Hooks.class.getClassLoader(), new Class<?>[] {Hooks.class},
            (self, method, arguments) -> {
                var e = (Hooks.Event) arguments[0];
                say(Map.of("event", "hook", "kind", method.getName(),
                    "id", e.id(), "name", e.lock(), "token", e.token(),
                    "trace", e.trace(), "text", e.text(), "elapsed_ns",
                    e.elapsed().toNanos(), "skipped", e.skipped()));
                if (how.equals("fail")) {
                    throw new IllegalStateException("a hook that fails");
                }
                return null;
            });
    }

    private static Seal hook(String kind) {
        return (name, token) -> {
            if (kind.equals("hang")) {
                say(Map.of("event", "seal", "name", name, "token", token,
                    "text", ""));
                UNSEALED.await();
            } else if (!Long.valueOf(1).equals(session.ask("FENCE.ADMIT", name,
                    Long.toString(token)))) {
                throw new IllegalStateException("stale");
            }
        };
    }

    private static HaspLock lock(Command c) {
        return LOCKS.computeIfAbsent(c.text("as"), as -> {
            var options = new HaspLock.Options();
            if (c.is("shared")) {
                options.shared();
            }
            if (c.number("slots") != 0) {
                options.slots((int) c.number("slots"));
            }
            if (!c.text("value").isEmpty()) {
                options.value(c.text("value"));
            }
            if (!c.text("trace").isEmpty()) {
                options.trace(c.text("trace"));
            }
            if (c.number("delay") != 0) {
                options.delay(c.ms("delay"));
            }
            if (c.number("hold") != 0) {
                options.hold(c.ms("hold"));
            }
            if (c.is("barge")) {
                options.barge();
            }
            if (!c.text("owner").isEmpty()) {
                options.owner(c.text("owner"));
            }
            if (!c.text("seal").isEmpty()) {
                options.onGrant(hook(c.text("seal")));
            }
            options.sealTime(c.ms("seal_time"));
            return session.lock(c.texts("names"), options);
        });
    }

    /** The calls that wait: until they end, or "cancel" interrupts them. */
    private interface Wait {
        boolean until(Duration wait) throws InterruptedException;
    }

    private static Object take(Command c, HaspLock lock, Wait wait) {
        boolean held;
        WAITS.put(c.text("as"), Thread.currentThread());
        try {
            held = wait.until(c.words.get("wait") == null
                ? Duration.ofDays(10_000) : c.ms("wait"));
        } catch (InterruptedException e) {
            held = false;
        } finally {
            WAITS.remove(c.text("as"));
        }
        return Map.of("held", held, "tokens", lock.tokens());
    }

    private static Object run(Command c) throws InterruptedException {
        long now = System.nanoTime(); // CLOCK_MONOTONIC, before anything is asked.
        switch (c.text("do")) {
            case "can":
                return Map.of("features", FEATURES);
            case "open":
                session = open(c);
                return Map.of();
            case "close":
                try {
                    session.close();
                } finally {
                    if (beside != null) {
                        beside.close();
                        beside = null;
                    }
                }
                return Map.of();
            case "beside":
                return Map.of("state", beside.state().name().toLowerCase());
            case "state":
                return Map.of("left_ns", session.remaining().toNanos(),
                    "state", session.state().name().toLowerCase(), "at_ns", now);
            case "tied":
                return Map.of("tied", session.isTied());
            case "credentials":
                if (!c.is("tied")) {
                    session.untie();
                }
                return Map.of("session", session.id(), "secret", session.secret());
            case "unseal":
                UNSEALED.countDown();
                return Map.of();
            case "alive":
                session.alive();
                return Map.of();
            case "ask":
                var told = new HashMap<String, Object>();
                told.put("reply", session.ask(
                    c.texts("words").toArray(String[]::new)));
                return told;
            case "watch":
                // A push before the first event, "", is part of the state then.
                CountDownLatch isWatched = new CountDownLatch(1);
                session.watch(c.text("prefix"), e -> {
                    say(Map.of("event", e.kind(), "name", e.lock(),
                        "token", e.token(), "text", e.text()));
                    isWatched.countDown();
                });
                isWatched.await();
                return Map.of();
            case "cancel":
                WAITS.get(c.text("as")).interrupt();
                return Map.of();
            default:
        }
        HaspLock lock = lock(c);
        switch (c.text("do")) {
            case "lock":
                return take(c, lock, wait -> {
                    if (c.words.get("wait") != null) {
                        return lock.tryLock(wait);
                    }
                    lock.lockInterruptibly();
                    return true;
                });
            case "convert":
                if (!c.is("shared")) {
                    return take(c, lock, lock::upgrade);
                }
                lock.downgrade();
                return Map.of("held", true, "tokens", lock.tokens());
            case "release":
                lock.unlock();
                return Map.of();
            case "guard":
                lock.guard(c.ms("need"));
                return Map.of("at_ns", now);
            case "remaining":
                return Map.of("left_ns", lock.remaining().toNanos(), "at_ns", now);
            case "note":
                lock.note(c.text("text"));
                return Map.of();
            case "place":
                var found = new HashMap<String, Object>();
                int place = lock.place();
                found.put("place", place == 0 ? null : place);
                return found;
            default:
                throw new IllegalArgumentException("no such command");
        }
    }

    private static String word(RuntimeException error) {
        if (!(error instanceof HaspException e)) {
            return error instanceof IllegalArgumentException
                || error instanceof IllegalStateException ? "MISUSE" : "BROKEN";
        }
        return switch (e.reason()) {
            case NOT_HELD -> "NOTHELD";
            case REFUSED -> e.word();
            default -> e.reason().name();
        };
    }

    private static void answer(Command c) {
        Map<String, Object> told = new HashMap<>(Map.of("id", c.number("id")));
        try {
            told.put("ok", run(c));
        } catch (RuntimeException e) {
            told.put("error", word(e));
            told.put("text", String.valueOf(e.getMessage()));
        } catch (InterruptedException e) {
            throw new AssertionError(e);
        }
        say(told);
    }

    /** Reads to the end of the input. */
    public static void main(String[] arguments) throws Exception {
        var in = new BufferedReader(
            new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            Command command = new Command((Map<?, ?>) Json.read(line));
            new Thread(() -> answer(command)).start();
        }
        System.exit(0);
    }
}
