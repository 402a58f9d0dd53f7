# SPDX-License-Identifier: MIT
"""docs/recipes/ctdb-lock, started as CTDB starts it: it prints a digit and holds
the lock as long as it lives. The resource is a file that says who is inside."""

import os
import select
import signal
import subprocess
import sys
import time

import pytest

from cluster import ROOT, Cluster, wait_until

HASP = os.environ.get("HASP", os.path.join(ROOT, "build", "release", "hasp"))
HELPER = os.path.join(ROOT, "docs", "recipes", "ctdb-lock")
SPARE_S = 60


@pytest.fixture(scope="module")
def cluster():
    with Cluster(3) as one:
        one.leader()
        yield one


@pytest.fixture
def name(request):
    return "%s-%d" % (request.node.name, time.monotonic_ns())


@pytest.fixture
def start(cluster):
    """Starts a helper, by a parent of its own if 'parent' is given."""
    all_of_them = []

    def start_one(name, parent=(), ports=None):
        ports = ports or [n.client_port for n in cluster.nodes]
        environment = dict(
            os.environ, PATH=os.path.dirname(os.path.abspath(HASP)) + ":" +
            os.environ["PATH"],
            HASP_ENDPOINTS=",".join("127.0.0.1:%d" % port for port in ports))
        helper = subprocess.Popen([*parent, HELPER, name], env=environment,
                                  stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        all_of_them.append(helper)
        return helper

    yield start_one
    for helper in all_of_them:
        helper.terminate()
    for helper in all_of_them:
        helper.wait(SPARE_S)
        helper.stdout.close()


def digit(helper):
    ready, _, _ = select.select([helper.stdout], [], [], SPARE_S)
    assert ready, "it prints nothing"
    return helper.stdout.read1(2)


def takes(start, name):
    """A helper that has it, as soon as one can."""
    found = []

    def attempt():
        time.sleep(0.2)  # Each try is a few processes.
        helper = start(name)
        said = digit(helper)
        assert said in (b"0", b"1"), said
        found.append(helper)
        return said == b"0"

    wait_until(attempt, SPARE_S, "the lock")
    return found[-1]


def test_one_has_it_and_the_next_after_it(start, name):
    first = start(name)
    assert digit(first) == b"0"
    began = time.monotonic()
    assert digit(start(name)) == b"1"
    assert time.monotonic() - began < 20, "contention is reported at once"
    assert first.poll() is None
    first.terminate()
    first.wait(SPARE_S)
    assert first.stdout.read() == b"", "nothing after the digit"
    takes(start, name)


def test_it_ends_with_its_parent(start, name):
    """Which is killed, so that it cannot stop its helper."""
    parent = start(name, parent=[
        sys.executable, "-c",
        "import subprocess, sys; subprocess.run(sys.argv[1:])"])
    assert digit(parent) == b"0"
    parent.kill()
    parent.wait()
    takes(start, name)


def test_killed_it_lets_go(start, name):
    first = start(name)
    assert digit(first) == b"0"
    first.kill()
    first.wait()
    takes(start, name)


def test_without_a_cluster_it_is_an_error(start, name):
    helper = start(name, ports=[1])
    assert digit(helper) == b"3"


@pytest.mark.parametrize("way", ["kill", "pause"])
def test_a_leader_that_dies_or_freezes_costs_no_lock(start, cluster, name, way):
    helper = start(name)
    assert digit(helper) == b"0"
    leader = cluster.leader()
    getattr(leader, way)()
    try:
        cluster.leader(besides=[leader])
        assert digit(start(name, ports=[n.client_port for n in cluster.nodes
                                        if n is not leader])) == b"1"
        assert helper.poll() is None
    finally:
        leader.resume() if way == "pause" else leader.start()
    wait_until(leader.status, SPARE_S, "the node")


def test_without_a_majority_it_ends_first(start, name):
    with Cluster(3) as own:
        own.leader()
        helper = start(name, ports=[n.client_port for n in own.nodes])
        assert digit(helper) == b"0"
        for node in own.nodes[:2]:
            node.signal(signal.SIGSTOP)
        helper.wait(SPARE_S)
        assert helper.stdout.read() == b""
        for node in own.nodes[:2]:
            node.signal(signal.SIGCONT)
        own.leader()
