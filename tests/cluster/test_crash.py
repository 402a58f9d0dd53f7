# SPDX-License-Identifier: MIT
"""A node that crashes names what it was doing, and says it again at its next
start, in its log and in its metrics. How each run ended is known to the next."""

import os
import re
import signal
import socket
import subprocess
import urllib.request

import pytest

from cluster import HASPD, Cluster, ReplyError, is_sanitized, wait_until
from slow_disk import LIBRARY
from tls_cluster import HASP

CRASH = os.path.abspath(os.path.join(os.path.dirname(LIBRARY), "crash.so"))

pytestmark = pytest.mark.skipif(
    is_sanitized(), reason="sanitizers have handlers of their own"
)


def last_exit(node):
    """The word for which hasp_last_exit is 1."""
    with urllib.request.urlopen(
            "http://127.0.0.1:%d/metrics" % node.http_port, timeout=10) as page:
        text = page.read().decode()
    found = re.findall(r'^hasp_last_exit{how="(\w+)"} 1$', text, re.M)
    assert len(found) == 1
    return found[0]


def fields(log, event):
    """The last line with that event, as a dict of its fields."""
    lines = [line for line in log.splitlines() if 'event="%s"' % event in line]
    assert lines, log
    pairs = re.findall(r'(\w+)=("(?:[^"\\]|\\.)*"|\S+)', lines[-1])
    return {key: value.strip('"') for key, value in pairs}


@pytest.fixture
def crashing():
    """A node that crashes while a session is opened once 'crash' is written."""
    with Cluster(1, start=False) as cluster:
        path = os.path.join(cluster.folder, "crash")
        node = cluster.nodes[0]
        node.start(environment={"LD_PRELOAD": CRASH, "CRASH": path})
        cluster.leader()
        yield cluster, node, path


def crash(cluster, node, path, how):
    """Opens a session, which the node does not survive; its exit code."""
    with node.connect() as client:
        client.do("CLIENT", "SETNAME", 'bob"the-builder')
        address = "127.0.0.1:%d" % client.socket.getsockname()[1]
        with open(path, "w") as file:
            file.write(how)
        with pytest.raises((ConnectionError, OSError)):
            client.do("SESSION.OPEN")
    code = node.wait_exit()
    os.remove(path)
    return code, address


def addr2line(address):
    done = subprocess.run(["addr2line", "-f", "-e", HASPD, address],
                          capture_output=True, text=True, timeout=60)
    return done.stdout.split("\n")[0]


@pytest.mark.parametrize("how, number, name", [
    ("check", signal.SIGABRT, "SIGABRT"),
    ("segv", signal.SIGSEGV, "SIGSEGV"),
])
def test_a_crash_names_the_request(crashing, how, number, name):
    cluster, node, path = crashing
    code, address = crash(cluster, node, path, how)
    assert code == -number
    log = node.log()
    crashed = fields(log, "crashed")
    assert crashed["name"] == name
    assert crashed["doing"] == "request"
    assert crashed["command"] == "SESSION.OPEN"
    assert crashed["address"] == address
    assert crashed["client"] == "bob?the-builder"
    if how == "check":
        assert re.match(r"node/\w+\.c:\d+: check failed: ", crashed["check"])
    # The last two lines are the report, and frames are those of this program.
    assert [re.search(r'event="(\w+)"', line).group(1)
            for line in log.splitlines()[-2:]] == ["crashed", "backtrace"]
    trace = fields(log, "backtrace")
    notes = subprocess.run(["readelf", "-n", HASPD], capture_output=True,
                           text=True, check=True).stdout
    assert "Build ID: " + trace["build_id"] in notes
    own = re.findall(r"haspd\+(0x[0-9a-f]+)", trace["frames"])
    assert len(own) >= 5
    assert "hasp_node_run" in {addr2line(frame) for frame in own}

    # The next start says it again.
    node.start()
    cluster.leader()
    again = fields(node.log(), "the last run crashed")
    assert "command=SESSION.OPEN" in again["report"]
    assert last_exit(node) == "crash"
    done = subprocess.run(
        [HASP, "-e", "127.0.0.1:%d" % node.client_port, "-o", "plain",
         "doctor"], capture_output=True, text=True, timeout=60)
    assert re.search("^WARN\tcrashes\tnode 1: its last run crashed\t.",
                     done.stdout, re.M)
    # And the one after it does not: it was stopped on request.
    assert node.stop() == 0
    node.start()
    cluster.leader()
    assert last_exit(node) == "clean"


def test_a_signal_from_outside_finds_nothing_done(crashing):
    cluster, node, _ = crashing
    node.signal(signal.SIGSEGV)
    assert node.wait_exit() == -signal.SIGSEGV
    crashed = fields(node.log(), "crashed")
    assert crashed["doing"] == "nothing" and "command" not in crashed


def test_how_the_last_run_ended():
    with Cluster(1) as cluster:
        node = cluster.nodes[0]
        cluster.leader()
        assert last_exit(node) == "none"
        node.kill()
        node.start()
        cluster.leader()
        assert last_exit(node) == "killed"
        assert 'event="the last run was killed"' in node.log()
        assert node.stop() == 0
        before = len(node.log())
        node.start()
        cluster.leader()
        assert last_exit(node) == "clean"
        assert "the last run" not in node.log()[before:]


@pytest.mark.parametrize("how", ["check 3", "segv 3"])
def test_a_crash_while_the_node_is_opened_is_kept(how):
    with Cluster(1, start=False) as cluster:
        node = cluster.nodes[0]
        path = os.path.join(cluster.folder, "crash")
        node.start()
        cluster.leader()
        assert node.stop() == 0
        with open(path, "w") as file:
            file.write(how)
        node.start(environment={"LD_PRELOAD": CRASH, "CRASH": path})
        assert node.wait_exit() in (-signal.SIGABRT, -signal.SIGSEGV)
        assert "data directory opened" in node.log()
        node.start()
        cluster.leader()
        assert last_exit(node) == "crash"
        report = fields(node.log(), "the last run crashed")["report"]
        assert "name=SIG" in report


def test_a_start_that_fails_is_an_error_at_the_next_one():
    with Cluster(1, start=False) as cluster:
        node = cluster.nodes[0]
        node.start()
        cluster.leader()
        assert node.stop() == 0
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", node.http_port))
            taken.listen(1)
            node.start()
            assert node.wait_exit() == 69
        node.start()
        cluster.leader()
        assert last_exit(node) == "error"
        assert fields(node.log(), "the last run ended with an error")["why"] \
            .startswith("69: ")


def test_a_run_that_ended_itself_says_why():
    with Cluster(1, start=False) as cluster:
        node = cluster.nodes[0]
        path = os.path.join(cluster.folder, "slow_disk")
        with open(path, "w"):
            pass
        node.start(environment={"LD_PRELOAD": os.path.abspath(LIBRARY),
                                "SLOW_DISK": path})
        cluster.leader()
        with open(path + ".new", "w") as file:
            file.write("flush -5\n")
        os.rename(path + ".new", path)
        with node.connect() as client:
            try:
                client.do("SESSION.OPEN")
            except (ConnectionError, OSError, ReplyError):
                pass
        assert node.wait_exit() == 70
        node.start()
        cluster.leader()
        assert last_exit(node) == "error"
        why = fields(node.log(), "the last run ended with an error")["why"]
        assert why.startswith("70: ")


def test_a_damaged_file_is_no_reason_to_stop():
    with Cluster(1) as cluster:
        node = cluster.nodes[0]
        cluster.leader()
        node.stop()
        for text in (b"", b"\0" * 5000, b"clean but\xff\n", b"nonsense"):
            with open(os.path.join(node.dir, "last_exit"), "wb") as file:
                file.write(text)
            node.start()
            cluster.leader()
            assert last_exit(node) in ("none", "killed", "clean")
            assert node.stop() == 0
        os.remove(os.path.join(node.dir, "last_exit"))
        os.mkdir(os.path.join(node.dir, "last_exit"))
        node.start()
        wait_until(lambda: node.is_serving(), 15, "it serves")
