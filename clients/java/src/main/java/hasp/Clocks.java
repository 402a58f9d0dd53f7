// SPDX-License-Identifier: MIT

package hasp;

import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.LongSupplier;

/**
 * Two clocks, in nanoseconds: 'mono' stops while the machine is suspended,
 * 'boot' does not.
 *
 * <p>Java has only the first: System.nanoTime() is CLOCK_MONOTONIC. On Linux
 * /proc/uptime includes suspended time, but in steps of 10 ms, rounded down,
 * and it is read a moment later. So 'boot' is 'mono' plus the time that the
 * machine has slept: if uptime has gained more than 30 ms on 'mono', the
 * machine has slept for that long and up to 10 ms more. Errors are on the safe
 * side: a delay of the process between the two readings counts as sleep.
 * CLOCK_BOOTTIME itself would need native code.
 *
 * <p>The file stays open. It is not a channel, since an interrupt would close
 * that.
 */
final class Clocks {
    private static final long STEP = 10_000_000;
    private static final long NOISE = 30_000_000;

    /** One reading of both. */
    record Reading(long mono, long boot) {
        /** Nanoseconds from then to 'now', on the clock on which more time has
         * passed. */
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
    private final LongSupplier uptime; // Below 0: not available.
    private long slept;
    private long gap = Long.MIN_VALUE; // Uptime minus mono: the recent minimum.

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
