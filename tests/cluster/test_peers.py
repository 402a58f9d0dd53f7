# SPDX-License-Identifier: MIT
"""Bytes on the peer port: which peers are refused, and which acts of a node its
members cannot cause. Afterwards only the log has a new line."""

import os
import socket
import struct
import subprocess
import time

import pytest

from cluster import (
    HASPD,
    Cluster,
    ReplyError,
    Session,
    wait_until,
)
from fake_peer import (
    ANSWER,
    APPEND_RESULT,
    LOST,
    RAFT,
    SNAPSHOT,
    VOTE,
    FakePeer,
    identity,
    run,
)
from test_http import get

FAR = 2**50


def vote(number, term):
    return struct.pack(
        "<BBQQQQBI", VOTE, 0, term, number, FAR, term - 1, 1, 0
    )


class Calm:
    """A cluster of three, the third of which is down, and what must not
    change."""

    def __enter__(self):
        self.cluster = Cluster(3).__enter__()
        self.cluster.converged()
        self.leader = wait_until(self.lead, 15, "one that stays leads")
        self.dead = self.cluster.nodes[2]
        self.other = self.cluster.nodes[2 - self.leader.id]
        self.client = self.leader.connect()
        self.session = Session(self.client, ttl=60000)
        self.token = self.client.do("LOCK.ACQUIRE", "kept")
        self.cluster.converged()
        self.id, self.incarnation = identity(self.dead)
        self.dead.kill()
        self.settle()
        for node in self.cluster.nodes[:2]:
            self.as_the_dead(node).socket.close()
        return self

    def lead(self):
        leader = self.cluster.leader()
        if leader.id != 3:
            return leader
        with leader.connect() as client:
            try:
                client.do("RAFT.TRANSFER", 1)
            except ReplyError as error:
                # On a busy disk a vote takes longer than an election.
                assert error.code == "UNKNOWN", error
        return None

    def as_the_dead(self, node):
        """A process that knows all of a member that is down passes for it."""
        status = node.status()
        peer = FakePeer(
            node,
            3,
            cluster=self.id,
            incarnation=self.incarnation,
            term=status["term"],
            last=status["applied"],
        )
        assert peer.is_welcome()
        return peer

    def look(self):
        return {
            (n.status()["term"], n.status()["leader"])
            for n in self.cluster.nodes[:2]
        }

    def settle(self):
        """From now on nothing changes: both know the same leader."""
        wait_until(lambda: len(self.look()) == 1, 10, "they agree")
        self.before = self.look()

    def __exit__(self, kind, *rest):
        try:
            if kind is None:
                assert self.look() == self.before
                assert self.client.do("LOCK.CHECK", "kept", self.token) == 1
                assert self.client.do("LOCK.ACQUIRE", "more") > 0
                assert all(n.is_running for n in self.cluster.nodes[:2])
        finally:
            self.client.close()
            self.cluster.__exit__(kind, *rest)


def refusals(node):
    return [
        line for line in node.log().splitlines() if "peer refused" in line
    ]


def test_who_knows_nothing_is_no_member():
    with Calm() as calm:
        greetings = [
            (3, {}),
            (3, {"cluster": b"x" * 16}),
            (3, {"applied": FAR, "members": FAR, "term": FAR, "last": FAR}),
            (2, {}),
            (1, {}),
            (4, {"members": FAR}),
            (77, {}),
        ]
        for node in calm.cluster.nodes[:2]:
            for number, fields in greetings * 3:
                with FakePeer(node, number, **fields) as peer:
                    peer.send(RAFT, vote(number, 2**62))
                    assert peer.is_closed()
            lines = refusals(node)
            assert 1 <= len(lines) <= 5, lines


def test_who_knows_the_cluster_is_no_member_either():
    with Calm() as calm:
        claims = {"applied": FAR, "members": FAR, "term": 1, "last": FAR}
        greetings = [
            # A member that is down, with another directory.
            (3, {"incarnation": calm.incarnation + 1}, "data directory"),
            (3, {"incarnation": 1, **claims}, "data directory"),
            # An invented one, that wants to be a guest.
            (4, {"incarnation": 1, **claims}, "no member known to this node"),
        ]
        for number, fields, reason in greetings:
            with FakePeer(calm.leader, number, cluster=calm.id, **fields) as peer:
                peer.send(RAFT, vote(number, 2**62))
                assert peer.is_closed()
            assert reason in refusals(calm.leader)[-1]


def test_an_impostor_acknowledges_nothing():
    """One of three is left: its new entries are on one disk."""
    with Cluster(3) as cluster:
        leader = cluster.leader()
        others = cluster.followers(leader)
        cluster.converged()
        cluster_id, incarnation = identity(others[0])
        with leader.connect(3) as client:
            Session(client, ttl=60000)
            cluster.converged()
            last = leader.status()["applied"]
            term = leader.status()["term"]
            for node in others:
                node.kill()
            for number in (2, 3, 1):
                if number == leader.id:
                    continue
                fields = {"cluster": cluster_id, "term": term, "last": last}
                for wrong in (
                    {"incarnation": incarnation ^ 2},
                    {"incarnation": incarnation, "cluster": bytes(16)},
                ):
                    with FakePeer(leader, number, **{**fields, **wrong}) as peer:
                        peer.send(
                            RAFT,
                            struct.pack(
                                "<BBQQQ", APPEND_RESULT, 0, term, 0, last + 1
                            ),
                        )
            with pytest.raises((ReplyError, OSError)):
                client.do("LOCK.ACQUIRE", "a")
                client.do("LOCK.ACQUIRE", "b")


def test_a_member_cannot_end_all_elections():
    with Calm() as calm:
        for node in calm.cluster.nodes[:2]:
            with calm.as_the_dead(node) as peer:
                peer.send(RAFT, vote(3, 2**62))
                assert peer.is_closed()
            assert "more than 2^32 above" in refusals(node)[-1]


def test_a_members_snapshot_has_to_fit_on_the_disk():
    with Calm() as calm:
        node = calm.other
        term = node.status()["term"]
        with calm.as_the_dead(node) as peer:
            for _ in range(100):
                peer.send(
                    SNAPSHOT,
                    struct.pack("<5Q", term, FAR, term, 2**60, 0)
                    + run(b"x" * 65536),
                )
            wait_until(
                lambda: "snapshot refused" in node.log(), 5, "it is logged"
            )
            assert node.log().count("snapshot refused") <= 5
            for _, _, files in os.walk(os.path.join(node.dir, "snapshot")):
                assert not files


def test_an_answer_comes_from_whom_was_asked():
    with Calm() as calm:
        node = calm.other
        calm.leader.pause()
        try:
            with node.connect() as client, calm.as_the_dead(node) as peer:
                client.send("LOCK.SHOW", "kept")
                for conn in range(1, 60):
                    for slot in range(3):
                        peer.send(
                            ANSWER,
                            struct.pack("<QQBQ", conn, slot, 0, 0)
                            + run(b":4711\r\n"),
                        )
                time.sleep(0.1)
                calm.leader.resume()
                assert client.receive() != 4711
        finally:
            calm.leader.resume()


def lost(node, term):
    _, incarnation = identity(node)
    last = node.status()["applied"] + 1000
    return struct.pack("<4Q", incarnation, term, last, 0)


def test_who_is_said_to_have_lost_data_asks_its_leader():
    with Calm() as calm:
        node = calm.other
        barred = os.path.join(node.dir, "barred")
        with calm.as_the_dead(node) as peer:
            peer.send(LOST, lost(node, calm.leader.status()["term"]))
            wait_until(lambda: "bar lifted" in node.log(), 10, "it is lifted")
        assert node.log().count("this node is barred") == 1
        wait_until(lambda: not os.path.exists(barred), 10, "on the disk, too")
        # The leader learns of a later term by a majority without that node.
        with calm.as_the_dead(node) as peer:
            peer.send(LOST, lost(node, 10**6))
            wait_until(lambda: os.path.exists(barred), 10, "it is barred")
        calm.dead.start()
        wait_until(lambda: not os.path.exists(barred), 10, "it is lifted")
        wait_until(lambda: get(node, "/readyz")[0] == 200, 10, "ready")
        calm.settle()
        calm.client.close()
        calm.leader = calm.cluster.leader()
        calm.client = calm.leader.connect()
        calm.session.attach(calm.client)


def test_a_bar_ends_by_the_operator_where_no_leader_knows():
    with Calm() as calm:
        node = calm.other
        calm.leader.kill()
        with calm.as_the_dead(node) as peer:
            peer.send(LOST, lost(node, 10**6))
            wait_until(
                lambda: "this node is barred" in node.log(), 10, "barred"
            )
        assert get(node, "/readyz")[0] == 503
        command = [HASPD, "--uncondemn", "--dir", node.dir]
        running = subprocess.run(command, capture_output=True, text=True)
        assert running.returncode == 70, "another process has it"
        node.kill()
        # It stays so: without it the two others are not a majority.
        node.start()
        calm.leader.start()
        wait_until(lambda: "this node is barred" in node.log(), 10, "again")
        time.sleep(2)
        assert not node.is_serving() and not calm.leader.is_serving()
        node.kill()
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0
        assert "mark removed: this node has acknowledged entry" in done.stdout
        node.start()
        calm.leader = calm.cluster.leader()
        calm.client.close()
        calm.client = calm.leader.connect()
        calm.session.attach(calm.client)
        calm.settle()


def test_half_open_connections_keep_no_member_out():
    with Calm() as calm:
        node = calm.other
        half = []
        for i in range(200):
            one = socket.create_connection(("127.0.0.1", node.peer_port), 5)
            one.sendall(struct.pack("<IBBH", 92, 1, 0, 0)[: i % 9])
            half.append(one)
        calm.dead.start()
        wait_until(
            lambda: calm.dead.status() is not None
            and calm.dead.status()["leader"] == calm.leader.id,
            10,
            "the member comes back",
        )
        assert len(refusals(node)) <= 5
        for one in half:
            one.close()
