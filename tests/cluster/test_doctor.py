# SPDX-License-Identifier: MIT
"""hasp doctor and haspd --doctor: a healthy cluster gets no warning, and each
fault that is injected here is named by the check that is meant for it."""

import json
import os
import re
import socket
import subprocess
import time

import pytest

from cluster import HASPD, Cluster, wait_until
from fake_node import FakeNode
from slow_disk import LIBRARY, SlowDisk
from tls_cluster import HASP, TlsCluster

LONGEST_S = 10
ODD_CLOCK = os.path.join(os.path.dirname(LIBRARY), "odd_clock.so")


def endpoints(nodes):
    return ",".join("127.0.0.1:%d" % node.client_port for node in nodes)


def run(*words, wrapper=(), environment=None):
    env = {k: v for k, v in os.environ.items() if not k.startswith("HASP_")}
    env.update(environment or {})
    began = time.monotonic()
    done = subprocess.run(
        list(wrapper) + [HASP] + [str(word) for word in words],
        capture_output=True, text=True, timeout=60, env=env,
    )
    done.seconds = time.monotonic() - began
    return done


def doctor(cluster, *words, at=None, **how):
    """The rows of hasp doctor, and its exit code, which must fit."""
    tls = ["--tls", cluster.app] if hasattr(cluster, "app") else []
    at = at or endpoints(cluster.nodes)
    done = run("-e", at, *tls, "-o", "json", "doctor", *words, **how)
    rows = json.loads(done.stdout)
    states = {row["state"] for row in rows}
    assert done.returncode == (
        2 if "FAIL" in states else 1 if "WARN" in states else 0
    ), done.stderr
    return rows


def machine(node, *words, wrapper=(), environment=None):
    """The rows of haspd --doctor."""
    env = dict(os.environ)
    env.update(environment or {})
    done = subprocess.run(
        list(wrapper) + [HASPD, "--config", node.config, "--doctor", *words],
        capture_output=True, text=True, timeout=60, env=env,
    )
    keys = ("state", "check", "text", "mend")
    rows = [dict(zip(keys, line.split("\t")))
            for line in done.stdout.splitlines()]
    states = {row["state"] for row in rows}
    assert done.returncode == (
        2 if "FAIL" in states else 1 if "WARN" in states else 0
    ), done.stderr
    return rows


def bad(rows):
    return [row for row in rows if row["state"] != "OK"]


def found(rows, check, text, state="WARN|FAIL"):
    """The finding of that check; it says what to do."""
    for row in rows:
        if (row["check"] == check and re.search(text, row["text"])
                and re.fullmatch(state, row["state"])):
            assert row["mend"] != ""
            return row
    return None


def expect(rows, check, text, state="WARN|FAIL"):
    assert found(rows, check, text, state), bad(rows)


def healthy(cluster):
    """Until a leader serves, all are connected, and nothing is reported: a
    fresh cluster takes a moment."""
    cluster.leader()
    return wait_until(lambda: not bad(doctor(cluster)), 30, "no finding")


@pytest.fixture(scope="module")
def cluster():
    with Cluster(3) as made:
        healthy(made)
        yield made


# --- Nothing is wrong --------------------------------------------------------


def test_a_healthy_cluster_gets_no_warning(cluster):
    rows = doctor(cluster, "--config", cluster.nodes[0].config)
    assert bad(rows) == []
    assert len({row["check"] for row in rows}) >= 30
    assert all(row["mend"] == "" for row in rows)


def test_it_takes_less_than_ten_seconds_and_prints_a_line_a_check(cluster):
    done = run("-e", endpoints(cluster.nodes), "doctor", "--config",
               cluster.nodes[0].config)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.seconds < LONGEST_S
    lines = done.stdout.splitlines()
    assert all(line.startswith("OK ") for line in lines[:-1]), lines
    assert re.fullmatch(r"\d+ ok, 0 warnings, 0 failures", lines[-1])
    plain = run("-e", endpoints(cluster.nodes), "-o", "plain", "doctor")
    assert len(plain.stdout.splitlines()) >= 20


def test_a_cluster_with_tls_gets_no_warning():
    with TlsCluster() as made:
        made.leader()
        wait_until(lambda: not bad(doctor(made)), 30, "no finding")
        assert bad(doctor(made, "--config", made.nodes[0].config)) == []


def test_it_changes_nothing(cluster):
    before = {node.id: sorted(os.listdir(node.dir)) for node in cluster.nodes}
    for node in cluster.nodes:
        machine(node)
    assert before == {
        node.id: sorted(os.listdir(node.dir)) for node in cluster.nodes
    }


def test_the_machine_alone(cluster):
    done = run("-o", "json", "doctor", "--offline", "--config",
               cluster.nodes[0].config)
    assert done.returncode == 0, done.stdout
    assert {row["check"] for row in json.loads(done.stdout)} >= {
        "configuration", "directory", "flush", "ports", "names"
    }


# --- Faults of a cluster -----------------------------------------------------


def test_a_node_that_does_not_run_is_named():
    with Cluster(3) as made:
        healthy(made)
        made.nodes[2].kill()
        made.leader()

        def is_named():
            rows = doctor(made)
            address = ":%d " % made.nodes[2].client_port
            return found(rows, "nodes", address + "does not answer") and found(
                rows, "links", "no connection with node 3")

        wait_until(is_named, 30, "the node is named")
        # From the machine of another node: both its ports.
        rows = machine(made.nodes[0])
        expect(rows, "ports", "peer port of node 3, .*: Connection refused")
        expect(rows, "ports", "client port of node 3, ")
        made.nodes[1].kill()
        rows = wait_until(
            lambda: found(doctor(made), "leader", "no leader answers", "FAIL"),
            30, "no leader")


def test_no_node_answers(cluster):
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        rows = doctor(cluster, at="127.0.0.1:%d" % held.getsockname()[1])
    expect(rows, "nodes", "does not answer", "FAIL")
    expect(rows, "leader", "no leader answers", "FAIL")


def test_endpoints_that_are_not_those_of_members(cluster):
    rows = doctor(cluster, at=endpoints(cluster.nodes[:1]))
    expect(rows, "endpoints", "name 1 of 3 members")
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        other = "127.0.0.1:%d" % held.getsockname()[1]
        rows = doctor(cluster, at=endpoints(cluster.nodes) + "," + other)
    row = found(rows, "endpoints", re.escape(other) + " is that of no member")
    assert row["mend"] == "export HASP_ENDPOINTS=" + endpoints(cluster.nodes)


def test_a_node_of_another_cluster_and_one_without_others(cluster):
    with Cluster(1) as made:
        made.leader()
        rows = doctor(
            cluster, at=endpoints(cluster.nodes) + "," + endpoints(made.nodes)
        )
        expect(rows, "cluster", "node 1 belongs to another cluster", "FAIL")
        expect(doctor(made), "voters", "with 1 voters no node can fail")


def test_a_limit_that_is_nearly_used(cluster):
    node = cluster.leader()
    with node.door() as client, node.connect() as holder:
        before = {row["name"]: row for row in json.loads(
            run("-e", endpoints(cluster.nodes), "-o", "json",
                "limits").stdout)}["fences"]["value"]
        for i in range(9):
            holder.do("FENCE.ADMIT", "doctor-%d" % i, 1)
        client.do("LIMITS.SET", "fences", 10)
        row = found(doctor(cluster), "limits", "9 of 10 fences are in use")
        assert row and row["mend"] == "hasp limits set fences VALUE"
        client.do("LIMITS.SET", "fences", before)
        for i in range(9):
            client.do("FENCE.REMOVE", "doctor-%d" % i)
    assert bad(doctor(cluster)) == []


def test_settings_that_differ_and_too_few_files_and_a_full_disk():
    with Cluster(3, start=False) as made:
        made.nodes[1].write_config("[raft]\nelection_ms = 900\n")
        with open(made.nodes[2].config) as file:
            text = file.read()
        with open(made.nodes[2].config, "w") as file:
            file.write(text.replace("disk_reserve = 1M", "disk_reserve = 1000G"))
        made.nodes[0].start(wrapper=["prlimit", "--nofile=2000:2000"])
        made.start()
        made.leader()
        rows = wait_until(
            lambda: (lambda rows: rows if found(
                rows, "disks", "node 3: its disk is nearly full", "FAIL"
            ) else None)(doctor(made)), 30, "the full disk is named")
        expect(rows, "settings", "raft.election_ms differs: 600 at node 1, "
               "900 at node 2")
        expect(rows, "files", "node 1 may open 2000 files, fewer than "
               "limits.connections = 10000")
        expect(machine(made.nodes[0]), "descriptors", "may open 2000 files")
        expect(machine(made.nodes[2]), "room", "refuses changes", "FAIL")


def test_a_clock_that_runs_too_fast():
    with Cluster(3, start=False) as made:
        made.nodes[1].start(environment={
            "LD_PRELOAD": os.path.abspath(ODD_CLOCK), "ODD_CLOCK": "1.03"})
        made.start()
        made.leader()
        wait_until(
            lambda: found(doctor(made), "clocks",
                          "by the clock of node [13], that of node 2 runs "
                          r"[23]\.\d\d % too fast", "FAIL"),
            60, "the clock is named")


def test_a_slow_disk():
    with Cluster(3, start=False) as made:
        disk = SlowDisk(made.folder)
        disk.tell("flush 60")
        made.nodes[2].start(environment=disk.environment)
        made.start()
        made.leader()

        def is_named():
            made.retry(lambda client: client.do("FENCE.ADMIT", "slow", 1))
            return found(doctor(made), "disks", "node 3: its disk is slow: a "
                         r"flush takes \d+ ms")

        wait_until(is_named, 60, "the slow disk is named")
        rows = machine(made.nodes[2], environment=disk.environment)
        expect(rows, "flush", r"takes [6-9]\d\.\d\d ms .*the disk is slow")
        disk.tell("flush 400")
        rows = machine(made.nodes[2], environment=disk.environment)
        expect(rows, "flush", "the disk is slow", "FAIL")
        disk.tell()


def test_a_certificate_that_expires_soon():
    with TlsCluster(start=False) as made:
        for days, state in ((20, "WARN"), (5, "FAIL")):
            for node in made.nodes:
                run_in = dict(cwd=made.folder, check=True, capture_output=True)
                subprocess.run([HASP, "cert", "renew", made.folder_of(node),
                                "--days", str(days)], **run_in)
            made.start()
            made.leader()
            rows = wait_until(
                lambda: (lambda rows: rows if found(
                    rows, "certificates",
                    r"node 1: its certificate expires in \d+ days", state
                ) else None)(doctor(made)), 30, "the certificate is named")
            expect(machine(made.nodes[1]), "configuration",
                   "the certificate of the node expires in")
            for node in made.nodes:
                node.stop()


def test_open_access_where_others_reach_it():
    status = {
        "node": 1, "cluster": "c1", "role": "leader", "term": 1, "leader": 1,
        "commit": 1, "applied": 1, "version": "0", "users": "open",
        "members": [{"id": 1, "address": "10.0.0.1:7421,10.0.0.1:7420",
                     "role": "voter", "match": 1, "link": "1"}],
    }
    with FakeNode(lambda words: (
            status if words[0] == b"RAFT.STATUS" else [])) as node:
        done = run("-e", node.endpoint, "-o", "json", "doctor")
        rows = json.loads(done.stdout)
        expect(rows, "access", "access is open, and other machines can reach")
        status["users"] = "unenforced"
        rows = json.loads(
            run("-e", node.endpoint, "-o", "json", "doctor").stdout)
        expect(rows, "access", "can act as any user", "FAIL")


def test_a_link_that_is_too_slow_for_elections():
    member = {"role": "voter", "match": 1, "link": "1"}
    status = {
        "node": 1, "cluster": "c1", "role": "leader", "term": 1, "leader": 1,
        "commit": 1, "applied": 1, "version": "0", "users": "open",
        "settings": {"raft.election_ms": 600},
        "members": [
            {"id": 1, "address": "127.0.0.1:1,127.0.0.1:2", **member},
            {"id": 2, "address": "127.0.0.1:1,127.0.0.1:3", **member,
             "round_trip_us": 70000},
            {"id": 3, "address": "127.0.0.1:1,127.0.0.1:4", **member,
             "round_trip_us": 55000},
        ],
    }
    with FakeNode(lambda words: (
            status if words[0] == b"RAFT.STATUS" else [])) as node:
        done = run("-e", node.endpoint, "-o", "json", "doctor")
    rows = json.loads(done.stdout)
    expect(rows, "round trips", "nodes 1 and 2: a round trip takes 70 ms, more "
           "than a tenth of raft.election_ms", "FAIL")
    expect(rows, "round trips", "nodes 1 and 3: a round trip takes 55 ms",
           "WARN")


# --- Faults of a machine -----------------------------------------------------


@pytest.fixture
def stopped():
    """A node that does not run, and whose others do not either."""
    with Cluster(3, start=False) as made:
        os.mkdir(made.nodes[0].dir, 0o700)
        yield made.nodes[0]


def change(node, before, after):
    with open(node.config) as file:
        text = file.read()
    assert before in text
    with open(node.config, "w") as file:
        file.write(text.replace(before, after))


def test_a_name_that_has_no_address(stopped):
    change(stopped, "member = 2 127.0.0.1", "member = 2 no-such-host.invalid")
    with open(stopped.config, "a") as file:
        file.write("[security]\ninsecure = yes\n")
    expect(machine(stopped), "names", "node 2: no-such-host.invalid:", "FAIL")


def test_a_directory_that_others_can_read_or_that_lost_data(stopped):
    os.chmod(stopped.dir, 0o755)
    expect(machine(stopped), "directory", "mode 0755")
    with open(os.path.join(stopped.dir, "condemned"), "w") as file:
        file.write("a test\n")
    expect(machine(stopped), "directory", "has lost acknowledged data", "FAIL")
    change(stopped, "dir = ", "dir = /no/such/folder")
    expect(machine(stopped), "directory", "No such file", "FAIL")


def test_an_audit_file_that_cannot_be_written(stopped):
    with open(stopped.config, "a") as file:
        file.write("[audit]\nfile = /no/such/folder/audit.jsonl\n")
    expect(machine(stopped), "audit file", "/no/such/folder")


def test_a_state_that_does_not_fit_the_memory(stopped):
    change(stopped, "disk_reserve = 1M", "disk_reserve = 1M\nstate_size = 64G")
    expect(machine(stopped), "memory limit", "state_size = 65536 MiB")


def test_limits_that_do_not_fit_together(stopped):
    with open(stopped.config, "a") as file:
        file.write("waits = 10\nwaits_per_lock = 20\n")
    expect(machine(stopped), "configuration", "waits_per_lock = 20 has no")


def test_a_configuration_that_is_wrong(stopped):
    with open(stopped.config, "a") as file:
        file.write("[raft]\nelection = 3\n")
    expect(machine(stopped), "configuration", "election", "FAIL")
    done = run("-o", "json", "doctor", "--offline", "--config", stopped.config)
    assert done.returncode == 2
    expect(json.loads(done.stdout), "configuration", "election", "FAIL")


def test_a_quota_of_the_cpu(stopped):
    """In a control group of its own, where this test may make one."""
    folder = "/sys/fs/cgroup/cpu/hasp-doctor-%d" % os.getpid()
    try:
        os.mkdir(folder)
    except OSError as error:
        pytest.skip("no control group of version 1: %s" % error)
    try:
        with open(folder + "/cpu.cfs_quota_us", "w") as file:
            file.write("50000")
        rows = machine(stopped, wrapper=[
            "sh", "-c", 'echo $$ > "$0/cgroup.procs"; exec "$@"', folder])
    finally:
        os.rmdir(folder)
    expect(rows, "cpu", r"only 0\.50 of a CPU")


def test_a_configuration_that_nobody_can_read():
    done = run("-o", "json", "doctor", "--offline", "--config", "/no/such")
    assert done.returncode == 2
    rows = json.loads(done.stdout)
    assert rows[0]["state"] == "FAIL" and "/no/such" in rows[0]["text"]
