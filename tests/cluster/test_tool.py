# SPDX-License-Identifier: MIT
"""The tool: what it prints and how it exits, against nodes that say what a test
wants, and against real ones started by 'hasp dev'.

The program under test is $HASP (default: build/release/hasp)."""

import base64
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time

import pytest

from cluster import free_base
from fake_node import FakeNode, Raw, encode, granted, push

ROOT = os.path.dirname(
    os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
)
HASP = os.path.abspath(
    os.environ.get("HASP", os.path.join(ROOT, "build", "release", "hasp"))
)
SECRET = "00112233445566778899aabbccddeeff"


def environment(**more):
    clean = {k: v for k, v in os.environ.items() if not k.startswith("HASP_")}
    clean["LC_ALL"] = "C.UTF-8"
    clean.update(more)
    return clean


def hasp(*words, endpoints=None, timeout=30, **options):
    """Runs the tool; the result has returncode, stdout, stderr as text."""
    command = [HASP] + (["-e", endpoints] if endpoints else []) + list(words)
    return subprocess.run(
        command,
        capture_output=True,
        timeout=timeout,
        encoding="utf-8",
        errors="surrogateescape",
        env=environment(),
        **options
    )


def dead_endpoint():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return "127.0.0.1:%d" % server.getsockname()[1]


# --- Arguments ---------------------------------------------------------------


@pytest.mark.parametrize(
    "words",
    [
        ["nonsense"],
        ["session"],
        ["session", "nonsense"],
        ["-x"],
        ["-o", "xml", "list"],
        ["-t", "soon", "list"],
        ["-e", "a:b", "list"],
        ["list", "--nonsense"],
        ["list", "-o", "xml"],
        ["-e"],
        ["acquire", "a", "--session", "1:2", "--session-file", "x"],
        ["convert", "a", "--session", "1:00112233445566778899aabbccddeeff"],
        ["convert", "a", "--to", "shared"],
        ["status", "--cluster=1"],
        ["run", "--shared=yes", "a", "true"],
        ["check", "a", "x"],
        ["acquire"],
        ["acquire", "a", "--ttl", "x"],
        ["acquire", "a", "--ttl", "0"],
        ["run", "--hold", "0", "a", "true"],
        ["run", "--linger", "0", "a", "true"],
        ["acquire", "a", "-s", "--slots", "2"],
        ["acquire", "a", "--slots", "0"],
        ["acquire", "a", "-E", "256"],
        ["acquire", "a", "--session", "1:2"],
        ["release", "a"],
        ["release", "a", "--session", "1"],
        ["run"],
        ["run", "a", "--"],
        ["session", "show", "x"],
        ["session", "keep", "1"],
        ["blacklist", "add"],
        ["blacklist", "add", "--session", "1", "--client", "x"],
        ["blacklist", "remove", "--client", "x", "--reason", "y"],
        ["member", "transfer", "x"],
        ["member", "add", "1"],
        ["member", "add", "0", "127.0.0.1:1,127.0.0.1:2"],
        ["member", "add", "4", "127.0.0.1:1"],
        ["member", "add", "4", "127.0.0.1,127.0.0.1:2"],
        ["member", "add", "4", "127.0.0.1:1,127.0.0.1:2,"],
        ["member", "remove", "0"],
        ["watch", "--count", "0"],
        ["dev", "--nodes", "0"],
        ["dev", "--port", "65530"],
        ["dev", "extra"],
    ],
)
def test_wrong_usage_exits_64_and_says_why(words):
    result = hasp(*words)
    assert result.returncode == 64
    assert result.stdout == ""
    assert result.stderr.startswith("hasp: ")


def test_help_goes_to_stdout_and_names_every_subcommand():
    result = hasp("help")
    assert result.returncode == 0 and result.stderr == ""
    assert "\n  session keep " in result.stdout
    for name in re.findall(r"^  ([a-z]+(?: [a-z]+)?)  ", result.stdout, re.M):
        assert name in result.stdout
        one = hasp("help", *name.split())
        assert one.returncode == 0
        assert one.stdout.startswith("usage: hasp " + name)
        assert max(map(len, one.stdout.splitlines())) <= 80
    assert hasp("run", "--help").stdout == hasp("help", "run").stdout
    assert hasp().returncode == 64


def test_help_of_a_group_lists_its_subcommands():
    for words in (["help", "member"], ["member", "--help"]):
        result = hasp(*words)
        assert result.returncode == 0 and result.stderr == ""
        assert "hasp member add ID" in result.stdout
        assert "hasp member transfer" in result.stdout
        assert "make a member a standby\n" in result.stdout
        assert "do not remove it: start it" in result.stdout.replace("\n", " ")
        assert max(map(len, result.stdout.splitlines())) <= 80


def test_options_after_the_name_belong_to_acquire_but_not_to_run():
    def answer(words):
        if words[0] == b"SESSION.OPEN":
            return {"id": 5, "secret": SECRET, "ttl_ms": 60000, "linger_ms": 0}
        if words[0] == b"LOCK.ACQUIRE":
            return granted(words, 9)
        return {"ttl_ms": 60000}

    with FakeNode(answer) as node:
        result = hasp(
            "acquire", "a", "--ttl", "60s", "--value", "v", "-w", "1.5",
            endpoints=node.endpoint,
        )
        assert result.returncode == 0
        assert [b"TTL", b"60000"] == node.requests[0][1:3]
        asked = [r for r in node.requests if r[0] == b"LOCK.ACQUIRE"]
        assert len(asked) == 1 and asked[0][1] == b"a"
        left = int(asked[0][asked[0].index(b"WAIT") + 1])
        assert 0 < left <= 1500
        assert asked[0][2:4] == [b"VALUE", b"v"]
        assert asked[0][-2:] == [b"REQ", b"1"]
        node.requests.clear()
        result = hasp(
            "run", "a", "echo", "--ttl", "1s", endpoints=node.endpoint
        )
        assert result.stdout == "--ttl 1s\n"
        assert b"TTL" not in node.requests[0]


def test_durations_have_units():
    seen = {}

    def answer(words):
        seen["for"] = words[-1]
        return "OK"

    with FakeNode(answer) as node:
        for text, milliseconds in [
            ("1", b"1000"), ("250ms", b"250"), ("1.5s", b"1500"),
            ("2m", b"120000"), ("1h", b"3600000"), ("1d", b"86400000"),
        ]:
            result = hasp(
                "blacklist", "add", "--client", "x", "--for", text,
                endpoints=node.endpoint,
            )
            assert result.returncode == 0, result.stderr
            assert seen["for"] == milliseconds


# --- Results -----------------------------------------------------------------

LOCK = {
    "name": b"a\xffb\tc",
    "mode": "exclusive",
    "slots": 0,
    "holders": [
        {
            "session": 5, "client": "k\u00e4se", "address": "1.2.3.4:5",
            "owner": b"", "value": b"", "token": 77, "mode": "exclusive",
            "count": 1, "since_ms": 130000, "lease_left_ms": 7400,
        }
    ],
    "queue": [],
    "delay_left_ms": 0,
    "earliest_ms": 12400,
}


def test_a_list_is_a_table_plain_lines_or_json_with_the_keys_of_the_protocol():
    with FakeNode(lambda words: [b"0", [LOCK]]) as node:
        table = hasp("list", endpoints=node.endpoint).stdout.splitlines()
        assert table[0].split() == [
            "NAME", "MODE", "HOLDERS", "HOLDER", "TOKEN", "HELD", "WAITING",
        ]
        assert "k\u00e4se" in table[1] and "2m10s" in table[1]
        plain = hasp("-o", "plain", "list", endpoints=node.endpoint).stdout
        assert plain == (
            "a\\xffb\\x09c\texclusive\t1\tk\u00e4se\t77\t130000\t0\n"
        )
        rows = json.loads(
            hasp("-o", "json", "list", endpoints=node.endpoint).stdout
        )
        assert set(rows[0]) == set(LOCK) | {"name_b64"}
        assert rows[0]["name"] == "a\\xffb\\x09c"
        assert base64.b64decode(rows[0]["name_b64"]) == LOCK["name"]
        assert "a\\xffb\\x09c " in table[1]
        assert rows[0]["holders"][0]["token"] == 77


def test_an_empty_list_prints_its_header_and_exits_0():
    with FakeNode(lambda words: [b"0", []]) as node:
        for words in (["list"], ["session", "list"]):
            result = hasp(*words, endpoints=node.endpoint)
            assert result.returncode == 0
            assert len(result.stdout.splitlines()) == 1
            assert hasp(
                "-o", "plain", *words, endpoints=node.endpoint
            ).stdout == ""
            assert json.loads(
                hasp("-o", "json", *words, endpoints=node.endpoint).stdout
            ) == []


def test_all_pages_of_a_list_are_fetched_with_the_cursor_as_it_came():
    def answer(words):
        if b"CURSOR" not in words:
            return [b"=\xff", [dict(LOCK, name="one")]]
        assert words[words.index(b"CURSOR") + 1] == b"=\xff"
        return [b"0", [dict(LOCK, name="two")]]

    with FakeNode(answer) as node:
        result = hasp("-o", "plain", "list", "o", endpoints=node.endpoint)
        assert [line.split("\t")[0] for line in result.stdout.splitlines()] == [
            "one", "two",
        ]
        assert node.requests[0] == [b"LOCK.LIST", b"PREFIX", b"o"]


def test_why_prints_the_words_of_the_server_and_gives_no_terminal_orders():
    # The second reverses the direction of writing.
    lock = dict(LOCK, why=["'a' is held by \x1b[2J", "", "and by \u202eb"])

    with FakeNode(lambda words: lock) as node:
        text = hasp("why", "a", endpoints=node.endpoint).stdout
        assert text == (
            "'a' is held by \\x1b[2J\n\nand by \\xe2\\x80\\xaeb\n"
        )
        assert node.requests[-1] == [b"LOCK.WHY", b"a"]
        shown = hasp("-o", "json", "why", "a", endpoints=node.endpoint).stdout
        assert json.loads(shown)["why"] == lock["why"]


def test_an_entry_of_the_blacklist_without_an_end_is_for_ever():
    entry = {"session": 0, "client": "x", "reason": "", "by": "me",
             "since_ms": 5, "for_ms": 0}
    with FakeNode(lambda words: ["0", [entry]]) as node:
        listed = hasp("blacklist", "list", endpoints=node.endpoint).stdout
        assert listed.splitlines()[1].split() == ["x", "me", "5ms", "ever"]
        rows = hasp(
            "-o", "json", "blacklist", "list", endpoints=node.endpoint
        ).stdout
        assert json.loads(rows)[0]["for_ms"] == 0


def test_a_check_is_told_by_the_exit_code():
    with FakeNode(lambda words: int(words[2] == b"7")) as node:
        good = hasp("check", "a", "7", endpoints=node.endpoint)
        bad = hasp("check", "a", "8", endpoints=node.endpoint)
        assert (good.returncode, good.stdout) == (0, "current\n")
        assert (bad.returncode, bad.stdout) == (1, "stale\n")


def test_events_are_printed_as_they_come_one_json_per_line():
    event = {"lock": "a", "session": 5, "token": 7, "index": 9, "message": "x"}

    def answer(words):
        assert words == [b"LOCK.WATCH", b"pre"]
        return Raw(
            encode("OK")
            + push("lock", "granted", event)
            + push("other", "noise", {})
            + push("lock", "released", event)
        )

    with FakeNode(answer) as node:
        result = hasp(
            "-q", "-o", "json", "watch", "pre", "--count", "2",
            endpoints=node.endpoint,
        )
        events = [json.loads(line) for line in result.stdout.splitlines()]
        assert [e["kind"] for e in events] == ["granted", "released"]
        assert events[0]["index"] == 9
        assert result.returncode == 0 and result.stderr == ""


def test_an_event_that_another_node_tells_again_is_not_printed_again():
    """As after a lost connection: the next node lagged a little."""
    connections = []

    def answer(words):
        connections.append(1)
        events = [
            push("lock", kind, {"lock": "a", "session": 5, "token": 7,
                                "index": index, "message": ""})
            for kind, index in (
                [("granted", 8), ("released", 9)] if len(connections) == 1
                else [("released", 9), ("granted", 10)]
            )
        ]
        # A reply that is not an event ends the first connection.
        end = encode(0) if len(connections) == 1 else b""
        return Raw(encode("OK") + b"".join(events) + end)

    with FakeNode(answer) as node:
        result = hasp(
            "-o", "json", "watch", "--count", "3", endpoints=node.endpoint
        )
    events = [json.loads(line) for line in result.stdout.splitlines()]
    assert [e["index"] for e in events] == [8, 9, 10]


# --- Errors ------------------------------------------------------------------


@pytest.mark.parametrize(
    "word, exit_code",
    [
        ("NOSESSION no such session", 65),
        ("NOTHELD not yours", 65),
        ("BADARG lock.show: too long", 64),
        ("BLACKLISTED greedy", 77),
        ("NOAUTH authentication required", 77),
        ("NOPERM no", 77),
        ("LIMIT locks", 75),
        ("ERR unknown command 'LOCK.SHOW'", 76),
    ],
)
def test_each_refusal_has_its_exit_code_and_its_words(word, exit_code):
    with FakeNode(lambda words: Exception(word)) as node:
        result = hasp("show", "a", endpoints=node.endpoint)
        assert result.returncode == exit_code
        assert "cannot show 'a'" in result.stderr
        assert word.split(" ", 1)[1] in result.stderr
        assert len(node.requests) == 1


def test_no_leader_and_no_node_exit_69_and_name_the_endpoints():
    with FakeNode(lambda words: Exception("NOLEADER")) as node:
        result = hasp("-t", "300ms", "list", endpoints=node.endpoint)
        assert result.returncode == 69
        assert "no leader" in result.stderr and node.endpoint in result.stderr
        health = hasp("-t", "300ms", "health", endpoints=node.endpoint)
        assert health.returncode == 69
        assert health.stdout.split() == ["HEALTHY", "no"]
    gone = dead_endpoint()
    result = hasp("-t", "300ms", "list", endpoints=gone)
    assert result.returncode == 69
    assert gone in result.stderr and "hasp dev" in result.stderr
    assert "see: hasp status" in result.stderr
    assert hasp("status", endpoints=gone).returncode == 69


def test_another_kind_of_server_exits_76():
    with socket.create_server(("127.0.0.1", 0)) as server:
        child = subprocess.Popen(
            [HASP, "-t", "1s", "-e",
             "127.0.0.1:%d" % server.getsockname()[1], "list"],
            stderr=subprocess.PIPE, env=environment(),
        )
        server.settimeout(10)
        while child.poll() is None:
            try:
                connection, _ = server.accept()
                connection.sendall(b"220 mail.example.org ESMTP\r\n")
                connection.close()
                server.settimeout(1)
            except (socket.timeout, OSError):
                pass
        assert child.returncode == 76
        assert b"not a hasp node" in child.stderr.read()


def test_a_full_stdout_is_no_success():
    with FakeNode(lambda words: [b"0", []]) as node:
        with open("/dev/full", "w") as full:
            result = subprocess.run(
                [HASP, "-e", node.endpoint, "list"],
                stdout=full, stderr=subprocess.PIPE, timeout=30,
                env=environment(),
            )
        assert result.returncode == 74


# --- hasp run against a node that follows orders ------------------------------


class Orders:
    """Answers like a node until 'refusal' is set; 'ended' reports a hold's
    end."""

    def __init__(self, ttl_ms=1000, token=7):
        self.ttl_ms, self.token = ttl_ms, token
        self.refusal = None
        self.ended = []
        self.is_silent = False
        self.closed = 0

    def __call__(self, words):
        command = words[0]
        while self.is_silent:
            time.sleep(0.01)
        if command == b"SESSION.OPEN":
            return {"id": 5, "secret": SECRET, "ttl_ms": self.ttl_ms,
                    "linger_ms": 0, "trust_ms": self.ttl_ms * 4 // 5}
        if command == b"SESSION.CLOSE":
            self.closed += 1
            return 1
        if command == b"SESSION.KEEP" and self.refusal:
            return Exception(self.refusal)
        if command in (b"SESSION.KEEP", b"SESSION.ATTACH"):
            return {"ttl_ms": self.ttl_ms, "linger_ms": 0,
                    "trust_ms": self.ttl_ms * 4 // 5, "ended": self.ended}
        if command == b"LOCK.ACQUIRE":
            if isinstance(self.token, int):
                return granted(words, self.token)
            return self.token
        return Exception("ERR unknown command")


def start_run(node, *words, **options):
    return subprocess.Popen(
        [HASP, "-e", node.endpoint, "run"] + list(words),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8",
        env=environment(), **options
    )


# Prints its pid, then a line for each TERM, and does not end by itself.
STUBBORN = [
    sys.executable, "-u", "-c",
    "import os, signal, time\n"
    "signal.signal(signal.SIGTERM, lambda *_: print('term'))\n"
    "print(os.getpid())\n"
    "while True: time.sleep(0.05)\n",
]


def test_the_child_gets_the_environment_and_its_status_is_passed_on():
    orders = Orders()
    with FakeNode(orders) as node:
        result = hasp(
            "run", "the lock", "--", "sh", "-c",
            "echo $HASP_LOCK/$HASP_TOKEN/$HASP_SESSION/$HASP_ENDPOINTS;"
            "exit 42",
            endpoints=node.endpoint,
        )
        assert result.stdout == "the lock/7/5/%s\n" % node.endpoint
        assert result.returncode == 42
        assert orders.closed == 1
        for script, status in [("kill -9 $$", 137), ("exit 0", 0)]:
            result = hasp(
                "run", "a", "sh", "-c", script, endpoints=node.endpoint
            )
            assert result.returncode == status
        for program, status in [("/no/such", 127), ("/etc", 126)]:
            result = hasp("run", "a", program, endpoints=node.endpoint)
            assert result.returncode == status


def test_not_acquired_exits_75_or_as_told():
    orders = Orders(token=None)
    with FakeNode(orders) as node:
        result = hasp("run", "-n", "a", "true", endpoints=node.endpoint)
        assert result.returncode == 75
        assert hasp(
            "run", "-n", "-E", "1", "a", "true", endpoints=node.endpoint
        ).returncode == 1
        assert hasp("acquire", "a", endpoints=node.endpoint).returncode == 75
        assert orders.closed == 3


@pytest.mark.parametrize("name", ["TERM", "INT", "HUP", "QUIT"])
def test_signals_are_forwarded(name):
    orders = Orders()
    with FakeNode(orders) as node:
        run = start_run(
            node, "a", sys.executable, "-u", "-c",
            "import signal, time, sys\n"
            "signal.signal(signal.SIG%s, lambda *_: sys.exit(33))\n"
            "print('up')\n"
            "while True: time.sleep(0.05)\n" % name,
        )
        assert run.stdout.readline() == "up\n"
        run.send_signal(getattr(signal, "SIG" + name))
        assert run.wait(10) == 33
        assert orders.closed == 1


def test_a_forwarded_signal_reaches_what_the_command_started():
    with FakeNode(Orders()) as node:
        run = start_run(node, "a", "sh", "-c", "sleep 60 & echo $!; wait")
        pid = int(run.stdout.readline())
        run.send_signal(signal.SIGTERM)
        assert run.wait(10) == 143
        wait_for(lambda: is_gone(pid))


def test_a_signal_ends_the_wait_and_the_session():
    waiting = []
    orders = Orders()

    def answer(words):
        if words[0] == b"LOCK.ACQUIRE":
            assert words[2] == b"FULL"
            waiting.append(words)
            time.sleep(30)
        return orders(words)

    with FakeNode(answer) as node:
        run = start_run(node, "a", "true")
        end = time.monotonic() + 10
        while not waiting and time.monotonic() < end:
            time.sleep(0.01)
        assert waiting[0][3:5] == [b"WAIT", b"FOREVER"]
        assert waiting[0][-2:] == [b"REQ", b"1"]
        run.send_signal(signal.SIGINT)
        assert run.wait(10) == 130
        wait_for(lambda: orders.closed == 1)


def test_a_lost_session_kills_the_child_at_once():
    orders = Orders()
    with FakeNode(orders) as node:
        run = start_run(node, "a", *STUBBORN)
        assert int(run.stdout.readline()) > 0
        orders.refusal = "EXPIRED the session has ended"
        assert run.wait(10) == 79
        assert run.stdout.read() == ""
        assert "is lost" in run.stderr.read()


def test_a_child_that_ignores_term_is_killed_before_the_lease_ends():
    orders = Orders(ttl_ms=2000)
    with FakeNode(orders) as node:
        run = start_run(node, "a", *STUBBORN)
        assert int(run.stdout.readline()) > 0
        orders.is_silent = True
        before = time.monotonic()
        assert run.wait(20) == 79
        orders.is_silent = False
        assert run.stdout.read() == "term\n"
        # The lease ran from before the silence; 1 s is for the closing.
        assert time.monotonic() - before < 2 + 1.5


def test_a_refused_session_stops_its_command_long_before_the_lease_ends():
    orders = Orders(ttl_ms=10000)
    with FakeNode(orders) as node:
        run = start_run(node, "a", *STUBBORN)
        assert int(run.stdout.readline()) > 0
        orders.refusal = "BLACKLISTED greedy"
        before = time.monotonic()
        assert run.stdout.readline() == "term\n"
        # The next heartbeat is refused after 2 s; without that news TERM would
        # come after 6 s.
        assert time.monotonic() - before < 4.5
        run.kill()
        run.wait(10)


def test_a_hold_that_ended_alone_kills_the_child_too():
    orders = Orders()
    with FakeNode(orders) as node:
        run = start_run(node, "a", *STUBBORN)
        assert int(run.stdout.readline()) > 0
        orders.ended = [
            {"lock": "a", "owner": "", "token": 6, "first": 6, "reason": "old"}
        ]
        time.sleep(0.5)
        assert run.poll() is None, "another hold's end is not ours"
        orders.ended[0].update(token=7, first=7, reason="max hold")
        assert run.wait(10) == 79
        assert "max hold" in run.stderr.read()


def state_of(pid):
    with open("/proc/%d/stat" % pid) as file:
        return file.read().rsplit(")", 1)[1].split()[0]


def is_gone(pid):
    try:
        return state_of(pid) == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def wait_for(what, timeout=10):
    end = time.monotonic() + timeout
    while not what():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_freeze_stops_the_child_and_lets_it_go_on_when_it_is_safe_again():
    orders = Orders(ttl_ms=3000)
    with FakeNode(orders) as node:
        run = start_run(
            node, "--on-lost", "freeze", "a", sys.executable, "-u", "-c",
            "import os, time\n"
            "print(os.getpid())\n"
            "while True: time.sleep(0.05)\n",
        )
        pid = int(run.stdout.readline())
        orders.is_silent = True
        wait_for(lambda: state_of(pid) == "T")
        orders.is_silent = False
        wait_for(lambda: state_of(pid) != "T")
        orders.refusal = "EXPIRED the session has ended"
        assert run.wait(10) == 79
        text = run.stderr.read()
        assert "frozen" in text and "safe again" in text


def test_ignore_leaves_the_child_alone_and_passes_its_status_on():
    orders = Orders()
    with FakeNode(orders) as node:
        run = start_run(
            node, "--on-lost", "ignore", "a", "sh", "-c",
            "echo up; read line; exit 3", stdin=subprocess.PIPE,
        )
        assert run.stdout.readline() == "up\n"
        orders.refusal = "EXPIRED the session has ended"
        time.sleep(0.6)
        assert run.poll() is None
        run.stdin.write("on\n")
        run.stdin.flush()
        assert run.wait(10) == 3
        assert "continues without it" in run.stderr.read()


def test_if_the_tool_is_killed_so_is_the_child():
    orders = Orders()
    with FakeNode(orders) as node:
        run = start_run(
            node, "a", sys.executable, "-u", "-c",
            "import os, time\nprint(os.getpid())\ntime.sleep(60)\n",
        )
        pid = int(run.stdout.readline())
        run.kill()
        run.wait(10)
        wait_for(lambda: is_gone(pid))


def test_what_the_child_started_is_stopped_along_with_it():
    orders = Orders()
    with FakeNode(orders) as node:
        run = start_run(
            node, "--on-lost", "kill", "a", "sh", "-c",
            "sleep 60 & echo $!; wait",
        )
        pid = int(run.stdout.readline())
        orders.refusal = "EXPIRED the session has ended"
        assert run.wait(10) == 79
        wait_for(lambda: is_gone(pid))


def test_a_lock_of_the_run_around_is_refused_instead_of_waited_for():
    with FakeNode(Orders()) as node:
        result = hasp(
            "run", "a", "--", HASP, "run", "a", "true", endpoints=node.endpoint
        )
        assert result.returncode == 64
        assert "wait forever" in result.stderr


# --- Against real nodes -------------------------------------------------------


def free_base_port():
    """A port P such that P to P+2, P+10 to P+12 and P+20 to P+22 are free."""
    return free_base((0, 1, 2, 10, 11, 12, 20, 21, 22))


class Dev:
    """A cluster by 'hasp dev'."""

    def __init__(self, *words):
        self.process = subprocess.Popen(
            [HASP, "dev", "--port", str(free_base_port())] + list(words),
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8",
            env=environment(),
        )
        ready = self.process.stdout.readline().split()
        assert ready and ready[0] == "ready", self.process.stderr.read()
        self.endpoints = ready[1].split("=")[1]
        self.pids = [int(pid) for pid in ready[2].split("=")[1].split(",")]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        self.process.wait(20)
        self.process.stdout.close()
        self.process.stderr.close()

    def hasp(self, *words, **options):
        return hasp(*words, endpoints=self.endpoints, **options)

    def json(self, *words):
        result = self.hasp("-o", "json", *words)
        assert result.returncode == 0, result.stderr
        return json.loads(result.stdout)


@pytest.fixture(scope="module")
def dev():
    with Dev() as cluster:
        yield cluster


def test_dev_is_ready_when_it_says_so_and_stops_its_nodes(tmp_path):
    folder = tmp_path / "made"
    with Dev("--dir", str(folder)) as cluster:
        nodes = cluster.json("status")
        assert [node["node"] for node in nodes] == [1, 2, 3]
        assert sorted(node["role"] for node in nodes) == [
            "follower", "follower", "leader",
        ]
        assert cluster.hasp("health").stdout.split() == ["HEALTHY", "yes"]
        assert json.loads(cluster.hasp("-o", "json", "health").stdout) == {
            "healthy": True
        }
        os.kill(cluster.pids[0], signal.SIGKILL)
        told = ""
        while "--config" not in told:
            told += cluster.process.stderr.readline()
        assert "node 1" in told and "signal 9" in told
        assert cluster.hasp("health").returncode == 0
        cluster.process.send_signal(signal.SIGINT)
        assert cluster.process.wait(20) == 0
        for pid in cluster.pids:
            with pytest.raises(ProcessLookupError):
                os.kill(pid, 0)
    text = (folder / "n2" / "haspd.conf").read_text()
    assert "id = 2" in text and text.count("member = ") == 3
    assert (folder / "n1" / "haspd.log").stat().st_size > 0


def test_dev_goes_on_when_a_node_is_killed_before_it_is_ready(tmp_path):
    log = tmp_path / "n3" / "haspd.log"
    process = subprocess.Popen(
        [HASP, "dev", "--port", str(free_base_port()), "--dir", str(tmp_path)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8",
        env=environment(),
    )
    try:
        end = time.monotonic() + 20
        while not log.exists() or "cluster founded" not in log.read_text():
            assert time.monotonic() < end
            time.sleep(0.002)
        pid = int((tmp_path / "n3" / "data" / "LOCK").read_text())
        os.kill(pid, signal.SIGKILL)
        ready = process.stdout.readline().split()
        assert ready and ready[0] == "ready"
        assert ready[2].split(",")[2] == str(pid)
        endpoints = ready[1].split("=")[1]
        assert hasp("health", endpoints=endpoints).returncode == 0
        assert process.poll() is None
    finally:
        process.send_signal(signal.SIGTERM)
        told = process.communicate(timeout=20)[1]
    assert "node 3" in told and "signal 9" in told


def test_dev_says_that_its_ports_are_taken():
    port = free_base((0,))
    with socket.create_server(("127.0.0.1", port)):
        result = hasp("dev", "--port", str(port))
        assert result.returncode == 69
        assert "--port" in result.stderr and result.stdout == ""


def test_a_lock_is_acquired_shown_checked_and_released(dev):
    got = dev.json("acquire", "script", "--ttl", "30s", "--value", "v")
    credentials = "%d:%s" % (got["session"], got["secret"])
    token = str(got["token"])
    shown = dev.json("show", "script")
    assert shown["holders"][0]["session"] == got["session"]
    assert shown["holders"][0]["value"] == "v"
    assert dev.hasp("check", "script", token).returncode == 0
    assert dev.hasp("acquire", "-n", "script").returncode == 75
    assert "in 2" in dev.hasp("why", "script").stdout
    assert dev.hasp("session", "keep", credentials).returncode == 0
    assert dev.hasp(
        "release", "script", "--session", credentials, "--token", "1"
    ).returncode == 65
    assert dev.hasp(
        "release", "script", "--session", credentials, "--token", token
    ).returncode == 0
    assert dev.hasp("check", "script", token).returncode == 1
    assert dev.hasp("session", "close", credentials).returncode == 0
    assert dev.hasp("session", "show", credentials).returncode == 65


def test_fences_are_admitted_shown_listed_and_removed(dev):
    token = str(dev.json("acquire", "fenced", "--ttl", "1s")["token"])
    never = str(int(token) + 2**32)
    for words, code, said in (
        (["admit", "tool/array", token], 0, "admitted"),
        (["admit", "tool/array", str(int(token) - 1)], 1, "stale"),
        (["show", "tool/array"], 0, token),
        (["show", "tool/none"], 0, "0"),
    ):
        result = dev.hasp("fence", *words)
        assert (result.returncode, result.stdout) == (code, said + "\n")
    refused = dev.hasp("fence", "admit", "tool/array", never)
    assert refused.returncode == 64 and "never granted" in refused.stderr
    assert dev.json("fence", "list", "tool/") == [
        {"resource": "tool/array", "token": int(token)}
    ]
    assert dev.hasp("fence", "remove", "tool/array").returncode == 0
    gone = dev.hasp("fence", "remove", "tool/array")
    assert gone.returncode == 65 and "hasp fence list" in gone.stderr
    assert dev.hasp("fence", "admit", "tool/array").returncode == 64


def test_run_serialises_commands(dev, tmp_path):
    log = tmp_path / "log"
    script = "echo in >> %s; sleep 0.05; echo out >> %s" % (log, log)
    runs = [
        subprocess.Popen(
            [HASP, "-e", dev.endpoints, "run", "one at a time",
             "sh", "-c", script],
            env=environment(),
        )
        for _ in range(8)
    ]
    assert [run.wait(60) for run in runs] == [0] * 8
    assert log.read_text() == "in\nout\n" * 8


def test_a_blacklisted_command_is_stopped_before_the_lock_passes_on(dev):
    run = subprocess.Popen(
        [HASP, "-e", dev.endpoints, "run", "--ttl", "1s", "guarded"] + STUBBORN,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8",
        env=environment(),
    )
    pid = int(run.stdout.readline())
    session = dev.json("show", "guarded")["holders"][0]["session"]
    next_one = subprocess.Popen(
        [HASP, "-e", dev.endpoints, "run", "guarded", "echo", "mine"],
        stdout=subprocess.PIPE, env=environment(),
    )
    assert dev.hasp(
        "blacklist", "add", "--session", str(session),
        "--reason", "for the test",
    ).returncode == 0
    assert next_one.stdout.readline() == b"mine\n"
    assert is_gone(pid), "two held it at one time"
    assert next_one.wait(20) == 0
    assert run.wait(10) == 79
    assert "for the test" in run.stderr.read()


def test_a_blacklisted_client_is_refused_until_it_is_removed(dev):
    me = ["--client", "*@*"]
    assert dev.hasp(
        "blacklist", "add", *me, "--reason", "for the test", "--by", "me",
        "--for", "1h",
    ).returncode == 0
    listed = dev.json("blacklist", "list")
    assert len(listed) == 1 and listed[0]["client"] == "*@*"
    assert listed[0]["reason"] == "for the test"
    assert (listed[0]["by"], listed[0]["for_ms"]) == ("me", 3600000)
    refused = dev.hasp("acquire", "a")
    assert refused.returncode == 77 and "for the test" in refused.stderr
    assert dev.hasp("blacklist", "remove", *me).returncode == 0
    assert dev.hasp("blacklist", "remove", *me).returncode == 65
    assert dev.hasp("acquire", "a", "--ttl", "1s").returncode == 0


def test_please_reaches_the_command_and_events_are_watched(dev):
    watch = subprocess.Popen(
        [HASP, "-e", dev.endpoints, "-o", "json",
         "watch", "asked", "--count", "3"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8",
        env=environment(),
    )
    assert "watching" in watch.stderr.readline()
    run = subprocess.Popen(
        [HASP, "-e", dev.endpoints, "run", "--ttl", "1s", "asked",
         "sh", "-c", "echo up; read line"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        encoding="utf-8", env=environment(),
    )
    assert run.stdout.readline() == "up\n"
    # The keeper's own connection is there from its first heartbeat on.
    time.sleep(0.5)
    asked = json.loads(
        dev.hasp("please", "asked", "my turn", "-o", "json").stdout
    )
    assert asked["notified"] == 1
    holder = dev.json("show", "asked")["holders"][0]
    assert asked["holders"][0]["session"] == holder["session"]
    nobody = dev.hasp("please", "free as a bird")
    assert nobody.returncode == 0 and "is not held" in nobody.stderr
    assert "my turn" in run.stderr.readline()
    run.stdin.close()
    run.wait(10)
    events = [json.loads(line) for line in watch.stdout]
    assert [event["kind"] for event in events][:2] == ["granted", "please"]
    assert events[1]["message"] == "my turn"
    assert watch.wait(10) == 0


def test_a_command_outlives_the_leader_and_leadership_can_be_handed_over(dev):
    run = subprocess.Popen(
        [HASP, "-e", dev.endpoints, "run", "--ttl", "2s", "through",
         "sh", "-c", "echo up; read line; exit 5"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8",
        env=environment(),
    )
    assert run.stdout.readline() == "up\n"
    token = dev.json("show", "through")["holders"][0]["token"]
    leader = dev.json("status")[0]["leader"]
    target = leader % 3 + 1
    assert dev.hasp("member", "transfer", str(target)).returncode == 0
    wait_for(lambda: dev.json("status")[0]["leader"] == target)
    for verb in "promote", "demote", "transfer":
        result = dev.hasp("member", verb, "9")
        assert result.returncode == 65 and result.stdout == ""
        assert "has that id; see: hasp member list" in result.stderr
    result = dev.hasp("member", "remove", str(target))
    assert result.returncode == 65
    assert "hand leadership over" in result.stderr
    assert "hasp help member" in result.stderr
    members = dev.json("member", "list")
    assert [member["id"] for member in members] == [1, 2, 3]
    time.sleep(2.5)
    assert dev.json("show", "through")["holders"][0]["token"] == token
    run.stdin.close()
    assert run.wait(10) == 5


def test_a_cut_off_endpoint_leaves_time_for_the_others():
    """It answers first what it knows by itself, and then waits for a leader that
    it does not reach."""
    status = {"node": 1, "role": "follower", "leader": 2, "term": 1, "members": [],
              "leader_address": ""}

    def cut_off(words):
        return status if words[0] == b"RAFT.STATUS" else Raw(b"")

    def serving(words):
        if words[0] == b"RAFT.STATUS":
            time.sleep(0.5)
            return {**status, "node": 2, "role": "leader"}
        return [b"0", []]

    with FakeNode(cut_off) as first, FakeNode(serving) as second:
        ends = "%s,%s" % (first.endpoint, second.endpoint)
        for words in ("health", "list", "fence list"):
            asked = len(first.requests)
            end = hasp("-e", ends, "-t", "3s", *words.split())
            assert end.returncode == 0, (words, end.stderr)
            # It was asked, without success.
            assert [w for w in first.requests[asked:] if w[0] != b"RAFT.STATUS"]
