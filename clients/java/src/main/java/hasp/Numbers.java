// SPDX-License-Identifier: MIT

package hasp;

import java.util.ArrayList;
import java.util.List;

/**
 * Those of a session's requests. No two requests have the same one, and one that
 * is sent again does nothing again. Each request tells which ones are over, so
 * that the cluster may forget them.
 */
final class Numbers {
    private static final int RANGES = 16; // That a node takes in ACKED.

    private long newest;
    private final List<Long> open = new ArrayList<>(); // Not over; ascending.
    private int turn; // Where the next ranges begin.

    synchronized long begin() {
        open.add(++newest);
        return newest;
    }

    synchronized void end(long number) {
        open.remove(number); // The object, not the place.
    }

    /** "4,6-9": all up to the first that is open, and the ranges between open
     * ones; of very many some, and others with the next request. */
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
