# SPDX-License-Identifier: MIT
"""Events: WATCH in RESP3, SUBSCRIBE in RESP2, and PLEASE unasked."""

import json
import re
import time

import pytest

from cluster import Cluster, Session, as_map, wait_until
from wire import OK, Map, Push, connect, eventually, name, opened, opens, plain, world

EVENT_KEYS = ["lock", "session", "token", "index", "message", "id"]


@pytest.fixture
def client(connect):
    def one(*options, version=2):
        wire = connect(version)
        wire.session, wire.secret = opens(wire, *options)
        return wire

    return one


def event(watcher):
    """The next push of a watch as (kind, map)."""
    push = watcher.push()
    assert isinstance(push, Push) and len(push) == 3
    assert push[0] == b"lock"
    assert isinstance(push[2], Map)
    assert list(plain(push[2])) == EVENT_KEYS
    return push[1].decode(), plain(push[2])


@pytest.fixture
def watch(connect, world):
    """watch(prefix) gives a connection that watches it. A node reports what it
    applies, so every node first applies all earlier entries."""

    def one(prefix):
        world.cluster.converged()
        watcher = connect(3)
        assert watcher.do("LOCK.WATCH", prefix) == OK
        return watcher

    return one


def test_granted_and_released_are_pushed(client, name, watch):
    watcher, one = watch(name), client()
    token = one.do("LOCK.ACQUIRE", name + "/1")
    kind, told = event(watcher)
    assert kind == "granted"
    assert told["lock"] == name.encode() + b"/1"
    assert told["session"] == one.session
    assert told["token"] == token
    assert isinstance(told["index"], int) and told["index"] > 0
    assert isinstance(told["message"], bytes)
    one.do("LOCK.RELEASE", name + "/1")
    kind, later = event(watcher)
    assert (kind, later["token"]) == ("released", token)
    assert later["index"] > told["index"]


def test_events_come_at_every_node(client, connect, world, name):
    watchers = []
    for node in world.cluster.nodes:
        watcher = connect(3, node=node)
        watcher.do("LOCK.WATCH", name)
        watchers.append(watcher)
    token = client().do("LOCK.ACQUIRE", name)
    told = [event(one) for one in watchers]
    assert [one[1]["token"] for one in told] == [token] * 3
    assert len({one[1]["index"] for one in told}) == 1


def test_queue_and_hand_over_are_told(client, name, watch):
    one, two = client(), client()
    one.do("LOCK.ACQUIRE", name)
    watcher = watch(name)
    two.send("LOCK.ACQUIRE", name, "WAIT", 5000)
    kind, told = event(watcher)
    assert (kind, told["session"]) == ("queued", two.session)
    one.do("LOCK.RELEASE", name)
    kinds = {}
    for _ in range(2):
        kind, told = event(watcher)
        kinds[kind] = told
    assert kinds["released"]["session"] == one.session
    assert kinds["granted"]["session"] == two.session
    assert kinds["granted"]["token"] == two.receive()
    assert kinds["granted"]["index"] == kinds["released"]["index"]


def test_the_end_of_a_wait_is_told(client, name, watch):
    one, two = client(), client()
    one.do("LOCK.ACQUIRE", name)
    watcher = watch(name)
    two.do("LOCK.ACQUIRE", name, "WAIT", 20)
    assert [event(watcher)[0] for _ in range(2)] == ["queued", "wait-ended"]


def test_expiry_and_delay_are_told(client, name, watch):
    watcher = watch(name)
    dead = client("TTL", 150)
    dead.do("LOCK.ACQUIRE", name, "DELAY", 100)
    kinds = [event(watcher)[0] for _ in range(4)]
    assert kinds == ["granted", "expired", "delayed", "delay-over"]


def test_blacklisting_is_told_with_its_reason(client, connect, name, watch):
    one, operator = client("TTL", 60000), connect()
    one.do("LOCK.ACQUIRE", name)
    watcher = watch(name)
    operator.do("BLACKLIST.ADD", "SESSION", one.session, "REASON", "it hangs")
    kind, told = event(watcher)
    assert (kind, told["session"], told["message"]) == (
        "blacklisted",
        one.session,
        b"it hangs",
    )
    operator.do("BLACKLIST.REMOVE", "SESSION", one.session)


def test_other_prefixes_are_not_told(client, name, watch):
    watcher, one = watch(name + "a"), client()
    one.do("LOCK.ACQUIRE", name + "b")
    assert watcher.is_silent()


def test_two_prefixes_that_fit_tell_once(client, name, watch):
    watcher, one = watch(name), client()
    watcher.do("LOCK.WATCH", name[:3])
    one.do("LOCK.ACQUIRE", name)
    assert event(watcher)[0] == "granted"
    assert watcher.is_silent()


def test_unwatch_ends_it(client, name, watch):
    watcher, one = watch(name), client()
    assert watcher.do("LOCK.UNWATCH", name) == OK
    assert watcher.do("LOCK.UNWATCH", name) == OK
    one.do("LOCK.ACQUIRE", name)
    assert watcher.is_silent()


def test_an_empty_prefix_is_all(client, name, watch):
    watcher, one = watch(""), client()
    one.do("LOCK.ACQUIRE", name)
    while event(watcher)[1]["lock"] != name.encode():
        pass


def test_a_watcher_that_goes_back_to_resp2_gets_no_pushes(client, name, watch):
    watcher, wire = watch(name), client()
    watcher.do("HELLO", 2)
    wire.do("LOCK.ACQUIRE", name)
    assert watcher.is_silent(0.2)
    assert watcher.do("PING") == "PONG"
    watcher.do("HELLO", 3)
    wire.do("LOCK.RELEASE", name)
    assert event(watcher)[0] == "released"


def test_watch_in_resp2_says_what_to_do(connect, name):
    code, text = connect().error("LOCK.WATCH", name)
    assert code == "BADARG" and "PSUBSCRIBE" in text


def test_a_watcher_may_go_on_working(client, name):
    wire = client(version=3)
    assert wire.do("LOCK.WATCH", name) == OK
    token = wire.do("LOCK.ACQUIRE", name)
    assert event(wire)[1]["token"] == token
    assert wire.do("LOCK.RELEASE", name) == 0
    assert event(wire)[0] == "released"


# RESP2.


def message(wire):
    reply = wire.receive()
    return reply[:-1], json.loads(reply[-1])


def test_psubscribe_gives_the_same_as_json(client, connect, name):
    wire, one = connect(), client()
    pattern = "lock:%s*" % name
    assert wire.do("PSUBSCRIBE", pattern) == [b"psubscribe", pattern.encode(), 1]
    token = one.do("LOCK.ACQUIRE", name + "/1")
    head, told = message(wire)
    assert head == [b"pmessage", pattern.encode(), b"lock:%s/1" % name.encode()]
    assert told == {
        "kind": "granted",
        "lock": name + "/1",
        "session": one.session,
        "token": token,
        "index": told["index"],
        "message": "",
        "id": told["id"],
    }
    assert re.fullmatch(r"\d+-%d-0" % told["index"], told["id"])


def test_subscribe_is_for_one_lock(client, connect, name):
    wire, one = connect(), client()
    channel = "lock:" + name
    assert wire.do("SUBSCRIBE", channel, channel + "x") == [
        b"subscribe",
        channel.encode(),
        1,
    ]
    assert wire.receive() == [b"subscribe", channel.encode() + b"x", 2]
    one.do("LOCK.ACQUIRE", name + "y")
    one.do("LOCK.ACQUIRE", name)
    head, told = message(wire)
    assert head == [b"message", channel.encode()]
    assert (told["kind"], told["lock"]) == ("granted", name)
    assert wire.do("UNSUBSCRIBE", channel) == [b"unsubscribe", channel.encode(), 1]
    assert wire.do("UNSUBSCRIBE")[2] == 0


def test_a_subscriber_of_resp2_may_only_do_so_much(connect, name):
    wire = connect()
    wire.do("SUBSCRIBE", "lock:" + name)
    assert wire.do("PING") == [b"pong", b""]
    assert wire.do("PING", "x") == [b"pong", b"x"]
    code, text = wire.error("LOCK.SHOW", name)
    assert code == "ERR" and "SUBSCRIBE" in text
    assert wire.do("RESET") == "RESET"
    assert wire.do("PING") == "PONG"


def test_unsubscribe_of_nothing_is_answered(connect):
    reply = connect().do("UNSUBSCRIBE")
    assert reply[0] == b"unsubscribe" and not reply[1] and reply[2] == 0


def test_subscribe_in_resp3_is_pushed(client, connect, name):
    wire, one = connect(3), client()
    wire.send("SUBSCRIBE", "lock:" + name)
    assert wire.push() == [b"subscribe", b"lock:" + name.encode(), 1]
    assert wire.do("PING") == "PONG"
    one.do("LOCK.ACQUIRE", name)
    push = wire.push()
    assert push[:2] == [b"message", b"lock:" + name.encode()]
    assert json.loads(push[2])["kind"] == "granted"


# PLEASE.


def test_please_reaches_the_holder_unasked(client, connect, name):
    holder, other = client(version=3), connect()
    token = holder.do("LOCK.ACQUIRE", name)
    assert other.do("LOCK.PLEASE", name, "MESSAGE", "upgrade at noon") == 1
    kind, told = event(holder)
    assert kind == "please"
    assert told["message"] == b"upgrade at noon"
    assert (told["token"], told["session"]) == (token, holder.session)
    assert holder.do("LOCK.RELEASE", name) == 0


def test_please_reaches_every_attached_connection_at_any_node(
    client, connect, world, name
):
    holder = client(version=3)
    holder.do("LOCK.ACQUIRE", name)
    others = [connect(3, node=node) for node in world.cluster.nodes]
    for other in others:
        other.do("SESSION.ATTACH", holder.session, holder.secret)
    assert connect().do("lock.please", name) == 1
    for wire in [holder] + others:
        assert event(wire)[0] == "please"
        assert wire.is_silent(0.05)


def test_please_counts_the_holders_and_tells_no_stranger(client, connect, name):
    readers = [client(version=3) for _ in range(2)]
    stranger = client(version=3)
    for one in readers:
        one.do("LOCK.ACQUIRE", name, "SHARED")
    assert stranger.do("LOCK.PLEASE", name, "MESSAGE", "m") == 2
    for one in readers:
        assert event(one)[0] == "please"
    assert stranger.is_silent()
    assert stranger.do("LOCK.PLEASE", name + "x") == 0


def test_please_of_a_watched_lock_is_told_once(client, connect, world, name):
    holder = client(version=3)
    holder.do("LOCK.ACQUIRE", name)
    world.cluster.converged()
    holder.do("LOCK.WATCH", name)
    connect().do("LOCK.PLEASE", name)
    assert event(holder)[0] == "please"
    assert holder.is_silent()


# The past.


def test_who_comes_back_is_told_what_he_has_missed(client, connect, world, name):
    first, one = connect(3), client()
    first.do("LOCK.WATCH", name)
    one.do("LOCK.ACQUIRE", name)
    known = event(first)[1]["id"]
    one.do("LOCK.RELEASE", name)
    one.do("LOCK.ACQUIRE", name + "x")
    one.do("LOCK.ACQUIRE", "other" + name)
    missed = [event(first), event(first)]
    world.cluster.converged()
    for node in world.cluster.nodes:
        again = connect(3, node=node)
        assert again.do("LOCK.WATCH", name, "FROM", known) == OK
        assert [event(again), event(again)] == missed
        assert [kind for kind, _ in missed] == ["released", "granted"]
        # From the end of an entry, nothing of it comes again.
        last = missed[-1][1]["id"].rsplit(b"-", 1)[0]
        fresh = connect(3, node=node)
        assert fresh.do("LOCK.WATCH", name, "FROM", last) == OK
        assert fresh.is_silent()


def test_what_nobody_knows_is_a_gap(client, connect, world, name):
    wire, one = connect(3), client()
    one.do("LOCK.ACQUIRE", name)
    wire.do("LOCK.WATCH", "")
    one.do("LOCK.RELEASE", name)
    life = event(wire)[1]["id"].split(b"-")[0]
    for known in (b"1-1", b"1-1-1", b"%d-1" % (int(life) + 1), life + b"-0-0"):
        world.cluster.converged()
        again = connect(3)
        assert again.do("LOCK.WATCH", name, "FROM", known) == OK
        kind, told = event(again)
        assert (kind, told["lock"]) == ("gap", name.encode())
        # Later events are reported.
        one.do("LOCK.ACQUIRE", name)
        assert event(again)[0] == "granted"
        one.do("LOCK.RELEASE", name)
    for bad in ("", "x", "1", "1-", "-1", "1-2-", "1-2-3-4", "1-2-4294967296", "1 -2"):
        code, text = connect(3).error("LOCK.WATCH", name, "FROM", bad)
        assert code == "BADARG" and "life-index" in text
    for odd in (["FROM"], ["1-1"], ["SINCE", "1-1"], ["FROM", "1-1", "x"]):
        assert connect(3).error("LOCK.WATCH", name, *odd)[0] == "BADARG"


def test_history_is_that_of_one_lock(client, connect, world, name):
    one = client()
    token = one.do("LOCK.ACQUIRE", name)
    one.do("LOCK.ACQUIRE", name + "x")
    one.do("LOCK.PLEASE", name, "MESSAGE", b"a\xffb")
    one.do("LOCK.RELEASE", name)
    world.cluster.converged()
    told = []
    for node in world.cluster.nodes:
        history = connect(3, node=node).map("LOCK.HISTORY", name)
        assert list(history) == ["lock", "known_from", "is_cut", "events"]
        assert history["lock"] == name.encode() and history["known_from"] >= 1
        events = [plain(one) for one in history["events"]]
        keys = ["id", "time_ms", "kind", "session", "token", "message"]
        assert all(list(one) == keys for one in events)
        assert [one["kind"] for one in events] == [b"granted", b"please", b"released"]
        assert events[1]["message"] == b"a\xffb"
        assert events[0]["token"] == events[2]["token"] == token
        assert {one["session"] for one in (events[0], events[2])} == {one.session}
        assert all(abs(one["time_ms"] / 1000 - time.time()) < 60 for one in events)
        told.append([one["id"] for one in events])
        newest = connect(3, node=node).map("LOCK.HISTORY", name, "COUNT", 2)
        assert [plain(one)["kind"] for one in newest["events"]] == [
            b"please",
            b"released",
        ]
    assert told[0] == told[1] == told[2]
    assert connect().map("LOCK.HISTORY", name + "none")["events"] == []
    assert connect().error("LOCK.HISTORY", "")[0] == "BADARG"


def test_a_start_and_a_snapshot_are_the_edge_of_what_is_known():
    with Cluster(3) as cluster:
        leader = cluster.leader()
        behind = cluster.followers(leader)[0]

        def history(node):
            def ask(client):
                client.do("FENCE.SHOW", "f")  # After all that is committed.
                return as_map(client.do("LOCK.HISTORY", "a"))

            return cluster.retry(ask, nodes=[node])

        with leader.connect() as client:
            Session(client, ttl=60000)
            client.do("LOCK.ACQUIRE", "a")
            cluster.converged()
            assert len(history(behind)["events"]) == 1
            behind.stop()
            for _ in range(2):
                client.do("LOCK.RELEASE", "a")
                client.do("LOCK.ACQUIRE", "a")
                client.do("RAFT.SNAPSHOT")
            for i in range(64):
                client.do("FENCE.ADMIT", "f%d" % i, 1)
            client.do("RAFT.SNAPSHOT")
            everything = history(leader)["events"]
            assert len(everything) == 5
            behind.start()
            wait_until(
                lambda: "snapshot installed" in behind.log()
                or len(history(behind)["events"]) >= 4,
                20,
                "it has caught up",
            )
            seen = history(behind)
            # Nothing is made up: the events are the last of the real ones.
            ids = [as_map(one)["id"] for one in seen["events"]]
            whole = [as_map(one)["id"] for one in everything]
            assert ids == whole[len(whole) - len(ids) :]
            assert seen["known_from"] > 1
