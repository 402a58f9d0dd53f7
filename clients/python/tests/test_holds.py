# SPDX-License-Identifier: MIT
"""A hold is its token: no belief outlives it, and nothing that is meant for it
touches a later hold of the same owner."""

import asyncio
import os
import sys
import threading
import time

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.environ.get('HASP_CLIENT', os.path.dirname(HERE)))
sys.path.insert(0, os.path.join(HERE, '..', '..', '..', 'tests', 'cluster'))

from cluster import Cluster, wait_until  # noqa: E402
from fake_node import FakeNode, Raw, grant, push  # noqa: E402

import hasp  # noqa: E402
import hasp.aio  # noqa: E402

COUNT = 300  # Holds that end between two heartbeats; 64 notices are kept.


@pytest.fixture(scope='module')
def cluster():
    with Cluster(1) as nodes:
        nodes.leader()
        yield nodes


@pytest.fixture
def node(cluster):
    with cluster.leader().connect() as client:
        yield client


@pytest.fixture
def nodes(cluster):
    return f'127.0.0.1:{cluster.nodes[0].client_port}'


@pytest.fixture
def session(nodes):
    events = []
    with hasp.Session(nodes, ttl=30, on_event=events.append) as one:
        one.events = events
        yield one


@pytest.fixture
def other(nodes):
    with hasp.Session(nodes) as one:
        yield one


def take(node, lock):
    """Takes the lock away, as an operator does."""
    for name in lock.names:
        assert node.do('LOCK.RELEASEIF', name, 'OWNER', lock._owner.tag) == 1


def holders(session, name):
    shown = session.ask('LOCK.SHOW', name)
    return [one['token'] for one in shown['holders']]


def beat(session):
    """Has a heartbeat sent now, and waits until it is answered."""
    before = session._lease._sent
    session._loop.post(session._beat)
    wait_until(lambda: session._lease._sent != before, 5, 'a heartbeat')


@pytest.mark.parametrize('durable', [False, True])
def test_more_holds_end_than_notices_are_kept(nodes, node, durable):
    events = []
    with hasp.Session(nodes, ttl=5, durable=durable,
                      on_event=events.append) as session:
        locks = [session.lock(f'many/{durable}/{i}') for i in range(COUNT)]
        assert all(lock.acquire(False) for lock in locks)
        kept = session.lock('many/kept', shared=True)
        assert kept.acquire(False)
        tokens = {lock.name: lock.token for lock in locks}
        for lock in locks:
            take(node, lock)
        wait_until(lambda: not any(lock.locked() for lock in locks), 12,
                   'they are not believed in')
        assert kept.locked()
        wait_until(lambda: len(events) >= COUNT, 5, 'each is reported')
        assert {event.name: event.token for event in events} == tokens
        assert len(events) == COUNT and {event.kind for event in events} == {
            'lost'}
        for lock in locks[::50]:
            with pytest.raises(hasp.NotHeld):
                lock.release()
        assert locks[0].acquire(False) and locks[0].locked()
        beat(session)
        assert locks[0].locked() and len(events) == COUNT


def test_a_list_that_fails_is_read_again():
    """The notices are too old; SESSION.HOLDS is refused at first."""
    asked = []

    def answer(words):
        if words[0] == b'SESSION.HOLDS':
            asked.append(words)
            if len(asked) == 1:
                return Exception('LIMIT too much is asked')
            held = grant([], b'b', 101, as_of=150)
            held['owner'] = owner[0]
            return {'cursor': '0' if b'CURSOR' in words else '=1/b',
                    'as_of': 150,
                    'holds': [] if b'CURSOR' in words else [held]}
        if words[0] == b'LOCK.ACQUIRE':
            owner.append(words[words.index(b'OWNER') + 1].decode())
        return {b'SESSION.OPEN': {'id': 7, 'ttl_ms': 1000},
                b'SESSION.KEEP': {'ttl_ms': 1000, 'dropped': dropped[-1]},
                b'LOCK.ACQUIRE': grant(words, words[1], **{
                    'a': {'token': 100, 'as_of': 100},
                    'b': {'token': 101, 'as_of': 101},
                    'c': {'token': 110, 'as_of': 120}}.get(
                        words[1].decode(), {'token': 1}))
                }.get(words[0], 1)

    dropped, owner, events = [0], [], []
    with FakeNode(answer) as node, hasp.Session(
            node.endpoint, ttl=1, on_event=events.append) as session:
        locks = [session.lock(name, owner='me') for name in 'abc']
        assert all(lock.acquire(False) for lock in locks)
        dropped.append(120)
        wait_until(lambda: events, 5, 'one is reported')
        time.sleep(0.5)
        assert [lock.locked() for lock in locks] == [False, True, True]
        assert [event[:3] for event in events] == [('lost', 'a', 100)]
        assert len(asked) == 3  # Refused, then two pages; not once more.
        assert max(int(words[-1]) for words in node.requests
                   if words[0] == b'SESSION.KEEP') == 120


def test_a_later_hold_of_the_owner_ends_the_belief_in_the_former(
        session, other, node):
    first = session.lock('again', owner='me')
    second = session.lock('again', owner='me')
    assert first.acquire(False)
    token = first.token
    take(node, first)
    assert second.acquire(False) and second.token > token
    assert not first.locked() and second.locked()
    wait_until(lambda: session.events, 5, 'it is reported')
    assert [event[:3] for event in session.events] == [
        ('lost', 'again', token)]
    with pytest.raises(hasp.NotHeld):
        first.release()
    assert second.locked() and holders(session, 'again') == [second.token]
    second.release()
    assert other.lock('again').acquire(False)
    beat(session)
    assert not first.locked() and len(session.events) == 1


def test_a_release_of_what_has_ended_leaves_the_new_hold_alone(
        session, other, node):
    """The client got no notice: it names the token."""
    first = session.lock('stale', owner='me')
    assert first.acquire(False)
    take(node, first)
    assert other.ask('LOCK.CHECK', 'stale', first.token) == 0
    assert session.ask('LOCK.ACQUIRE', 'stale', 'OWNER', 'me') > 0
    held = holders(session, 'stale')
    with pytest.raises(hasp.NotHeld):
        first.release()
    assert holders(session, 'stale') == held and len(held) == 1


def test_several_are_released_by_their_tokens(session, node):
    names = 'several/a', 'several/b', 'several/c'
    first = session.lock(*names, owner='me')
    assert first.acquire(False)
    node.do('LOCK.RELEASEIF', names[1], 'OWNER', 'me')
    second = session.lock(names[1], owner='me')
    assert second.acquire(False)
    assert not first.locked() and second.locked()
    with pytest.raises(hasp.NotHeld, match='only 2 of'):
        first.release()
    assert [holders(session, name) for name in names] == [[], [second.token], []]
    second.release()


def test_a_block_in_a_block_whose_hold_was_taken_away(session, node):
    lock = session.lock('nested', owner='me')
    with pytest.raises(hasp.NotHeld):
        with lock:
            former = lock.token
            take(node, lock)
            with lock:
                assert lock.token > former and lock.locked()
                assert holders(session, 'nested') == [lock.token]
            assert not lock.locked()  # It is the former one again.
            with pytest.raises(hasp.LeaseLost, match='taken away'):
                lock.guard()
    assert holders(session, 'nested') == [] and lock.token is None


def test_an_upgrade_is_known_to_all_objects_of_the_owner(session, node):
    first = session.lock('up', owner='me', shared=True)
    second = session.lock('up', owner='me', shared=True)
    assert first.acquire(False) and second.acquire(False)
    former = first.token
    assert second.convert(shared=False)
    assert first.token == second.token > former
    assert not first.shared and not second.shared
    assert first.convert(shared=True) and second.shared
    first.release()
    assert second.locked() and holders(session, 'up') == [second.token]
    second.release()
    assert holders(session, 'up') == []


def test_a_limit_is_believed_by_whoever_enters(session):
    """However they asked."""
    first = session.lock('limit', owner='me', hold=5)
    second = session.lock('limit', owner='me')
    assert first.acquire(False)
    time.sleep(1)
    assert second.acquire(False)
    assert second.remaining() <= 0.8 * 4.05
    with pytest.raises(hasp.LeaseShort):
        second.guard(3.5)
    second.release()
    first.release()


def test_the_shortest_limit_of_several_counts(session, other):
    first = session.lock('limits/a', owner='me', hold=25)
    assert first.acquire(False)
    with other.lock('limits/b'):
        both = session.lock('limits/a', 'limits/b', owner='me', hold=2)
        waiting = threading.Thread(target=both.acquire)
        waiting.start()
        wait_until(lambda: other.ask('LOCK.SHOW', 'limits/b')['queue'], 5,
                   'it waits')
        time.sleep(1)
    waiting.join(5)
    assert 1.0 < both.remaining() <= 1.6
    assert first.remaining() > 10
    wait_until(lambda: not both.locked(), 3, 'it is over')
    assert first.locked()
    first.release()


# --- what only a fake node says -------------------------------------------


def answers(acquire, keep=None):
    """A fake node; 'acquire' gets the words and the number of requests."""
    count = []

    def answer(words):
        if words[0] in (b'LOCK.ACQUIRE', b'LOCK.CONVERT'):
            count.append(words)
            return acquire(words, len(count))
        return {b'SESSION.OPEN': {'id': 7, 'ttl_ms': 1000},
                b'SESSION.KEEP': keep() if keep else {'ttl_ms': 1000}
                }.get(words[0], 1)

    return answer


def requests(node, verb):
    return [words for words in node.requests if words[0] == verb]


def test_what_is_over_when_it_is_told_is_not_believed():
    def acquire(words, _):
        return grant(words, b'a', 99, count=0, mode='free')

    with FakeNode(answers(acquire)) as node, \
            hasp.Session(node.endpoint, ttl=1) as session:
        lock = session.lock('a')
        assert lock.acquire() and not lock.locked()
        with pytest.raises(hasp.LeaseLost, match='taken away'):
            lock.guard()
        with pytest.raises(hasp.NotHeld):
            lock.release()
        assert requests(node, b'LOCK.RELEASE') == []


@pytest.mark.parametrize('again, is_held', [(800, True), (0, False)])
def test_what_has_nothing_left_is_asked_for_again(again, is_held):
    def acquire(words, count):
        return grant(words, b'a', 99, hold_left_ms=0 if count == 1 else again)

    with FakeNode(answers(acquire)) as node, \
            hasp.Session(node.endpoint, ttl=60) as session:
        lock = session.lock('a', hold=1)
        assert lock.acquire()
        assert lock.locked() is is_held and lock.remaining() <= 0.64
        asked = requests(node, b'LOCK.ACQUIRE')
        assert len({words[words.index(b'REQ') + 1] for words in asked}) == 1
        assert len(asked) == 2


def test_an_answer_that_is_older_than_a_notice_is_not_believed():
    def acquire(words, count):
        return grant(words, b'a', 99, as_of=100 if count < 3 else 200,
                     count=int(count < 3))

    def keep():
        return {'ttl_ms': 1000, 'ended': [
            {'lock': 'z', 'owner': '', 'token': 1, 'first': 1, 'reason': '',
             'number': 150}]}

    with FakeNode(answers(acquire, keep)) as node, \
            hasp.Session(node.endpoint, ttl=1) as session:
        wait_until(lambda: session._beliefs.seen == 150, 5, 'a notice')
        lock = session.lock('a')
        assert lock.acquire() and not lock.locked()
        assert len(requests(node, b'LOCK.ACQUIRE')) == 3


def test_a_push_of_a_limited_grant_is_asked_for_again():
    def acquire(words, count):
        if count > 1:
            return grant(words, b'a', 99, hold_left_ms=700)
        told = push('lock', 'answer', {
            'session': 7, 'owner': 'me', 'wait': 8, 'tokens': [99],
            'grants': [grant(words, b'a', 99, hold_left_ms=0)]})
        return Raw(b'+QUEUED 8\r\n' + told)

    with FakeNode(answers(acquire)) as node, \
            hasp.Session(node.endpoint, ttl=60) as session:
        lock = session.lock('a', owner='me', hold=1)
        assert lock.acquire(timeout=5) and 0 < lock.remaining() <= 0.56


@pytest.mark.parametrize('token, first, ends', [
    (99, 99, True), (120, 90, True), (98, 90, False), (120, 100, False)])
def test_a_notice_ends_the_hold_that_it_names(token, first, ends):
    told = []

    def keep():
        return {'ttl_ms': 1000, 'dropped': 0, 'ended': [
            {'lock': 'a', 'owner': 'me', 'token': token, 'first': first,
             'reason': 'told', 'number': 150}] * bool(told)}

    events = []
    with FakeNode(answers(lambda *_: 99, keep)) as node, hasp.Session(
            node.endpoint, ttl=1, on_event=events.append) as session:
        lock = session.lock('a', owner='me')
        assert lock.acquire()
        told.append(True)
        wait_until(lambda: session._beliefs.seen == 150, 5, 'a notice')
        assert lock.locked() is not ends
        wait_until(lambda: len(events) == ends, 5, 'it is reported')
        if ends:
            assert events[0] == ('lost', 'a', 99, 'told')
            with pytest.raises(hasp.NotHeld):
                lock.release()
            assert requests(node, b'LOCK.RELEASE') == []
        else:
            lock.release()
            assert requests(node, b'LOCK.RELEASE')[0][:4] == [
                b'LOCK.RELEASE', b'a', b'TOKEN', b'99']


def test_a_conversion_that_was_lost_is_undone_by_its_token():
    """Only its second answer comes, and nobody waits for it."""
    def acquire(words, count):
        if words[0] == b'LOCK.ACQUIRE':
            return 99
        if b'EXCLUSIVE' in words and not is_known:
            return Exception('UNKNOWN it may have been done')
        return grant(words, b'a', 110, first=99,
                     mode='exclusive' if b'EXCLUSIVE' in words else 'shared')

    async def run(endpoint):
        async with hasp.aio.Session(endpoint, ttl=1, timeout=0.2) as session:
            lock = session.lock('a', shared=True)
            assert await lock.acquire()
            with pytest.raises(hasp.Unknown):
                await lock.convert(shared=False, blocking=False)
            is_known.append(True)
            while not session._doubts == set():
                await asyncio.sleep(0.02)
            assert lock.token == 110 and lock.shared
            await lock.release()

    is_known = []
    with FakeNode(answers(acquire)) as node:
        asyncio.run(run(node.endpoint))
        converts = requests(node, b'LOCK.CONVERT')
        assert [words[words.index(b'TOKEN') + 1] for words in converts
                if b'EXCLUSIVE' in words][0] == b'99'
        assert [words[words.index(b'TOKEN') + 1] for words in converts
                if b'EXCLUSIVE' not in words] == [b'110']
        assert requests(node, b'LOCK.RELEASE')[0][3] == b'110'
