# SPDX-License-Identifier: MIT
"""Tied sessions with a TTL of 60 s survive 30 s without the cluster. Each test
takes a minute or two: make test-long."""

import os
import random
import sys
import time

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "conformance"))
sys.path.insert(0, os.path.join(HERE, "..", "..", "clients", "python"))

from cable import Cable
from cluster import Cluster, wait_until
from test_agent import Agent

import hasp

SESSIONS = 200
CUT_S = 30
# Over the interval of heartbeats, so that the cut meets each phase of it.
OPENED_WITHIN_S = 12.5
AGAIN_S = 40


def opened(endpoints, agent, events):
    """Sessions whose heartbeats have random phases, each with a lock."""
    held = []
    began = time.monotonic()
    for at, number in zip(sorted(random.uniform(0, OPENED_WITHIN_S)
                                 for _ in range(SESSIONS)), range(SESSIONS)):
        time.sleep(max(0, began + at - time.monotonic()))
        session = hasp.Session(endpoints, tie="must", agent=agent,
                               own_connection=True, on_event=events.append)
        lock = session.lock("long/%d" % number)
        assert lock.acquire(False)
        held.append((session, lock, lock.token))
    return held


def keep(cluster, held, events, agent):
    """All believe in their locks, without a break, and the cluster as well."""
    def is_renewed():
        return all(session.remaining() > 38 for session, _, _ in held)
    wait_until(is_renewed, AGAIN_S, "heartbeats of all sessions")
    lost = [event for event in events if event.kind != "notice"]
    assert lost == [], "%d of %d: %r" % (len(lost), SESSIONS, lost[:3])
    with cluster.leader().connect() as client:
        for number, (_, lock, token) in enumerate(held):
            assert lock.token == token and lock.remaining() > 0
            assert client.do("LOCK.CHECK", "long/%d" % number, token) == 1
    status = agent.status()
    assert status["died_total"] == 0 and status["ties"] == SESSIONS


@pytest.mark.parametrize("what", ["cut", "no majority"])
def test_thirty_seconds_without_the_cluster_lose_nothing(what):
    with Cluster(3) as cluster:
        cluster.leader()
        cable = Cable([node.client_port for node in cluster.nodes])
        events, held = [], []
        try:
            with Agent(cluster) as agent:
                held = opened(cable.endpoints, agent.path, events)
                if what == "cut":
                    cable.is_cut = True
                    time.sleep(CUT_S)
                    cable.is_cut = False
                else:
                    for node in cluster.nodes[:2]:
                        node.pause()
                    time.sleep(CUT_S)
                    for node in cluster.nodes[:2]:
                        node.resume()
                keep(cluster, held, events, agent)
                for session, _, _ in held:
                    session.close()
                wait_until(lambda: agent.status()["ties"] == 0, AGAIN_S,
                           "no ties")
        finally:
            cable.close()
