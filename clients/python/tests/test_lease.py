# SPDX-License-Identifier: MIT
"""The pure parts of the Python client: the clock rules, and what a node may
send that is no RESP."""

import os
import sys

import pytest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                '..'))

from hasp.lease import Clock, Lease, State  # noqa: E402
from hasp.resp import Incomplete, Parser  # noqa: E402


def at(seconds, boottime=None):
    return Clock(seconds, seconds if boottime is None else boottime)


def test_a_lease_is_held_then_in_jeopardy_then_lost():
    lease = Lease()
    assert lease.remaining(at(0)) == 0
    lease.answered(at(1), 1.0, 0.5)
    assert lease.state(at(1.39)) is State.HELD
    assert lease.remaining(at(1.3)) == pytest.approx(0.1)
    assert lease.state(at(1.41)) is State.JEOPARDY
    assert lease.remaining(at(1.41)) == 0
    lease.answered(at(1.3), 1.0, 0.5)
    assert lease.state(at(1.41)) is State.HELD
    assert lease.state(at(2.11)) is State.LOST


def test_the_sleep_of_a_suspended_machine_counts():
    lease = Lease()
    lease.answered(at(1), 1.0, 0.0)
    assert lease.state(at(1.1, 1.79)) is State.HELD
    assert lease.state(at(1.1, 1.81)) is State.LOST


def test_an_older_answer_changes_nothing():
    lease = Lease()
    lease.answered(at(2), 1.0, 0.0)
    lease.answered(at(1), 60.0, 0.0)
    assert lease.state(at(2.81)) is State.LOST


def test_nothing_leaves_lost():
    seen, unseen, refused = Lease(), Lease(), Lease()
    for lease in seen, unseen, refused:
        lease.answered(at(1), 1.0, 0.0)
    assert seen.state(at(1.9)) is State.LOST
    refused.refuse()
    for lease in seen, unseen, refused:
        lease.answered(at(1.95), 1.0, 0.0)
        assert lease.state(at(1.95)) is State.LOST


@pytest.mark.parametrize('data', [b'HTTP/1.1 400\r\n', b':one\r\n', b'*x\r\n',
                                  b'+\xff\r\n'])
def test_what_is_no_resp_fails_the_connection(data):
    parser = Parser()
    parser.feed(data[:-1])
    with pytest.raises(Incomplete):
        parser.next()
    parser.feed(data[-1:])
    with pytest.raises(OSError, match='no RESP'):
        parser.next()
