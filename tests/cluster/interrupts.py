#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""The test of a client that interrupts its calls anywhere, against a cluster of
its own:

    tests/cluster/interrupts.py go|java|node

Exits with 1 if something was left behind. tools/mutants.py runs it on clients
into which a mistake was planted; one that does not compile is none, so that
exits with 0. Its programs are those of build/check, unless $HASPD and $HASP say
others; $HASP_INTERRUPTS is how many cycles each thread makes (40)."""

import os
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
for variable, name in ("HASPD", "haspd"), ("HASP", "hasp"):
    os.environ.setdefault(variable, os.path.join(ROOT, "build", "check", name))
os.environ.setdefault("HASP_INTERRUPTS", "40")

from cluster import Cluster  # noqa: E402
from ports import free_base  # noqa: E402

CLIENTS = os.path.join(ROOT, "clients")
BOUND_S = 240


def compiled(*words, folder=None):
    if subprocess.run(words, cwd=folder, check=False).returncode != 0:
        print("it does not compile")
        sys.exit(0)


def passes(*words, folder=None, **environment):
    try:
        return subprocess.run(
            words, cwd=folder, check=False, timeout=BOUND_S,
            env=dict(os.environ, **environment)).returncode == 0
    except subprocess.TimeoutExpired:
        return False


def go(here):
    program = os.path.join(here, "hasp.test")
    folder = os.path.join(CLIENTS, "go")
    compiled("go", "test", "-c", "-o", program, ".", folder=folder)
    return passes(
        program, "-test.run=InterruptedAnywhere", "-test.timeout=200s",
        folder=folder, HASP_TEST_PORT=str(free_base((0, 1, 10, 11, 20, 21))))


def with_cluster(*words):
    with Cluster(3) as cluster:
        cluster.leader()
        return passes(*words, HASP_ENDPOINTS=",".join(
            "127.0.0.1:%d" % node.client_port for node in cluster.nodes))


def java(here):
    compiled("javac", "-nowarn", "-d", here, *(
        os.path.join(folder, name)
        for folder, _, names in os.walk(os.path.join(CLIENTS, "java", "src"))
        for name in names if name.endswith(".java")))
    return with_cluster("java", "-ea", "-XX:TieredStopAtLevel=1",
                        "-XX:+UseSerialGC", "-cp", here, "hasp.InterruptTests")


def node(_):
    return with_cluster("node", os.path.join(CLIENTS, "node", "test",
                                             "interrupts.js"))


def main():
    here = tempfile.mkdtemp(prefix="hasp-")
    try:
        language = {"go": go, "java": java, "node": node}[sys.argv[1]]
        sys.exit(0 if language(here) else 1)
    finally:
        shutil.rmtree(here)


if __name__ == "__main__":
    main()
