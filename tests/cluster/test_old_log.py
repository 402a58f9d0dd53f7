# SPDX-License-Identifier: MIT
"""A log that is older than the snapshot beside it: of an installation that was
interrupted, or of another day."""

import os
import shutil

import pytest

from cluster import Cluster, Session, admit_fences, wait_until


def part(node, name):
    return os.path.join(node.dir, name)


def newest_snapshot(node):
    return max(os.listdir(part(node, "snapshot")))


def snapshot(node):
    with node.connect(30) as client:
        assert client.do("RAFT.SNAPSHOT") == "OK"


def test_an_older_log_beside_a_newer_snapshot_is_refused():
    """This node's acknowledgements in between are gone."""
    with Cluster(1) as cluster:
        node = cluster.leader()
        snapshot(node)
        assert node.stop() == 0
        shutil.copytree(part(node, "wal"), part(node, "wal.old"))
        node.start()
        with cluster.leader().connect() as client:
            Session(client, ttl=600000)
            assert client.do("LOCK.ACQUIRE", "kept") > 0
            admit_fences(client, 50, 50)
        snapshot(node)
        assert node.stop() == 0
        shutil.rmtree(part(node, "wal"))
        os.rename(part(node, "wal.old"), part(node, "wal"))
        for _ in range(2):  # It does not get used to it.
            node.start()
            assert node.wait_exit() == 70
        assert "is incomplete: its log, up to entry" in node.log()
        assert "is older than its snapshot of entry" in node.log()
        assert "add it again with an empty directory" in node.log()


@pytest.mark.parametrize("has_mark", [True, False])
def test_an_installation_goes_on_under_its_mark_alone(has_mark):
    """As after a crash between the snapshot's name and the emptied log."""
    with Cluster(3) as cluster:
        leader = cluster.leader()
        node = cluster.followers(leader)[0]
        cluster.converged()
        assert node.stop() == 0
        with leader.connect() as client:
            session = Session(client, ttl=600000)
            token = client.do("LOCK.ACQUIRE", "kept")
            admit_fences(client, 50, 50)
        snapshot(leader)
        name = newest_snapshot(leader)
        shutil.copy(
            os.path.join(part(leader, "snapshot"), name), part(node, "snapshot")
        )
        _, log_index, term = name.split("-")
        if has_mark:
            with open(part(node, "installing"), "w") as file:
                file.write(
                    "index %d term %d\n" % (int(log_index, 16), int(term, 16))
                )
        node.start()
        if not has_mark:
            assert node.wait_exit() == 70
            assert "is older than its snapshot" in node.log()
            return
        cluster.converged()
        assert "log emptied after an interrupted installation" in node.log()
        assert not os.path.exists(part(node, "installing"))
        leader.kill()
        with cluster.leader().connect() as client:
            session.attach(client)
            assert client.do("LOCK.CHECK", "kept", token) == 1


def test_the_mark_goes_when_the_log_is_empty():
    with Cluster(3, "requests_in_flight = 300\n") as cluster:
        leader = cluster.leader()
        node = cluster.followers(leader)[0]
        node.kill()
        with leader.connect(30) as client:
            admit_fences(client, 18000, 200)
        snapshot(leader)
        node.start()
        wait_until(lambda: "snapshot installed" in node.log(), 30, "a snapshot")
        assert not os.path.exists(part(node, "installing"))
        node.kill()
        node.start()
        cluster.converged()
