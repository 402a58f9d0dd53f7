// SPDX-License-Identifier: MIT

package hasp;

import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeoutException;

/** A wait for a lock, on a thread of its own. */
final class AsyncLock extends CompletableFuture<HaspLock> implements Runnable {
    private final HaspLock lock;
    private final Duration wait; // null: without limit.
    private final Thread thread;

    AsyncLock(HaspLock lock, String name, Duration wait) {
        this.lock = lock;
        this.wait = wait;
        thread = new Thread(this, "hasp-wait-" + name);
        thread.setDaemon(true);
        thread.start();
    }

    @Override
    public void run() {
        try {
            if (wait == null) {
                lock.lockInterruptibly();
            } else if (!lock.tryLock(wait)) {
                completeExceptionally(new TimeoutException(
                    "the lock was not granted within " + wait.toMillis() + " ms"));
                return;
            }
        } catch (InterruptedException e) {
            cancel(false);
            return;
        } catch (RuntimeException | Error e) {
            completeExceptionally(e);
            return;
        }
        if (!complete(lock)) { // It was cancelled meanwhile.
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
