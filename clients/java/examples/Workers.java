// SPDX-License-Identifier: MIT

import hasp.HaspLock;
import hasp.Session;

/** At most five at a time, on all machines together. */
public class Workers {
    public static void main(String[] arguments) throws Exception {
        try (Session session = Session.open()) {
            Thread[] workers = new Thread[10];
            for (int i = 0; i < workers.length; i++) {
                int number = i + 1;
                workers[i] = new Thread(() -> work(session, number));
                workers[i].start();
            }
            for (Thread worker : workers) {
                worker.join();
            }
        }
    }

    static void work(Session session, int number) {
        HaspLock slot = session.lock("render", new HaspLock.Options().slots(5));
        slot.lock();
        try {
            Thread.sleep(50); // The work.
            System.out.println("worker " + number + " is done");
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        } finally {
            slot.unlock();
        }
    }
}
