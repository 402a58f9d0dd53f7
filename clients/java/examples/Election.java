// SPDX-License-Identifier: MIT

import hasp.HaspLock;
import hasp.LeaderElection;
import hasp.Session;
import java.time.Duration;

/** One leader among many processes: start it everywhere. */
public class Election {
    public static void main(String[] arguments) throws Exception {
        String name = System.getProperty("user.name") + ":"
            + ProcessHandle.current().pid();
        var options = new Session.Options().ttl(Duration.ofSeconds(5))
            .linger(Duration.ofSeconds(2));
        var election = new LeaderElection(options, "leader", name,
            new LeaderElection.Listener() {
                @Override
                public void lead(HaspLock lock) throws InterruptedException {
                    System.out.println("leads with token " + lock.token());
                    for (;;) { // The work, in short steps.
                        Thread.sleep(100);
                    }
                }

                @Override
                public void stopped() {
                    System.out.println("leads no longer");
                }

                @Override
                public void leader(String value) {
                    System.out.println("leader is " + value);
                }
            });
        Thread campaign = new Thread(election);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            campaign.interrupt(); // Gives it back, so that the next one leads.
            try {
                campaign.join(10_000);
            } catch (InterruptedException e) {
                // It ends by its lease.
            }
        }));
        campaign.start();
    }
}
