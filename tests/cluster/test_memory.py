# SPDX-License-Identifier: MIT
"""Memory runs out, once, at one allocation after the other: a node stops and
has lost nothing; the library reports it and continues."""

import os
import signal
import subprocess

import pytest

from cluster import HASPD, Cluster, is_sanitized

BUILD = os.path.dirname(os.path.abspath(HASPD))
PRELOAD = os.path.join(BUILD, "no_memory.so")
LOCKS = ["m%d" % i for i in range(12)]

pytestmark = pytest.mark.skipif(
    is_sanitized(), reason="a sanitizer has an allocator of its own"
)


def acquire(client, i):
    return client.do("LOCK.ACQUIRE", LOCKS[i], "REQ", i + 1)


def ask_much(client, tokens):
    """All sorts, until the node is gone; 'tokens' gets what was answered."""
    for i in range(len(LOCKS)):
        tokens.append(acquire(client, i))
    client.do("LOCK.LIST")
    client.do("LOCK.SHOW", LOCKS[0])
    client.do("SUBSCRIBE", "lock:m0")


def test_a_node_without_memory_stops_and_has_lost_nothing():
    stops = 0
    with Cluster(1, start=False) as cluster:
        node = cluster.nodes[0]
        for n in (1, 2, 3, 5, 8, 13, 21, 34, 55):
            node.start(
                environment={"LD_PRELOAD": PRELOAD, "NO_MEMORY": str(n)}
            )
            cluster.leader()
            tokens = []
            with node.connect() as client:
                opened = client.map("SESSION.OPEN", "TTL", 60000)
                mine = opened["id"], opened["secret"]
                node.signal(signal.SIGUSR2)
                try:
                    ask_much(client, tokens)
                    node.signal(signal.SIGUSR1)
                    with node.connect() as other:
                        other.do("PING")  # It has heard that.
                except OSError:
                    assert node.wait_exit() == -signal.SIGABRT
                    assert "check failed" in node.log()
                    stops += 1
                    node.start()
            cluster.leader()
            with node.connect() as client:
                client.do("SESSION.ATTACH", *mine)
                for i, token in enumerate(tokens):
                    assert client.do("LOCK.CHECK", LOCKS[i], token) == 1
                    assert acquire(client, i) == token
                for name in LOCKS[len(tokens) :]:
                    acquire(client, LOCKS.index(name))
                for name in LOCKS:
                    holders = client.map("LOCK.SHOW", name)["holders"]
                    assert [as_count(holder) for holder in holders] == [1]
                client.do("SESSION.CLOSE")
            assert node.stop() == 0
    assert stops >= 5, "the faults were not met"


def as_count(holder):
    return holder[holder.index(b"count") + 1]


def test_each_allocation_of_the_library_fails_once():
    with Cluster(1) as cluster:
        cluster.leader()
        done = subprocess.run(
            [os.path.join(BUILD, "client-tests", "libhasp_memory")],
            env={
                **os.environ,
                "LD_PRELOAD": PRELOAD,
                "NO_MEMORY_IN": "libhasp.so",
                "HASP_ENDPOINTS": "127.0.0.1:%d" % cluster.nodes[0].client_port,
            },
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
        words = done.stdout.split()
        told, stopped = int(words[1]), int(words[3])
        assert told >= 10, "the faults were not met"
        # If it stops, the reason is in the buffers that it shares with haspd.
        assert done.stderr.count("base/memory.c") == stopped
