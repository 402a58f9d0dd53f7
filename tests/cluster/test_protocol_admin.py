# SPDX-License-Identifier: MIT
"""BLACKLIST.*, FENCE.* and RAFT.* to the letter."""

import secrets
import time

import pytest

from wire import (
    NULL_BULK,
    OK,
    Map,
    connect,
    eventually,
    name,
    opened,
    opens,
    plain,
    world,
)


@pytest.fixture
def client(connect):
    def one(*options, version=2):
        wire = connect(version)
        wire.session, wire.secret = opens(wire, *options)
        return wire

    return one


# Blacklist.


def test_a_blacklisted_session_is_refused_with_the_reason(client, connect, name):
    one, operator = client(), connect()
    one.do("LOCK.ACQUIRE", name)
    one.do("LOCK.ACQUIRE", name)
    assert (
        operator.do(
            "BLACKLIST.ADD", "SESSION", one.session, "REASON", "it hangs", "BY", "me"
        )
        == OK
    )
    assert one.error("SESSION.KEEP") == ("BLACKLISTED", "it hangs")
    assert one.error("LOCK.ACQUIRE", name + "x") == ("BLACKLISTED", "it hangs")
    assert one.error("LOCK.ACQUIRE", name)[0] == "BLACKLISTED"
    shown = operator.map("SESSION.SHOW", one.session)
    assert shown["blacklisted"] == 1
    # It may give back and close.
    assert one.do("LOCK.RELEASE", name) == 1
    assert one.do("SESSION.CLOSE") == 1


def test_a_blacklisted_holder_keeps_its_lock_until_its_lease_ends(
    client, connect, name
):
    one, two, operator = client("TTL", 500), client(), connect()
    token = one.do("LOCK.ACQUIRE", name)
    begun = time.monotonic()
    one.do("SESSION.KEEP")
    operator.do("BLACKLIST.ADD", "SESSION", one.session)
    assert two.do("LOCK.ACQUIRE", name) is NULL_BULK
    assert one.error("SESSION.KEEP")[0] == "BLACKLISTED"
    assert two.do("LOCK.ACQUIRE", name, "WAIT", 5000) > token
    assert 0.45 < time.monotonic() - begun < 0.8


def test_a_pattern_hits_clients_new_and_old(client, connect, name):
    old, operator, new = client("NAME", name + "-7"), connect(), connect()
    assert operator.do("blacklist.add", "client", name + "-*", "reason", "r") == OK
    assert old.error("SESSION.KEEP") == ("BLACKLISTED", "r")
    assert new.error("SESSION.OPEN", "NAME", name + "-8") == ("BLACKLISTED", "r")
    assert new.map("SESSION.OPEN", "NAME", name)["id"] > 0
    assert operator.do("BLACKLIST.REMOVE", "CLIENT", name + "-*") == 1
    assert operator.do("BLACKLIST.REMOVE", "CLIENT", name + "-*") == 0
    assert old.map("SESSION.KEEP", "FULL")["ttl_ms"] == 10000
    assert new.map("SESSION.OPEN", "NAME", name + "-8")["id"] > 0


def test_blacklisting_for_a_time_ends_by_itself(client, connect):
    one, operator = client(), connect()
    operator.do("BLACKLIST.ADD", "SESSION", one.session, "FOR", 200)
    assert one.error("SESSION.KEEP")[0] == "BLACKLISTED"
    time.sleep(0.4)
    assert one.map("SESSION.KEEP", "FULL")["ttl_ms"] == 10000


def test_a_waiter_that_is_blacklisted_leaves_the_queue(client, connect, name):
    one, two, operator = client(), client(), connect()
    one.do("LOCK.ACQUIRE", name)
    two.send("LOCK.ACQUIRE", name, "WAIT", "FOREVER")
    eventually(lambda: len(one.map("LOCK.SHOW", name)["queue"]) == 1)
    operator.do("BLACKLIST.ADD", "SESSION", two.session, "REASON", "r")
    with pytest.raises(Exception, match="BLACKLISTED r"):
        two.receive()
    assert one.map("LOCK.SHOW", name)["queue"] == []
    operator.do("BLACKLIST.REMOVE", "SESSION", two.session)


@pytest.mark.parametrize("version", [2, 3])
def test_the_list_tells_who_why_and_until_when(connect, name, version):
    wire = connect(version)
    wire.do("BLACKLIST.ADD", "CLIENT", name, "REASON", "r", "BY", "b", "FOR", 60000)
    entries = wire.do("BLACKLIST.LIST", "COUNT", 1000)[1]
    mine = [e for e in entries if plain(e)["client"] == name.encode()]
    assert len(mine) == 1 and isinstance(mine[0], Map) == (version == 3)
    entry = plain(mine[0])
    assert list(entry) == ["session", "client", "reason", "by", "for_ms", "since_ms"]
    assert (entry["session"], entry["reason"], entry["by"]) == (0, b"r", b"b")
    assert entry["for_ms"] == 60000 and 0 <= entry["since_ms"] < 5000
    # The same again replaces, and is not two.
    wire.do("BLACKLIST.ADD", "CLIENT", name, "REASON", "s")
    mine = [
        plain(e)
        for e in wire.do("BLACKLIST.LIST", "COUNT", 1000)[1]
        if plain(e)["client"] == name.encode()
    ]
    assert [(e["reason"], e["for_ms"]) for e in mine] == [(b"s", 0)]
    assert wire.do("BLACKLIST.REMOVE", "CLIENT", name) == 1


@pytest.mark.parametrize(
    "words",
    [
        "BLACKLIST.ADD",
        "BLACKLIST.ADD SESSION",
        "BLACKLIST.ADD SESSION x",
        "BLACKLIST.ADD SESSION 5 CLIENT x",
        "BLACKLIST.ADD CLIENT x FOR 0",
        "BLACKLIST.ADD CLIENT x FOR y",
        "BLACKLIST.ADD REASON x",
        "BLACKLIST.REMOVE",
        "BLACKLIST.REMOVE REASON x",
        "BLACKLIST.LIST x",
        "FENCE.ADMIT",
        "FENCE.ADMIT r",
        "FENCE.ADMIT r x",
        "FENCE.ADMIT r -1",
        "FENCE.ADMIT r 1 2",
        "FENCE.SHOW",
        "RAFT.ADD 9",
        "RAFT.ADD x 127.0.0.1:1",
        "RAFT.ADD 9 nonsense",
        "RAFT.ADD 9 127.0.0.1:0",
        "RAFT.ADD 9 127.0.0.1:65536",
        "RAFT.ADD 9 ::1:7421",
        "RAFT.ADD 9 :7421",
        "RAFT.ADD 9 127.0.0.1:7421,",
        "RAFT.ADD 9 127.0.0.1:7421,127.0.0.1",
        "RAFT.ADD 9 127.0.0.1:1,127.0.0.1:2,127.0.0.1:3",
        "RAFT.REMOVE",
        "RAFT.PROMOTE 99",
        "RAFT.DEMOTE 99",
        "RAFT.TRANSFER 99",
        "RAFT.TRANSFER x",
        "RAFT.STATUS x",
    ],
)
def test_what_is_malformed_is_badarg(connect, words):
    assert connect().error(*words.split())[0] == "BADARG"


# Fences.


def test_a_fence_admits_what_is_not_below_its_mark(connect, client, name):
    wire = connect()
    token = client().do("LOCK.ACQUIRE", name)
    assert wire.do("FENCE.SHOW", name) == 0
    assert wire.do("FENCE.ADMIT", name, token) == 1
    assert wire.do("FENCE.ADMIT", name, token) == 1
    assert wire.do("FENCE.SHOW", name) == token
    assert wire.do("FENCE.ADMIT", name, token + 1) == 1
    assert wire.do("FENCE.ADMIT", name, token) == 0
    assert wire.do("FENCE.SHOW", name) == token + 1
    assert wire.do("FENCE.ADMIT", name + "x", token) == 1


def test_a_fence_takes_numbers_that_are_no_tokens_of_ours(connect, name):
    wire = connect()
    assert [wire.do("FENCE.ADMIT", name, n) for n in (5, 4, 5, 6)] == [1, 0, 1, 1]
    assert wire.do("FENCE.SHOW", name) == 6


def test_fences_are_one_for_all_nodes(connect, client, world, name):
    token, newer = [client().do("LOCK.ACQUIRE", name + n) for n in "ab"]
    wires = [connect(node=node) for node in world.cluster.nodes]
    assert wires[0].do("FENCE.ADMIT", name, newer) == 1
    assert [one.do("FENCE.ADMIT", name, token) for one in wires] == [0, 0, 0]
    assert [one.do("FENCE.SHOW", name) for one in wires] == [newer] * 3


def test_a_token_that_was_never_granted_shuts_no_fence(connect, client, name):
    wire = connect()
    token = client().do("LOCK.ACQUIRE", name)
    for never in (2**53 - 1, token + 2**32, token + 1000):
        code, text = wire.error("FENCE.ADMIT", name, never)
        assert code == "BADARG" and "was never granted" in text
    assert wire.do("FENCE.SHOW", name) == 0
    assert wire.do("FENCE.ADMIT", name, token) == 1
    newer = client().do("LOCK.ACQUIRE", name + "x")
    assert wire.do("FENCE.ADMIT", name, newer) == 1


def test_a_fence_is_removed(connect, client, name):
    wire = connect()
    token, newer = [client().do("LOCK.ACQUIRE", name + n) for n in "ab"]
    assert wire.do("FENCE.REMOVE", name) == 0
    assert wire.do("FENCE.ADMIT", name, newer) == 1
    assert wire.do("FENCE.REMOVE", name) == 1
    assert wire.do("FENCE.SHOW", name) == 0
    assert wire.do("FENCE.ADMIT", name, token) == 1


def test_fences_are_listed_in_pages(connect, name):
    wire = connect()
    resources = [("%s-%02d" % (name, i)).encode() for i in range(7)]
    for i, resource in enumerate(resources):
        assert wire.do("FENCE.ADMIT", resource, i + 1) == 1
    seen, cursor = [], "0"
    while True:
        cursor, page = wire.do("FENCE.LIST", "PREFIX", name, "COUNT", 3,
                               "CURSOR", cursor)
        assert len(page) <= 3
        seen += [(one["resource"], one["token"]) for one in map(plain, page)]
        if cursor == b"0":
            break
    assert seen == [(r, i + 1) for i, r in enumerate(resources)]
    code, text = wire.error("FENCE.LIST", "CURSOR", "x")
    assert code == "BADARG" and text.startswith("fence.list: CURSOR")


# Raft.

STATUS_KEYS = (
    "node incarnation cluster role term leader leader_address commit applied "
    "last_index members version quarantine_ms disk flush flush_us level "
    "cluster_level finalize_level users replaced replacement stepped_down "
    "stepped_down_ms elsewhere apart machine settings"
).split()
MEMBER_KEYS = (
    "id address role match last_contact_ms level incarnation link flush_us "
    "round_trip_us clock_ppm"
).split()


@pytest.mark.parametrize("version", [2, 3])
def test_status_is_the_asked_nodes(connect, world, version):
    for node in world.cluster.nodes:
        reply = connect(version, node=node).do("RAFT.STATUS")
        assert isinstance(reply, Map) == (version == 3)
        status = plain(reply)
        assert list(status) == STATUS_KEYS
        assert status["node"] == node.id
        leads = node is world.leader
        assert status["role"] == (b"leader" if leads else b"follower")
        assert status["leader"] == world.leader.id
        assert (
            status["leader_address"] == b"127.0.0.1:%d" % world.leader.client_port
        )
        assert status["term"] > 0
        assert 0 < status["applied"] <= status["commit"]
        assert isinstance(status["version"], bytes) and status["version"]
        assert status["quarantine_ms"] == 0
        assert status["level"] == status["cluster_level"] == 1
        assert status["finalize_level"] == 0
        members = [plain(one) for one in status["members"]]
        assert [list(one) for one in members] == [MEMBER_KEYS] * 3
        assert [one["id"] for one in members] == [1, 2, 3]
        assert {one["role"] for one in members} == {b"voter"}
        for one in members:
            assert one["address"].startswith(b"127.0.0.1:")
            assert isinstance(one["match"], int)
            assert one["level"] == 1
            assert one["last_contact_ms"] >= -1
        if leads:
            assert all(one["match"] > 0 for one in members)


def test_transfer_moves_the_leadership(connect, world, client, name):
    holder = client()
    token = holder.do("LOCK.ACQUIRE", name)
    old = world.leader
    heir = world.follower
    assert connect().do("RAFT.TRANSFER", heir.id) == OK
    world.find()
    assert world.leader is heir
    assert holder.do("LOCK.CHECK", name, token) == 1
    assert holder.map("SESSION.KEEP", "FULL")["ttl_ms"] == 10000
    assert connect(node=old).do("RAFT.TRANSFER", heir.id) == OK


def test_snapshot_is_ok(connect, client, name):
    client().do("LOCK.ACQUIRE", name)
    assert connect().do("RAFT.SNAPSHOT") == OK


def test_finalizing_is_done_where_there_is_nothing_to_raise(connect, world):
    for node in world.cluster.nodes:
        assert connect(node=node).do("RAFT.FINALIZE") == 1


def test_members_come_and_go(connect, world):
    wire = connect()
    gone = next(n for n in world.cluster.nodes if n is not world.leader)

    def role(id):
        for one in wire.map("RAFT.STATUS")["members"]:
            if plain(one)["id"] == id:
                return plain(one)["role"]
        return None

    assert wire.do("RAFT.DEMOTE", gone.id) == OK
    eventually(lambda: role(gone.id) == b"standby")
    assert wire.do("RAFT.DEMOTE", gone.id) == OK  # Repeated.
    assert wire.do("RAFT.PROMOTE", gone.id) == OK
    eventually(lambda: role(gone.id) == b"voter")
    assert wire.do("RAFT.PROMOTE", gone.id) == OK
    assert wire.do("RAFT.ADD", 8, "[::1]:1,[::1]:2", "STANDBY",
                   "INCARNATION", secrets.token_hex(8).upper()) == OK
    assert wire.do("RAFT.REMOVE", 8) == OK
    assert wire.error("RAFT.ADD", 9, "127.0.0.1:1",
                      "INCARNATION", "0" * 16)[0] == "BADARG"
    assert wire.do("RAFT.ADD", 9, "127.0.0.1:1",
                   "INCARNATION", secrets.token_hex(8), "STANDBY") == OK
    eventually(lambda: role(9) == b"standby")
    assert wire.do("RAFT.ADD", 9, "127.0.0.1:1", "standby") == OK
    assert wire.error("RAFT.ADD", 9, "127.0.0.1:2")[0] == "BADARG"
    assert wire.do("RAFT.REMOVE", 9) == OK
    eventually(lambda: role(9) is None)
    assert wire.error("RAFT.REMOVE", world.leader.id)[0] == "BADARG"
