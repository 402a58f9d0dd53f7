// SPDX-License-Identifier: MIT

package hasp;

import java.io.ByteArrayOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * The subset of RESP3 that hasp uses: null, Boolean, Long, String, List, Map,
 * {@link Push} and {@link Refusal}. tests/vectors/wire.json checks that it is
 * the same as in the C library.
 */
final class Resp {
    private static final int LINE_MAX = 64 << 10;
    /** Bytes of a whole reply, counting its size in memory for each value. */
    private static final long REPLY_MAX = 64 << 20;
    private static final int VALUE_SIZE = 32;
    private static final int DEPTH_MAX = 16;

    /** An event; it can arrive between two replies: [name, kind, map]. */
    record Push(List<Object> values) {}

    /** "-WORD text". */
    record Refusal(String text) {
        String word() {
            return text.split(" ", 2)[0];
        }
    }

    /** The peer is not a hasp node. */
    static class Broken extends IOException {
        private static final long serialVersionUID = 1;

        Broken(String text) {
            super(text);
        }
    }

    /** The reply is too large, and was not read to its end. */
    static final class TooLarge extends Broken {
        private static final long serialVersionUID = 1;

        TooLarge() {
            super("the answer is larger than 64 MiB: ask for less at a time, as "
                + "with COUNT");
        }
    }

    private final InputStream in;
    private long left = REPLY_MAX;

    private Resp(InputStream in) {
        this.in = in;
    }

    static byte[] encode(List<String> words) {
        var out = new ByteArrayOutputStream();
        out.writeBytes(ascii("*" + words.size() + "\r\n"));
        for (String word : words) {
            byte[] bytes = word.getBytes(StandardCharsets.UTF_8);
            out.writeBytes(ascii("$" + bytes.length + "\r\n"));
            out.writeBytes(bytes);
            out.writeBytes(ascii("\r\n"));
        }
        return out.toByteArray();
    }

    private static byte[] ascii(String text) {
        return text.getBytes(StandardCharsets.US_ASCII);
    }

    /** Waits for one value. EOFException: there is none, or only a part of
     * one. */
    static Object read(InputStream in) throws IOException {
        return new Resp(in).read(0);
    }

    private void spend(long size) throws TooLarge {
        if (size > left) {
            throw new TooLarge();
        }
        left -= size;
    }

    private static Broken broken(String what) {
        return new Broken("the peer is not a hasp node: " + what);
    }

    private Object read(int depth) throws IOException {
        String line = readLine();
        String rest = line.isEmpty() ? "" : line.substring(1);
        switch (line) {
            case "_", "$-1", "*-1":
                return null;
            case "#t", "#f":
                return line.equals("#t");
            default:
        }
        char kind = line.isEmpty() ? ' ' : line.charAt(0);
        if (kind == '+') {
            return rest;
        } else if (kind == '-') {
            return new Refusal(rest);
        } else if (!rest.matches("[+-]?[0-9]{1,19}")) {
            throw broken(line);
        }
        long number;
        try {
            number = Long.parseLong(rest);
        } catch (NumberFormatException e) {
            throw broken(line);
        }
        if (kind == ':') {
            return number;
        } else if (number < 0 || depth == DEPTH_MAX) {
            throw broken("a size of " + number);
        } else if (number > left) {
            throw new TooLarge();
        }
        return switch (kind) {
            case '$' -> readText((int) number);
            case '*' -> readList(number, depth);
            case '>' -> new Push(readList(number, depth));
            case '%' -> toMap(readList(2 * number, depth));
            default -> throw broken(line);
        };
    }

    private int readByte() throws IOException {
        int found = in.read();
        if (found < 0) {
            throw new EOFException("the connection was closed");
        }
        return found;
    }

    private String readLine() throws IOException {
        var line = new ByteArrayOutputStream();
        for (int found = readByte(); found != '\r'; found = readByte()) {
            line.write(found);
            if (line.size() > LINE_MAX) {
                throw broken("a line without CR LF");
            }
        }
        if (readByte() != '\n') {
            throw broken("a line that ends in CR without LF");
        }
        spend(line.size() + VALUE_SIZE);
        return line.toString(StandardCharsets.UTF_8);
    }

    private String readText(int size) throws IOException {
        spend(size);
        byte[] text = in.readNBytes(size);
        if (readByte() != '\r' || readByte() != '\n') {
            throw broken("a string longer than its size");
        }
        return new String(text, StandardCharsets.UTF_8);
    }

    private List<Object> readList(long count, int depth) throws IOException {
        List<Object> values = new ArrayList<>();
        for (long i = 0; i < count; i++) {
            values.add(read(depth + 1));
        }
        return values;
    }

    private static Map<String, Object> toMap(List<Object> pairs) {
        Map<String, Object> found = new LinkedHashMap<>();
        for (int i = 0; i < pairs.size(); i += 2) {
            found.put(String.valueOf(pairs.get(i)), pairs.get(i + 1));
        }
        return found;
    }

    // These return the value in a reply, or an empty one if it has another
    // type.

    static long number(Object reply, String key) {
        return value(reply, key) instanceof Long number ? number : 0;
    }

    static String text(Object reply, String key) {
        return value(reply, key) instanceof String text ? text : "";
    }

    static List<?> list(Object reply, String key) {
        return value(reply, key) instanceof List<?> list ? list : List.of();
    }

    private static Object value(Object reply, String key) {
        return reply instanceof Map<?, ?> map ? map.get(key) : null;
    }
}
