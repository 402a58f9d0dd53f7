# SPDX-License-Identifier: MIT
"""Each test ends, whatever it waits for; and its programs can be interrupted.

A conftest.py takes the fixture, bounded = bounded_to(SECONDS), and the three
hooks from here.
"""

import signal

import pytest

# A process that a shell starts in the background ignores it, and so would all
# processes started here.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# True while pytest takes an exception for the test's own. One that is raised
# while it writes a report ends the run.
inside = False


def enter():
    global inside
    inside = True
    yield
    inside = False


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_setup():
    yield from enter()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call():
    yield from enter()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_teardown():
    yield from enter()


def bounded_to(seconds):
    @pytest.fixture(autouse=True)
    def bounded():
        def give_up(number, frame):
            if not inside:
                signal.alarm(1)
                return
            raise AssertionError("the test took longer than %d s" % seconds)

        before = signal.signal(signal.SIGALRM, give_up)
        signal.alarm(seconds)
        yield
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)

    return bounded
