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
 * What one acquisition was given. A hold is its token: (session, lock, owner) may
 * hold, lose and hold again. It begins with one token, and each upgrade gives it a
 * newer one; all tokens between name it, and no other hold. What is believed comes
 * from the answer that granted it, and from what was told since. The lock is the
 * monitor of what changes.
 */
final class Grant {
    /** What was granted of one lock. */
    static final class Part {
        final String name;
        final long first;
        long token;
        long asOf; // The newest state that is known to have it.
        boolean isOver; // The cluster has ended it.

        Part(String name, Told told) {
            this.name = name;
            first = told.first;
            token = told.token;
            asOf = told.asOf;
            isOver = told.count == 0;
        }
    }

    /** What the cluster tells of one hold.
     *
     * @param leftMs -1: it has no limit
     * @param asOf the state that this tells of */
    record Told(String lock, String owner, String mode, long first, long token,
            long count, long leftMs, long asOf) {
        /** Null: it is none. */
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

        /** Empty: it is no answer to what asks for holds. */
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

        /** Is that part the hold that is told of? */
        boolean is(Part part) {
            return part.name.equals(lock) && first <= part.token
                && part.token <= token;
        }
    }

    /** What came of the answer to what asks for a lock. STALE: it is to be asked
     * again, under its number. */
    enum Verdict { GRANTED, OVER, STALE }

    final List<Part> parts = new ArrayList<>();
    boolean isShared;
    boolean isOver; // One of its parts is, or its limit is, by the clock.
    private Reading from; // A limited hold counts from here ...
    private long limitMs; // ... and so long; 0: it has no limit.

    Grant(List<String> names, List<Told> all, Reading sent) {
        for (int i = 0; i < names.size(); i++) {
            Told told = all.get(i);
            parts.add(new Part(names.get(i), told));
            isShared |= told.mode.equals("shared");
            isOver |= told.count == 0;
        }
        limit(all, sent);
    }

    /** The smallest limit of several counts. */
    void limit(List<Told> all, Reading sent) {
        from = sent;
        limitMs = all.stream().mapToLong(Told::leftMs).filter(ms -> ms >= 0).min()
            .orElse(0);
    }

    boolean isLimited() {
        return limitMs != 0;
    }

    /** Of its limit, in nanoseconds. */
    long left(Reading now) {
        return isLimited() ? Lease.holdRemaining(from, limitMs, now) : Time.FOREVER;
    }

    /** What the answer to what was sent then is worth, as far as it alone says.
     * 'isAgain': an earlier answer also had a time limit that was over. */
    static Verdict judge(List<Told> all, Reading sent, boolean isAgain) {
        Reading now = Clocks.now();
        boolean isLate = all.stream().anyMatch(told -> told.count > 0
            && told.leftMs >= 0 && Lease.holdRemaining(sent, told.leftMs, now) == 0);
        return !isLate ? Verdict.GRANTED : isAgain ? Verdict.OVER
            : Verdict.STALE;
    }

    /** Those that the cluster may still have. */
    List<Part> kept() {
        return parts.stream().filter(part -> !part.isOver).toList();
    }

    /** Ends those; gives the tokens of what was believed in. */
    Set<Long> end(Predicate<Part> which) {
        Set<Long> tokens = new TreeSet<>();
        for (Part part : parts) {
            if (!part.isOver && which.test(part)) {
                if (!isOver) {
                    tokens.add(part.token);
                }
                part.isOver = isOver = true;
            }
        }
        return tokens;
    }
}
