# SPDX-License-Identifier: MIT
"""Hosts in network namespaces, and what happens to the packets between them.

All namespaces hang on a bridge that is itself inside a namespace, so nothing of
this shows in the machine's own network. Each name carries this process's id;
what a killed run left behind is swept by the next.

A direction between two hosts is cut by pointing the sender's neighbour entry at
an address of hardware that nobody has: packets vanish without a word, as on a
broken switch. It has bad weather if the entry points at a device of ours, which
sends each packet on: late, out of order, twice, or not at all. (The kernel's
own means for that, netem, is missing in many.) Random loss needs iptables.

The bridge floods what is for nobody, so the device sees that as well and counts
it: a cut that no packet has met has proved nothing.
"""

import collections
import contextlib
import ctypes
import fcntl
import heapq
import os
import random
import select
import shutil
import socket
import struct
import subprocess
import threading
import time

from cluster import Client

CLONE_NEWNET = 0x40000000
PREFIX = "hasp-nemesis"
NOBODY = "02:00:00:00:00:fe"
WEATHER = "02:00:00:00:00:fd"
HUB = "02:00:00:00:00:fc"
HUB_ADDRESS = "10.213.0.254"

_libc = ctypes.CDLL(None, use_errno=True)


def ip(*words, is_checked=True, text=None):
    return subprocess.run(
        ["ip", *words],
        check=is_checked,
        capture_output=True,
        text=True,
        input=text,
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


class Weather(threading.Thread):
    """A device on the bridge that sends on what it gets, badly."""

    LOST, DOUBLED = 0.03, 0.05
    DELAY_S = (0.001, 0.06)

    def __init__(self, network):
        super().__init__(daemon=True)
        self.rng = random.Random(1)
        self.hardware = {}  # {packed IPv4 address: hardware address}
        # {(sender's packed address, receiver's): how many packets}
        self.cut, self.delayed = collections.Counter(), collections.Counter()
        with network.inside_hub():
            self.fd = os.open("/dev/net/tun", os.O_RDWR)
            # IFF_TAP | IFF_NO_PI; without offers, the kernel completes
            # checksums and cuts large packets.
            request = struct.pack("16sH22x", b"weather", 0x0002 | 0x1000)
            fcntl.ioctl(self.fd, 0x400454CA, request)  # TUNSETIFF
        # Its own address is another one: what is sent to the address of one of
        # its ports, a bridge keeps for itself.
        hub = ["-n", network.hub, "link", "set", "weather"]
        ip(*hub, "master", "bridge", "up")
        self.stop_read, self.stop_write = os.pipe()
        self.start()

    def run(self):
        own, nobody = packed_hardware(WEATHER), packed_hardware(NOBODY)
        waiting, number = [], 0
        while True:
            now = time.monotonic()
            while waiting and waiting[0][0] <= now:
                self.send(heapq.heappop(waiting)[2])
            left = max(0, waiting[0][0] - now) if waiting else None
            ready = select.select([self.fd, self.stop_read], [], [], left)[0]
            if self.stop_read in ready:
                return
            if not ready:
                continue
            frame = os.read(self.fd, 70000)
            pair = (frame[26:30], frame[30:34])
            target = self.hardware.get(pair[1])
            if target is None or frame[:6] not in (own, nobody):
                continue
            met = self.delayed if frame[:6] == own else self.cut
            met[pair] += 1
            if frame[:6] == nobody:
                continue
            frame = target + own + frame[12:]
            for _ in range(self.copies()):
                number += 1
                at = time.monotonic() + self.rng.uniform(*self.DELAY_S)
                heapq.heappush(waiting, (at, number, frame))

    def copies(self):
        chance = self.rng.random()
        if chance < self.LOST:
            return 0
        return 2 if chance > 1 - self.DOUBLED else 1

    def send(self, frame):
        with contextlib.suppress(OSError):
            os.write(self.fd, frame)

    def close(self):
        os.write(self.stop_write, b"x")
        self.join()
        for fd in (self.fd, self.stop_read, self.stop_write):
            os.close(fd)


class Network:
    """Hosts by name, each in a namespace of its own, on one bridge."""

    def __init__(self):
        sweep()
        self.hub = "%s-%d-hub" % (PREFIX, os.getpid())
        self.addresses, self.counts = {}, {}
        self.mutex = threading.Lock()
        self.has_loss = shutil.which("iptables") is not None
        ip("netns", "add", self.hub)
        # An address of its own: else it has the least of its ports', and another
        # one when a host goes, which the others notice after seconds.
        bridge = ["name", "bridge", "address", HUB, "type", "bridge"]
        ip("-n", self.hub, "link", "add", *bridge)
        ip("-n", self.hub, "addr", "add", HUB_ADDRESS + "/24", "dev", "bridge")
        ip("-n", self.hub, "link", "set", "bridge", "up")
        self.hub_fd = os.open("/run/netns/" + self.hub, os.O_RDONLY)
        self.weather = None
        if os.path.exists("/dev/net/tun"):
            self.weather = Weather(self)

    def namespace(self, host):
        return "%s-%d-%s" % (PREFIX, os.getpid(), host)

    def add(self, host):
        name = self.namespace(host)
        last = len(self.addresses) + 1
        self.addresses[host] = "10.213.0.%d" % last
        hardware = "02:00:00:00:01:%02x" % last
        ip("netns", "add", name)
        link = ["name", "eth0", "address", hardware, "netns", name]
        ip(
            *["-n", self.hub, "link", "add", "name", host, "type", "veth"],
            *["peer", *link],
        )
        ip("-n", self.hub, "link", "set", host, "master", "bridge", "up")
        address = self.addresses[host]
        ip("-n", name, "addr", "add", address + "/24", "dev", "eth0")
        ip("-n", name, "link", "set", "eth0", "up")
        ip("-n", name, "link", "set", "lo", "up")
        if self.weather is not None:
            packed = socket.inet_aton(address)
            self.weather.hardware[packed] = packed_hardware(hardware)

    def wrapper(self, host):
        """Runs a program on that host; it does not outlive this process."""
        return [
            *["ip", "netns", "exec", self.namespace(host)],
            *["setpriv", "--pdeathsig", "KILL"],
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

    def cut(self, pairs):
        """Nothing from a pair's sender reaches its receiver. Cuts are
        counted."""
        self.change(pairs, NOBODY, 1)

    def mend(self, pairs):
        self.change(pairs, NOBODY, -1)

    def worsen(self, pairs):
        """The packets of these pairs have bad weather."""
        if self.weather is not None:
            self.change(pairs, WEATHER, 1)

    def clear(self, pairs):
        if self.weather is not None:
            self.change(pairs, WEATHER, -1)

    def change(self, pairs, what, step):
        by_sender = {}
        with self.mutex:
            for sender, receiver in pairs:
                key = (sender, receiver, what)
                before = self.entry(sender, receiver)
                self.counts[key] = self.counts.get(key, 0) + step
                after = self.entry(sender, receiver)
                if before != after:
                    line = self.line(receiver, after)
                    by_sender.setdefault(sender, []).append(line)
            for sender, lines in by_sender.items():
                batch = ["-n", self.namespace(sender), "-batch", "-"]
                ip(*batch, text="".join(lines))

    def entry(self, sender, receiver):
        for what in (NOBODY, WEATHER):
            if self.counts.get((sender, receiver, what), 0) > 0:
                return what
        return None

    def line(self, receiver, hardware):
        address = self.addresses[receiver]
        if hardware is None:
            return "neigh del %s dev eth0\n" % address
        words = (address, hardware)
        return "neigh replace %s lladdr %s nud permanent dev eth0\n" % words

    def met(self, pairs):
        """How many packets of these pairs a cut or weather has met so far."""
        if self.weather is None:
            return 0
        pack = lambda host: socket.inet_aton(self.addresses[host])
        packed = {(pack(sender), pack(receiver)) for sender, receiver in pairs}
        return sum(
            self.weather.cut[pair] + self.weather.delayed[pair]
            for pair in packed
        )

    def lose(self, host, is_on):
        """A fifth of what reaches the host is lost; not what the test itself
        asks."""
        rule = ["INPUT", "!", "-s", HUB_ADDRESS, "-m", "statistic"]
        rule += ["--mode", "random", "--probability", "0.2", "-j", "DROP"]
        self.iptables(host, "-A" if is_on else "-D", *rule)

    def loses(self, host):
        """Has the host lost something since that began?"""
        rules = self.iptables(host, "-nvxL", "INPUT").splitlines()[2:]
        return any(int(rule.split()[0]) > 0 for rule in rules)

    def iptables(self, host, *words):
        if not self.has_loss:
            return ""
        inside = ["ip", "netns", "exec", self.namespace(host)]
        return subprocess.run(
            inside + ["iptables", "-w", *words],
            check=True,
            capture_output=True,
            text=True,
        ).stdout

    def close(self):
        if self.weather is not None:
            self.weather.close()
        for host in self.addresses:
            ip("netns", "del", self.namespace(host), is_checked=False)
        ip("netns", "del", self.hub, is_checked=False)
        os.close(self.hub_fd)


def packed_hardware(address):
    return bytes.fromhex(address.replace(":", ""))


def both(some, others):
    return one_way(some, others) + one_way(others, some)


def one_way(senders, receivers):
    return [(s.host, r.host) for s in senders for r in receivers]


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
