# SPDX-License-Identifier: MIT
"""The tool's manners: options anywhere, the nearest name, what a person sees of
a wait, locks for scripts, names that complete.

The programs under test are $HASPD and $HASP (default: build/release/...)."""

import glob
import json
import os
import re
import subprocess
import time

import pytest

from cluster import ROOT, Client, Cluster, wait_until
from fake_node import FakeNode
from test_tool_views import HASP, Screen, complete, environment, hasp


@pytest.fixture(scope="module")
def endpoints():
    with Cluster() as cluster:
        cluster.leader()
        yield ",".join("127.0.0.1:%d" % n.client_port for n in cluster.nodes)


def result_of(endpoints, *words):
    told = hasp(endpoints, *words, "-o", "json")
    assert told.returncode == 0, told.stderr
    return json.loads(told.stdout)


# --- Words -------------------------------------------------------------------


def test_options_stand_anywhere_and_two_hyphens_end_them():
    with FakeNode(lambda words: [b"0", []]) as node:
        for words in (["-o", "json", "list", "x"], ["list", "-o", "json", "x"],
                      ["list", "x", "-ojson"], ["list", "x", "--output=json"]):
            node.requests.clear()
            told = subprocess.run(
                [HASP] + words + ["-e", node.endpoint], encoding="utf-8",
                capture_output=True, env=environment(),
            )
            assert (told.returncode, told.stdout) == (0, "[]\n"), words
            assert node.requests[-1] == [b"LOCK.LIST", b"PREFIX", b"x"]
        node.requests.clear()
        told = hasp(node.endpoint, "list", "--", "-o")
        assert told.returncode == 0
        assert node.requests[-1] == [b"LOCK.LIST", b"PREFIX", b"-o"]


@pytest.mark.parametrize("words, meant", [
    (["staus"], "did you mean status?"),
    (["aquire", "a"], "did you mean acquire?"),
    (["sessions", "list"], "did you mean session?"),
    (["session", "lsit"], "did you mean session list?"),
    (["help", "relase"], "did you mean release?"),
    (["acquire", "a", "--non-block"], "did you mean --nonblock?"),
    (["run", "--sahred", "a", "true"], "did you mean --shared?"),
    (["list", "--ouput", "json"], "did you mean --output?"),
    (["acquire", "a", "--ttl", "10x"],
     "hasp: invalid duration '10x': use a number with ms, s, m, h, e.g. 20s"),
    (["acquire", "a", "--ttl", "1ms"],
     "--ttl 1ms is out of range: use a time from 100ms to 1h00m"),
    (["run", "--on-lost", "cry", "a", "true"],
     "invalid --on-lost 'cry': use one of term|kill|freeze|ignore"),
    (["show"], "missing NAME"),
    (["check", "a"], "missing TOKEN"),
    (["run", "a"], "missing COMMAND"),
    (["show", "a", "b"], "unexpected argument 'b'"),
    (["fence", "fly"], "use one of: admit, show, list, remove"),
    (["xylophone"], "unknown subcommand 'xylophone'; see: hasp help"),
])
def test_what_is_wrong_is_said_and_what_was_meant_is_offered(words, meant):
    told = hasp("127.0.0.1:1", *words)
    assert told.returncode == 64 and told.stdout == ""
    assert meant in told.stderr, told.stderr
    assert told.stderr.startswith("hasp: ")


def test_the_help_groups_the_subcommands_and_knows_each_option():
    text = hasp("", "help").stdout
    topics = re.findall(r"^([A-Z][a-z ]+)$", text, re.M)
    assert topics == ["Locks", "Sessions and tokens", "The cluster",
                      "Users and permissions", "For operators",
                      "Certificates", "Development and measurement"]
    assert max(map(len, text.splitlines())) <= 80
    count = 0
    for name in re.findall(r"^  ([a-z]+(?: [a-z]+)?)  +\S", text, re.M):
        words = name.split()
        for option in re.findall(r"^  [- ].*?(--[a-z-]+)",
                                 hasp("", "help", *words).stdout, re.M):
            # Its value is missing, or something else; it is not unknown.
            told = hasp("127.0.0.1:1", *words, option + "=", "--nonsense")
            assert "unknown option '%s" % option not in told.stderr, name
            count += 1
    assert count > 40


# --- Locks for scripts -------------------------------------------------------


def usage_of(*words):
    told = subprocess.run([HASP, *words, "--help"], capture_output=True, text=True)
    return told.stdout


def of_the_tool(span, known):
    """The fault in the prose of the tool's command; None: nothing."""
    words = span.split()[1:]
    if words[0] in ("help", "...") or words[0].startswith("-"):
        return None
    name = " ".join(words[:2]) if " ".join(words[:2]) in known else words[0]
    if name not in known:
        is_group = len(words) == 1 or not words[1].isalpha()
        is_group &= any(one.split()[0] == name for one in known)
        return None if is_group else "there is no such command"
    usage = usage_of(*name.split())
    rest = words[len(name.split()) :]
    for option in [re.match("--[a-z-]*", one)[0] for one in rest if one[:2] == "--"]:
        if option != "--" and not re.search(option + r"\b", usage):
            return "it has no " + option
    takes_words = re.search(r" \[?[A-Z]", usage.split("\n")[0])
    if not takes_words and [one for one in rest if not one.startswith("-")]:
        return "it takes no words"
    return None


def test_every_command_that_the_docs_name_is_one():
    known = set(re.findall(r"(?m)^  ([a-z]+(?: [a-z]+)?)  +\S", usage_of()))
    assert len(known) > 60 and "session list" in known
    assert of_the_tool("hasp limits list", known) == "it takes no words"
    assert of_the_tool("hasp session drop", known) == "there is no such command"
    assert of_the_tool("hasp why NAME --loud", known) == "it has no --loud"
    pages = [os.path.join(ROOT, "README.md")]
    pages += glob.glob(os.path.join(ROOT, "docs", "*.md"))
    seen = 0
    for page in pages:
        with open(page, encoding="utf-8") as file:
            text = re.sub(r"(?s)```.*?```", "", file.read())
        for span in re.findall(r"`(hasp [^`\n]+)`", text):
            wrong = of_the_tool(span, known)
            assert wrong is None, "%s: %s: %s" % (page, span, wrong)
            seen += 1
    assert seen > 80


def test_acquire_waits_and_n_tries(endpoints):
    first = result_of(endpoints, "acquire", "manners/wait", "--ttl", "30s")
    credentials = "%d:%s" % (first["session"], first["secret"])
    assert hasp(endpoints, "acquire", "-n", "manners/wait").returncode == 75
    assert hasp(
        endpoints, "acquire", "-w", "100ms", "manners/wait"
    ).returncode == 75
    waiting = subprocess.Popen(
        [HASP, "-e", endpoints, "acquire", "manners/wait", "--ttl", "1s"],
        env=environment(), stdout=subprocess.PIPE, encoding="utf-8",
    )
    wait_until(lambda: result_of(endpoints, "show", "manners/wait")["queue"],
               10, "a waiter")
    assert waiting.poll() is None
    assert hasp(
        endpoints, "release", "manners/wait", "--session", credentials
    ).returncode == 0
    assert "TOKEN" in waiting.communicate(timeout=20)[0]
    assert waiting.returncode == 0


def shell(endpoints, script):
    return subprocess.run(
        ["sh", "-ec", script], encoding="utf-8", capture_output=True,
        timeout=60,
        env=environment(HASP_ENDPOINTS=endpoints, PATH="%s:%s" % (
            os.path.dirname(HASP), os.environ["PATH"])),
    )


def test_a_shell_gets_the_lock_by_eval_and_gives_it_back(endpoints):
    told = shell(endpoints, """
        eval "$(hasp acquire "manners/it's" --ttl 20s --export)"
        echo "$HASP_LOCK"
        hasp check "$HASP_LOCK" "$HASP_TOKEN"
        hasp session keep -o json
        hasp convert "$HASP_LOCK" --to shared > /dev/null
        hasp -o json show "$HASP_LOCK" | grep mode
        hasp convert "$HASP_LOCK" --to exclusive -n > /dev/null
        hasp release "$HASP_LOCK"
        hasp session close
    """)
    assert told.returncode == 0, told.stderr
    lines = told.stdout.splitlines()
    assert lines[:2] == ["manners/it's", "current"]
    assert any('"mode": "shared"' in line for line in lines)
    assert lines[-1] == "0"


def test_what_does_not_hold_is_not_converted(endpoints):
    told = shell(endpoints, """
        eval "$(hasp acquire manners/own --ttl 20s --export)"
        hasp -q convert manners/other --to shared || echo $?
        hasp acquire -s manners/two --session "$HASP_CREDENTIALS" > /dev/null
        other=$(hasp -o plain acquire -s manners/two --ttl 20s | cut -f 2,3 \\
            --output-delimiter :)
        hasp -q convert manners/two --to exclusive -n || echo $?
        hasp -q convert manners/two --to exclusive -w 100ms -E 9 || echo $?
        hasp session close "$other"
        hasp convert manners/two --to exclusive > /dev/null && echo done
        hasp session close > /dev/null
    """)
    assert told.returncode == 0, told.stderr
    assert told.stdout.split() == ["65", "75", "9", "1", "done"]


def test_several_locks_are_taken_at_once(endpoints):
    first = result_of(
        endpoints, "acquire", "manners/a", "manners/b", "--ttl", "20s"
    )
    assert [lock["name"] for lock in first["locks"]] == [
        "manners/a", "manners/b",
    ]
    told = hasp(endpoints, "run", "-n", "manners/c", "--with", "manners/b",
                "true")
    assert told.returncode == 75
    assert result_of(endpoints, "show", "manners/c")["holders"] == []
    credentials = "%d:%s" % (first["session"], first["secret"])
    short = hasp(endpoints, "release", "manners/a", "manners/z",
                 "--session", credentials)
    assert short.returncode == 65 and "1 of 2" in short.stderr
    assert hasp(
        endpoints, "release", "manners/b", "--session", credentials
    ).returncode == 0
    told = hasp(
        endpoints, "run", "manners/c", "--with", "manners/b", "--", "sh", "-c",
        'echo "$HASP_LOCK"; echo "$HASP_TOKEN" | wc -l',
    )
    assert told.stdout.split() == ["manners/c", "manners/b", "2"]
    inner = hasp(
        endpoints, "run", "manners/c", "--with", "manners/b", "--",
        HASP, "-e", endpoints, "run", "manners/b", "true",
    )
    assert inner.returncode == 64 and "wait forever" in inner.stderr


def test_a_folder_is_not_taken_for_a_session_file(endpoints, tmp_path):
    told = hasp(endpoints, "acquire", "manners/x", "--ttl", "20s",
                "--session-file", str(tmp_path))
    assert told.returncode == 66 and "is a directory" in told.stderr
    assert "remove" not in told.stderr


SHARERS = 2005  # More than one LOCK.SHOW returns.


@pytest.fixture
def crowded(endpoints):
    """A session that shares a lock with itself under many owners, and one more;
    gives its credentials."""
    with Client(int(endpoints.split(",")[0].split(":")[1])) as wire:
        opened = dict(zip(*[iter(wire.do("SESSION.OPEN", "TTL", 30000))] * 2))
        for number in range(SHARERS):
            wire.send("LOCK.ACQUIRE", "manners/crowd", "SHARED", "OWNER",
                      "o%d" % number)
            if number % 100 == 99 or number == SHARERS - 1:
                for _ in range(number % 100 + 1):
                    assert wire.receive() > 0
        yield "%d:%s" % (opened[b"id"], opened[b"secret"].decode())
        wire.do("SESSION.CLOSE")


def test_what_is_not_shown_is_told_and_can_be_had(endpoints, crowded):
    # How many holders fit into an answer depends on the width of their ages,
    # so two answers can differ by some.
    shown = result_of(endpoints, "show", "manners/crowd")
    count, more = len(shown["holders"]), shown["more_holders"]
    assert count + more == SHARERS and count > 100 and more > 100
    assert shown["more_waiters"] == 0
    told = hasp(endpoints, "show", "manners/crowd").stdout.splitlines()
    last = re.fullmatch(
        "and ([0-9]+) more holders; see: hasp show --all", told[-1])
    count, more = len(told) - (1 + 1 + 1), int(last[1])
    assert count + more == SHARERS and count > 100 and more > 100
    shown = result_of(endpoints, "show", "--all", "manners/crowd")
    tokens = [one["token"] for one in shown["holders"]]
    assert len(tokens) == SHARERS and tokens == sorted(set(tokens))
    assert "more_holders" not in shown and "cursor" not in shown
    told = hasp(endpoints, "show", "-a", "manners/crowd")
    assert len(told.stdout.splitlines()) == 1 + 1 + SHARERS


def test_the_last_of_many_holders_leaves_a_note(endpoints, crowded):
    for owner, code in ("o%d" % (SHARERS - 1), 0), ("nobody", 65):
        told = hasp(endpoints, "note", "manners/crowd", "by " + owner, "--owner",
                    owner, "--session", crowded)
        assert told.returncode == code, told.stderr
    assert hasp(endpoints, "note", "manners/crowd").stdout == \
        "by o%d\n" % (SHARERS - 1)


def test_a_holder_leaves_a_note_for_the_next(endpoints, tmp_path):
    told = shell(endpoints, """
        cd '%s'
        hasp -q note manners/note || echo none $?
        hasp acquire manners/note --ttl 20s --session-file lease > /dev/null
        hasp note manners/note 'page 17' --session-file lease
        hasp note manners/note
        hasp -o json note manners/note
        hasp show manners/note | grep note:
        token=$(hasp -o plain show manners/note | cut -f 7)
        hasp note manners/note old --session-file lease --token 1 || echo $?
        hasp note manners/note new --session-file lease --token "$token"
        hasp release manners/note --session-file lease
        hasp note manners/note late --session-file lease || echo late $?
        hasp note manners/note
        eval "$(hasp acquire manners/note --ttl 20s --export)"
        hasp note manners/note "$(printf %%4097s)" || echo $?
        hasp note manners/note ''
        hasp -q note manners/note || echo none $?
    """ % tmp_path)
    assert told.returncode == 0, told.stderr
    lines = told.stdout.splitlines()
    assert lines[:2] == ["none 65", "page 17"]
    assert json.loads("".join(lines[2:-6])) == {"note": "page 17"}
    assert lines[-6:] == [
        "note: page 17", "65", "late 65", "new", "64", "none 65",
    ]
    assert "4096" in told.stderr


# --- What a person sees ------------------------------------------------------


def test_a_wait_on_a_terminal_is_one_live_line(endpoints):
    held = result_of(endpoints, "acquire", "manners/live", "--ttl", "30s")
    with Screen(endpoints, "run", "manners/live", "echo", "mine") as run:
        run.expect(r"\r\033\[Khasp: 0 s: position 1 in the queue for "
                   r"'manners/live'")
        run.expect(r"hasp: [1-9] s: position 1")
        assert "\n" not in run.text
        hasp(endpoints, "session", "close",
             "%d:%s" % (held["session"], held["secret"]))
        run.expect(r"\r\033\[Khasp: got it after [0-9]+ s\r\n")
        run.expect("mine")
        assert run.wait() == 0


def test_a_wait_elsewhere_tells_who_holds_it_and_when_it_is_over(endpoints):
    held = result_of(endpoints, "acquire", "manners/log", "--ttl", "30s")
    waiting = subprocess.Popen(
        [HASP, "-e", endpoints, "run", "manners/log", "true"],
        env=environment(), stderr=subprocess.PIPE, encoding="utf-8",
    )
    line = waiting.stderr.readline()
    assert "waiting for 'manners/log', held by" in line
    assert "session %d" % held["session"] in line
    hasp(endpoints, "session", "close",
         "%d:%s" % (held["session"], held["secret"]))
    rest = waiting.communicate(timeout=20)[1]
    assert waiting.returncode == 0
    assert re.fullmatch("hasp: got it after [0-9]+ s\n", rest)


def test_a_node_that_hangs_holds_up_nobody():
    """It accepts and is silent; the next one is asked."""
    def never(words):
        time.sleep(60)

    with FakeNode(never) as hung, FakeNode(
        lambda words: [b"0", []] if words[0] == b"LOCK.LIST" else {"node": 2}
    ) as good:
        both = hung.endpoint + "," + good.endpoint
        told = hasp(both, "-t", "20s", "list")
        assert told.returncode == 0
        # The one that hangs was asked what it is, and no more than that.
        assert {r[0] for r in hung.requests} <= {b"RAFT.STATUS"}
        assert [b"LOCK.LIST"] in good.requests


def test_names_are_completed(endpoints, tmp_path):
    held = result_of(
        endpoints, "acquire", "manners/complete me", "--ttl", "30s"
    )
    at = ["-e", endpoints]
    assert complete(tmp_path, *at, "show", "manners/compl") == [
        "manners/complete\\", "me",
    ]
    assert str(held["session"]) in complete(
        tmp_path, *at, "session", "show", str(held["session"])[:6]
    )
    assert complete(tmp_path, *at, "member", "demote", "") == ["1", "2", "3"]
    assert "ttl_max" in complete(tmp_path, *at, "limits", "set", "tt")
    hasp(endpoints, "session", "close",
         "%d:%s" % (held["session"], held["secret"]))


def test_a_backslash_in_a_name_can_be_told_from_an_escape(endpoints):
    told = hasp(endpoints, "acquire", "manners/\\x41", "--ttl", "2s",
                "-o", "json")
    assert json.loads(told.stdout)["name"] == "manners/\\x41"
    for words in (["list", "manners/\\"], ["list", "manners/\\", "-oplain"]):
        assert "manners/\\\\x41" in hasp(endpoints, *words).stdout
