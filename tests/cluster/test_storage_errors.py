# SPDX-License-Identifier: MIT
"""A node with a failing disk stops at once, says why, and costs its clients
nothing.

strace(1) makes single system calls of a running node fail. If it cannot attach,
these tests are skipped."""

import os
import shutil
import subprocess
import tempfile
import time
import urllib.request

import pytest

from cluster import ROOT, Cluster, ReplyError, Session, wait_until

HASP = os.path.abspath(
    os.environ.get("HASP", os.path.join(ROOT, "build", "release", "hasp"))
)
SMALL = "snapshot_entries = 300\nwal_segment_size = 1M\nflush_ms = 20\n"


def hasp(node, *words):
    return subprocess.run(
        [HASP, "-e", "127.0.0.1:%d" % node.client_port] + list(words),
        capture_output=True,
        text=True,
    )


def fetch(node, path):
    url = "http://127.0.0.1:%d%s" % (node.http_port, path)
    with urllib.request.urlopen(url, timeout=10) as reply:
        return reply.read().decode()


def can_trace():
    if shutil.which("strace") is None:
        return False
    child = subprocess.Popen(["sleep", "30"])
    tracer = subprocess.Popen(
        [
            "strace",
            "-qq",
            "-e",
            "trace=none",
            "-o",
            "/dev/null",
            "-p",
            str(child.pid),
        ],
        stderr=subprocess.DEVNULL,
    )
    time.sleep(0.5)
    works = tracer.poll() is None
    tracer.kill()
    child.kill()
    tracer.wait()
    child.wait()
    return works


needs_strace = pytest.mark.skipif(
    not can_trace(), reason="strace cannot attach"
)


class Fault:
    """Makes 'call' of the node fail with 'error' from now on."""

    def __init__(self, node, call, error):
        self.tracer = subprocess.Popen(
            [
                "strace",
                "-f",
                "-qq",
                "-e",
                "trace=" + call,
                "-e",
                "inject=%s:error=%s" % (call, error),
                "-o",
                "/dev/null",
                "-p",
                str(node.process.pid),
            ],
            stderr=subprocess.DEVNULL,
        )
        path = "/proc/%d/status" % node.process.pid

        def is_traced():
            with open(path) as file:
                return "TracerPid:\t0\n" not in file.read()

        wait_until(is_traced, 10, "strace has attached")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.tracer.terminate()
        self.tracer.wait(10)


VALUE = b"v" * 4000


def load(cluster, stop_when, timeout=20):
    """Takes locks and shows their tokens to a fence until stop_when(); returns
    the newest token that was acknowledged. The values fill the log."""
    acknowledged = 0
    by = time.monotonic() + timeout
    while not stop_when():
        assert time.monotonic() < by, "the fault was not met"
        for node in cluster.nodes:
            if not node.is_running:
                continue
            try:
                with node.connect(3) as client:
                    name = "l%d" % Session(client, ttl=3000).id
                    for _ in range(20):
                        token = client.do("LOCK.ACQUIRE", name, "VALUE", VALUE)
                        if client.do("FENCE.ADMIT", "f", token) == 1:
                            acknowledged = token
                        client.do("LOCK.RELEASE", name)
            except (OSError, ReplyError):
                pass
    return acknowledged


def once():
    """A condition that is false the first time and true from then on."""
    answers = [True, False]
    return lambda: not answers.pop() if answers else True


@needs_strace
@pytest.mark.parametrize(
    "call, error",
    [
        ("pwritev2", "EIO"),
        ("pwritev2", "ENOSPC"),
        ("pwrite64", "ENOSPC"),
        ("fsync", "EIO"),
    ],
)
def test_a_failed_write_ends_the_leader_and_nothing_is_lost(call, error):
    with Cluster(3, SMALL) as cluster:
        leader = cluster.leader()
        load(cluster, once())
        with Fault(leader, call, error):
            acknowledged = load(cluster, lambda: not leader.is_running)
        assert leader.wait_exit() == 70
        log = leader.log()
        assert "cannot" in log and leader.dir in log
        assert ("no space left" in log) == (error == "ENOSPC")
        # The others continue, and it comes back.
        new = cluster.leader()
        assert new is not leader
        with new.connect() as client:
            assert client.do("FENCE.SHOW", "f") >= acknowledged
        leader.start()
        cluster.converged(20)


def log_writes(injection):
    """A wrapper under which something happens to writes of the log. With -D the
    node stays our child, and the tracer goes with it."""
    words = ["strace", "-D", "-f", "-qq", "-e", "trace=pwritev2"]
    return words + ["-e", "inject=pwritev2:" + injection, "-o", "/dev/null"]


@needs_strace
def test_a_failed_write_ends_a_lone_node():
    with Cluster(1, SMALL, start=False) as cluster:
        node = cluster.nodes[0]
        node.start(wrapper=log_writes("error=EIO:when=200+"))
        cluster.leader()
        acknowledged = load(cluster, lambda: not node.is_running, 60)
        assert node.wait_exit() == 70
        assert "cannot write the log" in node.log()
        node.start()
        cluster.leader()
        with node.connect() as client:
            assert client.do("FENCE.SHOW", "f") >= acknowledged > 0


@needs_strace
def test_a_disk_that_hangs_ends_the_node():
    extra = SMALL + "[raft]\nelection_ms = 200\nheartbeat_ms = 40\n"
    with Cluster(3, extra, start=False) as cluster:
        node = cluster.nodes[0]
        node.start(wrapper=log_writes("delay_enter=15000000:when=200+"))
        cluster.start()
        cluster.leader()
        acknowledged = load(cluster, lambda: "the disk hangs" in node.log(), 60)
        assert "disk is slow" in node.log(), "it hands over before it gives up"
        # It does not wait for its disk to leave the others alone.
        with cluster.leader(besides=[node]).connect() as client:
            assert client.do("FENCE.SHOW", "f") >= acknowledged > 0
        with pytest.raises(OSError):
            node.connect()
        assert node.wait_exit(30) == 70


def test_a_scarce_disk_refuses_changes_and_serves_the_rest():
    with Cluster(1, "") as cluster:
        node = cluster.leader()
        with node.connect() as client:
            session = Session(client, ttl=600000)
            token = client.do("LOCK.ACQUIRE", "a")
        assert node.stop() == 0
        # More than any disk has: as if it had become full.
        node.start("--set", "limits.disk_reserve=1024G")
        wait_until(lambda: "nearly full" in node.log(), 10, "it notices")

        def refused():
            try:
                with node.connect() as client:
                    session.attach(client)
                    client.do("LOCK.ACQUIRE", "b")
                    return None
            except (ReplyError, OSError) as error:
                return error

        error = wait_until(refused, 10, "a change is refused")
        assert isinstance(error, ReplyError), error
        assert "disk" in str(error)
        assert node.status()["disk"] == "full"
        ready = fetch(node, "/readyz")
        assert ready.startswith("ok, leader; changes are refused")
        metrics = fetch(node, "/metrics")
        assert "\nhasp_takes_changes 0\n" in metrics
        assert "\nhasp_disk_is_scarce 1\n" in metrics
        assert "\nhasp_ready 1\n" in metrics
        status = hasp(node, "status")
        assert status.returncode == 0
        assert "node 1: its disk is nearly full" in status.stderr
        health = hasp(node, "health")
        assert (health.returncode, health.stdout) == (69, "HEALTHY no\n")
        assert "changes are refused: the disk of the leader, node 1" in (
            health.stderr
        )
        with node.connect() as client:
            session.attach(client)
            assert client.do("PING") == "PONG"
            assert client.do("LOCK.CHECK", "a", token) == 1
            # Commands that free room are served from the reserve.
            assert client.do("LOCK.RELEASE", "a") == 0
            assert client.do("SESSION.KEEP") is not None


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")
def test_a_disk_that_really_fills_up():
    folder = tempfile.mkdtemp(prefix="hasp-small-")
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=24m", "none", folder],
        stderr=subprocess.DEVNULL,
    )
    if mounted.returncode != 0:
        os.rmdir(folder)
        pytest.skip("mount is not allowed here")
    try:
        with Cluster(3, SMALL, start=False) as cluster:
            small = cluster.nodes[0]
            cluster.start()
            cluster.leader()
            small.stop()
            moved = os.path.join(folder, "data")
            shutil.copytree(small.dir, moved)
            small.start("--dir", moved)
            cluster.leader()
            cluster.converged(20)
            ballast = os.path.join(folder, "ballast")
            with open(ballast, "wb") as file:
                try:
                    while True:
                        file.write(bytes(65536))
                        file.flush()
                except OSError:
                    pass
            acknowledged = load(
                cluster,
                lambda: not small.is_running or "nearly full" in small.log(),
            )
            # Whether it refuses or stops: the others serve.
            new = cluster.leader(besides=[small])
            with new.connect() as client:
                assert client.do("FENCE.SHOW", "f") >= acknowledged
            os.unlink(ballast)
            if not small.is_running:
                assert small.process.returncode == 70
                small.start("--dir", moved)
            cluster.converged(30)
    finally:
        subprocess.run(["umount", "-l", folder], check=True)
        os.rmdir(folder)
