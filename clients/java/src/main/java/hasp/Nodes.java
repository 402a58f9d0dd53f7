// SPDX-License-Identifier: MIT

package hasp;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ThreadLocalRandom;

/** The addresses of the cluster, and the connections to them. */
final class Nodes {
    private static final String DEFAULT =
        "127.0.0.1:7420,127.0.0.1:7430,127.0.0.1:7440";
    /** For a connection, with its greetings. */
    static final long CONNECT = 1000 * Time.MS;
    private static final int IDLE_MAX = 8; // Kept for later requests.

    private final List<String> endpoints = new ArrayList<>();
    private final Deque<Connection> idle = new ArrayDeque<>();
    private final Set<Connection> busy = ConcurrentHashMap.newKeySet();
    private volatile int turn; // The endpoint that answered last.
    private volatile boolean isClosed;

    /** 'text' may be null: what the environment says. */
    Nodes(String text) {
        String all = Optional.ofNullable(text).or(() -> Optional.ofNullable(
            System.getenv("HASP_ENDPOINTS"))).orElse(DEFAULT);
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
        turn = ThreadLocalRandom.current().nextInt(endpoints.size());
    }

    static int port(String endpoint) {
        return Integer.parseInt(endpoint.substring(endpoint.lastIndexOf(':') + 1));
    }

    int count() {
        return endpoints.size();
    }

    int turn() {
        return turn;
    }

    String endpoint(int at) {
        return endpoints.get(Math.floorMod(at, endpoints.size()));
    }

    /** An idle connection to that node; null: there is none. */
    Connection take(int at) {
        synchronized (idle) {
            for (Connection one : List.copyOf(idle)) {
                if (one.isClosed() || one.endpoint.equals(endpoint(at))) {
                    idle.remove(one);
                    if (!one.isClosed()) {
                        busy.add(one);
                        return one;
                    }
                }
            }
        }
        return null;
    }

    void use(Connection one) {
        busy.add(one);
    }

    /** Takes a connection back that has answered. */
    void put(Connection one, int at) {
        busy.remove(one);
        turn = at;
        synchronized (idle) {
            if (idle.size() < IDLE_MAX && !isClosed) {
                idle.add(one);
                return;
            }
        }
        one.close();
    }

    /** One that has failed. */
    void drop(Connection one) {
        busy.remove(one);
        one.close();
    }

    /** A node that does not answer a heartbeat leaves those who wait for a lock
     * in the dark, too. They go on at another one. */
    void suspect(String endpoint) {
        busy.stream().filter(one -> one.endpoint.equals(endpoint))
            .forEach(Connection::close);
    }

    void close() {
        synchronized (idle) {
            isClosed = true;
            idle.forEach(Connection::close);
            idle.clear();
        }
        busy.forEach(Connection::close);
    }
}
