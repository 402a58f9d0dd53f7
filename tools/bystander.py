#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Measures a bystander while 300 connections flood a cluster with one request.

    tools/bystander.py                       every command, every HTTP route
    tools/bystander.py PING LOCK.HISTORY     these, without authentication
    tools/bystander.py --as few 'GET /v1/locks'

For each request and each kind of client (--as) 300 connections send it to all
three nodes of a cluster as fast as they can, without waiting for answers. The
bystander has a session of 2 s at each node and sends KEEP ten times a second;
another bystander does so at an idle node, which shows how noisy the
machine is. It prints the 99th percentile and the maximum of both, in ms, new
terms and lost sessions.

Exit code 1: a session was lost, a new term began, or the bystander's p99 is
above 500 ms and above ten times that of the other one.
"""

import argparse
import base64
import hashlib
import json
import multiprocessing
import os
import re
import select
import socket
import sys
import threading
import time
import urllib.request

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "tests", "cluster"))

from cluster import Client, Cluster, ReplyError, text, wait_until  # noqa: E402

CONNECTIONS = 300
TTL_MS = 2000
PERIOD_S = 0.1
BOUND_MS = 500.0
NOISE = 10
CHUNK = 64 << 10
# The flooding client: an unauthenticated one, a user without rights, one that
# may use the locks flood/*.
KINDS = ("stranger", "none", "few")
# Values for operands, by their names in COMMAND DOCS; others are "1".
OPERANDS = {
    "name": "flood/a",
    "lock": "flood/a",
    "resource": "flood/r",
    "prefix": "flood/",
    "key": "flood/k",
    "channel": "lock:flood/a",
    "pattern": "lock:flood/*",
    "secret": "0" * 32,
    "text": "x",
    "value": "x",
    "script": "return 1",
    "numkeys": "0",
    "cursor": "0",
    "ms": "1000",
}
# Arguments that the documentation does not describe.
WHOLE = {
    "AUTH": ["AUTH", "x", "y"],
    "COMMAND": ["COMMAND", "DOCS"],
    "CLIENT": ["CLIENT", "LIST"],
    "CLUSTER": ["CLUSTER", "SLOTS"],
    "CONFIG": ["CONFIG", "GET", "*"],
    "EVAL": ["EVAL", "return redis.call('get', KEYS[1])", "1", "flood/k"],
    "LOCK.WATCH": ["LOCK.WATCH", "flood/", "FROM", "0-1"],
    "SCRIPT": ["SCRIPT", "LOAD", "return 1"],
    "SET": ["SET", "flood/k", "v", "PX", "1000"],
}


# --- The flood ----------------------------------------------------------------


class Flooder:
    """One connection of the flood."""

    def __init__(self, port, prelude, chunk):
        self.socket = socket.create_connection(("127.0.0.1", port), 10)
        self.socket.sendall(prelude)
        # A client that sends more than 16 KiB before it authenticates is refused.
        seen = b"+OK" if b"AUTH" not in prelude else b""
        while b"+OK" not in seen:
            some = self.socket.recv(4096)
            if not some or b"-" in seen + some:
                raise OSError("not let in: %r" % (seen + some))
            seen += some
        self.socket.setblocking(False)
        self.chunk = chunk
        self.unsent = memoryview(chunk)

    def send(self):
        size = self.socket.send(self.unsent)
        self.unsent = self.unsent[size:] or memoryview(self.chunk)
        return size


def flood(ports, count, prelude, chunk, pipe):
    """Sends until the pipe is closed, and returns what it has sent and read."""
    poll = select.epoll()
    flooders = {}
    told = {"sent": 0, "read": 0, "closed": 0}

    def add(port):
        try:
            flooder = Flooder(port, prelude, chunk)
        except OSError:
            return
        flooder.port = port
        flooders[flooder.socket.fileno()] = flooder
        poll.register(flooder.socket, select.EPOLLIN | select.EPOLLOUT)

    def drop(fd):
        flooder = flooders.pop(fd)
        poll.unregister(fd)
        flooder.socket.close()
        told["closed"] += 1
        add(flooder.port)

    for i in range(count):
        add(ports[i % len(ports)])
    pipe.send("begun")
    while not pipe.poll():
        for fd, events in poll.poll(0.1):
            flooder = flooders.get(fd)
            try:
                if flooder is not None and events & ~select.EPOLLOUT:
                    size = len(flooder.socket.recv(1 << 20))
                    told["read"] += size
                    if size == 0:
                        drop(fd)
                        continue
                if flooder is not None and events & select.EPOLLOUT:
                    told["sent"] += flooder.send()
            except BlockingIOError:
                pass
            except OSError:
                drop(fd)
    pipe.send(told)


# --- The bystander ------------------------------------------------------------


class Bystander(threading.Thread):
    """A session at one node that is kept alive, and how long each KEEP takes."""

    def __init__(self, node, secret=None):
        super().__init__(daemon=True)
        self.node, self.secret = node, secret
        self.times, self.lost, self.refused = [], 0, {}
        self.is_over = False
        self.client = self.session = None
        self.connect()

    def connect(self):
        self.client = Client(self.node.client_port, 30)
        if self.secret:
            assert self.client.do("AUTH", self.secret) == "OK"
        self.session = self.client.map("SESSION.OPEN", "TTL", TTL_MS)["id"]

    def keep(self):
        begin = time.monotonic()
        try:
            self.client.do("SESSION.KEEP")
        except ReplyError as error:
            if error.code in ("EXPIRED", "NOSESSION"):
                self.lost += 1
                self.connect()
            self.refused[error.code] = self.refused.get(error.code, 0) + 1
        except OSError:
            self.refused["closed"] = self.refused.get("closed", 0) + 1
            self.connect()
        self.times.append((time.monotonic() - begin) * 1000)

    def run(self):
        while not self.is_over:
            try:
                self.keep()
            except (OSError, ReplyError):
                time.sleep(0.1)
            time.sleep(PERIOD_S)

    def end(self):
        self.is_over = True
        self.join(40)
        self.client.close()


def percentile(times, part):
    times = sorted(times)
    return times[min(len(times) - 1, int(part * len(times)))] if times else 0.0


def leader_of(node):
    """(term, leader) as the node sees it; None if it does not answer."""
    try:
        with node.door(5.0) as door:
            status = door.map("RAFT.STATUS")
            return status["term"], status["leader"]
    except (OSError, ReplyError):
        return None


def terms(cluster):
    """The term, once all nodes agree on it and on the leader."""

    def find():
        seen = {leader_of(node) for node in cluster.nodes}
        return seen.pop() if len(seen) == 1 and None not in seen else None

    def find_led():
        found = find()
        return found if found is not None and found[1] != 0 else None

    return wait_until(find_led, 90, "one leader in all nodes' view")[0]


def measure(cluster, control, ports, prelude, chunk, seconds, secret=None):
    """Floods 'ports'; returns the results in one dict."""
    before = terms(cluster)
    crowd = [Bystander(node, secret) for node in cluster.nodes]
    other = Bystander(control.nodes[0])
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.Process(
        target=flood, args=(ports, CONNECTIONS, prelude, chunk, theirs), daemon=True
    )
    process.start()
    assert ours.recv() == "begun"
    for one in crowd + [other]:
        one.start()
    time.sleep(seconds)
    for one in crowd + [other]:
        one.end()
    ours.send("end")
    told = ours.recv() if ours.poll(30) else {}
    process.join(10)
    if process.is_alive():
        process.kill()
    after = terms(cluster)
    times = [t for one in crowd for t in one.times]
    refused = {}
    for one in crowd:
        for word, count in one.refused.items():
            refused[word] = refused.get(word, 0) + count
    return {
        "p99": percentile(times, 0.99),
        "max": max(times, default=0.0),
        "keeps": len(times),
        "noise_p99": percentile(other.times, 0.99),
        "noise_max": max(other.times, default=0.0),
        "terms": after - before,
        "lost": sum(one.lost for one in crowd),
        "refused": refused,
        "sent": told.get("sent", 0),
        "read": told.get("read", 0),
        "closed": told.get("closed", 0),
    }


def resp(*words):
    words = [w if isinstance(w, bytes) else str(w).encode() for w in words]
    return b"*%d\r\n" % len(words) + b"".join(
        b"$%d\r\n%s\r\n" % (len(w), w) for w in words
    )


def repeated(one):
    return one * max(1, CHUNK // len(one))


def judge(row):
    """The violation, or None."""
    if row["lost"]:
        return "sessions lost: %d" % row["lost"]
    if row["terms"]:
        return "new terms: %d" % row["terms"]
    if row["p99"] > BOUND_MS and row["p99"] > NOISE * row["noise_p99"]:
        return "p99 %.0f ms" % row["p99"]
    return None


# --- Requests -----------------------------------------------------------------


def pairs(flat):
    return {text(flat[i]): flat[i + 1] for i in range(0, len(flat), 2)}


def operands(arguments):
    """The required arguments; the first of alternatives."""
    words = []
    for argument in map(pairs, arguments):
        if "optional" in map(text, argument.get("flags", [])):
            continue
        for word in text(argument["name"]).split():
            word = word.split("|")[0]
            words.append(word if word.isupper() else OPERANDS.get(word, "1"))
    return words


def commands(client):
    """A request of each command, by its name, from the node's own table."""
    flat = client.do("COMMAND", "DOCS")
    arity = {one[0].decode().upper(): one[1] for one in client.do("COMMAND")}
    made = {}
    for i in range(0, len(flat), 2):
        name = flat[i].decode().upper()
        words = WHOLE.get(name)
        if words is None:
            words = [name] + operands(pairs(flat[i + 1])["arguments"])
            words += ["1"] * max(0, abs(arity[name]) - len(words))
            words = words[: arity[name]] if arity[name] > 0 else words
        made[name] = resp(*words)
    return made


def routes(node):
    """A request of each route, by "METHOD path", from the node's document."""
    where = "http://127.0.0.1:%d/v1/openapi.json" % node.http_port
    with urllib.request.urlopen(where, timeout=10) as answer:
        document = json.load(answer)
    made = {}
    for path, methods in document["paths"].items():
        for method in methods:
            name = "%s %s" % (method.upper(), path)
            target = re.sub(r"{[^}]*}", "flood%2Fa", path)
            body = b"" if method == "get" else b'{"name":"flood/a","ttl_ms":2000}'
            made[name] = (method.upper(), target, body)
    for path in ("/metrics", "/healthz", "/readyz", "/"):
        made.setdefault("GET " + path, ("GET", path, b""))
    return made


def http(method, target, body, secret):
    head = "%s %s HTTP/1.1\r\nHost: localhost\r\n" % (method, target)
    if secret:
        head += "Authorization: Bearer %s\r\n" % secret
    if body:
        head += "Content-Type: application/json\r\nContent-Length: %d\r\n" % len(body)
    return head.encode() + b"\r\n" + body


# --- The cluster --------------------------------------------------------------


def secret_of(user):
    key = hashlib.sha256(user.encode()).digest()
    text = base64.urlsafe_b64encode(key).decode().rstrip("=")
    return "hasp1.%s.%s" % (user, text)


class Flooded:
    """A cluster with users, a lock with a history, and an idle node."""

    def __init__(self):
        extra = "[security]\ninsecure = yes\n"
        self.cluster, self.control = Cluster(3, extra), Cluster(1)
        self.cluster.leader(60)
        self.control.leader(60)
        with self.cluster.nodes[0].door() as door:
            door.do("ROLE.SET", "few", "IF", 0, "GRANTS", "lock,read:flood/*")
            users = (("none", []), ("few", ["ROLES", "few"]), ("bystander", []))
            for user, more in users:
                door.do("USER.SET", user, "IF", 0, "CONNECTIONS", 1000, *more)
                digest = hashlib.sha256(secret_of(user).encode()).hexdigest()
                door.do("SECRET.ADD", user, digest)
            door.map("SESSION.OPEN", "TTL", 60000)
            for _ in range(5000):
                door.send("LOCK.ACQUIRE", "flood/a")
                door.send("LOCK.RELEASE", "flood/a")
            for _ in range(10000):
                door.receive()
            self.commands = commands(door)
            door.do("ACCESS.SET", "REQUIRED", "FORCE")
        self.routes = routes(self.cluster.nodes[0])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.cluster.close()
        self.control.close()

    def run(self, name, kind, seconds):
        """Floods with the command or route of this name."""
        secret = secret_of(kind) if kind != "stranger" else None
        nodes = self.cluster.nodes
        if name in self.routes:
            ports, prelude = [n.http_port for n in nodes], b""
            one = http(*self.routes[name], secret)
        else:
            ports, prelude = [n.client_port for n in nodes], resp("HELLO", 3)
            prelude += resp("AUTH", secret) if secret else b""
            one = self.commands[name]
        return measure(
            self.cluster,
            self.control,
            ports,
            prelude,
            repeated(one),
            seconds,
            secret_of("bystander"),
        )


def tell(name, kind, row):
    print(
        "%-28s %-8s p99 %6.0f ms, longest %6.0f; the idle node %5.0f and %5.0f; "
        "new terms %d, lost %d, refused %s; %d MB sent, %d MB answered, %d closed%s"
        % (
            name,
            kind,
            row["p99"],
            row["max"],
            row["noise_p99"],
            row["noise_max"],
            row["terms"],
            row["lost"],
            row["refused"] or "none",
            row["sent"] >> 20,
            row["read"] >> 20,
            row["closed"],
            "" if judge(row) is None else "   <-- " + judge(row),
        ),
        flush=True,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="commands, or 'METHOD path'")
    parser.add_argument("--as", dest="kind", choices=KINDS, action="append")
    parser.add_argument("--seconds", type=float, default=4.0)
    options = parser.parse_args()
    bad = 0
    with Flooded() as flooded:
        known = list(flooded.commands) + list(flooded.routes)
        for name in options.names or known:
            if name not in known:
                parser.error("no such command or route: %s" % name)
            kinds = options.kind or (KINDS[:1] if options.names else KINDS)
            for kind in kinds:
                row = flooded.run(name, kind, options.seconds)
                tell(name, kind, row)
                bad += judge(row) is not None
    print("%d of them harmed a bystander" % bad)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
