# SPDX-License-Identifier: MIT
"""Free ports on loopback, for tests that run beside each other.

Each process claims its own range, for as long as it lives, by a name that
only one socket can have; within it the ports rotate, so that one that was
returned rests before it is reused. All are below the kernel's
ephemeral ports, which can be in use without a
listener.
"""

import os
import socket

FIRST, RANGE_SIZE, RANGE_COUNT = 12000, 500, 40


def _claim():
    for turn in range(RANGE_COUNT):
        number = (os.getpid() + turn) % RANGE_COUNT
        holder = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            holder.bind("\0hasp-test-ports-%d" % number)
            return holder, FIRST + number * RANGE_SIZE
        except OSError:
            holder.close()
    raise RuntimeError("all %d ranges of ports are in use" % RANGE_COUNT)


class _Ports:
    holder = None
    base = 0
    next = 0


def _is_free(port):
    with socket.socket() as probe:
        # As the daemon does: ports in TIME_WAIT can be reused.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
            return True
        except OSError:
            return False


def free_base(offsets, step=1):
    """A port P such that P + offset is free for each of the offsets."""
    if _Ports.holder is None:
        _Ports.holder, _Ports.base = _claim()
    width = max(offsets) + 1
    for _ in range(RANGE_SIZE):
        if _Ports.next + width > RANGE_SIZE:
            _Ports.next = 0
        base = _Ports.base + _Ports.next
        if all(_is_free(base + offset) for offset in offsets):
            _Ports.next += width
            return base
        _Ports.next += step
    raise RuntimeError("no free ports from %d on" % _Ports.base)


def free_ports(count):
    """This many free ports, all different."""
    return [free_base((0,)) for _ in range(count)]
