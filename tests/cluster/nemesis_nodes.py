# SPDX-License-Identifier: MIT
"""The processes of a nemesis run: nodes on hosts of their own, with the disks
and clocks that are preloaded, clients, and the counter that the locks guard."""

import collections
import contextlib
import json
import os
import pathlib
import random
import re
import shutil
import signal
import socketserver
import subprocess
import sys
import tempfile
import threading
import time

from cluster import HASPD, Cluster, Node, is_sanitized
from tls_cluster import tool
from nemesis_check import Counter
from nemesis_client import CLIENT_PLANTS, USER
from nemesis_net import HubClient
from slow_disk import SlowDisk

ELECTION_MS = 600
HERE = os.path.dirname(os.path.abspath(__file__))
# Kinds of the clients, by their numbers. Even ones close their sessions.
KINDS = ("plain", "push", "durable", "plain", "http", "user")
CUT_POWER = signal.SIGRTMIN + 3  # See power_disk.c.


def library(name):
    return os.path.abspath(os.path.join(os.path.dirname(HASPD), name + ".so"))


def is_stopped(process):
    """Does the kernel say so?"""
    try:
        with open("/proc/%d/stat" % process.pid) as file:
            return file.read().rsplit(")", 1)[1].split()[0] == "T"
    except FileNotFoundError:
        return False


class FarNode(Node):
    """A node on a host of its own, with the usual ports."""

    def __init__(self, cluster, number):
        self.host = "n%d" % number
        cluster.network.add(self.host)
        self.address = cluster.network.addresses[self.host]
        self.stops = 0
        # The fault that has killed or reserved it starts it again.
        self.is_killed, self.claims = False, 0
        self.forgotten = 0
        self.is_leaving = False  # Its removal has been requested.
        super().__init__(cluster, number, (7420, 7421, 7422))
        self.disk = SlowDisk(self.home)

    @property
    def certificates(self):
        """Its own, which are made when they are needed first."""
        folder = os.path.join(self.cluster.certificates, "node-%d" % self.id)
        if not os.path.exists(folder):
            at = "%d=%s" % (self.id, self.address)
            tool("cert", "node", at, folder=self.cluster.folder)
        return folder

    @property
    def addresses(self):
        return "%s:7421,%s:7420" % (self.address, self.address)

    def write_config(self, extra=""):
        members = "".join(
            "member = %d %s:7421 %s:7420\n" % (n.id, n.address, n.address)
            for n in self.cluster.founders
        )
        with open(self.config, "w") as out:
            out.write(
                "[node]\nid = %d\ndir = %s\n" % (self.id, self.dir)
                + "[listen]\nhttp = %s:7422\n" % self.address
                + "client = %s:7420\n" % self.address
                + "peer = %s:7421\n" % self.address
                + "[cluster]\nname = nemesis\n"
                + members
                + "[raft]\nelection_ms = %d\n" % ELECTION_MS
                + "[tls]\ndir = %s\nclient = allow\n" % self.certificates
                + "[security]\ninsecure = yes\n"
                + "[limits]\ndisk_reserve = 1M\n"
                + extra
            )

    def start(self, *flags, wrapper=(), environment=None):
        self.is_killed = False
        return super().start(
            *flags,
            wrapper=list(wrapper) + self.cluster.network.wrapper(self.host),
            environment=environment or self.environment(),
        )

    def environment(self):
        """The preloaded libraries: its disk, and a clock with a rate of this
        start."""
        if is_sanitized():
            return {}  # A sanitizer wants to be the first library.
        libraries, faults = [], self.cluster.faults
        environment = {}
        if "disk" in faults:
            libraries.append(library("slow_disk"))
            environment["SLOW_DISK"] = self.disk.path
        if "power" in faults:
            libraries.append(library("power_disk"))
            environment["POWER_DISK"] = self.dir
            if self.cluster.plant == "no-flush":
                environment["POWER_DISK_LIES"] = "yes"
        if "clock" in faults:
            libraries.append(library("odd_clock"))
            rate = self.cluster.draw_rate("nodes")
            if self.cluster.plant == "node-clock":
                rate = 2.5
            environment["ODD_CLOCK"] = str(rate)
        environment["LD_PRELOAD"] = ":".join(libraries)
        return environment

    def connect(self, timeout=0.5):
        return HubClient(self.cluster.network, (self.address, 7420), timeout)

    def kill(self):
        self.is_killed = True
        super().kill()

    def cut_power(self):
        """As kill, and what was not flushed is gone."""
        self.is_killed = True
        if self.stops:
            self.resume()
        by = time.monotonic() + 20
        while self.process.poll() is None and time.monotonic() < by:
            # While it starts a program may take it that then becomes haspd.
            self.signal(CUT_POWER)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(0.5)
        self.process.wait(1)
        forgotten = pathlib.Path(self.dir + ".forgotten")
        if forgotten.exists():  # Otherwise it has just ended by itself.
            self.forgotten = sum(map(int, forgotten.read_text().split()))
        trust = os.path.join(self.dir, "trust")
        if os.path.exists(trust):
            with open(trust) as file:
                text = file.read()
            with open(trust, "w") as file:
                file.write(re.sub(r"boot \S+", "boot of-an-earlier-day", text))

    def freeze(self):
        self.stops += 1
        self.pause()

    def thaw(self):
        self.stops -= 1
        if self.stops == 0:
            self.resume()

    @property
    def is_frozen(self):
        return is_stopped(self.process)

    def wipe(self):
        shutil.rmtree(self.dir, ignore_errors=True)


class FarCluster(Cluster):
    def __init__(self, network, count, extra="", faults=(), plant="", seed=1):
        self.network, self.faults, self.plant = network, faults, plant
        self.rng = random.Random(seed)
        self.rates = collections.Counter()
        self.folder = tempfile.mkdtemp(prefix="hasp-nemesis-")
        self.extra, self.tls = extra, None
        self.nodes = []
        for i in range(count):
            self.nodes.append(FarNode(self, i + 1))
        self.certificates = os.path.join(self.folder, "certs")
        tool("cert", "ca", "--cluster", "nemesis", folder=self.folder)
        tool("cert", "user", USER, folder=self.folder)
        self.founders = list(self.nodes)
        for node in self.nodes:
            node.write_config(extra)
        self.start()

    def draw_rate(self, whose):
        """The rate of a clock, for one start; the worst allowed rates, for the
        client whose planted mistake shows only with them."""
        rate = self.rng.choice((0.9, 1.0, 1.1))
        if self.plant == "answer":
            rate = 1.1 if whose == "nodes" else 0.9
        self.rates[whose, rate] += 1
        return rate

    def guess_leader(self):
        """The node that says it leads, the newest term first; otherwise any
        that runs."""
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
    """A client process, restarted after it was killed."""

    def __init__(self, world, index, is_observer=False):
        self.world, self.index = world, index
        self.is_observer = is_observer
        self.kind = "plain" if is_observer else KINDS[index % len(KINDS)]
        self.host, self.name = "c%d" % index, "nemesis%d" % index
        self.records, self.process = [], None
        self.stops = 0
        self.is_killed, self.claims = False, 0
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
        words += ["--resource", world.counter_path]
        if world.plant in CLIENT_PLANTS:
            words += ["--plant", world.plant]
        words += ["--ttl", str(world.ttl_s), "--kind", self.kind]
        words += ["--keepsake", record.rsplit(".", 1)[0] + ".session"]
        words += ["--certificates", world.cluster.certificates]
        words += ["--observer"] if self.is_observer else []
        words += ["--rate", str(self.rate())]
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

    def rate(self):
        """The rate of its clock, for this process."""
        if "clock" not in self.world.cluster.faults:
            return 1.0
        if self.world.plant == "client-clock":
            return 0.3
        return self.world.cluster.draw_rate("clients")

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

    @property
    def is_frozen(self):
        return is_stopped(self.process)

    def errors(self):
        with open(self.records[-1] + ".err", errors="replace") as file:
            return file.read()[-2000:]
