// SPDX-License-Identifier: MIT

/**
 * A client of hasp, a replicated lock service: locks that are right when
 * machines fail, each grant with a fencing token.
 *
 * <pre>{@code
 * try (Session session = Session.open(new Session.Options().name("billing"))) {
 *     HaspLock lock = session.lock("orders");
 *     lock.lock();                            // waits in line
 *     try {
 *         lock.guard(Duration.ofSeconds(2));  // does a step of 2 s fit?
 *         store.write(row, lock.token());     // which refuses a smaller token
 *     } finally {
 *         lock.unlock();
 *     }
 * }
 * }</pre>
 *
 * A session lives by heartbeats, which a thread sends. Its lease ends here
 * before it ends at the servers, so two holders never believe in one lock: ask
 * {@link hasp.HaspLock#guard} before each step that must not outlive the lock. A
 * process that is paused between its last look and its write can still write
 * late: that is what the token is for.
 *
 * <p>Any thread may use any object. Nothing is {@code synchronized} around I/O,
 * so virtual threads are not pinned. What fails is a {@link hasp.HaspException},
 * which says what can be done about it.
 */
package hasp;
