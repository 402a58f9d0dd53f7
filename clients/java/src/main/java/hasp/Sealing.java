// SPDX-License-Identifier: MIT

package hasp;

import hasp.HaspException.Reason;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;

/** One run of the hook of {@link HaspLock.Options#onGrant}, for a new grant. */
final class Sealing {
    private final HaspLock lock;
    private final Session session;
    private final Grant grant;
    private final Clocks.Reading began = Clocks.now();
    /** Renewals of the lease while the hook runs do not prolong it. */
    private final long limit;

    /** 'most' is the limit of the option, in nanoseconds; 0: none. */
    Sealing(HaspLock lock, Session session, long most) {
        this.lock = lock;
        this.session = session;
        grant = lock.newest();
        long left = lock.remaining().toNanos();
        limit = most == 0 ? left : Math.min(most, left);
    }

    /** Returns if the lock is sealed and held; otherwise it was given back. */
    void run(Seal hook) {
        var alarm = new CompletableFuture<Void>();
        if (limit < Time.FOREVER) {
            alarm.completeOnTimeout(null, limit, TimeUnit.NANOSECONDS);
        }
        alarm.thenRun(() -> session.later(this::giveBack));
        boolean isSealed = false;
        try {
            Exception failure = call(hook, grant == null ? List.of() : grant.parts);
            boolean isLate = began.age(Clocks.now()) >= limit;
            session.check();
            if (lock.isLost(grant, isLate)) {
                throw new HaspException(Reason.LOST, lock
                    + " was taken away while onGrant ran");
            }
            check(isLate, failure);
            isSealed = true;
        } finally {
            alarm.cancel(false);
            if (!isSealed) {
                giveBack();
            }
        }
    }

    private static Exception call(Seal hook, List<Grant.Part> parts) {
        try {
            for (Grant.Part part : parts) {
                if (part.isFirst) {
                    hook.seal(part.name, part.token);
                }
            }
            return null;
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            return e;
        } catch (Exception e) {
            return e;
        }
    }

    private void check(boolean isLate, Exception failure) {
        if (!isLate && failure == null) {
            return;
        }
        var error = new HaspException(Reason.SEAL, isLate
            ? "onGrant of " + lock + " took longer than " + limit / Time.MS
                + " ms; the lock was given back"
            : "onGrant of " + lock + " failed, and the lock was given back: "
                + failure);
        error.initCause(failure);
        throw error;
    }

    /** The second caller waits until the first one has sent the release. */
    private synchronized void giveBack() {
        lock.giveBack(grant);
    }
}
