// SPDX-License-Identifier: MIT

package hasp;

import hasp.Clocks.Reading;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import java.util.Set;
import java.util.function.Predicate;

/**
 * The result of one acquisition. A hold is identified by its token, since the
 * same (session, lock, owner) can hold, lose and hold again. It begins with one
 * token, and each upgrade gives it a newer one; all tokens in between belong to
 * this hold only. The client believes in it because of the answer that granted
 * it and the reports since then. The lock is the monitor of its mutable fields.
 */
final class Grant {
    /** The grant of one lock. */
    static final class Part {
        final String name;
        final long first;
        final boolean isFirst; // Its owner did not hold it before.
        long token;
        long asOf; // The newest state known to contain it.
        boolean isOver; // The cluster has ended it.

        Part(String name, Told told) {
            this.name = name;
            first = told.first;
            token = told.token;
            asOf = told.asOf;
            isFirst = told.count == 1;
            isOver = told.count == 0;
        }
    }

    /** The cluster's report on one hold.
     *
     * @param leftMs -1: it has no limit
     * @param asOf the state that the report is about */
    record Told(String lock, String owner, String mode, long first, long token,
            long count, long leftMs, long asOf) {
        /** Null: it is malformed. */
        static Told of(Object value) {
            if (!(value instanceof Map<?, ?> from)
                    || !(from.get("count") instanceof Long count)
                    || !(from.get("as_of") instanceof Long asOf)
                    || !(from.get("token") instanceof Long token)
                    || !(from.get("first") instanceof Long first)) {
                return null;
            }
            Object left = from.get("hold_left_ms");
            boolean isNone = first <= 0 || first > token || count < 0
                || left != null && !(left instanceof Long);
            return isNone ? null : new Told(Resp.text(from, "lock"),
                Resp.text(from, "owner"), Resp.text(from, "mode"), first, token,
                count, left instanceof Long ms ? ms : -1, asOf);
        }

        /** Empty: it is not an answer to a request for holds. */
        static List<Told> all(Object reply) {
            List<Told> found = new ArrayList<>();
            if (reply == null) {
                return found;
            }
            for (Object one : reply instanceof List<?> list ? list
                    : List.of(reply)) {
                Told told = of(one);
                if (told == null) {
                    return List.of();
                }
                found.add(told);
            }
            return found;
        }

        /** True if the part is the hold that the report is about. */
        boolean is(Part part) {
            return part.name.equals(lock) && first <= part.token
                && part.token <= token;
        }

        /** Likewise, of a page of the list of all holds. */
        boolean confirms(Part part) {
            if (is(part)) {
                part.asOf = Math.max(part.asOf, asOf);
            }
            return is(part);
        }
    }

    /** The result of a request for a lock. STALE: the request must be sent
     * again, under its number. */
    enum Verdict { GRANTED, OVER, STALE }

    /** Judges the answer to the request sent then; 'isAgain': an earlier answer
     * was stale. */
    interface Take {
        Verdict take(List<Told> all, Reading sent, boolean isAgain);
    }

    /** Sends a request, and returns its answer. */
    interface Asking {
        Object ask() throws InterruptedException;
    }

    final List<Part> parts = new ArrayList<>();
    boolean isShared;
    boolean isOver; // A part is over, or the limit is over by the clock.
    private Reading from; // The start of the limit.
    private long limitMs; // The limit; 0: none.
    final Reporter.Acquisition reported; // To hooks.

    Grant(List<String> names, List<Told> all, Reading sent,
            Reporter.Acquisition reported) {
        this.reported = reported;
        for (int i = 0; i < names.size(); i++) {
            Told told = all.get(i);
            parts.add(new Part(names.get(i), told));
            isShared |= told.mode.equals("shared");
            isOver |= told.count == 0;
        }
        limit(all, sent);
    }

    /** Sets the limit: the smallest one of several holds. */
    void limit(List<Told> all, Reading sent) {
        from = sent;
        limitMs = all.stream().mapToLong(Told::leftMs).filter(ms -> ms >= 0).min()
            .orElse(0);
    }

    boolean isLimited() {
        return limitMs != 0;
    }

    /** The remaining time of the limit, in nanoseconds. */
    long left(Reading now) {
        return isLimited() ? Lease.holdRemaining(from, limitMs, now) : Time.FOREVER;
    }

    /** Judges the answer to a request sent then, by that answer alone.
     * 'isAgain': an earlier answer also had a time limit that was over. */
    static Verdict judge(List<Told> all, Reading sent, boolean isAgain) {
        Reading now = Clocks.now();
        boolean isLate = all.stream().anyMatch(told -> told.count > 0
            && told.leftMs >= 0 && Lease.holdRemaining(sent, told.leftMs, now) == 0);
        return !isLate ? Verdict.GRANTED : isAgain ? Verdict.OVER
            : Verdict.STALE;
    }

    /** The parts that the cluster might still hold. */
    List<Part> kept() {
        return parts.stream().filter(part -> !part.isOver).toList();
    }

    /** Ends those parts; returns the tokens that were trusted. */
    Set<Long> end(Predicate<Part> which, String why) {
        Set<Long> tokens = new TreeSet<>();
        for (Part part : parts) {
            if (!part.isOver && which.test(part)) {
                if (!isOver) {
                    tokens.add(part.token);
                }
                part.isOver = isOver = true;
                reported.lost(why);
            }
        }
        return tokens;
    }
}
