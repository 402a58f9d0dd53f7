# SPDX-License-Identifier: MIT
"""A node that sends the frames that a test sets, on the peer port
(net/frame.h)."""

import os
import re
import socket
import struct
import time

HELLO, RAFT, FORWARD, ANSWER, CLOSED, SNAPSHOT = range(1, 7)
PING, PONG, LOST, MEMBERS = 8, 9, 10, 13
APPEND, APPEND_RESULT, VOTE = 1, 2, 3


def identity(node):
    """(cluster id, incarnation) of a node's data directory."""
    with open(os.path.join(node.dir, "identity")) as file:
        text = file.read()
    cluster = re.search(r"^cluster=([0-9a-f]{32})$", text, re.M)
    incarnation = re.search(r"^incarnation=([0-9a-f]{16})$", text, re.M)
    return bytes.fromhex(cluster.group(1)), int(incarnation.group(1), 16)


def run(data):
    return struct.pack("<I", len(data)) + data


class FakePeer:
    """Connects to the peer port of 'node' and greets as 'number'. The other
    arguments are fields of the greeting."""

    def __init__(self, node, number, timeout=5.0, **fields):
        self.node = node
        self.number = number
        self.socket = socket.create_connection(
            ("127.0.0.1", node.peer_port), timeout
        )
        self.socket.settimeout(timeout)
        self.input = b""
        self.greet(**fields)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def greet(
        self,
        cluster=bytes(16),
        incarnation=1,
        applied=0,
        members=0,
        term=0,
        last=0,
        last_term=0,
        level=1,
    ):
        self.send(
            HELLO,
            struct.pack(
                "<2I2Q2I", 1, 1, self.number, self.node.id, level, 0
            )
            + cluster
            + struct.pack(
                "<6Q",
                incarnation,
                applied,
                members,
                term,
                last,
                last_term,
            )
            + bytes(4 + 16 + 4 + 1 + 1),
        )

    def send(self, kind, body):
        """False if the connection has been closed."""
        try:
            self.socket.sendall(
                struct.pack("<IBBH", len(body), kind, 0, 0) + body
            )
            return True
        except OSError:
            return False

    def receive(self):
        """The next frame but PING, (type, body); None if it was closed."""
        while True:
            if len(self.input) >= 8:
                size, kind = struct.unpack("<IB", self.input[:5])
                if len(self.input) >= 8 + size:
                    body = self.input[8 : 8 + size]
                    self.input = self.input[8 + size :]
                    if kind != PING:
                        return kind, body
                    self.send(PONG, body)
                    continue
            try:
                part = self.socket.recv(65536)
            except ConnectionError:
                return None
            if not part:
                return None
            self.input += part

    def is_welcome(self):
        """The node has greeted back."""
        frame = self.receive()
        return frame is not None and frame[0] == HELLO

    def is_closed(self, seconds=5.0):
        """The node closes the connection within that time."""
        by = time.monotonic() + seconds
        self.socket.settimeout(seconds)
        try:
            while time.monotonic() < by:
                if self.receive() is None:
                    return True
        except TimeoutError:
            pass
        return False
