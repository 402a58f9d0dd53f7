# SPDX-License-Identifier: MIT
"""Clients of Consul that nobody here wrote, unmodified, against listen.consul:
Debian's python3-consul and tooz, npm's consul 0.40.0 (its Lock) and 2.0.1 (kv, session
and watch); if they can be fetched, python3-consul2 and Ansible's modules.
Processes take one lock in turns while leaders are killed. The holds of all of
them, by a clock that they share, must not overlap, and tokens must grow.

CONSUL_KILLS=20 kills more leaders. A client that is not installed is skipped.
"""

import contextlib
import importlib.util
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time

import pytest

from cluster import wait_until
from consul_cluster import acquire, call, consul_cluster, open_session
from debian_files import unpack

HERE = os.path.dirname(os.path.abspath(__file__))
KILLS = int(os.environ.get("CONSUL_KILLS", "2"))
SPARE_S = 90
PROCESSES = 3
NPM = {"0.40": "0.40.0", "2": "2.0.1"}
DEBIAN = {"consul2": ["python3-consul2"], "ansible": ["ansible", "ansible-core"]}


@pytest.fixture(name="folder", scope="module")
def folder_(tmp_path_factory):
    return tmp_path_factory.mktemp("consul")


def fetch_npm(folder):
    """The versions beside each other, under names of their own."""
    if (folder / "node_modules").exists():
        return
    (folder / "package.json").write_text('{"private":true}')
    packages = ["consul-%s@npm:consul@%s" % pair for pair in NPM.items()]
    try:
        subprocess.run(["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts",
                        "--fetch-retries=0", *packages], cwd=folder, check=True,
                       capture_output=True, timeout=90)
    except (OSError, subprocess.SubprocessError) as error:
        pytest.skip("npm has no registry to fetch consul from: %s" % error)


def fetch_debian(folder, kind):
    """Returns the path of the modules."""
    return str(unpack(folder / ("debian-" + kind), *DEBIAN[kind])
               / "usr" / "lib" / "python3" / "dist-packages")


def command_of(folder, kind):
    """Its words, and variables of its environment."""
    if kind.startswith("npm-"):
        fetch_npm(folder)
        shutil.copy(os.path.join(HERE, "node_clients", "consul.js"), folder)
        return ["node", "consul.js", kind[4:]], {}
    if kind != "consul2" and importlib.util.find_spec(kind) is None:
        pytest.skip("python3-%s is not installed: make deps-test" % kind)
    # Its module has the name of python3-consul's, with which tooz does not work.
    path = "" if kind == "consul" else fetch_debian(folder, "consul2")
    return [sys.executable, "-P", os.path.join(HERE, "consul_programs.py"), kind], {
        "PYTHONPATH": path, "PYTHONSAFEPATH": "1"}


@contextlib.contextmanager
def processes(folder, kind, file, ports):
    command, environment = command_of(folder, kind)
    out = open(folder / (kind + ".out"), "wb")
    started = [subprocess.Popen(command + [str(file), *map(str, ports)], cwd=folder,
                                env=dict(os.environ, **environment), stdout=out,
                                stderr=out)
               for _ in range(PROCESSES)]
    try:
        yield started
    except AssertionError:
        print((folder / (kind + ".out")).read_text()[-4000:])
        raise
    finally:
        for one in started:
            one.kill()
            one.wait()
        out.close()


def holds(file):
    """[(entered, left, token, name)] in the order of entering; the last one of a
    process may have no end."""
    if not file.exists():
        return []
    found, open_ones = [], {}
    for line in file.read_text().splitlines():
        what, name, *rest = line.split(" ", 2)
        assert what != "odd", line
        token, at = map(int, rest[0].split())
        if what == "enter":
            open_ones[name] = (at, token)
        else:
            entered, expected = open_ones.pop(name)
            assert expected == token
            found.append((entered, at, token, name))
    return sorted(found)


def check(file):
    found = holds(file)
    for before, after in zip(found, found[1:]):
        assert before[1] < after[0], "two at once: %r %r" % (before, after)
        assert before[2] < after[2], "a token that does not grow: %r" % (after,)
    return found


@pytest.mark.parametrize("kind", ["consul", "tooz", "npm-0.40", "npm-2", "consul2"])
def test_leaders_die_and_no_holds_overlap(folder, kind):
    file = folder / ("%s-holds" % kind)
    with consul_cluster(3) as cluster:
        cluster.leader()
        ports = [node.consul_port for node in cluster.nodes]
        with processes(folder, kind, file, ports):
            wait_until(lambda: len({one[3] for one in holds(file)}) > 1, SPARE_S,
                       "holds of two processes")
            for _ in range(KILLS):
                leader = cluster.leader()
                leader.kill()
                time.sleep(random.random())
                leader.start()
                wait_until(leader.status, SPARE_S, "the node")
                cluster.leader()
                since = time.monotonic_ns()
                wait_until(lambda: sum(one[0] > since for one in holds(file)) > 3,
                           SPARE_S, "holds after a leader died")
        found = check(file)
        print("%s: %d holds, %d leaders killed, 0 overlaps" % (kind, len(found), KILLS))


def test_a_paused_holder_is_refused_by_its_token(folder):
    """SIGSTOP the holder for longer than its lease: another gets the lock after
    twice the TTL and the delay, with a higher token, and FENCE.ADMIT refuses the
    old one."""
    file = folder / "paused"
    with consul_cluster(1) as cluster:
        node = cluster.leader()
        with processes(folder, "consul", file, [node.consul_port]) as started:
            wait_until(lambda: len(holds(file)) > 3, SPARE_S, "holds")

            def is_paused_inside():
                for one in started:
                    one.send_signal(signal.SIGSTOP)
                time.sleep(0.1)
                if call(node, "GET", "/v1/kv/tooz/locks/x").status == 200:
                    return True
                for one in started:
                    one.send_signal(signal.SIGCONT)
                time.sleep(random.random() / 10)
                return False

            wait_until(is_paused_inside, SPARE_S, "a holder that is paused")
            paused = time.monotonic()
            old = call(node, "GET", "/v1/kv/tooz/locks/x").key()
            session = open_session(node)
            while acquire(node, "tooz/locks/x", session).body != b"true":
                assert call(node, "PUT", "/v1/session/renew/" + session).status == 200
                assert time.monotonic() - paused < 2 * 10 + 1 + SPARE_S
                time.sleep(0.2)
            # It renews each two seconds; the delay is one.
            assert time.monotonic() - paused > 2 * 10 - 3 + 1
            new = call(node, "GET", "/v1/kv/tooz/locks/x").key()
            assert new["LockIndex"] > old["LockIndex"]
            assert old["Session"] != new["Session"] == session
            with node.connect() as client:
                assert client.do("FENCE.ADMIT", "r", new["LockIndex"]) == 1
                assert client.do("FENCE.ADMIT", "r", old["LockIndex"]) == 0


PUTS = """
import sys, consul
session, port, *tokens = sys.argv[1:]
for key, value, token in [("k", "v", None), ("k", "x" * 5000, None), ("", "v", None),
                          ("k" * 600, "v", None), ("k", "v", "no"),
                          ("k", "x" * 300000, None)]:
    try:
        one = consul.Consul(port=int(port))
        answer = one.kv.put(key, value, acquire=session, token=token)
    except Exception as error:
        answer = type(error).__name__
    print(repr(answer))
"""


def puts(node, session):
    command = [sys.executable, "-P", "-c", PUTS, session, str(node.consul_port)]
    return subprocess.run(command, check=True, capture_output=True, text=True,
                          timeout=SPARE_S).stdout.split()


def test_no_refusal_is_a_lock_for_python_consul():
    """It takes a JSON document with status 409 to 429 for an answer, and returns
    it: a lock, for a program that asks whether it is true."""
    if importlib.util.find_spec("consul") is None:
        pytest.skip("python3-consul is not installed: make deps-test")
    with consul_cluster(3) as cluster:
        node = cluster.leader()
        session = open_session(node)
        found = puts(node, session)
        assert found[0] == "True" and "True" not in found[1:], found
        for one in cluster.nodes:
            if one is not node:
                one.kill()
        wait_until(lambda: node.status()["role"] != "leader", SPARE_S, "no leader")
        found = puts(node, session)
        assert all(one.endswith(("Exception'", "Request'", "Denied'", "Error'"))
                   for one in found), found


def run_module(folder, which, node, **arguments):
    """One of Ansible's modules, by itself."""
    path = fetch_debian(folder, "ansible")
    arguments.update(host="127.0.0.1", port=node.consul_port)
    done = subprocess.run(
        [sys.executable, "-P", "-m",
         "ansible_collections.community.general.plugins.modules." + which],
        input=json.dumps({"ANSIBLE_MODULE_ARGS": arguments}), text=True,
        capture_output=True, timeout=SPARE_S, env=dict(os.environ, PYTHONPATH=path))
    return json.loads(done.stdout)


def test_ansible_takes_a_lock(folder):
    if importlib.util.find_spec("consul") is None:
        pytest.skip("python3-consul is not installed: make deps-test")
    with consul_cluster(1, "[consul]\nno_ttl = durable\n") as cluster:
        node = cluster.leader()
        ours, other = (run_module(folder, "consul_session", node, state="present",
                                  name=name, delay=0)["session_id"]
                       for name in ("a", "b"))

        def lock(state, session, value):
            return run_module(folder, "consul_kv", node, state=state, key="deploy",
                          value=value, session=session)["changed"]

        assert lock("acquire", ours, "a") is True
        assert lock("acquire", other, "b") is False
        # The module asks for nothing if the value is the same.
        assert lock("release", ours, "released") is True
        assert lock("acquire", other, "b") is True
        shown = run_module(folder, "consul_session", node, state="info", id=other)
        assert shown["sessions"][1]["Name"] == "b"
        refused = run_module(folder, "consul_kv", node, state="present", key="x",
                             value="y")
        assert refused["failed"] and "hasp keeps locks" in refused["msg"]
        gone = run_module(folder, "consul_session", node, state="absent", id=other)
        assert gone["changed"]
        assert call(node, "GET", "/v1/kv/deploy").status == 404
