# SPDX-License-Identifier: MIT
"""An attacker with a certificate that lies at the port between nodes, and one
between two nodes that strips TLS."""

import re
import signal
import socket
import threading

import pytest

from cluster import Node, admit_fences, free_ports, wait_until
from fake_peer import identity
from test_restart import SMALL
from tls_cluster import SecurePeer, TlsCluster, tool


@pytest.fixture(scope="module")
def cluster():
    with TlsCluster() as cluster:
        cluster.leader()
        yield cluster


def test_a_node_is_only_the_one_of_its_certificate(cluster):
    """Node 2's own key and node 3's name: with all that node 3 would say."""
    first, second, third = cluster.nodes
    own, incarnation = identity(third)
    term = cluster.leader().status()["term"]

    def is_told():
        """In words, if the greeting came in time; the log has five lines in
        ten seconds."""
        with SecurePeer(first, 3, cluster.folder_of(second), cluster.certs,
                        cluster=own, incarnation=incarnation) as fake:
            frame = fake.receive()
            assert frame is None or b"its certificate is of node 2" in frame[1]
            assert fake.is_closed()
        return "it claims to be node 3, but its certificate is of node 2" \
            in first.log()

    wait_until(is_told, 30, "the reason in the log")
    assert cluster.leader().status()["term"] == term


class Proxy:
    """A proxy of a node's peer port; cuts connections that begin with TLS, and
    forwards the rest. The first 'short' connections end when that node has sent
    a number of bytes."""

    def __init__(self, port, short=0, size=0):
        self.port = port
        self.plain = self.cut = 0
        self.is_cutting = False
        self.short, self.size = short, size
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = self.listener.getsockname()[1]
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        while True:
            try:
                client = self.listener.accept()[0]
            except OSError:
                return
            threading.Thread(target=self.serve, args=(client,),
                             daemon=True).start()

    def serve(self, client):
        try:
            first = client.recv(65536)
            is_tls = first[:1] == b"\x16"
            if is_tls and self.is_cutting:
                self.cut += 1
                client.close()
                return
            self.plain += not is_tls
            server = socket.create_connection(("127.0.0.1", self.port), 5)
            server.sendall(first)
            back = threading.Thread(target=self.pump, args=(server, client, True),
                                    daemon=True)
            back.start()
            self.pump(client, server, False)
        except OSError:
            pass

    def pump(self, source, target, is_nodes):
        passed = 0
        try:
            while True:
                data = source.recv(65536)
                passed += len(data)
                is_short = is_nodes and self.short > 0 and passed > self.size
                self.short -= is_short
                if not data or is_short:
                    break
                target.sendall(data)
        except OSError:
            pass
        for one in (source, target):
            try:
                one.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def close(self):
        self.listener.close()


def test_who_was_reached_by_tls_is_not_dialled_in_plain():
    """'allow' on both sides, and an attacker between them drops TLS."""
    with TlsCluster("allow", start=False) as cluster:
        first, second, third = cluster.nodes
        proxy = Proxy(first.peer_port)
        try:
            for node in cluster.nodes:
                with open(node.config) as file:
                    text = file.read()
                text = text.replace("member = 1 127.0.0.1:%d " % first.peer_port,
                                    "member = 1 127.0.0.1:%d " % proxy.address)
                with open(node.config, "w") as file:
                    file.write(text)
            first.start()
            wait_until(lambda: "listening for clients" in first.log(), 15,
                       "node 1 can be reached")
            cluster.start()

            def is_up():
                found = re.findall(r'event="peer up" peer=1 .*tls=(\w+)',
                                   third.log())
                return found
            wait_until(is_up, 15, "node 3 has reached node 1")
            cluster.leader()
            cluster.converged()
            assert is_up()[-1] == "yes"
            assert proxy.plain == 0
            proxy.is_cutting = True

            def downs():  # While it starts, one of two links may end, too.
                return third.log().count('event="peer down" peer=1')
            before = downs()
            first.signal(signal.SIGSTOP)  # Until the links are given up.
            wait_until(lambda: downs() > before, 15, "the link is given up")
            first.signal(signal.SIGCONT)
            wait_until(lambda: proxy.cut >= 5, 15, "it dials again")
            assert proxy.plain == 0
            proxy.is_cutting = False
            count = len(is_up())
            wait_until(lambda: len(is_up()) > count, 15, "and reaches it again")
            assert is_up()[-1] == "yes" and proxy.plain == 0
        finally:
            proxy.close()


def test_a_newcomer_that_is_cut_off_in_a_snapshot_comes_back():
    """It has no cluster's id until it has the snapshot, and its incarnation is
    registered by then: it is let in again, by its certificate, until it is a
    member."""
    with TlsCluster(start=False) as cluster:
        for node in cluster.nodes:
            cluster.configure(node, "require",
                              "[limits]\nrequests_in_flight = 300\n" + SMALL)
        cluster.start()
        leader = cluster.leader()
        with leader.connect() as client:
            admit_fences(client, 11000, 200)
            client.do("RAFT.SNAPSHOT")
        cluster.converged()
        node = Node(cluster, 4, free_ports(3))
        tool("cert", "node", "4=127.0.0.1", folder=cluster.folder)
        cluster.configure(node, "require")
        cluster.nodes.append(node)
        # All that it hears of the others comes by these.
        proxies = {n: Proxy(n.peer_port, 2, 300000) for n in cluster.founders}
        try:
            with open(node.config) as file:
                text = file.read()
            for other, proxy in proxies.items():
                text = text.replace("127.0.0.1:%d " % other.peer_port,
                                    "127.0.0.1:%d " % proxy.address)
            with open(node.config, "w") as file:
                file.write(text)
            node.start()
            wait_until(lambda: "waiting to be added" in node.log(), 15, "it waits")
            told = tool("-e", "127.0.0.1:%d" % node.client_port, "why", "x",
                        tls=cluster.certs + "/user-admin", check=False)
            assert told.returncode == 77 and "hasp member add" in told.stderr
            with leader.connect() as client:
                assert client.do("RAFT.ADD", 4, node.addresses) == "OK"
            wait_until(lambda: (node.status() or {}).get("applied", 0)
                       >= leader.status()["applied"], 30, "it has it all")
            before, _, after = node.log().partition("snapshot installed")
            ups = re.findall(r'event="peer up" peer=%d .*tls=(\w+)' % leader.id,
                             before)
            assert len(ups) >= 3 and set(ups) == {"yes"} and after
            assert before.count('event="peer down" peer=%d' % leader.id) >= 2
            assert proxies[leader].short == 0
            assert identity(node)[0] == identity(leader)[0]
            with node.connect() as client:
                assert client.do("FENCE.SHOW", "f10999-" + "y" * 200) == 7
        finally:
            for proxy in proxies.values():
                proxy.close()
