#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""How long after kill -9 of a holder the next client has its lock: hasp with a
tie at a TTL of 60 s and without one, and its peers, at the same TTL and at one
that is as short as people dare. A small process and one of a gigabyte, since
the kernel frees the memory before it reports the death.

    make bench-death [ROUNDS=30]"""

import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "tools"))

import bench_peers  # noqa: E402
from cluster import Cluster  # noqa: E402
from test_agent import Agent, Holder  # noqa: E402

ROUNDS = int(os.environ.get("ROUNDS", "30"))
# Each waits for a TTL, all at the same time.
PLAIN_ROUNDS = 3
SMALL_MB, LARGE_MB = 10, 1024
PEERS = ["python3-kazoo", "python3-redis", "etcd-server", "redis-server",
         "zookeeper"]
ZOOKEEPER = "maxSessionTimeout=60000\nminSessionTimeout=2000\n"


def resident_mb(process):
    with open("/proc/%d/status" % process.pid, encoding="ascii") as file:
        for row in file:
            if row.startswith("VmRSS:"):
                return int(row.split()[1]) / 1024
    return 0


class Hasp:
    """A row: rounds on one kind of holder."""

    def __init__(self, name, cluster, agent, tie, ttl_s, mb, linger_s=0):
        self.name, self.ttl_s, self.mb, self.times = name, ttl_s, mb, []
        self.cluster, self.agent, self.tie = cluster, agent, tie
        self.variables = {"TIED_MB": str(mb), "TIED_TTL_MS": str(ttl_s * 1000),
                          "TIED_LINGER_MS": str(linger_s * 1000)}
        self.rss = 0

    def round(self, i):
        lock = "death/%s/%d/%d" % (self.name, self.mb, i)
        with Holder(self.cluster, self.agent.path, lock, tie=self.tie,
                    **self.variables) as holder, \
                self.cluster.leader().connect(120.0) as client:
            assert holder.first.startswith("held"), holder.first
            client.do("SESSION.OPEN", "TTL", 300000)
            client.send("LOCK.ACQUIRE", lock, "WAIT", 110000)
            self.rss = max(self.rss, resident_mb(holder.process))
            time.sleep(phase_s(self.ttl_s if self.tie == "none" else 1))
            began = time.monotonic()
            holder.process.kill()
            assert client.receive() > holder.token
            self.times.append(time.monotonic() - began)
            client.do("SESSION.CLOSE")


class Peer:
    def __init__(self, name, system, endpoint, ttl_s, mb):
        self.name, self.ttl_s, self.mb, self.times = name, ttl_s, mb, []
        self.system, self.endpoint, self.rss = system, endpoint, 0

    def start(self, lock, mb):
        return subprocess.Popen(
            ["/usr/bin/python3", os.path.join(HERE, "death_peers.py"),
             self.system, self.endpoint, lock, str(self.ttl_s), str(mb)],
            stdout=subprocess.PIPE, text=True)

    def round(self, i):
        lock = "death-%d-%d-%d" % (self.ttl_s, self.mb, i)
        holder = self.start(lock, self.mb)
        assert holder.stdout.readline().startswith("held")
        waiter = self.start(lock, 0)
        # The phase of its heartbeats, and time enough to begin to wait.
        time.sleep(3 + phase_s(self.ttl_s))
        self.rss = max(self.rss, resident_mb(holder))
        began = time.monotonic()
        holder.kill()
        held = float(waiter.stdout.readline().split()[1])
        assert held > began
        self.times.append(held - began)
        for process in holder, waiter:
            process.kill()
            process.wait()
            process.stdout.close()


def phase_s(ttl_s):
    """Every client here has a heartbeat at a third of its TTL or more often."""
    return 0.1 + random.uniform(0, ttl_s / 3)


def figure(seconds):
    return "%.1f ms" % (seconds * 1000) if seconds < 1 else "%.1f s" % seconds


def show(row):
    times = sorted(row.times)
    print("| %-42s | %4d MB | %6d | %8s | %8s | %8s |" % (
        row.name, row.rss, len(times), figure(statistics.median(times)),
        figure(times[int(len(times) * 0.9)]), figure(times[-1])), flush=True)


def run_together(rows, rounds):
    """Their rounds only wait, so all go at the same time."""
    threads = [threading.Thread(target=row.round, args=[i])
               for row in rows for i in range(rounds)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for row in rows:
        assert len(row.times) == rounds, row.name
        show(row)


def run_in_turn(row, rounds):
    for i in range(rounds):
        row.round(i)
    show(row)


def peers_of(servers):
    of = {"etcd": servers.etcd(), "zookeeper": servers.zookeeper(ZOOKEEPER),
          "redisson": servers.redis(1)}
    for name, endpoints in of.items():
        for endpoint in endpoints:
            bench_peers.wait_for(name, endpoint)
    time.sleep(10)  # They elect their leaders.
    return of


def rows_that_wait(cluster, agent, peers, mb):
    names = {"etcd": "etcd, lease", "zookeeper": "ZooKeeper, ephemeral node",
             "redisson": "Redisson's protocol, watchdog"}
    rows = [Hasp("hasp, no tie, TTL 60 s", cluster, agent, "none", 60, mb)]
    rows += [Peer("%s, TTL 60 s" % names[system], system, endpoints[0], 60, mb)
             for system, endpoints in peers.items()]
    rows += [Hasp("hasp, no tie, TTL 10 s", cluster, agent, "none", 10, mb)]
    rows += [Peer("%s, TTL 10 s" % names[system], system, endpoints[0], 10, mb)
             for system, endpoints in peers.items()]
    return rows + [Hasp("hasp, no tie, TTL 60 s, linger 1 s", cluster, agent,
                        "none", 60, mb, 1)]


def main():
    if sys.argv[1:] == ["--install"]:
        bench_peers.install_packages(PEERS)
        return
    folder = tempfile.mkdtemp(prefix="bench-death-")
    servers = bench_peers.Servers(os.environ["HASP_BUILD"], folder)
    print("| holder | resident | rounds | median | 9 of 10 | longest |")
    print("|---|---|---|---|---|---|", flush=True)
    try:
        peers = peers_of(servers)
        with Cluster(3) as cluster, Agent(cluster) as agent:
            for mb, rounds, plain in ((SMALL_MB, ROUNDS, PLAIN_ROUNDS),
                                      (LARGE_MB, max(ROUNDS // 6, 1), 1)):
                run_in_turn(Hasp("hasp, tied, TTL 60 s", cluster, agent, "must",
                                 60, mb), rounds)
                run_together(rows_that_wait(cluster, agent, peers, mb), plain)
    finally:
        servers.end()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
