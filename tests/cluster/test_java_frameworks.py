# SPDX-License-Identifier: MIT
"""The adapters of clients/java: that of Quartz with Debian's Quartz, unmodified,
through kills; those of ShedLock and Spring against stubs of their interfaces."""

import os
import shutil
import subprocess

import pytest

from cluster import ROOT, Cluster, free_ports, wait_until
from test_frameworks import SPARE_S, Programs, lines, replace_leader

HERE = os.path.dirname(os.path.abspath(__file__))
CLIENT = os.path.join(ROOT, "clients", "java")
PROGRAMS = os.path.join(HERE, "framework_clients")
JARS = ["/usr/share/java/%s.jar" % name for name in (
    "quartz2", "slf4j-api", "slf4j-simple", "h2")]
JAVA = ["java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]

pytestmark = pytest.mark.skipif(
    shutil.which("javac") is None, reason="needs default-jdk-headless"
)


def sources(*parts):
    return [os.path.join(folder, name) for part in parts
            for folder, _, names in os.walk(part)
            for name in names if name.endswith(".java")]


def compile_(path, class_path, *parts):
    done = subprocess.run(
        ["javac", "-Xlint:all", "-Werror", "-cp", ":".join(class_path), "-d",
         str(path), *sources(*parts)],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=110)
    assert done.returncode == 0, done.stdout


@pytest.fixture(name="classes", scope="module")
def classes_(tmp_path_factory):
    path = tmp_path_factory.mktemp("classes")
    compile_(path, JARS[:1], os.path.join(CLIENT, "src", "main"),
             os.path.join(CLIENT, "adapters", "hasp", "quartz"), PROGRAMS)
    return path


@pytest.fixture(name="programs")
def programs_(tmp_path):
    programs = Programs(tmp_path)
    yield programs
    for one in programs.all:
        print("---", one.args[-1], "\n", one.path.read_text()[-3000:])
    programs.close()


def test_quartz_fires_each_trigger_once_through_kills(
        classes, programs, tmp_path, monkeypatch):
    runs, port = tmp_path / "runs", free_ports(1)[0]
    java = [*JAVA, "-cp", ":".join([str(classes), *JARS])]
    monkeypatch.setenv("RUNS", str(runs))
    monkeypatch.setenv("LOCKS", str(tmp_path / "locks"))
    monkeypatch.setenv("DATABASE", "jdbc:h2:tcp://127.0.0.1:%d/mem:quartz;"
                       "DB_CLOSE_DELAY=-1" % port)

    def ran(more):
        goal = len(lines(runs)) + more
        wait_until(lambda: len(lines(runs)) >= goal, SPARE_S, "%d fires" % goal)

    with Cluster(3) as cluster:
        cluster.leader()
        monkeypatch.setenv("HASP_ENDPOINTS", ",".join(
            "127.0.0.1:%d" % n.client_port for n in cluster.nodes))
        database = programs.start(*java, "org.h2.tools.Server", "-tcp",
                                  "-tcpPort", str(port), "-ifNotExists")
        wait_until(lambda: "running" in database.path.read_text(), SPARE_S, "H2")
        assert programs.start(*java, "QuartzNode", "setup").wait(SPARE_S) == 0
        fleet = [programs.start(*java, "QuartzNode", "n%d" % i)
                 for i in range(2)]
        ran(10)
        replace_leader(cluster)
        ran(10)
        wait_until(lambda: lines(runs)[-1][1] == "n0", SPARE_S, "fires of n0")
        fleet[0].kill()
        fleet[0].wait()
        ran(10)
        fleet[1].terminate()
        assert fleet[1].wait(SPARE_S) == 143
        with cluster.leader().connect() as client:
            for name in "TRIGGER_ACCESS", "STATE_ACCESS":
                # The JVM can end inside a transaction; then its lease ends.
                wait_until(lambda: client.map(
                    "LOCK.SHOW", "quartz/shop/" + name)["mode"] == "free",
                    SPARE_S, name + " is free")
    fires = [line[0] for line in lines(runs)]
    assert len(set(fires)) == len(fires), "a fire ran twice"
    assert {line[1] for line in lines(runs)} == {"n0", "n1"}
    judge_locks(lines(tmp_path / "locks"))


def test_the_adapters_of_shedlock_and_spring_keep_their_contracts(tmp_path):
    compile_(tmp_path, [str(tmp_path)], os.path.join(CLIENT, "src", "main"),
             os.path.join(CLIENT, "adapters", "hasp", "shedlock"),
             os.path.join(CLIENT, "adapters", "hasp", "spring"),
             os.path.join(HERE, "java_stubs"))
    with Cluster(1) as cluster:
        cluster.leader()
        done = subprocess.run(
            [*JAVA, "-ea", "-cp", str(tmp_path), "AdapterTests"],
            env=dict(os.environ, HASP_ENDPOINTS="127.0.0.1:%d"
                     % cluster.nodes[0].client_port),
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            timeout=90)
    assert done.returncode == 0, done.stdout
    assert int(done.stdout.split()[0]) > 20


def judge_locks(events):
    """No instance has a lock while another one has it; n0 was killed, and n1
    could not end what it did when its JVM ended."""
    assert len(events) > 100
    holder = {}
    for kind, lock, instance in events:
        if kind == "begin":
            assert holder.get(lock) in (None, "n0"), (lock, instance)
            assert holder.get(lock) != instance
            holder[lock] = instance
        else:
            assert holder.pop(lock) == instance, lock
