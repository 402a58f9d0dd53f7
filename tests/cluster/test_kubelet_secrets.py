# SPDX-License-Identifier: MIT
"""Certificates as cert-manager makes them and as kubelet mounts them: one Secret
for each node with ca.crt, tls.crt and tls.key, in a folder of which all is
swapped at once by the link ..data. Running nodes take the new ones by
themselves, under load, and keep the old ones when those are another node's."""

import os
import signal
import socket
import subprocess

from bounded import bounded_to
from cluster import Client, Cluster, wait_until
from test_rotation import Worker, go_on
from tls_cluster import as_user

bounded = bounded_to(240)  # They look each minute.
NAME = "test"  # The cluster's name in cluster.py.


def openssl(*words):
    subprocess.run(["openssl", *words], check=True, capture_output=True,
                   timeout=30)


class Issuer:
    """A CA that signs as cert-manager's does: no subject, names alone, critical
    for that reason."""

    def __init__(self, folder, cluster):
        self.folder = folder
        self.count = 0
        os.mkdir(folder)
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt",
                "ec_paramgen_curve:P-256", "-nodes", "-days", "30",
                "-subj", "/CN=hasp CA", "-keyout", folder + "/ca.key",
                "-out", folder + "/ca.crt",
                "-addext", "keyUsage=critical,digitalSignature,keyCertSign",
                "-addext", "basicConstraints=critical,CA:TRUE",
                "-addext", "subjectAltName=URI:hasp://" + cluster)

    def secret(self, uri, names=()):
        """{file: text} of a new Secret."""
        self.count += 1
        at = os.path.join(self.folder, str(self.count))
        names = ["URI:" + uri] + ["DNS:" + name for name in names]
        with open(at + ".ext", "w") as file:
            file.write(
                "subjectAltName=critical,%s\nkeyUsage=critical,"
                "digitalSignature\nextendedKeyUsage=serverAuth,clientAuth\n"
                "basicConstraints=critical,CA:FALSE\n" % ",".join(names))
        openssl("req", "-new", "-newkey", "ec", "-pkeyopt",
                "ec_paramgen_curve:P-256", "-nodes", "-subj", "/",
                "-keyout", at + ".key", "-out", at + ".csr")
        openssl("x509", "-req", "-in", at + ".csr", "-CA",
                self.folder + "/ca.crt", "-CAkey", self.folder + "/ca.key",
                "-CAcreateserial", "-days", "20", "-extfile", at + ".ext",
                "-out", at + ".crt")
        found = {}
        for key, path in (("ca.crt", self.folder + "/ca.crt"),
                          ("tls.crt", at + ".crt"), ("tls.key", at + ".key")):
            with open(path) as file:
                found[key] = file.read()
        return found


class Volume:
    """A projected volume, swapped as kubelet's atomic writer does it."""

    def __init__(self, folder):
        self.folder, self.turn = folder, 0
        os.mkdir(folder)

    def swap(self, secrets):
        """{name: {file: text}}"""
        self.turn += 1
        new = os.path.join(self.folder, "..2026_%d" % self.turn)
        for name, files in secrets.items():
            os.makedirs(os.path.join(new, name))
            for key, text in files.items():
                path = os.path.join(new, name, key)
                with open(path, "w") as file:
                    file.write(text)
                os.chmod(path, 0o440)
        data = os.path.join(self.folder, "..data")
        old = os.path.realpath(data) if os.path.islink(data) else None
        os.symlink(os.path.basename(new), data + "_tmp")
        os.rename(data + "_tmp", data)
        for name in secrets:
            link = os.path.join(self.folder, name)
            if not os.path.islink(link):
                os.symlink(os.path.join("..data", name), link)
        if old is not None:
            subprocess.run(["rm", "-r", old], check=True, timeout=10)


def write_user(folder, files):
    """A folder for HASP_TLS; ca.crt beside it, as `hasp cert` has it."""
    os.makedirs(folder)
    for key, names in (("tls.crt", ["client.crt"]), ("tls.key", ["client.key"]),
                       ("ca.crt", ["../ca.crt", "ca.crt"])):
        for name in names:
            path = os.path.join(folder, name)
            with open(path, "w") as file:
                file.write(files[key])
            os.chmod(path, 0o600)


class Issued(Cluster):
    """Three nodes, each of which reads the folder of its name."""

    def __init__(self):
        super().__init__(3, start=False)
        self.issuer = Issuer(os.path.join(self.folder, "issuer"), NAME)
        self.volume = Volume(os.path.join(self.folder, "tls"))
        self.renew()
        folder = os.path.join(self.folder, "certs", "user-admin")
        write_user(folder, self.issuer.secret("hasp://%s/user/admin" % NAME))
        self.tls = as_user(os.path.join(self.folder, "certs"), "admin")
        for node in self.nodes:
            at = os.path.join(self.volume.folder, "hasp-%d" % node.id)
            node.write_config(
                "[tls]\nca = %s/ca.crt\ncert = %s/tls.crt\nkey = %s/tls.key\n"
                "client = require\npeer = require\nhttp = require\n"
                % (at, at, at))
        self.start()

    def renew(self, of=lambda number: number):
        """New certificates, of node of(N) in the folder of node N."""
        self.volume.swap({
            "hasp-%d" % node.id: self.issuer.secret(
                "hasp://%s/node/%d" % (NAME, of(node.id)),
                ("hasp-%d.hasp" % node.id, "localhost"))
            for node in self.nodes})

    def shown(self, node):
        """The serial number of what the node shows."""
        with socket.create_connection(("127.0.0.1", node.client_port), 5) as raw:
            with self.tls.wrap_socket(raw) as secure:
                return secure.getpeercert()["serialNumber"]


def test_secrets_that_kubelet_swaps_are_taken_under_load():
    with Issued() as cluster:
        cluster.leader()
        workers = [Worker(cluster, number, [cluster.tls])
                   for number in range(3)]
        go_on(workers)
        connects = [worker.connects for worker in workers]
        before = {node: cluster.shown(node) for node in cluster.nodes}
        pids = [node.process.pid for node in cluster.nodes]
        cluster.renew()
        # They check each minute, without a notice.
        wait_until(lambda: all(cluster.shown(node) != before[node]
                               for node in cluster.nodes), 90, "new ones")
        go_on(workers)
        assert [worker.connects for worker in workers] == connects
        assert [node.process.pid for node in cluster.nodes] == pids
        wrong = "new certificates rejected, the old ones stay"
        taken = {node: cluster.shown(node) for node in cluster.nodes}
        cluster.renew(of=lambda number: number % 3 + 1)
        for node in cluster.nodes:
            node.signal(signal.SIGHUP)
            wait_until(lambda node=node: wrong in node.log(), 15, "a refusal")
        assert taken == {node: cluster.shown(node) for node in cluster.nodes}
        go_on(workers)
        for worker in workers:
            worker.stop()


def test_names_of_the_certificate_are_those_that_clients_check():
    """redis-cli and others check names; hasp's clients, the URI."""
    with Issued() as cluster:
        node = cluster.leader()
        cluster.tls.check_hostname = True
        with socket.create_connection(("127.0.0.1", node.client_port), 5) as raw:
            with cluster.tls.wrap_socket(
                    raw, server_hostname="hasp-%d.hasp" % node.id) as secure:
                secure.sendall(b"PING\r\n")
                assert secure.recv(7) == b"+PONG\r\n"
        cluster.tls.check_hostname = False
        with Client(node.client_port, tls=cluster.tls) as client:
            assert client.do("PING") == "PONG"
