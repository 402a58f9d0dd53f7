# SPDX-License-Identifier: MIT
"""The tool on several nodes: status and the members, with nodes that send a
test's answers, and with real ones that die and fall silent."""

import json
import threading

from cluster import Cluster, Session, wait_until
from fake_node import FakeNode
from test_tool import dead_endpoint, hasp


def status_of(node, role, term, leader, address=b"", members=()):
    return {
        "node": node, "role": role, "term": term, "leader": leader,
        "leader_address": address, "commit": 1, "applied": 1,
        "members": list(members), "version": "1",
    }


def member(id, endpoint, role="voter", silent_ms=0):
    return {"id": id, "address": "127.0.0.1:1," + endpoint, "role": role,
            "match": 9, "last_contact_ms": silent_ms}


def rows_of(*words, endpoints):
    """Its stdout, the exit code, and its stderr."""
    result = hasp("-o", "json", *words, endpoints=endpoints)
    return json.loads(result.stdout), result.returncode, result.stderr


def test_members_are_asked_of_the_leader_and_not_of_one_that_was_removed():
    one = member(2, "127.0.0.1:1")
    old = status_of(1, "candidate", 2, 0, members=[dict(one, id=1)])
    with FakeNode(
        lambda words: status_of(2, "leader", 3, 2, members=[one])
        if words[0] == b"RAFT.STATUS" else "OK"
    ) as leader, FakeNode(lambda words: old) as gone, FakeNode(
        lambda words: status_of(3, "follower", 3, 2, leader.endpoint)
    ) as follower:
        # The last one names a leader that is not among the endpoints.
        for others in (leader, follower):
            both = gone.endpoint + "," + others.endpoint
            rows, _, told = rows_of("member", "list", endpoints=both)
            assert [row["id"] for row in rows] == [2] and told == ""
            result = hasp("member", "remove", "1", endpoints=both)
            assert result.returncode == 0, result.stderr
            assert leader.requests[-1][:3] == b"RAFT.REMOVE 1 BY".split()
            assert result.stderr == (
                "hasp: 1 is not a member: nothing to do\n"
            )
        assert all(r == [b"RAFT.STATUS"] for r in gone.requests)
        for words in (["remove", "1", "--force"], ["demote", "--force", "1"]):
            assert hasp("member", *words, endpoints=both).returncode == 0
            assert leader.requests[-1][1:3] == [b"1", b"FORCE"]
        result = hasp("-t", "300ms", "member", "remove", "1",
                      endpoints=gone.endpoint)
        assert result.returncode == 69 and "no leader" in result.stderr


def test_an_address_is_changed_by_its_parts_or_as_a_pair():
    one = member(2, "127.0.0.1:1")
    with FakeNode(
        lambda words: status_of(2, "leader", 3, 2, members=[one])
        if words[0] == b"RAFT.STATUS" else "OK"
    ) as leader:
        for words, sent in (
            (["h:7421", "h:7420"], b"h:7421,h:7420"),
            (["h:7421,h:7420"], b"h:7421,h:7420"),
            (["h:7421"], b"h:7421"),
        ):
            result = hasp("member", "update", "2", *words,
                          endpoints=leader.endpoint)
            assert result.returncode == 0, result.stderr
            assert leader.requests[-1][:4] == [b"RAFT.UPDATE", b"2", sent, b"BY"]
        asked = len(leader.requests)
        for words in (["x", "h:1"], ["2", "h"], ["2", "h:1,h:2", "h:3"],
                      ["2", "h:1", "h"], ["2", "h:1,"], ["2"]):
            result = hasp("member", "update", *words, endpoints=leader.endpoint)
            assert result.returncode == 64, (words, result.stderr)
        assert len(leader.requests) == asked


def test_without_a_leader_the_members_are_told_by_who_knows_most():
    old = status_of(1, "candidate", 9, 0, members=[member(1, "127.0.0.1:1")])
    new = status_of(2, "follower", 3, 0, members=[
        member(2, "127.0.0.1:1"), member(3, "127.0.0.1:1", silent_ms=-1),
    ])
    new["commit"] = 2
    with FakeNode(lambda words: old) as one, FakeNode(
        lambda words: new
    ) as other:
        both = one.endpoint + "," + other.endpoint
        result = hasp("-t", "300ms", "member", "list", endpoints=both)
        assert result.returncode == 0
        lines = [line.split() for line in result.stdout.splitlines()]
        assert [line[0] for line in lines] == ["ID", "2", "3"]
        assert [line[-1] for line in lines[1:]] == ["0ms", "never"]
        assert "no leader answers: this is what node 2 (%s) knows" % (
            other.endpoint
        ) in result.stderr
    result = hasp("-t", "300ms", "member", "list", endpoints=dead_endpoint())
    assert result.returncode == 69
    assert "no member answers" in result.stderr


def test_status_says_which_node_does_not_answer_and_why():
    dead = dead_endpoint()
    with FakeNode(lambda words: status_of(1, "leader", 1, 1)) as node:
        result = hasp("status", endpoints=dead + "," + node.endpoint)
        assert result.returncode == 0
        assert result.stderr == "hasp: %s: Connection refused\n" % dead


def test_all_nodes_are_asked_at_once():
    # None of them answers before all of them have been asked.
    all_are_asked = threading.Barrier(4, timeout=20)

    def answer(words):
        all_are_asked.wait()
        return status_of(1, "leader", 1, 1)

    nodes = [FakeNode(answer) for _ in range(4)]
    endpoints = ",".join(node.endpoint for node in nodes)
    result = hasp("status", endpoints=endpoints)
    for node in nodes:
        node.listener.close()
    assert result.returncode == 0 and result.stderr == ""
    assert len(result.stdout.splitlines()) == 5


def test_one_address_is_enough_to_see_the_whole_cluster():
    dead = dead_endpoint()
    states = {}
    nodes = [
        FakeNode(lambda words, id=id: states[id]) for id in range(1, 5)
    ]
    members = [member(i + 1, nodes[i].endpoint) for i in range(3)]
    members += [member(5, dead, silent_ms=41000),
                member(6, "127.0.0.1:1", "standby", -1)]
    for id in (1, 3):
        states[id] = status_of(
            id, "follower", 7, 2, nodes[1].endpoint, members[:3]
        )
    states[2] = status_of(2, "leader", 7, 2, nodes[1].endpoint, members)
    states[4] = status_of(4, "candidate", 3, 0, "", [member(4, "127.0.0.1:1")])
    try:
        rows, code, told = rows_of(
            "status",
            endpoints="%s,%s" % (nodes[3].endpoint, nodes[0].endpoint),
        )
        assert code == 0
        assert [(row["node"], row["role"]) for row in rows] == [
            (1, "follower"), (2, "leader"), (3, "follower"),
            (4, "removed"), (5, "unreachable"), (6, "unreachable"),
        ]
        lines = told.splitlines()
        assert "hasp: %s: Connection refused" % dead in lines
        assert lines[-1] == (
            "hasp: 3 of 5 up (voters: 3 of 4), leader 2, can lose 0"
        )
        # The leader has the last word on who is up.
        members[2]["last_contact_ms"] = 9000
        _, _, told = rows_of("status", endpoints=nodes[2].endpoint)
        assert "member 3 answers, but leader 2 does not hear it" in told
        assert told.splitlines()[-1] == (
            "hasp: 2 of 5 up (voters: 2 of 4), leader 2, can lose 0"
        )
    finally:
        for node in nodes:
            node.listener.close()


def test_a_node_of_another_cluster_is_not_believed():
    states = {}
    with FakeNode(lambda words: states["own"]) as own, FakeNode(
        lambda words: states["foreign"]
    ) as foreign:
        both = [member(1, own.endpoint), member(4, foreign.endpoint, "standby",
                                                -1)]
        states["own"] = dict(
            status_of(1, "leader", 2, 1, own.endpoint, both), cluster="aa"
        )
        states["foreign"] = dict(
            status_of(4, "leader", 9, 4, foreign.endpoint, both[1:]),
            cluster="bb",
        )
        rows, code, told = rows_of("status", endpoints=own.endpoint)
        assert code == 0
        assert [(row["node"], row["role"]) for row in rows] == [
            (1, "leader"), (4, "other cluster"),
        ]
        assert "%s: node 4 belongs to another" % foreign.endpoint in told
        assert told.splitlines()[-1] == (
            "hasp: 1 of 2 up (voters: 1 of 1), leader 1, can lose 0"
        )
        rows, _, _ = rows_of(
            "member", "list", endpoints=own.endpoint + "," + foreign.endpoint
        )
        assert [row["id"] for row in rows] == [1, 4]


def test_a_cluster_is_seen_from_any_member_while_others_are_away():
    with Cluster(3) as cluster:
        leader = cluster.leader()
        second, third = cluster.followers(leader)
        cluster.converged()

        def seen(by, *words):
            address = "127.0.0.1:%d" % by.client_port
            return rows_of(*words, endpoints=address)

        rows, code, told = seen(second, "status")
        assert code == 0 and [row["node"] for row in rows] == [1, 2, 3]
        assert told == "hasp: 3 of 3 up, leader %d, can lose 1\n" % leader.id
        third.pause()
        rows, code, told = seen(leader, "status")
        roles = {row["node"]: row["role"] for row in rows}
        assert code == 0 and roles[third.id] == "unreachable"
        assert told.splitlines()[-1] == (
            "hasp: 2 of 3 up, leader %d, can lose 0" % leader.id
        )
        leader.kill()
        wait_until(
            lambda: second.status()["role"] == "candidate", 20, "no leader"
        )
        rows, code, told = seen(second, "member", "list")
        assert code == 0 and [row["id"] for row in rows] == [1, 2, 3]
        assert "this is what node %d " % second.id in told
        assert rows[third.id - 1]["last_contact_ms"] > 0
        assert rows[second.id - 1]["last_contact_ms"] == 0
        rows, code, told = seen(second, "status")
        assert code == 69 and len(rows) == 3
        assert told.splitlines()[-1] == (
            "hasp: 1 of 3 up, no leader: 1 more must start"
        )
        third.resume()
        with cluster.leader().connect() as client:
            Session(client)
