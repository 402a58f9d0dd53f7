# SPDX-License-Identifier: MIT
"""'hasp run' on three real nodes: whatever happens to the cluster or to 'hasp
run' itself, the command under the lock writes nothing after the next one has
been granted it.

The writers append lines "token pid" to one file with O_APPEND; the check is
that no token precedes a smaller one.

The programs under test are $HASPD and $HASP (default: build/release/...)."""

import contextlib
import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time

import pytest

from cluster import ROOT, Cluster, wait_until

HASP = os.path.abspath(
    os.environ.get("HASP", os.path.join(ROOT, "build", "release", "hasp"))
)
TTL_S = 2.5
STOPPING = ["term", "kill", "freeze"]

# Appends its token to the file until it is stopped; TERM is not heard.
WRITER = (
    "import os, signal, sys, time\n"
    "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    "out = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT)\n"
    "line = '%s %d\\n' % (os.environ['HASP_TOKEN'], os.getpid())\n"
    "while True:\n"
    "    os.write(out, line.encode())\n"
    "    time.sleep(0.0005)\n"
)


@pytest.fixture(scope="module")
def cluster():
    with Cluster() as made:
        made.leader()
        yield made


@pytest.fixture
def whole(cluster):
    """The cluster with all its nodes up before and after."""
    yield cluster
    for node in cluster.nodes:
        node.resume()
    cluster.start()
    cluster.leader()


def endpoints(cluster):
    return ",".join("127.0.0.1:%d" % n.client_port for n in cluster.nodes)


def environment(**more):
    clean = {k: v for k, v in os.environ.items() if not k.startswith("HASP_")}
    clean["LC_ALL"] = "C.UTF-8"
    clean.update(more)
    return clean


def command(cluster, *words):
    return [HASP, "-e", endpoints(cluster)] + [str(word) for word in words]


def hasp(cluster, *words, timeout=30, **options):
    return subprocess.run(
        command(cluster, *words), capture_output=True, encoding="utf-8",
        timeout=timeout, env=environment(), **options
    )


def start(cluster, *words, **options):
    options.setdefault("stdout", subprocess.PIPE)
    options.setdefault("stderr", subprocess.PIPE)
    return subprocess.Popen(
        command(cluster, *words), encoding="utf-8", env=environment(),
        **options
    )


def ask_json(cluster, *words):
    result = hasp(cluster, "-o", "json", *words)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def end(run):
    """For processes that a failed test has left; a stopped one dies as well."""
    if run.poll() is None:
        run.kill()
    run.wait(10)
    for stream in (run.stdin, run.stdout, run.stderr):
        if stream:
            stream.close()


def processes():
    """pid -> (name, state, parent) of all."""
    found = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open("/proc/%s/stat" % entry) as file:
                text = file.read()
        except OSError:
            continue
        name = text[text.index("(") + 1:text.rindex(")")]
        state, parent = text[text.rindex(")") + 2:].split()[:2]
        found[int(entry)] = (name, state, int(parent))
    return found


def guardian_of(run):
    return wait_until(
        lambda: next(
            (
                pid for pid, (name, state, parent) in processes().items()
                if name == "hasp-guardian" and parent == run.pid
            ),
            None,
        ),
        10, "a guardian",
    )


def deputy_of(guardian):
    return wait_until(
        lambda: next(
            (
                pid for pid, (name, state, parent) in processes().items()
                if name == "hasp-guardian" and parent == guardian
            ),
            None,
        ),
        10, "a deputy",
    )


def state_of(pid):
    return processes().get(pid, ("", "Z", 0))[1]


def is_gone(pid):
    return state_of(pid) in "ZX"


def tokens_in(path):
    try:
        with open(path) as file:
            return [int(line.split()[0]) for line in file]
    except FileNotFoundError:
        return []


def wait_for_writes(path, count=20):
    before = len(tokens_in(path))
    wait_until(
        lambda: len(tokens_in(path)) >= before + count, 20, "lines of a writer"
    )


def writers_of(path):
    """The writers to a file that live."""
    found = []
    for pid in processes():
        try:
            with open("/proc/%d/cmdline" % pid, "rb") as file:
                words = file.read().split(b"\0")
        except OSError:
            continue
        if WRITER.encode() in words and path.encode() in words:
            found.append(pid)
    return found


class Relay:
    """One holder that writes, and the next one, which waits for the lock and
    then writes, too. 'orphan' starts the writer in a session of its own, or as
    it says."""

    def __init__(self, cluster, tmp_path, how, *options, orphan=False,
                 writer=None):
        self.cluster, self.path = cluster, str(tmp_path / "out")
        self.name = "relay-%s" % os.path.basename(str(tmp_path))
        script = [sys.executable, "-c", writer or WRITER, self.path]
        if orphan:
            how_to = "setsid" if orphan is True else orphan
            script = [
                "sh", "-c", how_to + ' "$@" & sleep 60', "sh"
            ] + script
        self.first = start(
            cluster, "run", "--ttl", "%dms" % (TTL_S * 1000), "--on-lost",
            how, *options, self.name, *script, stderr=subprocess.DEVNULL
        )
        wait_for_writes(self.path)
        self.guardian = guardian_of(self.first)
        self.token = tokens_in(self.path)[0]
        self.next = start(
            cluster, "run", "--ttl", "%dms" % (TTL_S * 1000), "--on-lost",
            how, self.name, sys.executable, "-c", WRITER, self.path,
            stderr=subprocess.DEVNULL
        )
        wait_until(
            lambda: len(ask_json(cluster, "show", self.name)["queue"]) == 1,
            10, "the next one in the queue",
        )

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        end(self.first)
        end(self.next)
        if kind is not None:
            for pid in writers_of(self.path):
                os.kill(pid, signal.SIGKILL)
        wait_until(
            lambda: not writers_of(self.path), 10, "the writers have ended"
        )

    def check_handed_over(self):
        """The next one has written; nothing of the first comes after it."""
        wait_until(
            lambda: max(tokens_in(self.path)) > self.token, 75,
            "the next one writes",
        )
        wait_for_writes(self.path, 200)
        tokens = tokens_in(self.path)
        assert len(set(tokens)) == 2
        assert tokens == sorted(tokens), "the first wrote after the next"


# --- The command is stopped before the lock passes on -----------------------


@pytest.mark.parametrize("how", STOPPING)
def test_stopped_run_command_is_killed_before_the_next_grant(
    cluster, tmp_path, how
):
    with Relay(cluster, tmp_path, how) as relay:
        relay.first.send_signal(signal.SIGSTOP)
        relay.check_handed_over()
        relay.first.send_signal(signal.SIGCONT)
        assert relay.first.wait(10) == 79
        assert is_gone(relay.guardian)


@pytest.mark.parametrize("how", STOPPING)
def test_killed_run_command_is_killed_before_the_next_grant(
    cluster, tmp_path, how
):
    with Relay(cluster, tmp_path, how) as relay:
        relay.first.kill()
        relay.check_handed_over()
        wait_until(lambda: is_gone(relay.guardian), 5, "the guardian ends")


@pytest.mark.parametrize("how", STOPPING)
def test_a_killed_run_with_linger_loses_its_lock_at_once_but_after_its_command(
    cluster, tmp_path, how
):
    with Relay(cluster, tmp_path, how, "--ttl", "60s", "--linger", "2s") as (
        relay
    ):
        before = time.monotonic()
        relay.first.kill()
        relay.check_handed_over()
        assert time.monotonic() - before < 20, "not after the TTL of 60 s"


@pytest.mark.parametrize("how", STOPPING)
def test_blacklisted_command_is_stopped_before_the_next_grant(
    cluster, tmp_path, how
):
    with Relay(cluster, tmp_path, how) as relay:
        session = ask_json(cluster, "show", relay.name)["holders"][0]["session"]
        assert hasp(
            cluster, "blacklist", "add", "--session", session
        ).returncode == 0
        relay.check_handed_over()
        assert relay.first.wait(10) == 79


@pytest.mark.parametrize("how", STOPPING)
def test_paused_cluster_the_command_is_stopped_in_time(whole, tmp_path, how):
    with Relay(whole, tmp_path, how) as relay:
        for node in whole.nodes:
            node.pause()
        time.sleep(TTL_S)
        assert relay.first.wait(15) == 79
        count = len(tokens_in(relay.path))
        for node in whole.nodes:
            node.resume()
        relay.check_handed_over()
        assert tokens_in(relay.path)[count - 1] == relay.token


@pytest.mark.parametrize("how", STOPPING)
def test_killed_leader_does_not_let_two_write(whole, tmp_path, how):
    """The lock is still held, or its command has ended: both are right."""
    with Relay(whole, tmp_path, how, "--ttl", "10s") as relay:
        whole.leader().kill()
        wait_for_writes(relay.path, 500)
        assert set(tokens_in(relay.path)) == {relay.token}
        relay.first.send_signal(signal.SIGSTOP)
        relay.check_handed_over()


@pytest.mark.parametrize("orphan", [False, True])
@pytest.mark.parametrize("run,guardian", [
    ("KILL", "KILL"), ("STOP", "STOP"), ("STOP", "KILL"), ("KILL", "STOP"),
])
def test_run_and_its_guardian_are_hit_together(
    cluster, tmp_path, run, guardian, orphan
):
    """The guardian's deputy is left."""
    with Relay(cluster, tmp_path, "kill", orphan=orphan) as relay:
        deputy = deputy_of(relay.guardian)
        os.kill(relay.guardian, getattr(signal, "SIG" + guardian))
        os.kill(relay.first.pid, getattr(signal, "SIG" + run))
        try:
            relay.check_handed_over()
            wait_until(lambda: is_gone(deputy), 5, "the deputy ends")
        finally:
            if guardian == "STOP":
                os.kill(relay.guardian, signal.SIGCONT)
        wait_until(lambda: is_gone(relay.guardian), 5, "the guardian ends")
        relay.first.send_signal(signal.SIGCONT)
        assert relay.first.wait(10) == (79 if run == "STOP" else -9)


def test_run_and_all_guardians_are_killed_the_kernel_ends_the_command(
    cluster, tmp_path
):
    with Relay(cluster, tmp_path, "kill") as relay:
        for pid in (deputy_of(relay.guardian), relay.guardian):
            os.kill(pid, signal.SIGKILL)
        relay.first.kill()
        relay.check_handed_over()


def test_a_stopped_run_ends_a_writer_that_left_the_group(cluster, tmp_path):
    with Relay(cluster, tmp_path, "kill", orphan=True) as relay:
        relay.first.send_signal(signal.SIGSTOP)
        relay.check_handed_over()
        relay.first.send_signal(signal.SIGCONT)
        assert relay.first.wait(10) == 79


def test_a_killed_run_ends_a_writer_that_left_the_group(cluster, tmp_path):
    with Relay(cluster, tmp_path, "kill", orphan=True) as relay:
        relay.first.kill()
        relay.check_handed_over()


def test_a_killed_run_ends_a_writer_that_left_all_behind(cluster, tmp_path):
    """Another session, no environment, and no parent: the guardian has seen it
    before."""
    with Relay(
        cluster, tmp_path, "kill", orphan='env -i HASP_TOKEN=$HASP_TOKEN setsid'
    ) as relay:
        time.sleep(1)
        relay.first.kill()
        relay.check_handed_over()


def test_a_stopped_run_and_a_stopped_group_change_nothing(cluster, tmp_path):
    """The terminal or a job control shell stops a group: not the guardian."""
    with Relay(
        cluster, tmp_path, "kill", orphan=True
    ) as relay:
        assert os.getpgid(relay.guardian) == relay.guardian
        assert os.getsid(relay.guardian) == relay.guardian
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP,
                       signal.SIGTSTP, signal.SIGPIPE, signal.SIGUSR1):
            os.kill(relay.guardian, number)
        relay.first.send_signal(signal.SIGSTOP)
        relay.check_handed_over()


def test_a_hold_with_a_limit_is_stopped_before_it(cluster, tmp_path):
    with Relay(
        cluster, tmp_path, "kill", "--ttl", "10s", "--hold", "2s"
    ) as relay:
        relay.check_handed_over()
        assert relay.first.wait(10) == 79


def test_ignore_lets_the_command_go_on(cluster):
    run = start(
        cluster, "run", "--ttl", "500ms", "--on-lost", "ignore", "ignored",
        "sh", "-c", "echo up; read line; echo on; exit 3",
        stdin=subprocess.PIPE,
    )
    try:
        assert run.stdout.readline() == "up\n"
        run.send_signal(signal.SIGSTOP)
        # Somebody else gets it meanwhile.
        assert hasp(cluster, "run", "ignored", "true").returncode == 0
        run.send_signal(signal.SIGCONT)
        run.stdin.write("\n")
        run.stdin.flush()
        assert run.stdout.readline() == "on\n"
        assert run.wait(10) == 3
    finally:
        end(run)


def test_a_lock_that_came_and_went_while_we_stood_still_starts_nothing(
    cluster
):
    """It is queued for again: the command runs once, under a later hold."""
    first = start(cluster, "run", "late", "sh", "-c", "echo up; sleep 60")
    second = None
    try:
        assert first.stdout.readline() == "up\n"
        second = start(
            cluster, "run", "--ttl", "3s", "late", "sh", "-c",
            "echo $HASP_TOKEN",
        )
        assert "held by" in second.stderr.readline()
        time.sleep(0.5)  # It asks again, and then waits.
        second.send_signal(signal.SIGSTOP)
        first.terminate()
        assert first.wait(10) == 143
        missed = wait_until(
            lambda: ask_json(cluster, "show", "late")["holders"], 5,
            "it was granted to the stopped one",
        )[0]["token"]
        wait_until(
            lambda: not ask_json(cluster, "show", "late")["holders"], 10,
            "it has expired",
        )
        second.send_signal(signal.SIGCONT)
        assert second.wait(10) == 0
        assert int(second.stdout.read()) > missed
        assert "queueing again" in second.stderr.read()
    finally:
        end(first)
        if second is not None:
            end(second)


@pytest.mark.parametrize("after", [0, 1, 4])
def test_who_waits_outlasts_an_outage_longer_than_its_lease(whole, after):
    """All nodes are stopped: the wait continues, and its command runs to its
    end soon after they are back."""
    first = start(whole, "run", "--ttl", "1s", "outage", "sh", "-c",
                  "echo up; sleep 60")
    second = None
    try:
        assert first.stdout.readline() == "up\n"
        second = start(whole, "run", "--ttl", "1s", "outage", "sh", "-c",
                       "sleep 0.5; exit 4")
        assert "held by" in second.stderr.readline()
        for node in whole.nodes:
            node.pause()
        assert first.wait(15) == 79
        time.sleep(after)
        for node in whole.nodes:
            node.resume()
        before = time.monotonic()
        assert second.wait(60) == 4
        assert time.monotonic() - before < 20
    finally:
        end(first)
        if second is not None:
            end(second)


@pytest.mark.parametrize("role", ["leader", "follower"])
def test_a_paused_node_holds_up_neither_the_wait_nor_the_giving_back(
    whole, role
):
    """Both are at the first node; with a TTL of 5 s a heartbeat shows after 2 s
    that it is silent."""
    leader = whole.leader()
    silent = leader if role == "leader" else whole.followers(leader)[0]
    order = [silent] + [n for n in whole.nodes if n is not silent]
    nodes = ",".join("127.0.0.1:%d" % n.client_port for n in order)
    runs = []
    try:
        for script in ("echo up; read line", "echo up; exit 4"):
            runs.append(start(
                whole, "-e", nodes, "run", "--ttl", "5s", "silent", "sh", "-c",
                script, stdin=subprocess.PIPE,
            ))
            if len(runs) == 1:
                assert runs[0].stdout.readline() == "up\n"
        assert "held by" in runs[1].stderr.readline()
        time.sleep(0.2)  # It asks again, and then waits.
        silent.pause()
        before = time.monotonic()
        runs[0].stdin.write("\n")
        runs[0].stdin.flush()
        assert runs[0].wait(30) == 0
        assert runs[1].wait(30) == 4
        assert time.monotonic() - before < 10, "not after 15 s of silence"
    finally:
        silent.resume()
        for run in runs:
            end(run)


# --- The guardian -----------------------------------------------------------


def test_a_run_that_stood_still_but_not_too_long_goes_on(cluster):
    run = start(
        cluster, "run", "--ttl", "10s", "briefly", "sh", "-c",
        "echo up; read line; exit 4", stdin=subprocess.PIPE,
    )
    try:
        assert run.stdout.readline() == "up\n"
        run.send_signal(signal.SIGSTOP)
        time.sleep(1)
        run.send_signal(signal.SIGCONT)
        run.stdin.close()
        assert run.wait(10) == 4
    finally:
        run.stdin = None
        end(run)


def test_a_stopped_run_in_jeopardy_freezes_and_goes_on_when_safe(cluster):
    """With linger the lease is in jeopardy long before it is lost."""
    run = start(
        cluster, "run", "--ttl", "20s", "--linger", "500ms", "--on-lost",
        "freeze", "icy", sys.executable, "-u", "-c",
        "import os, time\nprint(os.getpid())\n"
        "while True: time.sleep(0.05)\n",
    )
    try:
        pid = int(run.stdout.readline())
        run.send_signal(signal.SIGSTOP)
        wait_until(lambda: state_of(pid) == "T", 5, "the command is frozen")
        time.sleep(0.5)
        run.send_signal(signal.SIGCONT)
        wait_until(lambda: state_of(pid) != "T", 5, "it continues")
        time.sleep(0.8)
        assert not is_gone(pid) and run.poll() is None
    finally:
        end(run)


@pytest.mark.parametrize("how", STOPPING)
def test_a_command_whose_guardian_was_killed_is_stopped(cluster, how):
    run = start(
        cluster, "run", "--ttl", "4s", "--on-lost", how, "alone", "sleep", "60"
    )
    try:
        os.kill(guardian_of(run), signal.SIGKILL)
        before = time.monotonic()
        assert run.wait(10) == 79
        assert time.monotonic() - before < 3
        assert "guardian" in run.stderr.read()
        assert ask_json(cluster, "show", "alone")["holders"] == []
    finally:
        end(run)


def test_a_command_whose_guardian_lost_its_deputy_is_stopped(cluster):
    run = start(cluster, "run", "--on-lost", "kill", "half", "sleep", "60")
    try:
        guardian = guardian_of(run)
        os.kill(deputy_of(guardian), signal.SIGKILL)
        assert run.wait(10) == 79
        assert "guardian" in run.stderr.read()
        assert is_gone(guardian)
    finally:
        end(run)


def open_files(pid):
    """One that is closed meanwhile (they look into /proc) does not count."""
    found = set()
    for fd in os.listdir("/proc/%d/fd" % pid):
        with contextlib.suppress(FileNotFoundError):
            found.add(os.readlink("/proc/%d/fd/%s" % (pid, fd)))
    return found


def test_the_guardian_holds_no_pipe_and_ends_with_the_command(cluster):
    run = start(cluster, "run", "tidy", "sh", "-c", "echo out; sleep 0.5")
    try:
        guardian = guardian_of(run)
        deputy = deputy_of(guardian)
        files = open_files(guardian) | open_files(deputy)
        assert not any("socket" in file for file in files), files
        assert run.stdout.read() == "out\n"  # Until the end of file.
        assert run.wait(10) == 0
        assert is_gone(guardian) and is_gone(deputy)
    finally:
        end(run)


def test_what_a_command_left_running_lives_on_after_a_good_end(cluster):
    result = hasp(
        cluster, "run", "daemon", "sh", "-c",
        "sleep 60 >/dev/null 2>&1 & echo $!",
    )
    pid = int(result.stdout)
    assert result.returncode == 0 and not is_gone(pid)
    os.kill(pid, signal.SIGKILL)


# --- What passes through ----------------------------------------------------


def test_status_and_streams_pass_through(cluster):
    for script, status in [("exit 0", 0), ("exit 7", 7), ("kill -9 $$", 137),
                           ("kill -USR1 $$", 138)]:
        assert hasp(
            cluster, "run", "status", "sh", "-c", script
        ).returncode == status
    result = hasp(cluster, "run", "status", "cat", input="a\nb")
    assert (result.stdout, result.returncode) == ("a\nb", 0)
    assert hasp(cluster, "run", "status", "/no/such").returncode == 127
    assert hasp(cluster, "run", "status", "/etc").returncode == 126


def test_a_second_name_before_the_dashes_is_explained(cluster):
    result = hasp(cluster, "run", "one", "two", "--", "true")
    assert result.returncode == 127
    assert ("cannot run 'two': No such file or directory; if it is a second "
            "lock: hasp run NAME --with two -- COMMAND") in result.stderr
    result = hasp(cluster, "run", "one", "--with", "two", "--", "true")
    assert (result.returncode, result.stderr) == (0, "")


@pytest.mark.parametrize("name", ["TERM", "INT", "HUP", "QUIT", "USR1", "USR2"])
def test_signals_reach_the_command(cluster, name):
    run = start(
        cluster, "run", "signals", sys.executable, "-u", "-c",
        "import signal, sys, time\n"
        "signal.signal(signal.SIG%s, lambda *_: sys.exit(33))\n"
        "print('up')\n"
        "while True: time.sleep(0.05)\n" % name,
    )
    try:
        assert run.stdout.readline() == "up\n"
        run.send_signal(getattr(signal, "SIG" + name))
        assert run.wait(10) == 33
    finally:
        end(run)


def test_a_forwarded_stop_and_continue_reach_the_command(cluster):
    run = start(
        cluster, "run", "--ttl", "20s", "job", sys.executable, "-u", "-c",
        "import os, time\nprint(os.getpid())\n"
        "while True: time.sleep(0.05)\n",
    )
    try:
        pid = int(run.stdout.readline())
        run.send_signal(signal.SIGTSTP)
        wait_until(lambda: state_of(pid) == "T", 5, "the command stops")
        wait_until(lambda: state_of(run.pid) == "T", 5, "hasp run stops")
        run.send_signal(signal.SIGCONT)
        wait_until(lambda: state_of(pid) != "T", 5, "the command continues")
    finally:
        end(run)


class Terminal:
    """A session with a terminal in which a shell with job control runs."""

    def __init__(self, cluster):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            # A test run in the background of a script inherits them ignored.
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            signal.signal(signal.SIGQUIT, signal.SIG_DFL)
            os.execvpe(
                "bash", ["bash", "--norc", "--noprofile", "-i"],
                environment(PS1="ready> ", HASP=HASP, TERM="dumb",
                            HASP_ENDPOINTS=endpoints(cluster)),
            )
        self.seen = ""
        self.expect("ready> ")

    def expect(self, what, timeout=15):
        by = time.monotonic() + timeout
        while what not in self.seen:
            assert time.monotonic() < by, (what, self.seen)
            if select.select([self.fd], [], [], 0.1)[0]:
                self.seen += os.read(self.fd, 4096).decode()
        before, _, self.seen = self.seen.partition(what)
        return before

    def type(self, text):
        os.write(self.fd, text.encode())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.close(self.fd)
        by = time.monotonic() + 5
        while os.waitpid(self.pid, os.WNOHANG)[0] == 0:
            if time.monotonic() > by:
                os.kill(self.pid, signal.SIGKILL)
            time.sleep(0.02)


def test_the_command_has_the_terminal_and_its_keys(cluster):
    with Terminal(cluster) as terminal:
        terminal.type("$HASP run tty sh -c 'read a; echo got-$a; exit 5'\n")
        wait_until(
            lambda: ask_json(cluster, "show", "tty")["holders"], 10, "the hold"
        )
        terminal.type("word\n")
        terminal.expect("got-word")
        terminal.expect("ready> ")
        terminal.type("echo status-$?\n")
        terminal.expect("status-5")
        # Ctrl-C goes to the command alone; hasp reports how it ended. (Not a
        # shell: dash may miss the signal between two commands.)
        terminal.type("$HASP run tty sleep 60\n")
        wait_until(
            lambda: ask_json(cluster, "show", "tty")["holders"], 10, "the hold"
        )
        time.sleep(0.3)
        terminal.type("\x03")
        terminal.expect("ready> ")
        terminal.type("echo status-$?\n")
        terminal.expect("status-130")
        assert ask_json(cluster, "show", "tty")["holders"] == []


def test_job_control_stops_and_continues_the_whole(cluster):
    with Terminal(cluster) as terminal:
        terminal.type(
            "$HASP run --ttl 30s jobs sh -c "
            "'echo u\"\"p; read a; echo got-$a'\n"
        )
        terminal.expect("up\r\n")
        terminal.type("\x1a")
        terminal.expect("Stopped")
        terminal.expect("ready> ")
        terminal.type("echo shell-$((1 + 1))\n")
        terminal.expect("shell-2")
        terminal.type("fg\n")
        time.sleep(0.3)
        terminal.type("word\n")
        terminal.expect("got-word")
        terminal.expect("ready> ")


def test_in_a_pipeline_the_terminal_goes_to_who_asks(cluster):
    with Terminal(cluster) as terminal:
        terminal.type(
            "$HASP run pipe sh -c 'read a </dev/tty; echo got-$a' | cat\n"
        )
        wait_until(
            lambda: ask_json(cluster, "show", "pipe")["holders"], 10, "the hold"
        )
        time.sleep(0.3)
        terminal.type("word\n")
        terminal.expect("got-word")
        terminal.expect("ready> ")


# --- Waiting ----------------------------------------------------------------


def test_the_lock_is_given_back_at_the_commands_end_not_at_the_ttl(cluster):
    """Ten in a row with a TTL of 60 s: each gives it back when it ends."""
    before = time.monotonic()
    runs = [
        start(cluster, "run", "--ttl", "60s", "row", "true") for _ in range(10)
    ]
    assert [run.wait(30) for run in runs] == [0] * 10
    for run in runs:
        end(run)
    assert time.monotonic() - before < 20


def test_who_waits_is_told_who_holds_it_and_how_many_are_before(cluster):
    first = start(cluster, "run", "told", "sh", "-c", "echo up; sleep 60")
    others = []
    try:
        assert first.stdout.readline() == "up\n"
        for _ in range(2):
            others.append(start(cluster, "run", "told", "true"))
            line = others[-1].stderr.readline()
            assert "waiting for 'told', held by" in line
            assert ":%d (session " % first.pid in line
        assert "1 before us" in line
    finally:
        for run in [first] + others:
            end(run)


def test_the_time_of_a_wait_counts_as_a_whole(cluster):
    first = start(cluster, "run", "whole", "sh", "-c", "echo up; sleep 60")
    try:
        assert first.stdout.readline() == "up\n"
        before = time.monotonic()
        result = hasp(cluster, "run", "-w", "2", "whole", "true")
        assert result.returncode == 75 and "not free" in result.stderr
        assert 1.9 < time.monotonic() - before < 3.5
        assert hasp(cluster, "run", "-n", "whole", "true").returncode == 75
        assert hasp(
            cluster, "run", "-n", "-E", "9", "whole", "true"
        ).returncode == 9
        assert hasp(
            cluster, "run", "-w", "0.3", "-E", "9", "whole", "true"
        ).returncode == 9
        assert hasp(
            cluster, "-q", "run", "-n", "whole", "true"
        ).stderr == ""
    finally:
        end(first)


def test_a_terminated_wait_leaves_the_queue(cluster):
    first = start(cluster, "run", "left", "sh", "-c", "echo up; sleep 60")
    second = None
    try:
        assert first.stdout.readline() == "up\n"
        second = start(cluster, "run", "left", "true")
        assert "held by" in second.stderr.readline()
        second.send_signal(signal.SIGINT)
        assert second.wait(10) == 130
        assert ask_json(cluster, "show", "left")["queue"] == []
    finally:
        end(first)
        if second is not None:
            end(second)


def test_an_interrupted_hasp_acquire_leaves_the_queue_too(cluster):
    first = start(cluster, "run", "left-2", "sh", "-c", "echo up; sleep 60")
    second = None
    try:
        assert first.stdout.readline() == "up\n"
        second = start(cluster, "acquire", "-w", "60", "left-2")
        assert "held by" in second.stderr.readline()
        second.send_signal(signal.SIGINT)
        assert second.wait(10) == 130
        assert second.stdout.read() == ""
        assert ask_json(cluster, "show", "left-2")["queue"] == []
    finally:
        end(first)
        if second is not None:
            end(second)


def test_slots_and_shared_let_so_many_in(cluster):
    held = []
    try:
        for options, count in ((["--slots", "2"], 2), (["-s"], 3)):
            name = "many" + options[0]
            for _ in range(count):
                held.append(start(
                    cluster, "run", *options, name, "sh", "-c",
                    "echo up; sleep 60",
                ))
                assert held[-1].stdout.readline() == "up\n"
            assert hasp(cluster, "run", "-n", name, "true").returncode != 0
            again = hasp(cluster, "run", "-n", *options, name, "true")
            assert again.returncode == (75 if options[0] == "--slots" else 0)
        assert hasp(
            cluster, "run", "-s", "--slots", "2", "x", "true"
        ).returncode == 64
    finally:
        for run in held:
            end(run)


# --- Inside each other ------------------------------------------------------


def nested(cluster, outer, inner, timeout=30):
    return subprocess.run(
        command(cluster, *outer) + command(cluster, *inner), encoding="utf-8",
        capture_output=True, timeout=timeout, env=environment(),
    )


@pytest.mark.parametrize("outer,inner", [
    ([], []), ([], ["-s"]), (["-s"], []), (["--slots", "1"], ["--slots", "1"]),
])
def test_a_nested_run_does_not_wait_for_itself(cluster, outer, inner):
    name = "nest" + "".join(outer + inner)
    result = nested(
        cluster, ["run"] + outer + [name], ["run"] + inner + [name, "true"]
    )
    assert result.returncode == 64
    assert "'%s' is held by the 'hasp run' around this one" % name in (
        result.stderr
    )
    result = nested(
        cluster, ["run"] + outer + [name],
        ["run", "-n"] + inner + [name, "true"],
    )
    assert result.returncode == 75


def test_a_nested_run_is_seen_through_another_in_between(cluster):
    result = subprocess.run(
        command(cluster, "run", "a b%")
        + command(cluster, "run", "between")
        + command(cluster, "run", "a b%", "true"),
        encoding="utf-8", capture_output=True, timeout=30, env=environment(),
    )
    assert result.returncode == 64 and "'a b%' is held" in result.stderr
    assert nested(
        cluster, ["run", "a"], ["run", "b", "sh", "-c", "exit 6"]
    ).returncode == 6


def test_a_shared_run_inside_a_shared_one_does_not_wait_for_a_writer(cluster):
    assert nested(
        cluster, ["run", "-s", "rec"], ["run", "-s", "rec", "sh", "-c", "exit 6"]
    ).returncode == 6
    outer = start(
        cluster, "run", "-s", "rec", "sh", "-c",
        'echo up; read line; exec "$@"', "sh",
        *command(cluster, "run", "-s", "rec", "true"), stdin=subprocess.PIPE
    )
    writer = None
    try:
        assert outer.stdout.readline() == "up\n"
        writer = start(cluster, "run", "rec", "true")
        assert "held by" in writer.stderr.readline()
        outer.stdin.write("\n")
        outer.stdin.flush()
        assert outer.wait(15) == 64
        assert "would wait forever" in outer.stderr.read()
        assert writer.wait(15) == 0
    finally:
        end(outer)
        if writer is not None:
            end(writer)


def test_slots_may_nest_while_some_are_left(cluster):
    assert nested(
        cluster, ["run", "--slots", "2", "nslots"],
        ["run", "--slots", "2", "nslots", "true"],
    ).returncode == 0


def test_an_environment_that_is_out_of_date_refuses_nothing(cluster):
    made = hasp(cluster, "run", "stale", "sh", "-c", "echo $HASP_RUNS")
    assert re.match(r"\d+\.\d+:x:0:\d+:\d+:stale$", made.stdout)
    later = subprocess.run(
        command(cluster, "run", "stale", "true"), timeout=30,
        env=environment(HASP_RUNS=made.stdout.strip()),
    )
    assert later.returncode == 0


def test_a_lost_outer_lock_ends_the_inner_command_too(cluster, tmp_path):
    path = str(tmp_path / "out")
    outer = start(
        cluster, "run", "--ttl", "1s", "--on-lost", "kill", "outer",
        *command(cluster, "run", "inner", sys.executable, "-c", WRITER, path),
        stderr=subprocess.DEVNULL
    )
    try:
        wait_for_writes(path)
        outer.send_signal(signal.SIGSTOP)
        assert hasp(cluster, "run", "outer", "true").returncode == 0
        count = len(tokens_in(path))
        time.sleep(0.3)
        assert len(tokens_in(path)) == count
    finally:
        end(outer)
