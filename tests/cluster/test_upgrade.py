# SPDX-License-Identifier: MIT
"""Two versions of different feature levels: upgraded one node at a time and
back again under load, finalized, and what becomes of an old node then."""

import json
import os
import shutil
import subprocess
import sys
import threading
import time

import pytest

from cluster import HASPD, HASPD_LEVEL2, ROOT, Cluster, ReplyError, wait_until

sys.path.insert(0, os.path.join(ROOT, "clients", "python"))

import hasp  # noqa: E402

HASP = os.environ.get("HASP", os.path.join(ROOT, "build", "release", "hasp"))
TOO_OLD = 76


def endpoints(cluster):
    return ",".join("127.0.0.1:%d" % n.client_port for n in cluster.nodes[:3])


class Load:
    """One that holds a lock all the time, and two that take turns."""

    def __init__(self, cluster):
        self.endpoints = endpoints(cluster)
        self.wrong = []
        self.cycles = 0
        self.tokens = []
        self.is_over = False
        self.keeper = hasp.Session(self.endpoints, name="keeper", ttl=20)
        self.kept = self.keeper.lock("kept")
        assert self.kept.acquire()
        self.token = self.kept.token
        self.threads = [
            threading.Thread(target=self.work, args=(i,)) for i in range(2)
        ]
        for thread in self.threads:
            thread.start()

    def work(self, number):
        try:
            with hasp.Session(
                self.endpoints, name="worker%d" % number, ttl=20, timeout=30
            ) as session:
                while not self.is_over:
                    with session.lock("turns") as lock:
                        self.tokens.append(lock.token)
                        lock.guard(0.5)
                    self.cycles += 1
                    time.sleep(0.002)
        except Exception as error:  # Raised in the main thread.
            self.wrong.append(error)

    def check(self):
        """It continues, and nothing has been lost."""
        before = self.cycles
        wait_until(
            lambda: self.wrong or self.cycles > before + 5, 30, "cycles"
        )
        assert self.wrong == []
        assert self.kept.remaining() > 0
        assert self.kept.token == self.token

    def end(self):
        self.is_over = True
        for thread in self.threads:
            thread.join(40)
            assert not thread.is_alive()
        assert self.wrong == []
        self.kept.release()
        self.keeper.close()
        assert sorted(set(self.tokens)) == self.tokens


@pytest.fixture(scope="module", autouse=True)
def two_versions():
    assert os.path.exists(HASPD_LEVEL2), "build it: make next-version"
    if b"RAFT.TRIAL" in open(HASPD, "rb").read():
        pytest.skip("HASPD is of the next version itself")


def exchange(cluster, node, program):
    """As the manual says: stopped cleanly, the next when all is well again."""
    assert node.stop() == 0
    node.program = program
    node.start()
    at = cluster.leader().status()["applied"]
    wait_until(
        lambda: all(
            n.status() and n.status()["applied"] >= at
            for n in cluster.nodes
            if n.is_running
        ),
        30,
        "all nodes have applied what the leader had",  # They continue under load.
    )
    wait_until(
        lambda: all(
            one["last_contact_ms"] < 1000 and one["level"] > 0
            for one in members(cluster)
        ),
        15,
        "all members are connected",
    )
    if len(cluster.nodes) == 3:
        frames_are_known(cluster)


def frames_are_known(cluster):
    """Each connection speaks the highest version that both nodes know, and a
    frame of the new one is sent to nodes that understand it."""
    for node in cluster.nodes[:3]:
        for other in cluster.nodes[:3]:
            if node is not other:
                both = {node.program, other.program} == {HASPD_LEVEL2}
                wait_until(
                    lambda: spoken(node, other) == (2 if both else 1, both),
                    15,
                    "nodes %d and %d speak" % (node.id, other.id),
                )
    assert not any("which version" in n.log() for n in cluster.nodes[:3])


def spoken(node, other):
    """(version, whether the new frame has come) since the newest connection
    of the newest start."""
    log = node.log()
    at = log.rfind('event="peer up" peer=%d ' % other.id)
    if at < 0:
        return None
    line, _, rest = log[at:].partition("\n")
    return (
        int(line.split("frames=")[1].split()[0]),
        'event="trial" peer=%d\n' % other.id in rest,
    )


def members(cluster):
    flat = cluster.leader().status()["members"]
    return [
        {k.decode(): v for k, v in zip(one[::2], one[1::2])} for one in flat
    ]


def trial(node, *words):
    """A request that only the new version understands: the answer, or the
    error."""
    with node.connect() as client:
        try:
            return client.do("RAFT.TRIAL", *words)
        except ReplyError as error:
            return str(error)


def expect_refused(cluster):
    """An entry and a field of the new level, at nodes of both versions."""
    for node in cluster.nodes[:3]:
        for words in (["entry"], ["a-name"]):
            answer = trial(node, *words)
            if node.program == HASPD:
                assert answer.startswith("ERR unknown command"), answer
            else:
                assert answer.startswith("LEVEL "), answer
                assert "nothing was done" in answer
                assert "hasp cluster finalize" in answer


def tool(cluster, *words):
    return subprocess.run(
        [HASP, "-e", endpoints(cluster)] + list(words),
        capture_output=True,
        text=True,
        timeout=60,
    )


def finalize_refused(cluster, why):
    result = tool(cluster, "cluster", "finalize")
    assert result.returncode == 69
    assert why in result.stderr


def levels(cluster):
    return [
        (s["level"], s["cluster_level"], s["finalize_level"])
        for s in (n.status() for n in cluster.nodes[:3])
    ]


def test_upgrade_downgrade_and_finalize_under_load(tmp_path):
    with Cluster(3) as cluster:
        leader = cluster.leader()
        assert levels(cluster) == [(1, 1, 0)] * 3
        load = Load(cluster)
        old = cluster.nodes[0]
        for node in cluster.nodes:
            exchange(cluster, node, HASPD_LEVEL2)
            load.check()
            expect_refused(cluster)
            if node.id < 3:
                finalize_refused(cluster, "upgrade it first")
        # And back again, while nobody has finalized.
        for node in cluster.nodes[1:]:
            exchange(cluster, node, HASPD)
            load.check()
        expect_refused(cluster)
        finalize_refused(cluster, "upgrade it first")
        kept = str(tmp_path / "kept")
        assert old.stop() == 0
        shutil.copytree(old.dir, kept)
        old.start()
        for node in cluster.nodes[1:]:
            exchange(cluster, node, HASPD_LEVEL2)
        load.check()
        leader = cluster.leader()
        assert "upgrade can be finalized" in leader.log()
        status = tool(cluster, "status")
        assert status.returncode == 0
        assert "finalize possible" in status.stderr

        done = tool(cluster, "-o", "json", "cluster", "finalize")
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["level"] == 2
        cluster.converged()
        assert [two[:2] for two in levels(cluster)] == [(2, 2)] * 3
        assert "finalize possible" not in tool(cluster, "status").stderr
        for count, node in enumerate(cluster.nodes, 1):
            assert trial(node, "entry") == count
            assert trial(node, "a-name") == 0
        load.check()

        old_nodes_are_refused(cluster, kept)
        load.check()
        load.end()
        cluster.converged()


def old_nodes_are_refused(cluster, kept):
    """One that finds the level in its own directory; one that was stopped
    before, and does not dial by itself since its number is the smallest; and
    one that is new."""
    first, last = cluster.nodes[0], cluster.nodes[2]
    assert last.stop() == 0
    last.program = HASPD
    last.start()
    assert last.wait_exit() == TOO_OLD
    assert "upgrade" in last.log().splitlines()[-1]
    last.program = HASPD_LEVEL2
    last.start()
    cluster.leader()
    cluster.converged()

    assert first.stop() == 0
    newest = str(kept) + "-newest"
    os.rename(first.dir, newest)
    shutil.copytree(kept, first.dir)
    first.program = HASPD
    first.start()
    assert first.wait_exit() == TOO_OLD
    said = first.log().splitlines()[-1]
    assert "this node is too old" in said and "feature level 2" in said
    refusing = cluster.nodes[1].log() + cluster.nodes[2].log()
    assert "that node is too old: it supports feature level 1" in refusing
    shutil.rmtree(first.dir)
    os.rename(newest, first.dir)
    first.program = HASPD_LEVEL2
    first.start()
    cluster.leader()
    cluster.converged()

    fourth = cluster.newcomer()
    with cluster.leader().connect(30) as client:
        client.send("RAFT.ADD", fourth.id, fourth.addresses, "STANDBY")
        assert fourth.wait_exit(30) == TOO_OLD
        assert client.receive() == "OK"
        assert client.do("RAFT.REMOVE", fourth.id) == "OK"
    cluster.nodes.remove(fourth)


def test_the_configuration_may_finalize():
    with Cluster(2, extra="[upgrade]\nfinalize = auto\n") as cluster:
        cluster.leader()
        exchange(cluster, cluster.nodes[0], HASPD_LEVEL2)
        assert {s["cluster_level"] for s in map_status(cluster)} == {1}
        exchange(cluster, cluster.nodes[1], HASPD_LEVEL2)
        wait_until(
            lambda: all(s["cluster_level"] == 2 for s in map_status(cluster)),
            15,
            "the level is raised",
        )


def map_status(cluster):
    return [node.status() for node in cluster.nodes]


def test_a_new_cluster_begins_with_the_level_of_its_founders():
    with Cluster(3, start=False) as cluster:
        for node in cluster.nodes:
            node.program = HASPD_LEVEL2
        cluster.start()
        assert trial(cluster.leader(), "entry") == 1
