// SPDX-License-Identifier: MIT

import hasp.Session;
import java.time.Duration;

/**
 * A job once per period and cluster: run it from cron on every machine.
 *
 * <p>The lock is named after the period and left to its TTL, so that a machine
 * with a slow clock does not run the job again.
 */
public class Cron {
    public static void main(String[] arguments) {
        if (arguments.length != 2) {
            System.err.println("usage: Cron JOB PERIOD");
            System.exit(64);
        }
        Session session = Session.open(
            new Session.Options().ttl(Duration.ofMinutes(1)));
        if (session.lock(arguments[0] + "/" + arguments[1]).tryLock()) {
            System.out.println("runs " + arguments[0]);
            // The job. Neither unlock() nor close(): the session ends by its TTL.
        } else {
            System.out.println("another machine runs " + arguments[0]);
        }
    }
}
