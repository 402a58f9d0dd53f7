# SPDX-License-Identifier: MIT
"""cluster.replace_empty: the leader replaces a lost directory by itself."""

import os
import shutil
import subprocess

from cluster import HASPD, as_map, wait_until
from test_backups import metrics
from test_members import Steady, hand_over, roles
from tls_cluster import TlsCluster

MARKER = "hasp-volume"
EMPTY = "replace_empty = 10s\n"


class Replacing(TlsCluster):
    """Three nodes, each with its own volume, which is marked."""

    def __init__(self):
        super().__init__(start=False)
        for node in self.nodes:
            volume = os.path.join(self.folder, "volume-%d" % node.id)
            os.mkdir(volume)
            node.dir = os.path.join(volume, "data")
            self.mark(node)
            self.configure(node, "require")
            with open(node.config) as file:
                text = file.read()
            assert text.count("[cluster]\n") == 1
            with open(node.config, "w") as file:
                file.write(text.replace("[cluster]\n", "[cluster]\n" + EMPTY))
        self.start()
        hand_over(self, self.nodes[0])

    def marker(self, node):
        return os.path.join(os.path.dirname(node.dir), MARKER)

    def mark(self, node):
        with open(self.marker(node), "w"):
            pass

    def lose(self, node, kept=None):
        node.kill()
        if kept is None:
            shutil.rmtree(node.dir)
        else:
            shutil.move(node.dir, kept)
        node.start()

    def load(self):
        folder = os.path.join(self.certs, "user-admin")
        return Steady([n.client_port for n in self.nodes],
                      HASP_TLS=folder)


def incarnation(cluster, node):
    members = cluster.leader(besides=[node]).status()["members"]
    return {m["id"]: m["incarnation"] for m in map(as_map, members)}.get(
        node.id)


def reason(cluster, *besides):
    status = cluster.leader(besides=besides).status()
    return status["replacement"]


def is_back(cluster, node, was):
    return incarnation(cluster, node) != was and all(
        roles(n) == {1: "voter", 2: "voter", 3: "voter"}
        for n in cluster.nodes)


def test_a_directory_is_lost_under_load_and_no_client_notices():
    """`rm -rf` of one node: three voters of three again, without a command. The
    old directory ends for good."""
    with Replacing() as cluster:
        node = cluster.nodes[2]
        was = incarnation(cluster, node)
        old = os.path.join(cluster.folder, "old")
        with cluster.load() as load:
            cluster.lose(node, old)
            wait_until(lambda: "is missed for" in reason(cluster, node), 30,
                       "the leader says what it waits for")
            doctor = cluster.hasp("doctor", check=False)
            assert doctor.returncode == 1
            assert "has an empty data directory and is missed" in doctor.stdout
            wait_until(lambda: is_back(cluster, node, was), 60,
                       "it is replaced")
            found = load.end()
        cluster.converged(30)
        assert found["errors"] == [], found
        assert found["cycles"] > 20
        assert reason(cluster, node) == ""
        audit = cluster.hasp("audit").stdout
        assert "cluster.replace_empty of member 1" in audit
        node.kill()
        shutil.rmtree(node.dir)
        shutil.move(old, node.dir)
        node.start()
        assert node.wait_exit(60) == 78
        assert "was removed by" in node.log()


def test_a_missing_mount_and_a_second_loss_are_refused_with_the_reason():
    """An empty mount point has no marker: an operator decides. The same id is
    lost once more within an hour: so does one then."""
    with Replacing() as cluster:
        node = cluster.nodes[1]
        was = incarnation(cluster, node)
        os.remove(cluster.marker(node))
        cluster.lose(node)
        wait_until(lambda: "has no file 'hasp-volume'" in
                   reason(cluster, node), 30, "the leader says why not")
        assert "this node's directory would not be replaced" in node.log()
        leader = cluster.leader(besides=[node])
        assert "\nhasp_replacement_waiting 1\n" in metrics(leader)
        assert incarnation(cluster, node) == was
        cluster.mark(node)
        node.stop()
        node.start()
        wait_until(lambda: is_back(cluster, node, was), 60, "it is replaced")
        was = incarnation(cluster, node)
        cluster.lose(node)
        wait_until(lambda: "was replaced less than an hour ago" in
                   reason(cluster, node), 30, "the leader says why not")
        done = cluster.hasp("member", "replace", node.id)
        assert done.returncode == 0, done.stderr
        assert is_back(cluster, node, was)


def test_without_certificates_no_node_starts_with_it(tmp_path):
    done = subprocess.run(
        [HASPD, "--id", "1", "--dir", str(tmp_path / "data"),
         "--set", "cluster.replace_empty=10m"],
        capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 78, done
    assert "cluster.replace_empty needs tls.peer = require" in done.stderr
