// SPDX-License-Identifier: MIT

package net.javacrumbs.shedlock.core;

import java.time.Duration;
import java.time.Instant;

/** A stub with the signatures of ShedLock's. */
public class LockConfiguration {
    private final String name;
    private final Instant most;
    private final Instant least;

    public LockConfiguration(Instant createdAt, String name, Duration most,
            Duration least) {
        this.name = name;
        this.most = createdAt.plus(most);
        this.least = createdAt.plus(least);
    }

    public String getName() {
        return name;
    }

    public Instant getLockAtMostUntil() {
        return most;
    }

    public Instant getLockAtLeastUntil() {
        return least;
    }
}
