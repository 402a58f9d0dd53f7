// SPDX-License-Identifier: MIT

package hasp;

import java.io.IOException;
import java.lang.ref.WeakReference;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * The credentials of a connection: certificates and a user's secret, from files
 * that are read again before each connection. If the files are half written, or
 * belong to another user, the last good credentials stay in use.
 */
final class Credentials {
    /** The parameters of a connection.
     *
     * @param tls null: not encrypted
     * @param auth the request that presents the secret; empty: none
     * @param who the users that it authenticates as */
    record Shown(Tls tls, List<String> auth, String who) {}

    /** The result of reading the files again.
     *
     * @param hasChanged true if changed files came into use
     * @param notice once for each reason, why the files cannot be used; or
     * "" */
    record Renewal(boolean hasChanged, String notice) {}

    /** The credentials of the process, by path: while a session uses the files,
     * they can be half written when another one is opened. The map is its own
     * monitor. */
    private static final Map<List<String>, WeakReference<Credentials>> KNOWN =
        new HashMap<>();

    private final String folder;
    private final String cluster;
    private final String file;

    // 'this' is the monitor of the following fields.
    private List<String> texts;
    private Shown shown;
    private boolean isKnown; // A node has done a request.
    // Why the files cannot be used, as last reported.
    private String refused = "";

    private Credentials(String folder, String cluster, String file) {
        this.folder = folder == null ? "" : folder;
        this.cluster = cluster;
        this.file = file == null ? "" : file;
        try {
            texts = read();
            shown = make(texts);
        } catch (IOException e) {
            throw new IllegalArgumentException(e.getMessage(), e);
        }
    }

    /** Returns the same object for the same connections. The arguments are the
     * folder with certificates, the cluster's name and the file with the
     * secret; null: none. */
    static Credentials of(String folder, String cluster, String file) {
        List<String> key = List.of(String.valueOf(folder), String.valueOf(cluster),
            String.valueOf(file));
        synchronized (KNOWN) {
            WeakReference<Credentials> reference = KNOWN.get(key);
            Credentials before = reference == null ? null : reference.get();
            try {
                var made = new Credentials(folder, cluster, file);
                if (before != null && before.now().who().equals(made.now().who())) {
                    return before;
                }
                KNOWN.put(key, new WeakReference<>(made));
                return made;
            } catch (IllegalArgumentException e) {
                if (before == null || !before.isKnown()) {
                    throw e;
                }
                return before;
            }
        }
    }

    private List<String> read() throws IOException {
        List<String> certificates = folder.isEmpty() ? List.of("", "", "")
            : Tls.read(folder);
        return List.of(certificates.get(0), certificates.get(1),
            certificates.get(2), file.isEmpty() ? "" : Secret.read(file));
    }

    private Shown make(List<String> read) throws IOException {
        Tls tls = folder.isEmpty() ? null : new Tls(folder, cluster, read);
        List<String> auth = file.isEmpty() ? List.of()
            : Secret.auth(file, read.get(3));
        return new Shown(tls, auth, (tls == null ? "" : tls.user) + " "
            + (auth.isEmpty() ? "" : auth.get(1)));
    }

    synchronized Shown now() {
        return shown;
    }

    synchronized boolean isKnown() {
        return isKnown;
    }

    synchronized void letIn() {
        isKnown = true;
    }

    /** True if another attempt is useful although a node refused the
     * credentials. */
    boolean mayAskAgain() {
        return isKnown() || renew().hasChanged();
    }

    /** Reads the files again. */
    synchronized Renewal renew() {
        try {
            List<String> read = read();
            if (read.equals(texts)) {
                refused = "";
                return new Renewal(false, "");
            }
            Shown made = make(read);
            if (!made.who().equals(shown.who())) {
                throw new IOException("they belong to another user, which has no "
                    + "rights to this session");
            }
            texts = read;
            shown = made;
            refused = "";
            return new Renewal(true, "");
        } catch (IOException | IllegalArgumentException e) {
            String text = "the new certificates or secret are not taken: "
                + e.getMessage();
            boolean isNews = !text.equals(refused);
            refused = text;
            return new Renewal(false, isNews ? text : "");
        }
    }
}
