# SPDX-License-Identifier: MIT
"""Disks that are slow, or hang."""

import time

import pytest

from cluster import Cluster, Session, is_sanitized
from slow_disk import SlowDisk

pytestmark = pytest.mark.skipif(
    is_sanitized(), reason="a sanitizer wants to be the first library"
)


@pytest.mark.parametrize("flush_ms", [50, 300, 500])
def test_an_election_ends_however_slow_the_disks_are(flush_ms):
    """With votes that each wait for a flush there is one election, not one
    after the other. (5 s on a machine that does nothing else.)"""
    with Cluster(3, start=False) as cluster:
        disk = SlowDisk(cluster.folder)
        # A flush in the kernel cannot be slowed from here.
        disk.tell("io_setup 0")
        for node in cluster.nodes:
            node.start(environment=disk.environment)
        leader = cluster.leader()
        disk.tell("io_setup 0", "flush %d" % flush_ms)
        with leader.connect(60) as client:
            Session(client, ttl=60000)
            for i in range(4):
                client.do("LOCK.ACQUIRE", "a%d" % i)
        term = leader.status()["term"]
        began = time.monotonic()
        leader.kill()
        successor = cluster.leader(30)
        duration = time.monotonic() - began
        terms = successor.status()["term"] - term
        assert terms < 4
        assert duration < 15
