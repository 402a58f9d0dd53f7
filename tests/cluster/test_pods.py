# SPDX-License-Identifier: MIT
"""hasp as a StatefulSet runs it, under load: see pods.py. That no client sees an
error is asserted; for how long one waited is printed (`-s`)."""

import os
import signal
import time

import pytest

import nemesis_net
import pods
from bounded import bounded_to
from pods import Pods, say
from test_kubelet_secrets import Issuer, Volume, write_user
from tls_cluster import as_user

bounded = bounded_to(400)  # With a minute without names, too.

WHY_NOT = nemesis_net.why_not() or pods.why_not()
needs_hosts = pytest.mark.skipif(WHY_NOT is not None, reason=str(WHY_NOT))
# How long the name server is silent; a minute has PODS_SILENT_S=60.
SILENT_S = float(os.environ.get("PODS_SILENT_S", "8"))


def terms(group):
    """{pod: its term}"""
    found = {}
    for pod in group.pods.values():
        answer = pod.get("/metrics")
        assert answer is not None, pod.name
        found[pod.name] = [line.split()[1] for line in answer[1].splitlines()
                           if line.startswith("hasp_raft_term ")][0]
    return found


@needs_hosts
def test_pods_come_go_and_move_under_load():
    with Pods() as group:
        began = time.monotonic()
        group.start((1, 2, 3))
        group.wait_ready()
        say("three pods made at once: ready after %.1f s"
            % (time.monotonic() - began))
        group.begin_load()
        with group.phase("a pod deleted"):
            for ordinal in (1, 2, 3):
                ended, ready = group.replace(ordinal)
                say("hasp-%d: ended in %.2f s, at its new address ready after "
                    "%.2f s" % (ordinal, ended, ready))
                group.wait_ready()
        with group.phase("a pod killed"):
            _, ready = group.replace(1, signal.SIGKILL)
            say("hasp-1, killed: ready after %.2f s" % ready)
        with group.phase("a rolling update"):
            for ended, ready in group.roll():
                say("ended in %.2f s, ready after %.2f s" % (ended, ready))
        with group.phase("a drain by the budget"):
            drain(group)
        with group.phase("3 to 5"):
            grow(group)
        with group.phase("a rolling update of five"):
            group.roll()
        with group.phase("5 to 3"):
            shrink(group)
        # By the name of the Service, and by none that nobody has written.
        pod = group.pods[1]
        assert pod.get("/v1/status", host="hasp-clients:7422")[0] == 200
        assert pod.get("/v1/status", host="elsewhere:7422")[0] != 200
        found = group.end_load()
        assert found["errors"] == []
        assert found["cycles"] > 1000


class Tls:
    """The certificates that cert-manager would make for three pods and
    admin."""

    def __init__(self, folder):
        os.mkdir(folder)
        self.folder = os.path.join(folder, "mounted")
        self.name = pods.variables()["HASP_CLUSTER_NAME"]
        self.issuer = Issuer(os.path.join(folder, "issuer"), self.name)
        self.volume = Volume(self.folder)
        self.renew()
        self.user = os.path.join(folder, "user-admin")
        write_user(self.user, self.issuer.secret(
            "hasp://%s/user/admin" % self.name))
        self.context = as_user(folder, "admin")

    def renew(self):
        self.volume.swap({
            "hasp-%d" % number: self.issuer.secret(
                "hasp://%s/node/%d" % (self.name, number),
                ("hasp-%d.hasp" % number, "hasp-clients", "localhost"))
            for number in (1, 2, 3)})


@needs_hosts
def test_pods_move_with_tls_and_users():
    """By the overlay's variables: access is required, and admin uses the
    certificate of its Secret."""
    with Pods(Tls) as group:
        group.start((1, 2, 3))
        group.wait_ready()
        group.begin_load()
        with group.phase("TLS: a pod deleted"):
            group.replace(2)
        with group.phase("TLS: a rolling update, and new certificates"):
            group.tls.renew()
            group.roll()
        assert group.end_load()["errors"] == []
        done = group.tool("-o", "plain", "status")
        assert len(done.splitlines()) >= 3, done
        assert group.pods[1].get("/metrics")[0] == 200
        found = group.pods[1].get("/v1/status", host="hasp-clients:7422")
        assert found[0] == 401, found


def drain(group):
    """A machine with two of the pods is emptied: the second goes when the first
    is ready elsewhere."""
    group.wait_ready()
    assert group.evict(2)
    assert not group.evict(3), "the budget is one"
    group.pods[2].make()
    tries = 0
    while not group.evict(3):
        tries += 1
        assert tries < 600
        time.sleep(0.1)
    group.pods[3].make()
    group.wait_ready()


def grow(group):
    group.start((4, 5))
    for ordinal in (4, 5):
        group.tool("member", "add", str(ordinal), "hasp-%d.hasp:7421,"
                   "hasp-%d.hasp:7420" % (ordinal, ordinal))
    group.wait_ready()
    assert len(group.tool("-o", "plain", "member", "list").splitlines()) >= 5


def shrink(group):
    if any(group.pods[ordinal].leads() for ordinal in (4, 5)):
        group.tool("member", "transfer", "1")
    for ordinal in (5, 4):
        group.tool("member", "remove", str(ordinal))
        # It has learnt that it is not a member, and ends by itself or now.
        group.pods[ordinal].end(signal.SIGKILL)
        del group.pods[ordinal]
    group.wait_ready()


@needs_hosts
def test_a_silent_name_server_costs_nothing():
    """Connections stay, no election happens; a process that restarts in its
    place is found; a pod that moves meanwhile is back once its name resolves.
    The clients have addresses: with names they would find no other node when
    theirs starts again (docs/operations.md)."""
    with Pods() as group:
        group.start((1, 2, 3))
        group.wait_ready()
        # So the pod that restarts has to dial the leader, and cannot resolve
        # its name.
        group.tool("member", "transfer", "1", check=False)
        group.wait_ready()
        assert group.pods[1].leads()
        group.use_addresses()
        group.begin_load()
        before = terms(group)
        group.names.process.send_signal(signal.SIGSTOP)
        with group.phase("no names for %.0f s" % SILENT_S):
            time.sleep(SILENT_S)
        assert terms(group) == before
        with group.phase("no names, a container starts again"):
            pod = group.pods[2]
            pod.restart()
            began = time.monotonic()
            pod.wait_ready()
            say("at its old address, without names: ready after %.2f s"
                % (time.monotonic() - began))
        with group.phase("no names, a pod moves"):
            began = time.monotonic()
            ended = pod.end()
            assert ended < 5, ended
            say("without names it ended in %.2f s" % ended)
            pod.make()
            time.sleep(3)
        with group.phase("names again"):
            group.names.process.send_signal(signal.SIGCONT)
            began = time.monotonic()
            pod.wait_ready()
            say("names are back: ready after %.2f s"
                % (time.monotonic() - began))
        assert group.end_load()["errors"] == []
