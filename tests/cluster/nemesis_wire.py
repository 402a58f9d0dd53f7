# SPDX-License-Identifier: MIT
"""The connections of the nemesis test's clients: RESP2, RESP3 with pushes, TLS,
and HTTP under the same words."""

import http.client
import json
import socket

from cluster import Client, ReplyError, text

CONNECT_S = 0.5
REPLY_S = 1.0
HTTP_PORT = 7422


class Connection(Client):
    def __init__(self, address, tls=None):
        self.socket = socket.create_connection(address, CONNECT_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.settimeout(REPLY_S)
        if tls is not None:
            self.socket = tls.wrap_socket(self.socket)
        self.file = self.socket.makefile("rb")

    def ask(self, timeout, *words):
        self.socket.settimeout(timeout)
        return self.do(*words)


class Certified(Connection):
    """Refusal of a user by a node that has no state yet."""

    def receive(self):
        try:
            return super().receive()
        except ReplyError as error:
            if error.code == "NOAUTH":
                raise ConnectionError(str(error)) from None
            raise


class Push(list):
    """The pushes."""


class Watching(Connection):
    """In RESP3: maps are dicts, pushes are lists."""

    def _read(self):
        line = self.file.peek(1)[:1]
        if line not in (b"%", b">", b"_", b"#"):
            return super()._read()
        line = self.file.readline()
        if not line.endswith(b"\r\n"):
            raise ConnectionError("connection closed")
        kind, rest = line[:1], line[1:-2]
        if kind == b">":
            return Push(self._read() for _ in range(int(rest)))
        if kind == b"%":
            return {text(self._read()): self._read() for _ in range(int(rest))}
        return None if kind == b"_" else rest == b"t"


class Pushed(Watching):
    """A connection with waits that get QUEUED, and a push when they are
    over."""

    def __init__(self, address, tls=None):
        super().__init__(address, tls)
        self.pushes = {}  # {number of a wait: its push}
        self.do("HELLO", 3)

    def receive(self):
        """The next reply; pushes that come before it are kept."""
        while True:
            told = super().receive()
            if not isinstance(told, Push):
                return told
            self.keep(told)

    def keep(self, push):
        """An answer is of a later entry than the wait."""
        if push[1] == b"answer":
            told = push[2]
            assert told["index"] > told["wait"], told
            self.pushes[told["wait"]] = told

    def map(self, *words):
        return {key: text(value) for key, value in self.do(*words).items()}

    def ask(self, timeout, *words):
        reply = super().ask(timeout, *words)
        if not str(text(reply)).startswith("QUEUED "):
            return reply
        wait = int(text(reply).split()[1])
        while wait not in self.pushes:
            told = self._read()
            if not isinstance(told, Push):
                raise AssertionError("a reply to nothing: %r" % (told,))
            self.keep(told)
        tokens = self.pushes.pop(wait).get("tokens")
        if tokens is None:  # Not granted, or refused: the repetition shows it.
            return super().ask(timeout, *words)
        return tokens if text(words[0]) == "LOCK.MACQUIRE" else tokens[0]


# For each command: method, path, its operands, and the member with the answer.
ROUTES = {
    "SESSION.OPEN": ("POST", "session/open", (), None),
    "SESSION.KEEP": ("POST", "session/keep", (), None),
    "SESSION.CLOSE": ("POST", "session/close", (), "released"),
    "LOCK.ACQUIRE": ("POST", "lock/acquire", ("name",), "token"),
    "LOCK.MACQUIRE": ("POST", "lock/acquire-many", ("names",), "grants"),
    "LOCK.RELEASE": ("POST", "lock/release", ("name",), "left"),
    "LOCK.MRELEASE": ("POST", "lock/release-many", ("names",), "released"),
    "LOCK.CONVERT": ("POST", "lock/convert", ("name", "to"), "token"),
    "LOCK.NOTE": ("POST", "lock/note", ("name", "token", "note"), "ok"),
    "LOCK.CHECK": ("GET", "lock/check", ("name", "token"), "holds"),
    "FENCE.ADMIT": ("POST", "fence/admit", ("resource", "token"), "admitted"),
}
OPTIONS = {
    "TTL": "ttl_ms",
    "LINGER": "linger_ms",
    "NAME": "name",
    "WAIT": "wait_ms",
    "DELAY": "delay_ms",
    "HOLD": "hold_ms",
    "OWNER": "owner",
    "SLOTS": "slots",
    "TOKEN": "token",
    "SESSION": "session",
    "REQ": "req",
    "ACKED": "acked",
}
FLAGS = {"SHARED": "shared", "BARGE": "barge"}


def as_members(operands, words):
    """The HTTP request for these words."""
    words, members = list(words), {}
    for operand in operands:
        word = words.pop(0)
        if operand == "names":
            word, words = words[:word], words[word:]
        members[operand] = word.lower() if operand == "to" else word
    while words:
        word = words.pop(0)
        if word in FLAGS:
            members[FLAGS[word]] = True
        else:
            members[OPTIONS[word]] = words.pop(0)
    return members


class Http:
    """Asks by HTTP what the words of a command say."""

    def __init__(self, address, tls=None):
        self.headers = {"Content-Type": "application/json"}
        self.connection = http.client.HTTPConnection(
            address[0], HTTP_PORT, timeout=CONNECT_S
        )
        self.connection.connect()
        self.connection.sock.settimeout(REPLY_S)

    def close(self):
        self.connection.close()

    def map(self, *words):
        return self.ask(REPLY_S, *words)

    def do(self, *words):
        return self.ask(REPLY_S, *words)

    def ask(self, timeout, *words):
        if words[0] == "SESSION.ATTACH":
            self.headers["Hasp-Session"] = "%d:%s" % words[1:]
            return "OK"
        method, path, operands, member = ROUTES[words[0]]
        members = as_members(operands, words[1:])
        self.connection.sock.settimeout(timeout)
        try:
            status, told = self.exchange(method, "/v1/" + path, members)
        except (http.client.HTTPException, ValueError) as error:
            raise ConnectionError("HTTP: %r" % error) from None
        if status == 423:
            return None
        if status != 200:
            words = (told.get("code", "HTTP%d" % status), told.get("detail"))
            raise ReplyError("%s %s" % words)
        if words[0] == "SESSION.OPEN":
            self.headers["Hasp-Session"] = "%(id)d:%(secret)s" % told
        if member == "grants":
            return [grant["token"] for grant in told["grants"]]
        return told if member is None else told[member]

    def exchange(self, method, path, members):
        body = None
        if method == "GET":
            path += "?" + "&".join("%s=%s" % one for one in members.items())
        else:
            body = json.dumps(members)
        if self.connection.sock is None:
            raise ConnectionError("connection closed")
        self.connection.request(method, path, body, self.headers)
        response = self.connection.getresponse()
        return response.status, json.loads(response.read())
