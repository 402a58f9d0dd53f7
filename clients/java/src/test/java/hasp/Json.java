// SPDX-License-Identifier: MIT

package hasp;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** As much of JSON as tests need: Map, List, String, Long, Boolean, null. */
final class Json {
    private final String text;
    private int at;

    private Json(String text) {
        this.text = text;
    }

    static Object read(String text) {
        Json json = new Json(text);
        return json.value();
    }

    static String write(Object value) {
        if (value instanceof Map<?, ?> map) {
            List<String> parts = new ArrayList<>();
            map.forEach((key, one) -> parts.add(write(key) + ":" + write(one)));
            return "{" + String.join(",", parts) + "}";
        } else if (value instanceof List<?> list) {
            return "[" + String.join(",", list.stream().map(Json::write).toList())
                + "]";
        } else if (!(value instanceof String string)) {
            return String.valueOf(value);
        } else {
            StringBuilder out = new StringBuilder("\"");
            for (char one : string.toCharArray()) {
                out.append(one < ' ' || one == '"' || one == '\\'
                    ? String.format("\\u%04x", (int) one) : one);
            }
            return out.append('"').toString();
        }
    }

    private char next() {
        while (Character.isWhitespace(text.charAt(at))) {
            at++;
        }
        return text.charAt(at);
    }

    /** Skips it if it comes next. */
    private boolean skip(String what) {
        boolean isThere = next() == what.charAt(0) && text.startsWith(what, at);
        at += isThere ? what.length() : 0;
        return isThere;
    }

    private Object value() {
        if (skip("{")) {
            Map<String, Object> found = new LinkedHashMap<>();
            while (!skip("}")) {
                skip(",");
                String key = (String) value();
                skip(":");
                found.put(key, value());
            }
            return found;
        } else if (skip("[")) {
            List<Object> found = new ArrayList<>();
            while (!skip("]")) {
                skip(",");
                found.add(value());
            }
            return found;
        } else if (skip("\"")) {
            return string();
        } else if (skip("null")) {
            return null;
        } else if (skip("true")) {
            return true;
        } else if (skip("false")) {
            return false;
        }
        int start = at;
        while (at < text.length() && "+-0123456789".indexOf(text.charAt(at)) >= 0) {
            at++;
        }
        return Long.parseLong(text.substring(start, at));
    }

    private String string() {
        StringBuilder out = new StringBuilder();
        for (char one = text.charAt(at++); one != '"'; one = text.charAt(at++)) {
            if (one != '\\') {
                out.append(one);
                continue;
            }
            char escaped = text.charAt(at++);
            if (escaped == 'u') {
                out.append((char) Integer.parseInt(text.substring(at, at + 4), 16));
                at += 4;
            } else {
                int place = "nrtbf".indexOf(escaped);
                out.append(place < 0 ? escaped : "\n\r\t\b\f".charAt(place));
            }
        }
        return out.toString();
    }
}
