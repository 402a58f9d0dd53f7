# SPDX-License-Identifier: MIT
"""The pure parts of the Python client: the clock rules, and what a node may
send that is no RESP."""

import json
import os
import sys

import pytest

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), *['..'] * 3)
sys.path.insert(0, os.path.join(ROOT, 'clients', 'python'))

from hasp.lease import Clock, Lease, hold_remaining  # noqa: E402
from hasp.resp import Incomplete, Parser  # noqa: E402


with open(os.path.join(ROOT, 'tests', 'vectors', 'lease.json'),
          encoding='utf-8') as file:
    VECTORS = json.load(file)


@pytest.mark.parametrize('case', VECTORS, ids=[v['says'] for v in VECTORS])
def test_the_lease_is_that_of_the_c_client(case):
    """To the nanosecond: the vectors are made by tests/unit/test_lease_vectors,
    which has what the steps mean."""
    lease = Lease()
    for step, *args in case['steps']:
        clocks = [Clock(*args[i:i + 2]) for i in (0, 3) if len(args) > i + 1]
        if step == 'answered':
            lease.answered(clocks[0], *args[2:])
        elif step == 'refused':
            lease.refuse()
        elif step == 'period':
            assert lease.period() == args[0]
        elif step == 'hold':
            assert hold_remaining(clocks[0], args[2], clocks[1]) == args[5]
        else:
            assert step == 'check'
            assert [lease.state(clocks[0]).value,
                    lease.remaining(clocks[0])] == args[2:], args


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
