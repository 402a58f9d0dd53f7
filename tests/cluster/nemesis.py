# SPDX-License-Identifier: MIT
"""Real nodes in network namespaces, client processes, and a seeded schedule of
faults against both.

All namespaces hang on a bridge that is itself inside a namespace, so nothing of
this shows in the machine's own network. Each name carries this process's id;
what a killed run left behind is swept by the next.

A direction between two hosts is cut by pointing the sender's neighbour entry at
an address of hardware that nobody has: packets vanish without a word, as on a
broken switch. Random loss needs iptables.
"""

import contextlib
import ctypes
import json
import os
import random
import shutil
import signal
import socket
import socketserver
import subprocess
import sys
import tempfile
import threading
import time

from cluster import Client, Cluster, Node, wait_until
from nemesis_check import Counter

CLONE_NEWNET = 0x40000000
PREFIX = "hasp-nemesis"
NOBODY = "02:00:00:00:00:fe"
HUB_ADDRESS = "10.213.0.254"
ELECTION_MS = 600
HERE = os.path.dirname(os.path.abspath(__file__))

_libc = ctypes.CDLL(None, use_errno=True)


def ip(*words, is_checked=True):
    return subprocess.run(
        ["ip", *words], check=is_checked, capture_output=True, text=True
    ).stdout


def why_not():
    """Why namespaces cannot be had here, or None."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    for tool in ("ip", "setpriv"):
        if shutil.which(tool) is None:
            return "'%s' is not installed" % tool
    name = "%s-%d-try" % (PREFIX, os.getpid())
    tried = [
        ["ip", "netns", "add", name],
        ["ip", "-n", name, "link", "add", "name", "b", "type", "bridge"],
        ["ip", "-n", name, "link", "add", "name", "v", "type", "veth"],
    ]
    try:
        for words in tried:
            done = subprocess.run(words, capture_output=True, text=True)
            if done.returncode != 0:
                return "'%s': %s" % (" ".join(words), done.stderr.strip())
    finally:
        ip("netns", "del", name, is_checked=False)
    return None


def sweep():
    """Removes the namespaces of runs whose process is gone."""
    for line in ip("netns", "list").splitlines():
        name = line.split()[0]
        parts = name.split("-")
        if name.startswith(PREFIX) and not os.path.exists(
            "/proc/%s" % parts[2]
        ):
            ip("netns", "del", name, is_checked=False)


class Network:
    """Hosts by name, each in a namespace of its own, on one bridge."""

    def __init__(self):
        sweep()
        self.hub = "%s-%d-hub" % (PREFIX, os.getpid())
        self.addresses, self.cuts = {}, {}
        self.has_loss = shutil.which("iptables") is not None
        ip("netns", "add", self.hub)
        ip("-n", self.hub, "link", "add", "name", "bridge", "type", "bridge")
        ip("-n", self.hub, "addr", "add", HUB_ADDRESS + "/24", "dev", "bridge")
        ip("-n", self.hub, "link", "set", "bridge", "up")
        self.hub_fd = os.open("/run/netns/" + self.hub, os.O_RDONLY)

    def namespace(self, host):
        return "%s-%d-%s" % (PREFIX, os.getpid(), host)

    def add(self, host):
        name = self.namespace(host)
        last = len(self.addresses) + 1
        self.addresses[host] = "10.213.0.%d" % last
        ip("netns", "add", name)
        ip(
            "-n",
            self.hub,
            "link",
            "add",
            "name",
            host,
            "type",
            "veth",
            "peer",
            "name",
            "eth0",
            "netns",
            name,
        )
        ip("-n", self.hub, "link", "set", host, "master", "bridge", "up")
        ip(
            "-n",
            name,
            "addr",
            "add",
            self.addresses[host] + "/24",
            "dev",
            "eth0",
        )
        ip("-n", name, "link", "set", "eth0", "up")
        ip("-n", name, "link", "set", "lo", "up")

    def wrapper(self, host):
        """Runs a program on that host; it does not outlive this process."""
        return [
            "ip",
            "netns",
            "exec",
            self.namespace(host),
            "setpriv",
            "--pdeathsig",
            "KILL",
        ]

    @contextlib.contextmanager
    def inside_hub(self):
        """Sockets that this thread makes meanwhile belong to the hub."""
        home = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        try:
            enter(self.hub_fd)
            yield
        finally:
            enter(home)
            os.close(home)

    def cut(self, sender, receiver):
        """Nothing from the sender reaches the receiver. Cuts are counted."""
        pair = (sender, receiver)
        self.cuts[pair] = self.cuts.get(pair, 0) + 1
        if self.cuts[pair] == 1:
            self.neighbour(
                "replace", pair, "lladdr", NOBODY, "nud", "permanent"
            )

    def mend(self, sender, receiver):
        pair = (sender, receiver)
        self.cuts[pair] -= 1
        if self.cuts[pair] == 0:
            self.neighbour("del", pair)

    def neighbour(self, verb, pair, *rest):
        sender, receiver = pair
        ip(
            "-n",
            self.namespace(sender),
            "neigh",
            verb,
            self.addresses[receiver],
            "dev",
            "eth0",
            *rest,
        )

    def lose(self, host, is_on):
        """A fifth of what reaches the host is lost; not what the test itself
        asks."""
        if self.has_loss:
            subprocess.run(
                [
                    "ip",
                    "netns",
                    "exec",
                    self.namespace(host),
                    "iptables",
                    "-w",
                    "-A" if is_on else "-D",
                    "INPUT",
                    "!",
                    "-s",
                    HUB_ADDRESS,
                    "-m",
                    "statistic",
                    "--mode",
                    "random",
                    "--probability",
                    "0.2",
                    "-j",
                    "DROP",
                ],
                check=True,
                capture_output=True,
            )

    def close(self):
        for host in self.addresses:
            ip("netns", "del", self.namespace(host), is_checked=False)
        ip("netns", "del", self.hub, is_checked=False)
        os.close(self.hub_fd)


def enter(fd):
    if _libc.setns(fd, CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "setns")


class HubClient(Client):
    """A connection from the hub, which no cut touches."""

    def __init__(self, network, address, timeout):
        with network.inside_hub():
            self.socket = socket.create_connection(address, timeout)
        self.socket.settimeout(timeout)
        self.file = self.socket.makefile("rb")


class FarNode(Node):
    """A node on a host of its own, with the usual ports."""

    def __init__(self, cluster, number):
        self.host = "n%d" % number
        cluster.network.add(self.host)
        self.address = cluster.network.addresses[self.host]
        self.stops = 0
        self.is_killed = False
        super().__init__(cluster, number, (7420, 7421, 7422))

    def write_config(self, extra=""):
        members = "".join(
            "member = %d %s:7421 %s:7420\n" % (n.id, n.address, n.address)
            for n in self.cluster.founders
        )
        with open(self.config, "w") as out:
            out.write(
                "[node]\nid = %d\ndir = %s\n" % (self.id, self.dir)
                + "[listen]\nhttp = 127.0.0.1:7422\n"
                + "[cluster]\nname = nemesis\n"
                + members
                + "[raft]\nelection_ms = %d\n" % ELECTION_MS
                + "[security]\ninsecure = yes\n"
                + "[limits]\ndisk_reserve = 1M\n"
                + extra
            )

    def start(self, *flags, wrapper=(), environment=None):
        self.is_killed = False
        return super().start(
            *flags,
            wrapper=list(wrapper) + self.cluster.network.wrapper(self.host),
            environment=environment,
        )

    def connect(self, timeout=0.5):
        return HubClient(self.cluster.network, (self.address, 7420), timeout)

    def kill(self):
        self.is_killed = True
        super().kill()

    def freeze(self):
        self.stops += 1
        self.pause()

    def thaw(self):
        self.stops -= 1
        if self.stops == 0:
            self.resume()


class FarCluster(Cluster):
    def __init__(self, network, count, extra=""):
        self.network = network
        self.folder = tempfile.mkdtemp(prefix="hasp-nemesis-")
        self.extra = extra
        self.nodes = []
        for i in range(count):
            self.nodes.append(FarNode(self, i + 1))
        self.founders = list(self.nodes)
        for node in self.nodes:
            node.write_config(extra)
        self.start()

    def guess_leader(self):
        """Who says to lead, the newest term first; else any that runs."""
        leaders = []
        for node in self.nodes:
            status = (
                node.status() if node.is_running and not node.stops else {}
            )
            if status and status["role"] == "leader":
                leaders.append((status["term"], node.id, node))
        return max(leaders)[2] if leaders else None


class CounterServer:
    """Serves the guarded counter on a socket in the file system."""

    def __init__(self, path):
        self.counter = counter = Counter()

        class Handler(socketserver.StreamRequestHandler):
            def handle(self):
                for line in self.rfile:
                    answer = counter.ask(json.loads(line))
                    self.wfile.write(json.dumps(answer).encode() + b"\n")

        self.server = socketserver.ThreadingUnixStreamServer(path, Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()


class FarClient:
    """A client process, started anew after it was killed."""

    def __init__(self, world, index):
        self.world, self.index = world, index
        self.host = "c%d" % index
        self.records, self.process = [], None
        self.stops = 0
        self.is_killed = False
        world.network.add(self.host)

    def start(self):
        world, life = self.world, len(self.records)
        record = os.path.join(
            world.cluster.folder, "client%d.%d" % (self.index, life)
        )
        self.records.append(record)
        self.is_killed = False
        words = [sys.executable, os.path.join(HERE, "nemesis_client.py")]
        words += ["--index", str(self.index), "--record", record]
        words += ["--seed", str(world.seed * 100 + life)]
        words += ["--resource", world.counter_path, "--plant", world.plant]
        words += ["--ttl", str(world.ttl_s)]
        # Every third lets its locks go soon after its connections are gone.
        if self.index % 3 == 0:
            words += ["--linger", "1.0"]
        words += ["--endpoints"]
        words += ["%s:7420" % n.address for n in world.cluster.nodes]
        with open(record + ".err", "wb") as errors:
            self.process = subprocess.Popen(
                world.network.wrapper(self.host) + words,
                stdin=subprocess.DEVNULL,
                stderr=errors,
            )

    def send(self, number):
        if self.process.poll() is None:
            self.process.send_signal(number)

    def kill(self):
        self.is_killed = True
        self.send(signal.SIGKILL)
        self.process.wait(10)

    def freeze(self):
        self.stops += 1
        self.send(signal.SIGSTOP)

    def thaw(self):
        self.stops -= 1
        if self.stops == 0:
            self.send(signal.SIGCONT)

    def errors(self):
        with open(self.records[-1] + ".err", errors="replace") as file:
            return file.read()[-2000:]


# Kind: (shortest, longest) in seconds. Each is drawn once before any is drawn
# again, so that a short run has them all.
FAULTS = {
    "kill the leader": (0.1, 2.0),
    "kill any": (0.1, 3.0),
    "kill a majority": (0.1, 2.0),
    "kill all": (0.1, 0.5),
    "stop the leader": (0.3, 3.0),
    "stop any": (0.3, 3.0),
    "cut the leader from its peers": (0.5, 3.0),
    "cut the leader from all": (0.5, 3.0),
    "cut any from all": (0.5, 3.0),
    "leader deaf to its peers": (0.5, 3.0),
    "leader mute to its peers": (0.5, 3.0),
    "leader mute to its clients": (0.5, 3.0),
    "cut one pair": (0.5, 3.0),
    "loss": (1.0, 4.0),
    "stop a client": (0.3, 4.0),
    "stop two clients": (1.0, 3.0),
    "cut a client": (0.5, 4.0),
    "mute nodes to a client": (0.5, 4.0),
    "kill a client": (0.1, 1.0),
}


def schedule(seed, seconds):
    """(when, how long, kind, a number to choose the victim by)."""
    rng = random.Random(seed)
    plan, deck, at = [], [], 1.5
    while True:
        if not deck:
            deck = sorted(FAULTS)
            rng.shuffle(deck)
        kind = deck.pop()
        length = rng.uniform(*FAULTS[kind])
        if at + length > seconds:
            return plan
        plan.append((at, length, kind, rng.randrange(1 << 30)))
        # One in three begins while the one before lasts.
        at += rng.uniform(0.2, 0.8) + (length if rng.random() < 0.67 else 0)


class World:
    """Nodes, clients, counter: everything of one run."""

    def __init__(self, nodes=3, clients=6, seed=1, plant="", extra=""):
        self.seed, self.plant, self.ttl_s = seed, plant, 2.0
        self.network = Network()
        self.cluster = self.server = None
        self.clients, self.found, self.log = [], [], []
        self.undo = []
        try:
            self.cluster = FarCluster(self.network, nodes, extra)
            self.counter_path = os.path.join(self.cluster.folder, "counter")
            self.server = CounterServer(self.counter_path)
            self.cluster.leader()
            for i in range(clients):
                self.clients.append(FarClient(self, i))
            for client in self.clients:
                client.start()
        except BaseException:
            self.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if kind is not None:
            print("\n".join(self.log))
            self.cluster.print_logs()
        self.close()

    def close(self):
        for client in self.clients:
            if client.process is not None and client.process.poll() is None:
                client.kill()
        if self.server is not None:
            self.server.close()
        if self.cluster is not None:
            self.cluster.close()
        self.network.close()

    # --- faults --------------------------------------------------------------

    def run(self, plan, seconds):
        """Lets the schedule happen; everything is mended at the end."""
        start = time.monotonic()
        waiting = list(plan)
        self.start = start
        while True:
            now = time.monotonic() - start
            due = [u for u in self.undo if u[0] <= now]
            self.undo = [u for u in self.undo if u[0] > now]
            for _, action in due:
                action()
            if waiting and waiting[0][0] <= now:
                _, length, kind, number = waiting.pop(0)
                self.begin(kind, length, number)
            self.watch_deaths()
            if now >= seconds and not waiting:
                break
            time.sleep(0.02)
        for _, action in self.undo:
            action()
        self.undo = []

    def say(self, text):
        self.log.append("%7.2f %s" % (time.monotonic() - self.start, text))

    def begin(self, kind, length, number):
        rng = random.Random(number)
        nodes = self.cluster.nodes
        victim = rng.choice(nodes)
        if "leader" in kind:
            victim = self.cluster.guess_leader() or victim
        others = [n for n in nodes if n is not victim]
        rng.shuffle(others)
        client = rng.choice(self.clients)
        another = rng.choice([c for c in self.clients if c is not client])
        self.say(
            "%s, %.2f s (node %d, client %d)"
            % (kind, length, victim.id, client.index)
        )
        undo = {
            "kill the leader": lambda: self.kill([victim]),
            "kill any": lambda: self.kill([victim]),
            "kill a majority": lambda: self.kill(
                [victim] + others[: len(nodes) // 2]
            ),
            "kill all": lambda: self.kill(nodes),
            "stop the leader": lambda: self.freeze([victim]),
            "stop any": lambda: self.freeze([victim]),
            "cut the leader from its peers": lambda: self.cut(
                both([victim], others)
            ),
            "cut the leader from all": lambda: self.cut(
                both([victim], others + self.clients)
            ),
            "cut any from all": lambda: self.cut(
                both([victim], others + self.clients)
            ),
            "leader deaf to its peers": lambda: self.cut(
                one_way(others, [victim])
            ),
            "leader mute to its peers": lambda: self.cut(
                one_way([victim], others)
            ),
            "leader mute to its clients": lambda: self.cut(
                one_way([victim], self.clients)
            ),
            "cut one pair": lambda: self.cut(both([victim], others[:1])),
            "loss": lambda: self.lose(nodes),
            "stop a client": lambda: self.freeze([client]),
            "stop two clients": lambda: self.freeze([client, another]),
            "cut a client": lambda: self.cut(both([client], nodes)),
            "mute nodes to a client": lambda: self.cut(
                one_way(nodes, [client])
            ),
            "kill a client": lambda: self.kill([client]),
        }[kind]()
        self.undo.append((time.monotonic() - self.start + length, undo))

    def kill(self, victims):
        killed = [v for v in victims if not v.is_killed]
        for victim in killed:
            victim.kill()

        def undo():
            for victim in killed:
                victim.stops = 0
                victim.start()

        return undo

    def freeze(self, victims):
        stopped = [(v, v.process) for v in victims]
        for victim in victims:
            victim.freeze()

        def undo():
            for victim, process in stopped:
                if victim.process is process and not victim.is_killed:
                    victim.thaw()

        return undo

    def cut(self, pairs):
        for sender, receiver in pairs:
            self.network.cut(sender.host, receiver.host)

        def undo():
            for sender, receiver in pairs:
                self.network.mend(sender.host, receiver.host)

        return undo

    def lose(self, nodes):
        for node in nodes:
            self.network.lose(node.host, True)

        def undo():
            for node in nodes:
                self.network.lose(node.host, False)

        return undo

    def watch_deaths(self):
        for node in self.cluster.nodes:
            if not node.is_killed and not node.is_running:
                self.found.append(
                    "node %d ended by itself with %d: %s"
                    % (node.id, node.process.returncode, node.log()[-1500:])
                )
                node.is_killed = True
        for client in self.clients:
            if not client.is_killed and client.process.poll() is not None:
                self.found.append(
                    "client %d ended by itself: %s"
                    % (client.index, client.errors())
                )
                client.is_killed = True

    # --- after the faults ----------------------------------------------------

    def stop_clients(self):
        """Half of them say good-bye, half are killed in what they do."""
        for client in self.clients:
            client.send(signal.SIGCONT)
            if client.index % 2:
                client.kill()
            else:
                client.is_killed = True
                client.send(signal.SIGTERM)
        for client in self.clients:
            try:
                client.process.wait(15)
            except subprocess.TimeoutExpired:
                self.found.append("client %d does not end" % client.index)
                client.kill()

    def records(self):
        return [r for c in self.clients for r in c.records]


def both(some, others):
    return one_way(some, others) + one_way(others, some)


def one_way(senders, receivers):
    return [(s, r) for s in senders for r in receivers]


def wait_progress(world, timeout):
    """Each client acquires again after the faults."""

    def sizes():
        return [os.path.getsize(c.records[-1]) for c in world.clients]

    before = sizes()
    wait_until(
        lambda: all(a > b for a, b in zip(sizes(), before)),
        timeout,
        "every client works on",
    )
