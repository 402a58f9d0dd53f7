# SPDX-License-Identifier: MIT
"""Real nodes and clients under kills, stops, partitions and loss.

    NEMESIS_SECONDS=600 NEMESIS_SEED=7 NEMESIS_NODES=5 \\
        make cluster T=nemesis

runs longer, otherwise or with more nodes; NEMESIS_PLANT makes every client
wrong in a way that nemesis_client.py names, which the run must then find.
"""

import collections
import os
import time

import pytest

from cluster import Session, wait_until
from nemesis import World, schedule, wait_progress, why_not
from nemesis_check import Belief, Counter, check, read_history
from nemesis_client import LOCKS

SECONDS = float(os.environ.get("NEMESIS_SECONDS", "30"))
SEED = int(os.environ.get("NEMESIS_SEED", "1"))
NODES = int(os.environ.get("NEMESIS_NODES", "3"))
PLANT = os.environ.get("NEMESIS_PLANT", "")
REASON = why_not()

needs_namespaces = pytest.mark.skipif(
    REASON is not None, reason="no network namespaces: %s" % REASON
)
Outcome = collections.namedtuple("Outcome", "found beliefs counts leaders")


def belief(begin, end, token, mode="exclusive", call=None, lock="a"):
    call = begin if call is None else call
    return Belief(0, lock, mode, token, call, begin, end)


def test_the_checker_sees_what_is_wrong():
    right = [belief(0, 1, 5), belief(1, 2, 6), belief(2, 2, 9)]
    assert check(right) == []
    assert check([belief(0, 1, 5), belief(0.9, 2, 6)])
    assert check([belief(0, 5, 5), belief(1, 2, 6), belief(6, 7, 7)])
    assert check([belief(0, 1, 5), belief(2, 3, 5)])
    assert check([belief(0, 1, 5), belief(2, 3, 4)])
    readers = [belief(0, 2, 5, "shared"), belief(1, 3, 5, "shared", 0)]
    assert check(readers) == []
    assert check(readers + [belief(2.5, 4, 6)])
    assert check([belief(0, 2, 6, "shared"), belief(3, 4, 5, "shared")])
    slots = [belief(0, 2, 5, "slots"), belief(0.5, 3, 6, "slots")]
    assert check(slots) == []
    assert check(slots + [belief(1, 2, 7, "slots")])
    other = [belief(0, 2, 5), belief(1, 3, 6, lock="b")]
    assert check(other) == []


def test_the_counter_sees_a_lost_update():
    counter = Counter()
    read = {"op": "read", "lock": "a", "token": 1}
    write = {"op": "write", "lock": "a", "token": 1, "value": 1}
    assert counter.ask(read)["value"] == 0
    assert counter.ask(write)["ok"]
    assert counter.found() == []
    assert counter.ask(write)["ok"]
    assert counter.found()
    assert counter.ask(dict(read, token=2))["ok"]
    assert not counter.ask(write)["ok"]


def take_all(world, beliefs):
    """Every lock can be had again within a lease and a few seconds, whoever
    held it, with a token greater than all before."""
    leader = world.cluster.leader()
    greatest = collections.Counter()
    for one in beliefs:
        greatest[one.lock] = max(greatest[one.lock], one.token)
    by = time.monotonic() + world.ttl_s + 5
    with leader.connect(15) as client:
        Session(client, ttl=60000)
        for lock in LOCKS:
            left_ms = max(1, int((by - time.monotonic()) * 1000))
            token = client.do("LOCK.ACQUIRE", lock, "WAIT", left_ms)
            if token is None:
                yield "%s cannot be had after the faults: %r" % (
                    lock,
                    client.do("LOCK.SHOW", lock),
                )
            elif token <= greatest[lock]:
                yield "%s: token %d after %d" % (lock, token, greatest[lock])
        client.do("SESSION.CLOSE")


def run(nodes, seconds, seed, plant="", plan=None):
    with World(nodes, seed=seed, plant=plant) as world:
        world.run(plan or schedule(seed, seconds), seconds)
        world.cluster.leader(10)
        wait_progress(world, 15)
        world.stop_clients()
        beliefs, bad, counts = read_history(world.records())
        found = world.found + bad + check(beliefs)
        found += world.server.counter.found()
        found += take_all(world, beliefs)
        world.cluster.converged(10)
        world.watch_deaths()
        leaders = sum(
            n.log().count("became leader") for n in world.cluster.nodes
        )
        found += [f for f in world.found if f not in found]
        print("\n".join(world.log))
        print("%d beliefs, %d terms, %r" % (len(beliefs), leaders, counts))
        if found and not plant:
            world.cluster.print_logs()
    return Outcome(found, beliefs, counts, leaders)


@needs_namespaces
def test_beliefs_never_overlap_and_tokens_grow(long_run):
    outcome = run(NODES, SECONDS, SEED, PLANT)
    assert outcome.found == []
    # A run in which nothing happened proves nothing.
    assert len(outcome.beliefs) > 100
    assert outcome.counts.get("repeated", 0) > 10
    assert outcome.leaders >= 3


@needs_namespaces
def test_a_client_that_trusts_its_lease_for_ever_is_found_out():
    """Stopped for two leases, with most of the others, while it holds."""
    plan = [
        (at, 4.0, "stop two clients", number)
        for at in (1.5, 6.5)
        for number in (1, 2, 3)
    ]
    outcome = run(3, 11, 3, "forever", plan)
    assert any("began to believe" in f for f in outcome.found)


@pytest.fixture
def long_run():
    """The usual bound on a test's time, extended by what was asked for."""
    import signal

    signal.alarm(120 + int(SECONDS))
