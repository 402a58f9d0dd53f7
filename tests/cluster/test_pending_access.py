# SPDX-License-Identifier: MIT
"""A node that starts with an older state than its log, as after a power
failure, and hears no leader: it heeds what the log says of users and access."""

import hashlib
import os

import pytest

from cluster import Cluster, ReplyError, wait_until

SECRET = "hasp1.app." + 43 * "a"


def lose_power(node):
    """Another boot wrote the table, so it is rebuilt."""
    node.kill()
    with open(os.path.join(node.dir, "trust"), "w") as file:
        file.write("boot of-an-earlier-day\n")


def administer(node, *commands):
    with node.door() as admin:
        for command in commands:
            admin.do(*command.split())


def alone(cluster, node):
    """The node has lost power and is alone; its log has all."""
    wait_until(lambda: len({applied(n) for n in cluster.nodes}) == 1, 10, "all")
    for one in cluster.nodes:
        if one is not node:
            one.kill()
    lose_power(node)
    node.start()
    wait_until(lambda: can_connect(node), 10, "it listens")
    assert "table is rebuilt" in node.log()


def applied(node):
    with node.door() as admin:
        return admin.map("RAFT.STATUS")["applied"]


def can_connect(node):
    try:
        node.connect().close()
        return True
    except OSError:
        return False


def refusal(node, *words, word="NOLEADER"):
    with node.connect() as client:
        reply = client.once(*words)
        assert isinstance(reply, ReplyError), (words, reply)
        assert reply.code == word, (words, reply)
        return str(reply)


@pytest.mark.parametrize("has_snapshot", [False, True])
def test_access_that_was_required_since_its_state_is_required(has_snapshot):
    with Cluster(3) as cluster:
        node = cluster.leader()
        if has_snapshot:
            administer(node, "RAFT.SNAPSHOT")
        administer(node, "ACCESS.SET REQUIRED FORCE")
        alone(cluster, node)
        for words in ("RAFT.STATUS", "LOCK.WATCH a", "LOCK.HISTORY", "INFO"):
            why = refusal(node, *words.split())
            assert "has not yet applied changes of users and access" in why
        administer(node, "RAFT.STATUS")  # The local door is open.
        cluster.start()
        wait_until(lambda: is_led(node), 15, "a leader")
        wait_until(lambda: is_told_who(node), 15, "it has applied all")


def is_led(node):
    with node.door() as admin:
        return admin.map("RAFT.STATUS")["leader"] != 0


def is_told_who(node):
    with node.connect() as client:
        return client.once("RAFT.STATUS").code == "NOAUTH"


def test_a_secret_that_was_removed_since_its_state_is_no_secret():
    with Cluster(3) as cluster:
        node = cluster.leader()
        digits = hashlib.sha256(SECRET.encode()).hexdigest()
        administer(
            node,
            "ROLE.SET app IF 0 GRANTS read:*",
            "USER.SET app IF 0 ROLES app",
        )
        with node.door() as admin:
            number = admin.do("SECRET.ADD", "app", digits)
        administer(node, "ACCESS.SET REQUIRED FORCE", "RAFT.SNAPSHOT")
        with node.connect() as client:
            assert client.do("AUTH", SECRET) == "OK"
        administer(node, "SECRET.REMOVE app %d" % number)
        alone(cluster, node)
        assert "has not yet applied" in refusal(node, "AUTH", SECRET)
        cluster.start()
        wait_until(lambda: is_led(node), 15, "a leader")
        wait_until(lambda: is_told_who(node), 15, "applied")
        refusal(node, "AUTH", SECRET, word="WRONGPASS")


def test_a_node_that_never_joined_says_how_it_is():
    with Cluster(1) as cluster:
        cluster.leader()
        node = cluster.newcomer()
        wait_until(lambda: "waiting to be added" in node.log(), 10, "it waits")
        wait_until(lambda: node.status() is not None, 10, "it answers")
