# SPDX-License-Identifier: MIT
"""The Python client's features beyond a plain lock, on a real cluster."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, '..', '..', '..')
sys.path.insert(0, os.path.join(HERE, '..'))
sys.path.insert(0, os.path.join(ROOT, 'tests', 'cluster'))

from cluster import Cluster, wait_until  # noqa: E402
from fake_node import FakeNode, Raw  # noqa: E402

import hasp  # noqa: E402
import hasp.aio  # noqa: E402


@pytest.fixture(scope='module')
def cluster():
    with Cluster(3) as nodes:
        nodes.leader()
        yield nodes


@pytest.fixture
def nodes(cluster):
    return ','.join(f'127.0.0.1:{node.client_port}' for node in cluster.nodes)


@pytest.fixture
def session(nodes):
    with hasp.Session(nodes) as one:
        yield one


@pytest.fixture
def other(nodes):
    with hasp.Session(nodes) as one:
        yield one


def in_thread(action):
    """Runs it, and gives a function that waits for its result."""
    told = []
    thread = threading.Thread(target=lambda: told.append(action()))
    thread.start()

    def result():
        thread.join(20)
        return told[0]

    return result


def queue_of(session, name):
    return session.ask('LOCK.SHOW', name)['queue']


# --- on_grant ---------------------------------------------------------------


def is_free(session, name):
    return session.ask('LOCK.SHOW', name)['holders'] == []


def test_a_seal_that_is_interrupted_gives_the_lock_back(session, other):
    def hook(name, token):
        raise KeyboardInterrupt

    lock = session.lock('sealed', on_grant=hook)
    with pytest.raises(KeyboardInterrupt):
        lock.acquire()
    assert lock.token is None
    wait_until(lambda: is_free(other, 'sealed'), 10, 'the release')
    with pytest.raises(KeyboardInterrupt), lock:
        pass
    wait_until(lambda: is_free(other, 'sealed'), 10, 'the release')


def test_a_block_begins_after_its_seal(session, other):
    told = []
    lock = session.lock('sealed', on_grant=lambda *grant: told.append(grant))
    with lock:
        assert told == [('sealed', lock.token)]
    told.clear()
    leader = hasp.Election(session, 'sealed', value='me',
                           on_grant=lambda *grant: 1 / 0)
    with pytest.raises(hasp.SealFailed, match='division') as found, leader:
        told.append('inside')
    assert isinstance(found.value.__cause__, ZeroDivisionError)
    assert not told and is_free(other, 'sealed')
    with pytest.raises(TypeError, match='on_grant'):
        session.lock('sealed', on_grant='seal.sh')


def test_asyncio_cancels_a_seal_at_its_limit(nodes, other):
    """And with the task that waits for the lock."""
    async def run():
        entered = []
        began, ended = asyncio.Event(), asyncio.Event()

        async def hang(name, token):
            began.set()
            try:
                await asyncio.sleep(60)
            finally:
                ended.set()

        async with hasp.aio.Session(nodes) as session:
            lock = session.lock('sealed', on_grant=hang, seal_time=0.2)
            with pytest.raises(hasp.SealFailed, match='longer than 0.200 s'):
                async with lock:
                    entered.append('inside')
            await asyncio.wait_for(ended.wait(), 10)
            assert lock.token is None and not entered
            began.clear()
            task = asyncio.ensure_future(
                session.lock('sealed', on_grant=hang).acquire())
            await asyncio.wait_for(began.wait(), 10)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            told = []
            async with session.lock(  # A function that is no coroutine.
                    'sealed', on_grant=lambda *grant: told.append(grant)) as held:
                assert told == [('sealed', held.token)]

    asyncio.run(run())
    assert is_free(other, 'sealed')


# --- as threading.Lock ----------------------------------------------------


def test_a_lock_is_used_as_one_of_threading(session, other):
    lock = session.lock('manners')
    assert not lock.locked() and 'not held' in repr(lock)
    assert lock.acquire(blocking=False) and lock.locked()
    assert str(lock.token) in repr(lock) and "'manners'" in repr(lock)
    assert not other.lock('manners').acquire(False)
    assert not other.lock('manners').acquire(True, 0.05)
    with pytest.raises(hasp.TimedOut, match='0.05 s'):
        with other.lock('manners', timeout=0.05):
            pytest.fail('it is not free')
    assert issubclass(hasp.TimedOut, TimeoutError)
    lock.release()
    with pytest.raises(hasp.NotHeld):
        lock.release()
    with other.lock('manners', timeout=5) as held:
        assert held.locked()
    assert session.name in repr(session) and 'held' in repr(session)


def test_threads_that_share_a_lock_exclude_each_other(session):
    lock, inside, most = session.lock('shared object'), [], []

    def work():
        for _ in range(5):
            with lock:
                inside.append(1)
                most.append(len(inside))
                time.sleep(0.01)
                inside.pop()
        return True

    threads = [in_thread(work) for _ in range(4)]
    assert all(wait() for wait in threads)
    assert most == [1] * 20
    assert lock.acquire() and not lock.acquire(False)
    assert not lock.acquire(timeout=0.05)
    waiting = in_thread(lock.acquire)
    wait_until(lambda: lock._waits, 5, 'it waits')
    assert lock.cancel() and waiting() is False
    assert lock.locked()


def test_a_wait_tells_its_place(session, other):
    with session.lock('place'):
        first, second = other.lock('place'), other.lock('place')
        assert first.place() is None
        waiting = [in_thread(first.acquire)]
        wait_until(lambda: first.place() == 1, 5, 'the first one waits')
        waiting.append(in_thread(second.acquire))
        wait_until(lambda: second.place() == 2, 5, 'the second one waits')
        first.cancel()
        wait_until(lambda: second.place() == 1, 5, 'it is the next')
        second.cancel()
        assert [wait() for wait in waiting] == [False, False]
        wait_until(lambda: not queue_of(session, 'place'), 5, 'nobody waits')


PROGRAM = '''
import hasp, sys
session = hasp.Session(ttl=60)
print('waiting', flush=True)
try:
    session.lock('ctrl-c').acquire()
except KeyboardInterrupt:
    print('interrupted', flush=True)
    sys.stdin.readline()
'''


def test_ctrl_c_leaves_no_waiter(session, nodes):
    """The session lives on, and is not waited for."""
    environment = dict(os.environ, HASP_ENDPOINTS=nodes,
                       PYTHONPATH=os.path.join(HERE, '..'))
    with session.lock('ctrl-c'):
        program = subprocess.Popen(
            [sys.executable, '-c', PROGRAM], env=environment, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        with program:
            assert program.stdout.readline() == 'waiting\n'
            wait_until(lambda: queue_of(session, 'ctrl-c'), 10, 'it waits')
            program.send_signal(signal.SIGINT)
            assert program.stdout.readline() == 'interrupted\n'
            wait_until(lambda: not queue_of(session, 'ctrl-c'), 5,
                       'nobody waits')
            assert program.poll() is None
            program.communicate('end\n')


def test_an_interruption_at_the_grant_gives_it_back(session, other):
    """It came when the lock was ours, and acquire() had not returned."""
    lock = session.lock('late')
    run = session._loop.run

    def interrupted(call):
        run(call)
        session._left(call)
        raise KeyboardInterrupt

    session._loop.run = interrupted
    try:
        with pytest.raises(KeyboardInterrupt):
            lock.acquire()
    finally:
        session._loop.run = run
    assert other.lock('late').acquire(timeout=5)


# --- events ---------------------------------------------------------------


def test_a_loss_is_told_also_when_the_session_is_closed_at_once(nodes):
    for _ in range(5):
        events = []
        with hasp.Session(nodes, on_event=events.append) as session:
            session._lease.refuse()  # As an answer that came just now.
        assert [event.kind for event in events] == ['lost']

    async def run():
        async with hasp.aio.Session(nodes, on_event=events.append) as session:
            session._lease.refuse()

    events = []
    asyncio.run(run())
    assert [event.kind for event in events] == ['lost']


def test_an_end_in_order_tells_no_loss(nodes):
    events = []
    with hasp.Session(nodes, on_event=events.append) as session:
        with session.lock('in order'):
            pass
    assert events == []


def test_a_callback_of_asyncio_may_be_a_coroutine(nodes):
    async def run():
        told = asyncio.Event()

        async def on_event(event):
            assert event.kind == 'lost'
            told.set()

        async with hasp.aio.Session(nodes, on_event=on_event) as session:
            session._refuse('for the test')
            await asyncio.wait_for(told.wait(), 5)

    asyncio.run(run())


@pytest.mark.parametrize('options', [{}, {'hold': 0.5}])
def test_the_task_inside_is_cancelled_on_loss(nodes, other, options):
    async def run():
        async with hasp.aio.Session(nodes, ttl=60) as session:
            lock = session.lock(f'inside {options}', cancel_on_loss=True,
                                **options)
            with pytest.raises(hasp.LeaseLost):
                async with lock:
                    if not options:
                        session._lease.refuse()
                        session._changed()
                    await asyncio.sleep(30)
                    pytest.fail('it was not cancelled')
            await asyncio.sleep(0)  # No cancellation is left behind.
        async with hasp.aio.Session(nodes) as session:
            async with session.lock('inside', cancel_on_loss=True):
                pass
            with pytest.raises(KeyError):
                async with session.lock('inside', cancel_on_loss=True):
                    raise KeyError('mine')

    asyncio.run(run())


# --- more than one lock ---------------------------------------------------


def test_several_locks_are_acquired_at_once(session, other):
    with session.lock('from', 'to') as both:
        assert set(both.tokens) == {'from', 'to'}
        assert both.token == both.tokens['from']
        both.guard(1)
        assert not other.lock('to').acquire(False)
        assert not other.lock('free', 'from').acquire(False)
        with other.lock('free'):
            pass
    with other.lock('to', 'from', timeout=5) as both:
        assert session.ask('LOCK.RELEASEIF', 'to', 'OWNER', both._owner.tag,
                           'TOKEN', both.tokens['to']) == 1
        with pytest.raises(hasp.NotHeld, match='only 1'):
            both.release()
        assert both.acquire(False)
    with pytest.raises(TypeError, match='name'):
        session.lock()


@pytest.mark.parametrize('wrong, says', [
    ({'ttl': 0}, 'ttl=0'), ({'ttl': '10'}, 'ttl='), ({'linger': -1}, 'linger=-1'),
    ({'timeout': 0}, 'timeout=0'), ({'timeout': None}, 'timeout=None'),
    ({'ttl': float('nan')}, 'ttl=nan'), ({'alive': -1}, 'alive=-1'),
    ({'endpoints': []}, 'names no node'), ({'endpoints': [7420]}, 'names no node'),
    ({'endpoints': 'redis://a:1'}, 'host:port')])
def test_what_no_session_can_mean_is_refused(wrong, says):
    with pytest.raises(ValueError, match=says):
        hasp.Session(**wrong)


def test_what_no_lock_can_mean_is_refused(session, tmp_path):
    with pytest.raises(ValueError, match='slots=0'):
        hasp.Semaphore(session, 'none', 0).slot()
    with pytest.raises(TypeError, match='a command'):
        session.ask()
    with pytest.raises(ValueError, match='use close'):
        session.ask('session.close')
    with pytest.raises(FileNotFoundError, match='ca.crt.*hasp cert user'):
        hasp.Session(tls=str(tmp_path))
    with pytest.raises(hasp.Unreachable, match=r'\[::1\]:1: '):
        hasp.Session(' [::1]:1 ', timeout=0.1)


def test_a_hold_is_converted_both_ways(session, other):
    lock, reader = session.lock('mode'), other.lock('mode', shared=True)
    with pytest.raises(hasp.NotHeld):
        lock.convert(shared=True)
    assert lock.acquire(False) and not lock.shared
    first = lock.token
    assert not reader.acquire(False)
    assert lock.convert(shared=True) and lock.shared and lock.token == first
    assert reader.acquire(False)
    assert not lock.convert(shared=False, blocking=False) and lock.shared
    assert not lock.convert(shared=False, timeout=0.05) and lock.shared
    converting = in_thread(lambda: lock.convert(shared=False))
    wait_until(lambda: queue_of(session, 'mode'), 5, 'it waits')
    with pytest.raises(hasp.Refused) as refused:
        reader.convert(shared=False)
    assert refused.value.code == 'DEADLOCK'
    reader.release()
    assert converting() and not lock.shared and lock.token > first
    lock.release()
    assert not lock.locked() and reader.acquire(False)


def test_a_conversion_that_nobody_heard_of_is_taken_back(session, other):
    session.timeout = 0.3
    request = session._request

    async def lose_the_answer(words, *rest, **more):
        await request(words, *rest, **more)
        raise hasp.Unknown('lost on the way')

    with session.lock('unheard', shared=True) as lock:
        session._request = lose_the_answer
        with pytest.raises(hasp.Unknown):
            lock.convert(shared=False)
        session._request = request
        assert lock.shared and lock.locked()
        assert other.lock('unheard', shared=True).acquire(timeout=10)
        assert session.ask('LOCK.CHECK', 'unheard', lock.token) == 1


def test_an_owner_that_waits_twice_holds_twice(session, other):
    one, two = (session.lock('twice', owner='me') for _ in range(2))
    with other.lock('twice'):
        waits = [in_thread(one.acquire), in_thread(two.acquire)]
        wait_until(lambda: queue_of(session, 'twice'), 5, 'it waits')
        assert not session.lock('twice', owner='me').acquire(False)
        time.sleep(0.1)
    assert all(wait() for wait in waits)
    one.release()
    with ThreadPoolExecutor() as pool:  # Each try is of its own.
        tries = [session.lock('twice', owner='me') for _ in range(4)]
        assert all(pool.map(lambda lock: lock.acquire(False), tries))
    for lock in tries:
        lock.release()
    assert session.ask('LOCK.CHECK', 'twice', two.token) == 1
    assert not other.lock('twice').acquire(False)
    two.release()
    assert other.lock('twice').acquire(False)


def test_a_cancelled_wait_takes_nothing_from_its_owner():
    """It was granted when no caller waited for it. Its owner asks again only
    after it has been released."""
    def answer(words):
        if words[0] == b'LOCK.ACQUIRE' and b'WAIT' not in words:
            time.sleep(0.3)
            return 99
        return {b'SESSION.OPEN': {'id': 7, 'ttl_ms': 60000, 'linger_ms': 0},
                b'LOCK.ACQUIRE': 100 if b'3' in words else Raw(b'+QUEUED 8\r\n'),
                b'LOCK.RELEASE': 0}.get(words[0], 'OK')

    with FakeNode(answer) as node, hasp.Session(node.endpoint) as one:
        first, second = (one.lock('a', owner='me') for _ in range(2))
        waiting = in_thread(first.acquire)
        wait_until(lambda: len(node.requests) == 2, 5, 'it waits')
        assert first.cancel()
        assert second.acquire(timeout=10) and second.token == 100
        assert waiting() is False and not first.locked()
        assert [(words[0], words[words.index(b'REQ') + 1])
                for words in node.requests[1:]] == [
            (b'LOCK.ACQUIRE', b'1'), (b'LOCK.ACQUIRE', b'1'),
            (b'LOCK.RELEASE', b'2'), (b'LOCK.ACQUIRE', b'3')]


# --- what is built from locks ---------------------------------------------


def test_readers_read_together_and_a_writer_writes_alone(session, other):
    mine = hasp.ReadWriteLock(session, 'rw')
    theirs = hasp.ReadWriteLock(other, 'rw', timeout=0.05)
    with mine.read(), theirs.read():
        with pytest.raises(hasp.TimedOut):
            theirs.write().__enter__()
    with mine.write() as lock:
        assert lock.token
        with pytest.raises(hasp.TimedOut):
            theirs.read().__enter__()


def test_threads_share_a_semaphore(session, other):
    semaphore = hasp.Semaphore(session, 'slots', 2)
    rest = hasp.Semaphore(other, 'slots', 2)
    inside, most = [], []

    def work():
        for _ in range(5):
            with semaphore.slot() as slot:
                slot.guard(1)
                inside.append(1)
                most.append(len(inside))
                time.sleep(0.01)
                inside.pop()
        return True

    assert all([wait() for wait in [in_thread(work) for _ in range(4)]])
    assert max(most) == 2
    with rest.slot(), semaphore.slot():
        assert not rest.slot().acquire(timeout=0.05)

    async def the_same(nodes):
        async with hasp.aio.Session(nodes) as one:
            slots = hasp.aio.Semaphore(one, 'aio slots', 2)
            async with slots.slot(), slots.slot() as slot:
                slot.guard(1)
                assert not await slots.slot().acquire(False)
            async with slots.slot():
                pass

    asyncio.run(the_same(','.join(
        f'{host}:{port}' for host, port in session.endpoints)))


def test_a_leader_is_observed(cluster, session, other):
    one = hasp.Election(session, 'lead', value='one')
    two = hasp.Election(other, 'lead', value='two')
    assert two.leader() is None
    seen = []

    def observe():
        for leader in two.observe():
            seen.append(leader and leader.value)
            if seen[-1] == 'two':
                return True

    watching = in_thread(observe)
    wait_until(lambda: seen == [None], 5, 'nobody leads')
    with one as lead:
        assert two.leader() == ('one', lead.token, session.name)
        wait_until(lambda: seen[-1] == 'one', 5, 'it is notified')
        waiting = in_thread(two.acquire)
        wait_until(lambda: two.place() == 1, 5, 'the other one waits')
    assert waiting() and watching()
    assert seen[0] is None and seen[-1] == 'two'


def test_changes_are_watched_across_nodes(cluster, nodes, session):
    with hasp.Session(nodes) as watcher:
        watch = watcher.watch('w/')
        seen = []
        watching = in_thread(lambda: [seen.append(each) for each in watch])
        wait_until(lambda: watch._line and not watch._line.is_busy(), 5,
                   'it watches')
        with session.lock('w/1') as lock, session.lock('elsewhere'):
            token = lock.token
        wait_until(lambda: len(seen) == 2, 5, 'both are notified')
        assert [(one.kind, one.name, one.token) for one in seen] == [
            ('granted', 'w/1', token), ('released', 'w/1', token)]
        assert seen[0].index < seen[1].index
        assert seen[0].session == int(session.id)
        line = watch._line
        watcher._loop._loop.call_soon_threadsafe(line.close)
        wait_until(lambda: watch._line is not line
                   and not watch._line.is_busy(), 5, 'it watches again')
        with session.lock('w/2'):
            pass
        wait_until(lambda: len(seen) == 5, 5, 'it continues')
        assert [one.kind for one in seen[2:]] == ['gap', 'granted', 'released']
        watch.close()
        watching()

    async def the_same():
        async with hasp.aio.Session(nodes) as one:
            watch, seen = one.watch('aio/'), []

            async def look():
                async for change in watch:
                    seen.append(change.kind)
                    if change.kind == 'released':
                        watch.close()

            looking = asyncio.create_task(look())
            while not watch._line or watch._line.is_busy() or \
                    not watch._line.on_push:
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.2)
            async with one.lock('aio/1'):
                pass
            await asyncio.wait_for(looking, 10)
            assert seen == ['granted', 'released']

    asyncio.run(the_same())


def test_a_session_that_is_closed_ends_the_waits_in_it(nodes, session):
    with session.lock('closing'):
        one = hasp.Session(nodes)

        def wait():
            try:
                return one.lock('closing').acquire()
            except hasp.LeaseLost as lost:
                return str(lost)

        waiting = in_thread(wait)
        wait_until(lambda: queue_of(session, 'closing'), 5, 'it waits')
        one.close()
        one.close()
        assert 'closed' in waiting() or 'ended' in waiting()
        with pytest.raises(hasp.LeaseLost, match='closed'):
            one.lock('closing').acquire()
