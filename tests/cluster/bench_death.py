#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""How long after kill -9 of a holder the next client has its lock: with a tie
at a TTL of 60 s, and with nothing but a TTL. A process of ten megabytes and one
of a gigabyte, since the kernel frees the memory before it reports the death.

    make bench-death [ROUNDS=30]"""

import os
import statistics
import sys
import time

from cluster import Cluster
from test_agent import Agent, Holder

ROUNDS = int(os.environ.get("ROUNDS", "30"))
PLAIN_ROUNDS = 3


def rounds(cluster, agent, name, count, tie, **variables):
    times = []
    leader = cluster.leader()
    for i in range(count):
        lock = "death/%s/%d" % (name, i)
        with Holder(cluster, agent.path, lock, tie=tie,
                    **variables) as holder, leader.connect(100.0) as client:
            assert holder.first.startswith("held"), holder.first
            client.do("SESSION.OPEN", "TTL", 60000)
            client.send("LOCK.ACQUIRE", lock, "WAIT", 90000)
            time.sleep(0.1)
            began = time.monotonic()
            holder.process.kill()
            assert client.receive() > holder.token
            times.append((time.monotonic() - began) * 1000)
            client.do("SESSION.CLOSE")
    times.sort()
    print("| %-38s | %6d | %9.1f | %9.1f | %9.1f |" % (
        name, count, statistics.median(times), times[int(count * 0.9)],
        times[-1]), flush=True)


def main():
    print("| holder | rounds | median ms | 9 of 10 | longest |")
    print("|---|---|---|---|---|")
    with Cluster(3) as cluster, Agent(cluster) as agent:
        rounds(cluster, agent, "tied, TTL 60 s, 10 MB", ROUNDS, "must",
               TIED_MB="10")
        rounds(cluster, agent, "tied, TTL 60 s, 1 GB", max(ROUNDS // 6, 1),
               "must", TIED_MB="1024")
        rounds(cluster, agent, "not tied, TTL 10 s", PLAIN_ROUNDS, "none")


if __name__ == "__main__":
    sys.exit(main())
