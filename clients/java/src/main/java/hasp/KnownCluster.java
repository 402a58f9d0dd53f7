// SPDX-License-Identifier: MIT

package hasp;

import java.io.IOException;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * The cluster that the process works with. It prevents the process from locking
 * in another cluster that happens to answer at one of its endpoints. In its
 * answer to HELLO each node names the life of its cluster, and the lives from
 * which that one was restored. The first life in which a request was done
 * becomes the known one. A node of another life is rejected, unless that life
 * was restored from the known one, or every endpoint showed that same life when
 * it was last reached and the process has no trusted session left. Nothing is
 * stored.
 */
final class KnownCluster {
    private static final Map<List<String>, KnownCluster> ALL = new HashMap<>();

    private final List<String> endpoints;
    private final Map<String, String> shown = new HashMap<>(); // Other lives.
    private final Set<Session> sessions = new HashSet<>(); // Might be trusted.
    private String id = "";

    /** A node of another cluster, or of none. 'notice' is for people, or "". */
    static final class Stranger extends IOException {
        private static final long serialVersionUID = 1;
        final String notice;

        Stranger(String why, String notice) {
            super(why);
            this.notice = notice;
        }
    }

    private KnownCluster(List<String> endpoints) {
        this.endpoints = endpoints;
    }

    /** Returns the same object for all connections of the process to these
     * endpoints. */
    static KnownCluster at(List<String> endpoints) {
        synchronized (ALL) {
            return ALL.computeIfAbsent(endpoints, KnownCluster::new);
        }
    }

    /** Reads the answer to HELLO, and returns the node's cluster; "": it names
     * none. */
    synchronized String judge(String endpoint, Object greeting) throws Stranger {
        if (!(greeting instanceof Map<?, ?> told)
                || !(told.get("cluster") instanceof String name)) {
            return "";
        }
        if (name.isEmpty()) {
            throw new Stranger("belongs to no cluster yet", "");
        }
        if (id.isEmpty() || id.equals(name)) {
            shown.remove(endpoint);
            return name;
        }
        boolean wasShown = name.equals(shown.put(endpoint, name));
        if (told.get("former") instanceof List<?> former && former.contains(id)
                || isAllThereIs(name)) {
            id = name;
            shown.clear();
            return name;
        }
        String why = "is a node of another cluster (" + name + ", not " + id + ")";
        throw new Stranger(why, wasShown ? ""
            : endpoint + " " + why + "; it is asked nothing");
    }

    private boolean isAllThereIs(String name) {
        return endpoints.stream().allMatch(one -> name.equals(shown.get(one)))
            && sessions.stream().allMatch(
                one -> one.state() == Session.State.LOST);
    }

    /** The endpoint could not be reached. */
    synchronized void missed(String endpoint) {
        shown.remove(endpoint);
    }

    /** A node of that life has done a request. */
    synchronized void learn(String name) {
        if (id.isEmpty()) {
            id = name;
        }
    }

    synchronized void add(Session session) {
        sessions.add(session);
    }

    synchronized void remove(Session session) {
        sessions.remove(session);
    }
}
