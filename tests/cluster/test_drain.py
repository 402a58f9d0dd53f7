# SPDX-License-Identifier: MIT
"""hasp member drain: a node loses its clients and leadership without an error at
any client, in each language, and can then be stopped."""

import re
import subprocess
import threading
import time
import urllib.error
import urllib.request

import pytest

from cluster import Cluster, ReplyError, as_map, wait_until
from rotation_programs import KINDS, Programs
from tls_cluster import HASP


def hasp(cluster, *words):
    at = ",".join("127.0.0.1:%d" % node.client_port for node in cluster.nodes)
    return subprocess.run(
        [HASP, "-e", at] + [str(word) for word in words],
        capture_output=True, text=True, timeout=60,
    )


@pytest.fixture(scope="module")
def cluster():
    with Cluster(3) as made:
        made.leader()
        yield made


def readiness(node):
    url = "http://127.0.0.1:%d/readyz" % node.http_port
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def up(cluster):
    """All nodes hear each other again, and none is drained."""
    def is_up():
        states = [node.status() for node in cluster.nodes]
        return all(
            state is not None and state["leader"] != 0
            and as_map(state["machine"])["drained"] == 0 for state in states
        ) and all(
            0 <= member["last_contact_ms"] < 1000
            for state in states if state["role"] == "leader"
            for member in map(as_map, state["members"]))

    wait_until(is_up, 30, "all nodes up")


@pytest.mark.parametrize("kind", KINDS)
def test_each_node_is_drained_and_stopped_under_load(cluster, kind, tmp_path):
    """Programs of each language see no error while one node after the
    other, the leader included, is drained, stopped and started."""
    env = {"HASP_ENDPOINTS": ",".join(
        "127.0.0.1:%d" % node.client_port for node in cluster.nodes)}
    with Programs(tmp_path / "programs", [kind], lambda _: env) as programs:
        programs.go_on()
        for node in cluster.nodes:
            up(cluster)
            done = hasp(cluster, "member", "drain", node.id)
            assert done.returncode == 0, done.stderr
            assert "node %d is drained: it is safe to stop it" % node.id \
                in done.stderr
            assert node.status()["role"] != "leader"
            programs.go_on()
            assert node.stop() == 0
            programs.go_on()
            node.start()
        up(cluster)
        programs.check()


def test_what_a_drained_node_does(cluster):
    up(cluster)
    leader = cluster.leader()
    other = cluster.followers(leader)[0]
    with leader.connect() as idle, leader.connect() as waiting, \
            other.connect() as holder:
        idle.do("SESSION.OPEN", "TTL", 60000)
        waiting.do("SESSION.OPEN", "TTL", 60000)
        holder.do("SESSION.OPEN", "TTL", 60000)
        assert holder.do("LOCK.ACQUIRE", "held") > 0
        waiting.send("LOCK.ACQUIRE", "held", "WAIT", 30000, "REQ", 1)
        done = hasp(cluster, "member", "drain", leader.id)
        assert done.returncode == 0, done.stderr
        # Both were closed: the idle one, and later the one that waits.
        for client in (idle, waiting):
            with pytest.raises((ConnectionError, OSError)):
                client.receive()
        # Their sessions live on: a client that is closed has not died.
        assert len(as_map(holder.do("LOCK.SHOW", "held"))["queue"]) == 1
    assert readiness(leader) == (503, "drained: this node takes no clients\n")
    with leader.connect() as client:
        assert as_map(client.do("RAFT.STATUS"))["node"] == leader.id
        answer = client.once("LOCK.SHOW", "held")
        assert isinstance(answer, ReplyError)
        assert str(answer).startswith("NOLEADER this node is drained")
        with pytest.raises((ConnectionError, OSError)):
            client.receive()
    with leader.door() as client:
        assert as_map(client.do("LOCK.SHOW", "held"))["name"] == "held"
    assert "node %d: it is drained" % leader.id in hasp(cluster, "status").stderr
    # It hands back leadership that it is given.
    third = [n for n in cluster.nodes if n not in (leader, other)][0]
    hasp(cluster, "member", "transfer", leader.id)
    wait_until(lambda: leader.status()["role"] != "leader", 30, "handed over")
    # Without a second node the third would be alone.
    done = hasp(cluster, "member", "drain", third.id)
    assert done.returncode == 65
    assert "1 of 3 voters would be left" in done.stderr
    done = hasp(cluster, "member", "drain", leader.id, "--cancel")
    assert (done.returncode, done.stderr) == (
        0, "hasp: node %d serves clients\n" % leader.id)
    wait_until(lambda: readiness(leader)[0] == 200, 10, "ready again")
    with leader.connect() as client:
        assert client.do("LOCK.LIST") is not None
    assert re.search(r"administration.*command=NODE.DRAIN", leader.log())


def test_a_command_under_a_lock_goes_on(cluster):
    """hasp run keeps its lock while the node that it is connected to is drained,
    and a waiting hasp run gets it afterwards."""
    up(cluster)
    at = ["127.0.0.1:%d" % node.client_port for node in cluster.nodes]
    runs = []

    def run(place, command):
        runs.append(subprocess.run(
            [HASP, "-q", "-e", ",".join(at[place:] + at[:place]), "run",
             "drained/job", "--ttl", "3s", "--", "sh", "-c", command],
            capture_output=True, text=True, timeout=120))

    first = threading.Thread(target=run, args=(0, "sleep 6; echo first"))
    first.start()
    with cluster.nodes[2].connect() as client:
        wait_until(lambda: as_map(
            client.do("LOCK.SHOW", "drained/job"))["holders"], 20, "the hold")
    second = threading.Thread(target=run, args=(0, "echo second"))
    second.start()
    time.sleep(0.2)
    done = hasp(cluster, "member", "drain", cluster.nodes[0].id)
    assert done.returncode == 0, done.stderr
    first.join(60)
    second.join(60)
    hasp(cluster, "member", "drain", cluster.nodes[0].id, "--cancel")
    assert [(one.returncode, one.stdout) for one in runs] == [
        (0, "first\n"), (0, "second\n")], runs
