# SPDX-License-Identifier: MIT
"""Doors: programs that lock elsewhere lock here (docs/doors.md). Terraform is run
if it is installed, since Debian has no package of it; a substitute that
repeats requests as it does is run everywhere."""

import base64
import concurrent.futures
import contextlib
import http.client
import http.server
import json
import os
import random
import shutil
import subprocess
import threading
import time
import uuid

import pytest

from cluster import Cluster, wait_until
from test_http_api import raw
from test_users import Tool

JSON = {"Content-Type": "application/json"}
FLEET = "[http]\nfleetlock = default:1 edge:3\n"
SPARE_S = 60


@pytest.fixture(scope="module")
def cluster():
    with Cluster(3, FLEET) as one:
        one.leader()
        yield one


@pytest.fixture
def name(request):
    return "%s/%d" % (request.node.name, time.monotonic_ns())


def info(who="ann@host", **more):
    return dict({"ID": str(uuid.uuid4()), "Operation": "OperationTypeApply",
                 "Info": "", "Who": who, "Version": "1.11.4",
                 "Created": "2026-11-24T08:00:00.123456789Z", "Path": ""}, **more)


def tell(node, method, name, body, headers=(), query=""):
    """Status and body. As Terraform's client: after 429 and 5xx twice more."""
    text = body if isinstance(body, (str, type(None))) else json.dumps(body)
    for _ in range(3):
        status, _, answer = raw(node, method, "/v1/terraform/%s%s" % (name, query),
                                text, dict(JSON, **dict(headers)))
        if status != 429 and status < 500:
            break
        time.sleep(0.2)
    return status, answer


def token_of(node, name):
    status, _, text = raw(node, "GET", "/v1/locks/terraform/" + name)
    shown = json.loads(text)
    assert status == 200, shown
    return [one["token"] for one in shown["holders"]]


@pytest.mark.parametrize("lock,unlock", [("LOCK", "UNLOCK"), ("PUT", "DELETE"),
                                         ("POST", "DELETE")])
def test_a_state_is_locked_by_one(cluster, name, lock, unlock):
    one, two, three = cluster.nodes
    ours, other = info(), info("bob@host")
    status, answer = tell(one, lock, name, ours)
    assert status == 200
    assert [json.loads(answer)["token"]] == token_of(one, name)
    # A LOCK that is repeated after a lost answer is the same hold.
    assert tell(two, lock, name, ours) == (status, answer)
    respelled = json.dumps(ours, indent=1)
    assert tell(two, lock, name, respelled) == (status, answer)
    # The holder's own bytes are the body, no wrapper.
    assert tell(three, lock, name, other) == (423, json.dumps(ours).encode())
    assert tell(three, unlock, name, other) == (409, json.dumps(ours).encode())
    assert tell(two, unlock, name, ours) == (200, b'{"released":1}\n')
    assert tell(one, unlock, name, ours) == (200, b'{"released":0}\n')
    assert tell(three, lock, name, other)[0] == 200
    assert tell(three, unlock, name, other)[0] == 200
    assert token_of(one, name) == []


def test_a_lock_may_have_an_end(cluster, name):
    node = cluster.nodes[0]
    assert tell(node, "LOCK", name, info(), query="?ttl_ms=500")[0] == 200
    assert tell(node, "LOCK", name, info())[0] == 423
    wait_until(lambda: token_of(node, name) == [], SPARE_S, "the end of the lock")
    assert tell(node, "LOCK", name, info())[0] == 200


def test_other_holders_are_shown_as_info(cluster, name):
    node = cluster.nodes[0]
    raw(node, "PUT", "/v1/lease/terraform/" + name,
        json.dumps({"holder": "cron", "ttl_ms": 60000}), JSON)
    for method, status in (("LOCK", 423), ("UNLOCK", 409)):
        answer = tell(node, method, name, info())
        assert answer[0] == status
        shown = json.loads(answer[1])
        assert shown["ID"] == "not a lock of Terraform" and shown["Path"] == name


def test_what_is_wrong_is_no_answer_about_a_holder(cluster, name):
    """409 and 423 would be taken for one, and 429 and 5xx would be sent again."""
    node = cluster.nodes[0]
    for body in ("", "no json", "[]", "{}", '{"ID":""}', '{"ID":7}',
                 json.dumps(info(Info="x" * 4096))):
        status, answer = tell(node, "LOCK", name, body)
        assert status == 400 and json.loads(answer)["code"] == "BADARG", body
    assert tell(node, "LOCK", "x" * 511, info())[0] == 400
    assert tell(node, "LOCK", name, info(), query="?ttl_ms=3600001")[0] == 400
    assert tell(node, "LOCK", name, info(), query="?more=1")[0] == 400
    assert tell(node, "PATCH", name, info())[0] == 405
    assert tell(node, "LOCK", name, info(), {"Content-Type": "text/plain"})[0] == 415
    assert tell(node, "LOCK", name, info(), {"Host": "evil.example"})[0] == 421
    with contextlib.suppress(OSError):  # It is refused before all is sent.
        assert tell(node, "LOCK", name, "x" * 3000000)[0] == 413
    assert token_of(node, name) == []


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    """A cluster with users, and the secret of each."""
    folder = tmp_path_factory.mktemp("doors")
    with Cluster(1, FLEET + "[security]\ninsecure = yes\n") as one:
        one.leader()
        tool = Tool(one)
        tool.admin("role", "set", "tf", "lock,read:terraform/net/*")
        tool.admin("role", "set", "fleet", "lock,read:fleetlock/default/*")
        tool.admin("role", "set", "breaker", "kick,lock,read:terraform/*")
        one.secrets = tool.add_users(
            folder, {"ann": "tf", "m1": "fleet", "root": "breaker"})
        tool.admin("access", "required")
        yield one


def basic(user, secret):
    pair = base64.b64encode(("%s:%s" % (user, secret)).encode()).decode()
    return {"Authorization": "Basic " + pair}


def test_users_and_rights(guarded):
    node, ours = guarded.nodes[0], info()
    ann = basic("ann", guarded.secrets["ann"])
    root = basic("root", guarded.secrets["root"])
    bearer = {"Authorization": "Bearer " + guarded.secrets["ann"]}
    assert tell(node, "LOCK", "net/a", ours)[0] == 401
    for wrong in (basic("ann", "x"), basic("root", guarded.secrets["ann"]),
                  {"Authorization": "Basic %%%"}, {"Authorization": "Bearer x"}):
        assert tell(node, "LOCK", "net/a", ours, wrong)[0] == 403, wrong
    assert tell(node, "LOCK", "db/a", ours, ann)[0] == 403
    assert tell(node, "LOCK", "net/a", ours, ann)[0] == 200
    assert tell(node, "LOCK", "net/a", ours, bearer)[0] == 200
    # Basic is for doors only: no page here makes a browser ask for a password.
    assert raw(node, "GET", "/v1/locks/terraform/net/a", headers=ann)[0] == 401
    # A force-unlock has no body, and does not say whose hold it means.
    assert tell(node, "UNLOCK", "net/a", None, ann)[0] == 200
    assert tell(node, "LOCK", "net/a", info(), root)[0] == 200
    assert tell(node, "UNLOCK", "net/a", None, ann)[0] == 403
    assert tell(node, "UNLOCK", "net/a", None, root) == (200, b'{"released":1}\n')
    assert tell(node, "UNLOCK", "net/a", None, ann) == (200, b'{"released":0}\n')
    m1 = basic("m1", guarded.secrets["m1"])
    assert reboot(node, "m1", headers=m1)[0] == 200
    status, answer = reboot(node, "m1", group="edge", headers=m1)
    assert status == 403 and answer["kind"] == "not_authorized"
    assert reboot(node, "m1")[1]["kind"] == "not_authorized"


# --- FleetLock ----------------------------------------------------------------


def reboot(node, who, group="default", done=False, headers=(), **changes):
    """As zincati: no Content-Type. Status and document."""
    body = {"client_params": dict({"id": who, "group": group}, **changes)}
    sent = dict({"fleet-lock-protocol": "true"}, **dict(headers))
    path = "/v1/steady-state" if done else "/v1/pre-reboot"
    status, _, text = raw(node, "POST", path, json.dumps(body), sent)
    return status, json.loads(text)


def test_a_fleet_reboots_one_by_one(cluster):
    one, two, three = cluster.nodes
    assert reboot(one, "m1") == (200, {"ok": True})
    assert reboot(two, "m1") == (200, {"ok": True})  # Recursive.
    status, answer = reboot(three, "m2")
    assert status == 409 and answer["kind"] == "failed_lock_semaphore_full"
    assert reboot(three, "m2", done=True)[0] == 200  # Unbalanced.
    assert reboot(three, "m2")[0] == 409
    assert reboot(two, "m1", done=True) == (200, {"ok": True})
    assert reboot(two, "m2")[0] == 200
    assert reboot(two, "m2", done=True)[0] == 200


def test_what_is_wrong_has_a_kind(cluster):
    node = cluster.nodes[0]
    for kind, arguments in (
            ("unknown_group", {"group": "other"}), ("bad_request", {"group": "a/b"}),
            ("bad_request", {"id": ""}), ("bad_request", {"id": 7}),
            ("bad_request", {"id": "x" * 129}),
            ("bad_request", {"headers": {"fleet-lock-protocol": "yes"}}),
            ("bad_request", {"headers": {"Host": "evil.example"}}),
            ("not_authorized", {"headers": {"Origin": "http://evil.example"}})):
        status, answer = reboot(node, "m1", **arguments)
        assert 400 <= status < 500 and status != 409, answer
        assert answer["kind"] == kind and answer["value"], arguments
    assert reboot(node, "m1", done=True)[0] == 200


def test_a_place_that_another_program_has_is_taken(cluster):
    node = cluster.nodes[0]
    for i in range(3):
        raw(node, "PUT", "/v1/lease/fleetlock/edge/%d" % i,
            json.dumps({"holder": "cron", "ttl_ms": 1000}), JSON)
    assert reboot(node, "m1", "edge")[0] == 409
    wait_until(lambda: reboot(node, "m1", "edge")[0] == 200, SPARE_S, "a place")
    assert reboot(node, "m1", "edge", done=True)[0] == 200


def test_a_wrong_group_does_not_start():
    for wrong in ("default", "default:0", "default:65", "a:1 a:2", "a_b:1", ":1"):
        with Cluster(1, "[http]\nfleetlock = %s\n" % wrong, start=False) as one:
            node = one.nodes[0].start()
            assert node.wait_exit() == 78, wrong
            assert "http.fleetlock has '" in node.log()


# --- Kills of leaders ---------------------------------------------------------


class Gate:
    """Counts who is inside at once: the resource."""

    def __init__(self, most):
        self.most, self.mutex, self.inside = most, threading.Lock(), set()
        self.passed = 0

    def pass_through(self, who):
        with self.mutex:
            self.inside.add(who)
            assert len(self.inside) <= self.most, self.inside
        time.sleep(0.01)
        with self.mutex:
            self.inside.discard(who)
            self.passed += 1


def until(nodes, good, action):
    """Repeats an action, at any node, until its status is one of 'good'."""
    by = time.monotonic() + SPARE_S
    while time.monotonic() < by:
        try:
            if action(random.choice(nodes)) in good:
                return
        except (OSError, http.client.HTTPException):
            pass
        time.sleep(0.05)
    raise AssertionError("no answer of %r in %d s" % (good, SPARE_S))


def work(nodes, gate, enter, leave, stop):
    while not stop.is_set():
        who = str(uuid.uuid4())
        until(nodes, {200}, lambda node: enter(node, who))
        gate.pass_through(who)
        until(nodes, {200}, lambda node: leave(node, who))


@pytest.mark.parametrize("door", ["terraform", "fleetlock"])
def test_leaders_die_and_no_two_are_inside(door):
    with Cluster(3, FLEET) as cluster:
        cluster.leader()
        if door == "terraform":
            gate, group = Gate(1), {}
            enter = lambda node, who: tell(
                node, "LOCK", "net", group.setdefault(who, info(ID=who)))[0]
            leave = lambda node, who: tell(node, "UNLOCK", "net", group[who])[0]
        else:
            gate = Gate(3)
            enter = lambda node, who: reboot(node, who, "edge")[0]
            leave = lambda node, who: reboot(node, who, "edge", done=True)[0]
        stop = threading.Event()
        with concurrent.futures.ThreadPoolExecutor(5) as pool:
            jobs = [pool.submit(work, cluster.nodes, gate, enter, leave, stop)
                    for _ in range(5)]
            try:
                for _ in range(3):
                    passed = gate.passed
                    leader = cluster.leader()
                    leader.kill()
                    wait_until(lambda: gate.passed > passed + 5, SPARE_S, "work")
                    leader.start()
                    wait_until(leader.status, SPARE_S, "the node")
            finally:
                stop.set()
            for job in jobs:
                job.result(SPARE_S + 10)
        assert gate.passed > 15 and not gate.inside


# --- Terraform itself ---------------------------------------------------------

TERRAFORM = """
terraform {
  backend "http" {
    address        = "%(state)s"
    lock_address   = "%(lock)s"
    unlock_address = "%(lock)s"
    retry_max      = 30
    retry_wait_min = 1
    retry_wait_max = 2
  }
}
variable "n" {}
resource "terraform_data" "x" {
  input = var.n
  provisioner "local-exec" {
    command = "%(command)s"
  }
}
"""


class States(http.server.BaseHTTPRequestHandler):
    """A server of states that locks nothing."""

    def answer(self, status, body=b""):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        state = self.server.states.get(self.path.split("?")[0])
        self.answer(200 if state else 404, state or b"")

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.states[self.path.split("?")[0]] = body
        self.server.serials.append(json.loads(body)["serial"])
        self.answer(200)

    def log_message(self, *_):
        pass


@pytest.fixture
def states():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), States)
    server.states, server.serials = {}, []
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def terraform(folder, *words):
    environment = dict(os.environ, CHECKPOINT_DISABLE="1", TF_IN_AUTOMATION="1",
                       TF_CLI_CONFIG_FILE=os.devnull)
    return subprocess.run(["terraform", *words, "-no-color"], cwd=folder,
                          env=environment, capture_output=True, text=True, timeout=300)


@pytest.mark.skipif(shutil.which("terraform") is None, reason="no terraform")
def test_terraform_has_its_secret_in_the_address(guarded, states, tmp_path):
    node = guarded.nodes[0]
    for user, good in (("ann", True), ("m1", False)):
        folder = tmp_path / user
        folder.mkdir()
        (folder / "main.tf").write_text(TERRAFORM % {
            "state": "http://127.0.0.1:%d/net" % states.server_port,
            "lock": "http://%s:%s@127.0.0.1:%d/v1/terraform/net/t"
                    % (user, guarded.secrets[user], node.http_port),
            "command": "true"})
        assert terraform(folder, "init", "-input=false").returncode == 0
        done = terraform(folder, "apply", "-auto-approve", "-var", "n=0")
        assert (done.returncode == 0) == good, done.stderr
        assert good or "invalid auth" in done.stderr, done.stderr


@pytest.mark.skipif(shutil.which("terraform") is None, reason="no terraform")
def test_terraform_itself(states, tmp_path):
    with Cluster(3) as cluster:
        cluster.leader()
        for i, node in enumerate(cluster.nodes):
            folder = tmp_path / str(i)
            folder.mkdir()
            (folder / "main.tf").write_text(TERRAFORM % {
                "state": "http://127.0.0.1:%d/net" % states.server_port,
                "lock": "http://127.0.0.1:%d/v1/terraform/net" % node.http_port,
                "command": "echo $$ >> %s/inside; sleep 0.3; echo $$ >> %s/inside"
                           % (tmp_path, tmp_path)})
            done = terraform(folder, "init", "-input=false")
            assert done.returncode == 0, done.stderr
        ours = info()
        assert tell(cluster.nodes[0], "LOCK", "net", ours)[0] == 200
        done = terraform(tmp_path / "1", "apply", "-auto-approve", "-var", "n=0")
        assert done.returncode == 1 and ours["ID"] in done.stderr
        done = terraform(tmp_path / "2", "force-unlock", "-force", ours["ID"])
        assert done.returncode == 0, done.stderr
        assert token_of(cluster.nodes[0], "net") == []

        def apply(i):
            for n in range(3):
                # Until it is done: this node may be the one that was killed.
                by = time.monotonic() + SPARE_S
                while True:
                    done = terraform(tmp_path / str(i), "apply", "-auto-approve",
                                     "-lock-timeout=60s", "-replace=terraform_data.x",
                                     "-var", "n=%d" % (10 * i + n))
                    if done.returncode == 0 or time.monotonic() > by:
                        break
                assert done.returncode == 0, done.stderr

        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            jobs = [pool.submit(apply, i) for i in range(3)]
            for _ in range(2):
                time.sleep(1)  # Not as proof: kills at some time.
                leader = cluster.leader()
                leader.kill()
                leader.start()
            for job in jobs:
                job.result(300)
        lines = (tmp_path / "inside").read_text().split()
        assert len(lines) >= 18
        assert lines[0::2] == lines[1::2], "two runs were inside at once"
        assert states.serials == sorted(states.serials)
