#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs a command on a disk that stalls now and then, as a shared one does: the
flushes of all processes below it wait at once (slow_disk.c). Tests that bring a
disk of their own have that one.

    tests/cluster/disk_stalls.py [--for S] [--every S] [--seed N] COMMAND...
"""

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time

from slow_disk import SlowDisk

CALLS = ("flush -1", "unlinkat -1", "renameat -1")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--for", dest="length", type=float, default=2.5,
                        help="a stall's longest duration in seconds (2.5)")
    parser.add_argument("--every", type=float, default=8.0,
                        help="seconds from one to the next, on average (8)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("command", nargs=argparse.REMAINDER)
    told = parser.parse_args()
    draw = random.Random(told.seed)
    with tempfile.TemporaryDirectory(prefix="hasp-stalls-") as folder:
        disk = SlowDisk(folder)
        run = subprocess.Popen(
            told.command, env={**os.environ, **disk.environment}
        )
        count = 0
        while run.poll() is None:
            time.sleep(draw.uniform(0.5, 1.5) * told.every)
            disk.tell(*CALLS)
            time.sleep(draw.uniform(0.4, 1.0) * told.length)
            disk.tell()
            count += 1
        print("%d stalls; calls that waited: %d" % (count, disk.obeyed()))
    return run.returncode


if __name__ == "__main__":
    sys.exit(main())
