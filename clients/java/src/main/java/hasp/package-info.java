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
 * A thread keeps the session alive with heartbeats. The client considers its
 * lease over before the servers do, so two clients never believe that they hold
 * the same lock. Call {@link hasp.HaspLock#guard} before each step that must not
 * outlive the lock. A process that is paused between that and its write can still
 * write late: the token protects against that.
 *
 * <p>Any thread may use any object. Nothing is {@code synchronized} around I/O,
 * so virtual threads are not pinned. Errors are {@link hasp.HaspException},
 * with a reason that says how to react.
 */
package hasp;
