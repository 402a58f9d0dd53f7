# SPDX-License-Identifier: MIT
"""A node that gives the answers that a test sets, in RESP3, on a free port."""

import socket
import threading


def encode(value):
    """The RESP3 form of a Python value; bytes beginning with a type byte that
    must go out as they are come as Raw."""
    if isinstance(value, Raw):
        return value
    if value is None:
        return b"_\r\n"
    if isinstance(value, bool):
        return b"#t\r\n" if value else b"#f\r\n"
    if isinstance(value, int):
        return b":%d\r\n" % value
    if isinstance(value, Exception):
        return b"-%s\r\n" % str(value).encode()
    if isinstance(value, str):
        value = value.encode()
    if isinstance(value, bytes):
        return b"$%d\r\n%s\r\n" % (len(value), value)
    if isinstance(value, dict):
        parts = [b"%%%d\r\n" % len(value)]
        for key, element in value.items():
            parts += [encode(key), encode(element)]
        return b"".join(parts)
    return b"*%d\r\n" % len(value) + b"".join(encode(v) for v in value)


class Raw(bytes):
    pass


def push(*values):
    return Raw(b">%d\r\n" % len(values) + b"".join(encode(v) for v in values))


LATEST = 1 << 52  # No notice is newer than a grant of these nodes.


def option(words, word, default=b""):
    return words[words.index(word) + 1] if word in words else default


def grant(words, name, token, **told):
    """The answer to a request with FULL, about one lock."""
    hold = option(words, b"HOLD", None)
    mode = next((each for each in ("shared", "slots")
                 if each.upper().encode() in words), "exclusive")
    first = int(option(words, b"TOKEN", token))
    return {"lock": name.decode(), "owner": option(words, b"OWNER").decode(),
            "token": token, "first": first, "mode": mode, "count": 1,
            "hold_left_ms": int(hold) if hold else None, "delay_ms": 0,
            "as_of": LATEST, **told}


def granted(words, value):
    """A test may answer a request with the tokens alone."""
    if b"FULL" not in words or not words[0].startswith(b"LOCK."):
        return value
    if isinstance(value, int) and words[0] != b"LOCK.MACQUIRE":
        return grant(words, words[1], value)
    if isinstance(value, list) and words[0] == b"LOCK.MACQUIRE":
        return [grant(words, *one) if isinstance(one[1], int) else one[1]
                for one in zip(words[2:], value)]
    return value


class FakeNode:
    """'answer' is called with the words of each request but HELLO and gives a
    value, or a list of Raw to be sent one after the other."""

    def __init__(self, answer):
        self.answer = answer
        self.requests = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.endpoint = "127.0.0.1:%d" % self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.listener.close()

    def _accept(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(
                target=self._serve, args=(connection,), daemon=True
            ).start()

    def _serve(self, connection):
        with connection, connection.makefile("rb") as stream:
            while True:
                head = stream.readline()
                if not head.startswith(b"*"):
                    return
                words = []
                for _ in range(int(head[1:])):
                    size = int(stream.readline()[1:])
                    words.append(stream.read(size + 2)[:-2])
                if words[0].upper() == b"HELLO":
                    reply = {"server": "haspd", "proto": 3}
                else:
                    self.requests.append(words)
                    reply = granted(words, self.answer(words))
                try:
                    connection.sendall(encode(reply))
                except OSError:
                    return
