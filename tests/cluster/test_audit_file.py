# SPDX-License-Identifier: MIT
"""audit.file: each administrative act once, in order, on each node's disk."""

import hashlib
import json
import os
import signal
import stat

import pytest

from cluster import Cluster, ReplyError, wait_until
from test_http import metrics
from test_users import Tool, make_app


def file_of(node):
    return os.path.join(node.home, "audit.jsonl")


def use_files(cluster):
    for node in cluster.nodes:
        node.write_config("[audit]\nfile = %s\n" % file_of(node))


@pytest.fixture(name="cluster")
def cluster_():
    with Cluster(3, start=False) as nodes:
        use_files(nodes)
        nodes.start()
        nodes.leader()
        yield nodes


def ban(cluster, *names):
    for name in names:
        cluster.retry(lambda c, n=name: c.do("BLACKLIST.ADD", "CLIENT", n))


def lines(path):
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file if line.endswith("\n")]


def acts(*paths):
    return [a for path in paths for a in lines(path) if "command" in a]


def names(*paths):
    return [a["what"] for a in acts(*paths) if a["command"] == "BLACKLIST.ADD"]


def has(name, *paths):
    return lambda: any(name in what for what in names(*paths))


def check_whole(*paths):
    """Each once, in order, none missing."""
    told = acts(*paths)
    assert [a["number"] for a in told] == list(range(1, len(told) + 1))
    assert told[0]["command"] == "LIFE"
    assert len({a["cluster"] for a in told}) == 1
    return told


def test_each_act_stands_once_in_each_file(cluster, tmp_path):
    with open(make_app(Tool(cluster), tmp_path), encoding="utf-8") as file:
        secret = file.read().strip()
    ban(cluster, "a", "b")
    for node in cluster.nodes:
        wait_until(has("pattern=b", file_of(node)), 10, "acts")
        assert stat.S_IMODE(os.stat(file_of(node)).st_mode) == 0o600
    # Killed, and away meanwhile; its last line is torn.
    victim = cluster.followers(cluster.leader())[0]
    victim.kill()
    ban(cluster, "c")
    with open(file_of(victim), "a", encoding="utf-8") as file:
        file.write('{"cluster":"torn')
    victim.start()
    wait_until(has("pattern=c", file_of(victim)), 15, "what it has missed")
    for node in cluster.nodes:
        node.kill()
    for node in cluster.nodes:
        node.start()
    cluster.leader()
    ban(cluster, "d")
    for node in cluster.nodes:
        wait_until(has("pattern=d", file_of(node)), 15, "acts after a start")
    told = [check_whole(file_of(node)) for node in cluster.nodes]
    assert told[0] == told[1] == told[2]
    ours = [a for a in told[0] if a["command"] == "BLACKLIST.ADD"]
    assert all(a["outcome"] == "OK" and a["from"] for a in ours)
    assert any(a["command"] == "SECRET.ADD" and a["user"] == "local" for a in told[0])
    with open(file_of(victim), encoding="utf-8") as file:
        text = file.read()
    assert secret.rsplit(".", 1)[1] not in text
    assert hashlib.sha256(secret.encode()).hexdigest() not in text
    with cluster.leader().connect() as client:
        listed = client.do("AUDIT.LIST", "COUNT", 100)
    assert [a["index"] for a in told[0]] == [int(a[1]) for a in listed]


def test_a_renamed_file_is_followed_by_a_new_one(cluster):
    node = cluster.nodes[0]
    path, old = file_of(node), file_of(node) + ".1"
    ban(cluster, "a")
    wait_until(has("pattern=a", path), 10, "an act")
    os.rename(path, old)
    node.signal(signal.SIGHUP)
    wait_until(lambda: os.path.exists(path) and lines(path), 10, "a new file")
    ban(cluster, "b")
    wait_until(has("pattern=b", path), 10, "an act in the new file")
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    check_whole(old, path)
    assert lines(path)[0]["goes_on"] is True
    assert lines(path)[0]["number"] == lines(old)[-1]["number"]
    # Renamed again and killed before any act: the first line says where to
    # continue.
    os.rename(path, old + "2")
    node.signal(signal.SIGHUP)
    wait_until(lambda: os.path.exists(path) and lines(path), 10, "a new file")
    node.kill()
    node.start()
    ban(cluster, "c")
    wait_until(has("pattern=c", path), 15, "an act after the start")
    check_whole(old, old + "2", path)


def test_a_node_without_a_file_writes_all_that_is_known():
    with Cluster(1, start=False) as cluster:
        use_files(cluster)
        node = cluster.nodes[0]
        path = file_of(node)
        cluster.start().leader()
        with node.connect() as client:
            for i in range(200):
                client.do("BLACKLIST.ADD", "CLIENT", "c%d" % i)
        wait_until(has("=c199", path), 10, "the acts")
        node.kill()
        before = check_whole(path)
        os.unlink(path)
        node.start()
        wait_until(lambda: os.path.exists(path), 10, "a file")
        wait_until(has("=c199", path), 10, "all of them")
        assert check_whole(path) == before


def test_what_a_restore_has_undone_is_a_gap():
    with Cluster(1, start=False) as cluster:
        use_files(cluster)
        path = file_of(cluster.nodes[0])
        with open(path, "w", encoding="utf-8") as file:
            file.write('{"cluster":"%s","number":50}\n' % ("ab" * 16))
        cluster.start()
        ban(cluster, "a")
        wait_until(has("pattern=a", path), 10, "an act")
        gap = lines(path)[1]
        assert gap["gap"] == {"from": 1, "to": 50, "why": "undone by a restore"}
        assert gap["cluster"] == check_whole(path)[0]["cluster"]


def test_what_cannot_be_written_is_told_and_tried_again():
    with Cluster(1, start=False) as cluster:
        use_files(cluster)
        node = cluster.nodes[0]
        path = file_of(node)
        with open(path, "w", encoding="utf-8") as file:
            file.write("root:x:0:0\nhalf a line")
        cluster.start()
        ban(cluster, "a")
        wait_until(
            lambda: metrics(node)["hasp_audit_file_failures_total"] > 1, 10, "failures"
        )
        with open(path, encoding="utf-8") as file:
            assert file.read() == "root:x:0:0\nhalf a line"
        assert node.log().count("audit file not written") == 1
        assert "has lines that are not acts" in node.log()
        os.unlink(path)
        wait_until(lambda: os.path.exists(path), 10, "another try")
        wait_until(has("pattern=a", path), 10, "an act")
        check_whole(path)
        wait_until(lambda: "audit file is written again" in node.log(), 10, "a line")


def denials(path):
    return [a for a in lines(path) if "denied" in a]


def test_what_was_denied_stands_in_the_file_of_the_asked_node(cluster, tmp_path):
    """Gathered, after ten seconds; acts keep their numbers."""
    with open(make_app(Tool(cluster), tmp_path), encoding="utf-8") as file:
        secret = file.read().strip()
    node, other = cluster.followers(cluster.leader())
    with node.connect() as client:
        wait_until(lambda: client.do("AUTH", secret) in (b"OK", "OK"), 10, "the user")
        for _ in range(100):
            with pytest.raises(ReplyError, match="NOPERM"):
                client.do("LOCK.SHOW", "orders")
    # A stop reports the collected acts without a wait.
    node.stop()
    node.start()
    (told,) = denials(file_of(node))
    assert told["denied"]["count"] == 100 and told["denied"]["user"] == "app"
    assert told["denied"]["command"] == "LOCK.SHOW"
    assert told["denied"]["why"].startswith("NOPERM user 'app' may not read 'orders'")
    assert told["denied"]["first_ms"] <= told["denied"]["last_ms"]
    assert told["number"] <= acts(file_of(node))[-1]["number"]
    assert denials(file_of(other)) == []
    ban(cluster, "z")
    wait_until(has("pattern=z", file_of(node)), 10, "an act after it")
    check_whole(file_of(node))
    assert node.log().count('event="denied"') == 1
    assert secret not in node.log()
