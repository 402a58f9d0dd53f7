# SPDX-License-Identifier: MIT
"""New certificates, a new CA, and the way from plain to TLS, as docs/security.md
has them, while clients work: no session is lost, and no connection is closed by
a reload."""

import os
import re
import shutil
import signal
import ssl
import threading
import time

import pytest

from cluster import Client, ReplyError, wait_until
from tls_cluster import TlsCluster, as_user, tool


class Worker:
    """Takes and gives back a lock, in one session; comes back when it must."""

    def __init__(self, cluster, number, contexts):
        self.cluster = cluster
        self.number = number
        self.contexts = contexts  # To be tried in turn; None: plain.
        self.connects = self.cycles = self.newest = 0
        self.session = None
        self.wrong = []
        self.must_stop = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def connect(self):
        for attempt in range(400):
            node = self.cluster.nodes[(self.number + attempt) % 3]
            for tls in self.contexts:
                try:
                    client = Client(node.client_port, 5.0, tls=tls)
                    if self.session is None:
                        self.session = client.map("SESSION.OPEN", "TTL", "20000")
                    else:
                        client.do("SESSION.ATTACH", self.session["id"],
                                  self.session["secret"])
                    self.connects += 1
                    return client
                except (OSError, ReplyError, ValueError) as error:
                    if "EXPIRED" in str(error):
                        raise
            time.sleep(0.05)
        raise AssertionError("no node takes worker %d" % self.number)

    def cycle(self, client):
        name = "job/%d" % self.number
        token = client.do("LOCK.ACQUIRE", name)
        if token < self.newest:
            self.wrong.append("token %d after %d" % (token, self.newest))
        self.newest = token
        client.do("SESSION.KEEP", self.session["id"], self.session["secret"])
        client.do("LOCK.RELEASE", name)
        self.cycles += 1

    def run(self):
        try:
            client = self.connect()
            while not self.must_stop.is_set():
                try:
                    self.cycle(client)
                    time.sleep(0.005)
                except (OSError, ValueError):
                    client.close()
                    client = self.connect()
                except ReplyError as error:
                    if not re.match("NOLEADER|UNKNOWN|BUSY|NOTLS", str(error)):
                        raise
                    client.close()
                    client = self.connect()
            client.close()
        except Exception as error:  # pylint: disable=broad-except
            self.wrong.append(repr(error))

    def stop(self):
        self.must_stop.set()
        self.thread.join(30)
        assert not self.thread.is_alive() and self.wrong == []


def go_on(workers):
    """All of them get something done."""
    before = [worker.cycles for worker in workers]
    wait_until(lambda: all(w.cycles > b + 3 or w.wrong
                           for w, b in zip(workers, before)), 20, "work")
    assert [w.wrong for w in workers] == [[]] * len(workers)


def take(nodes, bad=False):
    """They read their files again."""
    what = 'event="new certificates rejected' if bad else 'event="certificates loaded"'
    before = [node.log().count(what) for node in nodes]
    for node in nodes:
        node.signal(signal.SIGHUP)
    wait_until(lambda: all(n.log().count(what) > b for n, b in zip(nodes, before)),
               15, "the files are read")


def set_ca(cluster, text):
    for folder in os.listdir(cluster.certs):
        path = os.path.join(cluster.certs, folder, "ca.crt")
        if os.path.exists(path):
            with open(path, "w") as file:
                file.write(text)


def read(*path):
    with open(os.path.join(*path)) as file:
        return file.read()


def test_new_certificates_and_a_new_ca_under_load():
    with TlsCluster() as cluster:
        cluster.leader()
        cluster.converged()
        admin = [as_user(cluster.certs, "admin")]
        workers = [Worker(cluster, i, admin) for i in range(6)]
        try:
            rotate(cluster, workers)
        finally:
            for worker in workers:
                worker.must_stop.set()
        for worker in workers:
            worker.stop()
            assert worker.connects == 1
        come_back(cluster)


def come_back(cluster):
    """Nodes that have lost each other find each other by what they have now."""
    user = cluster.app
    cluster.tls = as_user(user)
    cluster.tls.load_cert_chain(user + "/client.crt", user + "/client.key")
    node = cluster.followers(cluster.leader())[0]
    node.pause()
    wait_until(lambda: any('event="peer down" peer=%d' % node.id in n.log()
                           for n in cluster.nodes if n is not node), 20,
               "a link is given up")
    node.resume()
    wait_until(lambda: (node.status() or {}).get("leader"), 20, "it is back")


def rotate(cluster, workers):
    folders = [cluster.folder_of(node) for node in cluster.nodes]
    user = cluster.app
    go_on(workers)
    ups = [node.log().count('event="peer up"') for node in cluster.nodes]
    # New certificates of the same CA, node by node; a wrong key between.
    for node, folder in zip(cluster.nodes, folders):
        tool("cert", "renew", folder, folder=cluster.folder)
        good = read(folder, "node.key")
        shutil.copy(os.path.join(folders[node.id % 3], "node.key"),
                    os.path.join(folder, "node.key"))
        take([node], bad=True)
        with open(os.path.join(folder, "node.key"), "w") as file:
            file.write(good)
        take([node])
        go_on(workers)
    # A new CA, by the steps of docs/security.md.
    tool("cert", "ca", "--cluster", "test", "--dir", "new", folder=cluster.folder)
    new = os.path.join(cluster.folder, "new")
    old_user = cluster.folder + "/old-admin"
    shutil.copytree(user, old_user)
    alone = read(new, "ca.crt")
    both = read(cluster.certs, "ca.crt") + alone
    set_ca(cluster, both)
    with open(os.path.join(new, "ca.crt"), "w") as file:
        file.write(both)
    take(cluster.nodes)
    go_on(workers)
    tool("cert", "renew", "--dir", "new", user, *folders, folder=cluster.folder)
    for node in cluster.nodes:
        take([node])
        go_on(workers)
    for node in cluster.nodes:  # Each trusts both, whichever is shown.
        for shown in (old_user, user):
            with_context(node, shown, user + "/ca.crt").close()
    set_ca(cluster, alone)
    with open(os.path.join(new, "ca.crt"), "w") as file:
        file.write(alone)
    take(cluster.nodes)
    go_on(workers)
    tool("cert", "user", "late", "--dir", "new", folder=cluster.folder)
    assert read(new, "user-late", "ca.crt") == alone
    with_context(cluster.nodes[0], user, new + "/ca.crt").close()
    with pytest.raises((ssl.SSLError, ConnectionError)):
        with_context(cluster.nodes[0], old_user, user + "/ca.crt")
    # No link was cut off by any of it.
    assert [n.log().count('event="peer up"') for n in cluster.nodes] == ups


def with_context(node, folder, ca):
    context = ssl.create_default_context(cafile=ca)
    context.check_hostname = False
    context.load_cert_chain(folder + "/client.crt", folder + "/client.key")
    client = Client(node.client_port, tls=context)
    assert client.do("PING") == "PONG"
    return client


def test_from_plain_to_tls_under_load():
    """Clients that speak what each node takes keep their sessions."""
    with TlsCluster("off") as cluster:
        cluster.leader()
        ways = [as_user(cluster.certs), None]
        workers = [Worker(cluster, i, ways) for i in range(4)]
        try:
            go_on(workers)
            sessions = [dict(worker.session) for worker in workers]
            for mode in ("allow", "require"):
                for node in cluster.nodes:
                    node.stop()
                    cluster.configure(node, mode)
                    node.start()
                    go_on(workers)
            assert [dict(worker.session) for worker in workers] == sessions
        finally:
            for worker in workers:
                worker.must_stop.set()
        for worker in workers:
            worker.stop()
        for node in cluster.nodes:
            last = re.findall(r'event="peer up" .*tls=(\w+)', node.log())[-2:]
            assert last == ["yes", "yes"]
