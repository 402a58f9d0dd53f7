// SPDX-License-Identifier: MIT

import hasp.HaspLock;
import hasp.Session;
import java.time.Duration;

/**
 * A write that cannot come too late: the resource refuses an old token. Here the
 * cluster remembers the highest token for it (FENCE.ADMIT); a database does that
 * itself, with "UPDATE ... WHERE fence <= token".
 */
public class Fenced {
    public static void main(String[] arguments) {
        try (Session session = Session.open()) {
            HaspLock lock = session.lock("ledger");
            lock.lock();
            long old = lock.token();
            lock.unlock();
            lock.lock();
            try {
                lock.guard(Duration.ofSeconds(1)); // Does a step of 1 s fit?
                for (long token : new long[] {lock.token(), old}) {
                    System.out.println("token " + token + ": write "
                        + session.admit("ledger-file", token));
                }
            } finally {
                lock.unlock();
            }
        }
    }
}
