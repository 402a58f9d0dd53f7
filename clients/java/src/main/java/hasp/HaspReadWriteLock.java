// SPDX-License-Identifier: MIT

package hasp;

import java.util.concurrent.locks.ReadWriteLock;

/**
 * Many readers or one writer, in order of arrival: later readers do not starve a
 * writer. The locks belong to threads, as those of
 * {@link java.util.concurrent.locks.ReentrantReadWriteLock}.
 *
 * <p>A thread that has one of them cannot acquire the other: it would wait for
 * itself, and gets an IllegalStateException. To convert a hold use
 * {@link HaspLock#upgrade} and {@link HaspLock#downgrade}.
 */
public final class HaspReadWriteLock implements ReadWriteLock {
    private final HaspReentrantLock reads;
    private final HaspReentrantLock writes;

    /** A lock of this name. Sends no request. */
    public HaspReadWriteLock(Session session, String name) {
        reads = new HaspReentrantLock(session, name, true) {
            @Override
            void check() {
                refuse(writeLock(), name, "writing");
            }
        };
        writes = new HaspReentrantLock(session, name, false) {
            @Override
            void check() {
                refuse(reads, name, "reading");
            }
        };
    }

    private static void refuse(HaspReentrantLock other, String name, String how) {
        if (other.isMine()) {
            throw new IllegalStateException("[" + name + "] is held for " + how
                + " by this thread, which would wait for itself; unlock it first,"
                + " or convert a HaspLock");
        }
    }

    /** The lock that readers hold together; always the same one. */
    @Override
    public HaspReentrantLock readLock() {
        return reads;
    }

    /** The lock that one writer holds; always the same one. */
    @Override
    public HaspReentrantLock writeLock() {
        return writes;
    }
}
