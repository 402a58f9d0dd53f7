// SPDX-License-Identifier: MIT

import hasp.quartz.HaspSemaphore;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.HashSet;
import java.util.Properties;
import java.util.Set;
import org.quartz.Job;
import org.quartz.JobBuilder;
import org.quartz.JobDetail;
import org.quartz.JobExecutionContext;
import org.quartz.JobExecutionException;
import org.quartz.JobKey;
import org.quartz.Scheduler;
import org.quartz.SimpleScheduleBuilder;
import org.quartz.TriggerBuilder;
import org.quartz.impl.StdSchedulerFactory;
import org.quartz.impl.jdbcjobstore.LockException;
import org.quartz.impl.jdbcjobstore.Semaphore;
import org.quartz.impl.jdbcjobstore.TablePrefixAware;
import org.quartz.utils.ConnectionProvider;

/** An instance of a cluster of Quartz, named as its argument: one job, which appends
 * the time of each of its fires and the instance to the file RUNS. The instance
 * "setup" only makes the tables and the job, in the database DATABASE. */
public final class QuartzNode {
    private static final int PERIOD_MS = 200;
    private static String instance;

    private QuartzNode() {}

    /** Connections of H2. */
    public static final class Database implements ConnectionProvider {
        @Override
        public Connection getConnection() throws SQLException {
            return DriverManager.getConnection(System.getenv("DATABASE"), "sa", "");
        }

        @Override
        public void initialize() {}

        @Override
        public void shutdown() {}
    }

    private static void append(String file, String line) throws IOException {
        Files.writeString(Path.of(System.getenv(file)), line + "\n",
            StandardOpenOption.CREATE, StandardOpenOption.APPEND);
    }

    /** hasp.quartz.HaspSemaphore, with a line in the file LOCKS after a lock is
     * given and before it is released: begin or end, the lock, the instance. */
    public static final class Watched implements Semaphore, TablePrefixAware {
        private final HaspSemaphore locks = new HaspSemaphore();
        private final ThreadLocal<Set<String>> mine =
            ThreadLocal.withInitial(HashSet::new);

        public Watched() {
            locks.setTtlMs(3000);
            locks.setNeedMs(1000);
        }

        @Override
        public void setSchedName(String name) {
            locks.setSchedName(name);
        }

        @Override
        public void setTablePrefix(String name) {
            locks.setTablePrefix(name);
        }

        @Override
        public boolean obtainLock(Connection connection, String name)
                throws LockException {
            boolean is = locks.obtainLock(connection, name);
            if (is && mine.get().add(name)) {
                write("begin ", name);
            }
            return is;
        }

        @Override
        public void releaseLock(String name) throws LockException {
            if (mine.get().remove(name)) {
                write("end ", name);
            }
            locks.releaseLock(name);
        }

        private static void write(String what, String name) throws LockException {
            try {
                append("LOCKS", what + name + " " + instance);
            } catch (IOException e) {
                throw new LockException("no record", e);
            }
        }

        @Override
        public boolean requiresConnection() {
            return locks.requiresConnection();
        }
    }

    /** The job. */
    public static final class Tick implements Job {
        @Override
        public void execute(JobExecutionContext fire) throws JobExecutionException {
            try {
                append("RUNS", fire.getScheduledFireTime().getTime() + " "
                    + instance);
            } catch (IOException e) {
                throw new JobExecutionException(e);
            }
        }
    }

    public static void main(String[] words) throws Exception {
        instance = words[0];
        if (instance.equals("setup")) {
            try (Connection database = new Database().getConnection();
                    Statement statement = database.createStatement()) {
                statement.execute("RUNSCRIPT FROM "
                    + "'classpath:org/quartz/impl/jdbcjobstore/tables_h2.sql'");
            }
        }
        Properties all = new Properties();
        String[][] set = {
            {"scheduler.instanceName", "shop"},
            {"scheduler.instanceId", instance},
            {"scheduler.skipUpdateCheck", "true"},
            {"scheduler.idleWaitTime", "1000"},
            {"threadPool.class", "org.quartz.simpl.SimpleThreadPool"},
            {"threadPool.threadCount", "2"},
            {"jobStore.class", "org.quartz.impl.jdbcjobstore.JobStoreTX"},
            {"jobStore.driverDelegateClass",
                "org.quartz.impl.jdbcjobstore.StdJDBCDelegate"},
            {"jobStore.dataSource", "db"},
            {"jobStore.isClustered", "true"},
            {"jobStore.clusterCheckinInterval", "1000"},
            // Otherwise Quartz reads the next trigger before it has the lock, and
            // can fire one that another instance has fired meanwhile.
            {"jobStore.acquireTriggersWithinLock", "true"},
            {"jobStore.lockHandler.class", Watched.class.getName()},
            {"dataSource.db.connectionProvider.class", Database.class.getName()},
        };
        for (String[] one : set) {
            all.setProperty("org.quartz." + one[0], one[1]);
        }
        Scheduler scheduler = new StdSchedulerFactory(all).getScheduler();
        if (instance.equals("setup")) {
            JobDetail job = JobBuilder.newJob(Tick.class)
                .withIdentity(JobKey.jobKey("tick")).build();
            scheduler.scheduleJob(job, TriggerBuilder.newTrigger().startNow()
                .withSchedule(SimpleScheduleBuilder.simpleSchedule()
                    .withIntervalInMilliseconds(PERIOD_MS).repeatForever()
                    .withMisfireHandlingInstructionIgnoreMisfires()).build());
            scheduler.shutdown();
            System.exit(0);
        }
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            try {
                scheduler.shutdown(true);
            } catch (Exception e) {
                e.printStackTrace();
            }
        }));
        scheduler.start();
    }
}
