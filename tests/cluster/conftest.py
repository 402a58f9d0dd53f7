# SPDX-License-Identifier: MIT
"""Bounds each test in time, whatever it waits for."""

import signal

import pytest

LIMIT_S = 120


@pytest.fixture(autouse=True)
def bounded():
    def give_up(number, frame):
        raise AssertionError("the test took longer than %d s" % LIMIT_S)

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(LIMIT_S)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)
