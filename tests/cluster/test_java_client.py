# SPDX-License-Identifier: MIT
"""The client in Java: its own tests, and a cluster; its jar, with which the
program of its README and its examples run in an empty folder."""

import os
import re
import shutil
import signal
import subprocess

import pytest

from candidates import Candidates
from cluster import ROOT, Cluster
from test_tls import TlsCluster

CLIENT = os.path.join(ROOT, "clients", "java")
JAVA = ["java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]

pytestmark = pytest.mark.skipif(
    shutil.which("javac") is None, reason="needs default-jdk-headless"
)


def run(*words, folder=None, **env):
    done = subprocess.run(
        words,
        cwd=folder,
        env=dict(os.environ, **env),
        timeout=110,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def sources(*parts):
    return [
        os.path.join(folder, name)
        for part in parts
        for folder, _, names in os.walk(os.path.join(CLIENT, part))
        for name in names
        if name.endswith(".java")
    ]


@pytest.fixture(scope="module")
def classes(tmp_path_factory):
    """Client and tests; whatever the compiler warns of is an error, a public
    name without documentation, too."""
    path = str(tmp_path_factory.mktemp("classes"))
    run("javac", "-Xlint:all", "-Xdoclint:all/public,-missing", "-Werror",
        "-d", path, *sources("src"))
    return path


@pytest.fixture(scope="module")
def packed(tmp_path_factory):
    """The jar of `make client-java`, and the examples made with it alone."""
    path = str(tmp_path_factory.mktemp("packed"))
    run("make", "-s", "client-java", "CLIENTS_TO=" + path, folder=ROOT)
    jar = os.path.join(path, "hasp-0.1.0.jar")
    run("javac", "-Xlint:all", "-Werror", "-cp", jar, "-d", path,
        *sources("examples"))
    return jar, path


@pytest.fixture(scope="module")
def cluster():
    with Cluster(3) as nodes:
        nodes.leader()
        yield nodes


def endpoints(cluster):
    return ",".join("127.0.0.1:%d" % n.client_port for n in cluster.nodes)


def test_its_tests_pass(classes):
    said = run(*JAVA, "-cp", classes, "hasp.UnitTests",
               os.path.join(ROOT, "tests", "vectors"))
    assert int(said.split()[0]) > 5000


def test_its_sessions_share_a_connection(classes):
    said = run(*JAVA, "-cp", classes, "hasp.LinkTests")
    assert int(said.split()[0]) > 30


def test_what_is_interrupted_anywhere_leaves_nothing_behind(cluster, classes):
    """$HASP_INTERRUPTS asks for more cycles."""
    said = run(*JAVA, "-ea", "-cp", classes, "hasp.InterruptTests",
               HASP_ENDPOINTS=endpoints(cluster))
    assert int(said.split()[-2]) > 5000


def connections(process):
    """How many TCP connections it has made, and not closed."""
    made = set()
    for name in "tcp", "tcp6":
        with open("/proc/%d/net/%s" % (process.pid, name), encoding="ascii") as file:
            made |= {"socket:[%s]" % line.split()[9] for line in file
                     if line.split()[3] == "01"}
    folder = "/proc/%d/fd" % process.pid
    return sum(os.path.lexists(path) and os.readlink(path) in made for path in (
        os.path.join(folder, name) for name in os.listdir(folder)))


def test_fifty_sessions_on_one_connection_outlive_its_node(classes):
    with Cluster(3) as cluster:
        cluster.leader()
        process = subprocess.Popen(
            [*JAVA, "-cp", classes, "hasp.Crowd"],
            env=dict(os.environ, HASP_ENDPOINTS=endpoints(cluster)),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8")
        try:
            assert process.stdout.readline() == "ready\n"
            assert connections(process) == 1

            def goes_on():
                process.stdin.write("\n")
                process.stdin.flush()
                assert process.stdout.readline() == "on\n"

            for node in cluster.nodes:  # One of them has the connection.
                node.pause()
                goes_on()
                node.resume()
                goes_on()
            cluster.leader().kill()
            goes_on()
            assert process.communicate(timeout=60)[0] == "well\n"
        finally:
            process.kill()
            process.wait()


def test_it_does_what_it_says_with_a_cluster(cluster, classes):
    said = run(*JAVA, "-ea", "-cp", classes, "hasp.ClusterTests",
               HASP_ENDPOINTS=endpoints(cluster))
    assert int(said.split()[0]) > 60


def test_locks_with_the_manners_of_java_outlive_a_leader(classes):
    with Cluster(3) as cluster:
        cluster.leader()
        process = subprocess.Popen(
            [*JAVA, "-ea", "-cp", classes, "hasp.MannersTests"],
            env=dict(os.environ, HASP_ENDPOINTS=endpoints(cluster)),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8")
        try:
            assert process.stdout.readline() == "kill\n"
            cluster.leader().kill()
            said = process.communicate("\n", timeout=100)[0]
            # How many depends on how often the threads had the lock.
            assert int(said.split()[0]) > 20
        finally:
            process.kill()
            process.wait()


def test_it_speaks_tls_with_nodes_of_its_cluster_alone(classes, tmp_path):
    """The node that it greets is one of the cluster's, whatever its address."""
    words = [*JAVA, "-cp", classes, "hasp.ClusterTests"]
    with TlsCluster() as cluster:
        cluster.leader()

        def refusal(tls):
            env = dict(os.environ, HASP_ENDPOINTS=cluster.endpoints,
                       HASP_TLS=str(tls))
            done = subprocess.run(words, env=env, capture_output=True,
                                  encoding="utf-8", timeout=60)
            assert done.returncode == 1
            return done.stderr

        said = run(*words, HASP_ENDPOINTS=cluster.endpoints,
                   HASP_TLS=cluster.app)
        assert int(said.split()[0]) > 60
        assert "this port requires TLS" in refusal("")
        # A CA of another cluster, and one that trusts the right nodes, but for
        # another cluster.
        cluster.hasp("cert", "ca", "--cluster", "other", "--dir", tmp_path,
                     tls=None)
        cluster.hasp("cert", "user", "app", "--dir", tmp_path, tls=None)
        assert "made by another CA" in refusal(tmp_path / "user-app")
        mixed = tmp_path / "mixed"
        shutil.copytree(cluster.app, mixed)
        with open(mixed / "ca.crt", "r+", encoding="ascii") as file:
            right = file.read()
            file.seek(0)
            file.write((tmp_path / "ca.crt").read_text() + right)
        assert "the node's certificate is for 'test', not 'other'" in refusal(mixed)
        os.chmod(mixed / "client.key", 0o644)
        assert "chmod 0600" in refusal(mixed)


PROGRAM = """import hasp.HaspLock;
import hasp.Session;
import java.time.Duration;

public class Example {
    static class Store {
        void write(String row, long token) {
            System.out.println(row + " written with a token: " + (token > 0));
        }
    }

    public static void main(String[] arguments) {
        Store store = new Store();
%s    }
}
"""


def test_the_program_of_its_readme_runs(cluster, packed, tmp_path):
    with open(os.path.join(CLIENT, "README.md"), encoding="utf-8") as file:
        readme = file.read()
    shown = re.search(r"```java\n(.*?)```", readme, re.S).group(1)
    command = re.search(r"^java (-cp .*)$", readme, re.M).group(1)
    shutil.copy(packed[0], tmp_path)
    tmp_path.joinpath("Example.java").write_text(PROGRAM % shown)
    said = run(*JAVA, *command.split(), folder=tmp_path,
               HASP_ENDPOINTS=endpoints(cluster))
    assert said == "row written with a token: true\n"


def example(cluster, packed, name, *words):
    return run(*JAVA, "-cp", ":".join(packed), name, *words,
               HASP_ENDPOINTS=endpoints(cluster))


def test_its_examples_run(cluster, packed):
    assert example(cluster, packed, "Cron", "job", "day-1") == "runs job\n"
    again = example(cluster, packed, "Cron", "job", "day-1")
    assert again == "another machine runs job\n"
    assert example(cluster, packed, "Workers").count("is done") == 10
    said = example(cluster, packed, "Fenced").splitlines()
    assert [line.rsplit(" ", 1)[1] for line in said] == ["true", "false"]


def test_a_leader_is_elected_and_followed_by_another(cluster, packed):
    env = dict(os.environ, HASP_ENDPOINTS=endpoints(cluster))
    with Candidates(*JAVA, "-cp", ":".join(packed), "Election", **env) as all_:
        all_.is_told()
        all_.freeze_leader()
        all_.end_leader(signal.SIGTERM)
