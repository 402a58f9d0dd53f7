// SPDX-License-Identifier: MIT

package net.javacrumbs.shedlock.core;

import java.util.Optional;

/** A stub with the signatures of ShedLock's. */
public interface LockProvider {
    Optional<SimpleLock> lock(LockConfiguration lockConfiguration);
}
