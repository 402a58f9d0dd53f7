# SPDX-License-Identifier: MIT
"""Real haspd processes on loopback, for the tests in this folder.

A Cluster starts N nodes on free ports, each with its own data directory below a
temporary folder that goes with it. A Client speaks RESP2 over one socket. All
waiting is bounded, and only processes started here are signalled, by their pid.

The program under test is $HASPD (default: build/release/haspd).
"""

import collections
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(
    os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
)
sys.path.insert(0, os.path.join(ROOT, "tools"))

from ports import free_base, free_ports  # noqa: E402,F401

HASPD = os.environ.get(
    "HASPD", os.path.join(ROOT, "build", "release", "haspd")
)
# A version of the next feature level: builds for tests are of that one.
HASPD_LEVEL2 = os.environ.get(
    "HASPD_LEVEL2", os.path.join(ROOT, "build", "check", "haspd")
)
START_S = 15.0


def is_sanitized():
    """A sanitizer keeps freed memory back: no use in weighing it."""
    with open(HASPD, "rb") as file:
        return b"__asan_init" in file.read()


class ReplyError(Exception):
    """An error reply: 'code' is its first word."""

    def __init__(self, text):
        super().__init__(text)
        self.code = text.split(" ", 1)[0]


# The answer of a leader with a stalled disk, with BUSY: nothing was done.
DISK_IS_SLOW = "the leader's disk is too slow"
STALL_S = 30.0


class Again:
    """The requests of one connection, sent again while the leader's disk is too
    slow, as every client does. A request that others followed is not repeated:
    it would change places with them."""

    def __init__(self):
        self.sent = collections.deque()

    def settle(self, send, read):
        """The answer to the oldest request."""
        words = self.sent.popleft() if self.sent else None
        by = time.monotonic() + STALL_S
        while True:
            reply = read()
            if (
                words is None
                or self.sent
                or not isinstance(reply, ReplyError)
                or DISK_IS_SLOW not in str(reply)
                or time.monotonic() > by
            ):
                return reply
            time.sleep(0.05)
            send(words)


class Client:
    """One connection, to a port or the path of a socket. Replies are int, bytes,
    list, None or str (simple)."""

    again = None  # None: sees every answer, as the nemesis does.

    def __init__(self, port, timeout=10.0, tls=None):
        self.again = Again()
        if isinstance(port, str):
            self.socket = socket.socket(socket.AF_UNIX)
            self.socket.connect(port)
        else:
            self.socket = socket.create_connection(("127.0.0.1", port), timeout)
        self.socket.settimeout(timeout)
        if tls is not None:
            self.socket = tls.wrap_socket(self.socket)
        self.file = self.socket.makefile("rb")

    def close(self):
        self.file.close()
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def send(self, *words):
        if self.again is not None:
            self.again.sent.append(words)
        self._write(words)

    def _write(self, words):
        parts = [b"*%d\r\n" % len(words)]
        for word in words:
            word = word if isinstance(word, bytes) else str(word).encode()
            parts.append(b"$%d\r\n%s\r\n" % (len(word), word))
        self.socket.sendall(b"".join(parts))

    def receive(self):
        if self.again is not None:
            reply = self.again.settle(self._write, self._read)
        else:
            reply = self._read()
        if isinstance(reply, ReplyError):
            raise reply
        return reply

    def do(self, *words):
        self.send(*words)
        return self.receive()

    def once(self, *words):
        """The answer to the first asking, be it an error."""
        self._write(words)
        return self._read()

    def map(self, *words):
        """The reply as a dict with str keys; values that are text as str."""
        flat = self.do(*words)
        return as_map(flat)

    def _read(self):
        line = self.file.readline()
        if not line.endswith(b"\r\n"):
            raise ConnectionError("connection closed")
        kind, rest = line[:1], line[1:-2]
        if kind == b"+":
            return rest.decode()
        if kind == b"-":
            return ReplyError(rest.decode(errors="replace"))
        if kind == b":":
            return int(rest)
        if kind == b"$":
            size = int(rest)
            if size < 0:
                return None
            data = self.file.read(size + 2)
            if len(data) != size + 2:
                raise ConnectionError("connection closed")
            return data[:-2]
        if kind == b"*":
            count = int(rest)
            return None if count < 0 else [self._read() for _ in range(count)]
        raise AssertionError("not RESP2: %r" % line)


def admit_fences(client, count, batch):
    """Writes 'count' entries of some 200 bytes, each a resource of its own."""
    for start in range(0, count, batch):
        for i in range(start, start + batch):
            client.send("FENCE.ADMIT", "f%d-%s" % (i, "y" * 200), 7)
        for _ in range(batch):
            assert client.receive() == 1


def text(value):
    return value.decode() if isinstance(value, bytes) else value


def as_map(flat):
    return {text(flat[i]): text(flat[i + 1]) for i in range(0, len(flat), 2)}


class Session:
    """A session with the secret to attach it elsewhere, kept alive by hand."""

    def __init__(self, client, **options):
        words = ["SESSION.OPEN"]
        for key, value in options.items():
            words += [key.upper(), value]
        opened = client.map(*words)
        self.client = client
        self.id = opened["id"]
        self.secret = opened["secret"]

    def attach(self, client):
        assert client.do("SESSION.ATTACH", self.id, self.secret) is not None
        self.client = client
        return self


def wait_until(condition, timeout, what):
    """Polls until condition() is true and returns what it gave."""
    by = time.monotonic() + timeout
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > by:
            raise AssertionError("not within %.0f s: %s" % (timeout, what))
        time.sleep(0.01)


class Node:
    def __init__(self, cluster, number, ports, folder=None):
        self.cluster = cluster
        self.id = number
        self.client_port, self.peer_port, self.http_port = ports
        self.home = os.path.join(cluster.folder, folder or "n%d" % number)
        self.dir = os.path.join(self.home, "data")
        self.config = os.path.join(self.home, "haspd.conf")
        self.log_path = os.path.join(self.home, "log")
        self.process = None
        self.program = HASPD
        os.mkdir(self.home)

    def write_config(self, extra=""):
        members = "".join(
            "member = %d 127.0.0.1:%d 127.0.0.1:%d\n"
            % (n.id, n.peer_port, n.client_port)
            for n in self.cluster.founders
        )
        with open(self.config, "w") as out:
            out.write(
                "[node]\nid = %d\ndir = %s\n" % (self.id, self.dir)
                + "[listen]\nhttp = 127.0.0.1:%d\n" % self.http_port
                + "client = 127.0.0.1:%d\n" % self.client_port
                + "peer = 127.0.0.1:%d\n" % self.peer_port
                + "[cluster]\nname = test\n"
                + members
                + "[limits]\ndisk_reserve = 1M\nttl_max = 3600000\n"
                + extra
            )

    def start(self, *flags, wrapper=(), environment=None):
        assert self.process is None or self.process.poll() is not None
        env = dict(os.environ)
        if is_sanitized():
            env["HASP_SECURITY_CORE_DUMPS"] = "yes"  # It traces itself for leaks.
        env.update(environment or {})
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(
                list(wrapper) + [self.program, "--config", self.config] + list(flags),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=env,
            )
        return self

    @property
    def is_running(self):
        return self.process is not None and self.process.poll() is None

    def kill(self):
        """As a crash: SIGKILL, and gone when this returns."""
        self.signal(signal.SIGKILL)
        self.process.wait(10)

    def stop(self, timeout=10):
        """Cleanly; returns the exit code."""
        self.signal(signal.SIGTERM)
        return self.process.wait(timeout)

    def signal(self, number):
        if self.is_running:
            self.process.send_signal(number)

    def pause(self):
        self.signal(signal.SIGSTOP)

    def resume(self):
        self.signal(signal.SIGCONT)

    def wait_exit(self, timeout=15):
        return self.process.wait(timeout)

    @property
    def addresses(self):
        """As RAFT.ADD takes them."""
        return "127.0.0.1:%d,127.0.0.1:%d" % (self.peer_port, self.client_port)

    def connect(self, timeout=10.0):
        return Client(self.client_port, timeout, self.cluster.tls)

    def door(self, timeout=10.0):
        """By the local door: may do everything."""
        return Client(os.path.join(self.dir, "admin.sock"), timeout)

    def log(self):
        with open(self.log_path, errors="replace") as file:
            return file.read()

    def status(self):
        """RAFT.STATUS, or None if the node does not answer."""
        try:
            with self.connect(2.0) as client:
                return client.map("RAFT.STATUS")
        except (OSError, ReplyError):
            return None

    def is_serving(self):
        """It leads and has answered a question that only a leader answers."""
        status = self.status()
        if status is None or status["role"] != "leader":
            return False
        try:
            with self.connect(2.0) as client:
                client.do("LOCK.SHOW", "cluster.py")
                return True
        except (OSError, ReplyError):
            return False

    def memory_kib(self):
        """Resident memory of the process."""
        with open("/proc/%d/status" % self.process.pid) as file:
            return int(re.search(r"VmRSS:\s+(\d+)", file.read()).group(1))


class Cluster:
    def __init__(self, count=3, extra="", start=True):
        self.folder = tempfile.mkdtemp(prefix="hasp-cluster-")
        self.extra = extra
        self.tls = None  # An ssl.SSLContext for connections of clients.
        ports = free_ports(3 * count)
        self.nodes = []
        for i in range(count):
            self.nodes.append(Node(self, i + 1, ports[3 * i : 3 * i + 3]))
        self.founders = list(self.nodes)
        for node in self.nodes:
            node.write_config(extra)
        if start:
            self.start()

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if kind is not None:
            self.print_logs()
        self.close()

    def start(self):
        for node in self.nodes:
            if not node.is_running:
                node.start()
        return self

    def newcomer(self):
        """Starts a node that is not among the founders."""
        node = Node(self, len(self.nodes) + 1, free_ports(3))
        node.write_config(self.extra)
        self.nodes.append(node)
        return node.start()

    def close(self):
        for node in self.nodes:
            if node.is_running:
                node.resume()
                node.signal(signal.SIGKILL)
        for node in self.nodes:
            if node.process is not None:
                node.process.wait(10)
        shutil.rmtree(self.folder, ignore_errors=True)

    def print_logs(self):
        for node in self.nodes:
            if os.path.exists(node.log_path):
                print("--- log of node %d (end)" % node.id)
                print("\n".join(node.log().splitlines()[-40:]))

    def leader(self, timeout=START_S, besides=()):
        """Waits until one serves, and returns it."""

        def find():
            for node in self.nodes:
                if (
                    node.is_running
                    and node not in besides
                    and node.is_serving()
                ):
                    return node
            return None

        return wait_until(find, timeout, "a leader that serves")

    def followers(self, leader):
        return [n for n in self.nodes if n is not leader and n.is_running]

    def retry(self, action, timeout=15.0, nodes=None):
        """Calls action(client) at one node after the other until one answers
        with something else than a refusal that says nothing was done, or with
        UNKNOWN (actions must carry a REQ). Returns the answer."""
        by = time.monotonic() + timeout
        last = None
        while time.monotonic() < by:
            for node in nodes or self.nodes:
                if not node.is_running:
                    continue
                try:
                    with node.connect(5.0) as client:
                        return action(client)
                except ReplyError as error:
                    if error.code not in (
                        "NOLEADER",
                        "UNKNOWN",
                        "BUSY",
                        "MOVED",
                    ):
                        raise
                    last = error
                except OSError as error:
                    last = error
            time.sleep(0.02)
        raise AssertionError("no answer in time: %r" % last)

    def converged(self, timeout=10.0):
        """Waits until all running nodes have applied the same index, which is
        the newest one."""

        def same():
            states = [n.status() for n in self.nodes if n.is_running]
            return (
                None not in states
                and len({s["applied"] for s in states}) == 1
                and all(s["applied"] == s["commit"] for s in states)
            )

        wait_until(same, timeout, "all nodes have applied the same index")
