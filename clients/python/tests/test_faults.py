# SPDX-License-Identifier: MIT
"""Faults that a newcomer met, some without a message, when nodes froze, did not
answer, refused or lost answers."""

import asyncio
import math
import os
import shutil
import sys
import threading
import time

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, '..', '..', '..')
sys.path.insert(0, HERE)
sys.path.insert(0, os.path.join(HERE, '..'))
sys.path.insert(0, os.path.join(ROOT, 'tests', 'cluster'))

import node_program  # noqa: E402
from cluster import Cluster  # noqa: E402
from fake_node import FakeNode  # noqa: E402

import hasp  # noqa: E402
import hasp.aio  # noqa: E402
from hasp.request import Owners, parse_endpoints  # noqa: E402


@pytest.fixture(scope='module')
def cluster():
    with Cluster(3) as nodes:
        nodes.leader()
        yield nodes


def endpoints(cluster):
    return ','.join(f'127.0.0.1:{node.client_port}' for node in cluster.nodes)


def willing(words):
    """A node that grants everything."""
    return {b'SESSION.OPEN': {'id': 7, 'secret': '0' * 32, 'ttl_ms': 60000,
                              'linger_ms': 0},
            b'LOCK.ACQUIRE': 99, b'LOCK.RELEASE': 0,
            b'SESSION.KEEP': {'ttl_ms': 60000, 'linger_ms': 0}
            }.get(words[0], 'OK')


@pytest.mark.parametrize('text, found', [
    ('10.0.0.1', [('10.0.0.1', 7420)]),
    ('[::1]:5, ::1', [('::1', 5), ('::1', 7420)]),
    (['a:1', 'b:2'], [('a', 1), ('b', 2)]),
    ('unix:/a/b:1,c', [('unix:/a/b:1', 0), ('c', 7420)])])
def test_an_address_without_a_port_means_7420(text, found):
    assert parse_endpoints(text) == found


@pytest.mark.parametrize('text', ['a:b', ':7', 'a:0', 'a:70000', '', 'a,', 'unix:a'])
def test_an_address_that_is_none_is_named(text):
    with pytest.raises(ValueError, match='host:port'):
        parse_endpoints(text)


def test_options_and_times_that_cannot_be_meant_are_refused():
    with FakeNode(willing) as node, hasp.Session(node.endpoint) as session:
        with pytest.raises(TypeError, match="'slot'.*slots"):
            session.lock('a', slot=5)
        with pytest.raises(ValueError, match='no limit'):
            session.lock('a').acquire(timeout=-2)
        with pytest.raises(TypeError, match='timeout=5'):
            session.lock('a').acquire(5)
        with pytest.raises(ValueError, match='a timeout needs'):
            session.lock('a').acquire(False, 5)


def test_locks_of_one_owner_number_their_requests_together(cluster):
    with hasp.Session(endpoints(cluster)) as one, \
            hasp.Session(endpoints(cluster)) as two:
        first = one.lock('owner', owner='me')
        second = one.lock('owner', owner='me')
        assert first.acquire(0) and second.acquire(0)
        assert one.lock('other', owner='me').acquire(0)
        first.release()
        assert second.remaining() > 0
        assert not two.lock('owner').acquire(0)
        second.release()
        assert two.lock('owner').acquire(0)


def test_a_request_tells_which_ones_are_over():
    owners = Owners()
    one, other = owners.take('me'), owners.take('')

    def begins(owner):
        number, words = owners.begin(owner)
        assert words == ['OWNER', owner.tag, 'REQ', number, 'ACKED', words[-1]]
        return number, words[-1]

    assert begins(one) == (1, '0')
    assert begins(other) == (2, '0')
    owners.end(2)
    assert begins(other) == (3, '0,2-2')
    assert begins(one) == (4, '0,2-2')
    owners.end(3)
    assert begins(one) == (5, '0,2-3')
    owners.end(1)
    owners.end(4)
    assert begins(one) == (6, '4')
    # Long lists are acknowledged in parts until all are.
    for number in range(7, 107):
        owners.begin(one)
    for number in range(6, 107, 2):
        owners.end(number)
    told = set()
    for _ in range(8):
        number, acked = begins(one)
        first, *ranges = acked.split(',')
        assert first == '4' and len(ranges) <= 16
        told |= {int(one_.split('-')[0]) for one_ in ranges}
        owners.end(number)
    assert told >= set(range(6, 107, 2))


def test_owners_are_used_again():
    """Holds have one at a time."""
    async def the_same(endpoint):
        async with hasp.aio.Session(endpoint) as session:
            for _ in range(5):
                async with session.lock('a'):
                    pass

    with FakeNode(willing) as node:
        with hasp.Session(node.endpoint) as session:
            for _ in range(5):
                with session.lock('a') as lock, session.lock('b'):
                    assert lock.token == 99
        asyncio.run(the_same(node.endpoint))
        owners = [words[words.index(b'OWNER') + 1] for words in node.requests
                  if b'OWNER' in words]
    assert len(owners) == 30
    assert len(set(owners)) == 2


def test_a_wait_goes_on_where_its_node_freezes(cluster):
    with hasp.Session(endpoints(cluster), ttl=3) as one, \
            hasp.Session(endpoints(cluster), ttl=3) as two:
        first, second = one.lock('frozen'), two.lock('frozen')
        assert first.acquire(0)
        waiter = threading.Thread(target=second.acquire)
        waiter.start()
        time.sleep(0.8)
        port = two._link.line.endpoint[1]
        node = [n for n in cluster.nodes if n.client_port == port][0]
        node.pause()
        try:
            first.release()
            waiter.join(8)
            assert not waiter.is_alive() and second.remaining() > 0
        finally:
            node.resume()


def test_a_lock_that_was_lost_is_told_at_the_end_of_its_block(cluster):
    def run_into_the_end(session, how):
        with session.lock('end') as lock:
            refuse(session)
            assert lock.remaining() == 0
            if how:
                raise how

    def refuse(session):
        with cluster.leader().connect() as client:
            client.do('BLACKLIST.ADD', 'SESSION', session.id, 'REASON', 'told')
        while session.state() is not hasp.State.LOST:
            time.sleep(0.02)

    with hasp.Session(endpoints(cluster), ttl=1.5) as session:
        with pytest.raises(hasp.LeaseLost, match='BLACKLISTED told'):
            run_into_the_end(session, None)
        with pytest.raises(hasp.LeaseLost, match='open another'):
            session.lock('after').acquire(0)
    with hasp.Session(endpoints(cluster), ttl=1.5) as session:
        with pytest.raises(KeyError):
            run_into_the_end(session, KeyError('mine'))


def test_a_callback_may_fail_and_take_its_time(cluster):
    asked = []

    def on_event(event):
        asked.append(event)
        time.sleep(1.5)
        raise RuntimeError('raised by the program')

    with hasp.Session(endpoints(cluster), ttl=1, on_event=on_event) as session:
        lock = session.lock('slow')
        assert lock.acquire(0)
        time.sleep(0.5)
        for text in 'one', 'two':
            with cluster.leader().connect() as client:
                client.do('LOCK.PLEASE', 'slow', 'MESSAGE', text)
        time.sleep(2.5)
        assert lock.remaining() > 0
        assert [(event.kind, event.name, event.token, event.text)
                for event in asked] == [
            ('please', 'slow', lock.token, text) for text in ('one', 'two')]


def test_a_please_does_not_wait_for_the_next_heartbeat(cluster):
    asked = threading.Event()
    with hasp.Session(endpoints(cluster), ttl=60,
                      on_event=lambda event: asked.set()) as session:
        assert session.lock('please').acquire(0)
        time.sleep(3)  # Its first heartbeat is after 60 s / 25.
        with cluster.leader().connect() as client:
            assert client.do('LOCK.PLEASE', 'please') == 1
        assert asked.wait(1)


def test_a_hold_that_an_operator_took_is_not_believed_in(cluster):
    events = []
    with hasp.Session(endpoints(cluster), ttl=1,
                      on_event=events.append) as session:
        lock, other = session.lock('taken'), session.lock('kept')
        assert lock.acquire(0) and other.acquire(0)
        token = lock.token
        with cluster.leader().connect() as client:
            assert client.do('LOCK.RELEASEIF', 'taken', 'OWNER',
                             lock._owner.tag) == 1
        time.sleep(0.7)
        assert lock.remaining() == 0 and other.remaining() > 0
        with pytest.raises(hasp.LeaseLost, match='taken away'):
            lock.guard(0.1)
        assert [event[:3] for event in events] == [('lost', 'taken', token)]
        with pytest.raises(hasp.NotHeld):
            lock.release()
        assert lock.acquire(0) and lock.remaining() > 0


def test_a_durable_hold_ends_when_an_operator_ends_it(cluster):
    events, ended = [], threading.Event()

    def tell(event):
        events.append(event)
        ended.set()

    with hasp.Session(endpoints(cluster), durable=True, reason='incident 12',
                      on_event=tell) as session:
        lock = session.lock('freeze')
        assert lock.acquire(timeout=5) and lock.remaining() == math.inf
        lock.guard(365 * 86400)
        with cluster.leader().connect() as client:
            client.do('BLACKLIST.ADD', 'SESSION', session.id, 'REASON', 'over')
        assert ended.wait(20)
        assert [event.kind for event in events] == ['lost']
        assert lock.remaining() == 0
        with pytest.raises(hasp.LeaseLost):
            lock.guard(0)


def test_a_wait_can_be_cancelled_from_another_thread(cluster):
    with hasp.Session(endpoints(cluster)) as one, \
            hasp.Session(endpoints(cluster)) as two:
        first, second = one.lock('cancel'), two.lock('cancel')
        assert not first.cancel()
        assert first.acquire(0)
        told = []
        waiter = threading.Thread(target=lambda: told.append(second.acquire()))
        waiter.start()
        while not second.cancel():
            time.sleep(0.02)
        waiter.join(5)
        assert told == [False]


def test_a_step_that_never_fits_is_told_so():
    def lingering(words):
        reply = willing(words)
        return dict(reply, linger_ms=1000) if isinstance(reply, dict) else \
            reply

    with FakeNode(lingering) as node, \
            hasp.Session(node.endpoint, ttl=60, linger=1) as session:
        lock = session.lock('a')
        with pytest.raises(hasp.LeaseLost, match='not held'):
            lock.guard(0)
        assert lock.acquire(0)
        lock.guard(0.5)
        with pytest.raises(hasp.LeaseShort, match='never more than 0.800 s'):
            lock.guard(1.0)


def test_an_interrupted_wait_leaves_nothing_behind(cluster):
    import signal

    def interrupt(*_):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        with hasp.Session(endpoints(cluster), ttl=1) as one, \
                hasp.Session(endpoints(cluster), ttl=1) as two:
            first, second = one.lock('alarm'), two.lock('alarm')
            assert first.acquire(0)
            signal.setitimer(signal.ITIMER_REAL, 0.3)
            with pytest.raises(KeyboardInterrupt):
                second.acquire()
            time.sleep(1)
            with cluster.leader().connect() as client:
                assert client.map('LOCK.SHOW', 'alarm')['queue'] == []
            first.release()
            assert second.acquire(timeout=1)
    finally:
        signal.signal(signal.SIGALRM, before)


@pytest.mark.skipif(not hasattr(os, 'fork'), reason='needs fork')
def test_a_child_may_close_and_must_not_believe(cluster):
    async def the_same():
        async with hasp.aio.Session(endpoints(cluster)) as session:
            lock = session.lock('child2')
            assert await lock.acquire(0)
            assert in_a_child(lambda: lock.guard(0.1))
            assert lock.remaining() > 0

    def in_a_child(action):
        child = os.fork()
        if child == 0:
            try:
                action()
                os._exit(1)
            except hasp.HaspError:
                os._exit(0)
            finally:
                os._exit(2)
        return os.waitpid(child, 0)[1] == 0

    with hasp.Session(endpoints(cluster)) as session:
        lock = session.lock('child')
        assert lock.acquire(0)
        assert in_a_child(lambda: lock.guard(0.1))
        assert in_a_child(lambda: lock.remaining())
        assert in_a_child(lambda: (session.close(), session.remaining()))
        assert session.lock('mine').acquire(0) and lock.remaining() > 0
    asyncio.run(the_same())


@pytest.mark.skipif(shutil.which('node') is None, reason='needs Node.js')
def test_the_node_client_has_the_same_rules(cluster):
    node_program.run('faults.js', cluster)
