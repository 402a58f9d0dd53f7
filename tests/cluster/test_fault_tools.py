# SPDX-License-Identifier: MIT
"""The libraries that are preloaded do what the tests that use them rely on."""

import os
import signal
import subprocess
import sys

import pytest

from cluster import is_sanitized
from nemesis_nodes import CUT_POWER, library

pytestmark = pytest.mark.skipif(
    is_sanitized(), reason="a sanitizer wants to be the first library"
)


def start(program, name, **environment):
    return subprocess.Popen(
        [sys.executable, "-c", program],
        env=dict(os.environ, LD_PRELOAD=library(name), **environment),
        stdout=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("rate", [0.5, 2.0])
def test_a_clock_has_the_rate_that_is_told(rate):
    program = """
import select, time
began, wall = time.monotonic(), time.time()
select.epoll().poll(0.4)
print((time.monotonic() - began) / (time.time() - wall), time.time() - wall)
"""
    process = start(program, "odd_clock", ODD_CLOCK=str(rate))
    shown, waited = map(float, process.communicate(timeout=20)[0].split())
    assert abs(shown / rate - 1) < 0.05
    assert waited > 0.35 / rate


WRITER = """
import os, sys, time
folder = os.environ["POWER_DISK"]
fd = os.open(folder + "/flushed", os.O_RDWR | os.O_CREAT)
os.pwrite(fd, b"old-old-", 0)
os.fsync(fd)
os.pwritev(fd, [b"new"], 4, os.RWF_DSYNC)
os.pwrite(fd, b"lost and longer", 6)
other = os.open(folder + "/unflushed", os.O_RDWR | os.O_CREAT)
os.pwrite(other, b"gone", 0)
print("written", flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize("lies", [False, True])
def test_a_disk_without_power_has_forgotten_what_was_not_flushed(
    tmp_path, lies
):
    environment = {"POWER_DISK": str(tmp_path)}
    if lies:
        environment["POWER_DISK_LIES"] = "yes"
    process = start(WRITER, "power_disk", **environment)
    assert process.stdout.readline() == "written\n"
    assert (tmp_path / "unflushed").read_bytes() == b"gone"
    process.send_signal(CUT_POWER)
    assert process.wait(20) == -signal.SIGKILL
    process.stdout.close()
    expected = b"" if lies else b"old-new-"
    assert (tmp_path / "flushed").read_bytes() == expected
    assert (tmp_path / "unflushed").read_bytes() == b""
    forgotten = tmp_path.with_name(tmp_path.name + ".forgotten").read_text()
    assert forgotten == ("4\n" if lies else "2\n")
