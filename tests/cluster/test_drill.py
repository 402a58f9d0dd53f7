# SPDX-License-Identifier: MIT
"""hasp drill restore: a backup is tried in a throw-away node."""

import json
import os
import re
import signal
import subprocess

import pytest

from cluster import Cluster, wait_until
from tls_cluster import HASP, tool


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder of backups; the newest has fences, users and durable holds."""
    folder = tmp_path_factory.mktemp("backups")
    with Cluster(1) as cluster:
        leader = cluster.leader()
        door = "--socket", leader.dir
        tool(*door, "snapshot", "save", folder / "hasp-20260101T000000Z.snap")
        with leader.connect() as client:
            client.do("FENCE.ADMIT", "tape", 7)
            client.do("SET", "kept", "me", "NX", "DURABLE")
            client.do("SET", "leased", "me", "NX", "PX", 60000)
        tool(*door, "user", "add", "ann")
        tool(*door, "snapshot", "save", folder / "hasp-20260102T000000Z.snap")
    return folder


def drill(*words, tmp, **settings):
    environment = dict(os.environ)
    environment.update(settings)
    return subprocess.run(
        [HASP, "-o", "json", "drill", "restore", "--tmp", str(tmp)]
        + [str(word) for word in words],
        env=environment, stdin=subprocess.DEVNULL, capture_output=True,
        text=True, timeout=120)


def test_the_newest_backup_is_restored_and_compared(made, tmp_path):
    # The settings of another node do not reach the node of the drill.
    done = drill(made, tmp=tmp_path, HASP_LISTEN_CLIENT="0.0.0.0:1",
                 HASP_NODE_ID="7")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["file"] == str(made / "hasp-20260102T000000Z.snap")
    assert found["fences"] == found["users"] == 1
    assert found["sessions"] == found["locks"] == found["holds"] == 2
    assert found["durable_sessions"] == found["durable_holds"] == 1
    assert found["new_token_base"] > found["newest_token"]
    assert found["grant"] == "ok"
    assert re.fullmatch("[0-9a-f]{16}", found["kept_digest"])
    assert found["total_ms"] >= found["start_ms"] + found["restore_ms"]
    # Nothing is left of it.
    assert os.listdir(tmp_path) == []


def test_a_named_file_is_tried(made, tmp_path):
    old = made / "hasp-20260101T000000Z.snap"
    done = drill(old, tmp=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["fences"] == 0


def test_a_truncated_or_changed_file_is_named(made, tmp_path):
    good = (made / "hasp-20260102T000000Z.snap").read_bytes()
    broken = tmp_path / "hasp-20260103T000000Z.snap"
    at = good.index(b"tape")
    for data in (good[:-10], good[:at] + b"tapf" + good[at + 4:]):
        broken.write_bytes(data)
        (tmp_path / "tmp").mkdir(exist_ok=True)
        # As the newest of a folder, and by its name.
        for named in (tmp_path, broken):
            done = drill(named, tmp=tmp_path / "tmp")
            assert done.returncode == 65, done.stderr
            assert done.stdout == ""
            assert str(broken) + ": the backup is damaged" in done.stderr
        assert os.listdir(tmp_path / "tmp") == []


def test_no_backup_and_no_folder(tmp_path):
    done = drill(tmp_path, tmp=tmp_path)
    assert done.returncode == 66
    assert "has no backup" in done.stderr
    done = drill(tmp_path / "none", tmp=tmp_path)
    assert done.returncode == 66
    assert "cannot read" in done.stderr


def test_a_drill_that_is_interrupted_leaves_nothing(made, tmp_path):
    process = subprocess.Popen(
        [HASP, "drill", "restore", "--tmp", str(tmp_path), str(made)],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL)
    wait_until(lambda: os.listdir(tmp_path) or process.poll() is not None, 30,
               "it has a directory")
    process.send_signal(signal.SIGINT)
    # It may have been through by then.
    assert process.wait(60) in (0, 69)
    assert os.listdir(tmp_path) == []
