# SPDX-License-Identifier: MIT
"""The tools that measure for docs/performance.md still work: a round of each
with the smallest sizes; these figures mean nothing."""

import argparse
import os
import re
import resource
import shutil
import sys

import pytest

from cluster import ROOT, is_sanitized

BUILD = os.path.abspath(os.environ.get("HASP_BUILD", "build/release"))
LOCKS = 1600

sys.path.insert(0, f"{ROOT}/tools")
import bench_peers  # noqa: E402
import goals  # noqa: E402
import stalls  # noqa: E402

pytestmark = pytest.mark.skipif(is_sanitized(), reason="it measures nothing then")


@pytest.fixture(autouse=True)
def small(monkeypatch):
    for program in ("bench", "null_server"):
        assert os.path.exists(f"{BUILD}/{program}"), f"make {BUILD}/{program}"
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(stalls, "CONNECTIONS", 20)
    monkeypatch.setattr(stalls, "CONNECTIONS_OF_USER", 20)
    monkeypatch.setattr(stalls, "rest", lambda pipes, seconds: stalls.keep(pipes))
    monkeypatch.setattr(goals, "SECONDS", 0.05)
    monkeypatch.setattr(goals, "before", lambda build: build)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.fixture
def redis(tmp_path, monkeypatch):
    """Debian has the server in redis-tools, too, under another name."""
    if shutil.which("redis-server") is None:
        program = shutil.which("redis-check-rdb")
        if program is None:
            pytest.skip("neither redis-server nor redis-tools is installed")
        os.symlink(program, tmp_path / "redis-server")
        monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    os.makedirs(f"{BUILD}/peers", exist_ok=True)
    bench_peers.compile_one(f"{BUILD}/peers", "redis_bench")


def test_what_holds_up_the_loop_is_found(capsys):
    longest, over, stage = stalls.look(BUILD, LOCKS)
    assert stage in ("receive", "propose", "apply", "table", "upkeep", "send",
                     "reply", "rest")
    assert longest > 0 and over >= 0
    told = capsys.readouterr().out
    for name in stalls.ALL:
        lines = re.findall(rf"^{name} .*longest: (\w+), within [\d.]+ ms", told, re.M)
        assert len(lines) == 3, (name, told)  # One of each node.


def test_a_node_that_was_restarted_is_counted_from_its_start():
    """Though it has made as many passes as before, of which fewer were long."""
    before = {"apply": [(0.01, 90), (0.02, 97), (0.05, 100)]}
    after = {"apply": [(0.01, 94), (0.02, 100), (0.05, 100)]}
    assert stalls.since(before, after)["apply"] == (0, 0.02)
    lower = {"apply": [(0.01, 80), (0.02, 99), (0.05, 101)]}
    assert stalls.since(before, lower)["apply"] == (2, 0.05)


def no_stalls(build, locks):
    """The other test looks."""
    return goals.Row(("", ""), f"{build} {locks}", 1, "", "")


def test_each_goal_is_measured(redis, monkeypatch):
    options = argparse.Namespace(build=BUILD, rounds=1, ends=1, locks=LOCKS)
    monkeypatch.setattr(goals, "row_of_stalls", no_stalls)
    monkeypatch.setattr(goals, "ENDS", goals.ENDS[:1])
    rows = goals.measure(options)
    assert len(rows) == len(goals.ENDS) + len(goals.RATES) + 2 + 1
    for row in rows[:-1]:
        # Processor time is counted in ticks; a short round may have none.
        assert row.excess >= 0 and re.search(r"\d", row.measured), row.line()
    text = goals.text_of(rows)
    with open(goals.PAGE) as page:
        before = page.read()
    after = bench_peers.put_between(before, "goals", text)
    assert text in after
    assert after.partition("<!-- goals")[0] == before.partition("<!-- goals")[0]
    assert after.partition("end of goals")[2] == before.partition("end of goals")[2]
