// SPDX-License-Identifier: MIT

package hasp;

import java.util.Map;

/** An error; its reason says what the caller can do. */
public final class HaspException extends RuntimeException {
    private static final long serialVersionUID = 1;

    /** The possible remedies of the caller. */
    public enum Reason {
        /** The lease cannot be trusted: stop what the lock protects. If the
         * session is lost, open another one. */
        LOST,
        /** The lock is held, but the step might not end within the lease. */
        SHORT,
        /** onGrant failed or took too long, so the lock was given back. The cause
         * is the exception of the hook. */
        SEAL,
        /** The lock is not held, or no longer held: the last steps might have run
         * without it. */
        NOT_HELD,
        /** No answer came in time, so the request might have been done. The
         * session finds out in the background and releases unwanted grants. */
        UNKNOWN,
        /** No node could do it; nothing was done. */
        UNREACHABLE,
        /** The cluster refused the request; nothing was done. */
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

    /** The error for a refusal of a node. */
    HaspException(Resp.Refusal refusal) {
        this(REASONS.getOrDefault(refusal.word(), Reason.REFUSED), refusal);
    }

    HaspException(Reason reason, Resp.Refusal refusal) {
        super(refusal.text());
        this.word = refusal.word();
        this.reason = reason;
    }

    /** The possible remedy of the caller. */
    public Reason reason() {
        return reason;
    }

    /** The cluster's error word (LIMIT, DEADLOCK, BADARG ...: docs/protocol.md has
     * them all); "" if the error is not from the cluster. */
    public String word() {
        return word;
    }

    /** True if the refusal concerns only this attempt: the client's credentials,
     * or a full disk of the leader. An earlier attempt might still be in
     * flight. */
    boolean isOpenStill() {
        return isOfAsker() || getMessage().startsWith("LIMIT disk");
    }

    /** True if the refusal concerns the client's credentials. */
    boolean isOfAsker() {
        return word.equals("NOAUTH") || word.equals("WRONGPASS")
            || word.equals("NOTLS");
    }

    /** True if the request is to be sent again under its number: this attempt did
     * nothing, or its outcome is unknown. */
    boolean isToBeRepeated(boolean isDoubtful) {
        return reason == Reason.UNREACHABLE || word.equals("UNKNOWN")
            || (isDoubtful && isOpenStill());
    }

    /** True if this answer to ATTACH ends the session. */
    boolean endsSession() {
        return reason == Reason.LOST || word.equals("BLACKLISTED");
    }

    /** True if this node knows no leader. */
    boolean isNoLeader() {
        return word.equals("NOLEADER") || word.equals("MOVED");
    }

    /** True if the connection has no room for another session. */
    boolean isFullConnection() {
        return getMessage().startsWith("LIMIT sessions of a connection");
    }

    /** True if the cluster no longer has the result of that request. */
    boolean isForgotten() {
        return word.equals("FORGOTTEN");
    }
}
