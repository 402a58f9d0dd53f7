# SPDX-License-Identifier: MIT
"""REQ and ACKED: every changing command has its effect once."""

import time

import pytest

from cluster import ReplyError
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


def test_numbers_belong_to_the_session_over_its_owners(client, name):
    one, two = client(), client()
    assert one.do("LOCK.ACQUIRE", name, "OWNER", "a", "REQ", 1) > 0
    ask = ("LOCK.ACQUIRE", name, "OWNER", "b", "REQ")
    assert one.error(*ask, 1)[0] == "BADARG"
    assert one.do(*ask, 2) is NULL_BULK
    assert two.do("LOCK.ACQUIRE", name + "c", "REQ", 1) > 0


def test_what_is_acknowledged_is_refused_for_ever(client, name):
    wire = client()
    wire.do("LOCK.ACQUIRE", name, "REQ", 1)
    wire.do("LOCK.RELEASE", name, "REQ", 2, "ACKED", 1)
    assert wire.error("LOCK.ACQUIRE", name, "REQ", 1)[0] == "FORGOTTEN"
    assert wire.map("LOCK.SHOW", name)["holders"] == []
    assert wire.do("LOCK.RELEASE", name, "REQ", 2, "ACKED", 1) == 0
    assert wire.error("LOCK.ACQUIRE", name, "REQ", 3, "ACKED", 3)[0] == "BADARG"
    assert wire.error("LOCK.ACQUIRE", name, "ACKED", 3)[0] == "BADARG"


def test_others_than_the_first_are_acknowledged_one_by_one(client, connect, name):
    holder, wire, waiter = client(), client(), connect()
    holder.do("LOCK.ACQUIRE", name)
    waiter.do("SESSION.ATTACH", wire.session, wire.secret)
    waiter.send("LOCK.ACQUIRE", name, "WAIT", "FOREVER", "REQ", 1)
    eventually(lambda: len(holder.map("LOCK.SHOW", name)["queue"]) == 1)
    ask = ("LOCK.ACQUIRE", name + "x", "OWNER", "x", "REQ")
    assert wire.do(*ask, 2) > 0
    assert wire.do(*ask, 3) > 0
    assert wire.do(*ask, 4, "ACKED", "0,2-3") > 0
    assert wire.error(*ask, 2)[0] == wire.error(*ask, 3)[0] == "FORGOTTEN"
    assert wire.do(*ask, 4) > 0
    for acked in ("x", "1-3", "0,x", "0,3-2", "0,0-1", "0,1-2-3", "", ",2",
                  ",".join(["0"] + ["2"] * 17), "0,4-5"):
        assert wire.error(*ask, 5, "ACKED", acked)[0] == "BADARG", acked
    holder.do("LOCK.RELEASE", name)
    assert waiter.receive() > 0


def test_of_very_many_results_the_newest_are_kept(client, name):
    wire = client()
    for n in range(1, 1100):
        wire.send("LOCK.ACQUIRE", name, "REQ", n)
    for n in range(1, 1100):
        assert wire.receive() > 0
    assert wire.error("LOCK.ACQUIRE", name, "REQ", 1)[0] == "FORGOTTEN"
    assert wire.do("LOCK.ACQUIRE", name, "REQ", 1099) > 0
    assert plain(wire.map("LOCK.SHOW", name)["holders"][0])["count"] == 1099


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
    # There is no session yet whose number it could be.
    first = wire.map(*ask, 1, "ACKED", 0)
    assert wire.do("LOCK.ACQUIRE", name, "REQ", 1) > 0
    second = wire.map(*ask, 2)
    assert second["id"] != first["id"]
    # A connection was lost before the answer: the session that asked knows.
    again = connect()
    again.do("SESSION.ATTACH", first["id"], secret)
    for option, value in (("TTL", 6000), ("PROOF", proof_of("cd" * 16))):
        words = list(ask)
        words[words.index(option) + 1] = value
        assert again.error(*words, 2)[0] == "BADARG"
    assert again.map(*ask, 2) == second
    assert again.do("SESSION.CLOSE") == 0  # That is the second.
    assert again.error(*ask, 2)[0] == "NOSESSION"
    third = again.map(*ask, 3)
    assert third["id"] > second["id"]
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


def is_led_by(wire, node, number):
    try:
        return wire.do("RAFT.TRANSFER", node.id, "REQ", number) == OK
    except ReplyError as error:
        assert error.code in ("UNKNOWN", "BUSY", "NOLEADER"), error
        return False


def test_changes_of_members_may_be_repeated_with_their_number(connect, world):
    wire = connect()
    assert wire.do("RAFT.PROMOTE", 1, "REQ", 1) == OK
    assert wire.do("RAFT.SNAPSHOT", "REQ", 2, "ACKED", 1) == OK
    # On a busy machine another node may lead by now, and then it may not take
    # over in time (UNKNOWN): repeating it is safe.
    eventually(lambda: is_led_by(wire, world.leader, 3), 30)
    assert wire.do("RAFT.REMOVE", 99, "REQ", 3) == OK
    assert wire.error("RAFT.DEMOTE", 99, "REQ", 3)[0] == "BADARG"
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
