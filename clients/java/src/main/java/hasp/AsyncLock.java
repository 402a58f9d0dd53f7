// SPDX-License-Identifier: MIT

package hasp;

import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.locks.Lock;

/** The part of {@link HaspLock} that waits on a thread of its own. */
abstract class AsyncLock implements Lock {
    public abstract boolean tryLock(Duration wait) throws InterruptedException;

    /** Waits in line on a thread of its own. Cancelling this future (not one that
     * depends on it) leaves the queue. */
    public CompletableFuture<HaspLock> lockAsync() {
        return new Wait(this, null);
    }

    /** Likewise; fails with a TimeoutException if it is not granted in time. */
    public CompletableFuture<HaspLock> lockAsync(Duration wait) {
        return new Wait(this, wait);
    }

    private static final class Wait extends CompletableFuture<HaspLock>
            implements Runnable {
        private final AsyncLock lock;
        private final Duration wait; // null: without limit.
        private final Thread thread;

        Wait(AsyncLock lock, Duration wait) {
            this.lock = lock;
            this.wait = wait;
            thread = new Thread(this, "hasp-wait");
            thread.setDaemon(true);
            thread.start();
        }

        @Override
        public void run() {
            try {
                if (wait == null) {
                    lock.lockInterruptibly();
                } else if (!lock.tryLock(wait)) {
                    completeExceptionally(new TimeoutException("the lock was not "
                        + "granted within " + wait.toMillis() + " ms"));
                    return;
                }
            } catch (InterruptedException e) {
                cancel(false);
                return;
            } catch (RuntimeException | Error e) {
                completeExceptionally(e);
                return;
            }
            if (!complete((HaspLock) lock)) { // It was cancelled meanwhile.
                try {
                    lock.unlock();
                } catch (HaspException e) {
                    // It was lost, or the session continues to release it.
                }
            }
        }

        @Override
        public boolean cancel(boolean mayInterrupt) {
            boolean is = super.cancel(mayInterrupt);
            if (is) {
                thread.interrupt();
            }
            return is;
        }
    }
}
