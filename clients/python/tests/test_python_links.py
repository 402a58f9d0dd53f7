# SPDX-License-Identifier: MIT
"""The sessions of a process share a connection, and nothing else: what happens
to one of them, its neighbours do not feel."""

import asyncio
import os
import re
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, '..'))
sys.path.insert(0, os.path.join(HERE, '..', '..', '..', 'tests', 'cluster'))

from cluster import Cluster, wait_until  # noqa: E402
from fake_node import FakeNode, Raw, encode, grant, push  # noqa: E402

import hasp  # noqa: E402
import hasp.aio  # noqa: E402
from hasp.link import Link  # noqa: E402

COUNT = 50


@pytest.fixture(scope='module')
def cluster():
    with Cluster(3) as nodes:
        nodes.leader()
        yield nodes


@pytest.fixture
def nodes(cluster):
    return ','.join(f'127.0.0.1:{node.client_port}' for node in cluster.nodes)


def connections(cluster):
    """How many this process has to the nodes."""
    ports = {node.client_port for node in cluster.nodes}
    mine = set()
    for fd in os.listdir('/proc/self/fd'):
        try:
            mine.add(os.readlink('/proc/self/fd/' + fd))
        except OSError:
            pass  # It has been closed meanwhile.
    with open('/proc/net/tcp', encoding='ascii') as file:
        rows = [line.split() for line in file.readlines()[1:]]
    return sum(f'socket:[{row[9]}]' in mine and row[3] == '01' and
               int(row[2].split(':')[1], 16) in ports for row in rows)


class Holders:
    """Which session believes to hold which lock; 'faults' has each that was not
    alone."""

    def __init__(self):
        self.of, self.tokens, self.faults = {}, {}, []
        self.mutex = threading.Lock()

    def enter(self, name, lock):
        with self.mutex:
            if self.of.get(name) or lock.token <= self.tokens.get(name, 0):
                self.faults.append((name, lock.token, self.tokens.get(name)))
            self.of[name], self.tokens[name] = lock, lock.token

    def leave(self, name, lock):
        with self.mutex:
            if self.of.pop(name) is not lock:
                self.faults.append((name, lock.token))


def cycles(session, holders, number, until):
    """Waits for one of ten locks, and gives it back; how often."""
    name, count = f'hot/{number % 10}', 0
    while time.monotonic() < until:
        with session.lock(name) as lock:
            lock.guard(0.1)
            holders.enter(name, lock)
            time.sleep(0.002)
            holders.leave(name, lock)
        count += 1
    return count


def node_of(cluster, session):
    port = session._link.line.endpoint[1]
    return [node for node in cluster.nodes if node.client_port == port][0]


def test_many_sessions_have_one_connection_and_survive_its_nodes(cluster,
                                                                 nodes):
    before, events, holders = connections(cluster), [], Holders()
    threads = threading.active_count()  # Other tests' may be among them.
    sessions = [hasp.Session(nodes, ttl=6, on_event=events.append)
                for _ in range(COUNT)]
    threads = threading.active_count() - threads
    try:
        assert connections(cluster) == before + 1
        assert len({session._link for session in sessions}) == 1
        until = time.monotonic() + 9
        with ThreadPoolExecutor(COUNT) as pool:
            done = [pool.submit(cycles, session, holders, number, until)
                    for number, session in enumerate(sessions)]
            time.sleep(1)
            assert connections(cluster) == before + 1
            node_of(cluster, sessions[0]).kill()
            time.sleep(2)
            cluster.start()
            node = node_of(cluster, sessions[0])
            node.pause()
            time.sleep(3)
            node.resume()
            counts = [one.result(40) for one in done]
        assert min(counts) > 1 and holders.faults == [] and events == []
        wait_until(lambda: connections(cluster) == before + 1, 10,
                   'one connection')
        assert threads <= 2 * COUNT + 5  # They report events; and a loop.
    finally:
        for session in sessions:
            session.close()
    wait_until(lambda: connections(cluster) == before, 5, 'no connection')


def test_waits_keep_their_places_when_the_connection_is_lost(cluster, nodes):
    holder = hasp.Session(nodes, own_connection=True)
    sessions = [hasp.Session(nodes) for _ in range(8)]
    tokens = []
    try:
        assert holder.lock('places').acquire(False)
        waits = []

        def wait(session):
            lock = session.lock('places')
            assert lock.acquire(timeout=30)
            tokens.append((sessions.index(session), lock.token))
            lock.release()

        for place, session in enumerate(sessions, 1):
            waits.append(threading.Thread(target=wait, args=(session,)))
            waits[-1].start()
            wait_until(lambda: len(holder.ask('LOCK.SHOW', 'places')['queue'])
                       == place, 5, 'it waits')
        link = sessions[0]._link
        line = link.line
        sessions[0]._loop._loop.call_soon_threadsafe(line.close)
        wait_until(lambda: link.line and link.line is not line, 5,
                   'another connection')
        holder.close()
        until = time.monotonic() + 8  # Not when they would ask anyway.
        for one in waits:
            one.join(max(until - time.monotonic(), 0))
        assert [number for number, _ in tokens] == list(range(8))
        assert [token for _, token in tokens] == sorted(
            token for _, token in tokens)
    finally:
        for session in sessions:
            session.close()


def test_the_end_of_one_is_not_felt_by_its_neighbours(cluster, nodes):
    told, others = [], []
    one = hasp.Session(nodes, ttl=2, on_event=told.append)
    two = hasp.Session(nodes, ttl=2, on_event=others.append)
    with two, one:
        line = two._link.line
        assert one._link is two._link
        mine, theirs = one.lock('end/1'), two.lock('end/2')
        assert mine.acquire(False) and theirs.acquire(False)
        with cluster.leader().connect() as client:
            client.do('BLACKLIST.ADD', 'SESSION', one.id, 'REASON', 'told')
        waiting = threading.Thread(target=lambda: pytest.raises(
            hasp.HaspError, one.lock('end/2').acquire))
        waiting.start()
        wait_until(lambda: one.state() is hasp.State.LOST, 10, 'it is lost')
        waiting.join(10)
        assert not waiting.is_alive()
        # A new connection attaches those who are left.
        two._loop._loop.call_soon_threadsafe(line.close)
        wait_until(lambda: two._link.line not in (None, line), 5, 'another')
        theirs.guard(0.5)
        theirs.release()
        assert theirs.acquire(False)
    assert [event.kind for event in told] == ['lost'] and others == []


def test_one_that_an_attachment_refuses_ends_alone():
    """The fake node refuses it on the second connection."""
    ids = iter((7, 8))

    def answer(words):
        if words[0] == b'SESSION.OPEN':
            return {'id': next(ids), 'ttl_ms': 60000, 'linger_ms': 0}
        if words[0] == b'SESSION.ATTACH' and words[1] == b'7':
            return Exception('BLACKLISTED by ann')
        if words[0] == b'SESSION.KEEP':
            return {'ttl_ms': 60000, 'linger_ms': 0}
        return 99

    with FakeNode(answer) as node, hasp.Session(node.endpoint) as one, \
            hasp.Session(node.endpoint) as two:
        line = one._link.line
        one._loop._loop.call_soon_threadsafe(line.close)
        wait_until(lambda: one.state() is hasp.State.LOST, 5, 'it is lost')
        with pytest.raises(hasp.LeaseLost, match='BLACKLISTED by ann'):
            one.lock('a').acquire(False)
        assert two.lock('a').acquire(False) and two.lock('b').acquire(False)
        acquired = [words for words in node.requests
                    if words[0] == b'LOCK.ACQUIRE']
        assert [words[-2:] for words in acquired] == [[b'SESSION', b'8']] * 2
        assert sum(words[0] == b'SESSION.ATTACH'
                   for words in node.requests) == 2


def test_who_is_impatient_gives_up_alone():
    def answer(words):
        if words[0] == b'LOCK.SHOW' and words[1] == b'slow':
            time.sleep(1)
        return {b'SESSION.OPEN': {'id': 7, 'ttl_ms': 60000, 'linger_ms': 0},
                b'LOCK.SHOW': words[-1].decode()}.get(words[0], 'OK')

    with FakeNode(answer) as node, \
            hasp.Session(node.endpoint) as one, \
            hasp.Session(node.endpoint) as two:
        one.timeout, line = 0.2, two._link.line
        with pytest.raises(hasp.Unknown, match='no answer'):
            one.ask('LOCK.SHOW', 'slow')
        assert two.ask('LOCK.SHOW', 'quick') == 'quick'
        assert line.error is None and two._link.line is line


def test_what_was_asked_at_a_node_that_is_left_is_answered_there():
    """It knows no leader for one request. The next one is under way."""
    def answer(words):
        if words[0] != b'LOCK.SHOW':
            return {b'SESSION.OPEN': {'id': 7, 'ttl_ms': 60000, 'linger_ms': 0},
                    b'SESSION.KEEP': {'ttl_ms': 60000, 'linger_ms': 0}
                    }.get(words[0], 'OK')
        name = words[1].decode()
        is_first = name not in asked
        asked.append(name)
        time.sleep(0.3)
        return Exception('NOLEADER none was found') \
            if is_first and name == 'a' else name

    asked = []
    with FakeNode(answer) as node, hasp.Session(node.endpoint) as one, \
            hasp.Session(node.endpoint) as two, ThreadPoolExecutor() as pool:
        line = one._link.line
        first = pool.submit(one.ask, 'LOCK.SHOW', 'a')
        wait_until(lambda: asked, 5, 'it is asked')
        assert two.ask('LOCK.SHOW', 'b') == 'b'
        assert first.result(5) == 'a'
        assert sorted(asked) == ['a', 'a', 'b']
        wait_until(lambda: line.error, 5, 'it is closed then')
        assert one._link.line not in (None, line)


def test_what_waits_or_names_a_session_has_a_connection_of_its_own(cluster,
                                                                   nodes):
    with hasp.Session(nodes) as one, hasp.Session(nodes) as two, \
            one.lock('alone') as lock, ThreadPoolExecutor() as pool:
        before = connections(cluster)
        waiting = pool.submit(two.ask, 'LOCK.ACQUIRE', 'alone', 'OWNER', 'me',
                              'WAIT', '3000')
        wait_until(lambda: one.ask('LOCK.SHOW', 'alone')['queue'], 5, 'a wait')
        assert connections(cluster) == before + 1
        assert two.ask('LOCK.CHECK', 'alone', lock.token) == 1
        lock.release()
        assert waiting.result(5) > lock.tokens.get('alone', 0)
        wait_until(lambda: connections(cluster) == before, 5, 'it is closed')
        # It acts for the session that asks, not for the one that came last.
        assert one.lock('other').acquire(False)
        held = one.ask('LOCK.SHOW', 'alone')['holders'][0]
        assert str(held['session']) == two.id
        assert two.ask('LOCK.RELEASE', 'alone', 'OWNER', 'me') == 0
        assert two.ask('LOCK.ACQUIRE', 'alone', 'SESSION', two.id) > 0
        assert lock.acquire(False) is False
        assert two.ask('PING') == 'PONG'
        assert lock.session.ask('LOCK.PLEASE', 'alone') == 1
        assert two.ask('LOCK.RELEASE', 'alone') == 0
        assert lock.acquire(False)


def test_who_shares_and_who_does_not(cluster, nodes):
    before = connections(cluster)
    reverse = ','.join(reversed(nodes.split(',')))
    kept = [hasp.Session(nodes), hasp.Session(nodes.split(','))]
    assert connections(cluster) == before + 1
    for endpoints, options in ((nodes, {'own_connection': True}),
                               (nodes, {'ttl': 3}), (nodes, {'linger': 2}),
                               (nodes, {'durable': True}), (reverse, {})):
        with hasp.Session(endpoints, **options):
            assert connections(cluster) == before + 2
    kept.pop().close()
    assert connections(cluster) == before + 1
    kept.pop().close()
    wait_until(lambda: connections(cluster) == before, 5, 'none is left')
    assert not [one for one in threading.enumerate() if one.name == 'hasp']

    async def the_same():
        async with hasp.aio.Session(nodes), hasp.aio.Session(nodes), \
                hasp.aio.Session(nodes, own_connection=True):
            with hasp.Session(nodes):  # In another loop.
                assert connections(cluster) == before + 3

    asyncio.run(the_same())
    assert not Link._shared


def test_tasks_of_many_sessions_share_one_connection(cluster, nodes):
    before, holders = connections(cluster), Holders()

    async def work(session, number):
        for _ in range(4):
            async with session.lock(f'aio/{number % 5}') as lock:
                holders.enter(number % 5, lock)
                try:
                    await asyncio.sleep(0.001)
                finally:
                    holders.leave(number % 5, lock)

    async def run():
        sessions = await asyncio.gather(*(
            hasp.aio.Session(nodes).open() for _ in range(COUNT)))
        assert connections(cluster) == before + 1
        tasks = [asyncio.ensure_future(work(session, number))
                 for number, session in enumerate(sessions)]
        for task in tasks[::7]:  # The rest does not feel it.
            await asyncio.sleep(0.01)
            task.cancel()
        told = await asyncio.gather(*tasks, return_exceptions=True)
        assert {type(one) for number, one in enumerate(told) if number % 7} \
            == {type(None)}
        for session in sessions:
            await session.close()

    asyncio.run(run())
    assert holders.faults == []
    assert not [fault for fault in holders.of.values() if fault.locked()]


def test_sessions_come_and_go_in_a_storm(cluster, nodes):
    before = connections(cluster)

    def come_and_go(number):
        for _ in range(6):
            with hasp.Session(nodes) as session:
                with session.lock(f'storm/{number % 3}'):
                    pass

    with ThreadPoolExecutor(16) as pool:
        for one in [pool.submit(come_and_go, number) for number in range(16)]:
            one.result(40)
    wait_until(lambda: connections(cluster) == before, 5, 'none is left')
    assert not [one for one in threading.enumerate() if one.name == 'hasp']


def test_one_is_closed_while_others_wait(nodes):
    with hasp.Session(nodes) as holder, hasp.Session(nodes) as stays, \
            ThreadPoolExecutor() as pool:
        goes = hasp.Session(nodes)
        with holder.lock('closing'):
            waits = [pool.submit(session.lock('closing').acquire)
                     for session in (goes, stays)]
            wait_until(lambda: len(holder.ask('LOCK.SHOW', 'closing')['queue'])
                       == 2, 5, 'both wait')
            goes.close()
            with pytest.raises(hasp.LeaseLost):
                waits[0].result(5)
            assert not waits[1].done()
        assert waits[1].result(5)


@pytest.mark.skipif(not hasattr(os, 'fork'), reason='needs fork')
def test_a_child_makes_a_connection_of_its_own(cluster, nodes):
    with hasp.Session(nodes) as session, session.lock('fork/parent') as lock:
        child = os.fork()
        if child == 0:
            code = 1
            try:
                session.close()
                with hasp.Session(nodes) as own:
                    with own.lock('fork/child'):
                        code = own._link is session._link or \
                            own.lock('fork/parent').acquire(False)
            finally:
                os._exit(code)
        assert os.waitpid(child, 0)[1] == 0
        assert session.ask('LOCK.CHECK', 'fork/parent', lock.token) == 1


HOSTILE = [
    ('a push for another session',
     push('lock', 'answer', {'session': 9, 'owner': 'x', 'wait': 8})),
    ('a push of odd parts', push('lock', 'answer', 7)),
    ('a short push', push('lock')),
    ('a push of odd members', push('lock', 'answer', {
        'session': 7, 'owner': [], 'wait': {}, 'tokens': 'x'})),
    ('a push with tokens that are none', push('lock', 'answer', {
        'session': 7, 'owner': 'me', 'wait': 8, 'tokens': ['x']})),
    ('a push with grants that are none', push('lock', 'answer', {
        'session': 7, 'owner': 'me', 'wait': 8, 'grants': [7]})),
    ('a push with odd grants', push('lock', 'answer', {
        'session': 7, 'owner': 'me', 'wait': 8, 'grants': {'lock': 'a'}})),
    ('a push with a token of 0', push('lock', 'answer', {
        'session': 7, 'owner': 'me', 'wait': 8, 'tokens': [0]})),
    ('an answer without a request', Raw(b'+OK\r\n')),
    ('garbage', Raw(b'\xff\x00garbage\r\n')),
]


@pytest.mark.parametrize('garbage', [one for _, one in HOSTILE],
                         ids=[name for name, _ in HOSTILE])
def test_a_hostile_node_is_survived(garbage):
    """It sends that after the first answer to a wait; the client continues, at
    that connection or at another one, under the same number."""
    acquired = []

    def answer(words):
        if words[0] == b'SESSION.OPEN':
            return {'id': 7, 'ttl_ms': 60000, 'linger_ms': 0}
        if words[0] == b'SESSION.KEEP':
            return {'ttl_ms': 60000, 'linger_ms': 0}
        if words[0] != b'LOCK.ACQUIRE':
            return 'OK'
        acquired.append(words)
        if len(acquired) > 1:
            return 99
        return Raw(b'+QUEUED 8\r\n' + garbage + push('lock', 'answer', {
            'session': 7, 'owner': 'me', 'wait': 8}))

    with FakeNode(answer) as node, hasp.Session(node.endpoint) as session:
        lock = session.lock('a', owner='me')
        assert lock.acquire(timeout=10) and lock.token == 99
    numbers = [words[words.index(b'REQ') + 1] for words in acquired]
    assert len(numbers) == 2 and len(set(numbers)) == 1


@pytest.mark.parametrize('order', ['push first', 'twice'])
def test_a_push_may_come_early_and_twice(order):
    queued = Raw(b'+QUEUED 8\r\n')

    def answer(words):
        told = push('lock', 'answer', {
            'session': 7, 'owner': 'me', 'wait': 8, 'tokens': [99],
            'grants': [grant(words, b'a', 99)]})
        if words[0] == b'SESSION.OPEN':
            return {'id': 7, 'ttl_ms': 60000, 'linger_ms': 0}
        if words[0] == b'LOCK.ACQUIRE':
            return Raw(told + queued if order == 'push first' else
                       queued + told + told)
        return encode(1)

    with FakeNode(answer) as node, hasp.Session(node.endpoint) as session:
        lock = session.lock('a', owner='me')
        assert lock.acquire(timeout=10) and lock.token == 99
        assert sum(words[0] == b'LOCK.ACQUIRE' for words in node.requests) == 1


def test_heartbeats_go_on_while_many_sessions_are_attached_anew():
    """A node answers an ATTACH before it does anything else on that connection.
    All ask something, so each is attached in haste."""
    count, ids, told, opened = 60, iter(range(1, 1000)), [], {}

    def answer(words):
        if words[0] == b'SESSION.OPEN':
            return {'id': next(ids), 'ttl_ms': 4000, 'linger_ms': 0}
        if words[0] == b'SESSION.KEEP':
            return {'ttl_ms': 4000, 'linger_ms': 0}
        if words[0] == b'SESSION.ATTACH':
            time.sleep(0.05)
            opened[words[1]] = True
        return 99

    async def run(endpoint):
        sessions = [await hasp.aio.Session(
            endpoint, ttl=4, timeout=20, on_event=told.append).open()
            for _ in range(count)]
        sessions[0]._link.line.close()
        locks = [session.lock('a') for session in sessions[:count // 2]]
        assert all(await asyncio.gather(*(lock.acquire() for lock in locks)))
        while len(opened) < count:  # The others, too, in the end.
            await asyncio.sleep(0.01)
        for session in sessions:
            await session.close()

    with FakeNode(answer) as node:
        asyncio.run(asyncio.wait_for(run(node.endpoint), 40))
    assert told == []


@pytest.mark.parametrize('odd', [b'+OK', b':0', b'*1\r\n:0', b'*0', b'#t',
                                 b'%1\r\n+ttl_ms\r\n:0', b'*2\r\n:5\r\n:6',
                                 b'%1\r\n+ttl_ms\r\n+x', b'*1\r\n+ttl_ms'])
def test_an_answer_to_something_else_is_none(odd):
    """It must not grant, open or keep anything; another node is asked."""
    seen = set()

    def answer(words):
        verb = words[0]
        if verb in (b'SESSION.OPEN', b'SESSION.KEEP', b'LOCK.ACQUIRE',
                    b'LOCK.RELEASE') and verb not in seen:
            seen.add(verb)
            if (verb, odd) != (b'LOCK.RELEASE', b':0'):
                return Raw(odd + b'\r\n')
        return {b'SESSION.OPEN': {'id': 7, 'ttl_ms': 1000},
                b'SESSION.KEEP': {'ttl_ms': 1000}}.get(verb, 99)

    with FakeNode(answer) as node, hasp.Session(node.endpoint, ttl=1) as session:
        lock = session.lock('a')
        assert lock.acquire() and lock.token == 99
        wait_until(lambda: b'SESSION.KEEP' in seen, 5, 'a heartbeat')
        lock.release()
        assert session.state() is hasp.State.HELD
        assert len({words[words.index(b'REQ') + 1] for words in node.requests
                    if words[0] == b'LOCK.ACQUIRE'}) == 1


def test_a_connection_that_takes_no_more_sessions_is_left_to_those_it_has():
    opened = {}  # By connection: each has a thread of the fake node.

    def answer(words):
        if words[0] != b'SESSION.OPEN':
            return {b'SESSION.KEEP': {'ttl_ms': 60000}}.get(words[0], 99)
        ids = opened.setdefault(threading.get_ident(), [])
        if len(ids) == 2:
            return Exception('LIMIT sessions of a connection')
        ids.append(100 * len(opened) + len(ids))
        return {'id': ids[-1], 'ttl_ms': 60000}

    with FakeNode(answer) as node:
        sessions = [hasp.Session(node.endpoint) for _ in range(5)]
        assert all(one.lock('a').acquire(False) for one in sessions)
        assert [len(ids) for ids in opened.values()] == [2, 2, 1]
        for one in sessions:
            one.close()
    assert not Link._shared


def test_what_could_not_be_given_back_at_once_is_later():
    """The conversion before it is not cleared up: then it must not be
    forgotten that the lock is to be released."""
    is_known, held = threading.Event(), {}

    def answer(words):
        if words[0] == b'LOCK.CONVERT' and not is_known.is_set():
            return Exception('UNKNOWN it may have been done')
        if words[0] == b'LOCK.ACQUIRE':
            held[words[words.index(b'OWNER') + 1]] = True
        if words[0] == b'LOCK.RELEASE':
            held.pop(words[words.index(b'OWNER') + 1], None)
        return {b'SESSION.OPEN': {'id': 7, 'ttl_ms': 1000},
                b'SESSION.KEEP': {'ttl_ms': 1000}}.get(words[0], 99)

    with FakeNode(answer) as node, hasp.Session(node.endpoint, ttl=1,
                                                timeout=0.3) as session:
        lock = session.lock('a', shared=True)
        assert lock.acquire()
        with pytest.raises(hasp.Unknown):
            lock.convert(shared=False, blocking=False)
        with pytest.raises(hasp.Unknown):
            lock.release()
        assert held and not lock.locked()
        is_known.set()
        wait_until(lambda: not held, 5, 'it is given back')
        assert lock.acquire()


def test_who_was_lost_is_not_attached_for_ever(cluster, nodes):
    with hasp.Session(nodes) as stays:
        line = stays._link.line
        for _ in range(5):
            with hasp.Session(nodes):
                pass
        assert line.attached == {stays.id}
        lost = hasp.Session(nodes)
        stays._loop._loop.call_soon_threadsafe(lost._refuse, 'for a test')
        wait_until(lambda: line.attached == {stays.id}, 5, 'it is detached')
        lost.close()
        assert stays.ask('LOCK.SHOW', 'a') and line.error is None


def test_a_heartbeat_overtakes_what_is_not_written_yet():
    class Transport:
        def write(self, data):
            sent.append(data)

    async def run():
        line = hasp.connection.Connection(('127.0.0.1', 1))
        line._transport = Transport()
        asked = [line.ask('LOCK.SHOW', 'a'), line.ask('LOCK.SHOW', 'b')]
        line.post(told.append, 'SESSION.KEEP', is_urgent=True)
        await asyncio.sleep(0)
        line.data_received(b':1\r\n:2\r\n:3\r\n')
        assert [await one for one in asked] == [2, 3]

    sent, told = [], []
    asyncio.run(run())
    assert told == [1] and len(sent) == 1
    assert re.findall(rb'SHOW|KEEP', sent[0]) == [b'KEEP', b'SHOW', b'SHOW']
