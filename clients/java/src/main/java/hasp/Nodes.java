// SPDX-License-Identifier: MIT

package hasp;

import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** The addresses of a cluster. */
final class Nodes {
    private static final String DEFAULT =
        "127.0.0.1:7420,127.0.0.1:7430,127.0.0.1:7440";

    /** [host] or host, with or without a port; or an IPv6 address alone.
     * Characters that no host name has are refused: they mean a URL, or a list
     * with other commas. */
    private static final Pattern ADDRESS = Pattern.compile(
        "(\\[[^\\[\\]\\s,/;@]+\\]|[^\\[\\]\\s,/;@:]+)(:[0-9]{1,5})?"
        + "|([^\\[\\]\\s,/;@:]*:[^\\[\\]\\s,/;@:]*:[^\\[\\]\\s,/;@]*)");

    private Nodes() {}

    /** 'text' can be null: the environment is used. */
    static List<String> read(String text) {
        String all = Optional.ofNullable(text).or(() -> Optional.ofNullable(
            System.getenv("HASP_ENDPOINTS"))).orElse(DEFAULT);
        List<String> endpoints = new ArrayList<>();
        for (String part : all.split(",", -1)) {
            endpoints.add(one(part.trim()));
        }
        return endpoints;
    }

    private static String one(String text) {
        if (text.startsWith(Line.SOCKET + "/")) {
            return text;
        }
        Matcher found = ADDRESS.matcher(text);
        String endpoint = "";
        if (found.matches()) {
            endpoint = found.group(3) != null ? "[" + text + "]:7420"
                : found.group(2) != null ? text : text + ":7420";
        }
        if (endpoint.isEmpty() || port(endpoint) < 1 || port(endpoint) > 65535) {
            throw new IllegalArgumentException("'" + text + "' is not an address of a "
                + "node; write host:port, as in 127.0.0.1:7420");
        }
        return endpoint;
    }

    static int port(String endpoint) {
        return Integer.parseInt(endpoint.substring(endpoint.lastIndexOf(':') + 1));
    }
}
