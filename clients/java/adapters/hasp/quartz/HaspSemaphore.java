// SPDX-License-Identifier: MIT

package hasp.quartz;

import hasp.HaspException;
import hasp.HaspReentrantLock;
import hasp.Session;
import java.sql.Connection;
import java.time.Duration;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentMap;
import org.quartz.impl.jdbcjobstore.LockException;
import org.quartz.impl.jdbcjobstore.Semaphore;
import org.quartz.impl.jdbcjobstore.TablePrefixAware;

/**
 * The locks of Quartz' JDBC job store, held in hasp instead of in rows of the
 * database. In quartz.properties, in place of StdRowLockSemaphore:
 *
 * <pre>
 * org.quartz.jobStore.isClustered = true
 * org.quartz.jobStore.acquireTriggersWithinLock = true
 * org.quartz.jobStore.lockHandler.class = hasp.quartz.HaspSemaphore
 * org.quartz.jobStore.lockHandler.endpoints = 10.0.0.1:7420,10.0.0.2:7420,10.0.0.3:7420
 * </pre>
 *
 * <p>The locks are PREFIX, name of the scheduler, "/" and TRIGGER_ACCESS or
 * STATE_ACCESS; all instances of a cluster give the same two. Quartz commits while
 * it holds them. No lock is given unless 'need' is left of the lease, so set it to
 * the longest time that such a transaction takes.
 */
public final class HaspSemaphore implements Semaphore, TablePrefixAware {
    private static final long ATTEMPT_MS = 500;

    private final Session.Options options = new Session.Options().name("quartz");
    private final ConcurrentMap<String, HaspReentrantLock> locks =
        new ConcurrentHashMap<>();
    private final ThreadLocal<ConcurrentMap<String, HaspReentrantLock>> mine =
        ThreadLocal.withInitial(ConcurrentHashMap::new);
    private String prefix = "quartz/";
    private String schedName = "";
    private Duration need = Duration.ofSeconds(2);
    private Duration patience = Duration.ofSeconds(30);
    private Session session; // null: none was opened, or it was lost.

    /** Nodes; default: $HASP_ENDPOINTS. */
    public void setEndpoints(String all) {
        options.endpoints(all);
    }

    /** Folder with certificates; default: $HASP_TLS. */
    public void setTls(String folder) {
        options.tls(folder);
    }

    /** File with the secret of a user; default: $HASP_SECRET_FILE. */
    public void setSecretFile(String file) {
        options.secretFile(file);
    }

    /** TTL of the session; default: 10,000. */
    public void setTtlMs(long length) {
        options.ttl(Duration.ofMillis(length));
    }

    /** What must be left of the lease when a lock is given; default: 2,000. It is
     * less than 0.8 of the TTL. */
    public void setNeedMs(long length) {
        need = Duration.ofMillis(length);
    }

    /** How long to try while no node answers; default: 30,000. */
    public void setPatienceMs(long length) {
        patience = Duration.ofMillis(length);
    }

    /** Before the names of the locks; default: "quartz/". */
    public void setPrefix(String text) {
        prefix = text;
    }

    /** Quartz calls this: the schedulers of an application can have different
     * names. */
    @Override
    public void setSchedName(String name) {
        schedName = name + "/";
    }

    /** Not used: no table is locked. */
    @Override
    public void setTablePrefix(String name) {}

    /** A session that is not lost. Locks of an earlier one are lost with it. */
    private synchronized Session session() {
        if (session == null || session.state() == Session.State.LOST) {
            Session lost = session;
            session = null;
            locks.clear();
            if (lost != null) {
                lost.close();
            }
            session = Session.open(options);
        }
        return session;
    }

    @Override
    public boolean obtainLock(Connection connection, String name)
            throws LockException {
        long until = System.nanoTime() + patience.toNanos();
        while (true) {
            try {
                obtain(name);
                return true;
            } catch (HaspException e) {
                if (e.reason() == HaspException.Reason.REFUSED
                    || System.nanoTime() - until > 0) {
                    throw new LockException("lock " + prefix + schedName + name
                        + ": " + e.getMessage(), e);
                }
            }
            try {
                Thread.sleep(ATTEMPT_MS);
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
                throw new LockException("interrupted while waiting for lock "
                    + prefix + schedName + name, e);
            }
        }
    }

    private void obtain(String name) {
        if (mine.get().containsKey(name)) {
            return; // As with StdRowLockSemaphore, it is released once.
        }
        Session now = session();
        HaspReentrantLock lock = locks.computeIfAbsent(name,
            key -> new HaspReentrantLock(now, prefix + schedName + key));
        lock.lock();
        try {
            lock.guard(need);
        } catch (HaspException e) {
            lock.unlock();
            throw e;
        }
        mine.get().put(name, lock);
    }

    @Override
    public void releaseLock(String name) throws LockException {
        HaspReentrantLock lock = mine.get().remove(name);
        if (lock == null) {
            return;
        }
        try {
            lock.unlock();
        } catch (HaspException e) {
            if (e.reason() != HaspException.Reason.UNKNOWN) {
                throw new LockException("lock " + prefix + schedName + name
                    + " was lost before its transaction ended; another instance"
                    + " might have fired the same triggers: " + e.getMessage(), e);
            }
        }
    }

    @Override
    public boolean requiresConnection() {
        return false;
    }
}
