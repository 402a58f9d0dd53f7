# SPDX-License-Identifier: MIT
"""Nodes with certificates, and clients that show theirs."""

import os
import ssl
import subprocess

from cluster import ROOT, Cluster
from fake_peer import FakePeer

HASP = os.path.abspath(os.environ.get(
    "HASP", os.path.join(ROOT, "build", "release", "hasp")))


def tool(*words, folder=None, tls=None, check=True):
    env = {k: v for k, v in os.environ.items() if not k.startswith("HASP_")}
    if tls is not None:
        env["HASP_TLS"] = str(tls)
    done = subprocess.run(
        [HASP] + [str(word) for word in words], cwd=folder, env=env,
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60,
    )
    assert not check or done.returncode == 0, done.stderr
    return done


def as_user(certs, user=None, ca="ca.crt"):
    """The certificate and the checks of a client of another make."""
    context = ssl.create_default_context(cafile=os.path.join(certs, ca))
    context.check_hostname = False
    if user is not None:
        folder = os.path.join(certs, "user-" + user)
        context.load_cert_chain(folder + "/client.crt", folder + "/client.key")
    return context


class TlsCluster(Cluster):
    """A cluster of three nodes that have certificates; 'mode' of both ports."""

    def __init__(self, mode="require", start=True):
        super().__init__(3, start=False)
        self.certs = os.path.join(self.folder, "certs")
        tool("cert", "ca", "--cluster", "test", folder=self.folder)
        tool("cert", "node", *("%d=127.0.0.1" % n.id for n in self.nodes),
             folder=self.folder)
        tool("cert", "user", "admin", folder=self.folder)
        for node in self.nodes:
            self.configure(node, mode)
        self.app = os.path.join(self.certs, "user-admin")
        if mode == "require":
            self.tls = as_user(self.certs, "admin")
        if start:
            self.start()

    def configure(self, node, mode, extra=""):
        node.write_config(
            "[tls]\ndir = %s\nclient = %s\npeer = %s\n"
            % (self.folder_of(node), mode, mode) + extra
        )

    def folder_of(self, node):
        return os.path.join(self.certs, "node-%d" % node.id)

    @property
    def endpoints(self):
        return ",".join("127.0.0.1:%d" % n.client_port for n in self.nodes)

    def hasp(self, *words, tls="admin", check=True):
        folder = tls and os.path.join(self.certs, "user-" + tls)
        return tool("-e", self.endpoints, *words, tls=folder, check=check)


class SecurePeer(FakePeer):
    """Greets as 'number', and shows the certificate in the folder."""

    def __init__(self, node, number, folder, certs, **fields):
        self.context = as_user(certs)
        self.context.load_cert_chain(folder + "/node.crt", folder + "/node.key")
        super().__init__(node, number, **fields)

    def greet(self, **fields):
        self.socket = self.context.wrap_socket(self.socket)
        super().greet(**fields)
