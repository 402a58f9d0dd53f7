// SPDX-License-Identifier: MIT

package hasp;

import java.util.ArrayList;
import java.util.List;

/**
 * The numbers of a session's requests. Each is used for one request, which
 * takes effect once however often it is sent. Each request lists the finished
 * numbers, so that the cluster can forget their results.
 */
final class Numbers {
    private static final int RANGES = 16; // Most ranges in ACKED.

    private long newest;
    private final List<Long> open = new ArrayList<>(); // Unfinished; ascending.
    private int turn; // Where the next ranges begin.

    synchronized long begin() {
        open.add(++newest);
        return newest;
    }

    synchronized void end(long number) {
        open.remove(number); // The object, not the place.
    }

    /** "4,6-9": all numbers up to the first open one, and the ranges between
     * open ones. If there are too many ranges, the next request sends the
     * others. */
    synchronized String acked() {
        List<String> words = new ArrayList<>();
        words.add(Long.toString(open.get(0) - 1));
        for (int i = 0; i < open.size() && words.size() <= RANGES; i++) {
            int at = (turn + i) % open.size();
            long from = open.get(at) + 1;
            long to = at + 1 < open.size() ? open.get(at + 1) - 1 : newest;
            if (from <= to) {
                words.add(from + "-" + to);
            }
            if (words.size() > RANGES) {
                turn = at + 1;
            }
        }
        return String.join(",", words);
    }
}
