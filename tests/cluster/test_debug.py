# SPDX-License-Identifier: MIT
"""hasp debug: what is in a bundle, and that no secret is: each secret that this
test makes is searched for, in every file of it."""

import hashlib
import json
import os
import re
import stat
import subprocess
import tarfile
import time

import pytest

from cluster import Client, Cluster
from tls_cluster import HASP, TlsCluster, as_user, tool

LONGEST_S = 20
NAME = "payroll/nightly-close"
NAMES = [NAME, "carol-the-client", "ledger-team", "dave", "because-of-eve"]


def bundle(cluster, path, *words, at=None):
    """Makes a bundle and returns its files by name."""
    tls = ["--tls", cluster.app] if hasattr(cluster, "app") else []
    at = at or ",".join(
        "127.0.0.1:%d" % node.client_port for node in cluster.nodes)
    began = time.monotonic()
    done = tool("-e", at, *tls, "debug", path, *words)
    assert time.monotonic() - began < LONGEST_S
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    return unpack(path), done


def unpack(path):
    with tarfile.open(path) as archive:
        files = {}
        for member in archive.getmembers():
            if member.isfile():
                name = member.name.split("/", 1)
                assert name[0] == "hasp-debug"
                files[name[1]] = archive.extractfile(member).read()
    manifest = json.loads(files["manifest.json"])
    assert set(manifest["files"]) == set(files) - {"manifest.json"}
    for name, told in manifest["files"].items():
        assert told["size"] == len(files[name])
        assert told["sha256"] == hashlib.sha256(files[name]).hexdigest()
    return files


@pytest.fixture(scope="module")
def busy():
    """A cluster with TLS, users, locks and their secrets."""
    with TlsCluster() as cluster:
        leader = cluster.leader()
        secrets = []
        for words in (["user", "add", "dave", "--may", "lock:*"],
                      ["blacklist", "add", "--client", "mallory*", "--reason",
                       "because-of-eve"]):
            tool("--socket", leader.dir, *words)
        path = os.path.join(cluster.folder, "dave.secret")
        tool("--socket", leader.dir, "secret", "add", "dave", "--file", path)
        with open(path) as file:
            secrets.append(file.read().split()[-1])
        with leader.connect() as client:
            client.do("CLIENT", "SETNAME", "carol-the-client")
            opened = client.map("SESSION.OPEN", "TTL", 60000, "NAME",
                                "carol-the-client", "LABEL", "team",
                                "ledger-team")
            secrets.append(opened["secret"].decode()
                           if isinstance(opened["secret"], bytes)
                           else opened["secret"])
            client.do("LOCK.ACQUIRE", NAME)
            with leader.door() as door:
                door.do("NODE.SET", "metrics.class", NAME)
            for folder, _, names in os.walk(cluster.certs):
                for name in names:
                    if name.endswith(".key"):
                        with open(os.path.join(folder, name)) as file:
                            lines = file.read().splitlines()
                        secrets += [line for line in lines if len(line) > 40]
            assert len(secrets) > 5
            yield cluster, leader, secrets


def test_a_bundle_has_the_pieces_and_no_secret(busy, tmp_path):
    cluster, leader, secrets = busy
    files, done = bundle(cluster, tmp_path / "b.tar.gz", "--config",
                         leader.config, "--log", leader.log_path)
    assert "look through it before you send it: it has the names" in done.stderr
    for node in cluster.nodes:
        status = json.loads(files["node-%d-status.json" % node.id])
        assert status["node"] == node.id
        for piece in ("info", "limits", "audit", "top", "graph", "locks",
                      "sessions", "denied", "blacklist"):
            text = files["node-%d-%s.json" % (node.id, piece)]
            assert b'"error"' not in text, (piece, text)
        page = files["node-%d-metrics.txt" % node.id]
        assert re.search(rb"^hasp_raft_is_leader [01]$", page, re.M)
    page = files["node-%d-metrics.txt" % leader.id]
    assert b'{class="%s"} ' % NAME.encode() in page
    assert b"became leader" in files["machine-log.txt"]
    assert b"disk_reserve" in files["machine-config.txt"]
    assert re.search(rb"^OK\tdirectory\t", files["machine-doctor.txt"], re.M)
    assert leader.dir.encode() in files["machine-files.txt"]
    for i in (1, 2, 3):
        page = files["machine-metrics-%d.txt" % i]
        assert re.search(rb"^hasp_raft_is_leader [01]$", page, re.M)
    everything = b"\n".join(files.values())
    assert NAME.encode() in everything
    for secret in secrets:
        assert secret.encode() not in everything


def test_a_redacted_bundle_has_no_name_either(busy, tmp_path):
    cluster, leader, secrets = busy
    config = tmp_path / "haspd.conf"
    with open(leader.config) as file:
        config.write_text(file.read() + "[metrics]\nclass = %s\n" % NAME)
    with Client(leader.client_port, 10, as_user(cluster.certs)) as client:
        client.do("AUTH", "dave", secrets[0])
        files, done = bundle(cluster, tmp_path / "b.tar.gz", "--redact",
                             "--config", config, "--log", leader.log_path)
    assert "--redact" not in done.stderr
    page = files["node-%d-metrics.txt" % leader.id]
    for label in (b'class="', b'user="'):
        assert re.search(label + b'h-[0-9a-f]{16}"', page)
    # Other labels stay.
    assert re.search(rb'^hasp_turn_seconds_bucket{le="0.001"} \d+$', page, re.M)
    assert re.search(rb"^class = h-[0-9a-f]{16} ; file$",
                     files["machine-config.txt"], re.M)
    for name, text in files.items():
        for word in NAMES + secrets:
            assert word.encode() not in text, (name, word)
    # One name has one hash in all files, and events can still be read.
    hashes = [set(re.findall(rb"h-[0-9a-f]{16}", files[name]))
              for name in ("node-1-locks.json", "node-2-locks.json")]
    assert hashes[0] and hashes[0] == hashes[1]
    assert b'event="became leader"' in files["machine-log.txt"]


def test_a_redacted_log_in_json_can_be_read(tmp_path):
    lines = [{"ts": "2026-01-01T00:00:00Z", "level": "info", "node": 1,
              "event": "administration", "command": "USER.SET", "name": "dave",
              "from": "10.0.0.1:7", "took_ms": 12},
             {"ts": "2026-01-01T00:00:01Z", "level": "warn", "node": 1,
              "event": "slow request", "lock": NAME, "other": [NAME]}]
    log = tmp_path / "log"
    log.write_text("".join(json.dumps(line) + "\n" for line in lines)
                   + '{"event": "cut short", "lock": "%s' % NAME)
    path = tmp_path / "b.tar.gz"
    tool("debug", path, "--redact", "--offline", "--config", "/no/such",
         "--log", log)
    text = unpack(path)["machine-log.txt"].decode()
    for word in NAMES + ["10.0.0.1"]:
        assert word not in text
    found = [json.loads(line) for line in text.splitlines()[-3:-1]]
    for line, told in zip(lines, found):
        assert set(told) == set(line)
        for key, value in line.items():
            if key in ("name", "from", "lock", "other"):
                assert re.fullmatch("h-[0-9a-f]{16}", told[key])
            else:
                assert told[key] == value


def test_a_node_that_does_not_answer_and_no_leader(tmp_path):
    with Cluster(3) as cluster:
        cluster.leader()
        cluster.nodes[0].kill()
        cluster.nodes[1].kill()
        files, _ = bundle(cluster, tmp_path / "b.tar.gz")
        assert json.loads(files["node-3-status.json"])["node"] == 3
        silent = [json.loads(text) for name, text in files.items()
                  if re.fullmatch(r"node-\d+-status.json", name)
                  and b'"error"' in text]
        assert len(silent) == 2
        # The machine of a stopped node.
        path = tmp_path / "offline.tar.gz"
        tool("debug", path, "--offline", "--config", cluster.nodes[0].config,
             "--log", cluster.nodes[0].log_path)
        files = unpack(path)
        assert not any(name.startswith("node-") for name in files)
        assert b"wal" in files["machine-files.txt"]


def test_what_exists_is_not_replaced_and_nothing_is_left(tmp_path):
    path = tmp_path / "b.tar.gz"
    path.write_text("mine")
    done = tool("debug", path, "--offline", "--config", "/no/such", check=False)
    assert done.returncode == 73 and path.read_text() == "mine"
    done = tool("debug", tmp_path / "no" / "b.tar.gz", "--offline", "--config",
                "/no/such", check=False)
    assert done.returncode == 73, done.stderr
    # The folder of this process is gone, with what was in it.
    traced = subprocess.run(
        ["strace", "-f", "-e", "trace=mkdir", HASP, "debug",
         str(tmp_path / "c.tar.gz"), "--offline", "--config", "/no/such"],
        capture_output=True, text=True, timeout=60)
    made = re.findall(r'mkdir\("(/tmp/hasp-debug-\w+)"', traced.stderr)
    assert len(made) == 1 and not os.path.exists(made[0])
