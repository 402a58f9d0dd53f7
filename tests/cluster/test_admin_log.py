# SPDX-License-Identifier: MIT
"""Every administrative act is a line in the log of each node that applies it:
the actor, its address, the act, the session, its locks and tokens."""

import os
import re
import subprocess

import pytest

from cluster import ROOT, Cluster, Session, wait_until

HASP = os.environ.get("HASP", os.path.join(ROOT, "build", "release", "hasp"))


@pytest.fixture(scope="module")
def cluster():
    with Cluster(3) as nodes:
        nodes.leader()
        yield nodes


def tool(cluster, *words):
    done = subprocess.run(
        [HASP, "--socket", cluster.nodes[0].dir] + list(words),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr


def lines(node, *parts):
    """Those that have all the parts."""
    return [
        line
        for line in node.log().splitlines()
        if 'event="administration' in line and all(p in line for p in parts)
    ]


def told_by_all(cluster, *parts):
    """Each node says it once, and all the same; returns one of the lines."""
    wait_until(
        lambda: all(lines(node, *parts) for node in cluster.nodes[:3]),
        10,
        "all nodes report " + " ".join(parts),
    )
    found = [lines(node, *parts) for node in cluster.nodes[:3]]
    assert [len(one) for one in found] == [1] * 3, found
    assert len({re.sub(r"^.*node=\d+ ", "", one[0]) for one in found}) == 1
    return found[0][0]


def test_a_life_begins(cluster):
    line = told_by_all(cluster, "command=LIFE", "from=\"itself\"")
    assert re.search(r" command=LIFE from=\"itself\" node=\d$", line), line


def test_the_blacklist(cluster):
    follower = cluster.followers(cluster.leader())[0]
    with follower.connect() as client, follower.connect() as operator:
        held = Session(client, name="batch-7")
        token = client.do("LOCK.ACQUIRE", "orders")
        operator.do(
            "BLACKLIST.ADD", "SESSION", held.id, "REASON", "hangs", "BY", "ann"
        )
        line = told_by_all(cluster, "command=BLACKLIST.ADD", "hangs")
        address = "%s:%d" % operator.socket.getsockname()
        assert 'from="%s" by="ann"' % address in line
        assert "session=%d client=\"batch-7\"" % held.id in line
        assert "holds=1 lock=\"orders\" token=%d" % token in line
        tool(cluster, "blacklist", "remove", "--session", str(held.id))
        line = told_by_all(cluster, "command=BLACKLIST.REMOVE")
        assert "of_session=%d" % held.id in line and "@" in line
        assert operator.do(
            "LOCK.RELEASEIF", "orders", "OWNER", "", "TOKEN", token, "BY", "bob"
        ) == 1
        line = told_by_all(cluster, "command=LOCK.RELEASEIF")
        assert "by=\"bob\"" in line and "token=%d" % token in line
        assert "session=%d" % held.id in line


def test_what_the_tool_does_has_a_name(cluster):
    tool(cluster, "limits", "set", "fences", "100")
    assert "@" in told_by_all(cluster, "command=LIMITS.SET", "value=100")
    tool(cluster, "cluster", "finalize")
    tool(cluster, "please", "nobody-has-it", "soon")
    assert "@" in told_by_all(cluster, "command=LOCK.PLEASE", "soon")
    with cluster.leader().connect() as client:
        client.do("RAFT.SNAPSHOT", "BY", "ann")
    assert lines(cluster.leader(), "command=RAFT.SNAPSHOT", "by=\"ann\"")


def test_members(cluster):
    fourth = cluster.newcomer()
    tool(cluster, "member", "add", "4", fourth.addresses)
    line = told_by_all(cluster, "command=RAFT.ADD", "member=4")
    assert fourth.addresses in line and "@" in line
    wait_until(lambda: lines(fourth, "command=RAFT.ADD"), 10, "it knows, too")
    tool(cluster, "member", "remove", "4")
    told_by_all(cluster, "command=RAFT.REMOVE", "member=4")
    for node in cluster.nodes[:3]:
        assert 'event="members"' in node.log()
    if fourth.is_running:
        fourth.kill()
    cluster.nodes.remove(fourth)


def test_hostile_names_do_not_forge_a_line(cluster):
    evil = 'x"\nts=1 level=error event="node fails" \x1b[2J\x9b\u202e'
    with cluster.leader().connect() as client:
        client.do(
            "BLACKLIST.ADD", "CLIENT", "evil", "REASON", evil.encode(), "BY", "eve"
        )
    line = told_by_all(cluster, "by=\"eve\"")
    for node in cluster.nodes:
        assert not re.search(r"^ts=1 ", node.log(), re.M)
        with open(node.log_path, "rb") as file:
            assert not re.search(rb"[\x00-\x09\x0b-\x1f\x7f]", file.read())
    assert "\\x0ats=1" in line and "\\x1b[2J\\xc2\\x9b\\xe2\\x80\\xae" in line
