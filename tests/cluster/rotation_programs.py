# SPDX-License-Identifier: MIT
"""Programs in five languages, and a job of `hasp run`, that hold locks while
their credentials and CAs are exchanged. The output of each is read as it
comes."""

import collections
import glob
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading

from cluster import ROOT, wait_until
from tls_cluster import HASP

HERE = os.path.join(ROOT, "tests", "cluster", "rotation_clients")
BUILD = os.path.abspath(os.environ.get(
    "HASP_BUILD", os.path.join(ROOT, "build", "release")))
JOB = 'while sleep 0.1; do echo "CYCLE 0 $HASP_SESSION"; done'


def _python(_):
    return [sys.executable, os.path.join(HERE, "worker.py")], {
        "PYTHONPATH": os.path.join(ROOT, "clients", "python")}


def _node(_):
    return ["node", os.path.join(HERE, "worker.js"),
            os.path.join(ROOT, "clients", "node")], {}


def _go(folder):
    shutil.copy(os.path.join(HERE, "main.go"), folder)
    with open(os.path.join(folder, "go.mod"), "w") as file:
        file.write("module worker\ngo 1.19\nrequire hasp v0.0.0\n"
                   "replace hasp => %s\n" % os.path.join(ROOT, "clients", "go"))
    subprocess.run(["go", "build", "-o", "worker", "."], cwd=folder, check=True,
                   env=dict(os.environ, GOFLAGS="-mod=mod", GOPROXY="off"),
                   capture_output=True, timeout=300)
    return [os.path.join(folder, "worker")], {}


def _java(folder):
    sources = glob.glob(os.path.join(ROOT, "clients/java/src/main/java/hasp/*.java"))
    subprocess.run(["javac", "-d", folder, os.path.join(HERE, "Worker.java"),
                    *sources], check=True, capture_output=True, timeout=300)
    return ["java", "-XX:TieredStopAtLevel=1", "-cp", folder, "Worker"], {}


def _c(folder):
    program = os.path.join(folder, "worker")
    subprocess.run(["gcc", "-std=gnu11", "-Wall", "-o", program, "-I",
                    os.path.join(ROOT, "include"), os.path.join(HERE, "worker.c"),
                    "-L", BUILD, "-lhasp", "-lpthread", "-Wl,-rpath," + BUILD],
                   check=True, timeout=120)
    return [program], {}


def _run(_):
    return [HASP, "run", "--ttl", "10s", "app/job", "--", "sh", "-c", JOB], {}


MADE = {"c": _c, "go": _go, "java": _java, "node": _node, "python": _python,
        "run": _run}
NEEDED = {"go": "go", "java": "javac", "node": "node"}
# Those that are here.
KINDS = [kind for kind in MADE if shutil.which(NEEDED.get(kind, "sh"))]


class Doors:
    """A port for each node, with connections that can be cut at will."""

    def __init__(self, nodes):
        self.open, self.lock = [], threading.Lock()
        self.listeners = []
        for node in nodes:
            listener = socket.create_server(("127.0.0.1", 0))
            self.listeners.append(listener)
            threading.Thread(target=self._serve, daemon=True,
                             args=(listener, node.client_port)).start()

    @property
    def endpoints(self):
        return ",".join("127.0.0.1:%d" % one.getsockname()[1]
                        for one in self.listeners)

    def _serve(self, listener, port):
        while True:
            try:
                client = listener.accept()[0]
            except OSError:
                return
            try:
                node = socket.create_connection(("127.0.0.1", port), 5)
            except OSError:
                client.close()
                continue
            node.settimeout(None)
            with self.lock:
                self.open.append((client, node))
            for way in ((client, node), (node, client)):
                threading.Thread(target=self._carry, args=way,
                                 daemon=True).start()

    @staticmethod
    def _carry(source, target):
        try:
            while True:
                data = source.recv(1 << 16)
                if not data:
                    break
                target.sendall(data)
        except OSError:
            pass
        for one in (source, target):
            try:
                one.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def cut(self):
        """All that are open now."""
        with self.lock:
            cut, self.open = self.open, []
        for pair in cut:
            for one in pair:
                try:
                    one.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass
                one.close()

    def close(self):
        for one in self.listeners:
            try:
                one.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            one.close()
        self.cut()


class Program:
    """'kind' is a key of MADE; 'env' says where and as whom it works."""

    def __init__(self, kind, folder, env):
        self.kind = kind
        os.makedirs(folder)
        words, extra = MADE[kind](str(folder))
        clean = {k: v for k, v in os.environ.items()
                 if not k.startswith("HASP_")}
        self.cycles = collections.Counter()
        self.sessions = {}
        self.wrong, self.notices, self.lines = [], [], []
        self.process = subprocess.Popen(
            words, env=dict(clean, **extra, **env), stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        for line in self.process.stdout:
            self.lines.append(line.rstrip())
            words = line.split(" ", 2)
            if words[0] == "CYCLE":
                session = words[2].strip()
                if self.sessions.setdefault(words[1], session) != session:
                    self.wrong.append("another session: " + line)
                self.cycles[words[1]] += 1
            elif words[0] == "ERROR" or words[:2] == ["EVENT", "lost"]:
                self.wrong.append(line)
            elif words[:2] == ["EVENT", "notice"]:
                self.notices.append(words[2].strip())

    def is_well(self):
        return not self.wrong and self.process.poll() is None

    def has_begun(self):
        """Each of its sessions holds what it keeps."""
        return len(self.cycles) == (1 if self.kind == "run" else 2)

    def stop(self):
        """Ends it, and returns whether it has ended as it should."""
        if self.kind == "run":
            self.process.send_signal(signal.SIGTERM)
        else:
            self.process.stdin.close()
        self.process.wait(60)
        self.reader.join(60)
        return self.process.returncode

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(30)


class Programs:
    """All of them at once, each with a folder below 'folder'."""

    def __init__(self, folder, kinds, env):
        """env(kind): as Program's."""
        self.all = []
        try:
            for kind in kinds:
                self.all.append(Program(kind, folder / kind, env(kind)))
            wait_until(lambda: all(p.has_begun() or not p.is_well()
                                   for p in self.all), 120, "locks")
            self.check()
        except BaseException:
            self.kill()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()

    def check(self):
        ill = [p for p in self.all if not p.is_well()]
        assert not ill, "".join("%s: %s\n  %s\n" % (
            p.kind, p.wrong, "\n  ".join(p.lines[-30:])) for p in ill)

    def go_on(self, cycles=2):
        """Each session of each of them gets something done."""
        before = {p: dict(p.cycles) for p in self.all}
        wait_until(lambda: all(
            not p.is_well() or all(p.cycles[n] >= count + cycles
                                   for n, count in before[p].items())
            for p in self.all), 60, "work")
        self.check()

    def stop(self):
        """They end by themselves, without an error."""
        self.check()
        ended = {p.kind: p.stop() for p in self.all}
        assert [(p.kind, p.wrong) for p in self.all if p.wrong] == []
        assert all(code in (0, 143, -signal.SIGTERM)
                   for code in ended.values()), ended

    def kill(self):
        for program in self.all:
            program.kill()
