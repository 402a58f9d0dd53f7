// SPDX-License-Identifier: MIT

package hasp;

import hasp.Clocks.Reading;
import java.io.ByteArrayInputStream;
import java.io.EOFException;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;

/** The parts that ask nobody, against tests/vectors: to the nanosecond and to the
 * byte what the C library does. Its argument is that folder. */
public final class UnitTests {
    private static final long MS = 1_000_000;
    private static int passed;

    private UnitTests() {}

    private static void check(boolean fact, Object what) {
        if (!fact) {
            throw new AssertionError(what);
        }
        passed++;
    }

    private static Object read(Path folder, String name) throws IOException {
        return Json.read(Files.readString(folder.resolve(name)));
    }

    private static Object get(Object map, String key) {
        return ((Map<?, ?>) map).get(key);
    }

    private static void leases(Path folder) throws IOException {
        for (Object one : (List<?>) read(folder, "lease.json")) {
            Lease lease = new Lease();
            for (Object told : (List<?>) get(one, "steps")) {
                step(lease, (List<?>) told, get(one, "says") + ": " + told);
            }
        }
    }

    private static void step(Lease lease, List<?> step, String says) {
        long[] n = step.stream().mapToLong(
            one -> one instanceof Long number ? number : 0).toArray();
        switch ((String) step.get(0)) {
            case "answered" ->
                lease.answered(new Reading(n[1], n[2]), n[3], n[4]);
            case "refused" -> lease.refuse();
            case "period" -> check(lease.period() == n[1], says);
            case "hold" -> check(Lease.holdRemaining(new Reading(n[1], n[2]), n[3],
                new Reading(n[4], n[5])) == n[6], says);
            case "check" -> {
                Reading now = new Reading(n[1], n[2]);
                check(lease.state(now).name().equalsIgnoreCase(
                    (String) step.get(3)), says);
                check(lease.remaining(now) == n[4], says);
            }
            default -> throw new AssertionError("unknown step: " + says);
        }
    }

    private static Object parse(byte[] bytes, int size) throws IOException {
        return Resp.read(new ByteArrayInputStream(bytes, 0, size));
    }

    /** As tests/unit/test_wire_vectors.c writes it. */
    private static Object vector(Object value) {
        if (value instanceof Resp.Push push) {
            return Map.of("push", vector(push.values()));
        } else if (value instanceof Resp.Refusal no) {
            return Map.of("error", no.text());
        } else if (value instanceof List<?> list) {
            return list.stream().map(UnitTests::vector)
                .collect(ArrayList::new, ArrayList::add, ArrayList::addAll);
        } else if (value instanceof Map<?, ?> map) {
            List<Object> pairs = new ArrayList<>();
            map.forEach((key, one) -> pairs.addAll(List.of(key, vector(one))));
            return Map.of("map", pairs);
        }
        return value;
    }

    private static byte[] bytes(Object one) {
        return HexFormat.of().parseHex((String) get(one, "bytes"));
    }

    private static void wire(Path folder) throws IOException {
        Object all = read(folder, "wire.json");
        for (Object one : (List<?>) get(all, "requests")) {
            List<String> words = ((List<?>) get(one, "words")).stream()
                .map(String.class::cast).toList();
            check(HexFormat.of().formatHex(Resp.encode(words))
                .equals(get(one, "bytes")), words);
        }
        for (Object one : (List<?>) get(all, "replies")) {
            byte[] bytes = bytes(one);
            Object value = vector(parse(bytes, bytes.length));
            check(value == null ? get(one, "value") == null
                : value.equals(get(one, "value")), get(one, "says") + ": " + value);
            for (int cut = 0; cut < bytes.length; cut++) {
                refused(bytes, cut, EOFException.class, get(one, "says"));
            }
        }
        for (Object one : (List<?>) get(all, "broken")) {
            refused(bytes(one), bytes(one).length, Resp.Broken.class,
                get(one, "says"));
        }
    }

    private static void refused(byte[] bytes, int size,
            Class<? extends IOException> how, Object says) throws IOException {
        try {
            Object value = parse(bytes, size);
            throw new AssertionError(says + ": " + value);
        } catch (IOException e) {
            check(how.isInstance(e), says + ": " + e);
        }
    }

    /** An answer is bounded as a whole, whatever it is made of. */
    private static void bounded() throws IOException {
        String part = "*1\r\n_\r\n";
        for (String text : List.of("$" + (64 << 20) + "\r\n", "*9000000000\r\n",
                "*60000000\r\n" + part.repeat(2_000_000))) {
            refused(text.getBytes(), text.length(), Resp.TooLarge.class,
                text.substring(0, 10));
        }
        byte[] large = ("*200000\r\n" + part.repeat(200_000)).getBytes();
        check(((List<?>) parse(large, large.length)).size() == 200_000, "large");
    }

    /** A machine with an uptime in steps of 10 ms, and that is suspended. */
    private static void suspended() {
        long[] time = {1_234_567 * MS + 891};
        long[] slept = {0};
        Clocks clocks = new Clocks(() -> time[0], () -> {
            long up = time[0] + slept[0];
            return up - up % (10 * MS);
        });
        clocks.read();
        for (int drawn = 0; drawn < 2000; drawn++) {
            time[0] += drawn * 7919L * MS / 10_007;
            Reading sent = clocks.read();
            time[0] += drawn * 104_729L % 5003 * MS;
            long sleep = drawn % 3 == 0 ? 0 : 60 * MS + drawn * 31L * MS;
            slept[0] += sleep;
            long passedNs = time[0] - sent.mono() + sleep;
            long age = sent.age(clocks.read());
            check(sleep == 0 ? age == passedNs
                : age >= passedNs && age < passedNs + 30 * MS,
                drawn + ": " + age + " of " + passedNs);
        }
        Clocks without = new Clocks(() -> 5, () -> -1);
        check(without.read().equals(new Reading(5, 5)), "not Linux");
    }

    private static void numbers() {
        Numbers numbers = new Numbers();
        numbers.begin();
        check(numbers.acked().equals("0"), "1 is under way");
        numbers.begin();
        numbers.end(1);
        numbers.begin();
        check(numbers.acked().equals("1"), "2 is open");
        numbers.end(3);
        numbers.begin();
        numbers.end(4);
        numbers.begin();
        check(numbers.acked().equals("1,3-4"), numbers.acked());
    }

    private static void addresses() {
        for (String bad : List.of("node:x", ":7420", "a:0", "a:70000", "a:1,",
                "redis://a:1", "a:1;b:1", "user@a", "[::1", "a b", "[]:1")) {
            try {
                Nodes.read(bad);
                throw new AssertionError(bad);
            } catch (IllegalArgumentException e) {
                check(e.getMessage().contains("host:port"), bad);
            }
        }
        List<String> found = Nodes.read("a, [::1]:9,b:1 ,::1,[fe80::2]");
        check(found.equals(List.of("a:7420", "[::1]:9", "b:1", "[::1]:7420",
            "[fe80::2]:7420")), found);
    }

    private static void conditions() {
        try {
            new HaspLock(null, List.of("a"), new HaspLock.Options(), "x")
                .newCondition();
            throw new AssertionError("a condition");
        } catch (UnsupportedOperationException e) {
            check(e.getMessage().contains("another machine"), e);
        }
    }

    /** Runs all. */
    public static void main(String[] arguments) throws IOException {
        leases(Path.of(arguments[0]));
        wire(Path.of(arguments[0]));
        bounded();
        suspended();
        numbers();
        addresses();
        conditions();
        System.out.println(passed + " passed");
    }
}
