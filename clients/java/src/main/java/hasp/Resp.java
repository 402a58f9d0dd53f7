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
 * RESP3, as far as hasp speaks it: null, Boolean, Long, String, List, Map,
 * {@link Push} and {@link Refusal}. tests/vectors/wire.json holds it to what the
 * C library sends and understands.
 */
final class Resp {
    private static final int LINE_MAX = 64 << 10;
    private static final long SIZE_MAX = 64 << 20;
    private static final int DEPTH_MAX = 16;

    /** An event, which may come between two replies: [name, kind, map]. */
    record Push(List<Object> values) {}

    /** "-WORD text". */
    record Refusal(String text) {
        String word() {
            return text.split(" ", 2)[0];
        }
    }

    /** What answers is no node of hasp. */
    static final class Broken extends IOException {
        private static final long serialVersionUID = 1;

        Broken(String what) {
            super("no RESP: " + what);
        }
    }

    private Resp() {}

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

    /** Waits for one value. EOFException: there is none, or not all of it. */
    static Object read(InputStream in) throws IOException {
        return read(in, 0);
    }

    private static Object read(InputStream in, int depth) throws IOException {
        String line = readLine(in);
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
            throw new Broken(line);
        }
        long number;
        try {
            number = Long.parseLong(rest);
        } catch (NumberFormatException e) {
            throw new Broken(line);
        }
        if (kind == ':') {
            return number;
        } else if (number < 0 || number > SIZE_MAX || depth == DEPTH_MAX) {
            throw new Broken("a size of " + number);
        }
        return switch (kind) {
            case '$' -> readText(in, (int) number);
            case '*' -> readList(in, number, depth);
            case '>' -> new Push(readList(in, number, depth));
            case '%' -> toMap(readList(in, 2 * number, depth));
            default -> throw new Broken(line);
        };
    }

    private static int readByte(InputStream in) throws IOException {
        int found = in.read();
        if (found < 0) {
            throw new EOFException("the connection was closed");
        }
        return found;
    }

    private static String readLine(InputStream in) throws IOException {
        var line = new ByteArrayOutputStream();
        for (int found = readByte(in); found != '\r'; found = readByte(in)) {
            line.write(found);
            if (line.size() > LINE_MAX) {
                throw new Broken("a line without an end");
            }
        }
        if (readByte(in) != '\n') {
            throw new Broken("a line that ends wrongly");
        }
        return line.toString(StandardCharsets.UTF_8);
    }

    private static String readText(InputStream in, int size) throws IOException {
        byte[] text = in.readNBytes(size);
        if (readByte(in) != '\r' || readByte(in) != '\n') {
            throw new Broken("a text that does not end where it said");
        }
        return new String(text, StandardCharsets.UTF_8);
    }

    private static List<Object> readList(InputStream in, long count, int depth)
            throws IOException {
        List<Object> values = new ArrayList<>();
        for (long i = 0; i < count; i++) {
            values.add(read(in, depth + 1));
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

    // What is inside a reply; where it is of another type: nothing.

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
