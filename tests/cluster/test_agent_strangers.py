# SPDX-License-Identifier: MIT
"""hasp agent attacked by other users: floods, late lines, programs that replace
themselves. docs/agent.md has the limits."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest

from cluster import Cluster, wait_until
from test_agent import (IS_ROOT, NEVER_S, SOON_S, WORD, Agent, Holder, endpoints,
                        is_passed_on, knock, say, start_of)

NOBODY = 65534


@pytest.fixture(scope="module", name="cluster")
def cluster_():
    with Cluster(1) as cluster:
        cluster.leader()
        yield cluster


@pytest.fixture(name="agent")
def agent_(cluster):
    with Agent(cluster) as agent:
        os.chmod(agent.folder, 0o755)
        yield agent


def test_what_an_ended_connection_asked_for_is_void(cluster, agent):
    """A TIE that the agent reads late must not undo an UNTIE that the program
    has sent on its next connection: it believes in that."""
    agent.process.send_signal(signal.SIGSTOP)
    with knock(agent) as sock:
        sock.sendall(b"TIE 5 %s START %d\n"
                     % (WORD.encode(), start_of("self")))
    agent.process.send_signal(signal.SIGCONT)
    wait_until(lambda: agent.status()["refused_total"] == 1, SOON_S,
               "a refusal")
    assert agent.status()["ties"] == 0


def test_a_late_untie_does_not_end_a_later_tie(cluster, agent):
    mine = "%s START %d" % (WORD, start_of("self"))
    with knock(agent) as later:
        assert say(later, "TIE 5 " + mine) == "OK tied\n"
        with knock(agent) as sock:
            agent.process.send_signal(signal.SIGSTOP)
            sock.sendall(b"UNTIE 5 %s\n" % mine.encode())
        agent.process.send_signal(signal.SIGCONT)
        wait_until(lambda: agent.status()["refused_total"] == 1, SOON_S,
                   "a refusal")
        assert agent.status()["ties"] == 1


@pytest.mark.parametrize("line", ["TIE 0 %s START 1" % WORD, "DIED 0 " + WORD,
                                  "UNTIE 0 %s START 1" % WORD])
def test_an_id_that_no_session_has_is_refused(cluster, agent, line):
    """The cluster would refuse the report of all that died at that time."""
    with knock(agent) as sock:
        assert say(sock, line).startswith("ERR not a request")


def test_deaths_of_sessions_that_nobody_has_hold_up_none(cluster, agent):
    with knock(agent) as sock:
        sock.sendall(b"".join(
            b"DIED %d %s\n" % (session, WORD.encode())
            for session in [2**64 - 1, 2**63, 1, 2**53 + 1]))
        told = b""
        while told.count(b"\n") < 4:
            told += sock.recv(4096)
    with Holder(cluster, agent.path, "beside") as holder:
        holder.process.kill()
        is_passed_on(cluster, "beside", holder)
    wait_until(lambda: agent.status()["pending"] == 0, SOON_S, "all reported")


FLOOD = r"""
import os, select, socket, sys, time
os.setgid(65534), os.setuid(65534)
path, line = sys.argv[1], sys.argv[2].encode() + b"\n"
socks, end = [], time.monotonic() + 60
print("floods", flush=True)
while time.monotonic() < end:
    while len(socks) < 900:
        sock = socket.socket(socket.AF_UNIX)
        sock.setblocking(False)
        try:
            sock.connect(path)
        except OSError:
            sock.close()
            break
        socks.append(sock)
    for sock in list(socks):
        try:
            sock.send(line * 20)
            sock.recv(65536)
        except BlockingIOError:
            pass
        except OSError:
            sock.close()
            socks.remove(sock)
"""


@pytest.mark.skipif(not IS_ROOT, reason="needs another user")
@pytest.mark.parametrize("line", [
    "TIE 7 %s START 1" % WORD, "STATUS", "nonsense", "DIED 7 " + WORD])
def test_a_flood_of_another_user_holds_up_nobody(cluster, agent, line):
    flood = subprocess.Popen(
        [sys.executable, "-c", FLOOD, agent.path, line],
        stdout=subprocess.PIPE, text=True)
    try:
        assert flood.stdout.readline() == "floods\n"
        time.sleep(1)
        for i in range(3):
            lock = "flood/%s/%d" % (line[:3], i)
            with Holder(cluster, agent.path, lock, "try") as holder:
                wait_until(lambda holder=holder: holder.ask("tied") == "yes",
                           SOON_S, "a tie")
                holder.process.kill()
                is_passed_on(cluster, lock, holder)
    finally:
        flood.kill()
        flood.wait()
        flood.stdout.close()


EXECS = r"""
import os, socket, sys, threading, time
path, word, how, program = sys.argv[1:]
sock = socket.socket(socket.AF_UNIX)
if how == "setuid":
    os.setgid(65534), os.setuid(65534)
sock.connect(path)
with open("/proc/self/stat") as file:
    start = file.read().rpartition(")")[2].split()[19]
sock.sendall(("TIE 5 %s START %s\n" % (word, start)).encode())
assert sock.recv(100) == b"OK tied\n"
print("tied", flush=True)
sys.stdin.readline()
words = [program, "300"]
if how == "chain":
    for i in range(20):
        words = ["/bin/sh", "-c", 'exec "$@"', "sh"] + words
if how == "thread":
    threading.Thread(target=os.execv, args=(words[0], words)).start()
    time.sleep(300)
os.execv(words[0], words)
"""


@pytest.mark.parametrize("how", ["plain", "chain", "thread", "setuid"])
def test_a_program_that_replaces_itself_lives(cluster, agent, tmp_path, how):
    """However often, from whichever thread, with more rights than before."""
    program = shutil.which("sleep")
    if how == "setuid":
        if not IS_ROOT:
            pytest.skip("needs a setuid program")
        folder = os.path.join(agent.folder, "setuid")
        os.mkdir(folder, 0o755)
        program = shutil.copy(program, folder)
        os.chmod(program, 0o4755)
    process = subprocess.Popen(
        [sys.executable, "-c", EXECS, agent.path, WORD, how, program],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == "tied\n"
        process.stdin.write("\n")
        process.stdin.flush()
        wait_until(lambda: os.path.realpath("/proc/%d/exe" % process.pid)
                   == os.path.realpath(program), SOON_S, "the exec")
        time.sleep(NEVER_S)
        status = agent.status()
        assert (status["ties"], status["died_total"]) == (1, 0)
        process.kill()
        wait_until(lambda: agent.status()["died_total"] == 1, SOON_S,
                   "its death")
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()
        shutil.rmtree(os.path.join(agent.folder, "setuid"), ignore_errors=True)


def test_an_agent_that_is_killed_while_it_reports_calls_nobody_dead(cluster,
                                                                    agent):
    """The dead are left to their TTL, or were reported; the living live."""
    living = [Holder(cluster, agent.path, "living/%d" % i) for i in range(5)]
    dying = [Holder(cluster, agent.path, "dying/%d" % i) for i in range(5)]
    try:
        for holder in dying:
            holder.process.kill()
        agent.kill()
        agent.start()
        for holder in living:
            wait_until(lambda holder=holder: holder.ask("tied") == "yes",
                       SOON_S, "another tie")
            assert holder.ask("believes") == "yes"
        with cluster.leader().connect() as client:
            rows = client.do("SESSION.LIST", "COUNT", 1000)[1]
            ids = {row[row.index(b"id") + 1] for row in rows}
        assert {holder.session for holder in living} <= ids
    finally:
        for holder in living + dying:
            holder.end()


def test_a_slow_line_is_not_waited_for(cluster, agent):
    with knock(agent) as slow:
        line = "TIE 5 %s START %d\n" % (WORD, start_of("self"))
        for letter in line[:20]:
            slow.sendall(letter.encode())
            time.sleep(0.02)
        with Holder(cluster, agent.path, "slow") as holder:
            assert holder.is_tied
        assert say(slow, line[20:-1]) == "OK tied\n"


class Relay:
    """A way to a node that a test can make silent: as when a NAT forgets it."""

    def __init__(self, port):
        self.to, self.pairs, self.is_silent = port, [], False
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.client_port = self.listening.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                ours = self.listening.accept()[0]
            except OSError:
                return
            theirs = socket.create_connection(("127.0.0.1", self.to))
            self.pairs.append((ours, theirs))
            for a, b in (ours, theirs), (theirs, ours):
                threading.Thread(target=self.copy, args=(a, b),
                                 daemon=True).start()

    def copy(self, a, b):
        try:
            data = a.recv(65536)
            while data and not self.is_silent:
                b.sendall(data)
                data = a.recv(65536)
        except OSError:
            pass
        if not self.is_silent:
            self.shut(a, b)

    @staticmethod
    def shut(*socks):
        for sock in socks:
            try:
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def end(self):
        self.is_silent = True
        self.shut(self.listening)
        self.listening.close()
        for pair in self.pairs:
            self.shut(*pair)
            for sock in pair:
                sock.close()


class Relays:
    """What endpoints() reads."""

    def __init__(self, cluster):
        self.nodes = [Relay(node.client_port) for node in cluster.nodes]


def test_a_cluster_that_falls_silent_is_asked_at_another_node():
    """No packet says that the connection is gone: the next node is asked long
    before TCP gives it up (10 s)."""
    with Cluster(3) as cluster:
        cluster.leader()
        relays = Relays(cluster)
        with Agent(relays) as agent:
            wait_until(lambda: agent.status()["answered_ms_ago"] >= 0, SOON_S,
                       "an answer")
            used = [relay for relay in relays.nodes if relay.pairs]
            with Holder(cluster, agent.path, "silent") as holder:
                for relay in used:
                    relay.is_silent = True
                began = time.monotonic()
                holder.process.kill()
                is_passed_on(cluster, "silent", holder)
                assert time.monotonic() - began < 8
        for relay in relays.nodes:
            relay.end()
