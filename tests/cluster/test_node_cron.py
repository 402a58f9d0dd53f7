# SPDX-License-Identifier: MIT
"""hasp/node-cron with the package node-cron, where npm has a registry to install it
from: two processes whose clocks differ have one task, each fire of which one
of them runs. node_cron_long.py does it for minutes."""

import contextlib
import glob
import json
import os
import shutil
import subprocess
import time

import pytest

from cluster import ROOT, Cluster, wait_until

CLIENT = os.path.join(ROOT, "clients", "node")
PROGRAM = os.path.join(os.path.dirname(__file__), "node_clients", "fires.js")
PACKAGE = "node-cron@4.6.0"
SPARE_S = 60
FIRES = 12
AHEAD_S = 3  # How far the clock of one process is ahead.


@pytest.fixture(name="folder", scope="module")
def folder_(tmp_path_factory):
    folder = tmp_path_factory.mktemp("node-cron")
    shutil.copy(PROGRAM, folder)
    (folder / "package.json").write_text('{"private":true}')
    try:
        subprocess.run(["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts",
                        "--fetch-retries=0", PACKAGE], cwd=folder, check=True,
                       capture_output=True, timeout=90)
    except (OSError, subprocess.SubprocessError) as error:
        pytest.skip("npm has no registry to fetch node-cron from: %s" % error)
    return folder


@pytest.fixture(autouse=True)
def no_fires(folder):
    (folder / "fires").unlink(missing_ok=True)


@contextlib.contextmanager
def process(folder, cluster, ahead_s):
    ports = ",".join("127.0.0.1:%d" % n.client_port for n in cluster.nodes)
    out = open(folder / ("out%d" % ahead_s), "ab")
    library = glob.glob("/usr/lib/*/faketime/libfaketimeMT.so.1")[0]
    one = subprocess.Popen(
        ["node", "fires.js", CLIENT, "fires", ports, str(ahead_s)], cwd=folder,
        env={**os.environ, "LD_PRELOAD": library, "FAKETIME": "%+ds" % ahead_s,
             "FAKETIME_DONT_FAKE_MONOTONIC": "1"}, stdout=out, stderr=out)
    try:
        yield one
    finally:
        one.kill()
        one.wait()
        out.close()


def fires(folder):
    """[time], [how far the clock was ahead], in the order in which they ran."""
    if not (folder / "fires").exists():
        return [], []
    lines = [x.split() for x in (folder / "fires").read_text().splitlines()]
    return [x[0] for x in lines], [int(x[1]) for x in lines]


def test_each_fire_runs_once(folder):
    def has(count, by):
        return fires(folder)[1].count(by) >= count

    with Cluster(3) as cluster:
        cluster.leader()
        with process(folder, cluster, 0):
            wait_until(lambda: has(1, 0), SPARE_S, "the first fire")
            with process(folder, cluster, AHEAD_S):
                wait_until(lambda: has(FIRES // 3, AHEAD_S), SPARE_S + FIRES, "fires")
                leader = cluster.leader()
                leader.kill()
                leader.start()
                wait_until(lambda: has(2 * FIRES // 3, AHEAD_S), SPARE_S + FIRES,
                           "fires after a leader died")
            before = fires(folder)[1].count(0)
            # The other process runs the fires that the first had not run.
            wait_until(lambda: has(before + FIRES // 3, 0), SPARE_S + FIRES,
                       "fires of the other process")
    ran, _ = fires(folder)
    assert len(ran) >= FIRES
    assert len(set(ran)) == len(ran), "a fire ran twice"


def test_without_a_cluster_nothing_runs(folder, tmp_path):
    """It fails closed: node-cron skips the fire."""
    text = """
        const { RunCoordinator } = require(%s);
        const one = new RunCoordinator({ endpoints: '127.0.0.1:1', timeout: 200 });
        one.shouldRun('job:2026', 30000).then(() => process.exit(1), (error) =>
          console.log(error.code));
    """ % json.dumps(CLIENT + "/node-cron")
    done = subprocess.run(["node", "-e", text], capture_output=True, text=True,
                          timeout=SPARE_S, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "UNREACHABLE\n"), done.stderr
