# SPDX-License-Identifier: MIT
"""haspd --container: what an entrypoint would do, and member lines with
names."""

import os
import shutil
import socket
import subprocess
import tempfile

import pytest

from cluster import HASPD, Client, free_ports, wait_until

MEMBERS = ",".join(
    "%d hasp-%d.hasp:7421 hasp-%d.hasp:7420" % (n, n, n) for n in (1, 2, 3)
)


def can_be_named():
    done = subprocess.run(["unshare", "-r", "--uts", "true"], check=False,
                          capture_output=True)
    return done.returncode == 0


needs_names = pytest.mark.skipif(
    not can_be_named(), reason="no namespaces for names of hosts here")


def haspd(*words, host=None, **variables):
    command = [HASPD, "--container", *words]
    if host is not None:
        command = ["unshare", "-r", "--uts", "sh", "-c",
                   'hostname "$0" && exec "$@"', host, *command]
    env = {k: v for k, v in os.environ.items() if not k.startswith("HASP_")}
    return subprocess.run(
        command, env={**env, **variables}, text=True, capture_output=True,
        stdin=subprocess.DEVNULL, timeout=30, check=False)


def settings(*words, **options):
    done = haspd("--print-config", *words, **options)
    assert done.returncode == 0, done.stderr
    section, found = None, {}
    for line in done.stdout.splitlines():
        if line.startswith("["):
            section = line[1:-1]
        elif line:
            key, value = line.split(" ; ")[0].split(" = ", 1)
            found.setdefault("%s.%s" % (section, key), value)
    return found


def test_a_lone_node_needs_one_variable():
    found = settings(HASP_CLUSTER_ALONE="yes")
    assert found["node.id"] == "1"
    assert found["node.dir"] == "/var/lib/hasp/data"
    assert found["listen.client"] == "0.0.0.0:7420"
    assert found["listen.peer"] == "127.0.0.1:7421"
    assert found["listen.http"] == "*:7422"
    assert found["security.insecure"] == "yes"


def test_alone_is_not_insecure_once_anything_is_said_of_it():
    """Only a value that was not given may be guessed."""
    done = haspd("--check-config", HASP_CLUSTER_ALONE="yes",
                 HASP_SECURITY_INSECURE="no")
    assert done.returncode == 78 and "not encrypted" in done.stderr
    done = haspd("--print-config", HASP_CLUSTER_ALONE="yes",
                 HASP_CLUSTER_NAME="x", HASP_TLS_CLIENT="require",
                 HASP_TLS_DIR="/nowhere")
    assert "insecure = no" in done.stdout
    assert "http = 127.0.0.1:7422" in done.stdout
    done = haspd("--check-config")
    assert done.returncode == 78 and "HASP_CLUSTER_ALONE=yes" in done.stderr


@needs_names
def test_the_id_is_the_number_of_the_pod():
    plain = {"HASP_SECURITY_INSECURE": "yes", "HASP_CLUSTER_MEMBER": MEMBERS}
    found = settings(host="hasp-3", **plain)
    assert found["node.id"] == "3"
    assert found["listen.client"] == "*:7420"
    assert found["listen.peer"] == "*:7421"
    assert settings(host="hasp-3", HASP_NODE_ID="2", **plain)["node.id"] == "2"
    # One that is to be added: no line names it.
    found = settings(host="hasp-4", **plain)
    assert found["node.id"] == "4"
    assert found["listen.peer"] == "*:7421"
    done = haspd("--check-config", host="hasp-0", **plain)
    assert done.returncode == 78 and "spec.ordinals.start: 1" in done.stderr
    for name in ("4b1dfe0a98", "hasp-x1", "hasp-99999999999999999999"):
        done = haspd("--check-config", host=name, **plain)
        assert done.returncode == 78, name
        assert "HASP_NODE_ID" in done.stderr and name in done.stderr


def test_http_is_for_all_with_tls_alone():
    tls = {"HASP_TLS_CLIENT": "require", "HASP_TLS_PEER": "require",
           "HASP_TLS_DIR": "/tls", "HASP_NODE_ID": "1",
           "HASP_CLUSTER_NAME": "x", "HASP_CLUSTER_MEMBER": MEMBERS}
    assert settings(**tls)["listen.http"] == "127.0.0.1:7422"
    found = settings(HASP_TLS_HTTP="require", **tls)
    assert found["listen.http"] == "*:7422"
    assert found["security.insecure"] == "no"


class Lone:
    """A node with the ports of a container of its own."""

    def __init__(self, folder):
        self.ports = free_ports(3)
        self.log = open(folder / "log", "ab")
        env = {k: v for k, v in os.environ.items()
               if not k.startswith("HASP_")}
        env.update(
            HASP_CLUSTER_ALONE="yes", HASP_NODE_DIR=str(folder / "data"),
            HASP_LISTEN_CLIENT="*:%d" % self.ports[0],
            HASP_LISTEN_PEER="127.0.0.1:%d" % self.ports[1],
            HASP_LISTEN_HTTP="*:%d" % self.ports[2],
            HASP_SECURITY_CORE_DUMPS="yes")
        self.process = subprocess.Popen(
            [HASPD, "--container"], env=env, stdin=subprocess.DEVNULL,
            stdout=self.log, stderr=self.log)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait(10)
        self.log.close()

    def take(self):
        try:
            with Client(self.ports[0]) as client:
                client.do("SESSION.OPEN", "TTL", "5000")
                return client.do("LOCK.ACQUIRE", "x")
        except OSError:
            return None


def test_a_lone_node_grants_a_lock_to_both_kinds_of_addresses(tmp_path):
    with Lone(tmp_path) as node:
        wait_until(node.take, 15, "a lock")
        if socket.has_ipv6 and os.path.exists("/proc/net/if_inet6"):
            with socket.create_connection(("::1", node.ports[0]), 5) as six:
                six.sendall(b"PING\r\n")
                assert six.recv(7) == b"+PONG\r\n"
        log = (tmp_path / "log").read_text()
        assert 'event="traffic is not encrypted"' in log
        node.process.terminate()
        assert node.process.wait(10) == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="another user needs root")
def test_a_volume_of_another_owner_is_told_with_the_remedy():
    folder = tempfile.mkdtemp(prefix="hasp-owner-")
    user = ["setpriv", "--reuid", "65532", "--regid", "65532",
            "--clear-groups"]
    try:
        os.chmod(folder, 0o755)
        if subprocess.run([*user, "ls", folder], check=False,
                          capture_output=True).returncode != 0:
            pytest.skip("user 65532 does not reach %s" % folder)
        program = shutil.copy(HASPD, folder + "/haspd")
        done = subprocess.run(
            [*user, program, "--container", "--dir", folder + "/data"],
            env={"HASP_CLUSTER_ALONE": "yes"}, text=True, capture_output=True,
            timeout=30, check=False)
    finally:
        shutil.rmtree(folder)
    assert done.returncode == 70, done.stderr
    assert (
        "haspd: '%s' belongs to user 0 and group 0 with mode 0755, but haspd "
        "runs as user 65532 and group 65532: run 'chown -R "
        "65532:65532' on that volume, or in Kubernetes set "
        "securityContext.fsGroup: 65532\n" % folder) in done.stderr
