# SPDX-License-Identifier: MIT
"""The slow log on real disks: NODE.SLOW, hasp slow, the log line, the metric and
HTTP name the stage in which a request's time went; waits are not slow."""

import json
import re
import subprocess
import time
import urllib.request

import pytest

from cluster import Cluster, Session, as_map, is_sanitized, text, wait_until
from slow_disk import SlowDisk
from tls_cluster import HASP

FLUSH_MS = 400
SLOW_MS = 200

pytestmark = pytest.mark.skipif(
    is_sanitized(), reason="a sanitizer wants to be the first library"
)


@pytest.fixture(scope="module")
def cluster():
    with Cluster(3, start=False) as made:
        made.disk = {
            node.id: SlowDisk(made.folder, "disk-%d" % node.id)
            for node in made.nodes
        }
        for node in made.nodes:
            node.start(environment=made.disk[node.id].environment)
        made.leader()
        yield made


def hasp(cluster, *words):
    at = ",".join("127.0.0.1:%d" % node.client_port for node in cluster.nodes)
    return subprocess.run(
        [HASP, "-e", at] + [str(word) for word in words],
        capture_output=True, text=True, timeout=60,
    )


def slow_requests(node):
    with node.connect() as client:
        return [as_map(row) for row in client.do("NODE.SLOW")]


def metric(node):
    url = "http://127.0.0.1:%d/metrics" % node.http_port
    with urllib.request.urlopen(url, timeout=10) as answer:
        page = answer.read().decode()
    return int(re.search(r"^hasp_slow_requests_total (\d+)", page, re.M)[1])


def acquire_slowly(cluster, node, name):
    """Acquires while the leader's disk is slow; the request as the node that
    was asked and the leader recorded it."""
    leader = cluster.leader()
    with node.connect(60) as client:
        Session(client, ttl=60000)
        cluster.disk[leader.id].tell("flush %d" % FLUSH_MS)
        try:
            client.do("LOCK.ACQUIRE", name)
        finally:
            cluster.disk[leader.id].tell()

    def recorded():
        found = {
            at.id: [one for one in slow_requests(at)
                    if text(one["lock"]) == name]
            for at in (leader, node)
        }
        return found if all(found.values()) else None

    return leader, wait_until(recorded, 30, "it is recorded")


def test_a_slow_disk_is_found_by_each_way(cluster):
    done = hasp(cluster, "log", "slow", SLOW_MS)
    assert done.returncode == 0, done.stderr
    leader, found = acquire_slowly(cluster, cluster.leader(), "by-hand")
    one = found[leader.id][0]
    assert text(one["command"]) == "LOCK.ACQUIRE"
    # Followers may need long for the flush, too, so only the leader's is sure.
    assert one["flush_us"] >= (FLUSH_MS - 50) * 1000
    assert one["wait_us"] == 0
    stages = [key for key in one if key.endswith("_us")
              and key not in ("took_us", "wait_us")]
    # Each is cut to whole microseconds.
    assert 0 <= one["took_us"] - sum(one[key] for key in stages) < 20
    assert metric(leader) >= 1
    line = re.search(r'event="slow request" .*lock="by-hand".*', leader.log())
    assert re.search(r"flush_ms=\d{3}", line[0])
    listed = json.loads(hasp(cluster, "-o", "json", "slow").stdout)
    mine = [row for row in listed if row["lock"] == "by-hand"]
    assert mine[0]["node"] == leader.id and "flush" in mine[0]["stages"]
    table = hasp(cluster, "slow", "--node", leader.id).stdout
    assert re.search(r"LOCK.ACQUIRE +by-hand .*flush \d", table)
    url = "http://127.0.0.1:%d/v1/node/slow?count=256" % leader.http_port
    with urllib.request.urlopen(url, timeout=10) as answer:
        rows = json.load(answer)["requests"]
    assert "by-hand" in [row["lock"] for row in rows]


def test_a_forwarded_request_names_the_leader_as_the_cause(cluster):
    leader = cluster.leader()
    follower = next(node for node in cluster.nodes if node.id != leader.id)
    leader, found = acquire_slowly(cluster, follower, "forwarded")
    assert found[leader.id][0]["by_node"] == follower.id
    assert found[follower.id][0]["forward_us"] >= (FLUSH_MS - 50) * 1000


def test_a_long_wait_is_not_slow(cluster):
    leader = cluster.leader()
    follower = next(node for node in cluster.nodes if node.id != leader.id)
    with leader.connect() as holder, follower.connect(60) as waiter:
        Session(holder, ttl=60000)
        Session(waiter, ttl=60000)
        holder.do("LOCK.ACQUIRE", "crowded")
        waiter.send("LOCK.ACQUIRE", "crowded", "WAIT", 60000)
        # Longer than the threshold: this is the subject, not a proof.
        time.sleep(3 * SLOW_MS / 1000)
        holder.do("LOCK.RELEASE", "crowded")
        waiter.receive()
    for node in (leader, follower):
        for one in slow_requests(node):
            if text(one["lock"]) == "crowded":
                # A busy machine: what counted was something else.
                assert one["took_us"] >= SLOW_MS * 1000
                assert one["wait_us"] >= 2 * SLOW_MS * 1000
