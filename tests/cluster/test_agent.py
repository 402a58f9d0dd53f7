# SPDX-License-Identifier: MIT
"""hasp agent on real processes: each kind of death, and what is none. The TTL
is 60 s everywhere, so a lock that passes on within seconds was passed on by a
witness. docs/agent.md has the table that these tests are the rows of."""

import array
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time

import pytest

from cluster import ROOT, Cluster, wait_until
BUILD = os.path.abspath(os.environ.get(
    "HASP_BUILD", os.path.join(ROOT, "build", "release")))
TOOL = os.path.join(BUILD, "hasp")

TIED = os.path.join(BUILD, "client-tests", "tied")
# Far below the TTL, and generous to a busy machine.
SOON_S = 20
# How long something that must not happen is waited for.
NEVER_S = 1.5
WORD = "0123456789abcdef0123456789abcdef"
IS_ROOT = os.geteuid() == 0


@pytest.fixture(scope="module", name="cluster")
def cluster_():
    with Cluster(3) as cluster:
        cluster.leader()
        yield cluster


def endpoints(cluster):
    return ",".join("127.0.0.1:%d" % n.client_port for n in cluster.nodes)


class Agent:
    """An agent, which the test may kill, stop and start again."""

    def __init__(self, cluster, *flags, wrapper=()):
        self.folder = tempfile.mkdtemp(prefix="hasp-agent-")
        self.path = os.path.join(self.folder, "a.sock")
        self.words = list(wrapper) + [
            TOOL, "-e", endpoints(cluster), "agent", "--listen", self.path,
            *flags,
        ]
        self.process = None
        self.start()

    def start(self):
        self.process = subprocess.Popen(self.words, stderr=subprocess.DEVNULL)
        wait_until(self.status, SOON_S, "an agent that answers")

    def kill(self):
        self.process.kill()
        self.process.wait()

    def status(self):
        done = subprocess.run(
            [TOOL, "agent", "status", "--listen", self.path],
            capture_output=True, text=True, check=False)
        return {
            key: int(value)
            for key, value in (row.split() for row in done.stdout.splitlines())
        }

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGCONT)
        self.process.terminate()
        assert self.process.wait(SOON_S) in (0, -signal.SIGKILL)
        if os.path.exists(self.path):
            os.unlink(self.path)
        os.rmdir(self.folder)


@pytest.fixture(name="agent", params=["peer-pidfd", "old-kernel"])
def agent_(cluster, request):
    flags = ["--old-kernel"] if request.param == "old-kernel" else []
    with Agent(cluster, *flags) as agent:
        yield agent


class Holder:
    """tests/client/tied.c; it obeys lines."""

    def __init__(self, cluster, agent, lock, tie="must", delay=0, wrapper=(),
                 program=None, **variables):
        words = [TIED, endpoints(cluster), agent, tie, lock, str(delay)]
        if program is not None:
            words = [*program, *words[1:-1]]
        self.process = subprocess.Popen(
            list(wrapper) + words,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env=dict(os.environ, **variables))
        self.first = self.process.stdout.readline().strip()
        if self.first.startswith("held"):
            _, session, token, tied = self.first.split()
            self.session, self.token = int(session), int(token)
            self.is_tied = tied == "1"

    def ask(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def end(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.kill()
            self.process.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()


def lives(cluster, holder):
    def show(client):
        rows = client.do("SESSION.LIST", "COUNT", 1000)[1]
        return [row for row in rows if holder.session in row or
                str(holder.session).encode() in row]
    return bool(cluster.retry(show))


def is_passed_on(cluster, lock, holder, within=SOON_S):
    """The next one gets the lock, with a larger token, and the history says
    why."""
    def take(client):
        client.do("SESSION.OPEN", "TTL", 30000)
        token = client.do("LOCK.ACQUIRE", lock, "WAIT", int(within * 1000),
                          "REQ", 1)
        client.do("SESSION.CLOSE")
        return token
    token = cluster.retry(take, timeout=within + 15)
    assert token is not None and token > holder.token

    def history(client):
        return repr(client.do("LOCK.HISTORY", lock, "COUNT", 100))
    # A follower answers from what it has applied.
    wait_until(lambda: "died" in cluster.retry(history), within,
               "the death in the history")


def never_passed_on(cluster, holder):
    time.sleep(NEVER_S)
    assert lives(cluster, holder), "it lives, and was called dead"


# --- Deaths -------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV])
def test_a_process_that_is_killed(cluster, agent, number):
    lock = "kill/%d" % number
    with Holder(cluster, agent.path, lock) as holder:
        assert holder.is_tied
        assert agent.status()["ties"] == 1
        holder.process.send_signal(number)
        # It is a zombie from here on, which nobody has reaped.
        is_passed_on(cluster, lock, holder)
        wait_until(lambda: agent.status()["reported_total"] >= 1, SOON_S,
                   "a death that is reported")
        assert agent.status()["ties"] == 0


def test_the_delay_runs(cluster, agent):
    with Holder(cluster, agent.path, "delay", delay=2000) as holder:
        began = time.monotonic()
        holder.process.kill()
        is_passed_on(cluster, "delay", holder)
        assert time.monotonic() - began >= 2.0


def test_a_process_that_execs_lives_and_dies_later(cluster, agent):
    with Holder(cluster, agent.path, "exec") as holder:
        holder.process.stdin.write("exec\n")
        holder.process.stdin.flush()
        exe = "/proc/%d/exe" % holder.process.pid
        wait_until(lambda: "tied" not in os.readlink(exe), SOON_S, "the exec")
        never_passed_on(cluster, holder)
        holder.process.kill()
        is_passed_on(cluster, "exec", holder)


def test_a_fork_holds_nothing_up_and_its_end_is_no_death(cluster, agent):
    with Holder(cluster, agent.path, "fork") as holder:
        one, two = int(holder.ask("fork")), int(holder.ask("fork"))
        os.kill(one, signal.SIGKILL)
        never_passed_on(cluster, holder)
        holder.process.kill()
        try:
            # The other child has the connection to the agent, and lives.
            is_passed_on(cluster, "fork", holder)
        finally:
            os.kill(two, signal.SIGKILL)


def test_a_main_thread_that_ends_is_no_death(cluster, agent):
    with Holder(cluster, agent.path, "leader",
                TIED_LEADER_LEAVES="1") as holder:
        stat = "/proc/%d/stat" % holder.process.pid

        def state():
            with open(stat, encoding="ascii") as file:
                return file.read().rsplit(")", 1)[1].split()[0]
        wait_until(lambda: state() == "Z", SOON_S, "a main thread that ended")
        never_passed_on(cluster, holder)
        assert holder.ask("tied") == "yes"
        holder.process.kill()
        is_passed_on(cluster, "leader", holder)


def test_a_process_that_is_stopped_lives(cluster, agent):
    with Holder(cluster, agent.path, "stop") as holder:
        holder.process.send_signal(signal.SIGSTOP)
        never_passed_on(cluster, holder)
        holder.process.send_signal(signal.SIGCONT)
        assert holder.ask("believes") == "yes"
        holder.process.send_signal(signal.SIGSTOP)
        holder.process.kill()
        is_passed_on(cluster, "stop", holder)


def test_a_leader_that_dies_with_the_holder(agent):
    with Cluster(3) as cluster:
        leader = cluster.leader()
        with Agent(cluster) as own, Holder(cluster, own.path, "both") as holder:
            leader.kill()
            holder.process.kill()
            is_passed_on(cluster, "both", holder, within=40)


@pytest.mark.skipif(not IS_ROOT, reason="needs root")
def test_a_process_of_a_namespace_below_is_seen(cluster, agent):
    wrapper = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
    with Holder(cluster, agent.path, "below", wrapper=wrapper) as holder:
        assert holder.is_tied, holder.first
        holder.process.kill()
        is_passed_on(cluster, "below", holder)


# --- The agent is away --------------------------------------------------------


@pytest.mark.skipif(not IS_ROOT, reason="needs root")
def test_an_agent_in_another_namespace_ties_nobody(cluster):
    wrapper = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
    with Agent(cluster, wrapper=wrapper) as agent:
        with Holder(cluster, agent.path, "outside") as holder:
            assert "namespace" in holder.first, holder.first
        with Holder(cluster, agent.path, "outside", tie="try") as holder:
            assert not holder.is_tied
            agent.kill()
            never_passed_on(cluster, holder)


def test_an_agent_that_restarts_calls_nobody_dead(cluster, agent):
    with Holder(cluster, agent.path, "again") as holder:
        agent.kill()
        wait_until(lambda: holder.ask("tied") == "no", SOON_S, "its end is seen")
        assert "agent" in holder.ask("event")
        agent.start()
        wait_until(lambda: holder.ask("tied") == "yes", SOON_S, "a new tie")
        assert agent.status()["died_total"] == 0
        never_passed_on(cluster, holder)
        holder.process.kill()
        is_passed_on(cluster, "again", holder)


def test_an_agent_that_is_stopped_reports_when_it_goes_on(cluster, agent):
    with Holder(cluster, agent.path, "late") as holder:
        agent.process.send_signal(signal.SIGSTOP)
        holder.end()
        never_passed_on(cluster, holder)
        agent.process.send_signal(signal.SIGCONT)
        is_passed_on(cluster, "late", holder)


@pytest.mark.skipif(not IS_ROOT, reason="needs root")
def test_an_agent_that_restarts_under_hidepid_calls_nobody_dead(cluster):
    """It sees no process of others: their ties are refused, with the reason."""
    hidden = ["unshare", "--mount", "sh", "-c",
              'mount -t proc -o hidepid=2 proc /proc && '
              'exec setpriv --reuid 65534 --regid 65534 --clear-groups "$@"',
              "sh"]
    with Agent(cluster) as agent:
        os.chown(agent.folder, 65534, 65534)
        with Holder(cluster, agent.path, "hidden") as holder:
            assert holder.is_tied
            agent.kill()
            if os.path.exists(agent.path):
                os.unlink(agent.path)
            agent.words = hidden + agent.words
            agent.start()
            wait_until(lambda: agent.status()["refused_total"] >= 1, SOON_S,
                       "a tie that is refused")
            assert holder.ask("tied") == "no"
            never_passed_on(cluster, holder)
            assert agent.status()["died_total"] == 0
        with Holder(cluster, agent.path, "hidden/2") as other:
            assert other.first.startswith("failed"), other.first


MEMORY = "/sys/fs/cgroup/memory"  # Version 1; version 2 is above it.


@pytest.fixture(name="memory_group")
def memory_group_():
    """A group of processes, and the file of its limit."""
    version_2 = os.path.exists("/sys/fs/cgroup/cgroup.controllers")
    group = os.path.join("/sys/fs/cgroup" if version_2 else MEMORY,
                         "hasp-test-%d" % os.getpid())
    limit = os.path.join(group, "memory.max" if version_2
                         else "memory.limit_in_bytes")
    try:
        os.mkdir(group)
    except OSError as error:
        pytest.skip("no memory cgroup can be made here: %s" % error)
    try:
        if not os.access(limit, os.W_OK):
            pytest.skip("no memory cgroup can be made here: no %s" % limit)
        yield os.path.join(group, "cgroup.procs"), limit
    finally:
        wait_until(lambda: not open(os.path.join(group, "cgroup.procs"),
                                    encoding="ascii").read(), SOON_S,
                   "an empty group")
        os.rmdir(group)


def test_a_process_that_the_kernel_kills_for_memory(cluster, agent,
                                                    memory_group):
    procs, limit = memory_group
    with Holder(cluster, agent.path, "oom",
                wrapper=["sh", "-c", 'echo $$ > %s && exec "$@"' % procs, "sh"],
                TIED_MB="64") as holder:
        assert holder.is_tied
        with open("/proc/%d/oom_score_adj" % holder.process.pid, "w",
                  encoding="ascii") as file:
            file.write("1000")
        with open(limit, "w", encoding="ascii") as file:
            file.write(str(100 << 20))
        eater = subprocess.Popen(
            ["sh", "-c", 'echo $$ > %s && exec "$@"' % procs, "sh",
             sys.executable, "-c", "bytearray(90 << 20); input()"],
            stdin=subprocess.PIPE)
        try:
            assert holder.process.wait(SOON_S) == -signal.SIGKILL
        finally:
            eater.kill()
            eater.wait()
        is_passed_on(cluster, "oom", holder)


def test_a_death_that_no_agent_sees_is_left_to_the_ttl(cluster, agent):
    with Holder(cluster, agent.path, "unseen") as holder:
        agent.kill()
        holder.end()
        agent.start()
        never_passed_on(cluster, holder)


def test_without_an_agent(cluster, tmp_path):
    path = str(tmp_path / "none.sock")
    with Holder(cluster, path, "none") as holder:
        assert holder.first.startswith("failed") and path in holder.first
    with Holder(cluster, path, "none", tie="try") as holder:
        assert not holder.is_tied
        told = wait_until(lambda: [e for e in [holder.ask("event")]
                                   if e != "none"], SOON_S, "an event")
        assert path in told[0]
        assert holder.ask("tied") == "no"
        # It was never tied, so there is nothing to undo.
        assert re.match(r"\d+:[0-9a-f]{32}$", holder.ask("credentials"))


def test_a_session_is_handed_over_only_untied(cluster, agent):
    with Holder(cluster, agent.path, "hand") as holder:
        agent.process.send_signal(signal.SIGSTOP)
        assert "nothing was handed over" in holder.ask("credentials")
        assert "nothing was handed over" in holder.ask("detach")
        agent.process.send_signal(signal.SIGCONT)
        told = wait_until(
            lambda: [c for c in [holder.ask("credentials")]
                     if re.match(r"\d+:[0-9a-f]{32}$", c)],
            SOON_S, "an answer of the agent")
        assert told and holder.ask("tied") == "no"
        wait_until(lambda: agent.status()["ties"] == 0, SOON_S, "no tie")
        holder.end()
        never_passed_on(cluster, holder)


def test_a_session_that_is_closed_is_untied(cluster, agent):
    with Holder(cluster, agent.path, "close") as holder:
        assert holder.ask("close") == "closed"
        wait_until(lambda: agent.status()["ties"] == 0, SOON_S, "no tie")


# --- Strangers at the socket --------------------------------------------------


def knock(agent):
    sock = socket.socket(socket.AF_UNIX)
    sock.settimeout(SOON_S)
    sock.connect(agent.path)
    return sock


def say(sock, line):
    sock.sendall(line.encode() + b"\n")
    return sock.recv(4096).decode()


def start_of(pid):
    with open("/proc/%s/stat" % pid, encoding="ascii") as file:
        return int(file.read().rsplit(")", 1)[1].split()[19])


def test_a_start_that_is_wrong_is_refused(cluster, agent):
    with knock(agent) as sock:
        assert "START" in say(sock, "TIE 1 %s START 1" % WORD)
    assert agent.status()["ties"] == 0


def test_a_child_does_not_tie_by_its_parents_connection(cluster, agent):
    with knock(agent) as sock:
        child = os.fork()
        if child == 0:
            told = say(sock, "TIE 1 %s START %d" % (WORD, start_of("self") + 1))
            os._exit(0 if told.startswith("ERR") else 1)
        assert os.waitpid(child, 0)[1] == 0
    assert agent.status()["ties"] == 0


def test_a_connection_of_a_dead_process_ties_nothing(cluster, agent):
    ours, theirs = socket.socketpair()
    with ours, theirs:
        child = os.fork()
        if child == 0:
            sock = knock(agent)
            socket.send_fds(theirs, [b"x"], [sock.fileno()])
            os._exit(0)
        _, fds, _, _ = socket.recv_fds(ours, 1, 1)
        os.waitpid(child, 0)
        with socket.socket(fileno=fds[0]) as sock:
            sock.settimeout(SOON_S)
            told = say(sock, "TIE 1 %s START %d" % (WORD, start_of("self")))
            assert told.startswith("ERR"), told
    assert agent.status()["ties"] == 0


def test_one_process_does_not_untie_another(cluster, agent):
    with Holder(cluster, agent.path, "mine") as holder, knock(agent) as sock:
        told = say(sock, "UNTIE %d %s START %d"
                   % (holder.session, WORD, start_of("self")))
        assert told == "OK not tied\n"
        assert agent.status()["ties"] == 1


@pytest.mark.parametrize("line", ["HELLO", "TIE 1", "TIE x %s START 1" % WORD,
                                  "TIE 1 short START 1", "", "x" * 9000])
def test_what_is_no_request_closes_the_connection(cluster, agent, line):
    with knock(agent) as sock:
        data = b"x"
        try:
            sock.sendall(line.encode() + b"\n")
            while data:
                data = sock.recv(4096)
        except ConnectionError:
            pass
    assert agent.status()["closed_total"] >= 1


def test_a_passed_descriptor_stops_nobody(cluster, agent):
    """Its last reference would be dropped by the reader, and linger there."""
    with knock(agent) as sock, open(os.devnull, "rb") as file:
        try:
            sock.sendmsg([b"STATUS\n"], [(
                socket.SOL_SOCKET, socket.SCM_RIGHTS,
                array.array("i", [file.fileno()]))])
            assert sock.recv(4096) == b""
        except OSError:
            pass  # The kernel refuses it, or the connection was reset.
    assert "ties" in agent.status()


def test_a_crowd_of_connections_leaves_room(cluster, agent):
    with Holder(cluster, agent.path, "crowd") as holder:
        crowd = []
        try:
            for _ in range(300):
                crowd.append(knock(agent))
                crowd[-1].sendall(b"STATUS\n")
            holder.process.kill()
            is_passed_on(cluster, "crowd", holder)
        finally:
            for sock in crowd:
                sock.close()


def test_who_ties_nothing_is_not_kept(cluster, agent):
    with knock(agent) as sock:
        began = time.monotonic()
        assert sock.recv(1) == b""
        assert time.monotonic() - began >= 9


# --- What operators see -------------------------------------------------------


def test_systemd_passes_the_socket_and_is_told(cluster, tmp_path):
    path, notes = str(tmp_path / "s.sock"), str(tmp_path / "n.sock")
    with socket.socket(socket.AF_UNIX) as listening, socket.socket(
        socket.AF_UNIX, socket.SOCK_DGRAM
    ) as told:
        listening.bind(path)
        listening.listen()
        told.bind(notes)
        told.settimeout(SOON_S)

        def pass_it():
            os.dup2(listening.fileno(), 3)
            os.set_inheritable(3, True)
        agent = subprocess.Popen(
            ["sh", "-c", 'LISTEN_PID=$$ LISTEN_FDS=1 exec "$@"', "sh", TOOL,
             "-e", endpoints(cluster), "agent"],
            preexec_fn=pass_it, close_fds=False, stderr=subprocess.DEVNULL,
            env=dict(os.environ, NOTIFY_SOCKET=notes))
        try:
            assert told.recv(100) == b"READY=1"
            with Holder(cluster, path, "systemd") as holder:
                assert holder.is_tied
                holder.process.kill()
                is_passed_on(cluster, "systemd", holder)
        finally:
            agent.terminate()
            assert agent.wait(SOON_S) == 0
        assert os.path.exists(path), "it is systemd's"


def test_the_unit_starts_what_there_is():
    with open(os.path.join(ROOT, "packaging", "hasp-agent.service"),
              encoding="utf-8") as file:
        unit = file.read()
    line = re.search(r"^ExecStart=/usr/local/bin/hasp (.*)$", unit, re.M).group(1)
    assert line.split()[0] == "agent"
    for word in ("ProtectProc", "PrivateUsers=yes", "PrivatePIDs"):
        assert word not in re.sub(r"#.*", "", unit), "it hides processes"
    assert "OOMScoreAdjust=-900" in unit and "Type=notify" in unit


def test_the_manifests_show_the_agent_the_processes():
    """As text: no Kubernetes runs here."""
    path = os.path.join(ROOT, "packaging", "kubernetes", "agent",
                        "daemonset.yaml")
    with open(path, encoding="utf-8") as file:
        daemon = re.sub(r"^#.*\n", "", file.read(), flags=re.M)
    with open(os.path.join(ROOT, "docs", "agent.md"), encoding="utf-8") as file:
        sidecar = re.search(r"```yaml\n(.*?)```", file.read(), re.S).group(1)
    assert "      hostPID: true\n" in daemon
    assert "hostPath: {path: /run/hasp-agent, type: DirectoryOrCreate}" in daemon
    assert "  shareProcessNamespace: true\n" in sidecar
    assert "      restartPolicy: Always\n" in sidecar
    for text, mounts in (daemon, 1), (sidecar, 2):
        command = re.search(r"command: \[(.*)\]", text).group(1).split(", ")
        assert command[:3] == ["hasp", "agent", "--listen"]
        mounted = re.findall(r"mountPath: (\S+?)}", text)
        assert mounted == [os.path.dirname(command[3])] * mounts
        assert "{name: HASP_ENDPOINTS, value:" in text


def test_the_session_shows_that_its_death_ends_it(cluster, agent):
    with Holder(cluster, agent.path, "shown") as tied, \
            Holder(cluster, agent.path, "shown/2", "none") as plain:
        done = subprocess.run(
            [TOOL, "-e", endpoints(cluster), "session", "list"],
            capture_output=True, text=True, check=True)
        head = done.stdout.splitlines()[0]
        at = slice(head.index("WILL"), head.index("LABELS"))
        will = {row.split()[0]: row[at].strip()
                for row in done.stdout.splitlines()[1:]}
        assert will[str(tied.session)] == "yes"
        assert will[str(plain.session)] == ""
        for lock, has in ("shown", True), ("shown/2", False):
            done = subprocess.run([TOOL, "-e", endpoints(cluster), "why", lock],
                                  capture_output=True, text=True, check=True)
            assert ("ends at once if its process is reported dead"
                    in done.stdout) is has


REUSE = r"""
import os, signal, socket, sys, time
path, word = sys.argv[1:]

def tie():
    sock = socket.socket(socket.AF_UNIX)
    sock.connect(path)
    with open("/proc/self/stat") as file:
        start = file.read().rpartition(")")[2].split()[19]
    sock.sendall(("TIE 5 %s START %s\n" % (word, start)).encode())
    return sock, sock.recv(100)

first = os.fork()
if first == 0:
    sock, answer = tie()
    print(answer.decode(), end="", flush=True)
    time.sleep(300)
sys.stdin.readline()
# The kernel gives this number again as soon as the first one is reaped.
os.kill(first, signal.SIGKILL)
os.waitpid(first, 0)
with open("/proc/sys/kernel/ns_last_pid", "w") as file:
    file.write(str(first - 1))
second = os.fork()
if second == 0:
    time.sleep(300)
print("same" if second == first else "other", flush=True)
sys.stdin.readline()
os.kill(second, 0)
os.kill(second, signal.SIGKILL)
"""


@pytest.mark.skipif(not IS_ROOT, reason="needs root")
def test_a_pid_that_is_used_again_is_another_process(cluster, agent):
    """The agent is stopped until the number has been given to another process:
    the first one is dead all the same, and the second one ties nothing."""
    with subprocess.Popen(
            ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child",
             sys.executable, "-c", REUSE, agent.path, WORD],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        answer = process.stdout.readline()
        assert answer == "OK tied\n"
        agent.process.send_signal(signal.SIGSTOP)
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.stdout.readline() == "same\n"
        agent.process.send_signal(signal.SIGCONT)
        wait_until(lambda: agent.status()["died_total"] == 1, SOON_S,
                   "the death of the first")
        status = agent.status()
        assert (status["ties"], status["processes"]) == (0, 0)
        process.stdin.write("\n")
        process.stdin.flush()


def test_metrics(cluster, agent):
    done = subprocess.run([TOOL, "agent", "metrics", "--listen", agent.path],
                          capture_output=True, text=True, check=True)
    assert re.search(r"^hasp_agent_ties 0$", done.stdout, re.M)
    assert "# TYPE hasp_agent_died_total counter" in done.stdout


def test_a_second_agent_does_not_take_the_socket(cluster, agent):
    done = subprocess.run(
        [TOOL, "-e", endpoints(cluster), "agent", "--listen", agent.path],
        capture_output=True, text=True, check=False, timeout=SOON_S)
    assert done.returncode == 69 and "another agent" in done.stderr


# --- hasp died, hasp run ------------------------------------------------------


def test_hasp_died_reads_a_file(cluster, tmp_path):
    import hashlib
    will = hashlib.sha256(WORD.encode()).hexdigest()
    with cluster.leader().connect() as client:
        session = client.map("SESSION.OPEN", "TTL", 60000, "WILL", will)["id"]
        path = tmp_path / "word"
        run = [TOOL, "-e", endpoints(cluster), "died", str(path)]
        assert subprocess.run(run, check=False).returncode == 0, "no file: nothing"
        path.write_text("%d\n" % session)
        assert subprocess.run(run, check=False, stderr=subprocess.DEVNULL
                              ).returncode == 65
        path.write_text("%d %s\n" % (session, WORD))
        assert subprocess.check_output(run) == b"1\n"
        assert subprocess.check_output(run) == b"0\n"


@pytest.mark.parametrize("whom", ["run", "run and guardian"])
def test_hasp_run_that_is_killed_passes_the_lock_on(cluster, tmp_path, whom):
    """The guardian or its deputy sends DIED, when all that ran are dead."""
    lock = "run/%s" % whom
    pids = tmp_path / "pids"
    script = ("setsid sleep 300 & echo $! $$ > %s.new; mv %s.new %s; wait"
              % (pids, pids, pids))
    run = subprocess.Popen(
        [TOOL, "-e", endpoints(cluster), "run", "--ttl", "60s", lock, "--",
         "sh", "-c", script])
    wait_until(pids.exists, SOON_S, "a command that runs")
    writers = [int(pid) for pid in pids.read_text().split()]

    class Was:
        token = 0

    if whom == "run and guardian":
        with open("/proc/%d/task/%d/children" % (run.pid, run.pid),
                  encoding="ascii") as file:
            children = [int(pid) for pid in file.read().split()]
        guardians = [
            pid for pid in children
            if open("/proc/%d/comm" % pid, encoding="ascii").read().strip()
            == "hasp-guardian"
        ]
        assert guardians
        os.kill(run.pid, signal.SIGKILL)
        os.kill(guardians[0], signal.SIGKILL)
    else:
        run.kill()
    is_passed_on(cluster, lock, Was)
    for pid in writers:
        try:
            with open("/proc/%d/stat" % pid, encoding="ascii") as file:
                assert file.read().rsplit(")", 1)[1].split()[0] in "ZX"
        except FileNotFoundError:
            pass
    run.wait()


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
