// SPDX-License-Identifier: MIT

package hasp;

import java.io.IOException;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * Which cluster the process works with, so that it does not lock at another one which
 * happens to answer at one of its endpoints. Each node says in its answer to HELLO to
 * which life of a cluster it belongs, and from which lives that was restored. The
 * first life at which something was done becomes the known one. A node of another
 * life is a stranger, unless its life was restored from the known one, or every
 * endpoint showed that same life when it was reached last, and no session of the
 * process is believed any longer. It is never stored.
 */
final class KnownCluster {
    private static final Map<List<String>, KnownCluster> ALL = new HashMap<>();

    private final List<String> endpoints;
    private final Map<String, String> shown = new HashMap<>(); // Other lives.
    private final Set<Session> sessions = new HashSet<>(); // May be believed.
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

    /** The same for all connections of the process to these endpoints. */
    static KnownCluster at(List<String> endpoints) {
        synchronized (ALL) {
            return ALL.computeIfAbsent(endpoints, KnownCluster::new);
        }
    }

    /** Reads the answer to HELLO, and gives the node's cluster, "" if it says
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

    /** It was not reached. */
    synchronized void missed(String endpoint) {
        shown.remove(endpoint);
    }

    /** A node of that life has done something. */
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
