// SPDX-License-Identifier: MIT

package hasp;

import java.util.ArrayList;
import java.util.List;
import java.util.Optional;

/** The addresses of a cluster. */
final class Nodes {
    private static final String DEFAULT =
        "127.0.0.1:7420,127.0.0.1:7430,127.0.0.1:7440";

    private Nodes() {}

    /** 'text' may be null: what the environment says. */
    static List<String> read(String text) {
        String all = Optional.ofNullable(text).or(() -> Optional.ofNullable(
            System.getenv("HASP_ENDPOINTS"))).orElse(DEFAULT);
        List<String> endpoints = new ArrayList<>();
        for (String part : all.split(",", -1)) {
            String endpoint = part.trim();
            if (endpoint.startsWith(Line.SOCKET + "/")) {
                endpoints.add(endpoint);
                continue;
            }
            if (!endpoint.matches(".*[^:\\]]:[0-9]+|\\[.*\\]:[0-9]+")) {
                endpoint += ":7420";
            }
            if (!endpoint.matches("(\\[[^\\[\\]]+\\]|[^:\\[\\]]+):[0-9]{1,5}")
                    || port(endpoint) < 1 || port(endpoint) > 65535) {
                throw new IllegalArgumentException("'" + part + "' is no "
                    + "address of a node; write host:port, as in "
                    + "127.0.0.1:7420");
            }
            endpoints.add(endpoint);
        }
        return endpoints;
    }

    static int port(String endpoint) {
        return Integer.parseInt(endpoint.substring(endpoint.lastIndexOf(':') + 1));
    }
}
