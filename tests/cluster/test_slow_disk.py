# SPDX-License-Identifier: MIT
"""Disks that are slow, or hang."""

import errno
import os
import re
import resource
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request

import pytest

from cluster import Cluster, ReplyError, Session, is_sanitized, wait_until
from slow_disk import SlowDisk
from tls_cluster import HASP

pytestmark = pytest.mark.skipif(
    is_sanitized(), reason="a sanitizer wants to be the first library"
)
# Small, so that segments, snapshots and the table are in use all the time.
BUSY = "wal_segment_size = 1M\nsnapshot_log_size = 1M\n"


@pytest.mark.parametrize("flush_ms", [50, 300, 500])
def test_an_election_ends_however_slow_the_disks_are(flush_ms):
    """With votes that each wait for a flush there is one election, not one
    after the other. (5 s on a machine that does nothing else.)"""
    with Cluster(3, start=False) as cluster:
        disk = SlowDisk(cluster.folder)
        for node in cluster.nodes:
            node.start(environment=disk.environment)
        leader = cluster.leader()
        disk.tell("flush %d" % flush_ms)
        with leader.connect(60) as client:
            Session(client, ttl=60000)
            for i in range(4):
                client.do("LOCK.ACQUIRE", "a%d" % i)
        term = leader.status()["term"]
        began = time.monotonic()
        leader.kill()
        successor = cluster.leader(30)
        duration = time.monotonic() - began
        terms = successor.status()["term"] - term
        assert terms < 4
        assert duration < 15


def stalls_ms(node):
    """For how long the loop was away each time; a busy machine does that."""
    found = re.findall(r'event="loop stalled" ms=(\d+)', node.log())
    return [0] + [int(ms) for ms in found]


def get(node, path):
    """Status and text; None if it does not answer soon."""
    url = "http://127.0.0.1:%d%s" % (node.http_port, path)
    try:
        with urllib.request.urlopen(url, timeout=3) as reply:
            return reply.status, reply.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except OSError:
        return None


def load(cluster, is_over):
    """Changes by way of any node that answers."""
    number = 0
    while not is_over():
        number += 1
        node = cluster.nodes[number % len(cluster.nodes)]
        try:
            with node.connect(1.0) as client:
                Session(client, ttl=5000)
                while not is_over():
                    number += 1
                    name = "b%d" % (number % 50)
                    client.do("LOCK.ACQUIRE", name, "VALUE", "x" * 4000)
                    client.do("LOCK.RELEASE", name)
        except (OSError, ReplyError):
            time.sleep(0.02)


class Load:
    def __init__(self, cluster, count=3):
        self.done = threading.Event()
        self.threads = [
            threading.Thread(target=load, args=(cluster, self.done.is_set))
            for _ in range(count)
        ]

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.done.set()
        for thread in self.threads:
            thread.join(30)


def test_a_leader_whose_log_hangs_hands_over_and_exits():
    with Cluster(3, start=False) as cluster:
        disks = [SlowDisk(cluster.folder, "disk%d" % i) for i in range(3)]
        for node, disk in zip(cluster.nodes, disks):
            node.start(environment=disk.environment)
        leader = cluster.leader()
        with Load(cluster, 1):
            disks[leader.id - 1].tell("pwritev2 -1 /wal/segment")
            # Another one leads while it is still there: 1 s, not 6.
            other = cluster.leader(besides=[leader])
            assert leader.is_running
            status, text = get(leader, "/readyz")
            assert status == 503
            assert "the disk has hung for" in text and "(write the log)" in text
            assert 'hasp_disk_wait_seconds{what="write the log"}' in (
                get(leader, "/metrics")[1]
            )
            assert leader.wait_exit(30) == 70
        assert 'event="disk hangs"' in leader.log()
        assert 'what="write the log"' in leader.log()
        assert "the disk hangs" in leader.log()
        assert max(stalls_ms(leader)) < 900
        assert other.is_running


def tool(node, *words):
    """Its output on stderr."""
    end = subprocess.run(
        [HASP, "-e", "127.0.0.1:%d" % node.client_port] + list(words),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60,
    )
    assert end.returncode == 0, end.stderr
    return end.stderr


def test_a_leader_whose_flushes_are_slow_says_so_and_hands_over():
    with Cluster(3, start=False) as cluster:
        disks = [SlowDisk(cluster.folder, "disk%d" % i) for i in range(3)]
        for node, disk in zip(cluster.nodes, disks):
            node.start(environment=disk.environment)
        leader = cluster.leader()
        with Load(cluster, 2):
            disks[leader.id - 1].tell("flush 150 /wal/")
            wait_until(
                lambda: 'event="flushes are slow"' in leader.log(), 60, "logged"
            )
            # It leads for 30 s at least.
            assert leader.status()["flush"] == "slow"
            assert leader.status()["flush_us"] >= 50000
            status, text = get(leader, "/readyz")
            assert status == 200 and "; the disk is slow: a flush takes 1" in text
            assert "hasp_disk_is_slow 1" in get(leader, "/metrics")[1]
            said = "node %d: its disk is slow, a flush takes 1" % leader.id
            assert said in tool(leader, "status")
            assert said in tool(leader, "health")
            moved = 'event="leadership is handed over"'
            wait_until(lambda: moved in leader.log(), 90, "it hands over")
            other = cluster.leader(60, besides=[leader])
            def reported():
                members = other.status()["members"]
                maps = [dict(zip(one[::2], one[1::2])) for one in members]
                return [one[b"flush_us"] for one in maps if one[b"id"] == leader.id]

            wait_until(lambda: reported()[0] >= 50000, 30, "the others know it")
            assert other.status()["flush"] == "ok"
        why = r"this node's disk takes 1\d\d ms, one of member %d's" % other.id
        assert re.search(why, leader.log())
        assert "hasp_disk_handovers_total 1" in get(leader, "/metrics")[1]


def test_who_asks_while_the_disk_stalls_waits_for_it():
    """A stall ends no request that has time left: after BUSY the client asks
    again."""
    extra = "[raft]\nelection_ms = 2000\nheartbeat_ms = 200\n"
    with Cluster(1, extra, start=False) as cluster:
        disk = SlowDisk(cluster.folder)
        node = cluster.nodes[0].start(environment=disk.environment)
        cluster.leader()
        with node.connect(60) as client, node.connect(60) as other:
            session = Session(client, ttl=60000)
            session.attach(other)
            other.do("LOCK.ACQUIRE", "given back")
            disk.tell("pwritev2 -1 /wal/segment")
            client.send("LOCK.ACQUIRE", "in flight")
            wait_until(lambda: "disk is slow" in node.log(), 30, "it is logged")
            told = other.once("LOCK.ACQUIRE", "refused")
            assert str(told) == (
                "BUSY the leader's disk is too slow; nothing was done, try later"
            )
            other.send("LOCK.RELEASE", "given back")  # Frees: not refused.
            tool = subprocess.Popen(
                [HASP, "-e", "127.0.0.1:%d" % node.client_port]
                + ["run", "waited for", "--", "echo", "ran"],
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            )
            with pytest.raises(subprocess.TimeoutExpired):
                tool.wait(1)
            disk.tell()
            assert other.receive() == 0
            assert client.receive() > 0
            said = tool.communicate(timeout=30)
            assert (tool.returncode, said[0]) == (0, "ran\n"), said


# The node's call, and its file; and the work that then hangs.
HANGS = [
    ("pwritev2 -1 /wal/segment", "write the log"),
    ("pwritev2 -1 /wal/mark", "write the log's mark"),
    ("fsync -1 /wal/segment", "prepare a segment of the log"),
    ("unlinkat -1 segment-", "remove a segment of the log"),
    ("fdatasync -1 /vote", "save the vote"),
    ("fstatvfs -1", "ask for the free space"),
    ("fsync -1 /snapshot", "flush a snapshot"),
    ("pwrite -1 /table/data.mdb", "write the table"),
]


def begin_a_term(cluster, node):
    """One that 'node' has to save: another one is to lead. Whether a transfer
    was carried out is not always known."""
    for leader in cluster.nodes:
        if leader.is_serving():
            heir = next(n for n in cluster.nodes if n not in (leader, node))
            try:
                with leader.connect() as client:
                    client.do("RAFT.TRANSFER", heir.id)
            except (OSError, ReplyError):
                pass
            return


@pytest.mark.parametrize("line, what", HANGS)
def test_the_loop_answers_whatever_hangs(line, what):
    extra = BUSY + "[raft]\nelection_ms = 2000\nheartbeat_ms = 200\n"
    with Cluster(3, extra, start=False) as cluster:
        disk = SlowDisk(cluster.folder)
        node = cluster.nodes[0]
        node.start(environment=disk.environment)
        cluster.start()
        cluster.leader()
        with Load(cluster):
            time.sleep(1)
            disk.tell(line)
            text = 'what="%s"' % what
            by = time.monotonic() + 60
            while text not in node.log():
                assert time.monotonic() < by, "it is reported"
                if "vote" in line:
                    begin_a_term(cluster, node)
                time.sleep(0.1)
            by = time.monotonic() + 3
            while time.monotonic() < by:
                assert get(node, "/healthz") == (200, "ok\n")
                time.sleep(0.1)
        assert max(stalls_ms(node)) < 2000
        disk.tell()


def leave_behind(cluster, node):
    """The log advances without the node, until it needs a snapshot."""
    node.kill()
    leader = cluster.leader(besides=[node])
    first = os.path.join(leader.dir, "wal", "segment-%016d" % 1)
    with Load(cluster):
        wait_until(lambda: not os.path.exists(first), 240, "the log is cut")


# The work that the laggard hangs in, from its start on, and its name in the
# log.
RECEIVING = [
    ("pwrite -1 /table/data.mdb", "install a snapshot"),
    ("fsync -1 /snapshot", "flush a snapshot"),
]


@pytest.mark.parametrize("line, what", RECEIVING)
def test_the_loop_answers_while_a_received_snapshot_hangs(line, what):
    with Cluster(3, BUSY + "flush_ms = 20\n") as cluster:
        leader = cluster.leader()
        node = cluster.followers(leader)[0]
        leave_behind(cluster, node)
        disk = SlowDisk(cluster.folder)
        disk.tell(line)
        node.start(environment=disk.environment)
        text = 'event="disk hangs" since_s='
        wait_until(
            lambda: any(
                text in told and 'what="%s"' % what in told
                for told in node.log().split("\n")
            ),
            60,
            "it is logged",
        )
        by = time.monotonic() + 3
        while time.monotonic() < by:
            assert get(node, "/healthz") == (200, "ok\n")
            time.sleep(0.1)
        assert max(stalls_ms(node)) < 2000
        disk.tell()
        wait_until(
            lambda: 'event="snapshot installed"' in node.log(), 30, "goes on"
        )
        cluster.converged(30)


WRITES = "write into the data directory"


def assert_it_answers_while_it_writes(node):
    wait_until(
        lambda: 'what="%s"' % WRITES in node.log(), 60, "it is logged"
    )
    by = time.monotonic() + 3
    while time.monotonic() < by:
        assert get(node, "/healthz") == (200, "ok\n")
        time.sleep(0.1)
    assert max(stalls_ms(node)) < 2000


def test_the_loop_answers_while_the_clusters_id_cannot_be_written():
    with Cluster(3) as cluster:
        leader = cluster.leader()
        disk = SlowDisk(cluster.folder)
        node = cluster.newcomer()
        node.kill()
        node.start(environment=disk.environment)
        wait_until(lambda: get(node, "/healthz"), 30, "it is up")
        disk.tell("renameat -1 identity")
        with leader.connect(60) as client:
            client.do("RAFT.ADD", node.id, node.addresses, "STANDBY")
        assert_it_answers_while_it_writes(node)
        disk.tell()
        cluster.converged(30)
        node.kill()
        node.start()
        cluster.converged(30)


# --- Descriptors that run out -------------------------------------------------


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE])
def test_a_snapshot_that_finds_no_descriptor_is_taken_later(number):
    with Cluster(1, "", start=False) as cluster:
        disk = SlowDisk(cluster.folder)
        node = cluster.nodes[0]
        node.start(environment=disk.environment)
        cluster.leader()
        disk.tell("openat -%d /snapshot" % number)
        with node.connect(60) as client:
            session = Session(client, ttl=60000)
            client.do("LOCK.ACQUIRE", "a")
            client.send("RAFT.SNAPSHOT")
            wait_until(
                lambda: 'event="cannot take a snapshot"' in node.log(),
                30,
                "it is logged",
            )
            assert "too many open files" in node.log().lower()
            with node.connect() as other:
                session.attach(other)
                other.do("LOCK.ACQUIRE", "b")
            disk.tell()
            assert client.receive() == "OK"
        assert node.is_running and "node fails" not in node.log()


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE])
def test_a_snapshot_that_finds_no_descriptor_is_received_later(number):
    with Cluster(3, BUSY + "flush_ms = 20\n") as cluster:
        leader = cluster.leader()
        node = cluster.followers(leader)[0]
        leave_behind(cluster, node)
        disk = SlowDisk(cluster.folder)
        disk.tell("openat -%d /snapshot/received" % number)
        node.start(environment=disk.environment)
        wait_until(
            lambda: 'event="cannot receive a snapshot"' in node.log(),
            60,
            "it is logged",
        )
        assert "too many open files" in node.log().lower()
        assert get(node, "/healthz") == (200, "ok\n")
        disk.tell()
        cluster.converged(60)
        assert node.is_running and "node fails" not in node.log()


def test_a_node_without_a_free_descriptor_goes_on():
    """Really: as many as it has open are all that it may have."""
    with Cluster(1, BUSY) as cluster:
        node = cluster.leader()
        with node.connect(60) as client:
            Session(client, ttl=60000)
            pid = node.process.pid
            limits = resource.prlimit(pid, resource.RLIMIT_NOFILE)
            used = max(int(fd) for fd in os.listdir("/proc/%d/fd" % pid))
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (used + 1, limits[1]))
            client.send("RAFT.SNAPSHOT")
            wait_until(
                lambda: 'event="cannot take a snapshot"' in node.log(),
                30,
                "it is logged",
            )
            resource.prlimit(pid, resource.RLIMIT_NOFILE, limits)
            assert client.receive() == "OK"
            client.do("LOCK.ACQUIRE", "a")
        assert node.is_running and "node fails" not in node.log()


# --- systemd's side -----------------------------------------------------------


class Manager:
    """Reads a node's notifications to the service manager."""

    def __init__(self, folder):
        self.path = os.path.join(folder, "notify")
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(self.path)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def environment(self):
        return {"NOTIFY_SOCKET": self.path, "WATCHDOG_USEC": "30000000"}

    def receive(self, timeout=30):
        """None if nothing comes."""
        self.socket.settimeout(timeout)
        try:
            return self.socket.recv(4096).decode()
        except socket.timeout:
            return None

    def wait_for(self, text):
        while True:
            told = self.receive()
            assert told is not None, text
            if told == text:
                return


def test_the_loop_feeds_the_watchdog_and_nobody_else_does():
    with Cluster(1, "", start=False) as cluster, Manager(
        cluster.folder
    ) as manager:
        disk = SlowDisk(cluster.folder)
        node = cluster.nodes[0]
        # As systemd does it: the variable names the process itself.
        wrapper = ("sh", "-c", 'WATCHDOG_PID=$$ exec "$@"', "sh")
        node.start(
            wrapper=wrapper,
            environment={**disk.environment, **manager.environment()},
        )
        assert manager.receive() == "READY=1"
        assert get(node, "/healthz") == (200, "ok\n")
        with node.connect() as client:
            assert client.do("PING") == "PONG"
        for _ in range(3):
            manager.wait_for("WATCHDOG=1")
        disk.tell("epoll_pwait -1")
        while manager.receive(5) is not None:
            pass  # The requests under way. Then there is silence ...
        assert node.is_running
        assert manager.receive(5) is None
        disk.tell()
        manager.wait_for("WATCHDOG=1")  # ... until it turns again.


def test_a_watchdog_of_another_process_is_not_fed():
    with Cluster(1, "", start=False) as cluster, Manager(
        cluster.folder
    ) as manager:
        node = cluster.nodes[0]
        node.start(environment={**manager.environment(), "WATCHDOG_PID": "1"})
        assert manager.receive() == "READY=1"
        while (told := manager.receive(5)) is not None:
            assert told.startswith("STATUS=")
