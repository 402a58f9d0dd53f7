# SPDX-License-Identifier: MIT
"""listen.local: a UNIX socket for the programs of the node's machine."""

import os
import socket
import stat
import struct
import sys

import pytest

from cluster import HASPD, ROOT, Client, Cluster, wait_until
from tls_cluster import TlsCluster, tool

sys.path.insert(0, os.path.join(ROOT, "clients", "python"))
sys.path.insert(0, os.path.join(ROOT, "tests", "conformance"))

import hasp  # noqa: E402
from driver import LANGUAGES, Conform  # noqa: E402


@pytest.fixture(name="path")
def path_(tmp_path):
    path = str(tmp_path / "c.sock")
    assert len(path) <= 107
    return path


def in_listen(path):
    return "[listen]\nlocal = %s\n" % path


def test_programs_of_the_machine_come_by_it(path, caplog):
    with Cluster(1, in_listen(path)) as cluster:
        node = cluster.nodes[0]
        cluster.leader()
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o660
        at = "unix:" + path
        assert tool("-e", at, "run", "a", "--", "echo", "held").stdout == "held\n"
        with hasp.Session(at, ttl=5) as session, session.lock("b") as lock:
            assert lock.token > 0
            shown = tool("-e", at, "-o", "plain", "list").stdout
            assert shown.split()[0] == "b", shown
        assert caplog.records == [], "nothing to complain of"
        assert "anyone" in tool("-e", at, "whoami").stdout
        # A node that was killed leaves it in place; the next start takes it
        # over.
        node.kill()
        assert os.path.exists(path)
        node.start()
        cluster.leader()
        assert tool("-e", at, "run", "a", "--", "true").returncode == 0
        assert node.stop() == 0
        assert not os.path.exists(path)
        done = tool("-e", at, "-t", "1s", "status", check=False)
        assert done.returncode == 69 and at in done.stderr


def test_what_lies_there_and_is_not_ours_stays(path):
    with Cluster(1, in_listen(path), start=False) as cluster:
        node = cluster.nodes[0]
        with open(path, "w") as file:
            file.write("precious")
        assert node.start().wait_exit() == 69
        assert "the path is a file that is not a socket" in node.log()
        with open(path) as file:
            assert file.read() == "precious"
        os.unlink(path)
        with socket.socket(socket.AF_UNIX) as other:
            other.bind(path)
            other.listen(1)
            assert node.start().wait_exit() == 69
            assert "cannot listen on '%s': Address already in use" % path in node.log()
            assert os.path.exists(path)


def test_it_is_a_port_like_others_and_private(path, tmp_path):
    """A secret is taken there, since nobody listens; nobody is somebody."""
    extra = in_listen(path) + "[security]\naccess = required\n"
    with Cluster(1, extra) as cluster:
        node = cluster.nodes[0]
        at, secret = "unix:" + path, str(tmp_path / "secret")
        door = ("--socket", node.dir)
        wait_until(
            lambda: tool(*door, "list", check=False).returncode == 0, 20, "a leader"
        )
        done = tool("-e", at, "run", "a", "--", "true", check=False)
        assert done.returncode == 77 and "NOAUTH" in done.stderr
        tool(*door, "role", "set", "app", "lock,read:app/*")
        tool(*door, "user", "add", "app", "--role", "app")
        tool(*door, "secret", "add", "app", "--file", secret)
        me = ("-e", at, "--secret-file", secret)
        assert tool(*me, "run", "app/1", "--", "true").returncode == 0
        assert tool(*me, "run", "a", "--", "true", check=False).returncode == 77


def test_it_is_plain_where_the_port_wants_tls(path, monkeypatch):
    """For the tool and for the clients in all languages."""
    with TlsCluster(start=False) as cluster:
        node = cluster.nodes[0]
        cluster.configure(node, "require", in_listen(path))
        cluster.start()
        cluster.leader()
        at = "unix:" + path
        assert tool("-e", at, "run", "a", "--", "true").returncode == 0
        done = tool("-e", at, "run", "a", "--", "true", tls=cluster.app)
        assert done.returncode == 0, "what leaves the machine is what TLS is for"
        with hasp.Session(at, ttl=5, tls=cluster.app) as session:
            assert session.lock("b").acquire()
        monkeypatch.setenv("HASP_TLS", cluster.app)
        for language in (one for one, (there, _) in LANGUAGES.items() if there):
            comes_by_it(language, at)


def comes_by_it(language, at):
    conform = Conform(language)
    try:
        conform.do("open", endpoints=at, ttl=5000)
        name = "by-" + language
        told = conform.do("lock", names=[name], wait=0, **{"as": "a"})
        assert told["held"] and told["tokens"][name] > 0
        conform.do("close")
    finally:
        conform.close(kill=True)


@pytest.mark.parametrize("bad", ["relative.sock", "/" + "x" * 107, "/a b"])
def test_a_path_that_cannot_be_one_is_refused(bad):
    with Cluster(1, in_listen(bad), start=False) as cluster:
        assert cluster.nodes[0].start().wait_exit() == 78
        assert "local" in cluster.nodes[0].log()


LINGER_S = 60
OLD_KERNEL = os.path.join(os.path.dirname(os.path.abspath(HASPD)), "old_kernel.so")


def lingering(listener):
    """A TCP socket whose close takes LINGER_S, and its other end."""
    ours = socket.create_connection(listener.getsockname())
    other, _ = listener.accept()
    ours.setblocking(False)
    try:
        while True:
            ours.send(bytes(65536))
    except BlockingIOError:
        pass
    linger = struct.pack("ii", 1, LINGER_S)
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    return ours, other


def passes(node, path, ours):
    """Whether the kernel takes it; our copy is closed."""
    with socket.socket(socket.AF_UNIX) as offender:
        offender.connect(path)
        offender.settimeout(LINGER_S / 3)
        node.pause()  # Or ours may be the last copy, and linger here.
        try:
            socket.send_fds(offender, [b"PING\r\n"], [ours.fileno()])
        except PermissionError:
            ours.setsockopt(
                socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 0, 0)
            )
            return False
        finally:
            ours.close()
            node.resume()
        try:
            assert offender.recv(100) == b"", "the offender is closed"
        except ConnectionResetError:
            pass
        return True


@pytest.mark.parametrize("kernel", ["as it is", "before 6.16"])
def test_a_passed_descriptor_freezes_nobody(path, kernel):
    """The last reference of a TCP socket that lingers, dropped by the
    reader."""
    is_old = kernel == "before 6.16"
    environment = {"LD_PRELOAD": OLD_KERNEL} if is_old else None
    with Cluster(1, in_listen(path), start=False) as cluster, socket.create_server(
        ("127.0.0.1", 0)
    ) as listener:
        node = cluster.nodes[0]
        node.start(environment=environment)
        cluster.leader()
        others = []
        with node.connect(timeout=LINGER_S / 3) as bystander:
            opened = bystander.map("SESSION.OPEN", "TTL", 60000)
            for at in (path, os.path.join(node.dir, "admin.sock")) * 2:
                ours, other = lingering(listener)
                others.append(other)
                has_come = passes(node, at, ours)
                assert has_come or not is_old
                assert bystander.do("SESSION.KEEP"), at
                with Client(at, LINGER_S / 3) as client:
                    assert client.do("PING") == "PONG"
            assert ("it passed descriptors" in node.log()) == has_come
        for other in others:
            other.close()
