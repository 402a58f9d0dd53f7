# SPDX-License-Identifier: MIT
"""Backups that are tried: the script of haspd-backup.service, hasp snapshot
verify, and the age of the newest backup in the metrics."""

import os
import re
import subprocess
import time
import urllib.request

import pytest

from cluster import ROOT, Cluster, wait_until
from tls_cluster import HASP, tool

SCRIPT = os.path.join(ROOT, "packaging", "backup.sh")


@pytest.fixture(scope="module")
def cluster():
    with Cluster(1) as made:
        leader = made.leader()
        with leader.connect() as client:
            client.do("FENCE.ADMIT", "tape", 7)
        yield made


def backup(cluster, folder, **settings):
    environment = dict(os.environ)
    environment["PATH"] = "%s:%s" % (os.path.dirname(HASP), environment["PATH"])
    environment.update(settings)
    return subprocess.run(
        ["/bin/sh", SCRIPT, str(folder), "--socket", cluster.nodes[0].dir],
        env=environment, capture_output=True, text=True, timeout=60)


def metrics(node):
    with urllib.request.urlopen(
            "http://127.0.0.1:%d/metrics" % node.http_port, timeout=10) as page:
        return page.read().decode()


def age(node):
    found = re.search(r"^hasp_backup_age_seconds (\S+)$", metrics(node), re.M)
    return float(found.group(1)) if found else None


def test_a_backup_is_saved_verified_and_counted(cluster, tmp_path):
    node = cluster.nodes[0]
    assert age(node) is None
    done = backup(cluster, tmp_path / "b")
    assert done.returncode == 0, done.stderr
    names = os.listdir(tmp_path / "b")
    assert len(names) == 1
    assert re.fullmatch(r"hasp-\d{8}T\d{6}Z\.snap", names[0])
    assert 0 <= age(node) < 60
    inspected = tool("-o", "json", "snapshot", "inspect",
                     tmp_path / "b" / names[0]).stdout
    assert '"fences": 1' in inspected
    # It grows, and a new backup begins it anew.
    wait_until(lambda: age(node) >= 1, 15, "it grows older")
    before = age(node)
    tool("--socket", node.dir, "snapshot", "save", tmp_path / "again.snap")
    assert age(node) < before + 1
    assert re.search("^hasp_backups_total 2$", metrics(node), re.M)


def test_a_truncated_or_changed_file_is_named(cluster, tmp_path):
    folder = tmp_path / "b"
    assert backup(cluster, folder).returncode == 0
    whole = next(folder.iterdir())
    text = whole.read_bytes()
    (folder / "hasp-20200101T000000Z.snap").write_bytes(text[:-10])
    (folder / "hasp-20200102T000000Z.snap").write_bytes(
        text[:40] + bytes([text[40] ^ 1]) + text[41:])
    time.sleep(1.1)  # Names have seconds.
    done = backup(cluster, folder, HASP_KEEP="1", HASP_KEEP_DAYS="1")
    assert done.returncode == 65
    assert "2 of 4 files are damaged" in done.stderr
    for name in ("hasp-20200101T000000Z.snap", "hasp-20200102T000000Z.snap"):
        assert re.search(name + r"\s+damaged", done.stdout), done.stdout
    assert re.search(whole.name + r"\s+ok", done.stdout)
    # Nothing is removed while one is damaged.
    assert len(list(folder.iterdir())) == 4


def test_the_newest_and_one_of_each_day_are_kept(cluster, tmp_path):
    folder = tmp_path / "b"
    assert backup(cluster, folder).returncode == 0
    first = next(folder.iterdir())
    text = first.read_bytes()
    for day in range(1, 11):
        for hour in (3, 9, 21):
            name = "hasp-202001%02dT%02d0000Z.snap" % (day, hour)
            (folder / name).write_bytes(text)
    (folder / "mine.txt").write_text("not ours")
    time.sleep(1.1)
    done = backup(cluster, folder, HASP_KEEP="5", HASP_KEEP_DAYS="4")
    assert done.returncode == 0, done.stderr
    left = sorted(one.name for one in folder.iterdir())
    today = [name for name in left if not name.startswith("hasp-2020")]
    assert "mine.txt" in today and len(today) == 3
    # Two of today and three of the 10th are the newest five; the days are
    # today, the 10th, the 9th and the 8th (one more if it became midnight).
    assert left[:-len(today)][-5:] == [
        "hasp-20200108T210000Z.snap", "hasp-20200109T210000Z.snap",
        "hasp-20200110T030000Z.snap", "hasp-20200110T090000Z.snap",
        "hasp-20200110T210000Z.snap"]
    assert len(left) in (7, 8)


def test_no_node_no_file(tmp_path):
    with Cluster(1, start=False) as made:
        os.mkdir(made.nodes[0].dir)
        done = backup(made, tmp_path / "b")
    assert done.returncode not in (0, 65)
    assert list((tmp_path / "b").iterdir()) == []


def test_verify_says_what_is_wrong(tmp_path):
    done = tool("snapshot", "verify", tmp_path / "none", check=False)
    assert done.returncode == 65
    assert "none" in done.stdout and "damaged" in done.stdout
    assert tool("snapshot", "verify", check=False).returncode == 64
