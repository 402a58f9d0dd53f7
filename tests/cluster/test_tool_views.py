# SPDX-License-Identifier: MIT
"""The views that the tool repeats for a running cluster (top, bench), and the
texts that it makes from its own table of subcommands (manual, completion).

The programs under test are $HASPD and $HASP (default: build/release/...)."""

import fcntl
import json
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import termios
import time

import pytest

from cluster import ROOT, Cluster, Session, wait_until
from fake_node import FakeNode, Raw, push

HASP = os.path.abspath(
    os.environ.get("HASP", os.path.join(ROOT, "build", "release", "hasp"))
)


@pytest.fixture(scope="module", name="cluster")
def cluster_():
    with Cluster() as cluster:
        cluster.leader()
        yield cluster


@pytest.fixture(scope="module")
def endpoints(cluster):
    return ",".join("127.0.0.1:%d" % n.client_port for n in cluster.nodes)


def environment(**more):
    clean = {
        k: v for k, v in os.environ.items()
        if not k.startswith("HASP_") and k != "NO_COLOR"
    }
    clean.update(LC_ALL="C.UTF-8", TERM="xterm")
    clean.update(more)
    return clean


def hasp(endpoints, *words, **more):
    return subprocess.run(
        [HASP, "-e", endpoints] + list(words), capture_output=True,
        encoding="utf-8", timeout=60, env=environment(**more),
    )


class Screen:
    """The tool on a terminal of 80 x 40. Text is what it wrote."""

    def __init__(self, endpoints, *words, **more):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execve(
                HASP, ["hasp", "-e", endpoints] + list(words),
                environment(**more),
            )
        fcntl.ioctl(
            self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 80, 0, 0)
        )
        self.text = ""
        self.status = None

    def read(self, seconds=0.1):
        if select.select([self.fd], [], [], seconds)[0]:
            try:
                self.text += os.read(self.fd, 65536).decode()
            except OSError:
                return False
        return True

    def expect(self, what, timeout=15):
        """Reads until the pattern is there; forgets all up to its end."""
        by = time.monotonic() + timeout
        while not (found := re.search(what, self.text, re.S)):
            assert time.monotonic() < by, (what, self.text)
            self.read()
        self.text = self.text[found.end():]
        return found.group(0)

    def press(self, key):
        os.write(self.fd, key.encode())

    def wait(self, timeout=10):
        by = time.monotonic() + timeout
        while self.status is None:
            self.read(0.02)
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.status = os.waitstatus_to_exitcode(status)
            assert time.monotonic() < by, self.text
        while self.read(0) and select.select([self.fd], [], [], 0)[0]:
            pass
        return self.status

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.status is None:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self.fd)


class Held:
    """A lock held by one command and waited for by another."""

    def __init__(self, endpoints, name):
        self.runs = []
        for _ in range(2):
            self.runs.append(subprocess.Popen(
                [HASP, "-q", "-e", endpoints, "run", name, "sleep", "60"],
                env=environment(),
            ))
            wait_until(lambda: self.count(endpoints, name) == len(self.runs),
                       10, "holder and waiter")

    @staticmethod
    def count(endpoints, name):
        lock = json.loads(hasp(endpoints, "-o", "json", "show", name).stdout)
        return len(lock["holders"]) + len(lock["queue"])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for run in self.runs:
            run.terminate()
        for run in self.runs:
            run.wait(10)


# --- top --------------------------------------------------------------------


def test_top_repeats_plain_output_where_there_is_no_terminal(endpoints):
    with Held(endpoints, "plain"):
        result = hasp(endpoints, "top", "-n", "2", "-i", "200ms")
    assert result.returncode == 0 and result.stderr == ""
    assert result.stdout.count("hasp top ") == 2
    for part in ("Hottest locks", "Longest waits", "Sessions"):
        assert result.stdout.count(part) == 2
    assert "\033" not in result.stdout
    assert re.search(r"^plain +\d+ exclusive +1 +1 ", result.stdout, re.M)
    assert "Longest waits (1)" in result.stdout


def test_tables_name_the_users_of_sessions_holders_and_waiters(endpoints):
    with Held(endpoints, "whose"):
        pictures = {
            words: hasp(endpoints, *words).stdout
            for words in (("top", "-n", "1"), ("show", "whose"),
                          ("session", "list"))
        }
    for words, heads in (
        (("top", "-n", "1"), ("HELD BY +USER", "WHO +USER", "NAME +USER")),
        (("show", "whose"), ("CLIENT +USER +ADDRESS", "CLIENT +USER +OWNER")),
        (("session", "list"), ("NAME +USER +ADDRESS",)),
    ):
        for head in heads:
            assert re.search(head, pictures[words]), (words, head)
        assert pictures[words].count(" anyone ") >= len(heads), words


def test_top_counts_the_grants_of_the_hottest_lock(endpoints):
    bench = subprocess.Popen(
        [HASP, "-e", endpoints, "bench", "-c", "1", "-s", "3", "--prefix",
         "hot/"],
        stdout=subprocess.PIPE, env=environment(),
    )
    result = hasp(endpoints, "-o", "json", "top", "-n", "3", "-i", "500ms")
    looks = [json.loads(line) for line in result.stdout.splitlines()]
    bench.communicate(timeout=20)
    assert len(looks) == 3
    hottest = looks[-1]["locks"][0]
    assert hottest["name"] == "hot/0" and hottest["grants_per_second"] > 5
    assert hasp(endpoints, "top", "-n", "0").returncode == 64
    assert hasp(endpoints, "top", "-i", "1ms").returncode == 64


def test_top_obeys_its_keys_and_leaves_the_terminal_as_it_was(endpoints):
    with Held(endpoints, "keys"), Screen(
        endpoints, "top", "-i", "200ms"
    ) as top:
        top.expect(r"Hottest locks.*keys.*Longest waits.*Sessions")
        # s: one part after the other, then all of them again.
        for there, gone in (("Hottest", "Sessions"), ("Longest", "Hottest"),
                            ("Sessions", "Longest")):
            top.press("s")
            top.expect(there)
            top.expect(r"\033\[H")
            picture = top.expect(r"hasp top.*?\033\[H")
            assert there in picture and gone not in picture
        top.press("s")
        top.expect(r"Hottest locks.*Sessions")
        # p: nothing moves until p again.
        top.press("p")
        top.expect(r"\[paused\].*Sessions")
        time.sleep(0.3)
        top.read()
        top.text = ""
        for _ in range(5):
            top.read()
        assert top.text == ""
        top.press("p")
        top.expect(r"hasp top.*hasp top")
        top.press("q")
        assert top.wait() == 0
        assert top.text.endswith("\033[?7h\033[?25h\033[?1049l")
        mode = termios.tcgetattr(top.fd)[3]
        assert mode & termios.ECHO and mode & termios.ICANON


def test_top_fits_60_columns_shows_the_cluster_and_has_help(endpoints):
    with Held(endpoints, "long/" * 20), Screen(
        endpoints, "top", "-i", "200ms"
    ) as top:
        fcntl.ioctl(
            top.fd, termios.TIOCSWINSZ, struct.pack("HHHH", 20, 60, 0, 0)
        )
        os.kill(top.pid, signal.SIGWINCH)
        top.expect(r"Sessions.*\033\[H")  # It may be of before.
        top.expect(r"\033\[J.*?\033\[H")
        picture = top.expect(r"hasp top.*?\033\[J")
        assert re.search(r"3 of 3 up, leader \d, can lose 1  \?: help", picture)
        lines = re.sub(r"\033\[[?0-9;]*[A-Za-z]", "", picture).splitlines()
        assert len(lines) <= 20 and max(map(len, lines)) <= 60, lines
        assert any(line.startswith("long/") for line in lines)
        for part in ("Hottest locks", "Longest waits", "Sessions"):
            assert part in picture
        top.press("?")
        assert "Hottest" not in top.expect(r"q  quit.*?\033\[J")
        top.press("?")
        top.expect("Hottest locks")
        top.press("q")
        assert top.wait() == 0


def test_a_table_fits_the_terminal_and_is_whole_elsewhere(endpoints):
    name = "wide/" * 30
    with Held(endpoints, name):
        with Screen(endpoints, "list", "wide") as table:
            assert table.wait() == 0
            lines = re.sub(r"\033\[[0-9;]*m", "", table.text).splitlines()
            assert len(lines) == 2 and max(map(len, lines)) <= 80
        assert name in hasp(endpoints, "list", "wide").stdout


def test_top_puts_the_terminal_back_when_a_signal_ends_it(endpoints):
    with Screen(endpoints, "top", "-i", "200ms") as top:
        top.expect(r"Sessions")
        top.press("\x03")
        assert top.wait() == 130
        assert top.text.endswith("\033[?1049l")
        assert termios.tcgetattr(top.fd)[3] & termios.ECHO


def fits(top, lines):
    """Whether the next picture of hasp top has this number of lines."""
    picture = top.expect(r"hasp top.*?\033\[J")
    # A lock of an earlier test is hot for ten seconds.
    is_row = re.search(r"^(small|hot/0) ", picture, re.M) is not None
    return picture.count("\n") < min(lines, 40) and is_row == (lines > 4)


def test_top_keeps_its_top_in_a_window_of_any_size(endpoints):
    """Lines that do not fit are cut: nothing scrolls. Pictures of before the
    change of the window may come first."""
    with Held(endpoints, "small"), Screen(
        endpoints, "top", "-i", "100ms"
    ) as top:
        for lines, columns in ((5, 20), (1, 1), (2, 80), (100, 300)):
            fcntl.ioctl(
                top.fd, termios.TIOCSWINSZ,
                struct.pack("HHHH", lines, columns, 0, 0),
            )
            os.kill(top.pid, signal.SIGWINCH)
            wait_until(lambda: fits(top, lines), 15, "a picture that fits")
            assert fits(top, lines) and fits(top, lines)
        top.press("q")
        assert top.wait() == 0


def test_top_without_a_cluster_says_so_and_exits_69():
    result = hasp("127.0.0.1:1", "-t", "500ms", "top", "-n", "1")
    assert result.returncode == 69 and "no node answers" in result.stderr


# --- bench ------------------------------------------------------------------


def test_bench_measures_cycles_and_leaves_nothing_behind(endpoints):
    result = hasp(
        endpoints, "-o", "json", "bench", "-c", "4", "-s", "1", "-l", "2"
    )
    assert result.returncode == 0, result.stderr
    told = json.loads(result.stdout)
    assert (told["clients"], told["locks"], told["errors"]) == (4, 2, 0)
    assert told["cycles"] > 10
    assert 1 <= told["seconds"] < 30
    assert 0 < told["p50_us"] <= told["p99_us"] <= told["max_us"]
    assert result.stderr == "", "progress is for terminals"
    locks = json.loads(hasp(endpoints, "-o", "json", "list", "bench/").stdout)
    assert locks == []
    assert hasp(endpoints, "bench", "-c", "0").returncode == 64
    assert hasp(endpoints, "bench", "-c", "9999").returncode == 64


def test_bench_by_a_schedule_begins_what_is_due(endpoints):
    """However slow the machine is: each cycle that was due was begun, or is
    reported as missed."""
    bench = ("-o", "json", "bench", "-c", "4", "-s", "1")
    result = hasp(endpoints, *bench, "--rate", "50")
    told = json.loads(result.stdout)
    assert (told["load"], told["cycles"] + told["missed"]) == ("50/s", 50)
    result = hasp(endpoints, *bench, "--shared")
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["cycles"] > 0
    result = hasp(endpoints, *bench, "--open-loop")
    assert result.returncode == 0, result.stderr
    told = json.loads(result.stdout)
    assert [one["load"] for one in told] == ["closed", "10 %", "50 %", "80 %"]
    for one, part in zip(told[1:], (10, 50, 80)):
        due = told[0]["cycles_per_second"] * part // 100
        assert one["cycles"] + one["missed"] == due
        assert 0 < one["p50_us"] <= one["p99_us"] <= one["p999_us"]
        assert one["p999_us"] <= one["max_us"]


def test_bench_shows_progress_on_a_terminal_and_may_be_interrupted(endpoints):
    with Screen(endpoints, "bench", "-c", "2", "-s", "60") as bench:
        bench.expect(r"\d+ of 60 s, \d+ cycles/s")
        bench.press("\x03")
        bench.expect(r"CYCLES/S")
        assert bench.wait() == 0


def test_what_takes_long_says_so_on_a_terminal(cluster, tmp_path):
    path = str(tmp_path / "backup")
    with Screen(cluster.nodes[0].dir, "snapshot", "save", path) as save:
        save.expect(r"\d+ of \d+ KiB")
        assert save.wait() == 0
    leader = {"node": 1, "role": "leader", "term": 1, "leader": 1,
              "members": []}
    with FakeNode(
        lambda words: leader if words == [b"RAFT.STATUS"] else "OK"
    ) as node:
        add = ("member", "add", "9", "127.0.0.1:1,127.0.0.1:2")
        for words, is_said in ((add, True), (add + ("--standby",), False)):
            with Screen(node.endpoint, *words) as adding:
                assert adding.wait() == 0
                assert ("until member 9 has" in adding.text) == is_said
        assert hasp(node.endpoint, *add).stderr == ""
    # It runs, and lags: the message must not say that it has to run.
    refusal = Exception("UNFINISHED member 9 is connected and a standby")
    with FakeNode(
        lambda words: leader if words == [b"RAFT.STATUS"] else refusal
    ) as node:
        slow = hasp(node.endpoint, *add)
        assert slow.returncode == 75 and "is connected and" in slow.stderr
        assert "has to run" not in slow.stderr


def test_bench_without_a_cluster_exits_69():
    result = hasp("127.0.0.1:1", "-t", "500ms", "bench", "-s", "1")
    assert result.returncode == 69 and "no node answers" in result.stderr


# --- Colours ----------------------------------------------------------------


def test_colours_are_for_terminals_and_not_under_no_color(endpoints):
    assert "\033" not in hasp(endpoints, "status").stdout
    for more, is_coloured in (({}, True), ({"NO_COLOR": "1"}, False),
                              ({"NO_COLOR": ""}, True),
                              ({"TERM": "dumb"}, False)):
        with Screen(endpoints, "status", **more) as status:
            assert status.wait() == 0
            assert "leader" in status.text
            assert ("\033[32m" in status.text) == is_coloured, more


# --- The manual and the completion ------------------------------------------


def subcommands():
    text = hasp("", "help").stdout
    return re.findall(r"^  ([a-z]+(?: [a-z]+)?)  +\S", text, re.M)


def test_the_manual_has_every_subcommand_with_every_option():
    page = hasp("", "help", "--man")
    assert page.returncode == 0
    text = page.stdout.replace("\\-", "-").replace("\\&", "")
    names = subcommands()
    assert len(names) > 25
    for name in names:
        assert '.SS "hasp %s' % name in text
        for option in re.findall(
            r"(?:^|\s)(--[a-z-]+)", hasp("", "help", *name.split()).stdout
        ):
            assert option in text
    for part in ("EXIT STATUS", "ENVIRONMENT", "guardian", "SEE ALSO"):
        assert part in text
    if shutil.which("groff"):
        check = subprocess.run(
            ["groff", "-man", "-Tutf8", "-ww"], input=page.stdout,
            capture_output=True, encoding="utf-8",
        )
        assert check.returncode == 0 and check.stderr == ""
        assert "people and scripts" in check.stdout


def complete(tmp_path, *words):
    """The completions that bash offers for the last of the words."""
    script = tmp_path / "hasp.bash"
    script.write_text(hasp("", "completion", "bash").stdout)
    return subprocess.run(
        ["bash", "-c",
         'source "$0"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _hasp; '
         'printf "%s\\n" "${COMPREPLY[@]}"', str(script), "hasp"]
        + list(words),
        capture_output=True, encoding="utf-8", check=True,
        env=environment(PATH="%s:%s" % (os.path.dirname(HASP),
                                        os.environ["PATH"])),
    ).stdout.split()


def test_the_completion_knows_words_options_and_commands(tmp_path):
    first = complete(tmp_path, "")
    assert {name.split()[0] for name in subcommands()} <= set(first)
    assert set(complete(tmp_path, "se")) == {"secret", "session", "setup"}
    assert set(complete(tmp_path, "session", "")) == {
        "close", "keep", "list", "show",
    }
    assert complete(tmp_path, "snapshot", "save", "--da") == ["--data"]
    assert complete(tmp_path, "-o", "json", "bench", "--cl") == ["--clients"]
    assert complete(tmp_path, "-o", "pl") == ["plain"]
    assert complete(tmp_path, "run", "--on-lost", "fr") == ["freeze"]
    assert complete(tmp_path, "run", "--gr") == ["--grace"]
    assert "bash" in complete(tmp_path, "run", "-n", "--ttl", "9s", "x", "bas")
    assert "bash" in complete(tmp_path, "run", "--ttl=9s", "x", "bas")
    assert "session" in complete(tmp_path, "help", "")
    assert complete(tmp_path, "help", "session", "l") == ["list"]
    assert complete(tmp_path, "completion", "") == ["bash", "zsh", "fish"]
    assert complete(tmp_path, "convert", "x", "--to", "s") == ["shared"]
    assert complete(tmp_path, "sess", "") == []
    assert hasp("", "completion", "csh").returncode == 64
    for shell in ("zsh", "fish"):
        script = hasp("", "completion", shell).stdout
        assert "hasp completion --words --" in script
        if shutil.which(shell):
            check = subprocess.run([shell, "-n"], input=script,
                                   capture_output=True, encoding="utf-8")
            assert check.returncode == 0 and check.stderr == ""


def test_what_others_have_written_gives_the_terminal_no_orders():
    evil = "\033]0;owned\007\u009b31m\nhasp: fine"
    lock = {
        "name": "a" + evil, "mode": "exclusive", "earliest_ms": 9,
        "holders": [{"session": 7, "owner": evil, "token": 1, "mode": evil,
                     "client": evil, "value": evil, "address": evil,
                     "since_ms": 1, "lease_left_ms": 9}],
        "queue": [{"session": 8, "owner": evil, "mode": evil, "client": evil,
                   "waiting_ms": 1}],
    }

    def answer(words):
        if words[0] == b"LOCK.SHOW":
            return lock
        if words[0] == b"LOCK.WATCH":
            event = {"lock": evil, "session": 7, "message": evil, "index": 1}
            return Raw(b"+OK\r\n" + push("lock", "please", event))
        return Exception("BADARG " + evil.split("\n")[0])

    with FakeNode(answer) as node:
        for words in (["show", "a"], ["why", "a"], ["watch", "-c", "1"],
                      ["-o", "plain", "show", "a"],
                      ["-o", "plain", "watch", "-c", "1"], ["check", "a", "1"]):
            result = hasp(node.endpoint, *words)
            told = result.stdout + result.stderr
            assert "owned" in told, words
            assert not re.search("[\0-\x08\x0b-\x1f\x7f-\x9f]", told), words
            assert "\nhasp: fine" not in told, words


def test_history_tells_what_has_happened_to_a_lock():
    with Cluster(1) as cluster:
        node = cluster.leader()
        endpoint = "127.0.0.1:%d" % node.client_port
        with node.connect() as client:
            Session(client, ttl=60000)
            token = client.do("LOCK.ACQUIRE", "a")
            client.do("LOCK.PLEASE", "a", "MESSAGE", "soon\x1b[31m?")
            client.do("LOCK.RELEASE", "a")
        told = json.loads(hasp(endpoint, "-o", "json", "history", "a").stdout)
        assert [one["kind"] for one in told] == ["granted", "please", "released"]
        assert told[0]["token"] == told[2]["token"] == token
        assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", told[0]["time"])
        table = hasp(endpoint, "history", "a", "--count", "2").stdout
        assert "released" in table and "granted" not in table
        assert "\x1b" not in table and "soon" in table
        assert "TRACE" not in table  # No event has one.
        trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
        with node.connect() as client:
            Session(client, ttl=60000)
            client.do("LOCK.ACQUIRE", "a", "TRACE", trace)
        table = hasp(endpoint, "history", "a").stdout
        assert "TRACE" in table and trace in table
        assert hasp(endpoint, "history", "b").stdout.count("\n") <= 1
        # After a start earlier events are missing, and it says so.
        node.stop()
        node.start()
        cluster.leader()
        again = hasp(endpoint, "history", "a")
        assert "released" not in again.stdout
        assert "has no entries before" in again.stderr
