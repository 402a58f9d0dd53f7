# SPDX-License-Identifier: MIT
"""REQ and ACKED: every changing command has its effect once."""

import time

import pytest

from wire import (
    NULL_BULK, OK, connect, eventually, name, opened, opens, plain, proof_of, world,
)


@pytest.fixture
def client(connect):
    def one(*options, version=2):
        wire = connect(version)
        wire.session, wire.secret = opens(wire, *options)
        return wire

    return one


def test_a_repeated_acquire_gives_the_first_token_and_counts_once(client, name):
    wire = client()
    token = wire.do("LOCK.ACQUIRE", name, "REQ", 1)
    assert wire.do("LOCK.ACQUIRE", name, "REQ", 1) == token
    assert plain(wire.map("LOCK.SHOW", name)["holders"][0])["count"] == 1
    assert wire.do("LOCK.ACQUIRE", name, "REQ", 2) == token
    assert plain(wire.map("LOCK.SHOW", name)["holders"][0])["count"] == 2


def test_a_repeated_release_tells_the_first_result(client, name):
    wire = client()
    wire.do("LOCK.ACQUIRE", name, "REQ", 1)
    assert wire.do("LOCK.RELEASE", name, "REQ", 2) == 0
    assert wire.do("LOCK.RELEASE", name, "REQ", 2) == 0
    assert wire.error("LOCK.RELEASE", name, "REQ", 3)[0] == "NOTHELD"
    assert wire.error("LOCK.RELEASE", name, "REQ", 3)[0] == "NOTHELD"


def test_a_refusal_is_a_result_too(client, name):
    wire, other = client(), client()
    other.do("LOCK.ACQUIRE", name)
    assert wire.do("LOCK.ACQUIRE", name, "REQ", 1) is NULL_BULK
    other.do("LOCK.RELEASE", name)
    assert wire.do("LOCK.ACQUIRE", name, "REQ", 1) is NULL_BULK
    assert wire.do("LOCK.ACQUIRE", name, "REQ", 2) > 0


def test_the_same_number_of_another_command_is_badarg(client, name):
    wire = client()
    wire.do("LOCK.ACQUIRE", name, "REQ", 1)
    assert wire.error("LOCK.RELEASE", name, "REQ", 1)[0] == "BADARG"
    assert wire.error("LOCK.ACQUIRE", name + "x", "REQ", 1)[0] == "BADARG"
    assert wire.error("LOCK.ACQUIRE", name, "SHARED", "REQ", 1)[0] == "BADARG"
    assert wire.map("LOCK.SHOW", name + "x")["holders"] == []


def test_numbers_may_have_gaps_and_need_no_order(client, name):
    wire = client()
    for n in (100, 7, 2**62):
        assert wire.do("LOCK.ACQUIRE", name + str(n), "REQ", n) > 0


def test_numbers_belong_to_session_and_owner(client, name):
    one, two = client(), client()
    assert one.do("LOCK.ACQUIRE", name, "OWNER", "a", "REQ", 1) > 0
    assert one.do("LOCK.ACQUIRE", name + "b", "OWNER", "b", "REQ", 1) > 0
    assert two.do("LOCK.ACQUIRE", name + "c", "REQ", 1) > 0


def test_what_is_acknowledged_is_refused_for_ever(client, name):
    wire = client()
    wire.do("LOCK.ACQUIRE", name, "REQ", 1)
    wire.do("LOCK.RELEASE", name, "REQ", 2, "ACKED", 1)
    for n in (1,):
        assert wire.error("LOCK.ACQUIRE", name, "REQ", n)[0] == "BADARG"
    assert wire.map("LOCK.SHOW", name)["holders"] == []
    assert wire.do("LOCK.RELEASE", name, "REQ", 2, "ACKED", 1) == 0
    assert wire.error("LOCK.ACQUIRE", name, "REQ", 3, "ACKED", 3)[0] == "BADARG"
    assert wire.error("LOCK.ACQUIRE", name, "ACKED", 3)[0] == "BADARG"


def test_the_65th_unacknowledged_result_is_limit(client, name):
    wire = client()
    for n in range(1, 65):
        assert wire.do("LOCK.ACQUIRE", name, "REQ", n) > 0
    assert wire.error("LOCK.ACQUIRE", name, "REQ", 65)[0] == "LIMIT"
    assert plain(wire.map("LOCK.SHOW", name)["holders"][0])["count"] == 64
    assert wire.do("LOCK.ACQUIRE", name, "REQ", 64) > 0
    assert wire.do("LOCK.ACQUIRE", name, "REQ", 65, "ACKED", 1) > 0
    assert wire.error("LOCK.ACQUIRE", name, "REQ", 66)[0] == "LIMIT"
    assert wire.do("LOCK.ACQUIRE", name, "REQ", 66, "ACKED", 65) > 0


def test_a_wait_is_joined_again_by_its_number(client, connect, name):
    holder, waiter, again = client(), client(), connect()
    holder.do("LOCK.ACQUIRE", name)
    waiter.send("LOCK.ACQUIRE", name, "WAIT", "FOREVER", "REQ", 5)
    eventually(lambda: len(holder.map("LOCK.SHOW", name)["queue"]) == 1)
    waiter.close()
    again.do("SESSION.ATTACH", waiter.session, waiter.secret)
    again.send("LOCK.ACQUIRE", name, "WAIT", "FOREVER", "REQ", 5)
    eventually(lambda: len(holder.map("LOCK.SHOW", name)["queue"]) == 1)
    holder.do("LOCK.RELEASE", name)
    token = again.receive()
    assert again.do("LOCK.ACQUIRE", name, "REQ", 5) == token
    assert plain(holder.map("LOCK.SHOW", name)["holders"][0])["count"] == 1


def test_every_changing_command_takes_req(client, name):
    wire = client()
    req = iter(range(1, 1000))

    def twice(*words):
        n = next(req)
        first = wire.do(*words, "REQ", n, "ACKED", n - 1)
        assert wire.do(*words, "REQ", n) == first
        return first

    token = twice("LOCK.ACQUIRE", name)
    assert twice("LOCK.CONVERT", name, "SHARED") == token
    assert twice("LOCK.CONVERT", name, "EXCLUSIVE") > token
    assert twice("LOCK.PLEASE", name) == 1
    assert twice("LOCK.CANCEL", name) == 0
    assert twice("LOCK.RELEASE", name) == 0
    assert len(twice("LOCK.MACQUIRE", 2, name + "a", name + "b")) == 2
    assert twice("LOCK.MRELEASE", 2, name + "a", name + "b") == 2
    token = wire.do("LOCK.ACQUIRE", name, "OWNER", "o")
    assert twice("LOCK.RELEASEIF", name, "OWNER", "o", "TOKEN", token) == 1
    assert twice("FENCE.ADMIT", name, token) == 1
    assert twice("BLACKLIST.ADD", "CLIENT", name) == "OK"
    assert twice("BLACKLIST.REMOVE", "CLIENT", name) == 1
    assert wire.do("SESSION.CLOSE", "REQ", next(req)) == 0


def test_open_takes_req_with_a_session_and_without(client, connect, name):
    wire, secret = connect(), "ab" * 16
    ask = ("SESSION.OPEN", "TTL", 5000, "PROOF", proof_of(secret), "REQ")
    first = wire.map(*ask, 1, "ACKED", 0)
    # The new session remembers it, and its own numbers are still unused.
    assert wire.map(*ask, 1) == first
    assert wire.do("LOCK.ACQUIRE", name, "REQ", 1) > 0
    for option, value in (("TTL", 6000), ("PROOF", proof_of("cd" * 16))):
        words = list(ask)
        words[words.index(option) + 1] = value
        assert wire.error(*words, 1)[0] == "BADARG"
    second = wire.map(*ask, 2)
    assert second["id"] != first["id"]
    # A connection was lost before the answer: the session that asked knows.
    again = connect()
    again.do("SESSION.ATTACH", first["id"], secret)
    assert again.map(*ask, 2) == second
    assert again.do("SESSION.CLOSE") == 0  # That is the second.
    assert again.error(*ask, 2)[0] == "NOSESSION"
    assert again.map(*ask, 3)["id"] > second["id"]
    assert again.error(*ask, 4, "SESSION", 12345)[0] == "NOSESSION"


def test_open_with_req_needs_a_proof(connect):
    code, text = connect().error("SESSION.OPEN", "REQ", 1)
    assert (code, text) == ("BADARG", "session.open: REQ needs PROOF")


def test_open_with_req_after_the_session_has_ended(client):
    wire = client("TTL", 100)
    time.sleep(0.4)
    assert wire.error("SESSION.KEEP")[0] == "EXPIRED"
    ask = ("SESSION.OPEN", "PROOF", proof_of("ab" * 16), "REQ", 1)
    assert wire.map(*ask)["id"] > wire.session


def test_a_session_is_chosen_for_what_needs_none(client, name):
    wire = client()
    first = wire.session
    opens(wire)
    assert wire.do("FENCE.ADMIT", name, 5, "REQ", 1, "SESSION", first) == 1
    assert wire.do("FENCE.ADMIT", name + "x", 5, "REQ", 1) == 1
    assert wire.error("FENCE.ADMIT", name + "x", 5, "REQ", 1, "SESSION", first)[0] == (
        "BADARG"
    )
    assert wire.do("LOCK.PLEASE", name, "SESSION", first, "REQ", 2) == 0
    assert wire.error("LOCK.PLEASE", name, "SESSION", 12345)[0] == "NOSESSION"


def test_changes_of_members_may_be_repeated_with_their_number(connect, world):
    wire = connect()
    assert wire.do("RAFT.PROMOTE", 1, "REQ", 1) == OK
    assert wire.do("RAFT.SNAPSHOT", "REQ", 2, "ACKED", 1) == OK
    assert wire.do("RAFT.TRANSFER", world.leader.id, "REQ", 3) == OK
    assert wire.error("RAFT.REMOVE", 99, "REQ", 3)[0] == "BADARG"
    assert wire.error("RAFT.PROMOTE", 1, "REQ")[0] == "BADARG"


def test_req_needs_a_session_to_belong_to(connect, name):
    assert connect().error("FENCE.ADMIT", name, 1, "REQ", 1)[0] == "NOSESSION"


def test_results_survive_at_another_node(client, connect, world, name):
    wire = client()
    token = wire.do("LOCK.ACQUIRE", name, "REQ", 9)
    for node in world.cluster.nodes:
        other = connect(node=node)
        other.do("SESSION.ATTACH", wire.session, wire.secret)
        assert other.do("LOCK.ACQUIRE", name, "REQ", 9) == token
    assert plain(wire.map("LOCK.SHOW", name)["holders"][0])["count"] == 1


def test_results_survive_a_new_leader(client, connect, world, name):
    wire = client()
    token = wire.do("LOCK.ACQUIRE", name, "REQ", 1)
    assert connect().do("RAFT.TRANSFER") == "OK"
    world.find()
    assert wire.do("LOCK.ACQUIRE", name, "REQ", 1) == token
    assert wire.do("LOCK.RELEASE", name, "REQ", 2) == 0
