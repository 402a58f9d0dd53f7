# SPDX-License-Identifier: MIT
"""Each test ends, whatever it waits for; and its programs can be interrupted.

A conftest.py takes the fixture from here: bounded = bounded_to(SECONDS).
"""

import signal

import pytest

# A process that a shell starts in the background ignores it, and so would all
# processes started here.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def bounded_to(seconds):
    @pytest.fixture(autouse=True)
    def bounded():
        def give_up(number, frame):
            raise AssertionError("the test took longer than %d s" % seconds)

        before = signal.signal(signal.SIGALRM, give_up)
        signal.alarm(seconds)
        yield
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)

    return bounded
