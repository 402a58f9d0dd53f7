#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Measures the cost of a session, a lock, a hold, a waiter, a fence and a cycle in
memory, on disk, on the network and in CPU time, and how long a node takes to
start and to catch up by the size of the state: the tables of docs/operations.md.

    make sizing [COUNT=50000] [STATES=10,100]

Each kind is created COUNT times on a node of its own; the figures are
differences to an empty one, per item. Memory and disk are exact to a few bytes.
Times are of this machine at this moment.
"""

import argparse
import os
import re
import resource
import subprocess
import time
import urllib.request

from cluster import Cluster, ReplyError, Session, wait_until

BATCH = 500
TTL = 3600000
CYCLES = 3000
CYCLES_AT_ONCE = 30000
FENCE_BYTES = 200
LONG_S = 1800


def metrics(node):
    page = urllib.request.urlopen(
        "http://127.0.0.1:%d/metrics" % node.http_port, timeout=60).read()
    return {name: float(value) for name, value in re.findall(
        r"^(\S+) (\S+)$", page.decode(), re.M)}


def state_size(node):
    return metrics(node)['hasp_limit_used{limit="state_size"}']


def pipelined(client, requests, batch=BATCH):
    """Sends them, 'batch' at a time; each must succeed."""
    left = list(requests)
    while left:
        for words in left[:batch]:
            client.send(*words)
        for _ in left[:batch]:
            client.receive()
        left = left[batch:]


def numbered(words, count, start=0):
    """The requests; '%d' in a word becomes the number."""
    return ([word.replace("%d", "%08d" % i) for word in words]
            for i in range(start, start + count))


# Each makes 'count' items at the node, and returns what must stay open.


def sessions(node, count):
    for start in range(0, count, 2000):
        with node.connect(60) as client:
            pipelined(client, numbered(["SESSION.OPEN", "TTL", str(TTL)],
                                       min(2000, count - start)))
    return []


def locks(node, count):
    client = node.connect(60)
    for start in range(0, count, 10000):
        Session(client, ttl=TTL)
        pipelined(client, numbered(["LOCK.ACQUIRE", "jobs/%d"],
                                   min(10000, count - start), start))
    return [client]


def holds(node, count):
    client = node.connect(60)
    Session(client, ttl=TTL)
    pipelined(client, numbered(
        ["LOCK.ACQUIRE", "jobs", "SHARED", "OWNER", "%d"], count))
    return [client]


def waiters(node, count):
    """Each waits on a connection of its own: a connection's requests are
    decided one after the other."""
    holder = node.connect(60)
    Session(holder, ttl=TTL)
    holder.do("LOCK.ACQUIRE", "jobs")
    clients = [holder]
    for _ in range(count):
        client = node.connect(60)
        Session(client, ttl=TTL)
        client.send("LOCK.ACQUIRE", "jobs", "WAIT", TTL)
        clients.append(client)
    wait_until(lambda: metrics(node)["hasp_waits"] >= count, 120, "they wait")
    return clients


def fences(node, count):
    client = node.connect(60)
    pipelined(client, numbered(["FENCE.ADMIT", "tapes/%d", "7"], count))
    return [client]


def values(node, count):
    client = node.connect(60)
    pipelined(client, numbered(
        ["SET", "jobs/%d", "0123456789abcdef", "NX", "PX", str(TTL)], count))
    return [client]


KINDS = (
    ("a session", sessions, 1),
    ("a lock with its hold, of a session that has more", locks, 1),
    ("a further shared hold of a lock", holds, 1),
    ("a waiter, with its session and connection", waiters, 25),
    ("a resource with a fence", fences, 1),
    ("a lock by `SET NX PX`: session, lock and hold", values, 1),
)


def snapshot_of(node):
    """Has it take a snapshot; returns its size."""
    before = metrics(node)["hasp_snapshots_total"]
    node.door(120).do("RAFT.SNAPSHOT")
    wait_until(lambda: metrics(node)["hasp_snapshots_total"] > before, 120,
               "a snapshot")
    return metrics(node)["hasp_snapshot_bytes"]


def restarted(node):
    """Restarts it; returns the seconds until it serves, or has a leader."""
    node.stop(60)
    start = time.monotonic()
    node.start()
    wait_until(lambda: (node.status() or {}).get("leader"), LONG_S, "a leader")
    return time.monotonic() - start


def weigh(fill, count):
    """Bytes: memory now, memory after a restart, state_size, snapshot, table."""
    with Cluster(1) as cluster:
        node = cluster.leader()
        restarted(node)
        cluster.leader()
        empty = (node.memory_kib() << 10, state_size(node),
                 metrics(node)["hasp_table_bytes"], snapshot_of(node))
        kept = fill(node, count)
        full = node.memory_kib() << 10
        size, snapshot = state_size(node), snapshot_of(node)
        wait_until(lambda: metrics(node)["hasp_state_dirty_records"] == 0, 60,
                   "the table is written")
        table = metrics(node)["hasp_table_bytes"]
        for client in kept:
            client.close()
        restarted(node)
        cluster.leader(60)
        return [(now - before) / count for now, before in (
            (full, empty[0]), (node.memory_kib() << 10, empty[0]),
            (size, empty[1]), (snapshot, empty[3]), (table, empty[2]))]


def cpu_s(node):
    with open("/proc/%d/stat" % node.process.pid) as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def written(node):
    with open("/proc/%d/io" % node.process.pid) as file:
        return int(re.search(r"\nwrite_bytes: (\d+)", file.read()).group(1))


def sent(node, others):
    """Bytes that it has sent to the other nodes."""
    text = subprocess.run(
        ["ss", "-tinpH"], capture_output=True, text=True, check=True).stdout
    ports = {str(one.peer_port) for one in others + [node]}
    total = 0
    for head, info in re.findall(r"^(ESTAB.*)\n\s+(.*)$", text, re.M):
        ends = [word.rsplit(":", 1)[-1] for word in head.split()[3:5]]
        if "pid=%d," % node.process.pid in head and ports & set(ends):
            total += int(re.search(r"bytes_sent:(\d+)", info).group(1))
    return total


def cycles(at_once, count):
    """Returns the seconds, and for the leader and a follower: CPU in us, bytes
    to the disk and bytes sent to the others, for each cycle."""
    with Cluster(3) as cluster:
        leader = cluster.leader()
        follower = cluster.followers(leader)[0]
        with leader.connect(60) as client:
            Session(client, ttl=TTL)

            def turn(first, number):
                requests = [
                    ("LOCK.%s" % what, "jobs/%08d" % i)
                    for start in range(first, first + number, at_once)
                    for what in ("ACQUIRE", "RELEASE")
                    for i in range(start, start + at_once)]
                pipelined(client, requests, at_once)

            def reading():
                return [(cpu_s(node), written(node), sent(
                    node, [n for n in cluster.nodes if n is not node]))
                    for node in (leader, follower)]

            turn(0, at_once * max(1, 200 // at_once))
            before, start = reading(), time.monotonic()
            turn(10000, count)
            seconds, after = time.monotonic() - start, reading()
    return seconds, [
        ((b[0] - a[0]) * 1e6 / count, (b[1] - a[1]) / count,
         (b[2] - a[2]) / count) for a, b in zip(before, after)]


def start_times(megabytes):
    """Seconds: a follower restarts and is level again; a new node copies the
    state. And the state_size, memory and snapshot in bytes."""
    with Cluster(3) as cluster:
        leader = cluster.leader()
        follower = cluster.followers(leader)[0]
        count = int(megabytes * 1e6 / (64 + FENCE_BYTES))
        name = "%d" + "y" * (FENCE_BYTES - 8)
        with leader.door() as door:
            door.do("LIMITS.SET", "fences", 100000000)
            door.do("LIMITS.SET", "state_size", 64 << 30)
        with leader.connect(60) as client:
            pipelined(client, numbered(["FENCE.ADMIT", name, "7"], count))
        cluster.converged(120)
        snapshot_of(leader)
        sizes = (state_size(leader), metrics(leader)["hasp_snapshot_bytes"],
                 leader.memory_kib() << 10)

        def is_level(node, index):
            status = node.status()
            return status is not None and status["applied"] >= index

        index = leader.status()["commit"]
        follower.stop(120)
        start = time.monotonic()
        follower.start()
        wait_until(lambda: is_level(follower, index), LONG_S, "level")
        restart = time.monotonic() - start
        node = cluster.newcomer()
        start = time.monotonic()
        try:
            leader.door(60).do("RAFT.ADD", node.id, node.addresses)
        except ReplyError as error:
            if error.code != "UNFINISHED":  # It is copying.
                raise
        wait_until(lambda: is_level(node, index), LONG_S, "it has the state")
        return restart, time.monotonic() - start, sizes


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=50000)
    parser.add_argument("--states", default="10,100")
    given = parser.parse_args()
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    print("| one | memory while it is filled | after a restart | state_size | "
          "snapshot | table |\n|---|---|---|---|---|---|")
    for name, fill, share in KINDS:
        row = weigh(fill, given.count // share)
        print("| %s | %s |" % (name, " | ".join("%.0f" % n for n in row)),
              flush=True)
    print("\n| cycles at once | a second | node | CPU, us | written, bytes | "
          "sent to nodes, bytes |\n|---|---|---|---|---|---|")
    for at_once, count in ((1, CYCLES), (100, CYCLES_AT_ONCE)):
        seconds, nodes = cycles(at_once, count)
        for role, node in zip(("leader", "follower"), nodes):
            print("| %d | %.0f | %s | %.0f | %.0f | %.0f |" % (
                (at_once, count / seconds, role) + node), flush=True)
    print("\n| state_size, MB | snapshot, MB | memory of a node, MB | a node "
          "restarts, s | a new node copies it, s |\n|---|---|---|---|---|")
    for megabytes in given.states.split(","):
        restart, copy, sizes = start_times(float(megabytes))
        print("| %s | %.1f | %.1f |" % (
            " | ".join("%.0f" % (size / 1e6) for size in sizes), restart,
            copy), flush=True)


if __name__ == "__main__":
    main()
