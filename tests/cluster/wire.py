# SPDX-License-Identifier: MIT
"""RESP2 and RESP3 with nothing rounded off, and a cluster to speak them to.

A reply keeps its kind: Simple for "+", bytes for "$", int, bool for "#", list for
"*", Map for "%", Push for ">", and the three nulls of the wire are three objects.
Tests take `connect`, which runs them once at the leader and once at a follower.
"""

import contextlib
import hashlib
import os
import socket
import time
import uuid

import pytest

from cluster import Again, Cluster, ReplyError


class Simple(str):
    """A simple string: no client may take it for a bulk string."""


class Map(list):
    """A RESP3 map as its pairs, in their order."""


class Push(list):
    """A RESP3 push."""


class Null:
    def __init__(self, form):
        self.form = form

    def __repr__(self):
        return self.form

    def __bool__(self):
        return False


NULL_BULK = Null("$-1")
NULL_ARRAY = Null("*-1")
NULL = Null("_")
OK = Simple("OK")


class Wire:
    """One connection. Pushes are kept apart, in `pushes`."""

    def __init__(self, port, version=2, timeout=10.0):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.file = self.socket.makefile("rb")
        self.pushes = []
        self.again = Again()
        if version == 3:
            self.do("HELLO", 3)

    def close(self):
        self.file.close()
        self.socket.close()

    def raw(self, data):
        """Its request is not known here, so it is not repeated."""
        self.again.sent.clear()
        self.socket.sendall(data)

    def send(self, *words):
        self.again.sent.append(words)
        self._write(words)

    def _write(self, words):
        self.socket.sendall(encode(words))

    def reply(self):
        """The next reply, be it an error."""
        return self.again.settle(self._write, self._read_reply)

    def _read_reply(self):
        while True:
            reply = self._read()
            if not isinstance(reply, Push):
                return reply
            self.pushes.append(reply)

    def receive(self):
        """The next reply; an error is raised."""
        reply = self.reply()
        if isinstance(reply, ReplyError):
            raise reply
        return reply

    def do(self, *words):
        self.send(*words)
        return self.receive()

    def map(self, *words):
        return plain(self.do(*words))

    def error(self, *words):
        """The error that the command must be answered with, as (code, text)."""
        with pytest.raises(ReplyError) as caught:
            self.do(*words)
        code, _, text = str(caught.value).partition(" ")
        return code, text

    def push(self, timeout=5.0):
        """The next push, waiting for it."""
        if self.pushes:
            return self.pushes.pop(0)
        self.socket.settimeout(timeout)
        reply = self._read()
        self.socket.settimeout(10.0)
        assert isinstance(reply, Push), reply
        return reply

    def is_silent(self, seconds=0.2):
        """True if nothing comes in that time; nothing may be buffered."""
        self.socket.settimeout(seconds)
        try:
            return self.socket.recv(1, socket.MSG_PEEK) is None
        except TimeoutError:
            return True
        finally:
            self.socket.settimeout(10.0)

    def is_closed(self):
        """True if the other side has closed, without another byte."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionResetError:
            return True

    def _read(self):
        line = self.file.readline()
        if not line.endswith(b"\r\n"):
            raise ConnectionError("connection closed")
        kind, rest = line[:1], line[1:-2]
        if kind == b"+":
            return Simple(rest.decode())
        if kind == b"-":
            return ReplyError(rest.decode(errors="replace"))
        if kind == b":":
            return int(rest)
        if kind == b"_":
            return NULL
        if kind == b"#":
            return {b"t": True, b"f": False}[rest]
        size = int(rest)
        if kind == b"$":
            if size < 0:
                return NULL_BULK
            data = self.file.read(size + 2)
            if len(data) != size + 2:
                raise ConnectionError("connection closed")
            return data[:-2]
        if kind == b"*":
            if size < 0:
                return NULL_ARRAY
            return [self._read() for _ in range(size)]
        if kind == b"%":
            return Map((self._read(), self._read()) for _ in range(size))
        if kind == b">":
            return Push(self._read() for _ in range(size))
        raise AssertionError("no RESP: %r" % line)


def encode(words):
    parts = [b"*%d\r\n" % len(words)]
    for word in words:
        word = word if isinstance(word, bytes) else str(word).encode()
        parts.append(b"$%d\r\n%s\r\n" % (len(word), word))
    return b"".join(parts)


def plain(reply):
    """A map of either version as a dict with str keys; values stay as they are."""
    pairs = reply if isinstance(reply, Map) else zip(reply[::2], reply[1::2])
    return {key.decode(): value for key, value in pairs}


class World:
    """A cluster that has settled, and where its leader is."""

    def __init__(self, cluster):
        self.cluster = cluster
        self.find()

    def find(self):
        self.leader = self.cluster.leader()
        self.follower = self.cluster.followers(self.leader)[0]
        self.cluster.converged()

    def find_again(self):
        """A disk that stalls makes another node lead, whatever the test."""
        if not self.leader.is_serving():
            self.find()


@pytest.fixture(scope="module")
def world():
    with Cluster(3) as cluster:
        yield World(cluster)


@pytest.fixture
def opened():
    """Connections that are closed when the test is over."""
    with contextlib.ExitStack() as stack:
        yield stack


@pytest.fixture(params=["leader", "follower"])
def connect(request, world, opened):
    """connect(version) gives a connection to the node under test."""

    def one(version=2, node=None, timeout=10.0):
        node = node or getattr(world, request.param)
        wire = Wire(node.client_port, version, timeout)
        opened.callback(wire.close)
        return wire

    return one


@pytest.fixture
def name():
    """A lock's name that no other test uses."""
    return "t-" + uuid.uuid4().hex[:12]


def opens(wire, *options):
    """Opens a session; gives (id, secret)."""
    reply = wire.map("SESSION.OPEN", *options)
    return reply["id"], reply["secret"]


def proof_of(secret):
    """The proof for SESSION.OPEN of a secret that the client has made."""
    return hashlib.sha256(secret.encode()).hexdigest()


def eventually(condition, timeout=5.0):
    by = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < by, "it did not happen in time"
        time.sleep(0.005)


def random_text(size):
    return os.urandom(size // 2).hex().encode()
