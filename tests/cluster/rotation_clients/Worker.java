// SPDX-License-Identifier: MIT

import hasp.Session;
import java.time.Duration;
import java.util.ArrayList;

/** As worker.py. */
public class Worker {
    private static volatile boolean isOver;

    private static void say(Object... words) {
        var line = new StringBuilder();
        for (Object word : words) {
            line.append(word).append(' ');
        }
        System.out.println(line);
    }

    private static void work(int number) {
        try (var session = Session.open(new Session.Options()
                .ttl(Duration.ofSeconds(10))
                .onEvent(event -> say("EVENT",
                    event.kind().toString().toLowerCase(), event.text())))) {
            var lock = session.lock("app/java-" + number);
            var kept = session.lock("app/java-kept-" + number);
            kept.lock();
            for (int cycle = 0; !isOver; cycle++) {
                lock.lock();
                Thread.sleep(5);
                lock.unlock();
                if (cycle % 20 == 0) {
                    say("CYCLE", number, session.id());
                }
            }
            kept.unlock();
        } catch (Throwable e) {
            say("ERROR", e);
            System.exit(1);
        }
    }

    public static void main(String[] args) throws Exception {
        var threads = new ArrayList<Thread>();
        for (int i = 0; i < 2; i++) {
            int number = i;
            threads.add(new Thread(() -> work(number)));
            threads.get(i).start();
        }
        while (System.in.read() >= 0) {
            // Until it ends.
        }
        isOver = true;
        for (Thread one : threads) {
            one.join();
        }
        say("END");
    }
}
