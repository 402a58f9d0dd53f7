// SPDX-License-Identifier: MIT

package hasp;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;

/** Fifty sessions of a real cluster ($HASP_ENDPOINTS), which acquire locks in
 * turn. Prints "ready"; then, for each line of its input, "on" once each
 * session has made progress. At the end of the input it prints whether all was
 * well. */
public final class Crowd {
    private static final Queue<Object> WRONG = new ConcurrentLinkedQueue<>();
    private static final AtomicInteger ROUNDS = new AtomicInteger();
    private static volatile boolean isOver;

    private Crowd() {}

    private static void check(boolean fact, Object what) {
        if (!fact) {
            WRONG.add(what);
        }
    }

    private static Session.Options options() {
        return new Session.Options().ttl(Duration.ofSeconds(4))
            .timeout(Duration.ofSeconds(20));
    }

    private static Thread start(Runnable work) {
        Thread thread = new Thread(() -> {
            try {
                work.run();
            } catch (RuntimeException e) {
                WRONG.add(e);
            }
        });
        thread.start();
        return thread;
    }

    private static void work(HaspLock lock, AtomicInteger inside) {
        while (!isOver) {
            lock.lock();
            check(inside.incrementAndGet() == 1, "two inside");
            inside.decrementAndGet();
            ROUNDS.incrementAndGet();
            lock.unlock();
        }
    }

    private static void goOn() throws InterruptedException {
        int before = ROUNDS.get();
        for (int i = 0; ROUNDS.get() < before + 100; i++) {
            if (i == 2000) {
                throw new AssertionError("no session continues: " + WRONG);
            }
            Thread.sleep(10);
        }
    }

    /** Opened and closed at once, some of them with a lock, or while they wait. */
    private static void storm(HaspLock held) throws InterruptedException {
        List<Thread> all = new ArrayList<>();
        for (int i = 0; i < 8; i++) {
            int number = i;
            all.add(start(() -> {
                for (int j = 0; j < 6; j++) {
                    Session one = Session.open(options().ownConnection(j == number));
                    Thread waits = start(() -> {
                        try {
                            one.lock("line").lock();
                            check(false, "held by two");
                        } catch (HaspException e) {
                            check(e.reason() == HaspException.Reason.LOST, e);
                        }
                    });
                    one.lock("storm" + number).lock();
                    one.close();
                    try {
                        waits.join();
                    } catch (InterruptedException e) {
                        WRONG.add(e);
                    }
                }
            }));
        }
        for (Thread one : all) {
            one.join();
        }
        held.guard(Duration.ZERO);
    }

    /** Runs it. */
    public static void main(String[] arguments) throws Exception {
        List<Session> all = new ArrayList<>();
        for (int i = 0; i < 50; i++) {
            all.add(Session.open(options().onEvent(WRONG::add)));
        }
        HaspLock first = all.get(0).lock("line");
        first.lock();
        storm(first);
        var order = new LinkedBlockingQueue<Integer>();
        for (int i = 1; i <= 3; i++) {
            int place = i;
            HaspLock lock = all.get(i).lock("line");
            start(() -> {
                lock.lock();
                order.add(place);
                lock.unlock();
            });
            while (lock.place() != place) {
                Thread.sleep(10);
            }
        }
        List<Thread> workers = new ArrayList<>();
        AtomicInteger[] inside = new AtomicInteger[5];
        for (int i = 0; i < inside.length; i++) {
            inside[i] = new AtomicInteger();
        }
        for (int i = 5; i < all.size(); i++) {
            HaspLock lock = all.get(i).lock("busy" + i % 5);
            AtomicInteger which = inside[i % 5];
            workers.add(start(() -> work(lock, which)));
        }
        goOn();
        System.out.println("ready");
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        while (in.readLine() != null) {
            goOn();
            System.out.println("on");
        }
        isOver = true;
        for (Thread one : workers) {
            one.join();
        }
        first.unlock();
        for (int place = 1; place <= 3; place++) {
            Integer found = order.poll(20, TimeUnit.SECONDS);
            check(found != null && found == place, found + " before " + place);
        }
        all.forEach(Session::close);
        System.out.println(WRONG.isEmpty() ? "well" : WRONG);
        System.exit(WRONG.isEmpty() ? 0 : 1);
    }
}
