// SPDX-License-Identifier: MIT

package net.javacrumbs.shedlock.core;

/** A stub with the signatures of ShedLock's. */
public interface SimpleLock {
    void unlock();
}
