# SPDX-License-Identifier: MIT
"""hasp run --seal: the command of the seal ends well before the command under
the lock starts, or the lock is given back."""

import os
import signal

from cluster import wait_until
from test_run import ask_json, cluster, hasp, is_gone, start


def is_free(cluster, name):
    return ask_json(cluster, "show", name)["holders"] == []


def test_the_command_starts_after_its_seal(cluster, tmp_path):
    out = tmp_path / "out"
    run = hasp(
        cluster, "run", "--seal", "sleep 0.3; echo seal $HASP_TOKEN >> %s" % out,
        "sealed", "sh", "-c", "echo command $HASP_TOKEN >> %s" % out)
    assert run.returncode == 0, run.stderr
    lines = [line.split() for line in out.read_text().splitlines()]
    assert [line[0] for line in lines] == ["seal", "command"]
    assert lines[0][1] == lines[1][1] and int(lines[0][1]) > 0
    assert is_free(cluster, "sealed")


def test_a_failed_seal_gives_the_lock_back(cluster, tmp_path):
    out = tmp_path / "out"
    run = hasp(cluster, "run", "--seal", "exit 3", "unsealed", "touch", out)
    assert run.returncode == 80
    assert run.stderr == (
        "hasp: the seal of 'unsealed' failed with exit code 3; the command was "
        "not started\n")
    assert not out.exists() and is_free(cluster, "unsealed")
    run = hasp(cluster, "run", "--seal", "kill -9 $$", "unsealed", "touch", out)
    assert run.returncode == 80 and "exit code 137" in run.stderr
    assert not out.exists() and is_free(cluster, "unsealed")


def test_a_slow_seal_is_killed_with_what_it_started(
        cluster, tmp_path):
    out, pid = tmp_path / "out", tmp_path / "pid"
    run = hasp(
        cluster, "run", "--seal-time", "500ms", "--seal",
        "setsid sleep 60 & echo $! > %s; trap '' TERM; sleep 60; sleep 60" % pid,
        "slow", "touch", out)
    assert run.returncode == 80
    assert "took longer than 500ms and was killed" in run.stderr
    assert not out.exists() and is_free(cluster, "slow")
    assert is_gone(int(pid.read_text()))


def test_a_lock_that_is_lost_during_the_seal(cluster, tmp_path):
    out, began = tmp_path / "out", tmp_path / "began"
    run = start(cluster, "run", "--seal", "touch %s; sleep 60" % began, "lost",
                "touch", out)
    try:
        wait_until(began.exists, 20, "the seal")
        session = ask_json(cluster, "show", "lost")["holders"][0]["session"]
        assert hasp(cluster, "blacklist", "add", "--session",
                    session).returncode == 0
        assert run.wait(20) == 79, run.stderr.read()
        assert not out.exists() and is_free(cluster, "lost")
    finally:
        run.kill()
        run.wait()


def test_a_seal_is_stopped_when_hasp_run_dies(cluster, tmp_path):
    pid = tmp_path / "pid"
    run = start(cluster, "run", "--seal",
                "sleep 60 & echo $! > %s.new; mv %s.new %s; sleep 60"
                % (pid, pid, pid), "killed", "true")
    wait_until(pid.exists, 20, "the seal")
    os.kill(run.pid, signal.SIGKILL)
    run.wait()
    wait_until(lambda: is_free(cluster, "killed"), 20, "the end")
    assert is_gone(int(pid.read_text()))
