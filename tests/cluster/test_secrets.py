# SPDX-License-Identifier: MIT
"""Nothing on disks, in logs, in backups or in the list of processes opens a
session.

The program under test is $HASPD, the tool $HASP (default: build/release/...)."""

import contextlib
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys

import pytest

from cluster import ROOT, Cluster, Session, wait_until
from wire import proof_of

sys.path.insert(0, os.path.join(ROOT, "clients", "python"))
import hasp as python_client  # noqa: E402

HASP = os.path.abspath(
    os.environ.get("HASP", os.path.join(ROOT, "build", "release", "hasp"))
)
KNOWN = "00112233445566778899aabbccddeeff"


@pytest.fixture(scope="module")
def cluster():
    extra = "snapshot_entries = 100\nflush_ms = 10\n[node]\nlog_level = debug\n"
    with Cluster(extra=extra) as cluster:
        cluster.leader()
        yield cluster


def endpoints(cluster):
    return ",".join("127.0.0.1:%d" % n.client_port for n in cluster.nodes)


def tool(cluster, *words):
    return [HASP, "-e", endpoints(cluster)] + list(words)


def ask(cluster, *words):
    return subprocess.run(tool(cluster, *words), capture_output=True,
                          encoding="utf-8", timeout=60)


def run(cluster, *words):
    result = ask(cluster, *words)
    assert result.returncode == 0, result.stderr
    return result.stdout


def told(cluster, *words):
    return json.loads(run(cluster, "-o", "json", *words))


def node_client(cluster):
    """The secret of a session that a client in Node.js has opened."""
    script = (
        "require(%r).Session.open({endpoints: %r}).then((session) => "
        "{ console.log(session.secret); return session.close(); })"
        % (os.path.join(ROOT, "clients", "node"), endpoints(cluster))
    )
    return subprocess.run(["node", "-e", script], capture_output=True, check=True,
                          encoding="utf-8", timeout=60).stdout.strip()


def files_below(*folders):
    for folder in folders:
        for path, _, names in os.walk(folder):
            for name in names:
                file = os.path.join(path, name)
                if os.path.isfile(file):  # There is a socket, too.
                    yield file


def holds_any(data, secrets):
    """A secret, as text in either case or as bytes."""
    return [
        secret for secret in secrets
        if secret.encode() in data or secret.upper().encode() in data
        or bytes.fromhex(secret) in data
    ]


def command_lines():
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            with open("/proc/%s/cmdline" % pid, "rb") as file:
                yield pid, file.read()


def test_no_file_holds_a_secret(cluster, tmp_path):
    leader = cluster.leader()
    secrets = []
    with contextlib.ExitStack() as stack:
        # Made by the client, by the leader, and by each of our clients.
        wires = [stack.enter_context(leader.connect()) for _ in range(2)]
        shown = wires[0].map("SESSION.OPEN", "TTL", 60000, "PROOF",
                             proof_of(KNOWN))
        assert "secret" not in shown
        secrets += [KNOWN, Session(wires[1], ttl=60000).secret]
        session = python_client.Session(endpoints=endpoints(cluster))
        stack.callback(session.close)
        secrets.append(session.secret)
        lease = tmp_path / "lease"
        run(cluster, "acquire", "a", "--ttl", "60s", "--session-file",
            str(lease))
        secrets.append(lease.read_text().strip().split(":")[1])
        secrets += [node_client(cluster)] if shutil.which("node") else []
        # Attaching and keeping show the secret to a node.
        for node in cluster.nodes:
            other = stack.enter_context(node.connect())
            other.do("SESSION.ATTACH", shown["id"], KNOWN)
            other.do("SESSION.KEEP", shown["id"], KNOWN)
        # Through the log, the table and a snapshot of each node, and a backup.
        for i in range(250):
            wires[0].do("LOCK.ACQUIRE", "k%d" % i)
        backup = tmp_path / "backup"
        backup.mkdir()
        save = [HASP, "--socket", cluster.nodes[0].dir, "snapshot", "save"]
        subprocess.run(save + [str(backup / "file")], check=True, timeout=60)
        for node in cluster.nodes:
            with node.connect() as client:
                client.do("RAFT.SNAPSHOT")
        folders = [cluster.folder, str(backup)]
        proof = hashlib.sha256(KNOWN.encode()).digest()

        def seen():
            where = set()
            for path in files_below(*folders):
                with contextlib.suppress(FileNotFoundError):
                    with open(path, "rb") as file:
                        if proof in file.read():
                            where.add(os.path.relpath(path, cluster.folder))
            return where

        # The search finds what is there: the hash.
        wait_until(
            lambda: sum(1 for p in seen() if "snap" in p) >= 3
            and any("backup" in p for p in seen()),
            20, "the hash in a snapshot of each node and in the backup",
        )
        kinds = " ".join(seen())
        assert "wal" in kinds and "table" in kinds, kinds
        for path in files_below(*folders):
            with contextlib.suppress(FileNotFoundError):
                with open(path, "rb") as file:
                    assert holds_any(file.read(), secrets) == [], path


def test_no_command_line_holds_a_secret(cluster, tmp_path):
    lease = tmp_path / "lease"
    run(cluster, "acquire", "taken", "--ttl", "60s", "--session-file",
        str(lease))
    other = tmp_path / "other"
    run(cluster, "acquire", "mine", "--ttl", "60s", "--session-file",
        str(other))
    credentials = other.read_text().strip()
    secret = credentials.split(":")[1]
    for words in (["--session-file", str(other)], ["--session", credentials]):
        waiting = subprocess.Popen(
            tool(cluster, "acquire", "taken", "-w", "20", *words),
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )
        try:
            with cluster.leader().connect() as client:
                wait_until(
                    lambda: client.map("LOCK.SHOW", "taken")["queue"], 15,
                    "somebody waits",
                )
            lines = dict(command_lines())
            assert b"taken" in lines[str(waiting.pid)]
            for pid, line in lines.items():
                assert secret.encode() not in line, (pid, line)
        finally:
            waiting.kill()
            waiting.wait(10)
        with cluster.leader().connect() as client:
            id = credentials.split(":")[0]
            client.do("SESSION.ATTACH", id, secret)
            client.do("LOCK.CANCEL", "taken")


def test_a_session_file_takes_the_place_of_the_secret(cluster, tmp_path):
    path = str(tmp_path / "lease")
    here = ["--session-file", path]
    got = told(cluster, "acquire", "filed/1", "--ttl", "30s", *here)
    assert "secret" not in got
    assert os.stat(path).st_mode & 0o777 == 0o600
    with open(path) as file:
        credentials = file.read().strip()
    assert re.fullmatch("%d:[0-9a-f]{32}" % got["session"], credentials)
    again = told(cluster, "acquire", "filed/2", *here)
    assert again["session"] == got["session"] and "secret" not in again
    assert ask(cluster, "session", "keep", *here).returncode == 0
    assert ask(cluster, "release", "filed/1", *here).returncode == 0
    # Acquired again, not the first answer repeated.
    assert told(cluster, "acquire", "filed/1", *here)["token"] > again["token"]
    assert ask(cluster, "release", "filed/1", *here).returncode == 0
    os.chmod(path, 0o644)
    refused = ask(cluster, "release", "filed/2", *here)
    assert refused.returncode == 77 and "chmod 0600" in refused.stderr
    os.chmod(path, 0o600)
    assert ask(cluster, "session", "close", *here).stdout == "1\n"
    assert not os.path.exists(path)
    assert ask(cluster, "release", "filed/2", *here).returncode == 66
    # A lock that was not acquired leaves no file.
    holder = told(cluster, "acquire", "filed/3", "--ttl", "30s")
    assert ask(cluster, "acquire", "-n", "filed/3", *here).returncode == 75
    assert not os.path.exists(path)
    nowhere = ask(cluster, "acquire", "filed/4", "--session-file", path + "/x")
    assert nowhere.returncode == 73
    # A session that has ended, and something else than a session.
    with open(path, "w", opener=lambda p, f: os.open(p, f, 0o600)) as file:
        file.write("%d:%s\n" % (got["session"], "0" * 32))
    assert ask(cluster, "acquire", "filed/4", *here).returncode == 65
    assert ask(cluster, "session", "close", *here).returncode == 65
    assert not os.path.exists(path)
    with open(path, "w", opener=lambda p, f: os.open(p, f, 0o600)) as file:
        file.write("nonsense\n")
    assert "no session" in ask(cluster, "acquire", "filed/4", *here).stderr
    closed = "%d:%s" % (holder["session"], holder["secret"])
    assert ask(cluster, "session", "close", closed).returncode == 0
