// SPDX-License-Identifier: MIT

package hasp;

import java.util.Map;

/** What went wrong, told apart by what the caller can do about it. */
public final class HaspException extends RuntimeException {
    private static final long serialVersionUID = 1;

    /** What can be done about it. */
    public enum Reason {
        /** The lease cannot be trusted: stop what the lock protects; if it is
         * the session's, open another one. */
        LOST,
        /** The lock is held, but the step may not end inside the lease. */
        SHORT,
        /** The lock was not held any more: the last steps may have been done
         * without it. */
        NOT_HELD,
        /** No answer came in time: it may or may not have been done. The session
         * finds out by itself, and gives back what nobody waits for. */
        UNKNOWN,
        /** No node could do it; nothing was done. */
        UNREACHABLE,
        /** The cluster says no, and why; nothing was done. */
        REFUSED
    }

    private static final Map<String, Reason> REASONS = Map.of(
        "EXPIRED", Reason.LOST, "NOSESSION", Reason.LOST,
        "NOTHELD", Reason.NOT_HELD, "UNKNOWN", Reason.UNKNOWN,
        "FORGOTTEN", Reason.UNKNOWN, "NOLEADER", Reason.UNREACHABLE,
        "BUSY", Reason.UNREACHABLE, "MOVED", Reason.UNREACHABLE);

    private final Reason reason;
    private final String word;

    HaspException(Reason reason, String text) {
        super(text);
        this.reason = reason;
        this.word = "";
    }

    /** Of what a node has answered. */
    HaspException(Resp.Refusal refusal) {
        super(refusal.text());
        this.word = refusal.word();
        this.reason = REASONS.getOrDefault(word, Reason.REFUSED);
    }

    /** What can be done about it. */
    public Reason reason() {
        return reason;
    }

    /** The cluster's own word (LIMIT, DEADLOCK, BADARG ...: docs/protocol.md has
     * them all); "" where it is not the cluster that says so. */
    public String word() {
        return word;
    }

    /** What is told of who asks, or that the leader has no room on its disk, is
     * no result: it says nothing of an earlier sending, which may be on its way
     * still. */
    boolean isOpenStill() {
        return isOfAsker() || getMessage().startsWith("LIMIT disk");
    }

    /** It is told of who asks. */
    boolean isOfAsker() {
        return word.equals("NOAUTH") || word.equals("WRONGPASS")
            || word.equals("NOTLS");
    }

    /** Asking again, with the same number, may tell more: nothing was done by this
     * sending, or nobody knows. */
    boolean isToBeRepeated(boolean isDoubtful) {
        return reason == Reason.UNREACHABLE || word.equals("UNKNOWN")
            || (isDoubtful && isOpenStill());
    }

    /** As the answer to ATTACH. */
    boolean endsSession() {
        return reason == Reason.LOST || word.equals("BLACKLISTED");
    }

    /** That node can do nothing. */
    boolean isNoLeader() {
        return word.equals("NOLEADER") || word.equals("MOVED");
    }

    /** A node takes no more sessions on that connection. */
    boolean isFullConnection() {
        return getMessage().startsWith("LIMIT sessions of a connection");
    }

    /** Asking again under the same number tells no more. */
    boolean isForgotten() {
        return word.equals("FORGOTTEN");
    }
}
