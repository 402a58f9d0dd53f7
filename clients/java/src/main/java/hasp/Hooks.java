// SPDX-License-Identifier: MIT

package hasp;

import java.time.Duration;
import java.time.Instant;

/**
 * Learns of each acquisition, for traces and metrics
 * ({@link Session.Options#hooks}). {@link #acquire} comes first, then
 * {@link #wait(Event)} if others have the lock, then {@link #granted} or
 * {@link #failed}; a hold ends by {@link #released} or {@link #lost}.
 * They are called one after the other, on a thread of their own, and must not
 * close the session. The first exception of a session is reported by
 * {@link Session.Kind#NOTICE}. docs/clients.md has the rules that all clients
 * share.
 */
public interface Hooks {
    /** The kinds of events, in their order. */
    enum Kind { ACQUIRE, WAIT, GRANTED, FAILED, RELEASED, LOST }

    /** An event of one acquisition.
     *
     * @param kind which hook it is for
     * @param id numbers the acquisitions of the session
     * @param lock of several, the first one
     * @param token of that lock; 0 until it is granted
     * @param trace {@link HaspLock.Options#trace}; "": none
     * @param at by the wall clock, for people
     * @param elapsed since ACQUIRE; for RELEASED and LOST, since GRANTED
     * @param text the reason of FAILED and LOST
     * @param skipped earlier acquisitions that no hook was called for */
    record Event(Kind kind, long id, String lock, long token, String trace,
            Instant at, Duration elapsed, String text, long skipped) {}

    /** An acquisition begins; no request was sent yet. */
    default void acquire(Event event) {}

    /** The cluster has put the request into the queue. */
    default void wait(Event event) {}

    /** It is held; onGrant, if there is one, runs after this. */
    default void granted(Event event) {}

    /** It was not granted. */
    default void failed(Event event) {}

    /** The program has released it; the request is sent after this. */
    default void released(Event event) {}

    /** The hold was lost. */
    default void lost(Event event) {}
}
