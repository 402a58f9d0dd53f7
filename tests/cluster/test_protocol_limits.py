# SPDX-License-Identifier: MIT
"""Each limit by its name, at a node with small limits."""

import contextlib

import pytest

from cluster import Cluster
from test_http import metrics
from wire import OK, Wire, eventually, name, opened, opens

SMALL = """
sessions = 40
locks = 8
holds_per_session = 5
waits_per_lock = 2
waits_per_session = 3
fences = 2
blacklist = 2
sessions_per_conn = 3
name_size = 60
value_size = 20
request_size = 8192
"""


@pytest.fixture(scope="module")
def node():
    with Cluster(1, extra=SMALL) as cluster:
        yield cluster.leader()


@pytest.fixture
def connect(node, opened):
    def one(version=2):
        wire = Wire(node.client_port, version)
        opened.callback(wire.close)
        return wire

    return one


@pytest.fixture
def client(connect):
    """client() gives a connection with a session, which is closed at the end."""
    with contextlib.ExitStack() as stack:

        def one():
            wire = connect()
            session = opens(wire)
            stack.callback(close, connect, session)
            return wire

        yield one


def close(connect, session):
    wire = connect()
    wire.do("SESSION.ATTACH", *session)
    wire.do("SESSION.CLOSE")


def limit(wire, *words):
    code, text = wire.error(*words)
    assert code == "LIMIT", text
    return text


def test_sessions_of_a_connection(connect, client):
    wire = connect()
    sessions = [opens(wire) for _ in range(3)]
    assert limit(wire, "SESSION.OPEN") == "sessions of a connection"
    other = connect()
    fourth = opens(other)
    assert limit(wire, "SESSION.ATTACH", *fourth) == "sessions of a connection"
    assert wire.do("SESSION.ATTACH", *sessions[0]) == OK
    for session in sessions + [fourth]:
        close(connect, session)


def test_sessions(connect):
    sessions = []
    for _ in range(40):
        sessions.append(opens(connect()))
    assert limit(connect(), "SESSION.OPEN") == "sessions"
    close(connect, sessions.pop())
    sessions.append(opens(connect()))
    for session in sessions:
        close(connect, session)


def test_holds_of_a_session(client, name):
    wire = client()
    for i in range(5):
        assert wire.do("LOCK.ACQUIRE", name + str(i)) > 0
    assert limit(wire, "LOCK.ACQUIRE", name + "5") == "holds of the session"
    assert wire.do("LOCK.ACQUIRE", name + "4") > 0
    assert wire.do("LOCK.RELEASE", name + "0") == 0
    assert wire.do("LOCK.ACQUIRE", name + "5") > 0


def test_locks(client, name):
    one, two = client(), client()
    for i in range(4):
        assert one.do("LOCK.ACQUIRE", name + "a%d" % i) > 0
        assert two.do("LOCK.ACQUIRE", name + "b%d" % i) > 0
    assert limit(two, "LOCK.ACQUIRE", name + "c") == "locks"
    assert limit(two, "LOCK.MACQUIRE", 1, name + "c") == "locks"
    assert limit(two, "SET", name + "c", "v", "NX", "PX", 1000) == "locks"
    assert one.do("LOCK.RELEASE", name + "a0") == 0
    assert two.do("LOCK.ACQUIRE", name + "c") > 0


def test_waits_of_a_lock(client, name):
    holder = client()
    holder.do("LOCK.ACQUIRE", name)
    for i in range(2):
        client().send("LOCK.ACQUIRE", name, "WAIT", "FOREVER")
        eventually(lambda: len(holder.map("LOCK.SHOW", name)["queue"]) == i + 1)
    last = client()
    assert limit(last, "LOCK.ACQUIRE", name, "WAIT", 1000) == "waits of the lock"
    assert not last.do("LOCK.ACQUIRE", name)


def test_waits_of_a_session(client, connect, name):
    holder, waiter = client(), connect()
    session = opens(waiter)
    names = [name + str(i) for i in range(4)]
    holder.do("LOCK.MACQUIRE", 4, *names)
    assert limit(waiter, "LOCK.MACQUIRE", 4, *names, "WAIT", 1000) == (
        "waits of the session"
    )
    assert not waiter.do("LOCK.MACQUIRE", 3, *names[:3], "WAIT", 20)
    close(connect, session)


def test_fences_and_the_blacklist(connect, name):
    wire = connect()
    for i in range(2):
        assert wire.do("FENCE.ADMIT", name + str(i), 1) == 1
        assert wire.do("BLACKLIST.ADD", "CLIENT", name + str(i)) == OK
    assert limit(wire, "FENCE.ADMIT", name + "2", 1) == "fences"
    assert wire.do("FENCE.ADMIT", name + "1", 2) == 1
    assert limit(wire, "BLACKLIST.ADD", "CLIENT", name + "2") == "blacklist"
    assert wire.do("BLACKLIST.ADD", "CLIENT", name + "1", "REASON", "r") == OK
    for i in range(2):
        assert wire.do("BLACKLIST.REMOVE", "CLIENT", name + str(i)) == 1


def test_watches_of_a_connection(connect, name):
    wire = connect(3)
    for i in range(1024):
        wire.send("LOCK.WATCH", "%s-%d" % (name, i))
    assert all(wire.receive() == OK for _ in range(1024))
    assert limit(wire, "LOCK.WATCH", name) == "watches of a connection"
    assert wire.do("LOCK.WATCH", name + "-7") == OK
    assert wire.do("LOCK.UNWATCH", name + "-7") == OK
    assert wire.do("LOCK.WATCH", name) == OK


def test_sizes_of_names_and_values(client, name):
    wire = client()
    for words in (
        ("LOCK.ACQUIRE", "n" * 61),
        ("LOCK.MACQUIRE", 2, name, "n" * 61),
        ("FENCE.ADMIT", "n" * 61, 1),
        ("SET", "n" * 61, "v", "NX", "PX", 1000),
    ):
        assert limit(wire, *words) == "size of a name"
        assert wire.map("LOCK.SHOW", "n" * 61)["mode"] == b"free"
    assert limit(wire, "LOCK.ACQUIRE", name, "VALUE", "v" * 21) == "size of a value"
    assert limit(wire, "LOCK.PLEASE", name, "MESSAGE", "m" * 21) == "size of a value"
    assert limit(wire, "SET", name, "v" * 21, "NX", "PX", 1000) == "size of a value"
    token = wire.do("LOCK.ACQUIRE", name)
    assert limit(wire, "LOCK.NOTE", name, token, "n" * 21) == "size of a value"
    assert wire.do("LOCK.NOTE", name, token, "n" * 20) == OK
    assert wire.error("LOCK.ACQUIRE", "n" * 512)[0] == "BADARG"
    assert wire.error("LOCK.RELEASE", "n" * 61)[0] == "NOTHELD"
    assert wire.do("LOCK.ACQUIRE", "n" * 60, "VALUE", "v" * 20) > 0


def test_size_of_a_request(connect):
    assert connect().do("ECHO", "x" * 8000) == b"x" * 8000
    wire = connect()
    assert wire.error("ECHO", "x" * 9000)[0] == "ERR"
    assert connect().do("PING") is not None


def test_each_refusal_and_each_cut_is_counted(node, connect, client, name):
    wire = client()
    before = metrics(node)
    limit(wire, "LOCK.ACQUIRE", "n" * 61)
    wire.error("ECHO", "x" * 9000)
    word = 'hasp_errors_total{word="LIMIT"}'
    cut = 'hasp_connections_cut_total{reason="protocol error"}'
    assert metrics(node)[word] == before[word] + 1
    eventually(lambda: metrics(node)[cut] == before[cut] + 1)
