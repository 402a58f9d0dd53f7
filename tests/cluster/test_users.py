# SPDX-License-Identifier: MIT
"""Users on real nodes: the local door, secrets, roles, withdrawal, a way back
for those who have locked themselves out."""

import contextlib
import hashlib
import http.client
import json
import os
import re
import socket
import stat
import subprocess
import time

import pytest

from cluster import ROOT, Client, Cluster, ReplyError, Session, wait_until

HASP = os.environ.get("HASP", os.path.join(ROOT, "build", "release", "hasp"))


@pytest.fixture(name="cluster")
def cluster_():
    with Cluster(3, "[security]\ninsecure = yes\n") as nodes:
        nodes.leader()
        yield nodes


class Tool:
    """hasp, for one cluster."""

    def __init__(self, cluster):
        self.ports = ",".join("127.0.0.1:%d" % n.client_port for n in cluster.nodes)
        self.door = cluster.nodes[0].dir

    def run(self, *words):
        at = [] if "--socket" in words else ["-e", self.ports]
        return subprocess.run(
            [HASP] + at + list(words),
            capture_output=True,
            text=True,
            timeout=60,
        )

    def admin(self, *words):
        done = self.run("--socket", self.door, *words)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def add_users(self, folder, role_of):
        """Users with a role each; returns the secret of each."""
        secrets = {}
        for user, role in role_of.items():
            path = folder / user
            self.admin("user", "add", user, "--role", role)
            self.admin("secret", "add", user, "--file", str(path))
            secrets[user] = path.read_text().strip()
        return secrets


def make_app(tool, tmp_path):
    """A user 'app' with 'lock,read:app/*'; the file with its secret."""
    path = str(tmp_path / "app.secret")
    tool.admin("role", "set", "app", "lock,read:app/*")
    tool.admin("user", "add", "app", "--role", "app")
    tool.admin("secret", "add", "app", "--file", path)
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    return path


def test_a_user_gets_as_far_as_his_roles_say(cluster, tmp_path):
    tool = Tool(cluster)
    path = make_app(tool, tmp_path)
    me = ("--secret-file", path)
    tool.admin("access", "required")
    assert "app" in tool.run(*me, "whoami").stdout
    assert tool.run(*me, "run", "app/1", "--", "true").returncode == 0
    done = tool.run(*me, "run", "other", "--", "true")
    assert done.returncode == 77
    assert "user 'app' may not lock 'other' (roles: app)" in done.stderr
    done = tool.run("run", "app/1", "--", "true")
    assert done.returncode == 77 and "NOAUTH" in done.stderr
    assert tool.admin("can", "app", "lock", "app/x").startswith("yes: role 'app'")
    assert tool.run(*me, "user", "list").returncode == 77


def test_a_user_is_added_with_what_he_may(cluster, tmp_path):
    tool = Tool(cluster)
    tool.admin("user", "add", "app", "--may", "lock:app/*", "--may", "read:*")
    assert "lock:app/*" in tool.admin("role", "show", "app")
    assert tool.admin("can", "app", "read", "x").startswith("yes")
    assert tool.run(
        "--socket", tool.door, "can", "app", "lock", "x"
    ).stdout.startswith("no")
    # A role that is there is not changed, nor is one left over.
    done = tool.run("--socket", tool.door, "user", "add", "app", "--may", "x:y")
    assert done.returncode != 0 and "cannot make role 'app'" in done.stderr
    tool.admin("user", "add", "other")
    done = tool.run(
        "--socket", tool.door, "user", "add", "other", "--may", "lock:*"
    )
    assert done.returncode != 0 and "cannot make user 'other'" in done.stderr
    assert "other" not in tool.admin("-o", "plain", "role", "list")
    assert "lock:app/*" in tool.admin("role", "show", "app")


def test_every_node_and_every_start_knows_the_users(cluster, tmp_path):
    tool = Tool(cluster)
    path = make_app(tool, tmp_path)
    tool.admin("access", "required")
    with open(path) as file:
        secret = file.read().strip()
    for node in cluster.nodes:
        node.stop()
    cluster.start()
    wait_until(
        lambda: tool.run("--socket", tool.door, "list").returncode == 0, 20, "a leader"
    )
    for node in cluster.nodes:
        with Client(node.client_port) as client:
            assert text_of(client.do("AUTH", secret)) == "OK"
            with pytest.raises(ReplyError, match="WRONGPASS"):
                client.do("AUTH", secret[:-1] + ("a" if secret[-1] != "a" else "b"))
            Session(client, TTL=5000)
            assert client.do("LOCK.ACQUIRE", "app/%d" % node.id) > 0
            with pytest.raises(ReplyError, match="NOPERM"):
                client.do("LOCK.ACQUIRE", "x")


def text_of(value):
    return value.decode() if isinstance(value, bytes) else value


def test_who_is_disabled_loses_his_connections_and_later_his_locks(cluster, tmp_path):
    tool = Tool(cluster)
    path = make_app(tool, tmp_path)
    with open(path) as file:
        secret = file.read().strip()
    client = cluster.followers(cluster.leader())[0].connect()
    client.do("AUTH", secret)
    Session(client, TTL=2000)
    client.do("LOCK.ACQUIRE", "app/1")
    tool.admin("user", "disable", "app")
    with pytest.raises((ReplyError, OSError, EOFError)):
        while True:
            client.do("SESSION.KEEP")
    door = cluster.nodes[0].connect()
    assert door.map("LOCK.SHOW", "app/1")["holders"], "not before the lease ends"
    wait_until(
        lambda: not door.map("LOCK.SHOW", "app/1")["holders"], 10, "the lease ends"
    )


def test_the_local_door_is_its_owners(cluster):
    path = os.path.join(cluster.nodes[0].dir, "admin.sock")
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    tool = Tool(cluster)
    assert "local" in tool.admin("whoami")
    if os.geteuid() == 0:
        # Another user, even if it can reach the socket.
        os.chmod(path, 0o666)
        for folder in (cluster.folder, cluster.nodes[0].home, cluster.nodes[0].dir):
            os.chmod(folder, 0o755)
        script = (
            "import os, socket; os.setuid(12345); s = socket.socket(socket.AF_UNIX);"
            "s.connect(%r); print(s.recv(100).decode())" % path
        )
        done = subprocess.run(
            ["python3", "-c", script], capture_output=True, text=True, timeout=20
        )
        assert "-NOPERM only root" in done.stdout, done.stderr
    cluster.nodes[0].stop()
    assert not os.path.exists(path)


def test_a_quota_is_its_users_alone(cluster, tmp_path):
    tool = Tool(cluster)
    path = make_app(tool, tmp_path)
    me = ("--secret-file", path)
    tool.admin("user", "set", "app", "--sessions", "1", "--bytes", "1M")
    nested = [HASP, "-e", tool.ports, *me, "run", "app/2", "--", "true"]
    done = tool.run(*me, "run", "app/1", "--", *nested)
    assert done.returncode != 0
    assert "sessions of user 'app': 1 of 1 are in use" in done.stderr
    assert "hasp user set app --sessions N" in done.stderr
    done = tool.run(*me, "run", "app/1", "--", HASP, "-e", tool.ports, "run", "app/2",
                    "--", "true")
    assert done.returncode == 0, done.stderr  # The inner one is anyone's.
    shown = json.loads(tool.admin("-o", "json", "user", "show", "app"))
    assert (shown["sessions"], shown["sessions_max"]) == (0, 1)
    assert (shown["bytes_max"], shown["holds_max"]) == (1 << 20, 100000)
    # Roles and state come and go without them.
    tool.admin("user", "grant", "app", "observer")
    tool.admin("user", "disable", "app")
    tool.admin("user", "enable", "app")
    assert "sessions 0 of 1\n" in tool.admin("user", "show", "app")
    done = tool.run("--socket", tool.door, "user", "set", "app", "--holds", "many")
    assert done.returncode == 64 and "--holds takes a number" in done.stderr
    # After a start the use is recounted, with the same result.
    tool.admin("user", "set", "app", "--sessions", "7")
    assert tool.run(*me, "acquire", "app/3", "--ttl", "60s").returncode == 0
    for node in cluster.nodes:
        node.stop()
    for node in cluster.nodes:
        node.start()
    cluster.leader()
    shown = tool.admin("user", "show", "app")
    assert "sessions 1 of 7\n" in shown and "holds 1 of 100000\n" in shown


def test_acts_are_told_with_who_and_where(cluster, tmp_path):
    tool = Tool(cluster)
    make_app(tool, tmp_path)
    tool.admin("role", "set", "eyes", "audit,cluster")
    tool.admin("user", "add", "eve", "--role", "eyes", "--holds", "5")
    path = str(tmp_path / "eve.secret")
    tool.admin("secret", "add", "eve", "--file", path)
    eve = ("--secret-file", path)
    acts = json.loads(tool.run(*eve, "audit", "-o", "json").stdout)
    told = [(a["user"], a["command"], a["what"], a["outcome"]) for a in acts]
    assert ("local", "USER.SET", "name=eve roles=eyes quotas=holds:5", "OK") in told
    assert told[0][1] == "LIFE" and all(a["from"] == "local" for a in acts[1:])
    with open(path) as file:
        secret = file.read().strip()
    digest = hashlib.sha256(secret.encode()).hexdigest()
    assert secret[-43:] not in str(acts) and digest not in str(acts)
    assert tool.run(*eve, "audit", "--user", "eve", "-o", "plain").stdout == ""
    # A follower of the log sees new acts; members' changes are acts, too.
    with subprocess.Popen(
        [HASP, "-e", tool.ports, *eve, "audit", "-f"], stdout=subprocess.PIPE, text=True
    ) as watcher:
        try:
            tool.admin("user", "grant", "app", "observer")
            for line in watcher.stdout:
                if "roles=app,observer" in line:
                    break
            assert "USER.SET" in line and " local " in line
        finally:
            watcher.kill()
    standby = next(n for n in cluster.nodes if n is not cluster.leader())
    assert tool.run(*eve, "member", "demote", str(standby.id)).returncode == 0
    last = json.loads(tool.run(*eve, "audit", "-o", "json").stdout)[-1]
    assert (last["command"], last["user"]) == ("RAFT.DEMOTE", "eve")
    assert last["what"] == "member=%d" % standby.id
    assert tool.run(*eve, "member", "promote", str(standby.id)).returncode == 0
    # Every node has them, also after a start.
    for node in cluster.nodes:
        node.stop()
    for node in cluster.nodes:
        node.start()
    cluster.leader()
    again = json.loads(tool.run(*eve, "audit", "-o", "json").stdout)
    assert again[: len(acts)] == acts and again[-1]["command"] == "RAFT.PROMOTE"


def test_no_secret_is_left_anywhere(cluster, tmp_path):
    tool = Tool(cluster)
    path = make_app(tool, tmp_path)
    with open(path) as file:
        secret = file.read().strip()
    for node in cluster.nodes:
        with Client(node.client_port) as client:
            client.do("AUTH", secret)
            client.do("RAFT.STATUS")
    tool.admin("snapshot", "save", str(tmp_path / "backup"))
    for node in cluster.nodes:
        node.stop()
    found = [str(tmp_path / "backup")]
    for node in cluster.nodes:
        for folder, _, names in os.walk(node.home):
            found += [os.path.join(folder, name) for name in names]
    random = secret.rsplit(".", 1)[1].encode()
    hashed = hashlib.sha256(secret.encode()).digest()
    knows_hash = False
    for one in found:
        with open(one, "rb") as file:
            data = file.read()
        assert random not in data, one
        knows_hash |= hashed in data
    assert knows_hash, "the files were checked"
    line = [x for x in cluster.nodes[0].log().splitlines() if "SECRET.ADD" in x]
    assert line and 'user="local"' in line[0]
    assert not re.search(r"[0-9a-f]{64}", line[0])


def over_http(node, method, path, members, secret=None):
    headers = {"Content-Type": "application/json"}
    if secret is not None:
        headers["Authorization"] = "Bearer " + secret
    line = http.client.HTTPConnection("127.0.0.1", node.http_port, timeout=20)
    with contextlib.closing(line):
        line.request(method, path, json.dumps(members) if members else None, headers)
        reply = line.getresponse()
        return reply.status, json.loads(reply.read()).get("code")


def padded(size):
    """A body that is read, and then refused."""
    return {"nothing": "x" * size}


def answered_at_the_head(node, secret, size):
    head = "POST /v1/session/open HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    head += "Content-Type: application/json\r\nContent-Length: %d\r\n" % size
    if secret is not None:
        head += "Authorization: Bearer %s\r\n" % secret
    with socket.create_connection(("127.0.0.1", node.http_port), timeout=20) as line:
        line.sendall((head + "\r\n").encode())
        answer = b""
        while b"\r\n" not in answer:
            more = line.recv(4096)
            assert more, answer
            answer += more
        return int(answer.split()[1])


def test_over_http_a_bearer_is_a_user(cluster, tmp_path):
    tool = Tool(cluster)
    with open(make_app(tool, tmp_path), encoding="ascii") as file:
        secret = file.read().strip()
    tool.admin("access", "required")
    for node in cluster.nodes:
        wait_until(
            lambda node=node: over_http(node, "GET", "/v1/locks", None)[0] == 401,
            10,
            "it is applied",
        )
    take = {"holder": "h", "ttl_ms": 20000}
    for i, node in enumerate(cluster.nodes):
        mine, other = "/v1/lease/app/%d" % i, "/v1/lease/other/%d" % i
        assert over_http(node, "PUT", mine, take, secret) == (200, None)
        assert over_http(node, "PUT", other, take, secret) == (403, "NOPERM")
        # Nobody's, though it comes over loopback.
        assert over_http(node, "PUT", mine + "x", take) == (401, "NOAUTH")
        assert over_http(node, "PUT", mine + "x", take, secret + "0")[0] == 401
        assert over_http(node, "PUT", mine + "x", take, "")[0] in (400, 401)
        # The head alone is answered: the body is not waited for.
        wrong = "hasp1.app." + 43 * "A"
        assert answered_at_the_head(node, None, 2) == 401
        assert answered_at_the_head(node, wrong, 4097) == 413
        assert answered_at_the_head(node, secret, 4 << 20) == 413
        path = "/v1/session/open"
        assert over_http(node, "POST", path, padded(4500), secret)[0] == 400
        # The secret is judged before the body is parsed.
        assert over_http(node, "POST", path, padded(3000), wrong) == (401, "WRONGPASS")
        assert over_http(node, "POST", path, padded(4500), wrong)[0] == 413


def test_the_door_of_any_node_is_enough_for_a_change_of_members(cluster):
    """The tool asks the node of the local socket, not the leader without
    authentication."""
    tool = Tool(cluster)
    leader = cluster.leader()
    tool.admin("access", "required")
    behind, other = cluster.followers(leader)
    door = ("--socket", behind.dir)
    done = tool.run("-e", "127.0.0.1:1", *door, "list")
    assert done.returncode == 64 and "drop -e" in done.stderr
    done = tool.run(*door, "--secret-file", "none", "list")
    assert done.returncode == 64 and "drop --secret-file" in done.stderr
    for words in (("demote", str(other.id)), ("promote", str(other.id)),
                  ("transfer", str(behind.id)), ("remove", str(other.id))):
        done = tool.run(*door, "-t", "20s", "member", *words)
        assert done.returncode == 0, (words, done.stderr)
    acts = json.loads(tool.run(*door, "-o", "json", "audit").stdout)
    told = [(a["command"], a["user"]) for a in acts]
    for name in ("RAFT.DEMOTE", "RAFT.PROMOTE", "RAFT.REMOVE"):
        assert (name, "local") in told
    logins = [a["what"] for a in acts if a["command"] == "AUDIT.LOGIN"]
    doors = {cluster.nodes[0].id, behind.id}
    assert sorted(logins) == sorted("member=%d" % i for i in doors), "once each"


def test_what_was_denied_is_told_by_each_node(cluster, tmp_path):
    tool = Tool(cluster)
    path = make_app(tool, tmp_path)
    with open(path) as file:
        secret = file.read().strip()
    tool.admin("role", "set", "watch", "audit")
    tool.admin("user", "grant", "app", "watch")
    for node in cluster.nodes:
        with Client(node.client_port) as client:
            client.do("AUTH", secret)
            for name in ("x", "x", "y"):
                with pytest.raises(ReplyError, match="NOPERM"):
                    client.do("LOCK.SHOW", name)
    words = ("--secret-file", path, "-o", "json", "audit", "--denied")
    # A node decides alone on what it alone knows, by what it has applied.
    wait_until(lambda: tool.run(*words).returncode == 0, 10, "the right on all nodes")
    rows = json.loads(tool.run(*words).stdout)
    rows = [r for r in rows if r["command"] == "LOCK.SHOW"]
    told = sorted((r["node"], r["count"], r["user"], r["command"]) for r in rows)
    assert told == sorted(
        (n.id, count, "app", "LOCK.SHOW") for n in cluster.nodes for count in (1, 2)
    )
    assert "user 'app' may not read 'x'" in rows[0]["why"] + rows[-1]["why"]
    assert secret not in str(rows)
    here = json.loads(tool.admin("-o", "json", "audit", "--denied", "--user", "app"))
    assert {r["node"] for r in here} == {cluster.nodes[0].id}
    assert tool.admin("-o", "json", "audit", "--denied", "--user", "eve") == "[]\n"


def test_users_count_for_nothing_behind_a_plain_port(cluster):
    """So says the log, and the status; it is the operator's choice."""
    tool = Tool(cluster)
    tool.admin("access", "required")
    for node in cluster.nodes:
        wait_until(
            lambda n=node: 'event="users are not enforced" '
            'reason="the peer port is plain"' in n.log(), 10, "the line")
    done = tool.run("--socket", tool.door, "status")
    assert "users are not enforced: the peer port is plain" in done.stderr


def test_without_that_choice_plain_peers_speak_for_nobody():
    with Cluster(3) as cluster:
        tool = Tool(cluster)
        leader = cluster.leader()
        tool.admin("access", "required")
        for node in cluster.nodes:
            done = tool.run("--socket", node.dir, "-t", "15s", "list")
            if node is leader:
                assert done.returncode == 0, done.stderr
            else:
                assert "has reached the leader without TLS" in done.stderr
        assert "unenforced" not in str(leader.status())


def test_who_does_not_say_who_he_is_has_little_room():
    """An eighth of the connections, 16 KiB, 10 s; the one that says it has all
    of it."""
    extra = "[security]\ninsecure = yes\n[limits]\nconnections = 64\n"
    with Cluster(1, extra + "connections_per_address = 64\n") as cluster:
        tool = Tool(cluster)
        node = cluster.leader()
        with Client(node.client_port) as early:
            assert early.do("PING") == "PONG"
            tool.admin("access", "required")
            assert early.do("PING") == "PONG"
            began = time.monotonic()
            with contextlib.ExitStack() as stack:
                many = [stack.enter_context(Client(node.client_port))
                        for _ in range(20)]
                assert many[-1].do("PING") == "PONG"
                closed = [c for c in many[:10] if is_refused(c)]
                assert len(closed) >= 9
                many[-1].send("PING", "x" * 20000)
                assert is_refused(many[-1])
                assert is_refused(many[-2], 15)
                assert time.monotonic() - began > 8


def is_refused(client, seconds=3):
    client.socket.settimeout(seconds)
    try:
        return b"not authenticated" in client.file.read()
    except (OSError, ValueError):
        return False
