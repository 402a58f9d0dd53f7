# SPDX-License-Identifier: MIT
"""Backups: hasp snapshot save, inspect, restore; and a lost majority."""

import hashlib
import http.client
import json
import os
import re
import shutil
import subprocess
import threading
import time

import pytest

from cluster import (
    HASPD,
    Client,
    Cluster,
    ReplyError,
    Session,
    admit_fences,
    wait_until,
)
from fake_node import FakeNode
from test_http import get, metrics

HASP = os.environ.get("HASP", os.path.join(os.path.dirname(HASPD), "hasp"))
FULL_MS = 75005  # Lease of a Redis value if ttl_max is a minute.


def hasp(*words, nodes=()):
    """Runs the tool, by the local door of the first node that runs; returns the
    finished process."""
    env = dict(os.environ)
    running = [node for node in nodes if node.is_running]
    at = ["--socket", running[0].dir] if running else []
    return subprocess.run(
        [HASP] + at + [str(word) for word in words],
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )


def done(*words, nodes=()):
    """As above, and it must have succeeded; returns its stdout."""
    run = hasp(*words, nodes=nodes)
    assert run.returncode == 0, run.stderr
    return run.stdout


def inspect(path):
    return json.loads(done("-o", "json", "snapshot", "inspect", path))


def member(cluster, number):
    """The options of restore for this node as the first of a new life."""
    node = cluster.nodes[number - 1]
    peer, client = node.addresses.split(",")
    return ["--dir", node.dir, "--id", node.id] + [
        "--address",
        peer,
        "--client",
        client,
    ]


def status_of(node):
    return wait_until(node.status, 10, "node %d answers" % node.id)


def refusal(client, *words):
    with pytest.raises(ReplyError) as caught:
        client.do(*words)
    return str(caught.value)


def assert_http_says_later(node):
    """In the quarantine a lease is not held by anybody: 503, and when to ask
    again."""
    wire = http.client.HTTPConnection("127.0.0.1", node.http_port, timeout=10)
    wire.request(
        "PUT",
        "/v1/lease/quarantined",
        json.dumps({"holder": "me", "ttl_ms": 1000}),
        {"Content-Type": "application/json"},
    )
    answer = wire.getresponse()
    body = json.load(answer)
    wire.close()
    assert (answer.status, body["code"]) == (503, "BUSY"), body
    assert int(answer.headers["Retry-After"]) >= 1
    assert "quarantine" in body["detail"]


class Load(threading.Thread):
    """Changes the state as fast as one connection does, until left."""

    def __init__(self, node):
        super().__init__(daemon=True)
        self.node = node
        self.is_over = False
        self.count = 0
        self.worst_s = 0.0

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.is_over = True
        self.join(20)
        assert not self.is_alive()

    def run(self):
        with self.node.connect(20.0) as client:
            while not self.is_over:
                begun = time.monotonic()
                name = "r%d-%s" % (self.count, "x" * 200)
                assert client.do("FENCE.ADMIT", name, 5) == 1
                self.worst_s = max(self.worst_s, time.monotonic() - begun)
                self.count += 1


@pytest.fixture
def folder(tmp_path):
    return str(tmp_path)


def test_a_log_that_has_grown_is_put_into_a_snapshot():
    """By its size: its entries are far from a million. 64K, and up to a quarter
    more, so that not all nodes write at once."""
    size = 64 << 10
    with Cluster(1, "snapshot_log_size = 64K\n") as cluster:
        node = cluster.leader()
        with node.connect() as client:
            Session(client)

            def grow(by):
                for _ in range(by // 4000):
                    client.do("LOCK.ACQUIRE", "a", "VALUE", b"v" * 4000)

            grow(size // 2)
            assert metrics(node)["hasp_snapshots_total"] == 0
            for count in range(1, 4):
                grow(size * 5 // 4)
                wait_until(
                    lambda: metrics(node)["hasp_snapshots_total"] >= count,
                    10,
                    "a snapshot is taken",
                )
            told = metrics(node)
            grown = size // 2 + 3 * (size * 5 // 4)
            assert told["hasp_snapshots_total"] <= grown // size
            assert told["hasp_snapshot_index"] <= status_of(node)["applied"]


def test_a_backup_is_saved_under_load(folder):
    """Also while snapshots come and go faster than they are read."""
    path = os.path.join(folder, "backup")
    with Cluster(extra="snapshot_entries = 500\n") as cluster:
        leader = cluster.leader()
        with leader.connect() as client:
            admit_fences(client, 6000, 500)
        before = status_of(leader)["applied"]
        with Load(leader) as load:
            wait_until(lambda: load.count > 50, 10, "the load has begun")
            for node in [leader] + cluster.followers(leader):
                told = json.loads(
                    done(
                        "-o",
                        "json",
                        "snapshot",
                        "save",
                        path,
                        "--force",
                        nodes=[node],
                    )
                )
                found = inspect(path)
                assert found["index"] == told["index"]
                assert found["checksum"] == told["checksum"]
                assert found["size"] == told["size"] == os.path.getsize(path)
                assert found["size"] > 1000000
                assert found["fences"] >= 6000
                assert len(found["members"]) == 3
            assert found["index"] > before
        assert os.listdir(folder) == ["backup"]
        run = hasp("snapshot", "save", path, nodes=[leader])
        assert run.returncode == 73 and "--force" in run.stderr
        assert os.stat(path).st_mode & 0o077 == 0


def test_equal_states_give_equal_files(folder):
    with Cluster() as cluster:
        leader = cluster.leader()
        with leader.connect() as client:
            session = Session(client, ttl=60000)
            client.do("LOCK.ACQUIRE", "a", "DELAY", 7000)
            for node in cluster.nodes:
                node.door().close()
            # That somebody came by a door is an entry.
            wait_until(
                lambda: str(client.do("AUDIT.LIST")).count("AUDIT.LOGIN") == 3,
                15,
                "each door was opened",
            )
        cluster.converged()
        files = []
        for node in cluster.nodes:
            path = os.path.join(folder, "from-%d" % node.id)
            done("snapshot", "save", path, nodes=[node])
            with open(path, "rb") as file:
                files.append(file.read())
        assert files[0] == files[1] == files[2]
        found = inspect(path)
        assert session.id > found["token_base"]
        assert found["sessions"] == found["holds"] == found["locks"] == 1
        assert found["longest_ttl_ms"] == 60000
        assert found["longest_delay_ms"] == 7000


def test_a_damaged_backup_is_refused(folder):
    path = os.path.join(folder, "backup")
    with Cluster(1) as cluster:
        with cluster.leader().connect() as client:
            client.do("FENCE.ADMIT", "q" * 100, 5)
        done("snapshot", "save", path, nodes=cluster.nodes)
        with open(path, "rb") as file:
            good = file.read()

        def refused(data):
            with open(path, "wb") as file:
                file.write(data)
            run = hasp("snapshot", "inspect", path)
            assert run.returncode == 65 and run.stdout == ""
            options = member(cluster, 1)
            options[1] = os.path.join(folder, "new")
            restore = hasp("snapshot", "restore", path, *options)
            assert restore.returncode == 65
            assert not os.path.exists(options[1])
            return run.stderr

        at = good.index(b"q" * 100)
        assert "within its records" in refused(
            good[:at] + b"p" + good[at + 1 :]
        )
        # The record begins with its map and the size of its key.
        assert "at offset %d" % (at - 5) in refused(good[: at + 50])
        assert "at offset %d" % (at - 5) in refused(
            good[: at - 1] + b"\xff" + good[at:]
        )
        assert "not a snapshot" in refused(b"x" + good[1:])
        assert hasp("snapshot", "inspect", path + "x").returncode == 65


class Sender(FakeNode):
    """Sends a backup in parts of 100 bytes, or what a test puts in the place of
    the part with some number; counts how often it was begun."""

    def __init__(self, data, spoilt):
        self.data = data
        self.spoilt = spoilt
        self.begun = 0
        self.parts = 0
        super().__init__(self.send)

    def send(self, words):
        if words == [b"RAFT.BACKUP"]:
            self.begun += 1
            return {"index": 9, "term": 2, "size": len(self.data), "leader": 1}
        assert words[:3] == [b"RAFT.PART", b"9", b"2"]
        at = int(words[3])
        self.parts += 1
        part = self.data[at : at + 100]
        return self.spoilt.get(self.parts, lambda part: part)(part)


def test_what_comes_over_the_network_is_checked(folder):
    path = os.path.join(folder, "backup")
    with Cluster(1) as cluster:
        with cluster.leader().connect() as client:
            client.do("FENCE.ADMIT", "q" * 300, 5)
        done("snapshot", "save", path, nodes=cluster.nodes)
    with open(path, "rb") as file:
        good = file.read()
    os.remove(path)

    def save(spoilt, begun):
        with Sender(good, spoilt) as node:
            run = hasp("-e", node.endpoint, "snapshot", "save", path)
            assert node.begun == begun
        if run.returncode != 0:
            assert os.listdir(folder) == []
        return run

    def gone(part):
        return ReplyError("GONE that snapshot is kept no more")

    run = save({3: lambda part: b"z" + part[1:]}, 1)
    assert run.returncode == 65 and "checksum" in run.stderr
    assert save({3: lambda part: part + good}, 1).returncode == 76
    assert save({2: lambda part: b""}, 1).returncode == 76
    assert save({2: lambda part: None}, 1).returncode == 76
    # A snapshot that vanished meanwhile is restarted, a few times.
    run = save({1: gone, 2: gone, 3: gone}, 3)
    assert run.returncode == 69 and "try again" in run.stderr
    assert save({3: gone}, 2).returncode == 0
    with open(path, "rb") as file:
        assert file.read() == good


def test_a_restore_begins_a_new_life(folder):
    path = os.path.join(folder, "backup")
    with Cluster() as cluster:
        one, two, three = cluster.nodes
        with cluster.leader().connect() as client:
            old = Session(client, ttl=60000)
            tokens = [client.do("LOCK.ACQUIRE", "l%d" % i) for i in range(5)]
            assert client.do("FENCE.ADMIT", "disk", tokens[3]) == 1
            client.do("BLACKLIST.ADD", "CLIENT", "bad*", "REASON", "so")
        done("snapshot", "save", path, nodes=cluster.nodes)
        with cluster.leader().connect() as client:
            later = Session(client, ttl=60000)
            tokens.append(client.do("LOCK.ACQUIRE", "later"))
        for node in cluster.nodes:
            assert node.stop() == 0

        run = hasp("snapshot", "restore", path, "--config", one.config)
        assert run.returncode == 73 and "not empty" in run.stderr
        os.rename(one.dir, one.dir + ".old")
        run = hasp(
            "snapshot",
            "restore",
            path,
            "--config",
            one.config,
            "--quarantine",
            "6s",
        )
        assert run.returncode == 0, run.stderr
        assert "hasp member add 2 " + two.addresses in run.stderr
        assert "hasp member add 3 " + three.addresses in run.stderr

        one.start()
        wait_until(one.is_serving, 10, "the new life has begun")
        begun = time.monotonic()
        status = one.status()
        assert 0 < status["quarantine_ms"] <= 6000
        assert len(status["members"]) == 1

        with one.connect(20.0) as client:
            refused = refusal(client, "SESSION.ATTACH", old.id, old.secret)
            assert refused.startswith("NOSESSION")
            refused = refusal(client, "SESSION.ATTACH", later.id, later.secret)
            assert refused.startswith("NOSESSION")
            refused = refusal(client, "SESSION.OPEN", "NAME", "badly")
            assert refused == "BLACKLISTED so"
            assert client.do("FENCE.SHOW", "disk") == tokens[3]
            assert client.do("FENCE.ADMIT", "disk", tokens[4]) == 0
            Session(client, ttl=60000)
            refused = refusal(client, "LOCK.ACQUIRE", "l0")
            assert refused.startswith("BUSY quarantine after a restore")
            left_ms = int(refused.split()[-2])
            assert_http_says_later(one)
            assert 0 < left_ms <= 6000
            assert "quarantine" in hasp("status", nodes=[one]).stderr
            health = hasp("health", nodes=[one])
            assert health.returncode == 0 and "quarantine" in health.stderr
            assert "after a restore" in done("why", "l0", nodes=[one])
            token = client.do("LOCK.ACQUIRE", "l0", "WAIT", 15000)
            assert time.monotonic() - begun > (left_ms - 1000) / 1000
            assert token > max(tokens)
            assert client.do("FENCE.ADMIT", "disk", token) == 1
            assert one.status()["quarantine_ms"] == 0
            log = one.log()
            assert "command=LIFE" in log and "restored=1" in log
            assert "command=QUARANTINE.OVER" in log

        # A node of the old life does not get in, or out.
        two.start()
        wait_until(
            lambda: "another cluster" in two.log() + one.log(),
            10,
            "it is refused",
        )
        assert len(one.status()["members"]) == 1 and one.is_serving()
        assert status_of(two)["role"] != "leader"
        two.kill()

        for node in two, three:
            shutil.rmtree(node.dir)
            node.start()
            done("member", "add", node.id, node.addresses, nodes=[one])
        cluster.converged()
        one.kill()
        leader = cluster.leader()
        with leader.connect() as client:
            assert client.do("LOCK.CHECK", "l0", token) == 1
            assert client.do("FENCE.SHOW", "disk") == token


def test_a_lost_majority(folder):
    """Two of three directories are gone; the third begins a new life."""
    running = os.path.join(folder, "running")
    stopped = os.path.join(folder, "stopped")
    with Cluster() as cluster:
        one, two, three = cluster.nodes
        with cluster.leader().connect() as client:
            Session(client, ttl=60000)
            token = client.do("LOCK.ACQUIRE", "a")
            assert client.do("FENCE.ADMIT", "disk", token) == 1
        with three.door() as door:
            assert door.do("LIMITS.SET", "ttl_max", 60000) == "OK"
        cluster.converged()
        for node in one, two:
            node.kill()
            shutil.rmtree(node.dir)

        # The rest can be read, in either way.
        wait_until(
            lambda: status_of(three)["leader"] == 0, 10, "nobody leads"
        )
        run = hasp("snapshot", "save", running, nodes=cluster.nodes)
        assert run.returncode == 0 and "knows no leader" in run.stderr
        os.remove(running)
        run = hasp("snapshot", "save", running, nodes=[three])
        assert run.returncode == 0 and "knows no leader" in run.stderr
        run = hasp("snapshot", "save", stopped, "--data", three.dir)
        assert run.returncode == 70 and "in use" in run.stderr
        assert not os.path.exists(stopped)
        three.kill()
        done("snapshot", "save", stopped, "--data", three.dir)
        run = hasp("snapshot", "save", stopped, "--data", three.dir)
        assert run.returncode == 73
        done("snapshot", "save", stopped, "--data", three.dir, "--force")
        run = hasp("snapshot", "save", running + "x", "--data", folder)
        assert run.returncode == 78 and "not the data directory" in run.stderr
        for path in running, stopped:
            found = inspect(path)
            assert found["fences"] == found["holds"] == 1
        assert inspect(stopped)["index"] >= inspect(running)["index"]

        os.rename(three.dir, three.dir + ".old")
        done("snapshot", "restore", stopped, *member(cluster, 3))
        three.start()
        wait_until(three.is_serving, 10, "the new life has begun")
        # Without --quarantine it is as long as any lease can be.
        status = three.status()
        assert FULL_MS - 60000 < status["quarantine_ms"] <= FULL_MS
        for node in one, two:
            node.start()
            done("member", "add", node.id, node.addresses, nodes=[three])
        cluster.converged()
        three.kill()
        leader = cluster.leader()
        with leader.connect() as client:
            assert client.do("FENCE.SHOW", "disk") == token
            Session(client)
            assert refusal(client, "LOCK.ACQUIRE", "a").startswith("BUSY")
            refused = refusal(client, "SESSION.OPEN", "TTL", 60001)
            assert refused == "LIMIT ttl_max: at most 60000 ms"
            assert status_of(leader)["quarantine_ms"] > FULL_MS - 60000
            end_quarantine(cluster, leader, client)


def end_quarantine(cluster, leader, client):
    """Until then it is shown everywhere; a reason must be given."""
    status, _, body = get(leader, "/readyz")
    assert status == 200 and "nothing is granted for another" in body
    left = r"^hasp_quarantine_left_seconds (\d+)$"
    metrics = get(leader, "/metrics")[2]
    assert int(re.search(left, metrics, re.M).group(1)) > 0
    assert 'event="quarantine after a restore" left_ms=' in leader.log()
    assert "REASON" in refusal(client, "QUARANTINE.END", "BY", "me")
    assert hasp("quarantine", "end", nodes=[leader]).returncode == 64
    assert refusal(client, "LOCK.ACQUIRE", "a").startswith("BUSY")
    done("quarantine", "end", "--i-vouch", "all were off", nodes=[leader])
    assert client.do("LOCK.ACQUIRE", "a") > 0
    assert status_of(leader)["quarantine_ms"] == 0
    assert re.search(left, get(leader, "/metrics")[2], re.M).group(1) == "0"
    cluster.converged()
    for node in cluster.nodes:
        if node.is_running:
            line = next(li for li in node.log().splitlines()
                        if 'QUARANTINE.OVER' in li)
            assert 'reason="all were off"' in line and "from=" in line
    again = hasp("quarantine", "end", "--i-vouch", "x", nodes=[leader])
    assert again.returncode == 65 and "no quarantine" in again.stderr


def test_a_quarantine_does_not_begin_again(folder):
    """Neither at a leader that restarts nor at one that follows another."""
    path = os.path.join(folder, "backup")
    with Cluster(1) as cluster:
        node = cluster.leader()
        done("snapshot", "save", path, nodes=[node])
        assert node.stop() == 0
        shutil.rmtree(node.dir)
        options = member(cluster, 1) + ["--quarantine", "20s"]
        done("snapshot", "restore", path, *options)
        for left_ms in 15000, 10000:
            node.start()
            wait_until(node.is_serving, 10, "the new life serves")
            wait_until(lambda: node.status()["quarantine_ms"] < left_ms, 20,
                       "some of the quarantine is over")
            node.kill()
        node.start()
        wait_until(node.is_serving, 10, "the new life serves")
        # The clock of the log has counted at least half of it.
        assert 0 < node.status()["quarantine_ms"] < 16500
        done("quarantine", "end", "--i-vouch", "a test", nodes=[node])


def test_the_log_behind_the_last_snapshot_is_saved_as_well(folder):
    path = os.path.join(folder, "backup")
    with Cluster(1, extra="snapshot_entries = 100\n") as cluster:
        node = cluster.leader()
        with node.connect() as client:
            for i in range(250):
                assert client.do("FENCE.ADMIT", "f", i) == 1
        applied = node.status()["applied"]
        node.kill()
        done("snapshot", "save", path, "--data", node.dir)
        assert inspect(path)["index"] == applied
        # The directory is as good as before.
        node.start()
        cluster.leader()
        with node.connect() as client:
            assert client.do("FENCE.SHOW", "f") == 249


def test_a_node_that_was_added_later_may_begin_the_new_life(folder):
    """It listens where its configuration says, and no line of members has it."""
    path = os.path.join(folder, "backup")
    config = os.path.join(folder, "haspd.conf")
    text = ("[node]\nid = 4\ndir = %s/data\n[security]\ninsecure = yes\n"
            "[cluster]\nmember = 1 192.0.2.1:7421 192.0.2.1:7420\n" % folder)
    with Cluster(1) as cluster:
        done("snapshot", "save", path, nodes=[cluster.leader()])
    restore = ["snapshot", "restore", path, "--config", config]
    with open(config, "w") as file:
        file.write(text)
    refused = hasp(*restore)
    assert refused.returncode == 78
    assert "listens on loopback" in refused.stderr
    with open(config, "a") as file:
        file.write("[listen]\npeer = 192.0.2.4:7421\nclient = 192.0.2.4:7420\n")
    assert hasp(*restore).returncode == 0
    saved = os.path.join(folder, "again")
    done("snapshot", "save", "--data", folder + "/data", saved)
    assert inspect(saved)["members"] == [
        {"id": 4, "role": "voter",
         "address": "192.0.2.4:7421,192.0.2.4:7420"}
    ]


def test_of_two_restores_the_later_one_has_larger_tokens(folder):
    path = os.path.join(folder, "backup")
    with Cluster(1) as cluster:
        node = cluster.leader()
        done("snapshot", "save", path, nodes=[node])
        node.kill()
        tokens, ids = [], []
        for _ in range(2):
            shutil.rmtree(node.dir)
            options = member(cluster, 1) + ["--quarantine", "0"]
            done("snapshot", "restore", path, *options)
            node.start()
            cluster.leader()
            with Client(node.client_port) as client:
                Session(client)
                for _ in range(100):
                    tokens.append(client.do("LOCK.ACQUIRE", "a"))
                    client.do("LOCK.RELEASE", "a")
            done("snapshot", "save", path + "2", "--force", nodes=[node])
            ids.append(inspect(path + "2")["cluster"])
            node.kill()
            time.sleep(1.1)  # The tokens begin with the date in seconds.
        assert tokens == sorted(tokens) and len(set(tokens)) == 200
        assert ids[0] != ids[1] != inspect(path)["cluster"]


def test_a_restore_keeps_durable_holds(folder):
    path = os.path.join(folder, "backup")
    proof = hashlib.sha256(b"0" * 32).hexdigest()
    with Cluster(1) as cluster:
        node = cluster.leader()
        with Client(node.client_port) as client:
            opened = client.do(
                *"SESSION.OPEN TTL NONE LABEL reason freeze PROOF".split(), proof
            )
            session = opened[opened.index(b"id") + 1]
            token = client.do("LOCK.ACQUIRE", "deploy")
            assert client.do("LOCK.BREAK", "deploy", "AFTER", 60000) == 1
        with Client(node.client_port) as client:
            Session(client)
            leased = client.do("LOCK.ACQUIRE", "leased")
        done("snapshot", "save", path, nodes=[node])
        node.kill()
        shutil.rmtree(node.dir)
        done(
            *["snapshot", "restore", path, *member(cluster, 1)],
            *["--quarantine", "0"],
        )
        node.start()
        cluster.leader()
        with Client(node.client_port) as client:
            assert client.do("SESSION.ATTACH", session, "0" * 32) == "OK"
            # The same hold, no longer about to be broken.
            assert client.do("LOCK.OBJECT", "deploy") == 0
            assert client.do("LOCK.ACQUIRE", "deploy") == token
            assert client.do("FENCE.ADMIT", "disk", leased) == 0
            assert client.do("FENCE.ADMIT", "disk", token) == 1
            assert client.do("SESSION.CLOSE") == 1
            assert client.do("FENCE.ADMIT", "tape", token) == 0


def test_a_restore_of_users_keeps_or_suspends_them(folder):
    path = os.path.join(folder, "backup")

    def state(node, name):
        rows = json.loads(done("-o", "json", "--socket", node.dir, "user", "list"))
        return {row["name"]: row["state"] for row in rows}[name]

    with Cluster(1) as cluster:
        node = cluster.leader()
        door = "--socket", node.dir
        done(*door, "role", "set", "billing", "lock:billing/*")
        done(*door, "user", "add", "app", "--role", "billing")
        done(*door, "user", "add", "gone", "--role", "billing")
        done(*door, "secret", "add", "app", "--file", folder + "/app.secret")
        done(*door, "user", "disable", "gone")
        done(*door, "user", "remove", "gone")
        done("snapshot", "save", path, nodes=[node])
        found = inspect(path)
        assert (found["users"], found["secrets"]) == (1, 1)
        node.kill()
        shutil.rmtree(node.dir)
        restore = ["snapshot", "restore", path, *member(cluster, 1),
                   "--quarantine", "0"]
        refused = hasp(*restore)
        assert refused.returncode == 64
        assert "1 users besides admin and 1 secrets" in refused.stderr
        assert re.search(r"their last change: 20..-..-.. ..:..:.. UTC, "
                         r"USER.REMOVE name=gone\n", refused.stderr)
        assert "--users suspend" in refused.stderr
        assert hasp(*restore, "--users", "drop").returncode == 64
        assert not os.path.exists(node.dir)
        for word, kept in ("keep", "enabled"), ("suspend", "disabled"):
            told = hasp(*restore, "--users", word)
            assert told.returncode == 0, told.stderr
            assert "1 users besides admin and 1 secrets" in told.stderr
            node.start()
            cluster.leader()
            assert state(node, "app") == state(node, "admin") == kept
            at = "-e", "127.0.0.1:%d" % node.client_port
            secret = "--secret-file", folder + "/app.secret"
            take = *at, *secret, "acquire", "billing/x", "--ttl", "1s"
            taken = hasp(*take)
            assert taken.returncode == (0 if word == "keep" else 77), taken.stderr
            if word == "suspend":
                done(*door, "user", "enable", "app")
                done(*take)
                assert state(node, "admin") == "disabled"
            node.kill()
            shutil.rmtree(node.dir)


def test_a_restore_that_was_cut_short_does_not_start(folder):
    """The log is made last: without it the directory is refused."""
    path = os.path.join(folder, "backup")
    with Cluster(1) as cluster:
        node = cluster.leader()
        done("snapshot", "save", path, nodes=[node])
        node.kill()
        for keep_snapshot in True, False:
            shutil.rmtree(node.dir)
            done("snapshot", "restore", path, *member(cluster, 1))
            for kind in ["wal"] if keep_snapshot else ["wal", "snapshot"]:
                for name in os.listdir(os.path.join(node.dir, kind)):
                    os.remove(os.path.join(node.dir, kind, name))
            node.start()
            assert node.wait_exit() == 70
            assert "is incomplete" in node.log()


def test_wrong_use_of_restore(folder):
    with Cluster(1, start=False) as cluster:
        options = member(cluster, 1)
        assert hasp("snapshot", "restore", "x").returncode == 64
        assert hasp("snapshot", "restore", *options).returncode == 64
        assert hasp("snapshot", "restore", "x", *options[:-2]).returncode == 64
        both = options + ["--config", cluster.nodes[0].config]
        assert hasp("snapshot", "restore", "x", *both).returncode == 64
        late = options + ["--quarantine", "soon"]
        assert hasp("snapshot", "restore", "x", *late).returncode == 64
        missing = hasp("snapshot", "restore", folder + "/x", *options)
        assert missing.returncode == 65
        assert not os.path.exists(cluster.nodes[0].dir)
