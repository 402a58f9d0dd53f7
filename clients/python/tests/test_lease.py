# SPDX-License-Identifier: MIT
"""The pure parts of the Python client: the clock rules, and bytes from a node
that are not RESP."""

import json
import os
import sys

import pytest

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), *['..'] * 3)
sys.path.insert(0, os.path.join(ROOT, 'clients', 'python'))

from hasp.lease import Clock, Lease, hold_remaining  # noqa: E402
from hasp.resp import (Incomplete, Parser, Push,  # noqa: E402
                       ReplyError, encode)


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


with open(os.path.join(ROOT, 'tests', 'vectors', 'wire.json'),
          encoding='utf-8') as file:
    WIRE = json.load(file)


def as_vector(value):
    """As tests/unit/test_wire_vectors.c writes it."""
    if isinstance(value, Push):
        return {'push': [as_vector(one) for one in value]}
    if isinstance(value, ReplyError):
        return {'error': str(value)}
    if isinstance(value, dict):
        return {'map': [as_vector(one) for pair in value.items()
                        for one in pair]}
    if isinstance(value, list):
        return [as_vector(one) for one in value]
    return value


def parse(data):
    parser = Parser()
    parser.feed(data)
    return parser.next()


@pytest.mark.parametrize('case', WIRE['requests'],
                         ids=[' '.join(v['words']) for v in WIRE['requests']])
def test_a_request_is_that_of_the_c_library(case):
    assert encode(*case['words']).hex() == case['bytes']


@pytest.mark.parametrize('case', WIRE['replies'],
                         ids=[v['says'] for v in WIRE['replies']])
def test_a_reply_is_understood_as_by_the_c_library(case):
    data = bytes.fromhex(case['bytes'])
    assert as_vector(parse(data)) == case['value']
    for cut in range(len(data)):
        with pytest.raises(Incomplete):
            parse(data[:cut])


def test_a_reply_in_pieces_is_read_once(monkeypatch):
    """Not from its beginning with each piece."""
    looked = []
    element = Parser._element
    monkeypatch.setattr(Parser, '_element', lambda parser, parts: (
        looked.append(1), element(parser, parts)))
    data = b'*3000\r\n' + b'*2\r\n:1\r\n+text\r\n' * 3000 + b':7\r\n'
    parser, found, pieces = Parser(), [], range(0, len(data), 5)
    for at in pieces:
        parser.feed(data[at:at + 5])
        try:
            while True:
                found.append(parser.next())
        except Incomplete:
            pass
    assert found == [[[1, 'text']] * 3000, 7]
    assert len(looked) <= 3 * 3000 + 2 + len(pieces)


@pytest.mark.parametrize('piece', [
    b'$1048576\r\n' + b'x' * 1048576 + b'\r\n', b'%1\r\n' * 50000])
def test_a_reply_without_an_end_ends_the_connection(piece):
    parser = Parser()
    parser.feed(b'*1000000\r\n')
    with pytest.raises(OSError, match='not a hasp node: (a reply of more than 64 MiB|'
                       'a size of 1)'):
        for _ in range(70):
            parser.feed(piece)
            with pytest.raises(Incomplete):
                parser.next()


@pytest.mark.parametrize('case', WIRE['broken'],
                         ids=[v['says'] for v in WIRE['broken']])
def test_what_is_broken_ends_the_connection(case):
    with pytest.raises(OSError, match='not a hasp node'):
        parse(bytes.fromhex(case['bytes']))
