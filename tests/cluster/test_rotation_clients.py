# SPDX-License-Identifier: MIT
"""Credentials and CAs of running programs are exchanged, as docs/security.md
describes: a user's secret, certificates, the CA. No session is lost, no request
fails, no job is killed, in any language."""

import collections
import json
import os
import shutil
import threading
import time
import urllib.request

import pytest

from cluster import Cluster, wait_until
from rotation_programs import KINDS, Doors, Programs
from test_rotation import take
from test_users import Tool
from tls_cluster import TlsCluster, tool

# For how long files are written byte by byte.
SLOW_S = float(os.environ.get("ROTATION_SECONDS", "10"))


def read(*path):
    with open(os.path.join(*path)) as file:
        return file.read()


def write(path, text):
    """In place, as `cp` does; a secret file stays private."""
    with open(path, "w") as file:
        file.write(text)


def write_slowly(path, text, until):
    """One byte after the other; the rest at the time limit at once."""
    with open(path, "w") as file:
        for byte in text:
            file.write(byte)
            file.flush()
            if time.monotonic() < until:
                time.sleep(0.0005)


class Secrets:
    """A cluster that demands a secret, and programs that show app's."""

    def __init__(self, cluster, folder):
        self.cluster, self.folder = cluster, folder
        self.tool = Tool(cluster)
        self.path = folder / "app.secret"
        self.tool.admin("role", "set", "app", "lock,read:app/*")
        self.tool.admin("user", "add", "app", "--role", "app")
        self.tool.admin("secret", "add", "app", "--file", str(self.path))
        self.tool.admin("access", "required")

    def numbers(self):
        user = json.loads(self.tool.admin("-o", "json", "user", "show", "app"))
        return [one["number"] for one in user["secrets"]]

    def logins(self):
        """The number of connections by their credentials: each node's local
        socket reports its own."""
        counts = collections.Counter()
        for node in self.cluster.nodes:
            done = self.tool.run("--socket", node.dir, "-o", "json", "user",
                                 "show", "app")
            for one in json.loads(done.stdout)["logins"]:
                counts[one["by"]] += one["connections"]
        return counts

    def metric(self, number):
        """The same of a secret, by the metrics."""
        name = ('hasp_connections_by{by="secret",user="app",secret="%d"} '
                % number)
        count = 0
        for node in self.cluster.nodes:
            url = "http://127.0.0.1:%d/metrics" % node.http_port
            request = urllib.request.Request(url, headers={
                "Authorization": "Bearer " + read(self.path).strip()})
            with urllib.request.urlopen(request, timeout=10) as answer:
                text = answer.read().decode()
            count += sum(int(line[len(name):]) for line in text.splitlines()
                         if line.startswith(name))
        return count

    def add(self):
        """A new secret of the user, as text."""
        new = self.folder / "new.secret"
        self.tool.admin("secret", "add", "app", "--file", str(new))
        text = read(new)
        os.remove(new)
        return text

    def remove(self, number):
        self.tool.admin("secret", "remove", "app", str(number))

    def programs(self, kinds):
        env = {"HASP_ENDPOINTS": self.tool.ports,
               "HASP_SECRET_FILE": str(self.path)}
        return Programs(self.folder / "programs", kinds, lambda _: env)


@pytest.fixture(name="secrets")
def secrets_(tmp_path):
    with Cluster(3, "[security]\ninsecure = yes\n") as nodes:
        nodes.leader()
        yield Secrets(nodes, tmp_path)


@pytest.mark.parametrize("kind", KINDS)
def test_a_secret_is_exchanged_under_load(secrets, kind):
    """First add the new one, then write the file, then remove the old one;
    twice. Then the file comes late, by more than a heartbeat: a client refused
    in between asks again."""
    with secrets.programs([kind]) as programs:
        for _ in range(2):
            [old] = secrets.numbers()
            write(secrets.path, secrets.add())
            programs.go_on()
            # Users of the old one are shown until it is removed.
            assert set(secrets.logins()) == {"secret:%d" % old}
            secrets.remove(old)
            programs.go_on(5)
            [new] = secrets.numbers()
            assert set(secrets.logins()) == {"secret:%d" % new}
            # Each of these questions of the metrics is a connection, too.
            assert secrets.metric(new) > secrets.metric(old) == 0
        [old] = secrets.numbers()
        new = secrets.add()
        secrets.remove(old)
        time.sleep(2.5)
        programs.check()
        write(secrets.path, new)
        programs.go_on(5)
        programs.stop()


class Certificates:
    """A cluster that demands certificates, and a folder of a user's for each
    kind of program."""

    def __init__(self, cluster, folder, kinds):
        self.cluster, self.folder = cluster, cluster.folder
        cluster.hasp("role", "set", "app", "lock,read:app/*")
        for kind in kinds:
            tool("cert", "user", "app-" + kind, folder=self.folder)
            cluster.hasp("user", "add", "app-" + kind, "--role", "app")
        self.users = {kind: os.path.join(cluster.certs, "user-app-" + kind)
                      for kind in kinds}
        self.nodes = [cluster.folder_of(node) for node in cluster.nodes]
        self.doors = Doors(cluster.nodes)
        self.programs = Programs(folder / "programs", kinds, lambda kind: {
            "HASP_ENDPOINTS": self.doors.endpoints,
            "HASP_TLS": self.users[kind]})

    def reconnect(self):
        """Ten times all connections are renewed."""
        for _ in range(10):
            self.doors.cut()
            self.programs.go_on(1)

    def set_ca(self, text):
        for folder in [*self.nodes, *self.users.values()]:
            write(os.path.join(folder, "ca.crt"), text)
        take(self.cluster.nodes)

    def authorities(self):
        """The CAs by which the user comes; after many cuts it may pause first."""
        logins = wait_until(self._logins, 10, "the user comes")
        assert all(one["by"].startswith("certificate:") for one in logins)
        return {one["ca"] for one in logins}

    def _logins(self):
        return json.loads(self.cluster.hasp(
            "-o", "json", "user", "show",
            os.path.basename(*self.users.values())[len("user-"):]).stdout)["logins"]

    def revoke(self, folder):
        tool("-e", self.cluster.endpoints, "cert", "revoke", folder,
             tls=self.cluster.app)


@pytest.fixture(name="certificates")
def certificates_(tmp_path, request):
    with TlsCluster() as cluster:
        cluster.leader()
        cluster.converged()
        made = Certificates(cluster, tmp_path, [request.param])
        with made.programs:
            yield made
        made.doors.close()


by_kind = pytest.mark.parametrize("certificates", KINDS, indirect=True)


@by_kind
def test_a_certificate_and_the_ca_are_exchanged_under_load(certificates):
    """Renewed, and the old one revoked, which cuts those who showed it; then all
    of docs/security.md's "A new CA"."""
    one, programs = certificates, certificates.programs
    [user] = one.users.values()
    old = os.path.join(one.folder, "old")
    shutil.copytree(user, old)
    tool("cert", "renew", user, folder=one.folder)
    one.revoke(old)
    programs.go_on(5)
    tool("cert", "ca", "--cluster", "test", "--dir", "new", folder=one.folder)
    new_ca = os.path.join(one.folder, "new", "ca.crt")
    alone, both = read(new_ca), read(one.cluster.certs, "ca.crt") + read(new_ca)
    write(new_ca, both)
    one.set_ca(both)
    one.reconnect()
    [former] = one.authorities()
    tool("cert", "renew", "--dir", "new", user, one.cluster.app, *one.nodes,
         folder=one.folder)
    take(one.cluster.nodes)
    one.reconnect()
    [new] = one.authorities()
    assert new != former
    one.set_ca(alone)
    one.reconnect()
    assert one.authorities() == {new}
    programs.stop()


@by_kind
def test_a_folder_that_is_swapped_or_written_slowly(certificates):
    """Files that change one byte after the other, the certificate before its key,
    while connections are made again and again: what is half written is never
    shown, and the old ones are."""
    one, programs = certificates, certificates.programs
    [user] = one.users.values()
    over = threading.Event()
    until = time.monotonic() + SLOW_S

    def rewrite():
        while time.monotonic() < until:
            spare = os.path.join(one.folder, "spare")
            shutil.copytree(user, spare)
            tool("cert", "renew", spare, folder=one.folder)
            for name in ("ca.crt", "client.crt", "client.key"):
                write_slowly(os.path.join(user, name), read(spare, name), until)
            shutil.rmtree(spare)
        over.set()

    writer = threading.Thread(target=rewrite)
    writer.start()
    while not over.is_set():
        one.doors.cut()
        programs.go_on(1)
    writer.join()
    [program] = programs.all
    assert any("not taken" in line for line in program.lines)
    programs.stop()


@by_kind
def test_a_refused_certificate_is_no_loss(certificates):
    """Revoked before the new one is there: a holder asks again until the files
    are right."""
    one, programs = certificates, certificates.programs
    [user] = one.users.values()
    spare = os.path.join(one.folder, "spare")
    shutil.copytree(user, spare)
    tool("cert", "renew", spare, folder=one.folder)
    one.revoke(user)
    time.sleep(2.5)
    programs.check()
    for name in ("client.crt", "client.key"):
        write(os.path.join(user, name), read(spare, name))
    programs.go_on(5)
    programs.stop()
