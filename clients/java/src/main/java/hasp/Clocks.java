// SPDX-License-Identifier: MIT

package hasp;

import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.LongSupplier;

/**
 * Two clocks, in nanoseconds: 'mono' stands still while the machine is
 * suspended, 'boot' does not.
 *
 * <p>Java has the first alone: System.nanoTime() is CLOCK_MONOTONIC.
 * /proc/uptime counts suspended time, but in steps of 10 ms, rounded down, and
 * read a moment later. So 'boot' is 'mono' and what the machine has slept: where
 * uptime has gained more than 30 ms on 'mono', it has slept for that and up to
 * 10 ms longer. What errs, errs to the side of caution: a process that was held
 * up between the two readings takes that for sleep. CLOCK_BOOTTIME itself would
 * need native code.
 *
 * <p>The file stays open, and is no channel: an interrupt would close that.
 */
final class Clocks {
    private static final long STEP = 10_000_000;
    private static final long NOISE = 30_000_000;

    /** One reading of both. */
    record Reading(long mono, long boot) {
        /** Nanoseconds from then to 'now', on whichever clock more has passed. */
        long age(Reading now) {
            return Math.max(0, Math.max(now.mono - mono, now.boot - boot));
        }

        boolean isBefore(Reading other) {
            return mono == other.mono ? boot < other.boot : mono < other.mono;
        }
    }

    private static final Clocks SYSTEM = new Clocks(System::nanoTime, uptime());

    private final ReentrantLock reading = new ReentrantLock();
    private final LongSupplier mono;
    private final LongSupplier uptime; // Below 0: there is none.
    private long slept;
    private long gap = Long.MIN_VALUE; // Of uptime to mono: the least of late.

    Clocks(LongSupplier mono, LongSupplier uptime) {
        this.mono = mono;
        this.uptime = uptime;
    }

    static Reading now() {
        return SYSTEM.read();
    }

    Reading read() {
        reading.lock();
        try {
            long now = mono.getAsLong(); // First: see above.
            long up = uptime.getAsLong();
            long found = up - now;
            if (up >= 0 && gap != Long.MIN_VALUE && found - gap > NOISE) {
                slept += found - gap + STEP;
                gap = found;
            } else if (up >= 0 && (gap == Long.MIN_VALUE || found < gap)) {
                gap = found;
            }
            return new Reading(now, now + slept);
        } finally {
            reading.unlock();
        }
    }

    /** "12345.67 ..." in nanoseconds. */
    private static LongSupplier uptime() {
        RandomAccessFile file;
        try {
            file = new RandomAccessFile("/proc/uptime", "r");
        } catch (IOException e) {
            return () -> -1; // Not Linux: the monotonic clock alone.
        }
        byte[] text = new byte[64];
        return () -> {
            try {
                file.seek(0);
                int size = file.read(text);
                String all = new String(text, 0, size, StandardCharsets.US_ASCII);
                int point = all.indexOf('.');
                return Long.parseLong(all.substring(0, point)) * 1_000_000_000
                    + Long.parseLong(all.substring(point + 1, point + 3)) * STEP;
            } catch (IOException | RuntimeException e) {
                return -1;
            }
        };
    }
}
