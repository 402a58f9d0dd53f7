// SPDX-License-Identifier: MIT

package org.springframework.integration.support.locks;

import java.util.concurrent.locks.Lock;

/** A stub with the signatures of Spring Integration 7. */
@FunctionalInterface
public interface LockRegistry<L extends Lock> {
    L obtain(Object lockKey);
}
