# SPDX-License-Identifier: MIT
"""The runner's rules of belief have the arithmetic of the clients."""

import json
import os

import rules
from script import misordered

VECTORS = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..',
                       'vectors', 'lease.json')


def does(lease, step):
    """The result of a step, and the one that is wanted."""
    what, *words = step
    if what == 'answered':
        return lease.answered(tuple(words[:2]), *words[2:]), None
    if what == 'refused':
        return lease.refused(), None
    if what == 'check':
        return lease.check(tuple(words[:2])), tuple(words[2:])
    if what == 'period':
        return lease.period(), words[0]
    assert what == 'hold', step
    return rules.hold_left(tuple(words[:2]), words[2],
                           tuple(words[3:5])), words[5]


def test_they_are_those_of_the_vectors():
    with open(VECTORS, encoding='utf-8') as file:
        for case in json.load(file):
            lease = rules.Lease()
            for step in case['steps']:
                found, wanted = does(lease, step)
                assert found == wanted, (case['says'], step)


def test_events_of_hooks_have_an_order():
    def told(*kinds, **differs):
        return [{'id': 1, 'kind': kind, 'name': 'a', 'elapsed_ns': 0,
                 'token': 9 if kind in ('granted', 'released', 'lost') else 0,
                 'text': 'why' if kind in ('failed', 'lost') else '',
                 **differs} for kind in kinds]

    for kinds in (('acquire', 'wait', 'granted', 'released'),
                  ('acquire', 'granted', 'lost'), ('acquire', 'failed'),
                  ('acquire', 'wait', 'failed'), ('acquire',)):
        assert not misordered(told(*kinds)), kinds
    for kinds in (('granted',), ('acquire', 'wait', 'wait'),
                  ('acquire', 'granted', 'lost', 'released'),
                  ('acquire', 'granted', 'failed'), ('acquire', 'acquire'),
                  ('acquire', 'released'), ('acquire', 'granted', 'wait')):
        assert misordered(told(*kinds)), kinds
    assert misordered(told('acquire', 'granted', token=0))
    assert misordered(told('acquire', 'failed', text=''))
    assert misordered(told('acquire', elapsed_ns=-1))


def test_a_bound_counts_from_the_request_that_granted():
    bounds = rules.Bounds()
    bounds.answers(5, 'SESSION.OPEN', {'ttl_ms': 10, 'linger_ms': 5})
    assert bounds.session() == 5 + 4 * rules.MS
    for received, left in (7, 1), (9, 2), (11, None):
        bounds.answers(received, 'LOCK.ACQUIRE', {
            'lock': 'a', 'token': 3 + (left is None), 'hold_left_ms': left})
    assert bounds.hold(0, {'a': 3}) == 9 + rules.MS * 8 // 5
    assert bounds.hold(10, {'a': 4}) == rules.NEVER
    assert bounds.hold(10, {'a': 3}) == 0  # Nobody has granted that since.
