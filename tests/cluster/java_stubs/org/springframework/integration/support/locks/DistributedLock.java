// SPDX-License-Identifier: MIT

package org.springframework.integration.support.locks;

import java.time.Duration;
import java.util.concurrent.locks.Lock;

/** A stub with the signatures of Spring Integration 7. */
public interface DistributedLock extends Lock {
    void lock(Duration ttl);

    boolean tryLock(Duration waitTime, Duration ttl) throws InterruptedException;
}
