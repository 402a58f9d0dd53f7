# SPDX-License-Identifier: MIT
"""The compiler's protections against mistakes are in the programs, and no core
file has a node's secrets."""

import os
import platform
import re
import signal
import subprocess

import pytest

from cluster import HASPD, ROOT, Cluster, is_sanitized

BUILD = os.path.dirname(os.path.abspath(HASPD))
BUILT = [
    os.path.join(BUILD, name) for name in ("haspd", "hasp", "libhasp.so")
]
FLAVOUR = os.path.basename(BUILD)


def output(*words):
    return subprocess.run(
        words, check=True, capture_output=True, text=True, cwd=ROOT
    ).stdout


@pytest.fixture(name="flags", scope="module")
def flags_():
    if FLAVOUR not in ("release", "check"):
        pytest.skip("a build with a sanitizer or coverage, not for users")
    return output("make", "-s", "FLAVOUR=" + FLAVOUR, "hardening").split()


@pytest.mark.parametrize("program", BUILT, ids=os.path.basename)
def test_programs_are_hardened(program, flags):
    """The trace of each flag in a program, for the flags that this compiler
    has."""
    imported = output("readelf", "--dyn-syms", "--wide", program)
    headers = output("readelf", "--file-header", "--program-headers", "--wide", program)
    dynamic = output("readelf", "--dynamic", "--wide", program)
    code = output("objdump", "-d", "--no-show-raw-insn", program)
    assert "__stack_chk_fail" in imported
    assert re.search(r"Type:\s+DYN", headers), "at addresses that are drawn"
    assert "GNU_RELRO" in headers and "BIND_NOW" in dynamic
    assert re.search(r"GNU_STACK.* RW ", headers), "the stack is not executable"
    assert "TEXTREL" not in dynamic
    if "-D_FORTIFY_SOURCE=3" in flags:
        checked = set(re.findall(r"__(\w+)_chk@", imported))
        assert {"snprintf", "memcpy"} <= checked, checked
    # The note that turns it on is lost if the system's start files lack it, as
    # Debian's do: so the test searches for the landing pads.
    if "-fcf-protection=full" in flags and platform.machine() == "x86_64":
        assert code.count("\tendbr64") > 200
    if "-mbranch-protection=standard" in flags:
        assert code.count("paciasp") > 200 or code.count("\tbti") > 200
    if "-fstack-clash-protection" in flags and platform.machine() == "x86_64":
        large = re.search(r"sub\s+\$0x1000,%rsp\n.*or[ql]\s+\$0x0,", code)
        assert large or program.endswith(".so"), "a frame of more than a page"


def test_the_default_build_has_what_this_compiler_has(flags):
    for flag in ("-fstack-clash-protection", "-fcf-protection=full"):
        done = subprocess.run(
            ["cc", "-Werror", flag, "-x", "c", "-c", "-o", "/dev/null", "-"],
            input="int x;",
            text=True,
            check=False,
        )
        assert (flag in flags) == (done.returncode == 0)


SECRET = "a secret that nobody is to find in a file"


def crash(cluster, extra, folder):
    """Has SECRET in the memory of a node that aborts; whether it dumped."""
    node = cluster.nodes[0]
    node.write_config(extra)
    os.mkdir(folder)
    node.start(
        wrapper=("/bin/sh", "-c", 'ulimit -c unlimited; cd "$0"; exec "$@"', folder)
    )
    cluster.leader()
    with node.connect() as client:
        # Unfinished, so it stays in the connection's buffer.
        client.socket.sendall(b"*2\r\n$4\r\nECHO\r\n$100\r\n" + SECRET.encode())
        with node.connect() as other:
            assert other.do("PING") == "PONG"
        node.signal(signal.SIGABRT)
        _, status = os.waitpid(node.process.pid, 0)
    node.process.returncode = -os.WTERMSIG(status)
    assert node.process.returncode == -signal.SIGABRT
    return os.WCOREDUMP(status)


@pytest.mark.skipif(is_sanitized(), reason="a sanitizer handles the abort")
def test_a_crash_leaves_no_secret_in_a_file(tmp_path):
    with Cluster(1, start=False) as cluster:
        cluster.nodes[0].program = os.path.abspath(HASPD)
        without, with_core = str(tmp_path / "without"), str(tmp_path / "with")
        assert not crash(cluster, "", without)
        assert os.listdir(without) == []
        has_dumped = crash(cluster, "[security]\ncore_dumps = yes\n", with_core)
        with open("/proc/sys/kernel/core_pattern") as file:
            pattern = file.read().strip()
        if pattern != "core":
            return  # Cores of this machine go elsewhere.
        assert has_dumped
        content = b""
        for name in os.listdir(with_core):
            with open(os.path.join(with_core, name), "rb") as file:
                content += file.read()
        assert SECRET.encode() in content, "the test would see it"
