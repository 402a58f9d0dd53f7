#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""How a cluster fares whose leader's disk becomes slow: changes a second, in
each second, compared with those while the second-slowest disk leads.

    HASPD=... HASP=... tests/cluster/bench_slow_disk.py [--slow MS] [--second MS]
"""

import argparse
import threading
import time

from cluster import Cluster, ReplyError, Session
from slow_disk import SlowDisk

CLIENTS = 8


class Work:
    """Changes by clients that each wait for the answer."""

    def __init__(self, cluster):
        self.cluster = cluster
        self.count = 0
        self.lock = threading.Lock()
        self.is_over = False
        self.threads = [
            threading.Thread(target=self.run, args=(i,)) for i in range(CLIENTS)
        ]

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.is_over = True
        for thread in self.threads:
            thread.join(30)

    def run(self, number):
        while not self.is_over:
            number += 1
            node = self.cluster.nodes[number % len(self.cluster.nodes)]
            try:
                with node.connect(5.0) as client:
                    Session(client, ttl=60000)
                    while not self.is_over:
                        client.do("LOCK.ACQUIRE", "b%d" % number)
                        client.do("LOCK.RELEASE", "b%d" % number)
                        with self.lock:
                            self.count += 2
            except (OSError, ReplyError):
                time.sleep(0.02)

    def rate(self, seconds):
        before = self.count
        time.sleep(seconds)
        return (self.count - before) / seconds


def lead(cluster, node):
    if cluster.leader() is not node:
        with cluster.leader().connect(60) as client:
            client.do("RAFT.TRANSFER", node.id)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--slow", type=int, default=120)
    parser.add_argument("--second", type=int, default=10)
    told = parser.parse_args()
    with Cluster(3, start=False) as cluster:
        disks = [SlowDisk(cluster.folder, "disk%d" % i) for i in range(3)]
        for node, disk in zip(cluster.nodes, disks):
            node.start(environment=disk.environment)
        # The node that becomes slow must not have led before.
        first = cluster.leader()
        second, slow = [node for node in cluster.nodes if node is not first]
        lead(cluster, second)
        disks[second.id - 1].tell("flush %d /wal/" % told.second)
        disks[first.id - 1].tell("flush 2 /wal/")
        with Work(cluster) as work:
            disks[slow.id - 1].tell("flush %d /wal/" % told.slow)
            work.rate(2)
            goal = work.rate(5)
            print("the second-slowest disk (%d ms) leads: %.0f changes/s"
                  % (told.second, goal))
            disks[slow.id - 1].tell("flush 2 /wal/")
            lead(cluster, slow)
            work.rate(32)
            disks[slow.id - 1].tell("flush %d /wal/" % told.slow)
            for second in range(1, 11):
                rate = work.rate(1)
                print("%2d s after the leader's disk takes %d ms: %4.0f "
                      "changes/s; node %s leads"
                      % (second, told.slow, rate,
                         "another" if cluster.leader() is not slow else "that"))
            rate = work.rate(5)
            print("then: %.0f changes/s, %.2f of the second-slowest disk's"
                  % (rate, rate / goal))


if __name__ == "__main__":
    main()
