# SPDX-License-Identifier: MIT
"""Settings of a running node: what SIGHUP and NODE.SET change, what needs a
restart, and that the table of docs/operations.md says the same of each."""

import json
import os
import re
import signal
import subprocess
import urllib.request

import pytest

from cluster import ROOT, Cluster, ReplyError, as_map, text, wait_until
from tls_cluster import HASP

# Another value for each setting that a node of the test can be given, besides
# those that are numbers, words or switches.
OTHER = {
    "node.dir": "/elsewhere", "listen.local": "/elsewhere",
    "http.names": "other", "http.fleetlock": "edge:3",
    "cluster.name": "other", "audit.file": "/elsewhere",
    "tls.dir": "/elsewhere", "tls.ca": "/elsewhere",
    "tls.cert": "/elsewhere", "tls.key": "/elsewhere",
    "node.log_level": "debug", "node.log_format": "json",
    "client.redirect": "moved", "redis.del": "allow",
    "redis.no_ttl": "durable", "redis.same_value": "renew", "upgrade.finalize": "auto",
    "security.access": "open", "tls.metrics": "open", "http.api": "no",
    "cluster.alone": "yes", "security.insecure": "yes",
    "security.core_dumps": "yes", "tls.http_certificates": "yes",
    "raft.election_ms": "601", "raft.heartbeat_ms": "76",
    "limits.wal_segment_size": "33554432",
    # The node would need certificates.
    "tls.client": None, "tls.peer": None, "tls.http": None,
    "cluster.replace_empty": None,
    # Ports, which are the node's own; another one is as good.
    "listen.client": "127.0.0.1:1", "listen.peer": "127.0.0.1:2",
    "listen.http": "127.0.0.1:3", "listen.consul": "127.0.0.1:4",
    "metrics.class": "jobs/ jobs/eu/",
    "consul.datacenter": "dc2", "consul.no_ttl": "durable",
}
LIMITS = "limits."


def settings_of(client):
    rows = [as_map(row) for row in client.do("NODE.SETTINGS")]
    return {
        text(row["name"]): {key: text(row[key]) for key in row} for row in rows
    }


def hasp(cluster, *words):
    at = ",".join("127.0.0.1:%d" % node.client_port for node in cluster.nodes)
    return subprocess.run(
        [HASP, "-e", at] + [str(word) for word in words],
        capture_output=True, text=True, timeout=60,
    )


def write(node, values):
    """Replaces lines of the node's file; adds what it does not have."""
    lines, section = [], None
    left = dict(values)
    with open(node.config) as file:
        for line in file.read().splitlines():
            section = line.strip("[]") if line.startswith("[") else section
            name = "%s.%s" % (section, line.split(" = ")[0])
            lines.append(line if name not in left
                         else "%s = %s" % (line.split(" = ")[0], left.pop(name)))
    for name, value in left.items():
        section, key = name.split(".")
        lines += ["[%s]" % section, "%s = %s" % (key, value)]
    with open(node.config, "w") as file:
        file.write("\n".join(lines) + "\n")


def reload(node):
    """Sends SIGHUP and waits until the node has read its settings again;
    returns what it then logged."""
    before = len(node.log())
    node.signal(signal.SIGHUP)
    wait_until(
        lambda: re.search(r"settings were (not )?read again",
                          node.log()[before:]),
        20, "settings read again",
    )
    return node.log()[before:]


@pytest.fixture(scope="module")
def lone():
    with Cluster(1) as made:
        made.leader()
        yield made.nodes[0]


@pytest.fixture(scope="module")
def cluster():
    with Cluster(3) as made:
        made.leader()
        yield made


def table():
    with open(os.path.join(ROOT, "docs", "operations.md")) as file:
        return dict(re.findall(
            r"^\| `([a-z]+\.\w+)` \|[^|]*\|[^|]*\| ([a-z ]+) \|",
            file.read(), re.M))


def test_the_manual_says_of_each_setting_what_changes_it(lone):
    with lone.connect() as client:
        settings = settings_of(client)
    assert {name: row["changes"] for name, row in settings.items()} == table()


def other(name, value):
    """Another value of the setting."""
    if name in OTHER:
        return OTHER[name]
    return str(int(value) - 1 if name.startswith(LIMITS) else int(value) + 1)


def test_each_setting_changes_as_the_table_says(lone):
    with open(lone.config) as file:
        original = file.read()
    with lone.connect() as client:
        before = settings_of(client)
        tried = set()
        for name, row in sorted(before.items()):
            value = other(name, row["value"]) if name not in (
                "node.id", "cluster.member", "cluster.trust") else None
            if value is None:
                continue
            with open(lone.config, "w") as file:
                file.write(original)
            write(lone, {name: value})
            log = reload(lone)
            now = settings_of(client)[name]
            if row["changes"] == "reload":
                assert (now["value"], now["source"]) == (value, "file"), name
                assert name in log.split("read again", 1)[1], log
            else:
                assert now["value"] == row["value"], name
                assert re.search("settings wait for a restart.*" + name, log), log
            tried.add(name)
        with open(lone.config, "w") as file:
            file.write(original)
        reload(lone)
        assert settings_of(client) == before
    assert len(tried) >= len(before) - 7


def test_node_set_refuses_what_needs_a_restart(lone):
    with lone.connect() as client:
        for name, row in settings_of(client).items():
            if row["changes"] != "reload":
                with pytest.raises(ReplyError, match="cannot change"):
                    client.do("NODE.SET", name, row["value"])
            else:
                assert client.do("NODE.SET", name, row["value"]) == "OK"
        for words in (("node.log_level", "loud"), ("node.nothing", "1"),
                      ("limits.flush_ms", "0"), ("limits.flush_ms", "x"),
                      ("log_level", "info"), ("limits.", "1")):
            with pytest.raises(ReplyError, match="BADARG"):
                client.do("NODE.SET", *words)
        assert settings_of(client)["limits.flush_ms"]["value"] == "100"


def test_what_changes_has_its_effect(lone):
    """One setting of each part of the node that gets them."""
    with lone.connect() as client:
        client.do("SESSION.OPEN", "TTL", 60000)
        client.do("NODE.SET", "limits.name_size", 4)
        with pytest.raises(ReplyError, match="name"):
            client.do("LOCK.ACQUIRE", "longer")
        client.do("NODE.SET", "limits.name_size", 511)
        assert client.do("LOCK.ACQUIRE", "longer") > 0
        assert client.do("SET", "k", "v", "PX", 60000) == "OK"
        client.do("NODE.SET", "redis.del", "allow")
        assert client.do("DEL", "k") == 1
        client.do("NODE.SET", "redis.del", "refuse")
        client.do("NODE.SET", "limits.connections_per_address", 1)
        with pytest.raises((ReplyError, ConnectionError, OSError)):
            with lone.connect() as second:
                second.do("PING")
        client.do("NODE.SET", "limits.connections_per_address", 4096)
        with lone.connect() as second:
            assert second.do("PING") == "PONG"


def test_a_change_for_a_time_is_reverted(lone):
    with lone.connect() as client:
        client.do("NODE.SET", "node.log_level", "error", "FOR", 60000)
        client.do("NODE.SET", "node.log_level", "debug", "FOR", 1, "BY", "ann")
        wait_until(
            lambda: settings_of(client)["node.log_level"]["value"] == "info",
            20, "the level before both changes")
        assert re.search(r"administration.*NODE.SET.*by=\"ann\"", lone.log())
        assert "its time is over" in lone.log()


def test_the_level_decides_what_is_logged(lone):
    with lone.connect() as client:
        client.do("NODE.SET", "node.log_level", "debug")
        with lone.connect() as second:
            second.do("PING")
        wait_until(lambda: "client gone" in lone.log(), 10, "a debug line")
        client.do("NODE.SET", "node.log_level", "info")


def test_json_lines_are_json(lone):
    odd = 'a "quoted" \\ name \n \u00e9 \x01'
    before = len(lone.log())
    with lone.connect() as client:
        client.do("NODE.SET", "node.log_format", "json")
        client.do("BLACKLIST.ADD", "CLIENT", "nobody-*", "REASON", odd, "BY", odd)
        client.do("BLACKLIST.ADD", "CLIENT", "y" * 64, "REASON", "x" * 4000)
        client.do("SESSION.OPEN", "TTL", 60000, "NAME", "many")
        session = as_map(client.do("SESSION.OPEN", "TTL", 60000, "NAME", "two"))
        for name in ("a", "b", "c"):
            client.do("LOCK.ACQUIRE", name, "SESSION", session["id"])
        client.do("BLACKLIST.ADD", "CLIENT", "two")
        client.do("BLACKLIST.REMOVE", "CLIENT", "two")
        client.do("NODE.SET", "node.log_format", "logfmt")
    lines = [json.loads(line) for line in lone.log()[before:].splitlines()
             if line.startswith("{")]
    acts = [line for line in lines if line["event"] == "administration"]
    assert len(acts) >= 4
    assert {"ts", "level", "node", "event"} <= set(acts[0])
    reasons = [line.get("reason", "") for line in acts]
    # The text of an act, as AUDIT.LIST has it.
    assert any(reason.startswith('a \\x22quoted\\x22 \\x5c name \\x0a ')
               for reason in reasons), reasons
    held = [line for line in lines if line.get("holds") == 3]
    assert held and {held[0]["lock"], held[0]["lock_2"], held[0]["lock_3"]} == {
        "a", "b", "c"}
    assert lone.log()[before:].splitlines()[0].startswith("{") or \
        "event=" in lone.log()[before:].splitlines()[0]


def test_a_broken_file_changes_nothing(lone):
    with open(lone.config) as file:
        original = file.read()
    write(lone, {"node.log_level": "loud", "redis.del": "allow"})
    log = reload(lone)
    assert "settings were not read again" in log and "must be error" in log
    with lone.connect() as client:
        assert settings_of(client)["redis.del"]["value"] == "refuse"
    with open(lone.config, "w") as file:
        file.write(original)
    assert "settings were read again" in reload(lone)


# --- The tool -----------------------------------------------------------------


def test_log_level_of_all_and_of_one(cluster):
    done = hasp(cluster, "log", "level", "debug")
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr.count("node.log_level = debug") == 3
    assert hasp(cluster, "log", "level", "info").returncode == 0
    assert hasp(cluster, "log", "format", "json", "--node", 2).returncode == 0
    for node in cluster.nodes:
        with node.connect() as client:
            assert (settings_of(client)["node.log_format"]["value"] == "json") \
                == (node.id == 2)
    done = hasp(cluster, "config", "diff")
    assert done.returncode == 1
    assert [row.split()[:3] for row in done.stdout.splitlines()[1:]] == [
        ["node.log_format", "1", "logfmt"], ["node.log_format", "2", "json"],
        ["node.log_format", "3", "logfmt"]]
    assert hasp(cluster, "log", "format", "logfmt", "--node", 2).returncode == 0
    assert hasp(cluster, "config", "diff").returncode == 0
    done = hasp(cluster, "log", "level", "loud")
    assert done.returncode != 0 and "must be error" in done.stderr
    assert hasp(cluster, "log", "level", "info", "--node", 9).returncode == 69


def test_the_file_is_compared_with_the_running_node(cluster):
    node = cluster.nodes[1]
    with open(node.config) as file:
        original = file.read()
    assert hasp(cluster, "config", "diff", "--config", node.config).returncode == 0
    write(node, {"raft.election_ms": "777", "limits.flush_ms": "50"})
    done = hasp(cluster, "-o", "json", "config", "diff", "--config", node.config)
    assert done.returncode == 1
    rows = {row["name"]: row for row in json.loads(done.stdout)}
    assert set(rows) == {"raft.election_ms", "limits.flush_ms"}
    assert rows["raft.election_ms"]["file"] == "777"
    assert rows["raft.election_ms"]["value"] == "600"
    assert rows["raft.election_ms"]["changes"] == "restart"
    assert rows["limits.flush_ms"]["changes"] == "reload"
    with open(node.config, "w") as file:
        file.write(original)
    shown = hasp(cluster, "-o", "json", "config", "show", "--node", 3)
    values = {row["name"]: row["value"] for row in json.loads(shown.stdout)}
    assert values["node.id"] == "3"
    assert values["cluster.member"].count(", ") == 2


def class_counts(node):
    page = urllib.request.urlopen(
        "http://127.0.0.1:%d/metrics" % node.http_port, timeout=10).read()
    return {name: int(count) for name, count in re.findall(
        r'^hasp_class_grants_total{class="(.*)"} (\d+)$', page.decode(), re.M)}


def test_classes_of_names_change_while_the_node_runs():
    with Cluster(1) as made:
        made.leader()
        node = made.nodes[0]
        assert class_counts(node) == {}
        with node.connect() as client:
            client.do("NODE.SET", "metrics.class", "jobs/ jobs/eu/")
            assert class_counts(node) == {"jobs/": 0, "jobs/eu/": 0, "other": 0}
            for name in ("jobs/1", "jobs/eu/1", "jobs/eu/2", "x"):
                client.do("SET", name, "me", "NX", "PX", 60000)
            assert class_counts(node) == {"jobs/": 1, "jobs/eu/": 2, "other": 1}
            # A refused list changes nothing.
            with pytest.raises(ReplyError, match="metrics.class has 'jobs/'"):
                client.do("NODE.SET", "metrics.class", "jobs/ jobs/")
            client.do("NODE.SET", "metrics.class", "jobs/eu/ x")
            assert class_counts(node) == {"jobs/eu/": 2, "x": 0, "other": 1}
            write(node, {"metrics.class": "jobs/eu/"})
            assert 'changed="metrics.class"' in reload(node)
            assert class_counts(node) == {"jobs/eu/": 2, "other": 1}
            client.do("NODE.SET", "metrics.class", "")
            assert class_counts(node) == {}
