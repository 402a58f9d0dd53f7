# SPDX-License-Identifier: MIT
"""A StatefulSet without Kubernetes: pods are hosts in network namespaces
(nemesis_net.py), a script plays the controller, and dnsmasq the cluster's name
server.

A pod has a name for ever and a new address each time that it is made; its
volume goes with the name. As the name server of a cluster does with
publishNotReadyAddresses, dnsmasq knows it from when it has an address until it
is gone. haspd runs with --container and the variables of
packaging/kubernetes/base/configmap.yaml."""

import contextlib
import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

from cluster import HASPD, ROOT, wait_until
from nemesis_net import HUB_ADDRESS, Network, ip

HASP = os.path.abspath(os.environ.get(
    "HASP", os.path.join(ROOT, "build", "release", "hasp")))
DOMAIN = "default.svc.cluster.local"
GRACE_S = 30
# As in base/statefulset.yaml, or less, for a quick run.
MIN_READY_S = float(os.environ.get("PODS_MIN_READY_S", "1"))
# As base/statefulset.yaml says.
RESOLV = ("nameserver %s\nsearch %s\noptions ndots:5 timeout:1 attempts:2\n"
          % (HUB_ADDRESS, DOMAIN))


def say(text):
    print("%s  %s" % (time.strftime("%H:%M:%S"), text), flush=True)


def why_not():
    if shutil.which("dnsmasq") is None:
        return "'dnsmasq' is not installed"
    return None


def variables(*overlays):
    """Those of the ConfigMap of the base, and of overlays."""
    found = {}
    for folder in ("base", *(os.path.join("overlays", o) for o in overlays)):
        path = os.path.join(ROOT, "packaging", "kubernetes", folder,
                            "configmap.yaml")
        with open(path) as file:
            text = re.sub(r",\\\n\s*", ",", file.read())
        found.update(re.findall(r'^  (HASP_\w+): "?(.*?)"?$', text, re.M))
    return found


class Names:
    """The name server, on the hub."""

    def __init__(self, network, folder):
        self.network, self.path = network, os.path.join(folder, "hosts")
        self.of = {}
        self.write()
        self.process = subprocess.Popen(
            ["ip", "netns", "exec", network.hub, "setpriv", "--pdeathsig",
             "KILL", "dnsmasq", "--keep-in-foreground", "--conf-file=/dev/null",
             "--no-resolv", "--no-hosts", "--addn-hosts=" + self.path,
             "--local=/cluster.local/", "--listen-address=" + HUB_ADDRESS,
             "--bind-interfaces", "--user=root", "--group=root",
             "--pid-file=", "--cache-size=0",
             # A syslog that is not read would stop it.
             "--log-facility=" + os.path.join(folder, "names.log")],
            stdin=subprocess.DEVNULL)

    def write(self):
        with open(self.path + ".new", "w") as file:
            for name, address in self.of.items():
                file.write("%s %s.hasp.%s\n" % (address, name, DOMAIN))
        os.rename(self.path + ".new", self.path)

    def set(self, name, address):
        self.of[name] = address
        if address is None:
            del self.of[name]
        self.write()
        self.process.send_signal(signal.SIGHUP)

    def close(self):
        self.process.send_signal(signal.SIGCONT)
        self.process.kill()
        self.process.wait(10)


class Pod:
    def __init__(self, pods, ordinal):
        self.pods, self.ordinal = pods, ordinal
        self.name = "hasp-%d" % ordinal
        self.volume = os.path.join(pods.folder, self.name)
        self.host = self.process = self.log = None
        os.makedirs(self.volume, exist_ok=True)

    def make(self):
        """It gets an address, a name, and runs."""
        network = self.pods.network
        self.host = "p%d" % (len(network.addresses) + 1)
        network.add(self.host)
        self.pods.names.set(self.name, network.addresses[self.host])
        return self.run()

    def run(self):
        with open(os.path.join(self.volume, "log"), "ab") as log:
            self.process = subprocess.Popen(
                self.pods.inside(self.host, self.name)
                + [HASPD, "--container"],
                env={**self.pods.variables, "PATH": os.environ["PATH"],
                     **self.pods.of_tls(self.name),
                     "HASP_NODE_DIR": os.path.join(self.volume, "data"),
                     "HASP_SECURITY_CORE_DUMPS": "yes"},
                stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        return self

    def restart(self):
        """The container alone: the pod keeps its address."""
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(GRACE_S) == 0
        self.run()

    def end(self, number=signal.SIGTERM):
        """As kubelet ends it: the process, then its address and name."""
        began = time.monotonic()
        self.process.send_signal(number)
        status = self.process.wait(GRACE_S)
        took = time.monotonic() - began
        assert number != signal.SIGTERM or status == 0, status
        self.pods.names.set(self.name, None)
        network = self.pods.network
        ip("netns", "del", network.namespace(self.host))
        self.process = None
        return took

    def get(self, path, host=None):
        """(status, body), or None if nobody answers."""
        address = self.pods.network.addresses[self.host]
        try:
            with self.pods.network.inside_hub():
                raw = socket.create_connection((address, 7422), 1)
            raw.settimeout(1)
            if self.pods.tls is not None:
                raw = self.pods.tls.context.wrap_socket(raw)
            connection = http.client.HTTPConnection(address, 7422)
            connection.sock = raw
            with contextlib.closing(connection):
                connection.request(
                    "GET", path, headers={} if host is None else {"Host": host})
                answer = connection.getresponse()
                return answer.status, answer.read().decode()
        except (OSError, http.client.HTTPException):
            return None

    def is_ready(self):
        answer = self.get("/readyz")
        return answer is not None and answer[0] == 200

    def leads(self):
        answer = self.get("/readyz")
        return answer is not None and answer[1].startswith("ok, leader")

    def wait_ready(self):
        wait_until(self.is_ready, 60, "%s is ready" % self.name)

    def tail(self):
        with open(os.path.join(self.volume, "log"), errors="replace") as file:
            return "".join(file.readlines()[-40:])


class Pods:
    """The set, its controller, and a load from a pod of its own."""

    def __init__(self, issue=None):
        """'issue' makes the Tls of such a cluster in a folder; None: plain."""
        self.folder = tempfile.mkdtemp(prefix="hasp-pods-")
        self.tls = issue and issue(os.path.join(self.folder, "tls"))
        self.variables = variables(*(["tls-cert-manager"] if issue else []))
        self.network = Network()
        self.names = Names(self.network, self.folder)
        self.pods, self.load, self.marks = {}, None, []
        self.resolv = os.path.join(self.folder, "resolv.conf")
        with open(self.resolv, "w") as file:
            file.write(RESOLV)
        self.network.add("client")
        self.endpoints = ",".join("hasp-%d.hasp:7420" % n for n in (1, 2, 3))

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if kind is not None:
            for pod in self.pods.values():
                print("--- %s\n%s" % (pod.name, pod.tail()))
        for process in [self.load] + [p.process for p in self.pods.values()]:
            if process is not None:
                process.kill()
                process.wait(10)
        self.names.close()
        self.network.close()
        shutil.rmtree(self.folder)

    def inside(self, host, name):
        """Runs a program in a pod; it does not outlive this process."""
        return ["ip", "netns", "exec", self.network.namespace(host),
                "unshare", "--mount", "--uts", "--propagation", "private",
                "sh", "-c", 'hostname "$0" && mount --bind "$1" '
                '/etc/resolv.conf && shift && exec setpriv --pdeathsig KILL '
                '"$@"', name, self.resolv]

    def of_tls(self, name):
        """As overlays/tls-cert-manager/statefulset.yaml has them."""
        if self.tls is None:
            return {}
        folder = os.path.join(self.tls.folder, name)
        return {"HASP_TLS_CA": folder + "/ca.crt",
                "HASP_TLS_CERT": folder + "/tls.crt",
                "HASP_TLS_KEY": folder + "/tls.key"}

    def use_addresses(self):
        """From here on clients are given today's addresses, and no names."""
        self.endpoints = ",".join(
            self.network.addresses[pod.host] + ":7420"
            for pod in self.pods.values())

    def of_clients(self):
        found = {"PATH": os.environ["PATH"], "HASP_ENDPOINTS": self.endpoints}
        if self.tls is not None:
            found["HASP_TLS"] = self.tls.user
        return found

    # --- The controller -------------------------------------------------------

    def start(self, ordinals):
        """podManagementPolicy: Parallel."""
        for ordinal in ordinals:
            self.pods[ordinal] = Pod(self, ordinal)
            self.pods[ordinal].make()

    def wait_ready(self):
        for pod in self.pods.values():
            pod.wait_ready()

    def replace(self, ordinal, number=signal.SIGTERM):
        """Deletes a pod and makes it again: the same name and volume, another
        address. (for how long it ended, from its start until it is ready)"""
        pod = self.pods[ordinal]
        ended = pod.end(number)
        time.sleep(0.2)
        began = time.monotonic()
        pod.make()
        pod.wait_ready()
        return ended, time.monotonic() - began

    def roll(self):
        """A rolling update: from the highest ordinal on, each when all others
        have been ready for minReadySeconds."""
        took = []
        for ordinal in sorted(self.pods, reverse=True):
            self.wait_ready()
            took.append(self.replace(ordinal))
            time.sleep(MIN_READY_S)
        return took

    def evict(self, ordinal):
        """False if the budget, maxUnavailable 1, does not allow it."""
        if not all(pod.process is not None and pod.is_ready()
                   for pod in self.pods.values()):
            return False
        self.pods[ordinal].end()
        return True

    def tool(self, *words, check=True):
        done = subprocess.run(
            self.inside("client", "client") + [HASP, *words], text=True,
            env=self.of_clients(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, timeout=60, check=False)
        assert not check or done.returncode == 0, done.stdout
        return done.stdout

    # --- The load -------------------------------------------------------------

    def begin_load(self):
        program = os.path.join(os.path.dirname(os.path.abspath(__file__)),
                               "steady_load.py")
        self.load = subprocess.Popen(
            self.inside("client", "client")
            + [sys.executable, program, "4"],
            env=self.of_clients(), stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, text=True)
        assert self.load.stdout.readline() == "ready\n"
        time.sleep(1)

    @contextlib.contextmanager
    def phase(self, name):
        """Events of that time have this name in the result."""
        began = time.monotonic()
        yield
        time.sleep(1)
        self.marks.append((name, began, time.monotonic()))
        assert self.load.poll() is None, "the load has ended"

    def end_load(self):
        """The clients' results, and a line for each phase."""
        load, self.load = self.load, None
        try:
            found = json.loads(load.communicate("", timeout=60)[0])
        except BaseException:
            load.kill()
            load.wait(10)
            raise
        for name, began, ended in self.marks:
            gaps = [length for at, length in found["gaps"]
                    if at + length > began and at < ended]
            say("%-40s longest gap %s" % (
                name, "%.0f ms" % (1000 * max(gaps)) if gaps
                else "below 100 ms"))
        say("%d cycles of acquire and release, %d errors" % (
            found["cycles"], len(found["errors"])))
        return found
